"""Hidden pictures of drawn tables, painted from p(z) given the rest of the row.

The collective proposal says what a hidden picture shows, and the decoder learned to answer its latents with the mean of
all pictures that show it: the best point imputation, but no picture one would meet, and where nothing is known of a row
the grey mean of all. How pictures of one thing differ, and how they belong to the rest of the row, the joint prior
knows, which is fitted to the latents of whole rows (`mixture.py`). So the other cells of a row are drawn first, and
then its hidden pictures, all at once, given the latents of everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.schema import Family, Schema
from vsae.model.mixture import FullPrior
from vsae.model.vsae import VSAE

#: Of the components' noise: in the tails of a Gaussian lie latents that no picture has. On pairs of MNIST digits, 96 %
#: of draws show the right digit with all of it, 97.5 % with .8 of it, and 98 % with none, which are all alike.
_CALM = 0.8


def picture_attributes(schema: Schema) -> list[int]:
    """Attributes that are nothing but pictures."""
    return [i for i, a in enumerate(schema) if all(v.family is Family.IMAGE for v in a.variables)]


def can_repaint(model: VSAE) -> bool:
    return isinstance(model.prior, FullPrior) and bool(picture_attributes(model.schema))


@torch.no_grad()
def repainted(model: VSAE, batch: Batch, hidden: Sequence[int], member: int, rng: torch.Generator) -> dict[str, Tensor]:
    """Blocks of pictures, (B, …), of rows whose cells are all known but those of the `hidden` attributes."""
    assert isinstance(model.prior, FullPrior)
    z = model.propose(batch).attributive.loc[member]  # not a draw: in its tails a boot's latents are a trouser's
    z[:, list(hidden)] = model.prior.given_others(z, hidden, member, rng, _CALM)
    data = model.decode(z.expand(model.config.members, *z.shape), None).data
    blocks = [block.name for block in model.schema.blocks if block.family is Family.IMAGE]
    return {name: data[name].sample(rng)[member] for name in blocks}
