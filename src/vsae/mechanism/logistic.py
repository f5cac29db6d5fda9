"""Ridge logistic regression, and how much it gains on rows it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NEWTON_STEPS = 6
_LARGEST_STEP, _SETTLED = 3.0, 1e-3
_FARTHEST = 30.0  # log odds


def fit_logistic(
    x: NDArray[np.float64], y: NDArray[np.float64], ridge: float, start: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Intercept and slopes (1 + p,) for standardised x (n, p) and y (n,) of 0 and 1."""
    return _newton(x, y, ridge, start)[0]


def fit_with_covariance(
    x: NDArray[np.float64], y: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same with its covariance (1 + p, 1 + p), that of a posterior whose prior is the ridge's."""
    beta, curvature = _newton(x, y, ridge, None)
    return beta, np.asarray(np.linalg.inv(curvature), dtype=np.float64)


def _newton(
    x: NDArray[np.float64], y: NDArray[np.float64], ridge: float, start: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients and the curvature there."""
    design = np.column_stack([np.ones(len(x)), x])
    penalty = np.r_[1e-6, np.full(x.shape[1], ridge)]
    share = (y.sum() + 0.5) / (len(y) + 1.0)
    beta = np.r_[np.log(share / (1 - share)), np.zeros(x.shape[1])] if start is None else start
    curvature = np.diag(penalty)
    for _ in range(_NEWTON_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(design @ beta, -_FARTHEST, _FARTHEST)))
        gradient = design.T @ (y - expected) - penalty * beta
        curvature = (design.T * (expected * (1 - expected) + 1e-6)) @ design
        curvature.flat[:: len(penalty) + 1] += penalty
        step = np.linalg.solve(curvature, gradient)
        size = float(np.abs(step).max())
        beta = beta + step / max(1.0, size / _LARGEST_STEP)
        if size < _SETTLED:
            break
    return np.asarray(beta, dtype=np.float64), np.asarray(curvature, dtype=np.float64)


def gain(x: NDArray[np.float64], y: NDArray[np.float64], ridges: Sequence[float]) -> float:
    """Nats by which x predicts y better than its share does, each row by a fit to the others; at the ridge that does
    best, and at least 0.

    Leaving out one row at a time needs no fit for each: Newton's step from the fit to all rows comes close.

    >>> x = np.linspace(-2, 2, 200)[:, None]
    >>> gain(x, (x[:, 0] > 0) * 1.0, [1.0]) > 100, gain(x, np.tile([0.0, 1.0], 100), [1.0])
    (True, 0.0)
    """
    if not x.shape[1]:
        return 0.0
    beta, found = None, []
    for ridge in ridges:  # from the strongest on, each from where the last one ended
        beta, curvature = _newton(x, y, ridge, beta)
        found.append(_log_likelihood_left_out(x, y, beta, curvature))
    share = (y.sum() - y + 0.5) / len(y)
    trivial = float((y * np.log(share) + (1 - y) * np.log(1 - share)).sum())
    return max(0.0, max(found) - trivial)


def _log_likelihood_left_out(
    x: NDArray[np.float64], y: NDArray[np.float64], beta: NDArray[np.float64], curvature: NDArray[np.float64]
) -> float:
    """Σ log p(y_i | x_i) by fits to the other rows."""
    design = np.column_stack([np.ones(len(x)), x])
    odds = np.clip(design @ beta, -_FARTHEST, _FARTHEST)
    expected = 1 / (1 + np.exp(-odds))
    leverage = ((design @ np.linalg.inv(curvature)) * design).sum(axis=1)
    weight = expected * (1 - expected)
    odds = np.clip(odds - leverage * (y - expected) / np.maximum(1 - leverage * weight, 0.1), -_FARTHEST, _FARTHEST)
    return float((y * odds - np.logaddexp(0.0, odds)).sum())
