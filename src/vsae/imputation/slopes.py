"""The posterior of the slopes of `parameter_uncertainty.py`, by known cells that are hidden for the purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng
from vsae.data.schema import Block, Family
from vsae.imputation.imputer import Imputer
from vsae.imputation.parameter_uncertainty import ParameterUncertainty, blocks_with_slopes, regressors
from vsae.imputation.predictive import Predictive, predict

_MOST_ENTRIES = 64  # each variable has a matrix of them, squared: bounds the memory
_FOLDS = 6  # each hides as many of a row's known cells, every cell once: so few that the rest of the row is as it was
_PRIOR = 0.25  # variance of what all slopes together add to a cell, in units of its own
_LEFT_OUT = 1e6  # times the rows, added to the precision: nothing is told by the variable itself
_RANKS = 32  # by which mean and std of a cell's distribution are computed
_FARTHEST = 5.0  # σ: an error that counts as no more
_SUREST = 1e-4  # probability


@torch.no_grad()
def fit_parameter_uncertainty(
    imputer: Imputer[Any], batches: Sequence[Batch], rows: int, seed: int
) -> ParameterUncertainty | None:
    """From batches (1, B, …) of a table of so many rows; None without a Gaussian imputation, or with too wide a one.

    Cells of rows that are not among them count as if the network were right there: a few cells must not correct what
    has been learned from many.
    """
    gaussian, blocks = imputer.model.linear_imputation(), blocks_with_slopes(imputer.schema)
    if gaussian is None or not 0 < gaussian.width <= _MOST_ENTRIES or not imputer.knows_every_subset:
        return None
    width, variables = 1 + gaussian.width, sum(map(len, blocks))
    device = batches[0].mask.device
    precision = torch.zeros(variables, width, width, dtype=torch.float64, device=device)
    gradient = torch.zeros(variables, width, dtype=torch.float64, device=device)
    with private_rng(seed, device):
        for batch in batches:
            fold = torch.rand(batch.mask.shape, device=device).mul(_FOLDS).long()
            for k in range(_FOLDS):
                shown = batch.with_mask(batch.mask & (fold != k))
                row = regressors(imputer.model, shown).double()
                predicted = predict(imputer, shown, [block.name for block in blocks])
                parts = [_errors(predicted, block, batch) for block in blocks]
                error, weight = (torch.cat(part, dim=1).double() for part in zip(*parts, strict=True))
                owner = [i for block in blocks for i in block.attributes]
                hidden = (batch.mask & ~shown.mask)[0][:, owner].double()
                gradient += torch.einsum("bv,bd->vd", error * hidden, row)
                precision += torch.einsum("bv,bd,be->vde", weight * hidden, row, row)
    looked_at = sum(batch.rows for batch in batches)
    precision *= rows / looked_at
    prior = torch.full((variables, width), width / _PRIOR, dtype=torch.float64, device=device)
    for v, attribute in enumerate(i for block in blocks for i in block.attributes):
        prior[v, 1:][gaussian.owner == attribute] = _LEFT_OUT * rows
    precision += torch.diag_embed(prior)
    mean = torch.linalg.solve(precision, gradient)
    return ParameterUncertainty(mean.float().cpu(), precision.float().cpu())


def _errors(predicted: Predictive, block: Block, batch: Batch) -> tuple[Tensor, Tensor]:
    """How far each cell of a block is from what was predicted, and what it weighs, (B, variables) each: gradient and
    curvature of the log-likelihood in what the slopes add to a cell."""
    if block.family is Family.BERNOULLI:
        p = torch.stack([torch.from_numpy(predicted.levels[v.name][:, 1]) for v in block.variables], dim=1)
        p = p.to(batch.mask.device).clamp(_SUREST, 1 - _SUREST)
        return batch.values[block.name][0] - p, p * (1 - p)
    x = batch.numbers([block])[0]
    ranks = (torch.arange(_RANKS) + 0.5) / _RANKS
    every = range(len(block))
    quantiles = torch.stack([predicted.quantile(block.name, every, torch.full_like(x, rank)) for rank in ranks])
    error = (x - quantiles.mean(0)) / quantiles.std(0).clamp_min(1e-6)
    return error.clamp(-_FARTHEST, _FARTHEST), torch.ones_like(error)
