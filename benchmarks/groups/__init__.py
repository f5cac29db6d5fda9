"""Rows that belong together, and rows that count for more than others."""
