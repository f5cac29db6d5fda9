"""A yardstick from hindsight: how far does a linear regression get that the test cells themselves choose?

Each pattern of given vectors has a ridge regression of its own, fitted to the training rows that show them and the
answer. One penalty and one weight of the regression against the mean are those of the lowest error on the very cells
that are scored, so its error flatters it. It binds linear methods only: another kind may be below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]  # attribute → (n, d)

PENALTIES = 10.0 ** np.arange(1.0, 6.5, 0.5)  # on standardised columns
_TINY = 1e-12


def ridge(x: Array, y: Array, penalty: float) -> Array:
    """The slopes of y over x, both less their means: (XᵀX + λ)⁻¹ Xᵀ y.

    >>> ridge(np.array([[-1.0], [1.0]]), np.array([[-3.0], [3.0]]), 1.0)
    array([[2.]])
    """
    return np.asarray(np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y))


def filled(
    train: Columns, test: Columns, train_mask: NDArray[np.bool_], test_mask: NDArray[np.bool_],
    penalties: Sequence[float] = tuple(PENALTIES),
) -> dict[str, Array]:  # fmt: skip
    """Every attribute of the test rows as it would be filled, (n, d); masks are (n, attributes), True = observed."""
    centre = {name: np.asarray(x.mean(axis=0), dtype=np.float64) for name, x in train.items()}
    scale = {name: np.where((s := x.std(axis=0)) > 0, s, 1.0) for name, x in train.items()}
    shown, asked = ([(part[n] - centre[n]) / scale[n] for n in train] for part in (train, test))
    out = {}
    for at, name in enumerate(train):
        mean = shown[at][train_mask[:, at]].mean(axis=0)
        added = (_added(shown, asked, train_mask, test_mask, at, mean, penalty) for penalty in penalties)
        found = mean + min(added, key=lambda some: _error(some, asked[at] - mean, ~test_mask[:, at]))
        out[name] = centre[name] + scale[name] * found
    return out


def _added(
    shown: list[Array], asked: list[Array], train_mask: NDArray[np.bool_], test_mask: NDArray[np.bool_], at: int,
    mean: Array, penalty: float,
) -> Array:  # fmt: skip
    """What a regression adds to the mean, (n, d), at the weight of the lowest error on the hidden cells."""
    estimate = np.zeros_like(asked[at])
    for given, rows in _patterns(test_mask, at):
        fitted = train_mask[:, [at, *given]].all(axis=1)
        x, new = (np.concatenate([part[k] for k in given], axis=1) for part in (shown, asked))
        y, centre = shown[at][fitted], x[fitted].mean(axis=0)
        estimate[rows] = (new[rows] - centre) @ ridge(x[fitted] - centre, y - y.mean(axis=0), penalty)
    hidden = ~test_mask[:, at]
    t, g = asked[at][hidden] - mean, estimate[hidden]
    return max(0.0, float((t * g).sum()) / max(float((g**2).sum()), _TINY)) * estimate


def _error(added: Array, truth: Array, hidden: NDArray[np.bool_]) -> float:
    return float(((truth - added)[hidden] ** 2).mean())


def _patterns(mask: NDArray[np.bool_], at: int) -> Iterator[tuple[tuple[int, ...], NDArray[np.bool_]]]:
    """What may be given where an attribute is hidden, and the rows that are so."""
    others = [k for k in range(mask.shape[1]) if k != at]
    for size in range(1, len(others) + 1):
        for given in combinations(others, size):
            absent = [k for k in range(mask.shape[1]) if k not in given]
            rows: NDArray[np.bool_] = np.asarray(mask[:, given].all(axis=1) & ~mask[:, absent].any(axis=1))
            yield given, rows
