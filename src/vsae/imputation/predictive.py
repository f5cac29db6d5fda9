"""p(x_j | what a row shows), one missing cell at a time: what all members say together, made to mean what it says.

Members and latents are averaged out, so that what is left is one distribution a cell: an estimate and its σ for a
number, whose residual quantiles are known from errors that were made; probabilities for a level, as often right as they
say. Draws and intervals are its quantiles, and so are medians, but where those of trees are nearer to withheld cells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE, Block, Schema
from vsae.imputation.blend import Said
from vsae.imputation.calibration import Calibration
from vsae.imputation.imputer import Imputer, per_variable
from vsae.imputation.residual_quantiles import Moments
from vsae.imputation.thresholds import Beyond
from vsae.imputation.tilts import Tilts, tilted_ranks
from vsae.model.forest import Fill
from vsae.model.latent_model import Draws, LatentModel
from vsae.model.likelihoods import Gaussian, Vector

LATENT_DRAWS = 2  # mirrored, so that their mean is that of many


@dataclass(frozen=True)
class Predictive:
    """Of every cell of some rows, as if it were missing; in standard units."""

    numbers: Mapping[str, Moments]  # by block of numbers or vectors, (B, variables[, d])
    levels: Mapping[str, NDArray[np.float64]]  # by variable, (B, levels)
    calibration: Calibration
    slopes: Mapping[str, Tensor]  # of blocks that are tilted, ([B, ]variables): see tilts.py
    beyond: Mapping[str, Mapping[int, Beyond]]  # by block, of variables that are cut off: see thresholds.py
    by_trees: Mapping[str, Said] = field(default_factory=dict)  # by variable, medians of trees, if they are wanted

    def medians_of_trees(self, block: Block) -> Tensor:
        """(B, variables), NaN where there is none."""
        out = torch.full_like(self.numbers[block.name].estimate, torch.nan)
        for j, variable in enumerate(block.variables):
            if variable.name in self.by_trees:
                rows, value = self.by_trees[variable.name]
                out[rows, j] = value.to(out)
        return out

    def quantile(self, name: str, variables: Sequence[int], rank: Tensor, chance: Tensor | None = None) -> Tensor:
        """The values of some variables of a block at ranks (…, B, variables[, d])."""
        moments = Moments(*(x[:, list(variables)] for x in self.numbers[name]))

        def values_at(rank: Tensor) -> Tensor:
            return self.calibration.quantile(name, variables, moments, rank, chance)

        if name in self.slopes:
            tilted = values_at(tilted_ranks(rank, self.slopes[name][..., list(variables)], values_at))
        else:
            tilted = values_at(rank)
        for j, cells in self.beyond.get(name, {}).items():
            if j in variables:
                k = list(variables).index(j)
                tilted[..., k] = cells.quantile(rank[..., k]).to(tilted)
        return tilted

    def level(self, name: str, rank: NDArray[np.float64]) -> NDArray[np.int64]:
        """The codes at ranks (B,)."""
        share = self.levels[name]
        edges = np.cumsum(share, axis=1) / share.sum(axis=1, keepdims=True)
        return np.minimum((edges <= rank[:, None]).sum(axis=1), share.shape[1] - 1)


@torch.no_grad()
def predict(
    imputer: Imputer[Any],
    batch: Batch,
    only: Collection[str] | None = None,
    *,
    attributes: Collection[int] | None = None,
    missing: bool = True,
    medians: Collection[str] = (),
) -> Predictive:
    """For rows (1, B, …), what their mask shows being known; of some blocks, and only some of their attributes, if
    others are not looked at. As cells are that are missing, or, if they are not, as observed ones are: the two differ
    where a column masks itself. Trees are asked for `medians` of some variables, too."""
    noise = imputer.shared_noise(LATENT_DRAWS)
    blocks = [block for block in imputer.schema.blocks if only is None or block.name in only]
    by_trees = set() if imputer.blend is None else _names(blocks, attributes).intersection(imputer.blend.weight)
    with private_rng(0, imputer.device):
        draws = imputer.model.draws(batch, noise, only=None if by_trees else only)
    numbers = {
        block.name: _moments(imputer.model, draws, batch, block.name, noise.samples)
        for block in blocks
        if block in imputer.schema.standardised_blocks
    }
    levels: dict[str, NDArray[np.float64]] = {}
    wanted = _names(blocks, attributes)
    for block in blocks:
        if block.family in DISCRETE:
            shares = per_variable(block, draws.average(draws.data[block.name].mean, noise.samples).cpu().numpy())
            levels |= {name: share for name, share in shares.items() if name in wanted}
    middle: dict[str, Said] = {}
    if imputer.blend is not None and by_trees:
        fill = fill_of(imputer.schema, draws, noise.samples)
        said = imputer.blend.predict(batch, fill, by_trees)
        middle = imputer.blend.predict(batch, fill, by_trees.intersection(medians), median=True) if medians else {}
        numbers = imputer.blend.moments(imputer.schema, numbers, said)
        levels = imputer.blend.probabilities(levels, said)
    levels, tilts = imputer.calibration.estimates(levels), imputer.tilts if missing else Tilts()
    of_blocks = {block.name: tilts.slopes([v.name for v in block.variables]) for block in blocks}
    slopes = {name: slope for name, slope in of_blocks.items() if slope is not None}
    beyond = _beyond(imputer.schema, batch, tilts, blocks)
    return Predictive(numbers, tilts.of_levels(levels), imputer.calibration, slopes, beyond, middle)


def fill_of(schema: Schema, draws: Draws, samples: int) -> Fill:
    """What the model expects, for trees to read."""
    read = {block.name for block in schema.blocks if block.family in DISCRETE or block in schema.number_blocks}
    return as_fill(schema, {name: draws.average(x.mean, samples) for name, x in draws.data.items() if name in read})


def as_fill(schema: Schema, means: Mapping[str, Tensor]) -> Fill:
    """Means by block, in standard units, and probabilities."""
    numbers = [means[block.name] for block in schema.number_blocks]
    levels: dict[str, Tensor] = {}
    for block in schema.blocks:
        if block.family in DISCRETE:
            levels |= per_variable(block, means[block.name])
    return Fill(torch.cat(numbers, dim=1) if numbers else torch.zeros(0), levels)


def _names(blocks: Sequence[Block], attributes: Collection[int] | None) -> set[str]:
    return {
        variable.name
        for block in blocks
        for variable, i in zip(block.variables, block.attributes, strict=True)
        if attributes is None or i in attributes
    }


def _beyond(schema: Schema, batch: Batch, tilts: Tilts, blocks: Sequence[Block]) -> dict[str, dict[int, Beyond]]:
    places = {v.name: (block.name, j) for block in blocks for j, v in enumerate(block.variables)}
    wanted = [name for name in tilts.thresholds if name in places]
    if tilts.cut_off is None or not wanted:
        return {}
    order = [v.name for block in schema.number_blocks for v in block.variables]
    at = [order.index(name) for name in tilts.cut_off.names]
    x = batch.numbers(schema.number_blocks)[0][:, at]
    shown = batch.mask[0][:, [schema.attribute_of[name] for name in tilts.cut_off.names]]
    out: dict[str, dict[int, Beyond]] = {}
    for name, cells in tilts.cut_off.beyond(x, shown, wanted).items():
        block, j = places[name]
        out.setdefault(block, {})[j] = cells
    return out


def _moments(model: LatentModel, draws: Draws, batch: Batch, block: str, samples: int) -> Moments:
    """For `std`, those members say how wide a cell's distribution is whose σ varies from cell to cell.

    One σ a column is the same whether the row tells much of the cell or nothing: a mean of both kinds would be too wide
    where a cell is all but known, and too narrow where nothing is known of it. A network's own σ follows what the row
    tells, but not far enough, and with noise. So it is multiplied by what the Gaussian imputation has for it: cells of
    two columns that are missing in the same rows were drawn a tenth too narrow without, and what is missing together
    had too little to do with each other. What the product is worth, the calibration reads off errors.
    """
    decoded = draws.data[block]
    assert isinstance(decoded, Gaussian | Vector)
    estimate, square = (draws.average(x, samples) for x in (decoded.mean, decoded.mean.double() ** 2))
    between = (square - estimate**2).clamp_min(0.0)
    own, every = (draws.average(decoded.scale**2, samples, m) for m in (model.members_with_cell_scale, None))
    std, gaussian = (own + between).sqrt(), model.linear_imputation()
    if gaussian is not None and isinstance(decoded, Gaussian):
        std = std * gaussian.conditional_std(batch.mask[0], block)
    return Moments(estimate.float(), std.float(), every.sqrt().float())
