"""Analyses of several completed tables: one long table for other tools, regressions, pooled answers."""
