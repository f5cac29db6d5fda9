"""R's mice as multiple imputation: predictive mean matching ("pmm"), random forests ("rf"), a Bayesian linear
regression for numbers ("norm"), or what mice itself chooses ("default").

"pmm" is used for levels too, where it matches on their codes: mice's own choice for them, a multinomial regression,
took seven times as long on a small table. "pmm" and "rf" have more iterations than mice's own: in a chain, columns that
are missing together and nearly determine each other hardly move. Numbers are standardised, as it solves linear systems
in their units. New rows are imputed by the same regressions, which do not learn from them. One process of R draws for
all tasks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from drawn import Drawn, run_together
from task import Task

ITERATIONS = {"pmm": 10, "rf": 10, "norm": 5, "default": 5}
SCRIPT = Path(__file__).with_name("mice_draws.R")


def draw(tasks: Sequence[Task], number: int, method: str) -> list[Drawn]:
    with tempfile.TemporaryDirectory() as parent:
        folders = [Path(parent, str(i)) for i in range(len(tasks))]
        for task, folder in zip(tasks, folders, strict=True):
            folder.mkdir()
            _write(folder / "given.csv", task)
        each = [text for task, folder in zip(tasks, folders, strict=True) for text in (str(task.seed), str(folder))]
        command = ["Rscript", "--vanilla", str(SCRIPT), method, str(ITERATIONS[method]), str(number), *each]
        environment = {**os.environ, "R_RANGER_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise RuntimeError(" ".join(lines[-3:]))
        return [_read(folder, task, number) for task, folder in zip(tasks, folders, strict=True)]


def _units(part: Task) -> tuple[np.ndarray, np.ndarray]:
    """Mean and std of numbers; levels stay as they are."""
    mean = np.where(part.discrete, 0.0, np.nanmean(part.train, axis=0))
    return mean, np.where(part.discrete, 1.0, np.nanstd(part.train, axis=0))


def _write(path: Path, task: Task) -> None:
    part = task.varying()
    mean, scale = _units(part)
    names = [*(f"{'f' if discrete else 'n'}{j}" for j, discrete in enumerate(part.discrete)), "new"]
    values = (np.concatenate([part.train, part.new]) - mean) / scale
    is_new = np.repeat([0.0, 1.0], [len(part.train), len(part.new)])
    rows = np.column_stack([values, is_new])
    lines = [",".join("NA" if np.isnan(cell) else repr(float(cell)) for cell in row) for row in rows]
    path.write_text("\n".join([",".join(names), *lines, ""]))


def _read(folder: Path, task: Task, number: int) -> Drawn:
    mean, scale = _units(task.varying())
    tables = [np.genfromtxt(folder / f"{i}.csv", delimiter=",", skip_header=1) for i in range(1, number + 1)]
    version, seconds = ((folder / name).read_text().strip() for name in ("version.txt", "seconds.txt"))
    train, new = np.split(np.stack(tables) * scale + mean, [len(task.train)], axis=1)
    parts = {"train": train, "new": new}
    widened = [np.stack([task.widened(part, x) for x in draws]) for part, draws in parts.items()]
    return Drawn(f"mice {version}", float(seconds), *widened)


if __name__ == "__main__":
    method, *rest = sys.argv[1:]
    run_together(partial(draw, method=method), rest)
