"""MIDAS2 (midasverse-midas) as multiple imputation: its draws, made and scaled as in `midas2_.py`."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from drawn import Drawn, run
from midas2_ import Network
from task import Task, timed


def draw(task: Task, number: int) -> Drawn:
    part = task.varying()
    network = Network(part)

    def widened(which: str) -> np.ndarray:
        return np.stack([task.widened(which, x) for x in network.draws(which, number)])

    def fit() -> np.ndarray:
        network.fit()
        return widened("train")

    train, seconds = timed(fit)
    new = widened("new") if len(task.new) else None
    return Drawn(f"midasverse-midas {version('midasverse-midas')}", seconds, train, new)


if __name__ == "__main__":
    run(draw)
