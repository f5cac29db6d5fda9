"""Ours as multiple imputation: `draw`, and `predict_proba` for categories."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from drawn import Drawn, run
from task import Task, timed
from vsae_imputer import imputer_for

import vsae
from vsae import VSAEImputer
from vsae.fitting.presets import Effort


def draw(task: Task, number: int, effort: Effort) -> Drawn:
    imputer = imputer_for(task, effort)

    def fit() -> np.ndarray:
        imputer.fit(task.frame("train"))
        return drawn(task, imputer, "train", number)

    train, seconds = timed(fit)
    version = f"vsae {vsae.__version__}"
    if not len(task.new):
        return Drawn(version, seconds, train)
    new = drawn(task, imputer, "new", number)
    return Drawn(version, seconds, train, new, *(probabilities(task, imputer, part) for part in ("train", "new")))


def drawn(task: Task, imputer: VSAEImputer, part: str, number: int) -> np.ndarray:
    return np.stack([task.array(frame) for frame in imputer.draw(task.frame(part), number)])


def probabilities(task: Task, imputer: VSAEImputer, part: str) -> np.ndarray:
    """(rows, levels of all discrete columns side by side); 0 for a level the model has never seen."""
    has_levels = hasattr(imputer, "predict_proba")
    of_columns: dict[Any, dict[Any, np.ndarray]] = imputer.predict_proba(task.frame(part)) if has_levels else {}
    nothing = np.zeros(len(task.part(part)))
    columns = [
        of_columns.get(str(name), {}).get(level, nothing)
        for name, levels in zip(task.names, task.levels, strict=True)
        for level in range(levels)
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(nothing), 0))


if __name__ == "__main__":
    effort, *rest = sys.argv[1:]
    run(partial(draw, effort=effort), rest)
