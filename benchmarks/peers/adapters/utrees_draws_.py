"""UnmaskingTrees (utrees) as multiple imputation, at its defaults."""

from __future__ import annotations

import os
from importlib.metadata import version

import numpy as np
from drawn import Drawn, run
from task import Task, timed
from utrees import UnmaskingTrees


def draw(task: Task, number: int) -> Drawn:
    part = task.varying()
    kinds = ["categorical" if discrete else "continuous" for discrete in part.discrete]
    threads = {"nthread": int(os.environ.get("OMP_NUM_THREADS", "1"))}

    def fit() -> np.ndarray:
        model = UnmaskingTrees(xgboost_kwargs=threads, random_state=task.seed)
        return model.fit(part.train.copy(), quantize_cols=kinds).impute(n_impute=number)

    tables, seconds = timed(fit)
    return Drawn(f"utrees {version('utrees')}", seconds, np.stack([task.widened("train", x) for x in tables]))


if __name__ == "__main__":
    run(draw)
