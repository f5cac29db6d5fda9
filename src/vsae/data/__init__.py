"""Rows with missing cells: schema, batches, units, masks."""
