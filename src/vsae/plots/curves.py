"""What a training and a sensitivity analysis show: lines over steps, an answer over changes of the missing cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.mechanism.sensitivity import Sensitivity

Numbers = NDArray[np.float64]
TERMS = {
    "x_observed": "observed values",
    "x_unobserved": "hidden values",
    "mask": "mask",
    "kl": "KL divergence",
}  # of the bound


class Training(NamedTuple):
    """Lines over the steps at which held-out cells were scored, (R,)."""

    step: Numbers
    score: Numbers  # (R, members): error on held-out cells; NaN where there are none
    terms: dict[str, Numbers]  # (R,) means over members
    best: list[int]  # step, by member


def training(records: Sequence[Mapping[str, Any]], best: Sequence[int]) -> Training:
    """Of the records of a `History`."""

    def lines(name: str) -> Numbers:
        rows = [np.atleast_1d(np.array(record.get(name, np.nan), dtype=np.float64)) for record in records]
        return np.stack(rows) if rows else np.zeros((0, 1))

    found = {said: lines(name).mean(axis=1) for name, said in TERMS.items() if records and name in records[0]}
    terms = {said: line for said, line in found.items() if line.any()}  # one that is switched off is 0
    return Training(np.array([record["step"] for record in records], dtype=np.float64), lines("score"), terms, [*best])


class Map(NamedTuple):
    """p at each point of a grid of changes, (scales, deltas); NaN where the grid has no point."""

    delta: Numbers
    scale: Numbers
    p: Numbers
    estimate: Numbers


def tipping_map(found: Sensitivity) -> Map:
    delta, scale = (np.unique([getattr(point, name) for point in found.points]) for name in ("delta", "scale"))
    if len(delta) < 2 or len(scale) < 2:
        raise ValueError(
            "a map needs two or more values of delta and of scale; give all pairs of them as two lists of equal length"
        )
    p, estimate = (np.full((len(scale), len(delta)), np.nan) for _ in range(2))
    for point in found.points:
        at = np.searchsorted(scale, point.scale), np.searchsorted(delta, point.delta)
        p[at], estimate[at] = point.p, point.estimate
    return Map(delta, scale, p, estimate)
