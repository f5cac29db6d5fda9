"""p(x_j | what a row shows), one missing cell at a time: what all members say together, made to mean what it says.

Members and latents are averaged out, so that what is left is one distribution a cell: an estimate and its σ for a
number, whose residual quantiles are known from errors that were made; probabilities for a level, as often right as they
say. Draws, intervals and medians are its quantiles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE
from vsae.imputation.imputer import Imputer, per_variable
from vsae.imputation.moments import Moments, moments
from vsae.imputation.residual_quantiles import ResidualQuantiles

_LATENT_DRAWS = 2  # mirrored, so that their mean is that of many
_TAIL = 1e-6  # of a normal: the quantiles of 0 and 1 stay finite


@dataclass(frozen=True)
class Predictive:
    """Of every cell of some rows, as if it were missing; in standard units."""

    numbers: Mapping[str, Moments]  # by block of numbers or vectors, (B, variables[, d])
    levels: Mapping[str, NDArray[np.float64]]  # by variable, (B, levels)
    residuals: Mapping[str, ResidualQuantiles]

    def quantile(self, name: str, variables: Sequence[int], rank: Tensor, chance: Tensor | None = None) -> Tensor:
        """The values of some variables of a block at ranks (B, variables[, d]); entries of vectors are normal."""
        estimate, std = (x[:, list(variables)] for x in self.numbers[name])
        if name not in self.residuals:
            return estimate + std * torch.special.ndtri(rank.clamp(_TAIL, 1 - _TAIL)).to(std)
        chance = None if chance is None else chance.to(std)
        return self.residuals[name].only(variables).at(estimate, std, rank.to(std), chance)

    def level(self, name: str, rank: NDArray[np.float64]) -> NDArray[np.int64]:
        """The codes at ranks (B,)."""
        share = self.levels[name]
        edges = np.cumsum(share, axis=1) / share.sum(axis=1, keepdims=True)
        return np.minimum((edges <= rank[:, None]).sum(axis=1), share.shape[1] - 1)


@torch.no_grad()
def predict(imputer: Imputer[Any], batch: Batch, only: Collection[str] | None = None) -> Predictive:
    """For rows (1, B, …), what their mask shows being known; of some blocks."""
    noise = imputer.shared_noise(_LATENT_DRAWS)
    with private_rng(0, imputer.device):
        draws = imputer.model.draws(batch, noise, only=only)
    blocks = [block for block in imputer.schema.blocks if only is None or block.name in only]
    numbers = {
        block.name: moments(imputer.model, draws, batch, block.name, noise.samples)
        for block in blocks
        if block in imputer.schema.standardised_blocks
    }
    levels: dict[str, NDArray[np.float64]] = {}
    for block in blocks:
        if block.family in DISCRETE:
            levels |= per_variable(block, draws.average(draws.data[block.name].mean, noise.samples).cpu().numpy())
    if imputer.shrinkage is not None:
        levels = imputer.shrinkage(levels)
    return Predictive(numbers, levels, imputer.residuals)
