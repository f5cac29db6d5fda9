"""Measurements that stay in the project; `python -m vsae.benchmark NAME` runs one on plain arrays."""
