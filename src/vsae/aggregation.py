"""F(z): the latents of all attributes → one context for the decoders."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


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
