"""`python -m benchmarks NAME …`: benchmarks on plain arrays, where typer, rich and narwhals may be absent."""

from __future__ import annotations

import sys

from benchmarks import ablation, scaling, sizes
from benchmarks.calibration import rubin
from benchmarks.calibration import runner as calibration
from benchmarks.generation import conditions
from benchmarks.generation import runner as generation
from benchmarks.paper import runner as paper
from benchmarks.peers import runner as peers

BENCHMARKS = {
    "ablation": ablation.main,
    "calibration": calibration.BENCH.main,
    "conditions": conditions.main,
    "generation": generation.BENCH.main,
    "paper": paper.main,
    "peers": peers.main,
    "rubin": rubin.main,
    "scaling": scaling.main,
    "sizes": sizes.main,
}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in BENCHMARKS:
        sys.exit(f"usage: python -m benchmarks {{{','.join(BENCHMARKS)}}} [options]")
    BENCHMARKS[sys.argv[1]](sys.argv[2:])
