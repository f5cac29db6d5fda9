"""The paper's experiments: every method on every table, one JSON row a run, and the page made of the rows."""
