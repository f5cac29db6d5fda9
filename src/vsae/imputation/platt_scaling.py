"""Platt scaling: probabilities come to mean what they say. Of cells whose likeliest level has .8, 80 % should be right.

How often they are is a straight line between log odds, with a slope that all columns share; which level is the
likeliest stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Chosen by the error on 24 tables of R's packages (315 columns), which no benchmark page shows.
_LEANING_LINE = 60.0  # twice the nats for a change of the common line by 1
_LEANING_SHIFT = 30.0  # … and of a column's own shift
_NEWTON_STEPS = 20  # of a convex function of one or two numbers: it is there after ten
_MARGIN = 1e-9  # by which the likeliest level stays the likeliest


class PlattScaling(NamedTuple):
    """log odds that the likeliest level is right = shift + slope · log odds it was given.

    >>> PlattScaling(0.0, 2.0)(np.array([[0.8, 0.15, 0.05], [0.4, 0.3, 0.3]])).round(3)
    array([[0.941, 0.044, 0.015],
           [0.333, 0.333, 0.333]])
    """

    shift: float = 0.0
    slope: float = 1.0

    @classmethod
    def fit(cls, cells: Iterable[tuple[NDArray[Any], NDArray[np.float64]]]) -> PlattScaling:
        """Greatest likelihood on truth (n,) and probabilities (n, levels), drawn towards no change."""
        parts = [(log_odds(share.max(axis=1)), share.argmax(axis=1) == x) for x, share in cells if len(x)]
        if not parts:
            return cls()
        odds, right = (np.concatenate(part) for part in zip(*parts, strict=True))
        design, coefficients, none = np.stack([np.ones_like(odds), odds], axis=1), np.array([0.0, 1.0]), [0.0, 1.0]
        for _ in range(_NEWTON_STEPS):
            expected = 1 / (1 + np.exp(-design @ coefficients))
            gradient = design.T @ (right - expected) - _LEANING_LINE * (coefficients - none)
            curvature = (design.T * (expected * (1 - expected))) @ design + _LEANING_LINE * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            coefficients = coefficients + step / max(1.0, np.abs(step).max())  # where all are sure, steps overshoot
        shift, slope = coefficients
        return cls(float(shift), float(slope)) if slope > 0 else cls()

    def shifted(self, x: NDArray[Any], share: NDArray[np.float64]) -> PlattScaling:
        """A line of the same slope for one column, by its truth (n,) and probabilities (n, levels); leaning to this."""
        odds, right = log_odds(share.max(axis=1)), share.argmax(axis=1) == x
        more = 0.0
        for _ in range(_NEWTON_STEPS):
            expected = 1 / (1 + np.exp(-(self.shift + more + self.slope * odds)))
            curvature = float((expected * (1 - expected)).sum()) + _LEANING_SHIFT
            more += (float((right - expected).sum()) - _LEANING_SHIFT * more) / curvature
        return PlattScaling(self.shift + more, self.slope)

    def __call__(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (n, levels) whose highest is as likely as it turned out to be, and the highest still."""
        top = share.argmax(axis=1)[:, None]
        others = share.copy()
        np.put_along_axis(others, top, 0.0, axis=1)
        others /= np.maximum(others.sum(axis=1, keepdims=True), 1e-300)
        odds = self.shift + self.slope * log_odds(np.take_along_axis(share, top, axis=1))
        second = others.max(axis=1, keepdims=True)
        sure = np.maximum(1 / (1 + np.exp(-odds)), second / (1 + second) + _MARGIN)
        out = others * (1 - sure)
        np.put_along_axis(out, top, sure, axis=1)
        return np.asarray(out, dtype=np.float64)


def log_odds(share: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.clip(share, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(share) - np.log1p(-share), dtype=np.float64)
