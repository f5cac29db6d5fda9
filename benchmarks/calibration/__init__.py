"""Are draws as spread as what they stand for? Intervals, probabilities, and a regression pooled over draws."""
