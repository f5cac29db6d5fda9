"""Microaggregation: what a model keeps of a column is never the value of a single row (docs/privacy.md).

Quantiles, edges of bins, least and greatest values are cells of somebody. So they are taken of a column in which every
value is that of several rows: a value that `FEWEST` rows have stays as it is, and the others are replaced by the mean
of so many neighbours (Domingo-Ferrer and Mateo-Sanz 2002).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FEWEST = 5  # rows that a kept value, or a level that is generated, is of: a usual least count in official statistics


def microaggregated(x: Numbers, k: int = FEWEST) -> Numbers:
    """A column (n,) with the values of groups of k cells at least in the place of its own.

    >>> microaggregated(np.array([1.0, 2.0, 3.0, 7.0, 7.0, 9.0]), k=2)
    array([2., 2., 2., 7., 7., 7.])
    >>> microaggregated(np.array([1.0, 2.0, 4.0, 8.0, 9.0]), k=2)
    array([1.5, 1.5, 7. , 7. , 7. ])
    """
    values, place, count = np.unique(x, return_inverse=True, return_counts=True)
    return representatives(values, count, k)[place]


def settings(x: Numbers, most: int) -> Numbers:
    """The values of a column (n,) of few exact ones, each of several rows, rising; none if there are others.

    >>> settings(np.repeat([20.0, 40.0, np.nan], 6), most=3), settings(np.repeat([1.0, 2.0], [9, 1]), most=3)
    (array([20., 40.]), array([], dtype=float64))
    """
    values, count = np.unique(x[~np.isnan(x)], return_counts=True)
    return values if len(values) <= most and (count >= FEWEST).all() else values[:0]


def representatives(values: Numbers, count: NDArray[np.int64], k: int = FEWEST) -> Numbers:
    """What stands for each of some rising values, of which so many cells are.

    A value of k cells stands for itself. What lies between two such values is grouped; where it is fewer than k cells,
    the nearer of these two stands for it.
    """
    values, own = values.astype(np.float64), count >= k
    if own.all():
        return values
    group = _groups(own, count, k)
    size = np.bincount(group, weights=count)
    mean = (np.bincount(group, weights=count * values) / size)[group]
    few, kept = size[group] < k, values[own]
    if len(kept):
        after = np.searchsorted(kept, values)
        below, above = kept[np.maximum(after - 1, 0)], kept[np.minimum(after, len(kept) - 1)]
        mean = np.where(few, np.where(np.abs(values - below) <= np.abs(above - values), below, above), mean)
    return np.where(own, values, mean)


def _groups(own: NDArray[np.bool_], count: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """A number for each value, rising: its own for a value of k cells, between two of these that of a group of k cells
    at least where there are so many."""
    run = np.cumsum(own | np.concatenate([[False], own[:-1]]))  # of neighbours that are no such values, or one that is
    before = np.cumsum(count) - count
    before = before - before[np.searchsorted(run, run)]  # cells of the run before this one
    part = before // k  # rises within a run
    group = np.cumsum(np.concatenate([[False], (run[1:] != run[:-1]) | (part[1:] != part[:-1])]))
    while True:
        size = np.bincount(group, weights=count)
        of_run = run[np.searchsorted(group, np.arange(len(size)))]
        joined = np.concatenate([[False], (size[1:] < k) & (of_run[1:] == of_run[:-1])])  # to the one before
        first = np.concatenate([[True], of_run[1:] != of_run[:-1]]) & (size < k)  # … or, the first of a run, after
        joined |= np.concatenate([[False], first[:-1] & (of_run[1:] == of_run[:-1])])
        if not joined.any():
            return group
        group = (np.cumsum(~joined) - 1)[group]


def ends(x: Numbers, k: int = FEWEST) -> tuple[float, float]:
    """Where a column (n,) begins and ends, told from its k lowest and k highest cells, as if they were evenly spaced.

    >>> ends(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 9.0]), k=2)
    (1.0, 9.0)
    >>> tuple(round(end, 1) for end in ends(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 96.0]), k=5))
    (1.0, 74.3)
    """
    m = min(k, len(x))
    if not m:
        return 0.0, 0.0
    low, high, reach = np.partition(x, m - 1)[:m], np.partition(x, len(x) - m)[-m:], math.sqrt(3 * (m - 1) / (m + 1))
    lowest = low[0] if np.ptp(low) == 0 else low.mean() - reach * low.std()
    highest = high[0] if np.ptp(high) == 0 else high.mean() + reach * high.std()
    return float(lowest), float(highest)


def shown_range(x: Numbers) -> tuple[float, float]:
    """About the least and the greatest of some values, to show: `ends`, to three digits of their range.

    >>> shown_range(np.array([31.0, 44.0, 52.0])), shown_range(np.repeat([0.0, 17.25, 18.5, 21.0], [9, 2, 2, 3]))
    ((32.0, 53.0), (0.0, 21.7))
    """
    low, high = float(x.min()), float(x.max())
    if low == high:
        return low, high
    digits = 2 - math.floor(math.log10(high - low))
    digits = min(digits, 0) if (x == np.rint(x)).all() else digits
    first, last = (round(end, digits) for end in ends(x))
    return max(first, 0.0) if low >= 0 else first, min(last, 0.0) if high <= 0 else last


def quantiles(
    x: Numbers, ranks: Numbers, of: Numbers | None = None, limits: tuple[float, float] | None = None
) -> Numbers:
    """Of a column (n,), n ≥ 1, at ranks in [0, 1]: a step where a value is that of `FEWEST` cells, else linear between
    groups of so many.

    `of` are the cells that must be so many, x where it is not given; x has no other values. `limits` are those of ranks
    0 and 1, `ends` where they are not given.

    >>> quantiles(np.arange(1.0, 101.0), np.array([0.0, 0.25, 0.5, 1.0])).round(1)
    array([  1. ,  25.5,  50.5, 100. ])
    """
    of = x if of is None else of
    values, count = np.unique(of, return_counts=True)
    points, cells = np.unique(representatives(values, count)[np.searchsorted(values, x)], return_counts=True)
    step, reached = np.isin(points, values[count >= FEWEST]), np.cumsum(cells) / len(x)
    half = cells / (2 * len(x))
    at = np.stack([reached - np.where(step, 2 * half, half), reached - np.where(step, 0.0, half)], axis=1).ravel()
    low, high = ends(of) if limits is None else limits
    rising = np.concatenate([[low], np.repeat(points, 2), [high]])
    return np.interp(ranks, np.concatenate([[0.0], at, [1.0]]), np.maximum.accumulate(rising))
