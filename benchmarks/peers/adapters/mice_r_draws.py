"""R's mice as multiple imputation: predictive mean matching ("pmm") or random forests ("rf").

pmm is used for levels too, where it matches on their codes: mice's own choice for them, a multinomial regression, took
seven times as long on a small table. The iterations are more than mice's 5: in a chain, columns that are missing
together and nearly determine each other hardly move. Numbers are standardised, as it solves linear systems in their
units.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from drawn import Drawn, run
from task import Task, timed

ITERATIONS = 10
SCRIPT = Path(__file__).with_name("mice_draws.R")


def draw(task: Task, number: int, method: str) -> Drawn:
    part = task.varying()
    names = [f"{'f' if discrete else 'n'}{j}" for j, discrete in enumerate(part.discrete)]
    mean = np.where(part.discrete, 0.0, np.nanmean(part.train, axis=0))
    scale = np.where(part.discrete, 1.0, np.nanstd(part.train, axis=0))
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder, "given.csv"), names, (part.train - mean) / scale)
        command = [
            "Rscript",
            "--vanilla",
            str(SCRIPT),
            method,
            str(ITERATIONS),
            str(number),
            str(task.seed),
            folder,
        ]
        environment = {**os.environ, "R_RANGER_NUM_THREADS": "1"}
        done, seconds = timed(subprocess.run, command, env=environment, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise RuntimeError(" ".join(lines[-3:]))
        tables = [np.genfromtxt(Path(folder, f"{i}.csv"), delimiter=",", skip_header=1) for i in range(1, number + 1)]
        version = Path(folder, "version.txt").read_text().strip()
    return Drawn(f"mice {version}", seconds, np.stack([task.widened("train", x * scale + mean) for x in tables]))


def _write(path: Path, names: list[str], x: np.ndarray) -> None:
    lines = [",".join("NA" if np.isnan(cell) else repr(float(cell)) for cell in row) for row in x]
    path.write_text("\n".join([",".join(names), *lines, ""]))


if __name__ == "__main__":
    method, *rest = sys.argv[1:]
    run(partial(draw, method=method), rest)
