"""`python -m vsae.benchmark NAME …`: benchmarks on plain arrays, where typer, rich and narwhals may be absent."""

from __future__ import annotations

import sys

from vsae.benchmark import ablation, scaling, sizes
from vsae.benchmark.calibration import rubin
from vsae.benchmark.calibration import runner as calibration
from vsae.benchmark.generation import conditions
from vsae.benchmark.generation import runner as generation
from vsae.benchmark.paper import runner as paper
from vsae.benchmark.peers import runner as peers

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
        sys.exit(f"usage: python -m vsae.benchmark {{{','.join(BENCHMARKS)}}} [options]")
    BENCHMARKS[sys.argv[1]](sys.argv[2:])
