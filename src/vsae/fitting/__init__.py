"""From columns and a mask to a fitted model."""
