"""What the project measures of itself; `python -m benchmarks` lists it. No part of what is installed."""
