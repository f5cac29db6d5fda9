"""Do the cells of a row that are drawn together belong together? Scored in the rows in which they were hidden.

Rows are (n, p) floats; `levels` (p,) is 0 for numbers and else the number of codes; draws are (S, n, p).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from benchmarks.joint.blocks import Blocks, Relation, normal_scores

Rows = NDArray[np.float64]
Levels = NDArray[np.int64]
MOST_ROWS = 1000  # of an energy distance, which compares every row with every other
FEWEST_ROWS = 20  # in which a pair is missing, to speak of its association


def scores(blocks: Blocks, relations: Sequence[Relation], draws: Rows) -> dict[str, Any]:
    given = blocks.given()
    truth, known = blocks.rows.matrix(), blocks.rows.variables_known()
    whole = np.flatnonzero(blocks.hidden.any(axis=1) & known.all(axis=1))
    if len(whole) > MOST_ROWS:
        whole = np.sort(np.random.default_rng(given.seed).choice(whole, MOST_ROWS, replace=False))
    names = list(given.names)
    return {
        "association": association_errors(blocks, given.levels, draws),
        "energy": energy(truth[whole], draws[:, whole], given.levels, _scales(truth, known)),
        "relations": {
            f"{r.first} and {r.second}": relation(r, names, truth, known, blocks.hidden, draws) for r in relations
        },
    }


# --- associations


def association_errors(blocks: Blocks, levels: Levels, draws: Rows) -> dict[str, Any]:
    """Means over the pairs that are missing together, the worst of them, and how far complete rows are off."""
    truth, known = blocks.rows.matrix(), blocks.rows.variables_known()
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for pair in itertools.chain.from_iterable(itertools.combinations(group, 2) for group in blocks.groups):
        at = list(pair)
        both_known = known[:, at].all(axis=1)
        missing = blocks.hidden[:, at].all(axis=1)
        complete = both_known & ~blocks.hidden[:, at].any(axis=1)
        if missing.sum() < FEWEST_ROWS or complete.sum() < FEWEST_ROWS:
            continue
        real = truth[missing][:, at]
        drawn = draws[:, missing][:, :, at]
        seen = truth[complete][:, at]
        found[pair] = association_error(real, drawn, levels[at]), association_error(real, seen[None], levels[at])
    names = [v.name for v in blocks.rows.schema.variables]
    worst = max(found, key=lambda pair: found[pair][0])
    errors, complete_rows = np.array(list(found.values())).T
    return {
        "mean": float(errors.mean()), "worst": float(errors.max()), "worst_pair": [names[j] for j in worst],
        "complete_rows": float(complete_rows.mean()), "pairs": len(found),
    }  # fmt: skip


def association_error(truth: Rows, draws: Rows, levels: Levels) -> float:
    """Σ w |r̄ - r| of two columns, (n, 2) against the mean over draws (S, m, 2).

    r is the correlation of normal scores of numbers and of indicators of levels. With levels there are several, each
    weighted by how often a row shows these levels, in the truth or in the draws: whichever makes the error larger, so
    that an association that is invented counts as much as one that is lost.

    >>> truth = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> association_error(truth, truth[None], np.array([2, 2]))
    0.0
    """
    r, share = correlations(truth, levels)
    drawn = [correlations(x, levels) for x in draws]
    difference = np.abs(np.mean([r for r, _ in drawn], axis=0) - r)
    shares = (share, np.mean([share for _, share in drawn], axis=0))
    return max(float((weights * difference).sum() / weights.sum()) for weights in shares)


def correlations(x: Rows, levels: Levels) -> tuple[Rows, Rows]:
    """Of every level (or the number) of the first column with every one of the second, and the share of rows there."""
    a, b = (_encoded(x[:, j], levels[j]) for j in range(2))
    shown_a, shown_b = (e if k else np.ones_like(e) for e, k in ((a, levels[0]), (b, levels[1])))
    a, b = (e - e.mean(axis=0) for e in (a, b))
    spread = np.outer(a.std(axis=0), b.std(axis=0)) * len(x)
    r = np.divide(a.T @ b, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    return r, shown_a.T @ shown_b / len(x)


def _encoded(x: NDArray[np.float64], levels: int) -> Rows:
    return (x[:, None] == np.arange(levels)).astype(float) if levels else normal_scores(x[:, None])


# --- energy distance


def energy(truth: Rows, draws: Rows, levels: Levels, scales: NDArray[np.float64]) -> float:
    """√(2 E|X - Y| - E|X - X'| - E|Y - Y'|) of completed rows X and true rows Y, mean over the draws.

    Numbers over their standard deviation, levels as indicators / √2, so that two that differ are 1 apart.
    """
    real = _points(truth, levels, scales)
    within = cdist(real, real).mean()
    squares = []
    for x in draws:
        drawn = _points(x, levels, scales)
        squares.append(2 * cdist(drawn, real).mean() - cdist(drawn, drawn).mean() - within)
    return float(np.mean(np.sqrt(np.maximum(squares, 0.0))))


def _points(x: Rows, levels: Levels, scales: NDArray[np.float64]) -> Rows:
    columns = [(x[:, [j]] == np.arange(k)) / np.sqrt(2) if k else x[:, [j]] / scales[j] for j, k in enumerate(levels)]
    return np.concatenate(columns, axis=1)


def _scales(truth: Rows, known: NDArray[np.bool_]) -> NDArray[np.float64]:
    spread = np.nanstd(np.where(known, truth, np.nan), axis=0)
    return np.where(spread > 0, spread, 1.0)


# --- columns that determine each other


def relation(
    of: Relation, names: list[str], truth: Rows, known: NDArray[np.bool_], hidden: NDArray[np.bool_], draws: Rows
) -> dict[str, float]:
    """In the rows in which both are drawn: the share that keeps the relation, or the correlation in the worst draw."""
    at = [names.index(of.first), names.index(of.second)]
    both = hidden[:, at].all(axis=1)
    drawn = draws[:, both][:, :, at]  # (S, rows, 2)
    if of.correlated:
        found = [pearson(x) for x in drawn]
        return {"lowest": min(found), "mean": float(np.mean(found)), "truth": pearson(truth[both][:, at])}
    if of.cuts is not None:
        return {"agree": float((np.digitize(drawn[..., 0], of.cuts) == drawn[..., 1]).mean())}
    there = {tuple(pair) for pair in truth[known[:, at].all(axis=1)][:, at].tolist()}
    return {"agree": float(np.mean([tuple(pair) in there for pair in drawn.reshape(-1, 2).tolist()]))}


def pearson(x: Rows) -> float:
    """The correlation of two columns, 0 if one of them is constant."""
    return float(np.corrcoef(x.T)[0, 1]) if (np.ptp(x, axis=0) > 0).all() else 0.0
