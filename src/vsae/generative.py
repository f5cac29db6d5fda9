"""p(m | z) and p(x | m, z): the mask network, and the data network its output conditions.

The data network has one trunk for all attributes and a head per attribute, so cost and size are linear in their number;
all heads together are one matrix product, cut into blocks.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vsae.likelihoods import Bernoulli, Distribution, Head, Variance, head_for
from vsae.nets import MLP, NetShape
from vsae.schema import Schema

DataDistribution = Mapping[str, Distribution]  # block name → distribution over its variables


class MaskNetwork(nn.Module):
    """p_ε(m | z): context (E, B, C) → Bernoulli over (E, B, M); level 1 = observed."""

    def __init__(self, members: int, context: int, shape: NetShape, attributes: int) -> None:
        super().__init__()
        self.net = MLP((members,), context, shape, attributes)

    def forward(self, context: Tensor) -> Bernoulli:
        return Bernoulli(self.net(context))


class DataNetwork(nn.Module):
    """p_θ(x_i | m, z): context (E, B, C) and mask (E, B, M), bits or probabilities → a distribution per block."""

    def __init__(self, schema: Schema, members: int, context: int, shape: NetShape, variance: Variance) -> None:
        super().__init__()
        heads = {block.name: head_for(block, members, variance) for block in schema.blocks}
        self.splits = [head.n_parameters for head in heads.values()]
        self.heads = nn.ModuleDict(heads)
        self.net = MLP((members,), context + len(schema), shape, sum(self.splits))

    def forward(self, context: Tensor, mask: Tensor) -> dict[str, Distribution]:
        mask = mask.to(context.dtype).expand(*context.shape[:-1], -1)
        raw: Tensor = self.net(torch.cat([context, mask], dim=-1))
        parts = raw.split(self.splits, dim=-1)
        return {name: head(part) for (name, head), part in zip(self._heads(), parts, strict=True)}

    def _heads(self) -> list[tuple[str, Head]]:
        return [(name, head) for name, head in self.heads.items() if isinstance(head, Head)]
