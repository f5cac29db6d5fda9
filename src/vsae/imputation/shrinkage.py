"""Shrinkage: an estimate lies between the model's and the trivial one, as held-out cells have it.

A column that nothing else explains is best filled with its mean or mode, and a model that saw a few hundred rows is
surer of itself than it should be. On cells it was not trained on, each column gets a weight w:

    numbers   mean + w (estimate - mean), w in [0, 1]; vectors have one w for all entries
    levels    ∝ estimate^w · frequency^v, w and v in [0, 1]

For levels the two are apart: an estimate that is merely too sure (w < 1, v = 0) keeps the level it finds likeliest.

Few cells say little of one column. The weight of a number leans towards the one that suits all columns together. Those
of levels lean to (1, 0), and go by what trees say of all known cells, too, which are ten times as many. Where columns
with missing cells all gain no more than chance might, the trivial estimate stands. (A column that has none may well be
told by which cells of a row are missing; that says nothing of the others.)

Then probabilities are made to mean what they say (`platt_scaling.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.schema import DISCRETE, Family, Schema
from vsae.imputation.platt_scaling import PlattScaling

# How far columns lean towards what all of them have in common, or towards no change: chosen by the error on tables that
# no benchmark page shows.
_LEANING_NUMBERS = 30.0  # cells
_LEANING_LEVELS = 10.0  # twice the nats for a change of w or v by 1; by docs/decisions/0014, as the next two
_OF_TREES = 0.3  # of a held-out cell: what a known one counts that trees alone predict
_SMOOTHING = 20.0  # shares of trees are as if of so many cells, and one more of the whole column

# Where all columns together gain no more than chance might, nothing explains anything, and the trivial estimate stands.
_LEAST_NATS = 6.0

_NEWTON_STEPS = 20  # of a convex function of one or two numbers: it is there after ten
_NEAR = 1e-6  # so small a step is the last
_LEAST_SHARE = 1e-6  # of a level, whose logarithm is taken

Cells = Mapping[str, tuple[NDArray[Any], NDArray[np.float64]]]  # variable → truth and estimate of some of its cells
Estimates = Mapping[str, NDArray[np.float64]]  # variable → (n,) or (n, d) means, or (n, levels) probabilities


@dataclass(frozen=True)
class Shrinkage:
    """Per variable the trivial estimate, a mean or the frequencies of the levels, and the weight of the model's.

    The mean of a vector is (1, d), which tells it from frequencies. Images are not shrunk.
    """

    trivial: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)  # w
    pull: Mapping[str, float] = field(default_factory=dict)  # v, of variables with levels
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
        by_trees: Cells | None = None,
    ) -> Shrinkage:
        """From what is known of some rows, of which `held`, (n, M) both, was hidden from the model. `trivial`, if it is
        given, is that of more rows; `by_trees`, in standard units, is of known cells by trees that did not see them."""
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
        incomplete = [v.name for v in schema.variables if not known[:, schema.attribute_of[v.name]].all()]
        # not a set, whose order is another in each process: it decides that of sums, and of what a file holds
        levels = dict.fromkeys(v.name for v in schema.variables if v.family in DISCRETE)
        found = _Weights.of(cells, levels, trivial, by_trees or {}, incomplete or list(cells))
        shrunk = cls(trivial, found.weight | vectors, found.pull)
        return shrunk.scaled({n: c for n, c in cells.items() if n in levels})

    def scaled(self, cells: Cells) -> Shrinkage:
        """With Platt scaling of variables with levels, by their held-out cells."""
        mixed = {n: (x, self._mixed(n, share)) for n, (x, share) in cells.items()}
        common = PlattScaling.fit(mixed.values())
        return replace(self, scaling={n: common.shifted(*column) for n, column in mixed.items()})

    def __call__(self, estimates: Estimates, scaled: Collection[str] | None = None) -> dict[str, NDArray[np.float64]]:
        """`scaled`: the variables whose probabilities are asked for; of others, which level is the likeliest is enough,
        and Platt scaling leaves that as it is."""
        out = {}
        for name, x in estimates.items():
            out[name] = self._mixed(name, x) if name in self.weight else x
            if name in self.scaling and (scaled is None or name in scaled):
                out[name] = self.scaling[name](out[name])
        return out

    def _mixed(self, name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        trivial, weight = self.trivial[name], self.weight[name]
        if name not in self.pull:  # numbers, or a vector of them
            return np.asarray(trivial + weight * (x - trivial), dtype=np.float64)
        return _softmax(_logs(x, trivial) @ np.array([weight, self.pull[name]]))

    def to_json(self) -> dict[str, Any]:
        trivial = {n: x.tolist() for n, x in self.trivial.items()}
        scaling = {n: list(line) for n, line in self.scaling.items()}
        return {"trivial": trivial, "weight": dict(self.weight), "pull": dict(self.pull), "scaling": scaling}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Shrinkage:
        trivial = {n: np.asarray(x, dtype=np.float64) for n, x in data["trivial"].items()}
        scaling = {n: PlattScaling(*line) for n, line in data["scaling"].items()}
        older = {n: 1 - data["weight"][n] for n in scaling}  # files that say nothing of it
        return cls(trivial, dict(data["weight"]), dict(data.get("pull", older)), scaling)


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


class _Weights(NamedTuple):
    weight: dict[str, float]
    pull: dict[str, float]

    @classmethod
    def of(
        cls, cells: Cells, levels: Collection[str], trivial: Estimates, by_trees: Cells, incomplete: Collection[str]
    ) -> _Weights:
        """All of them, or those of the trivial estimate, by what variables with missing cells gain."""
        numbers = {n: c for n, c in cells.items() if n not in levels}
        weight, nats = _weights_of_numbers(numbers, trivial, incomplete)
        of_trees = {n: (x, estimate) for n, (x, estimate) in by_trees.items() if n in numbers and n in incomplete}
        centre = {n: np.asarray(x.mean()) for n, (x, _) in of_trees.items()}
        nats += _OF_TREES * _weights_of_numbers(of_trees, centre, incomplete)[1]
        pull = {}
        for name in levels:
            if name in cells:
                parts = [(*cells[name], 1.0)]
                if name in by_trees:
                    x, share = by_trees[name]
                    parts.append((x, (_SMOOTHING * share + trivial[name]) / (_SMOOTHING + 1), _OF_TREES))
                (weight[name], pull[name]), gain = _exponents(parts, trivial[name])
                nats += max(0.0, gain) if name in incomplete else 0.0
        if nats < _LEAST_NATS and any(len(x) for x, _ in cells.values()):
            return cls(dict.fromkeys(weight, 0.0), dict.fromkeys(pull, 1.0))
        return cls(weight, pull)


def _logs(share: NDArray[np.float64], frequency: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, levels, 2): of the estimate and of the frequency."""
    logs = np.log(np.maximum(share, _LEAST_SHARE)), np.broadcast_to(np.log(frequency), share.shape)
    return np.stack(logs, axis=2)


def _softmax(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    share = np.exp(logit - logit.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True), dtype=np.float64)


def _exponents(
    parts: Sequence[tuple[NDArray[Any], NDArray[np.float64], float]], frequency: NDArray[np.float64]
) -> tuple[tuple[float, float], float]:
    """w and v in [0, 1] of greatest likelihood, drawn towards 1 and 0; and what they gain over 0 and 1, in nats.

    None is above 1: cells that others tell would ask for it, and where nothing tells a cell its shares would be wrong.

    `parts` are truth (n,), probabilities (n, levels), and how much such a cell counts.
    """
    parts = [part for part in parts if len(part[0])]
    none = np.array([1.0, 0.0])
    if not parts:
        return (1.0, 0.0), 0.0
    x = np.concatenate([x for x, _, _ in parts]).astype(int)
    logs = np.concatenate([_logs(share, frequency) for _, share, _ in parts])  # (n, levels, 2)
    count = np.concatenate([np.full(len(x), count) for x, _, count in parts])
    true = np.take_along_axis(logs, x[:, None, None], axis=1)[:, 0]
    found = none
    for _ in range(_NEWTON_STEPS):
        share = _softmax(logs @ found)
        weighted = share[:, :, None] * logs
        mean = weighted.sum(axis=1)
        square = (count[:, None, None] * weighted).reshape(-1, 2).T @ logs.reshape(-1, 2)
        gradient = count @ (true - mean) - _LEANING_LEVELS * (found - none)
        curvature = square - (mean.T * count) @ mean + _LEANING_LEVELS * np.eye(2)
        free = np.where(gradient > 0, found < 1, found > 0)
        step = np.where(free, np.linalg.solve(np.where(np.outer(free, free), curvature, np.eye(2)), gradient * free), 0)
        found = np.clip(found + step / max(1.0, np.abs(step).max()), 0.0, 1.0)
        if np.abs(step).max() < _NEAR:
            break
    likely = (np.log(_softmax(logs @ at)[np.arange(len(x)), x]) for at in (found, np.array([0.0, 1.0])))
    by_model, by_frequency = (float(count @ log) for log in likely)
    return (float(found[0]), float(found[1])), by_model - by_frequency


def _weights_of_numbers(
    cells: Cells, trivial: Estimates, incomplete: Collection[str]
) -> tuple[dict[str, float], float]:
    """One slope of truth over estimate a column, and what it is worth; and what those with missing cells gain together,
    in nats."""
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
    some = [name for name in truth if name in incomplete] or list(truth)
    common = _Slope.of(np.concatenate([truth[n] for n in some]), np.concatenate([estimated[n] for n in some]))
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
