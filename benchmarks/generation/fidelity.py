"""How far generated rows are from real ones: associations, columns, missing cells, and whether they are copies.

Rows are (n, p) floats with NaN for missing cells; `levels` (p,) is 0 for numbers and else the number of codes.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.generation.privacy import nearest

Rows = NDArray[np.float64]
Levels = NDArray[np.int64]


# --- associations


def associations(x: Rows, levels: Levels) -> NDArray[np.float64]:
    """(pairs,) for columns j < k, over the rows that have both.

    Pearson's r of two numbers, in [-1, 1]; Cramér's V of two categories and the correlation ratio of a number in the
    groups of a category, in [0, 1]. The last two are corrected for the association that chance alone would show, of
    which incomplete rows, having fewer pairs, would show more.

    >>> x = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 2.0], [0.0, 0.0, 1.0], [1.0, 1.0, 2.0]])
    >>> associations(x, np.array([2, 2, 0])).round(3)
    array([1., 1., 1.])
    """
    pairs = itertools.combinations(range(x.shape[1]), 2)
    return np.array([_association(*_complete(x[:, j], x[:, k]), levels[j], levels[k]) for j, k in pairs])


def association_error(real: Rows, synthetic: Rows, levels: Levels, names: NDArray[np.str_]) -> dict[str, Any]:
    """The mean and the largest difference over pairs of columns, and the pair where it is the largest."""
    difference = np.abs(associations(real, levels) - associations(synthetic, levels))
    pair = list(itertools.combinations(map(str, names), 2))[int(difference.argmax())]
    return {"mean": float(difference.mean()), "worst": float(difference.max()), "worst_pair": pair}


def _complete(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    both = ~(np.isnan(a) | np.isnan(b))
    return a[both], b[both]


def _association(a: NDArray[np.float64], b: NDArray[np.float64], of_a: int, of_b: int) -> float:
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    if of_a and of_b:
        return cramers_v(a, b)
    if of_a or of_b:
        return correlation_ratio(a, b) if of_b else correlation_ratio(b, a)
    return float(np.corrcoef(a, b)[0, 1])


def cramers_v(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Bergsma's (2013): φ² less its expectation for independent columns, by as many levels as are left."""
    (of_a, row), (of_b, column) = (np.unique(x, return_inverse=True) for x in (a, b))
    table = np.bincount(row * len(of_b) + column, minlength=len(of_a) * len(of_b)).reshape(len(of_a), len(of_b))
    n = len(a)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    phi2 = ((table - expected) ** 2 / expected).sum() / n
    r, k = table.shape
    left = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    corrected = max(0.0, phi2 - (r - 1) * (k - 1) / (n - 1))
    return float(np.sqrt(min(corrected / left, 1.0))) if left > 0 else 0.0


def correlation_ratio(number: NDArray[np.float64], category: NDArray[np.float64]) -> float:
    """ε: the root of the share of the number's variance that lies between groups, less what chance puts there."""
    _, group, sizes = np.unique(category, return_inverse=True, return_counts=True)
    if len(number) <= len(sizes):
        return 0.0
    means = np.bincount(group, weights=number) / sizes
    within = ((number - means[group]) ** 2).sum() / (len(number) - len(sizes))
    return float(np.sqrt(max(0.0, 1 - within / number.var(ddof=1))))


# --- columns


def marginal_distances(real: Rows, synthetic: Rows, levels: Levels) -> NDArray[np.float64]:
    """(p,) Kolmogorov and Smirnov's distance of numbers, total variation of categories; 1 for an empty column.

    >>> marginal_distances(np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]]), np.array([0]))
    array([0.5])
    """
    return np.array([distance(real[:, j], synthetic[:, j], levels[j]) for j in range(len(levels))])


def marginal_distance(real: Rows, synthetic: Rows, levels: Levels, names: NDArray[np.str_]) -> dict[str, Any]:
    distances = marginal_distances(real, synthetic, levels)
    out = {"mean": float(distances.mean()), "worst": float(distances.max())}
    out |= {name: float(distances[at].mean()) for name, at in (("ks", levels == 0), ("tv", levels > 0)) if at.any()}
    return {**out, "worst_column": str(names[distances.argmax()])}


def distance(real: NDArray[np.float64], synthetic: NDArray[np.float64], levels: int) -> float:
    a, b = real[~np.isnan(real)], synthetic[~np.isnan(synthetic)]
    if not len(a) or not len(b):
        return float(len(a) != len(b))
    if levels:
        p, q = (np.bincount(x.astype(int), minlength=levels) / len(x) for x in (a, b))
        return float(np.abs(p - q).sum() / 2)
    at = np.concatenate([a, b])
    below_a, below_b = (np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (a, b))
    return float(np.abs(below_a - below_b).max())


# --- missing cells


def null_rate_error(given: Rows, synthetic: Rows, names: NDArray[np.str_]) -> dict[str, Any]:
    """|share of missing cells generated - share in the rows the method was given|, column by column."""
    error = np.abs(np.isnan(synthetic).mean(axis=0) - np.isnan(given).mean(axis=0))
    return {"mean": float(error.mean()), "worst": float(error.max()), "worst_column": str(names[error.argmax()])}


# --- copies


def nearness(training: Rows, fresh: Rows, synthetic: Rows, levels: Levels) -> dict[str, float]:
    """How near rows lie to the nearest training row, generated ones as against real ones the method never saw.

    `ratio` of the mean distances: about 1 for rows as new as real ones, 0 for copies. `same` and `same_real` are the
    shares of rows that agree with a training row in all they have.
    """
    scale = np.where(levels > 0, 1.0, np.nanstd(training, axis=0))
    found = (nearest(x / scale, training / scale, levels > 0) for x in (synthetic, fresh))
    ours, theirs = (distance[np.isfinite(distance)] for distance in found)  # others have too little in common with any
    ratio = ours.mean() / theirs.mean() if theirs.mean() > 0 else float(ours.mean() == 0)
    return {"ratio": float(ratio), "same": float((ours < 1e-9).mean()), "same_real": float((theirs < 1e-9).mean())}
