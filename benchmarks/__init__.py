"""Measurements that stay in the project; `python -m benchmarks NAME` runs one on plain arrays."""
