"""From a trained model to filled cells: point estimates, draws, intervals."""
