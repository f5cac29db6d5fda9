"""Ours and other imputers on tables of several sizes, in one run and on the same threads."""
