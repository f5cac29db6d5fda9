"""Estimate and σ of decoded numbers, over latents and members."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from vsae.data.batch import Batch
from vsae.model.latent_model import Draws, LatentModel
from vsae.model.likelihoods import Gaussian, Vector


class Moments(NamedTuple):
    """In standard units, (B, variables[, d]) both."""

    estimate: Tensor
    std: Tensor


def moments(model: LatentModel, draws: Draws, batch: Batch, block: str, samples: int) -> Moments:
    """Of all members together, for rows (1, B, …) that were decoded; how wide a cell's distribution is, those members
    say whose σ varies from cell to cell.

    One σ a column is the same whether the row tells much of the cell or nothing: a mean of both kinds would be too wide
    where a cell is all but known, and too narrow where nothing is known of it. A network's own σ follows what the row
    tells, but not far enough, and with noise. So it is multiplied by what the Gaussian imputation has for it: cells of
    two columns that are missing in the same rows were drawn a tenth too narrow without, and what is missing together
    had too little to do with each other. What the product is worth, `calibration.py` reads off errors.
    """
    decoded = draws.data[block]
    assert isinstance(decoded, Gaussian | Vector)
    estimate, square = (draws.average(x, samples) for x in (decoded.mean, decoded.mean.double() ** 2))
    variance = draws.average(decoded.scale**2, samples, model.members_with_cell_scale)
    std = (variance + (square - estimate**2).clamp_min(0.0)).sqrt()
    gaussian = model.linear_imputation()
    if gaussian is not None and isinstance(decoded, Gaussian):
        std = std * gaussian.conditional_std(batch.mask[0], block)
    return Moments(estimate.float(), std.float())
