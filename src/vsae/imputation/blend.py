"""Two predictions of a cell, the model's and that of boosted trees, and how much each is worth in its column.

    (1 - w) model + w trees

for numbers, and for the probabilities of levels. On cells that neither was trained on, w is the slope of what the model
lacks over what the trees would change. Few cells say little of one column, so it leans towards the one that suits all
columns together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
from vsae.model.trees import BoostedTrees

_LEANING = 30.0  # cells
_ERRORS = 1.4  # so many standard errors are chance
_LEAST = 0.05  # of a weight: less is not worth the time

Cells = dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]  # variable → truth, by the model, by trees
Trees = Mapping[str, Tensor]  # variable → what trees say of rows: numbers (n,) in standard units, probabilities


@dataclass(frozen=True)
class Blend:
    """Of the variables that have a weight."""

    trees: BoostedTrees
    weight: Mapping[str, float]
    std: Mapping[str, float]  # of the trees' errors on numbers, in standard units

    def predict(self, batch: Batch, only: Collection[str] | None = None) -> dict[str, Tensor]:
        """What trees say of a batch that members share."""
        names = [name for name in self.weight if only is None or name in only]
        return self.trees.predict(batch.as_data_set(), names) if names else {}

    def moments(self, schema: Schema, found: Mapping[str, Moments], trees: Trees) -> dict[str, Moments]:
        """By block of numbers, with estimates that lean to the trees."""
        out = dict(found)
        for block in schema.number_blocks:
            asked = [j for j, v in enumerate(block.variables) if v.name in trees and block.name in found]
            if asked:
                estimate = found[block.name].estimate.clone()
                for j in asked:
                    name = block.variables[j].name
                    estimate[:, j].lerp_(trees[name].to(estimate), self.weight[name])
                out[block.name] = found[block.name]._replace(estimate=estimate)
        return out

    def probabilities(self, found: Estimates, trees: Trees) -> dict[str, NDArray[np.float64]]:
        shares = {name: trees[name].double().cpu().numpy() for name in found if name in trees}
        return {**found, **{name: found[name] + self.weight[name] * (x - found[name]) for name, x in shares.items()}}

    def estimates(self, encoding: Encoding, found: Estimates, trees: Trees) -> dict[str, NDArray[np.float64]]:
        """By variable, means of numbers in natural units and probabilities of levels."""
        means = in_natural_units(encoding, trees, self.std)
        return {**found, **{name: found[name] + self.weight[name] * (x - found[name]) for name, x in means.items()}}

    def with_trees(self, trees: BoostedTrees) -> Blend:
        return replace(self, trees=trees)

    def to_json(self) -> dict[str, Any]:
        return {"weight": dict(self.weight), "std": dict(self.std)}


def in_natural_units(encoding: Encoding, trees: Trees, std: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    """Of what trees say: means of numbers, given how wide their errors are, and probabilities of levels."""
    out = {name: x.double().cpu().numpy() for name, x in trees.items()}
    for block in encoding.schema.number_blocks:
        names = [v.name for v in block.variables]
        if not out.keys().isdisjoint(names):
            rows = next(out[name] for name in names if name in out)
            every = np.stack([out.get(name, np.zeros_like(rows)) for name in names], axis=1)
            means = encoding.expected(block.name, every, np.array([std.get(name, 0.0) for name in names]))
            out |= {name: means[:, j] for j, name in enumerate(names) if name in out}
    return out


def fit_weights(cells: Cells) -> dict[str, float]:
    """By variable, from the truth, the model's and the trees' estimates of its withheld cells: (n,), or (n, levels),
    with ones for the truth; in units in which errors of one variable are like those of another.

    >>> x = np.linspace(-1, 1, 200)
    >>> weights = fit_weights({"sharp": (x, 0 * x, x), "smooth": (x, x, 0 * x)})
    >>> {name: round(w, 1) for name, w in weights.items()}
    {'sharp': 0.9, 'smooth': 0.1}
    """
    slopes = {name: _Slope.of(x - model, trees - model) for name, (x, model, trees) in cells.items() if len(x)}
    squares = sum(slope.squares for slope in slopes.values())
    if squares <= 0:
        return {}
    common = min(1.0, max(0.0, sum(slope.product for slope in slopes.values()) / squares))
    weight = {name: slope.weight(common) for name, slope in slopes.items() if slope.squares > 0}
    return {name: w for name, w in weight.items() if w >= _LEAST}


class _Slope(NamedTuple):
    """Of what the model lacks over what trees would change, through the origin."""

    product: float
    squares: float
    variance: float  # of the product, as cells are others
    cells: int

    @classmethod
    def of(cls, lacking: NDArray[Any], change: NDArray[Any]) -> _Slope:
        product, squares = (part.reshape(len(part), -1).sum(axis=1) for part in (lacking * change, change**2))
        value = product.sum() / squares.sum() if squares.sum() > 0 else 0.0
        return cls(product.sum(), squares.sum(), ((product - value * squares) ** 2).sum(), len(lacking))

    def weight(self, common: float) -> float:
        """Leaning towards the common one, and the less the more of it may be chance; 0 if all of it may."""
        more = _LEANING * self.squares / self.cells
        value = min(1.0, max(0.0, (self.product + more * common) / (self.squares + more)))
        chance = self.variance / (self.squares + more) ** 2
        return float(value * max(0.0, 1 - _ERRORS**2 * chance / value**2)) if value > 0 else 0.0
