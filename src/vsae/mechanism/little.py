"""Little's test of whether numbers are missing completely at random (Little 1988).

If they are, rows that miss different cells are samples of one distribution, so the means of each pattern of missing
cells lie around those of all rows:

    d² = Σ_patterns n_p (x̄_p - μ_p)' Σ_p⁻¹ (x̄_p - μ_p)  ~  χ²,  with Σ_p (cells that the pattern shows) - K df,

where μ and Σ are the maximum-likelihood estimates from all rows, and the subscript takes what a pattern shows of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc

from vsae.imputation.linear_relations import expectation_maximisation

_SETTLED = 1e-4  # of EM: its estimates must be those of maximum likelihood


class LittleTest(NamedTuple):
    """A small p says that cells are not missing completely at random; not what they depend on."""

    statistic: float  # d²
    df: int
    p: float
    patterns: int


def little_test(x: NDArray[np.float64], seen: NDArray[np.bool_]) -> LittleTest | None:
    """Of numbers (n, K), of which `seen` says what is observed; None where there is but one pattern, or one number.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2)); x[:, 1] += x[:, 0]
    >>> seen = np.ones((500, 2), dtype=bool); seen[:, 1] = x[:, 0] < 0.5  # depends on the other column
    >>> little_test(x, seen).p < 1e-6
    True
    """
    some = seen.any(axis=1)
    x, seen = np.where(seen, x, 0.0)[some], seen[some]
    if x.shape[1] < 2 or not seen.any(axis=0).all():
        return None
    shown, pattern = np.unique(seen, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    df = int(shown.sum()) - x.shape[1]
    if len(shown) < 2 or df < 1:
        return None
    rows, known = torch.from_numpy(x), torch.from_numpy(seen.astype(np.float64))
    mean, covariance = expectation_maximisation(rows, known, _SETTLED)
    covariance = covariance * len(x) / (len(x) - 1)
    count = np.bincount(pattern)
    total = np.zeros((len(shown), x.shape[1]))
    np.add.at(total, pattern, x)
    which = torch.from_numpy(shown.astype(np.float64))
    away = (torch.from_numpy(total / count[:, None]) - mean) * which  # (patterns, K)
    square = covariance * which[:, :, None] * which[:, None, :]
    square.diagonal(dim1=1, dim2=2).add_(1 - which)
    distance = (away * torch.linalg.solve(square, away)).sum(1)
    statistic = float((torch.from_numpy(count.astype(np.float64)) * distance).sum())
    return LittleTest(statistic, df, float(chdtrc(df, statistic)), len(shown))
