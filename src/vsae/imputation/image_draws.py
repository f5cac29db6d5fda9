"""Missing images of drawn tables, from p(z) given the rest of the row.

The collective proposal says what a missing image shows, and the decoder learned to answer its latents with the mean of
all images that show it: the best point imputation, but no image one would meet, and where nothing is known of a row
the grey mean of all. How images of one thing differ, and how they belong to the rest of the row, the joint prior
knows, which is fitted to the latents of whole rows (`priors.py`). So the other cells of a row are drawn first, and
then its missing images, all at once, given the latents of everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Mask
from vsae.data.encoding import as_dtype
from vsae.data.randomness import keyed_uniform
from vsae.data.schema import Family, Schema
from vsae.imputation.imputer import Imputer
from vsae.model.latent_model import LatentModel
from vsae.model.priors import FullPrior
from vsae.model.vsae import VSAE

#: Of the components' noise: in the tails of a Gaussian lie latents that no image has. On pairs of MNIST digits, 96 %
#: of draws show the right digit with all of it, 97.5 % with .8 of it, and 98 % with none, which are all alike.
_CALM = 0.8
_STREAM = -1  # of random numbers, and on down; those of variables are 0 and up


def can_draw_images(model: LatentModel) -> bool:
    return isinstance(model.latent_prior(), FullPrior) and bool(image_attributes(model.schema))


def image_attributes(schema: Schema) -> list[int]:
    """Attributes that are nothing but images."""
    return [i for i, a in enumerate(schema) if all(v.family is Family.IMAGE for v in a.variables)]


def draw_images(
    imputer: Imputer[VSAE],
    table: dict[str, NDArray[Any]],
    mask: Mask,
    draw: int,
    seed: int,
    row_ids: NDArray[np.int64],
) -> None:
    """In place, the images that are missing from a drawn table; rows that miss the same ones go together."""
    images, member = image_attributes(imputer.schema), draw % imputer.model.config.members
    for shown in np.unique(mask[:, images], axis=0):
        missing = [i for i, there in zip(images, shown, strict=True) if not there]
        if not missing:
            continue
        rows = np.flatnonzero((mask[:, images] == shown).all(axis=1))
        known = np.ones((len(rows), len(imputer.schema)), dtype=bool)
        known[:, missing] = False
        parts = []
        for start, batch in imputer.chunks({name: x[rows] for name, x in table.items()}, known, 1):
            ids = torch.from_numpy(row_ids[rows[start : start + batch.rows]]).to(imputer.device)
            found = images_given_row(imputer.model, batch, missing, member, partial(_uniform, seed, draw, ids))
            parts.append({name: x.cpu().numpy() for name, x in found.items()})
        drawn = imputer.encoding.decode({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        for variable in (v for i in missing for v in imputer.schema.attributes[i].variables):
            table[variable.name][rows] = as_dtype(variable, drawn[variable.name], table[variable.name].dtype)


def _uniform(seed: int, draw: int, row_ids: Tensor, count: int) -> Tensor:
    """(rows, count), keyed by draw and row."""
    keys = _STREAM - torch.arange(count, device=row_ids.device)
    return keyed_uniform(seed, torch.tensor(draw, device=row_ids.device), row_ids[:, None], keys)


@torch.no_grad()
def images_given_row(
    model: VSAE, batch: Batch, missing: Sequence[int], member: int, uniform: Callable[[int], Tensor]
) -> dict[str, Tensor]:
    """Blocks of images, (B, …), of rows whose cells are all known but those of the `missing` attributes."""
    assert isinstance(model.prior, FullPrior)
    z = model.propose(batch).attributive.loc[member]  # not a draw: in its tails a boot's latents are a trouser's
    u = uniform(1 + len(missing) * model.config.latent_dim)
    noise = _CALM * torch.special.ndtri(u[:, 1:])
    z[:, list(missing)] = model.prior.given_others(z, missing, member, u[:, 0], noise)
    data = model.decode(z.expand(model.config.members, *z.shape), None).data
    return {block.name: data[block.name].mean[member] for block in model.schema.image_blocks}
