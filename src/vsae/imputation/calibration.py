"""`Calibration`: what lies between the model and a cell, as cells have it that were known and yet hidden.

An estimate shrinks towards the trivial one, and a probability comes to be right as often as it says (`shrinkage.py`);
a number has the distribution that errors had around such an estimate (`residual_quantiles.py`), an entry of a vector a
normal one, as wide as its errors. All of it is fitted at once, to one table of predictions: the model holds what was
trained, the calibration what held-out cells say of it.

Known cells that are hidden for the purpose are many, but the model was trained on them; withheld cells are few, but
were never shown. The first tell columns, estimates and contexts apart, the second how much larger errors are on what
was not trained on. A refit makes the first smaller still, and not the second: errors on withheld cells are those made
before it, and are compared with errors on known ones made before it, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.columns import Columns, Mask
from vsae.data.schema import Schema
from vsae.imputation.residual_quantiles import Moments, Predictions, ResidualQuantiles, fit_residuals
from vsae.imputation.shrinkage import Cells, Estimates, Shrinkage
from vsae.model.generative import DataDistribution
from vsae.model.likelihoods import Gaussian, Vector
from vsae.storage.checkpoint import joined, part

_KEPT_SURPLUS = 0.75  # the refit takes part of it back: 90 % intervals cover .89 with none, .93 with all of it
_TAIL = 1e-6  # of a normal: the quantiles of 0 and 1 stay finite

Blocks = Mapping[str, Predictions]  # by block of numbers or vectors, these with a column an entry


class WithheldEstimates(NamedTuple):
    """Estimates of some rows in natural units, of whose known cells some were withheld, (n, M) both."""

    columns: Columns
    known: Mask
    withheld: Mask
    estimates: Estimates


@dataclass(frozen=True)
class HeldOutPredictions:
    """What a model says of cells whose value is known, while they are hidden from it."""

    estimates: WithheldEstimates | None = None  # before the refit
    withheld: Blocks = field(default_factory=dict)  # the same cells in standard units
    trained: Blocks = field(default_factory=dict)  # … and cells that were trained on, hidden for the purpose
    usual: Blocks = field(default_factory=dict)  # likewise after the refit, few of a row, which is else as it was
    sparse: Blocks = field(default_factory=dict)  # … and half of it: σ must be right where little is known, too
    trivial: Estimates | None = None  # means and frequencies of what was not withheld, in all rows
    by_trees: Cells = field(default_factory=dict)  # of known cells in standard units, by trees that did not see them


@dataclass(frozen=True)
class Calibration:
    """The default leaves everything as the model has it."""

    shrinkage: Shrinkage = field(default_factory=Shrinkage)
    residuals: Mapping[str, ResidualQuantiles] = field(default_factory=dict)  # by block of numbers
    widths: Mapping[str, Tensor] = field(default_factory=dict)  # of errors over decoded σ, by block, (variables[, d])

    @classmethod
    def fit(cls, schema: Schema, held_out: HeldOutPredictions, point_mass: Mapping[str, Sequence[bool]]) -> Calibration:
        """`point_mass`: of the columns of each block of numbers, whether one value makes up much of them."""
        numbers = [block.name for block in schema.number_blocks if block.name in held_out.usual]
        usual, sparse = ({name: blocks[name] for name in numbers} for blocks in (held_out.usual, held_out.sparse))
        surplus = {name: _surplus(held_out, [name]) for name in held_out.usual}
        surplus |= dict.fromkeys(numbers, _surplus(held_out, numbers))
        shrinkage = Shrinkage()
        if held_out.estimates is not None:
            shrinkage = Shrinkage.fit(schema, *held_out.estimates, held_out.trivial, held_out.by_trees)
        return cls(
            shrinkage,
            fit_residuals(usual, sparse, point_mass, _surplus(held_out, numbers)),
            {
                name: math.exp(surplus[name]) * found.relative_error.view(-1, *schema.block[name].event).cpu()
                for name, found in held_out.usual.items()
            },
        )

    def estimates(self, estimates: Estimates, scaled: Collection[str] | None = None) -> dict[str, NDArray[np.float64]]:
        """By variable: means of numbers and vectors, probabilities of levels, as they should be; if not of all, see
        `Shrinkage`."""
        return self.shrinkage(estimates, scaled)

    def quantile(
        self, name: str, variables: Sequence[int], moments: Moments, rank: Tensor, chance: Tensor | None = None
    ) -> Tensor:
        """The values of some variables of a block at ranks (…, B, variables[, d]); see `ResidualQuantiles.at`."""
        estimate, std, scale = moments
        if name in self.residuals:
            chance = None if chance is None else chance.to(std)
            return self.residuals[name].only(variables).at(estimate, std, rank.to(std), chance)
        if name in self.widths:
            std = scale * self.widths[name][list(variables)].to(scale)
        return estimate + std * torch.special.ndtri(rank.clamp(_TAIL, 1 - _TAIL)).to(std)

    def widened(self, data: DataDistribution) -> DataDistribution:
        """Decoded distributions, with σ as large as errors are on average over the cells of a column."""
        return {
            name: x.widened(self.widths[name]) if isinstance(x, Gaussian | Vector) and name in self.widths else x
            for name, x in data.items()
        }

    def to_parts(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON that `from_parts` makes a calibration of again."""
        groups = {f"residuals.{name}": residuals.to_tensors() for name, residuals in self.residuals.items()}
        return joined({**groups, "widths": self.widths}), self.shrinkage.to_json()

    @classmethod
    def from_parts(cls, schema: Schema, tensors: Mapping[str, Tensor], content: Mapping[str, Any]) -> Calibration:
        residuals = {block.name: part(tensors, f"residuals.{block.name}") for block in schema.number_blocks}
        return cls(
            Shrinkage.from_json(content),
            {name: ResidualQuantiles.from_tensors(found) for name, found in residuals.items() if found},
            part(tensors, "widths"),
        )


def _surplus(held_out: HeldOutPredictions, names: Sequence[str]) -> float:
    """log of how much larger errors are on cells that were not trained on, by all columns of some blocks together: the
    few withheld cells of one column would tell chance."""
    blocks = [(held_out.withheld[name], held_out.trained[name]) for name in names if name in held_out.withheld]
    if not blocks:
        return 0.0
    surplus = torch.cat([withheld.log_size - trained.log_size for withheld, trained in blocks]).double()
    cells = torch.cat([withheld.cells.sum(0) for withheld, _ in blocks]).double()
    weight = torch.where(torch.isfinite(surplus), cells, 0.0)
    mean = (torch.where(weight > 0, surplus, 0.0) * weight).sum() / weight.sum().clamp_min(1)
    return max(0.0, _KEPT_SURPLUS * float(mean))
