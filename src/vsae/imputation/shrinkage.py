"""Shrinkage: an estimate lies between the model's and the trivial one, as held-out cells have it.

A column that nothing else explains is best filled with its mean or mode, and a model that saw a few hundred rows is
surer of itself than it should be. On cells it was not trained on, each column gets a weight w in [0, 1], by how far its
gain over the trivial estimate stands out of chance:

    numbers   mean + w (estimate - mean), vectors with one w for all entries
    levels    ∝ estimate^w · frequency^(1 - w)

Few cells say little of one column, so its weight leans towards the one that suits all columns together; and where these
all gain no more than chance might, it is 0.

Then probabilities are made to mean what they say: of the cells whose likeliest level has .8, 80 % should be right. How
often they are is a straight line between log odds, as in Platt scaling, with a slope that all columns share; which
level is the likeliest stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.schema import DISCRETE, Family, Schema

_WEIGHTS = np.linspace(0.0, 1.0, 21)  # some hundred held-out cells could tell no finer steps apart

# How far columns lean towards what all of them have in common: chosen by the error on 24 tables of R's packages (315
# columns), which no benchmark page shows.
_LEANING_NUMBERS = 30.0  # cells
_LEANING_LEVELS = 4.0  # nats for the whole way from 0 to 1
_LEANING_LINE = 60.0  # twice the nats for a change of the common line by 1
_LEANING_SHIFT = 30.0  # … and of a column's own shift

# Where all columns together gain no more than chance might, nothing explains anything, and the trivial estimate stands.
_LEAST_NATS = 6.0

_NEWTON_STEPS = 20  # of a convex function of one or two numbers: it is there after ten
_MARGIN = 1e-9  # by which the likeliest level stays the likeliest

Cells = Mapping[str, tuple[NDArray[Any], NDArray[np.float64]]]  # variable → truth and estimate of its held-out cells
Estimates = Mapping[str, NDArray[np.float64]]  # variable → (n,) or (n, d) means, or (n, levels) probabilities


@dataclass(frozen=True)
class Shrinkage:
    """Per variable the trivial estimate, a mean or the frequencies of the levels, and the weight of the model's.

    The mean of a vector is (1, d), which tells it from frequencies. Images are not shrunk.
    """

    trivial: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)
    scaling: Mapping[str, PlattScaling] = field(default_factory=dict)  # of variables with levels

    @classmethod
    def fit(
        cls,
        schema: Schema,
        columns: Columns,
        known: Mask,
        held: Mask,
        estimates: Estimates,
        trivial: Estimates | None = None,
    ) -> Shrinkage:
        """From what is known of some rows, of which `held`, (n, M) both, was hidden from the model; `trivial`, if it is
        given, is that of more rows."""
        trivial = trivial_estimates(schema, columns, known & ~held) if trivial is None else trivial
        cells, vectors = {}, {}
        for variable in schema.variables:
            if variable.family is Family.IMAGE:
                continue
            x, at = np.asarray(columns[variable.name]), schema.attribute_of[variable.name]
            seen, hidden = x[known[:, at] & ~held[:, at]], held[:, at]
            if variable.family is Family.VECTOR:
                std = np.std(seen, axis=0) if len(seen) else np.zeros(variable.size)
                truth, estimate = (part[hidden] - trivial[variable.name] for part in (x, estimates[variable.name]))
                vectors[variable.name] = _weight_of_vector(truth, estimate, std)
            else:
                cells[variable.name] = x[hidden], estimates[variable.name][hidden]
        levels = {v.name for v in schema.variables if v.family in DISCRETE}
        weight, nats = _weights_of_numbers({n: c for n, c in cells.items() if n not in levels}, trivial)
        weight_of_levels, more = _weights_of_levels({n: c for n, c in cells.items() if n in levels}, trivial)
        weight |= weight_of_levels
        if nats + more < _LEAST_NATS and any(len(x) for x, _ in cells.values()):
            weight = dict.fromkeys(weight, 0.0)
        shrunk = cls(trivial, weight | vectors)
        return shrunk.scaled({n: c for n, c in cells.items() if n in levels})

    def scaled(self, cells: Cells) -> Shrinkage:
        """With Platt scaling of variables with levels, by their held-out cells."""
        mixed = {n: (x, _mixed(share, self.trivial[n], self.weight[n])) for n, (x, share) in cells.items()}
        common = PlattScaling.fit(mixed.values())
        return replace(self, scaling={n: common.shifted(*column) for n, column in mixed.items()})

    def __call__(self, estimates: Estimates) -> dict[str, NDArray[np.float64]]:
        out = {}
        for name, x in estimates.items():
            out[name] = _mixed(x, self.trivial[name], self.weight[name]) if name in self.weight else x
            if name in self.scaling:
                out[name] = self.scaling[name](out[name])
        return out

    def to_json(self) -> dict[str, Any]:
        trivial = {n: x.tolist() for n, x in self.trivial.items()}
        scaling = {n: list(line) for n, line in self.scaling.items()}
        return {"trivial": trivial, "weight": dict(self.weight), "scaling": scaling}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Shrinkage:
        trivial = {n: np.asarray(x, dtype=np.float64) for n, x in data["trivial"].items()}
        return cls(trivial, dict(data["weight"]), {n: PlattScaling(*line) for n, line in data["scaling"].items()})


def trivial_estimates(schema: Schema, columns: Columns, known: Mask) -> dict[str, NDArray[np.float64]]:
    """Means, and frequencies of levels, of what is known, (n, M)."""
    trivial: dict[str, NDArray[np.float64]] = {}
    for variable in schema.variables:
        if variable.family is Family.IMAGE:
            continue
        seen = np.asarray(columns[variable.name])[known[:, schema.attribute_of[variable.name]]]
        if variable.family in DISCRETE:
            counts = np.bincount(seen.astype(int), minlength=variable.size) + 0.5
            trivial[variable.name] = counts / counts.sum()
        elif variable.family is Family.VECTOR:
            trivial[variable.name] = seen.mean(axis=0, keepdims=True) if len(seen) else np.zeros((1, variable.size))
        else:
            trivial[variable.name] = np.asarray(seen.mean() if len(seen) else 0.0, dtype=np.float64)
    return trivial


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


def _mixed(x: NDArray[np.float64], trivial: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    if x.ndim == 1 or trivial.ndim == 2:  # numbers, or a vector of them
        return np.asarray(trivial + weight * (x - trivial), dtype=np.float64)
    share = np.exp(_log_mixed(x, trivial, weight))
    return np.asarray(share / share.sum(axis=1, keepdims=True), dtype=np.float64)


def _log_mixed(share: NDArray[np.float64], frequency: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Not normalised."""
    mixed = weight * np.log(np.maximum(share, 1e-9)) + (1 - weight) * np.log(frequency)
    return np.asarray(mixed - mixed.max(axis=1, keepdims=True), dtype=np.float64)


def _weights_of_numbers(cells: Cells, trivial: Mapping[str, NDArray[np.float64]]) -> tuple[dict[str, float], float]:
    """One slope of truth over estimate a column, and what it is worth; and what all gain together, in nats."""
    truth: dict[str, NDArray[np.float64]] = {}
    estimated: dict[str, NDArray[np.float64]] = {}
    for name, (x, estimate) in cells.items():
        d, e = x - trivial[name], estimate - trivial[name]
        size = float(np.abs(d).max(initial=0.0))
        if size > 0 and np.std(d / size) > 0:  # what does not vary says nothing
            d, e = d / size, e / size  # squares of 1e300 would overflow
            truth[name], estimated[name] = d / np.std(d), e / np.std(d)
    if not truth:
        return dict.fromkeys(cells, 1.0), 0.0
    common = _Slope.of(np.concatenate(list(truth.values())), np.concatenate(list(estimated.values())))
    own = {name: _Slope.of(truth[name], estimated[name], common) for name in truth}
    return {name: own.get(name, common).weight for name in cells}, common.nats


def _weight_of_vector(truth: NDArray[Any], estimate: NDArray[Any], std: NDArray[np.float64]) -> float:
    """One slope for all entries, each in units of its own std; (cells, d), less the mean, both.

    Entries of one cell err together, so it is cells that count; and a slope that may be chance counts for less.
    """
    varies = std > 0
    t, g = (part[:, varies] / std[varies] for part in (truth, estimate))
    squares = float((g**2).sum())
    if squares == 0:
        return 1.0
    slope = float((t * g).sum()) / squares
    chance = float((((t - slope * g) * g).sum(axis=1) ** 2).sum()) / squares**2  # variance of the slope
    return min(1.0, slope**3 / (slope**2 + chance)) if slope > 0 else 0.0


@dataclass(frozen=True)
class _Slope:
    """Of a regression through the origin; its error allows for residuals that grow with the estimate."""

    value: float
    error: float
    residual: float  # mean square

    @classmethod
    def of(cls, truth: NDArray[np.float64], estimate: NDArray[np.float64], common: _Slope | None = None) -> _Slope:
        """As if some more cells had been seen that lie about the `common` slope."""
        squares = float(estimate @ estimate)
        if squares == 0:
            return common or cls(0.0, 1.0, 1.0)
        product, more = float(truth @ estimate), 0.0
        if common is not None:
            more = _LEANING_NUMBERS * squares / len(truth)
            product += more * common.value
        value = product / (squares + more)
        residual = (truth - value * estimate) ** 2
        noise = float(estimate**2 @ residual) + (0.0 if common is None else more * common.residual)
        return cls(value, math.sqrt(noise) / (squares + more), float(residual.mean()))

    @property
    def nats(self) -> float:
        """By which it explains the truth better than no slope does."""
        if self.value <= 0:
            return 0.0
        return 0.5 * (self.value / self.error) ** 2 if self.error > 0 else math.inf

    @property
    def weight(self) -> float:
        """Least for a slope that may be chance. One below 1 counts as 1 where it may be: the refit mends it."""
        if self.value <= 0:
            return 0.0
        return min(1.0, self.value + 2 * self.error) * self.value**2 / (self.value**2 + self.error**2)


def _weights_of_levels(cells: Cells, trivial: Mapping[str, NDArray[np.float64]]) -> tuple[dict[str, float], float]:
    """Greatest likelihood, one weight a column, drawn towards the common one; and what that gains, in nats."""
    losses = {}
    for name, (x, share) in cells.items():
        mixed = np.stack([_log_mixed(share, trivial[name], w) for w in _WEIGHTS])  # (weights, cells, levels)
        log_true = np.take_along_axis(mixed, np.broadcast_to(x.astype(int), mixed.shape[:2])[..., None], axis=2)[..., 0]
        losses[name] = (np.log(np.exp(mixed).sum(axis=2)) - log_true).sum(axis=1)
    if not losses:
        return {}, 0.0
    total = np.sum(list(losses.values()), axis=0)
    common = _WEIGHTS[np.argmin(total)]
    leaning = _LEANING_LEVELS * (_WEIGHTS - common) ** 2
    weight = {name: float(_WEIGHTS[np.argmin(loss + leaning)]) for name, loss in losses.items()}
    return weight, float(total[0] - total.min())
