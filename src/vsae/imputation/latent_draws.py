"""Draws by way of the latents: z given the row, then every missing cell given z, with noise of its own.

For models that were not taught to predict a cell from any others (`Imputer.knows_every_subset`): the baselines, and the
`paper` preset. What cells of a row have in common is what z says of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import generator, private_rng
from vsae.imputation.imputer import Imputer
from vsae.model.latent_model import Noise


def draw_by_latents(imputer: Imputer[Any], columns: Columns, mask: Mask, n: int, seed: int) -> dict[str, NDArray[Any]]:
    """(n, rows, …) per block in standard units; draw i is member i mod E's."""
    pieces = [
        _draws(imputer, batch, n, generator(seed, start, imputer.device))
        for start, batch in imputer.chunks(columns, mask, max(n, _samples(imputer, n)))
    ]
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}


def _samples(imputer: Imputer[Any], n: int) -> int:
    """Latent draws of a member, for `n` of all of them."""
    return max(-(-n // imputer.model.config.members), imputer.model.importance_samples)


@torch.no_grad()
def _draws(imputer: Imputer[Any], batch: Batch, n: int, rng: torch.Generator) -> dict[str, NDArray[Any]]:
    members, samples = imputer.model.config.members, _samples(imputer, n)
    with private_rng(int(torch.randint(2**31, (1,), generator=rng, device=imputer.device)), imputer.device):
        draws = imputer.model.draws(batch, Noise(members, samples, batch.rows, rng))
    drawn = {name: x.sample(rng).unflatten(1, (samples, -1)) for name, x in draws.data.items()}  # (E, S, B, …)
    if draws.log_weight is not None:
        chosen = _resampled(draws.log_weight, -(-n // members), rng)  # (E, each, B)
        drawn = {name: _along_draws(x, chosen) for name, x in drawn.items()}
    return {name: interleaved(x, n) for name, x in drawn.items()}


def interleaved(x: Tensor, n: int) -> NDArray[Any]:
    """(E, each, …) → the first n rows, taking one from each member in turn."""
    return x.transpose(0, 1).flatten(0, 1)[:n].cpu().numpy()


def _resampled(log_weight: Tensor, each: int, rng: torch.Generator) -> Tensor:
    """(E, S, B) → indices of draws, (E, each, B), picked in proportion to their weights."""
    weight = torch.softmax(log_weight.double(), dim=1).transpose(1, 2)  # (E, B, S)
    chosen = torch.multinomial(weight.flatten(0, 1), each, replacement=True, generator=rng)
    return chosen.unflatten(0, weight.shape[:2]).transpose(1, 2)


def _along_draws(x: Tensor, chosen: Tensor) -> Tensor:
    """x (E, S, B, …), chosen (E, each, B) → (E, each, B, …)"""
    index = chosen.view(*chosen.shape, *[1] * (x.dim() - 3)).expand(*chosen.shape, *x.shape[3:])
    return x.gather(1, index)
