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


class Heads(nn.ModuleDict):
    """One likelihood a block: the parameters of all of them side by side → a distribution per block."""

    def __init__(self, schema: Schema, members: int, variance: Variance) -> None:
        super().__init__({block.name: head_for(block, members, variance) for block in schema.blocks})
        self.splits = [head.n_parameters for _, head in self._heads()]

    def forward(self, raw: Tensor) -> dict[str, Distribution]:
        parts = raw.split(self.splits, dim=-1)
        return {name: head(part) for (name, head), part in zip(self._heads(), parts, strict=True)}

    def _heads(self) -> list[tuple[str, Head]]:
        return [(name, head) for name, head in self.items() if isinstance(head, Head)]


class DataNetwork(nn.Module):
    """p_θ(x_i | m, z): context (E, B, C) and mask (E, B, M), bits or probabilities → a distribution per block.

    Baselines that know nothing of masks have a network that does not read one.
    """

    def __init__(
        self,
        schema: Schema,
        members: int,
        context: int,
        shape: NetShape,
        variance: Variance,
        reads_mask: bool = True,
    ) -> None:
        super().__init__()
        self.heads = Heads(schema, members, variance)
        self.splits = self.heads.splits
        self.net = MLP((members,), context + len(schema) * reads_mask, shape, sum(self.splits))

    def forward(self, context: Tensor, mask: Tensor | None) -> dict[str, Distribution]:
        if mask is not None:
            mask = mask.to(context.dtype).expand(*context.shape[:-1], -1)
            context = torch.cat([context, mask], dim=-1)
        distributions: dict[str, Distribution] = self.heads(self.net(context))
        return distributions
