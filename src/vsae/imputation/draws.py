"""Draws from p(x_u | x_o, m): latents, members and noise all vary. Completed tables, and quantiles of many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import generator, private_rng
from vsae.data.schema import Block, Family
from vsae.imputation.image_draws import can_draw_images, draw_images
from vsae.imputation.imputer import Imputer, per_variable, side_by_side
from vsae.imputation.parameter_uncertainty import ParameterUncertainty
from vsae.imputation.point import impute
from vsae.imputation.shrinkage import log_odds
from vsae.model.latent_model import Noise
from vsae.model.likelihoods import FreeLevels, Gaussian, Levels

_RAREST = 1e-9  # probability of a level: its logarithm stays finite
_TILTS = 2  # towards stated probabilities; after the second they agree to .001 (docs/decisions/0010)
_FEWEST_SAMPLES = 12  # of all members together, to tell an estimate and its σ from
_UNCERTAINTY, _IMAGES = -4, -5  # their streams of random numbers; chunks of rows have 0 and on


def draw(
    imputer: Imputer[Any], columns: Columns, mask: Mask, n: int, *, seed: int = 0
) -> list[dict[str, NDArray[Any]]]:
    """`n` completed tables; table i is member i mod E's."""
    if n < 1:
        raise ValueError(f"asked for {n} draws; ask for at least 1")
    common = _parameter_uncertainty(imputer, n, seed)
    pieces = [
        _draws(imputer, batch, n, generator(seed, start, imputer.device), common)
        for start, batch in imputer.chunks(columns, mask, max(n, _samples(imputer, n)))
    ]
    stacked = {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
    tables = [
        imputer.fill(columns, mask, imputer.encoding.decode({name: x[i] for name, x in stacked.items()}))
        for i in range(n)
    ]
    if can_draw_images(imputer.model):
        for i, table in enumerate(tables):
            rng = generator(seed, _IMAGES - i, imputer.device)
            draw_images(imputer, table, mask, i % imputer.model.config.members, rng)
    return tables


def quantiles(
    imputer: Imputer[Any], columns: Columns, mask: Mask, levels: Sequence[float], *, draws: int = 200, seed: int = 0
) -> list[dict[str, NDArray[Any]]]:
    """For each level a table whose missing numbers are that quantile of their draws; levels are the likeliest."""
    numbers = {block.name for block in imputer.schema.standardised_blocks}
    pieces: list[dict[str, NDArray[Any]]] = []
    for start, batch in imputer.chunks(columns, mask, max(draws, _samples(imputer, draws))):
        drawn = _draws(imputer, batch, draws, generator(seed, start, imputer.device))
        pieces.append({name: np.quantile(x, levels, axis=0) for name, x in drawn.items() if name in numbers})
    cuts = {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
    middle = impute(imputer, columns, mask)
    tables = []
    for i in range(len(levels)):  # units are monotone, so a quantile may be taken before them
        natural = imputer.encoding.decode({name: x[i] for name, x in cuts.items()})
        tables.append(imputer.fill(columns, mask, {**middle, **natural}))
    return tables


def interleaved(x: Tensor, n: int) -> NDArray[Any]:
    """(E, each, …) → the first n rows, taking one from each member in turn."""
    return x.transpose(0, 1).flatten(0, 1)[:n].cpu().numpy()


def _samples(imputer: Imputer[Any], n: int) -> int:
    """Latent draws of a member, for `n` of all of them."""
    fewest = _FEWEST_SAMPLES if imputer.residuals or imputer.shrinkage else 1
    return max(-(-max(n, fewest) // imputer.model.config.members), imputer.model.importance_samples)


@torch.no_grad()
def _parameter_uncertainty(imputer: Imputer[Any], n: int, seed: int) -> ParameterUncertainty | None:
    """What is wrong in all rows of a drawn table alike; None: nothing is known of it."""
    gaussian = imputer.model.linear_imputation()
    if gaussian is None or not len(gaussian.moments):
        return None
    rng = generator(seed, _UNCERTAINTY, imputer.device)
    return ParameterUncertainty(imputer.model, gaussian, _samples(imputer, n), rng)


@torch.no_grad()
def _draws(
    imputer: Imputer[Any], batch: Batch, n: int, rng: torch.Generator, common: ParameterUncertainty | None = None
) -> dict[str, NDArray[Any]]:
    """(n, B, …) per block in standard units; draw i is member i mod E's."""
    model, samples = imputer.model, _samples(imputer, n)
    members = model.config.members
    with private_rng(int(torch.randint(2**31, (1,), generator=rng, device=imputer.device)), imputer.device):
        draws = model.draws(batch, Noise(members, samples, batch.rows, rng))
    deviates = {} if common is None else common.deviates(batch, rng)
    drawn = {}
    for name, x in draws.data.items():
        if isinstance(x, Gaussian):
            drawn[name] = x.sample(rng, deviates.get(name))
            if name in imputer.residuals and draws.log_weight is None:
                drawn[name] = imputer.residuals[name](x, drawn[name], samples, rng)
        elif isinstance(x, Levels) and imputer.shrinkage is not None and draws.log_weight is None:
            block = imputer.schema.block[name]
            missing = ~batch.mask[0, :, list(block.attributes)].all(-1)
            drawn[name] = _levels(imputer, block, x, missing, samples, rng)
        else:
            drawn[name] = x.sample(rng)
    drawn = {name: x.unflatten(1, (samples, -1)) for name, x in drawn.items()}  # (E, S, B, …)
    if draws.log_weight is not None:
        chosen = _resampled(draws.log_weight, -(-n // members), rng)  # (E, each, B)
        drawn = {name: _along_draws(x, chosen) for name, x in drawn.items()}
    return {name: interleaved(x, n) for name, x in drawn.items()}


def _levels(
    imputer: Imputer[Any], block: Block, x: Levels, missing: Tensor, samples: int, rng: torch.Generator
) -> Tensor:
    """Codes, (E, samples · B, variables), of rows (B,) in which some are missing; in others they are not wanted."""
    members, size = len(x.mean), len(missing)
    drawn = torch.zeros(members, samples, size, len(block), dtype=torch.long, device=missing.device)
    rows = missing.nonzero()[:, 0]
    if len(rows):
        every = (torch.arange(samples, device=rows.device)[:, None] * size + rows).flatten()
        some = _as_stated(imputer, block, x.rows(every), samples)
        drawn[:, :, rows] = some.sample(rng).unflatten(1, (samples, -1))
    return drawn.flatten(1, 2)


def _as_stated(imputer: Imputer[Any], block: Block, x: Levels, samples: int) -> Levels | FreeLevels:
    """All draws tilted alike, for levels to come up as often as is stated."""
    assert imputer.shrinkage is not None

    def decoded() -> NDArray[np.float64]:
        """(B, …)"""
        return tilted.mean.unflatten(1, (samples, -1)).mean((0, 1)).double().cpu().numpy()

    size = log_odds if block.family is Family.BERNOULLI else (lambda share: np.log(np.maximum(share, _RAREST)))
    tilted: Levels | FreeLevels = x
    shares = decoded()
    stated = side_by_side(block, imputer.shrinkage(per_variable(block, shares)))
    tilt = torch.zeros(stated.shape).to(x.mean)
    for i in range(_TILTS):  # a mean of tilted shares is not a tilted mean: it takes more than one
        shares = shares if i == 0 else decoded()
        tilt = tilt + torch.from_numpy(size(stated) - size(shares)).to(tilt)
        tilted = x.tilted(tilt.repeat(samples, *[1] * (tilt.dim() - 1)))
    return tilted


def _resampled(log_weight: Tensor, each: int, rng: torch.Generator) -> Tensor:
    """(E, S, B) → indices of draws, (E, each, B), picked in proportion to their weights."""
    weight = torch.softmax(log_weight.double(), dim=1).transpose(1, 2)  # (E, B, S)
    chosen = torch.multinomial(weight.flatten(0, 1), each, replacement=True, generator=rng)
    return chosen.unflatten(0, weight.shape[:2]).transpose(1, 2)


def _along_draws(x: Tensor, chosen: Tensor) -> Tensor:
    """x (E, S, B, …), chosen (E, each, B) → (E, each, B, …)"""
    index = chosen.view(*chosen.shape, *[1] * (x.dim() - 3)).expand(*chosen.shape, *x.shape[3:])
    return x.gather(1, index)
