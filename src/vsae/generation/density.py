"""log p(m) + log p(x_o | m): how likely a model finds a row and what is missing of it."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import generator, private_rng
from vsae.generation.rows import RowGenerator
from vsae.imputation.imputer import Imputer
from vsae.model.latent_model import Noise
from vsae.model.vsae import VSAE

_TURNS = 16  # in which the attributes of a row are scored, one group after the other: the cost does not grow with them
_MASK_DRAWS = 512  # latents that log p(m) is averaged over
_MASKS = -3  # their stream of random numbers


@torch.no_grad()
def score_samples(
    imputer: Imputer[VSAE], rows: RowGenerator, columns: Columns, mask: Mask, *, draws: int = 8, seed: int = 0
) -> NDArray[np.float64]:
    """log p(m) + log p(x_o | m) of each row, (n,), in natural units; the lower, the odder the row.

    By the chain rule, a few attributes at a time, in an order that `seed` decides: each is scored as if it were
    missing, given those before it. Averages over z stand inside the logarithms, so in expectation this is a lower
    bound. Rows with more cells have less of it, as densities do: compare rows with like masks.
    """
    attributes = len(imputer.schema)
    turn = np.random.default_rng(seed).permutation(attributes) * min(attributes, _TURNS) // attributes
    parts, noise = [], imputer.shared_noise(draws)
    for _, batch in imputer.chunks(columns, mask, noise.samples):
        turns = torch.from_numpy(turn).to(imputer.device)
        with private_rng(seed, imputer.device):
            scores = [_log_given(imputer, batch, turns < t, turns == t, noise) for t in range(turns.max() + 1)]
        parts.append((torch.stack(scores).sum(0) + _log_mask(rows, batch.mask[0], seed)).cpu().numpy())
    slopes = imputer.encoding.log_jacobian(columns, mask).values()  # 0 where not observed
    slope = sum(x.reshape(len(mask), -1).sum(axis=1) for x in slopes)
    return np.concatenate(parts) + slope


def _log_given(imputer: Imputer[VSAE], batch: Batch, before: Tensor, now: Tensor, noise: Noise) -> Tensor:
    """log p(what is observed of `now` | what is observed of `before`), attributes (M,) bool both; (B,) float64."""
    model = imputer.model
    data = imputer.calibration.widened(model.draws(batch.with_mask(batch.mask & before), noise).data)
    rows = batch.repeated(noise.samples)
    score = (model.log_likelihood(data, rows) * (rows.mask & now)).sum(-1)  # (E, S·B)
    score = score.double().unflatten(1, (noise.samples, -1)).flatten(0, 1)
    return torch.logsumexp(score, dim=0) - math.log(len(score))


def _log_mask(rows: RowGenerator, mask: Tensor, seed: int) -> Tensor:
    """log p(m), from latents of the prior; (B, M) → (B,)."""
    if not rows.model.config.mask_modelling:
        return torch.zeros(len(mask), device=rows.device)
    z = rows.model.prior.sample(_MASK_DRAWS, generator(seed, _MASKS, rows.device))
    logits = rows.mask_of(rows.model.aggregate(z)).logits.flatten(0, 1).double()  # (S, M)
    score = mask.double() @ logits.T - torch.nn.functional.softplus(logits).sum(-1)  # (B, S)
    return torch.logsumexp(score, dim=1) - math.log(len(logits))
