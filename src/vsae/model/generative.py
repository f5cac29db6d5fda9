"""p(m | z) and p(x | m, z): the mask network, and the data network its output conditions.

The data network has one trunk for all attributes and a head per attribute, so cost and size are linear in their number;
all heads together are one matrix product, cut into blocks. Between the product and the head of an image stands a
decoder (`images.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from vsae.data.schema import Family, Schema
from vsae.model.config import NetShape, Variance
from vsae.model.images import ImageDecoder, ImageSettings
from vsae.model.likelihoods import Bernoulli, Distribution, Head, head_for
from vsae.model.nets import MLP

DataDistribution = Mapping[str, Distribution]  # block name → distribution over its variables


class MaskNetwork(nn.Module):
    """p_ε(m | z): context (E, B, C) → Bernoulli over (E, B, M); level 1 = observed."""

    def __init__(self, members: int, context: int, shape: NetShape, attributes: int) -> None:
        super().__init__()
        self.net = MLP((members,), context, shape, attributes)

    def forward(self, context: Tensor) -> Bernoulli:
        return Bernoulli(self.net(context))


class DecodedHead(Head):
    """The head of a block of images behind their decoder."""

    def __init__(self, decoder: ImageDecoder, head: Head) -> None:
        super().__init__()
        self.decoder, self.head, self.n_parameters = decoder, head, decoder.n_in

    def forward(self, raw: Tensor) -> Distribution:
        distribution: Distribution = self.head(self.decoder(raw))
        return distribution


class Heads(nn.ModuleDict):
    """One likelihood a block: the parameters of all of them side by side → a distribution per block."""

    def __init__(self, schema: Schema, variance: Variance, pixel_variance: float | None, images: ImageSettings) -> None:
        heads = {b.name: head_for(b, images.members, variance, pixel_variance) for b in schema.blocks}
        # floats that a decoded row keeps alive; ordered levels have few parameters, and yet a probability each
        levels = sum(len(b) * max(b.sizes) for b in schema.blocks if b.family is Family.CUMULATIVE)
        self.numbers_per_row = 2 * (sum(head.n_parameters for head in heads.values()) + levels)
        for block in schema.image_blocks if images.net == "conv" else ():
            decoder = ImageDecoder(block, images)
            heads[block.name] = DecodedHead(decoder, heads[block.name])
            self.numbers_per_row += 2 * decoder.numbers
        super().__init__(heads)
        self.splits = [head.n_parameters for _, head in self._heads()]

    def forward(self, raw: Tensor, only: Collection[str] | None = None) -> dict[str, Distribution]:
        parts = zip(self._heads(), raw.split(self.splits, dim=-1), strict=True)
        return {name: head(part) for (name, head), part in parts if only is None or name in only}

    def _heads(self) -> list[tuple[str, Head]]:
        return [(name, head) for name, head in self.items() if isinstance(head, Head)]


class DataNetwork(nn.Module):
    """p_θ(x_i | m, z): context (E, B, C) and mask (E, B, M), bits or probabilities → a distribution per block.

    Baselines that know nothing of masks have a network that does not read one.
    """

    def __init__(
        self, heads: Heads, members: int, context: int, shape: NetShape, attributes: int, reads_mask: bool = True
    ) -> None:
        super().__init__()
        self.heads, self.splits = heads, heads.splits
        self.net = MLP((members,), context + attributes * reads_mask, shape, sum(self.splits))

    def forward(
        self, context: Tensor, mask: Tensor | None, only: Collection[str] | None = None
    ) -> dict[str, Distribution]:
        """`only`: some blocks, where the others would be decoded in vain."""
        if mask is not None:
            mask = mask.to(context.dtype).expand(*context.shape[:-1], -1)
            context = torch.cat([context, mask], dim=-1)
        distributions: dict[str, Distribution] = self.heads(self.net(context), only)
        return distributions
