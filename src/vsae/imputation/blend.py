"""Two predictions of a cell, the model's and that of a forest, and how much each is worth in its column.

    (1 - w) model + w trees

for numbers, and for the probabilities of levels. On cells that neither was trained on, w is the slope of what the model
lacks over what the trees would change. Few cells say little of one column, so it leans towards the one that suits all
columns together, and that to a half, for levels to more: an average of two that err differently is rarely worse than
either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema
from vsae.imputation.residual_quantiles import Moments
from vsae.imputation.shrinkage import Estimates
from vsae.model.forest import Fill, Forest

USUAL, USUAL_OF_LEVELS = 0.5, 0.7  # weight of all columns together, as long as no cell speaks against it
_LEANING = 100.0  # cells
_LEAST = 0.05  # of a weight: less is not worth the time

Cells = dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]  # variable → truth, by the model, by trees


class Said(NamedTuple):
    """By trees of a variable, in some rows: numbers (n,) in standard units, or probabilities (n, levels)."""

    rows: Tensor
    value: Tensor


@dataclass(frozen=True)
class Blend:
    """Of the variables that have a weight."""

    forest: Forest
    weight: Mapping[str, float]
    std: Mapping[str, float]  # of the trees' errors on numbers, in standard units
    medians: Sequence[str] = ()  # numbers whose median is the median of trees

    def predict(
        self, batch: Batch, fill: Fill, only: Collection[str] | None = None, *, median: bool = False
    ) -> dict[str, Said]:
        """What trees say of the cells that a batch does not show, given what the model expects in them."""
        names = [name for name in self.weight if only is None or name in only]
        return ask(self.forest, batch.as_data_set(), fill, names, median=median)

    def moments(self, schema: Schema, found: Mapping[str, Moments], said: Mapping[str, Said]) -> dict[str, Moments]:
        """By block of numbers, with estimates that lean to the trees."""
        out = dict(found)
        for block in schema.number_blocks:
            asked = [j for j, v in enumerate(block.variables) if v.name in said and block.name in found]
            if asked:
                estimate = found[block.name].estimate.clone()
                for j in asked:
                    name = block.variables[j].name
                    rows, value = said[name]
                    estimate[rows, j] = estimate[rows, j].lerp(value.to(estimate), self.weight[name])
                out[block.name] = found[block.name]._replace(estimate=estimate)
        return out

    def probabilities(self, found: Estimates, said: Mapping[str, Said]) -> dict[str, NDArray[np.float64]]:
        shares = {name: _array(value) for name, (_, value) in said.items() if name in found}
        return self._leaning(found, said, shares)

    def estimates(
        self, encoding: Encoding, found: Estimates, said: Mapping[str, Said]
    ) -> dict[str, NDArray[np.float64]]:
        """By variable, means of numbers in natural units and probabilities of levels."""
        return self._leaning(found, said, in_natural_units(encoding, said, self.std))

    def _leaning(self, found: Estimates, said: Mapping[str, Said], values: Estimates) -> dict[str, NDArray[np.float64]]:
        out = dict(found)
        for name, value in values.items():
            rows = said[name].rows.cpu().numpy()
            out[name] = found[name].copy()
            out[name][rows] += self.weight[name] * (value - found[name][rows])
        return out

    def with_forest(self, forest: Forest) -> Blend:
        return replace(self, forest=forest)

    def to_json(self) -> dict[str, Any]:
        return {"weight": dict(self.weight), "std": dict(self.std), "medians": list(self.medians)}


def ask(forest: Forest, rows: Batch, fill: Fill, names: Collection[str], *, median: bool = False) -> dict[str, Said]:
    """Trees of some variables about the cells that rows (n, …) do not show."""
    hidden = ~rows.mask[:, [forest.schema.attribute_of[name] for name in names]].T
    places = hidden.nonzero()[:, 1].split(hidden.sum(1).tolist())  # of each variable in turn
    missing = {name: place for name, place in zip(names, places, strict=True) if len(place)}
    if not missing:
        return {}
    found = forest.predict(forest.inputs(rows, fill), missing, median=median)
    return {name: Said(missing[name], value) for name, value in found.items()}


def _array(x: Tensor) -> NDArray[np.float64]:
    return np.asarray(x.double().cpu().numpy())


def in_natural_units(
    encoding: Encoding, said: Mapping[str, Said], std: Mapping[str, float]
) -> dict[str, NDArray[np.float64]]:
    """What trees say: means of numbers, given how wide their errors are, and probabilities of levels."""
    out = {name: _array(value) for name, (_, value) in said.items()}
    rows = {name: place.cpu().numpy() for name, (place, _) in said.items()}
    for block in encoding.schema.number_blocks:
        names = [v.name for v in block.variables]
        asked = [j for j, name in enumerate(names) if name in said]
        if asked:
            every = np.zeros((1 + max(int(rows[names[j]].max()) for j in asked), len(block)))
            for j in asked:
                every[rows[names[j]], j] = out[names[j]]
            means = encoding.expected(block.name, every, np.array([std.get(name, 0.0) for name in names]))
            out |= {names[j]: means[rows[names[j]], j] for j in asked}
    return out


def fit_weights(cells: Cells, usual: float = USUAL) -> dict[str, float]:
    """By variable, from the truth, the model's and the trees' estimates of its withheld cells: (n,), or (n, levels),
    with ones for the truth; in units in which errors of one variable are like those of another.

    >>> x = np.linspace(-1, 1, 200)
    >>> weights = fit_weights({"sharp": (x, 0 * x, x), "smooth": (x, x, 0 * x)})
    >>> {name: round(w, 1) for name, w in weights.items()}
    {'sharp': 0.8, 'smooth': 0.2}
    """
    slopes = {name: _Slope.of(x - model, trees - model) for name, (x, model, trees) in cells.items() if len(x)}
    slopes = {name: slope for name, slope in slopes.items() if slope.squares > 0}
    if not slopes:
        return {}
    common = _Slope(*(sum(parts) for parts in zip(*slopes.values(), strict=True))).weight(usual)
    weight = {name: slope.weight(common) for name, slope in slopes.items()}
    return {name: w for name, w in weight.items() if w >= _LEAST}


class _Slope(NamedTuple):
    """Of what the model lacks over what trees would change, through the origin."""

    product: float
    squares: float
    cells: int

    @classmethod
    def of(cls, lacking: NDArray[Any], change: NDArray[Any]) -> _Slope:
        return cls(float((lacking * change).sum()), float((change**2).sum()), len(lacking))

    def weight(self, usual: float) -> float:
        """As if some more cells had been seen that bear out the usual weight."""
        more = _LEANING * self.squares / self.cells
        return min(1.0, max(0.0, (self.product + more * usual) / (self.squares + more)))
