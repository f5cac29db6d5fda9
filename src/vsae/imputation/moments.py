"""Estimate and σ of decoded numbers, over latents and members."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from vsae.model.latent_model import Draws, LatentModel
from vsae.model.likelihoods import Gaussian, Vector


class Moments(NamedTuple):
    """In standard units, (B, variables[, d]) both."""

    estimate: Tensor
    std: Tensor


def moments(model: LatentModel, draws: Draws, block: str, samples: int) -> Moments:
    """Of all members together; how wide a cell's distribution is, those members say whose σ varies from cell to cell.

    One σ a column is the same whether the row tells much of the cell or nothing: a mean of both kinds would be too wide
    where a cell is all but known, and too narrow where nothing is known of it.
    """
    decoded = draws.data[block]
    assert isinstance(decoded, Gaussian | Vector)
    estimate, square = (draws.average(x, samples) for x in (decoded.mean, decoded.mean.double() ** 2))
    variance = draws.average(decoded.scale**2, samples, model.members_with_cell_scale)
    return Moments(estimate.float(), (variance + (square - estimate**2).clamp_min(0.0)).sqrt().float())
