"""One estimate a missing cell: the mean of a number, the likeliest level.

Estimates use the same noise for every row, of latents and where the `paper` preset fills missing cells with it: a row's
result depends on nothing but the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE, Block, Family
from vsae.imputation.imputer import Imputer, per_variable
from vsae.imputation.predictive import as_fill, predict
from vsae.imputation.tilts import MASSES, RANKS, tilted_shares
from vsae.model.latent_model import Draws, Noise
from vsae.model.likelihoods import Gaussian, Vector


def impute(
    imputer: Imputer[Any], columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
) -> dict[str, NDArray[Any]]:
    """Every missing cell filled with its mean (numbers) or mode (levels) over latent draws and members.

    Rows that miss nothing are checked and copied, and variables that no row misses are not estimated.
    """
    data, rows = imputer.encoding.encode(columns, mask), np.flatnonzero(~mask.all(axis=1))
    if not len(rows):
        return imputer.fill(columns, mask, {})
    some = _Rows(columns, mask, data)
    if len(rows) < len(mask):
        of_rows = {name: np.asarray(x)[rows] for name, x in columns.items()}
        some = _Rows(of_rows, mask[rows], data.take(torch.from_numpy(rows)))
    lossy, at = set(np.flatnonzero(~mask.all(axis=0)).tolist()), imputer.schema.attribute_of
    only = {v.name for v in imputer.schema.variables if at[v.name] in lossy}
    found = _estimates(imputer, some, draws, weighted, only, scaled=imputer.tilts.levels)
    return imputer.fill(columns, mask, _point(imputer, found), rows)


def completed(
    imputer: Imputer[Any], columns: Columns, mask: Mask, found: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Every missing cell filled with what estimates make of it."""
    return imputer.fill(columns, mask, _point(imputer, found))


def estimates(
    imputer: Imputer[Any], columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
) -> dict[str, NDArray[Any]]:
    """Per variable: means of numbers (n,) and vectors (n, d), probabilities of levels (n, levels)."""
    return _estimates(imputer, _Rows(columns, mask, imputer.encoding.encode(columns, mask)), draws, weighted)


class _Rows(NamedTuple):
    """In natural and in standard units."""

    columns: Columns
    mask: Mask
    data: Batch


def _estimates(
    imputer: Imputer[Any],
    rows: _Rows,
    draws: int | None,
    weighted: bool | None,
    only: Collection[str] | None = None,
    scaled: Collection[str] | None = None,
) -> dict[str, NDArray[Any]]:
    """Of all variables or `only` some; probabilities of all or `scaled` some are right as often as they say."""
    noise, (columns, mask, data) = imputer.shared_noise(draws), rows
    chunks = imputer.chunks_of(data, noise.samples)
    parts = [_estimate(imputer, batch, noise, weighted, only) for _, batch in chunks]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    out = imputer.calibration.estimates(found, scaled)
    if imputer.tilts:
        out = _tilted(imputer, columns, mask, out)
    return out if imputer.relations is None else imputer.relations.estimates(columns, mask, out)


@torch.no_grad()
def _estimate(
    imputer: Imputer[Any], batch: Batch, noise: Noise, weighted: bool | None, only: Collection[str] | None
) -> dict[str, NDArray[Any]]:
    """Averaged over draws and members: natural-unit means of numbers, probabilities of levels, by variable."""
    blocks = [b for b in imputer.schema.blocks if only is None or any(v.name in only for v in b.variables)]
    parts = [_expected(imputer, piece, noise, weighted, blocks) for piece in imputer.pieces(batch, noise.samples)]
    found: dict[str, NDArray[Any]] = {}
    for block in blocks:
        found |= per_variable(block, np.concatenate([part.natural[block.name] for part in parts]))
    found = {name: x for name, x in found.items() if only is None or name in only}
    if imputer.blend is None:
        return found
    means = {name: torch.cat([part.means[name] for part in parts]) for name in parts[0].means}
    said = imputer.blend.predict(batch, as_fill(imputer.schema, means), only)
    return imputer.blend.estimates(imputer.encoding, found, said)


class _Expected(NamedTuple):
    """Averaged over draws and members, by block."""

    means: dict[str, Tensor]  # of numbers in standard units; probabilities
    natural: dict[str, NDArray[Any]]  # of the blocks that are wanted; likewise, with numbers in natural units


def _expected(
    imputer: Imputer[Any], batch: Batch, noise: Noise, weighted: bool | None, blocks: Collection[Block]
) -> _Expected:
    with private_rng(0, imputer.device):
        draws = imputer.model.draws(batch, noise, weighted)
    means = {name: draws.average(x.mean, noise.samples) for name, x in draws.data.items()}
    names = [block.name for block in blocks]
    return _Expected(means, {n: _natural(imputer, n, means[n], draws, noise.samples) for n in names})


def _natural(imputer: Imputer[Any], name: str, mean: Tensor, draws: Draws, samples: int) -> NDArray[Any]:
    distribution, encoding = draws.data[name], imputer.encoding
    if not isinstance(distribution, Gaussian | Vector):
        return mean.cpu().numpy()
    if encoding.affine(name):  # the mean may be taken first
        return encoding.expected(name, mean.cpu().numpy(), np.zeros(()))
    # not as wide as draws: where a bound is the value of most cells, a mean was trained to go with its own σ
    loc, scale = (x.flatten(0, 1).cpu().numpy() for x in (distribution.mean, distribution.scale))
    natural = torch.from_numpy(encoding.expected(name, loc, scale)).unflatten(0, distribution.mean.shape[:2])
    return draws.average(natural.to(imputer.device), samples).cpu().numpy()


def _tilted(
    imputer: Imputer[Any], columns: Columns, mask: Mask, found: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Estimates of missing cells as their own values make them missing: see tilts.py."""
    out, schema = dict(found), imputer.schema
    for name, factor in ((n, f) for n, f in imputer.tilts.levels.items() if n in found):
        missing = ~mask[:, schema.attribute_of[name]]
        out[name] = np.where(missing[:, None], tilted_shares(found[name], factor), found[name])
    for block in schema.number_blocks:
        moved = [j for j, v in enumerate(block.variables) if v.name in found and imputer.tilts.moves(v.name)]
        if moved:
            parts = [_means(imputer, batch, block) for _, batch in imputer.chunks(columns, mask, len(RANKS))]
            hidden, observed = (np.concatenate(part) for part in zip(*parts, strict=True))
            missing = ~mask[:, list(block.attributes)]
            for j in moved:
                name = block.variables[j].name
                if name in imputer.tilts.numbers:
                    out[name] = found[name] + (hidden - observed)[:, j] * missing[:, j]
                else:
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
        x = {variable.name: found[variable.name] for variable in block.variables if variable.name in found}
        if block.family in DISCRETE:
            x = {name: share.argmax(axis=1) for name, share in x.items()}
        elif block.family is Family.INTERVAL:
            nothing = np.zeros(len(next(iter(x.values()), ())))
            every = np.stack([x.get(variable.name, nothing) for variable in block.variables], axis=1)
            values = imputer.encoding.admissible(block.name, every).T
            x = {v.name: column for v, column in zip(block.variables, values, strict=True) if v.name in x}
        out |= x
    return out
