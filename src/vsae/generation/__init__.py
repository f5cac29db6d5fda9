"""New rows, their conditions, marginals and distance to real ones."""
