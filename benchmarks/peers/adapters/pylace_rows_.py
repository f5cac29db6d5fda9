"""pylace as a generator: every column that misses cells is declared missing not at random, and rows are simulated.

So a missing cell is a value of its column like any other, and may depend on all columns. There are no complete rows to
be had. Chains and steps as in pylace_.py.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from generated import MANY_ROWS, Generated, run
from lace import Codebook, Engine
from pylace_ import STEPS, read, table
from task import Task, timed


def fitted(task: Task) -> Engine:
    frame = table(task)
    codebook = Codebook.from_df("table", frame)
    for j in np.flatnonzero(np.isnan(task.train).any(axis=0)):
        column = codebook.column_metadata[f"x{j}"]
        codebook.column_metadata[f"x{j}"] = column.missing_not_at_random(True)
    engine = Engine.from_df(frame, codebook=codebook, rng_seed=task.seed)
    engine.update(STEPS, quiet=True)
    return engine


def generate(task: Task) -> Generated:
    part = task.varying()
    engine, seconds = timed(fitted, part)
    rows, seconds_rows = timed(engine.simulate, [f"x{j}" for j in range(len(part.names))], n=MANY_ROWS)
    columns = [
        [np.nan if value is None else read(part, j, value) for value in rows[f"x{j}"]] for j in range(len(part.names))
    ]
    out = np.empty((MANY_ROWS, len(task.names)))
    out[:, task.varies()] = np.array(columns).T
    for j in np.flatnonzero(~task.varies()):  # a constant, missing as often as it was
        seen = task.train[~np.isnan(task.train[:, j]), j]
        gone = np.random.default_rng(task.seed).random(MANY_ROWS) < np.isnan(task.train[:, j]).mean()
        out[:, j] = np.where(gone, np.nan, seen[0] if len(seen) else np.nan)
    return Generated(f"pylace {version('pylace')}", seconds, seconds_rows, out)


if __name__ == "__main__":
    run(generate)
