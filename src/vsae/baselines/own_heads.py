"""A head of its own for each attribute, on features of its own: HI-VAE's and ReMasker's last layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vsae.data.schema import Family, Schema
from vsae.model.generative import DataDistribution, Heads
from vsae.model.nets import GroupedLinear


class OwnHeads(nn.Module):
    """A linear map for each attribute, then the likelihoods: (E, M, B, n_in) → a distribution per block."""

    slots: Tensor

    def __init__(self, schema: Schema, heads: Heads, members: int, n_in: int) -> None:
        super().__init__()
        self.heads, slots = heads, _slots(schema, heads)
        self.most = max(torch.bincount(slots).tolist())
        self.linear = GroupedLinear((members, len(schema)), n_in, self.most)
        # where each parameter of the heads is found among those of all attributes, `most` each
        order = torch.zeros_like(slots)
        for attribute in range(len(schema)):
            mine = slots == attribute
            order[mine] = torch.arange(int(mine.sum()))
        self.register_buffer("slots", slots * self.most + order, persistent=False)

    def forward(self, h: Tensor) -> DataDistribution:
        raw: Tensor = self.linear(h).transpose(1, 2).flatten(-2)  # (E, B, M·most)
        distributions: DataDistribution = self.heads(raw.index_select(-1, self.slots))
        return distributions

    @property
    def numbers_per_row(self) -> int:
        attributes, n_in = self.linear.weight.shape[1:3]
        return 2 * attributes * (self.most + n_in) + self.heads.numbers_per_row


def _slots(schema: Schema, heads: Heads) -> Tensor:
    """The attribute of each parameter that the heads take, in their order."""
    owners: list[int] = []
    for block, count in zip(schema.blocks, heads.splits, strict=True):
        if block.family is Family.CATEGORICAL:
            widths, rounds = list(block.sizes), 1
        else:  # all locations, then all scales; or one parameter a variable
            width = {Family.VECTOR: block.width, Family.IMAGE: count // len(block)}.get(block.family, 1)
            widths, rounds = [width] * len(block), count // (width * len(block))
        for _ in range(rounds):
            owners += [i for i, width in zip(block.attributes, widths, strict=True) for _ in range(width)]
    return torch.tensor(owners)
