"""The mean of a number, the most frequent level of a category: what every other method has to beat."""

from __future__ import annotations

import numpy as np
from task import Answer, Task, run, timed


def centre(task: Task) -> np.ndarray:
    """(p,) the mean or mode of the observed training cells; 0 where there are none."""

    def of(x: np.ndarray, levels: int) -> float:
        seen = x[~np.isnan(x)]
        if levels:
            return float(np.bincount(seen.astype(int), minlength=levels).argmax())
        return float(seen.mean()) if len(seen) else 0.0

    return np.array([of(x, levels) for x, levels in zip(task.train.T, task.levels, strict=True)])


def impute(task: Task) -> Answer:
    def fill(part: str, values: np.ndarray) -> np.ndarray:
        given = task.part(part)
        return np.where(np.isnan(given), values, given)

    values, fit = timed(centre, task)
    train, first = timed(fill, "train", values)
    new, second = timed(fill, "new", values)
    return Answer(f"numpy {np.__version__}", fit + first, train, second, new)


if __name__ == "__main__":
    run(impute)
