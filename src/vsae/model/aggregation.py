"""F(z): the latents of all attributes → one context for the decoders. Its cost is linear in their number.

    concat      the paper's: side by side; the decoders' first layer grows with the number of attributes
    pooled      a small network of its own for each attribute's latent, and the mean over attributes
    attention   the same, but some learned queries each take a weighted mean, with weights that depend on the latents

The last two give a context of fixed width, however many attributes there are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.model.config import AggregationKind
from vsae.model.nets import GroupedLinear

_QUERIES = 8  # as many heads as attention usually has


class Aggregation(nn.Module, ABC):
    """(E, B, M, L) → (E, B, width). Subclasses set `width`; cost must stay linear in M."""

    width: int

    @abstractmethod
    def forward(self, z: Tensor) -> Tensor: ...


class Concatenation(Aggregation):
    """The paper's choice.

    >>> import torch
    >>> Concatenation(attributes=3, latent_dim=2)(torch.zeros(1, 5, 3, 2)).shape
    torch.Size([1, 5, 6])
    """

    def __init__(self, attributes: int, latent_dim: int) -> None:
        super().__init__()
        self.width = attributes * latent_dim

    def forward(self, z: Tensor) -> Tensor:
        return z.flatten(-2)


class Pooling(Aggregation):
    """Σ_i relu(W_i z_i + b_i) / √M: an attribute is told by its own W_i; √M keeps the size of a sum of many.

    >>> Pooling(members=1, attributes=3, latent_dim=2, width=16)(torch.zeros(1, 5, 3, 2)).shape
    torch.Size([1, 5, 16])
    """

    def __init__(self, members: int, attributes: int, latent_dim: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.own = GroupedLinear((members, attributes), latent_dim, width)

    def forward(self, z: Tensor) -> Tensor:
        h = F.relu(self.own(z.transpose(-2, -3)))  # (E, M, B, width)
        return h.sum(1) / math.sqrt(h.shape[1])


class Attention(Aggregation):
    """Queries q_k, (width / 8) each: Σ_i softmax_i(q_k · W_i z_i) V_i z_i, one beside the other.

    >>> Attention(members=1, attributes=3, latent_dim=2, width=16)(torch.zeros(1, 5, 3, 2)).shape
    torch.Size([1, 5, 16])
    """

    def __init__(self, members: int, attributes: int, latent_dim: int, width: int) -> None:
        super().__init__()
        self.width, self.queries = width, min(_QUERIES, width)
        if width % self.queries:
            raise ValueError(f"a width of {width} can not be shared by {self.queries} queries; take a multiple")
        self.scores = GroupedLinear((members, attributes), latent_dim, self.queries)  # q_k · W_i, multiplied out
        self.own = GroupedLinear((members, attributes), latent_dim, width)

    def forward(self, z: Tensor) -> Tensor:
        z = z.transpose(-2, -3)  # (E, M, B, L)
        weight = torch.softmax(self.scores(z), dim=1)[..., None]  # (E, M, B, queries, 1)
        values = self.own(z).unflatten(-1, (self.queries, -1))
        return (weight * values).sum(1).flatten(-2)


def aggregation(kind: AggregationKind, members: int, attributes: int, latent_dim: int, width: int) -> Aggregation:
    """`width` is that of the context, where it can be chosen."""
    if kind == "concat":
        return Concatenation(attributes, latent_dim)
    return (Pooling if kind == "pooled" else Attention)(members, attributes, latent_dim, width)
