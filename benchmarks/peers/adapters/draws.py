"""From several draws to one filling: the mean of numbers, the most frequent code of categories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pooled(draws: Sequence[np.ndarray], levels: np.ndarray) -> np.ndarray:
    """`draws` of shape (n, p) each, holding codes where `levels` (p,) is not 0; of equal counts the lower code wins.

    >>> pooled([np.array([[1.0, 2.0]]), np.array([[2.0, 2.0]]), np.array([[6.0, 0.0]])], np.array([0, 3]))
    array([[3., 2.]])
    """
    stacked = np.stack(draws)  # (draws, n, p)
    out = stacked.mean(axis=0)
    for j in np.flatnonzero(levels):
        counts = np.stack([(stacked[:, :, j] == code).sum(axis=0) for code in range(levels[j])], axis=1)
        out[:, j] = counts.argmax(axis=1)
    return out
