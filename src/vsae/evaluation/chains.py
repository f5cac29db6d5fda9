"""Simple imputers to compare with: mean and mode, a chain of ridge regressions, boosted trees a column.

Tables are (n, M) floats, level codes included; `mask` is True where a cell is known, and `levels` (M,) is the number of
levels of a column, 0 for numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vsae.evaluation.metrics import mean_mode_fill

Numbers = NDArray[np.float64]
Bools = NDArray[np.bool_]
_SWEEPS = 3  # of the linear chain
_RIDGE = 30.0  # in standard units: with less, what is filled reinforces itself from sweep to sweep
_MOST_ROWS = 10_000  # that trees are grown on
_MOST_LEVELS = 255  # that trees split as levels; more are read as numbers
_ROUNDS, _TREES = 100, 400  # of boosting; a round has a tree a level, and all rounds together no more than that


def mean_mode(x: Numbers, mask: Bools, levels: NDArray[np.int64], seed: int = 0) -> Numbers:
    return mean_mode_fill(x, mask, levels > 0)


def linear_chain(x: Numbers, mask: Bools, levels: NDArray[np.int64], seed: int = 0) -> Numbers:
    """Ridge regressions of each column on all others, in turn, from the fewest missing cells to the most, and again.

    Levels are indicators, of which the largest is taken. What is filled stays in the range of what is known.

    >>> x = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [4.0, 8.0], [9.0, 0.0]] * 100)
    >>> filled = linear_chain(x, np.tile([[True, True]] * 4 + [[True, False]], (100, 1)), np.zeros(2, dtype=int))
    >>> round(float(filled[4, 1]), 6)  # not 18: no larger value is known
    8.0
    """
    from sklearn.linear_model import Ridge

    width = np.maximum(levels, 1)
    ends = np.cumsum(width)
    parts = [slice(end - size, end) for end, size in zip(ends, width, strict=True)]
    wide = np.empty((len(x), ends[-1]))
    for j, part in enumerate(parts):
        wide[:, part] = x[:, [j]] == np.arange(levels[j]) if levels[j] else x[:, [j]]
    shown = np.repeat(mask, width, axis=1)
    mean, scale = _moments(wide, shown)
    wide = np.where(shown, (wide - mean) / scale, 0.0)
    low, high = wide.min(axis=0), wide.max(axis=0)
    missing = (~mask).sum(axis=0)
    visited = [j for j in np.argsort(missing, kind="stable") if 0 < missing[j] < len(x)]
    for _ in range(_SWEEPS if x.shape[1] > 1 else 0):
        for j in visited:
            others, rows = np.delete(wide, parts[j], axis=1), mask[:, j]
            model = Ridge(alpha=_RIDGE).fit(others[rows], wide[rows, parts[j]])
            found = model.predict(others[~rows]).reshape(-1, width[j])
            wide[~rows, parts[j]] = np.clip(found, low[parts[j]], high[parts[j]])
    wide = wide * scale + mean
    filled = [wide[:, part].argmax(axis=1) if levels[j] else wide[:, part.start] for j, part in enumerate(parts)]
    return np.where(mask, x, np.stack(filled, axis=1))


def boosted_trees(x: Numbers, mask: Bools, levels: NDArray[np.int64], seed: int = 0) -> Numbers:
    """scikit-learn's boosted trees of each column on all others, which read missing cells as such: once is enough."""
    rng = np.random.default_rng(seed)
    given, filled = np.where(mask, x, np.nan), mean_mode(x, mask, levels)
    coded = (levels > 0) & (levels <= _MOST_LEVELS)
    for j in np.flatnonzero(~mask.all(axis=0)) if x.shape[1] > 1 else ():
        rows = rng.permutation(np.flatnonzero(mask[:, j]))[:_MOST_ROWS]
        if len(rows) and np.ptp(x[rows, j]) > 0:
            model = _booster(len(np.unique(x[rows, j])) if levels[j] else 0, np.delete(coded, j), seed)
            others = np.delete(given, j, axis=1)
            filled[~mask[:, j], j] = model.fit(others[rows], x[rows, j]).predict(others[~mask[:, j]])
    return filled


def _booster(levels: int, coded: Bools, seed: int):  # type: ignore[no-untyped-def]  # scikit-learn has no types
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if levels else HistGradientBoostingRegressor
    rounds = min(_ROUNDS, max(1, _TREES // levels)) if levels > 2 else _ROUNDS
    return kind(max_iter=rounds, categorical_features=coded, early_stopping=False, random_state=seed)


def _moments(x: Numbers, mask: Bools) -> tuple[Numbers, Numbers]:
    """Mean and std of the known cells, (W,); the std is 1 where they are all the same."""
    count = np.maximum(mask.sum(axis=0), 1)
    mean = np.where(mask, x, 0.0).sum(axis=0) / count
    std = np.sqrt(np.where(mask, (x - mean) ** 2, 0.0).sum(axis=0) / count)
    return mean, np.where(std > 0, std, 1.0)


#: By the name that tables of results have for them.
CHAINS: dict[str, Callable[[Numbers, Bools, NDArray[np.int64], int], Numbers]] = {
    "mean/mode": mean_mode,
    "linear": linear_chain,
    "trees": boosted_trees,
}
