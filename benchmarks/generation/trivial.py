"""What generators stand between: columns that know nothing of one another, and the training rows once more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.generation.tasks import Reality

Rows = NDArray[np.float64]


def independent(real: Reality, number: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Incomplete and complete: each column drawn anew from its observed cells, and missing at its rate."""
    columns = real.given.train.T
    complete = np.stack([rng.choice(_observed(x), number) for x in columns], axis=1)
    rate = np.isnan(real.given.train).mean(axis=0)
    return np.where(rng.random(complete.shape) < rate, np.nan, complete), complete


def real_rows(real: Reality, number: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """The training rows, shuffled, again and again: as they were given, and with the cells that were hidden.

    Not drawn with replacement: a classifier that is shown some rows twice tells them from real ones by that.
    """
    passes = -(-number // len(real.train))
    at = np.concatenate([rng.permutation(len(real.train)) for _ in range(passes)])[:number]
    return real.given.train[at], _filled(real.train, rng)[at]


def _observed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    seen = x[~np.isnan(x)]
    return seen if len(seen) else np.zeros(1)


def _filled(x: Rows, rng: np.random.Generator) -> Rows:
    """Cells that no one knows, of which adult has some, are drawn from their column."""
    drawn = np.stack([rng.choice(_observed(column), len(x)) for column in x.T], axis=1)
    return np.where(np.isnan(x), drawn, x)
