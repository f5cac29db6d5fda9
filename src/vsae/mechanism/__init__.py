"""Why cells are missing: what masks depend on, and what follows for the cells they hide."""
