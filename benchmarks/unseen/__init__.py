"""Tables that nothing was chosen on: drawn by lot from those of R's packages, after the settings stood."""
