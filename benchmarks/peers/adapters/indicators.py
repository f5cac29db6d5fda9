"""Categories as columns of 0 and 1, for peers that know numbers only."""

from __future__ import annotations

import numpy as np
from task import Task


class Indicators:
    """Rows with a column for each number and for each level but the most frequent of each category.

    >>> given = np.array([[0.5, 2.0], [1.5, 0.0], [2.5, 2.0]])
    >>> task = Task(given, given, np.array([False, True]), np.array([0, 3]), np.array(["x", "y"]), 0)
    >>> Indicators(task).of("train")
    array([[0.5, 0. ],
           [1.5, 1. ],
           [2.5, 0. ]])
    >>> Indicators(task).back(np.array([[0.7, 0.6]]))
    array([[0.7, 0. ]])
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.levels: list[np.ndarray] = []  # per column, the most frequent first; empty for numbers
        for x, discrete in zip(task.train.T, task.discrete, strict=True):
            levels, counts = np.unique(x[~np.isnan(x)], return_counts=True)
            self.levels.append(levels[np.argsort(-counts, kind="stable")] if discrete else levels[:0])
        widths = [max(len(levels) - 1, 1) for levels in self.levels]
        ends = np.cumsum(widths)
        self.at = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        self.at_levels = [i for j in np.flatnonzero(task.discrete) for i in range(ends[j])[self.at[j]]]

    def of(self, part: str) -> np.ndarray:
        columns = []
        for x, levels in zip(self.task.part(part).T, self.levels, strict=True):
            if not len(levels):
                columns.append(x[:, None])
                continue
            known = np.isin(x, levels)  # a level never seen before is a missing cell
            columns.append(np.where(known[:, None], x[:, None] == levels[1:], np.nan))
        return np.concatenate(columns, axis=1)

    def back(self, filled: np.ndarray) -> np.ndarray:
        """Numbers and codes again, from numbers and the probability (or something like it) of each level."""
        out = np.empty((len(filled), len(self.levels)))
        for j, (levels, at) in enumerate(zip(self.levels, self.at, strict=True)):
            x = filled[:, at]
            out[:, j] = levels[np.column_stack([1 - x.sum(axis=1), x]).argmax(axis=1)] if len(levels) else x[:, 0]
        return out
