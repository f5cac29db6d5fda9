"""One estimate a missing cell: the mean of a number, the likeliest level.

Estimates use the same latent noise for every row: a row's result depends on nothing but the row (except where the
`paper` preset fills missing cells with noise).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE, Block, Family
from vsae.imputation.imputer import Imputer, per_variable
from vsae.imputation.predictive import predict
from vsae.imputation.tilts import MASSES, RANKS, tilted_shares
from vsae.model.latent_model import Draws, Noise
from vsae.model.likelihoods import Gaussian, Vector


def impute(
    imputer: Imputer[Any], columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
) -> dict[str, NDArray[Any]]:
    """Every missing cell filled with its mean (numbers) or mode (levels) over latent draws and members."""
    return completed(imputer, columns, mask, estimates(imputer, columns, mask, draws=draws, weighted=weighted))


def completed(
    imputer: Imputer[Any], columns: Columns, mask: Mask, found: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Every missing cell filled with what estimates make of it."""
    return imputer.fill(columns, mask, _point(imputer, found))


def estimates(
    imputer: Imputer[Any], columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
) -> dict[str, NDArray[Any]]:
    """Per variable: means of numbers (n,) and vectors (n, d), probabilities of levels (n, levels)."""
    noise = imputer.shared_noise(draws)
    parts, trees = [], []
    for _, batch in imputer.chunks(columns, mask, noise.samples):
        parts.append(_estimate(imputer, batch, noise, weighted))
        trees.append({} if imputer.blend is None else imputer.blend.predict(batch))
    out: dict[str, NDArray[Any]] = {}
    for block in imputer.schema.blocks:
        out |= per_variable(block, np.concatenate([part[block.name] for part in parts]))
    if imputer.blend is not None:
        joined = {name: torch.cat([part[name] for part in trees]) for name in trees[0]}
        out = imputer.blend.estimates(imputer.encoding, out, joined)
    out = imputer.calibration.estimates(out)
    if imputer.tilts:
        out = _tilted(imputer, columns, mask, out)
    return out if imputer.relations is None else imputer.relations.estimates(columns, mask, out)


@torch.no_grad()
def _estimate(imputer: Imputer[Any], batch: Batch, noise: Noise, weighted: bool | None) -> dict[str, NDArray[Any]]:
    """Averaged over draws and members: natural-unit means of numbers, probabilities of levels."""
    with private_rng(0, imputer.device):
        draws = imputer.model.draws(batch, noise, weighted)
    return {name: _average(imputer, name, draws, noise.samples) for name in draws.data}


def _average(imputer: Imputer[Any], name: str, draws: Draws, samples: int) -> NDArray[Any]:
    distribution, encoding = draws.data[name], imputer.encoding

    def mean(x: Tensor) -> NDArray[Any]:
        return draws.average(x, samples).cpu().numpy()

    if not isinstance(distribution, Gaussian | Vector):
        return mean(distribution.mean)
    if encoding.affine(name):  # the mean may be taken first
        return encoding.expected(name, mean(distribution.mean), np.zeros(()))
    # not as wide as draws: where a bound is the value of most cells, a mean was trained to go with its own σ
    loc, scale = (x.flatten(0, 1).cpu().numpy() for x in (distribution.mean, distribution.scale))
    natural = torch.from_numpy(encoding.expected(name, loc, scale))
    return mean(natural.unflatten(0, distribution.mean.shape[:2]).to(imputer.device))


def _tilted(
    imputer: Imputer[Any], columns: Columns, mask: Mask, found: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Estimates of missing cells as their own values make them missing: see tilts.py."""
    out, schema = dict(found), imputer.schema
    for name, factor in imputer.tilts.levels.items():
        missing = ~mask[:, schema.attribute_of[name]]
        out[name] = np.where(missing[:, None], tilted_shares(found[name], factor), found[name])
    tilted, beyond = imputer.tilts.numbers, imputer.tilts.thresholds
    for block in schema.number_blocks:
        names = [v.name for v in block.variables]
        if not {*tilted, *beyond}.isdisjoint(names):
            parts = [_means(imputer, batch, block) for _, batch in imputer.chunks(columns, mask, len(RANKS))]
            hidden, observed = (np.concatenate(part) for part in zip(*parts, strict=True))
            missing = ~mask[:, list(block.attributes)]
            for j, name in enumerate(names):
                if name in tilted:
                    out[name] = found[name] + (hidden - observed)[:, j] * missing[:, j]
                elif name in beyond:
                    out[name] = np.where(missing[:, j], hidden[:, j], found[name])
    return out


def _means(imputer: Imputer[Any], batch: Batch, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of cells as they are if missing, and if observed, (B, variables) each, in natural units."""
    means = []
    for missing in (True, False):
        known = predict(imputer, batch, [block.name], missing=missing)
        grid = RANKS[:, None, None].expand(-1, *known.numbers[block.name].estimate.shape).to(batch.mask.device)
        values = known.quantile(block.name, range(len(block)), grid).cpu().double()
        natural = imputer.encoding.natural(block, values.numpy().reshape(-1, len(block))).reshape(values.shape)
        means.append((MASSES.numpy()[:, None, None] * natural).sum(axis=0))
    return means[0], means[1]


def _point(imputer: Imputer[Any], found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {}
    for block in imputer.schema.blocks:
        x = [found[variable.name] for variable in block.variables]
        if block.family in DISCRETE:
            x = [share.argmax(axis=1) for share in x]
        elif block.family is Family.INTERVAL:
            x = list(imputer.encoding.admissible(block.name, np.stack(x, axis=1)).T)
        out |= {variable.name: values for variable, values in zip(block.variables, x, strict=True)}
    return out
