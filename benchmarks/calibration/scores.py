"""Are draws and probabilities as sure as they may be? Scored on hidden cells whose value is known.

Rows are (n, p) floats; `levels` (p,) is 0 for numbers and else the number of codes; draws are (S, n, p). Probabilities
are (n, K), the levels of all discrete columns side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.evaluation.metrics import crps, interval_coverage

Rows = NDArray[np.float64]
Levels = NDArray[np.int64]
CRPS_DRAWS = 20  # of all methods, those that could give more too
BINS = 15
INTERVALS = (0.5, 0.9)
TINY = 1e-4  # a level's probability, if stated as less than that: no cell must decide a log loss alone


def scores(
    truth: Rows, draws: Rows, hidden: NDArray[np.bool_], levels: Levels, stated: Rows | None, rng: np.random.Generator
) -> dict[str, Any]:
    """Of the draws of numbers, and of levels' probabilities: as `stated`, if they are, and as shares of 20 draws."""
    out: dict[str, Any] = {}
    numbers = np.flatnonzero(levels == 0)
    if hidden[:, numbers].any():
        out["numbers"] = of_numbers(truth[:, numbers], draws[:, :, numbers], hidden[:, numbers])
    if hidden[:, levels > 0].any():
        shares = draw_shares(draws[:CRPS_DRAWS], levels)
        out["draws"] = of_levels(truth, hidden, levels, shares, rng)
        if stated is not None:
            out["stated"] = of_levels(truth, hidden, levels, stated, rng)
    return out


# --- numbers


def of_numbers(truth: Rows, draws: Rows, hidden: NDArray[np.bool_]) -> dict[str, float]:
    """Coverage of central intervals, pooled over cells, its lowest and highest column, and the CRPS / std."""
    out = {"cells": float(hidden.sum()), "crps": crps(truth, draws[:CRPS_DRAWS], ~hidden, fair=True).value}
    for level in INTERVALS:
        score, name = interval_coverage(truth, *central_interval(draws, level), ~hidden), f"coverage{100 * level:.0f}"
        out[name] = score.value
        out[f"{name}_lowest"] = float(np.nanmin(score.per_column))
        out[f"{name}_highest"] = float(np.nanmax(score.per_column))
    return out


def central_interval(draws: Rows, level: float) -> tuple[Rows, Rows]:
    """The quantiles at the ranks q (S + 1): between these a new draw falls as often as the level says, for any S.

    >>> central_interval(np.arange(1.0, 20.0)[:, None, None], 0.9)
    (array([[1.]]), array([[19.]]))
    """
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    return low, high


# --- levels


def draw_shares(draws: Rows, levels: Levels) -> Rows:
    """(n, K) shares of the draws, half a draw added to each level so that none is impossible."""
    columns = [
        ((draws[:, :, j] == level).sum(axis=0) + 0.5) / (len(draws) + count / 2)
        for j, count in enumerate(levels)
        for level in range(count)
    ]
    return np.stack(columns, axis=1)


def of_levels(
    truth: Rows, hidden: NDArray[np.bool_], levels: Levels, probabilities: Rows, rng: np.random.Generator
) -> dict[str, float]:
    """Calibration errors, each beside what chance alone would make of perfect probabilities, and the log loss."""
    starts = np.cumsum(levels) - levels
    columns = []
    for j in np.flatnonzero((levels > 0) & hidden.any(axis=0)):
        at = hidden[:, j]
        p = probabilities[at, starts[j] : starts[j] + levels[j]]
        p = np.maximum(p, TINY) / np.maximum(p, TINY).sum(axis=1, keepdims=True)
        columns.append((p, truth[at, j].astype(int)))
    imagined = [(p, _outcomes(p, rng)) for p, _ in columns]
    losses = [-np.log(p[np.arange(len(y)), y]) for p, y in columns]
    return {
        "cells": sum(len(y) for _, y in columns),
        "ece": top_level_error(columns),
        "ece_by_chance": top_level_error(imagined),
        "classwise": classwise_error(columns),
        "classwise_by_chance": classwise_error(imagined),
        "log_loss": float(np.concatenate(losses).mean()),
    }


def top_level_error(columns: list[tuple[Rows, NDArray[np.int64]]]) -> float:
    """|how often the likeliest level is right - how likely it was said to be|, over bins of cells of all columns."""
    sure = np.concatenate([p.max(axis=1) for p, _ in columns])
    right = np.concatenate([p.argmax(axis=1) == y for p, y in columns])
    return binned_error(sure, right)


def classwise_error(columns: list[tuple[Rows, NDArray[np.int64]]]) -> float:
    """The same for every level: |how often it is there - how likely it was said to be|; mean over levels, then columns.

    Kull et al. (2019).
    """
    return float(
        np.mean([np.mean([binned_error(p[:, k], y == k) for k in range(p.shape[1])]) for p, y in columns])
    )  # fmt: skip


def binned_error(probability: NDArray[np.float64], outcome: NDArray[np.bool_], bins: int = BINS) -> float:
    """Σ share of the bin · |mean outcome - mean probability| over bins of equally many cells; ties stay together.

    >>> binned_error(np.array([0.2, 0.2, 0.8, 0.8]), np.array([False, False, True, True]), bins=2).__round__(3)
    0.2
    """
    _, group, counts = np.unique(probability, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / len(probability)
    at = np.minimum((middle * bins).astype(int), bins - 1)[group]
    excess = np.bincount(at, weights=outcome - probability, minlength=bins)
    return float(np.abs(excess).sum() / len(probability))


def _outcomes(p: Rows, rng: np.random.Generator) -> NDArray[np.int64]:
    """Levels drawn from the probabilities themselves."""
    below = np.cumsum(p, axis=1) < rng.random((len(p), 1))
    return np.minimum(below.sum(axis=1), p.shape[1] - 1)
