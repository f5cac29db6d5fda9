"""Networks as batches of networks: every weight has leading *group* dimensions, computed as one product.

Groups are `(E,)` for the members of an ensemble, or `(E, M)` for one small network per member and attribute. Members
never mix: training E of them together gives what training each alone would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.model.config import NetShape


class GroupedLinear(nn.Module):
    """y_g = x_g W_g + b_g for all groups g at once: (*groups, B, n_in) → (*groups, B, n_out).

    >>> GroupedLinear((2, 3), 4, 5)(torch.zeros(2, 3, 7, 4)).shape
    torch.Size([2, 3, 7, 5])
    """

    def __init__(self, groups: Sequence[int], n_in: int, n_out: int) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(max(n_in, 1))
        self.weight = nn.Parameter(torch.empty(*groups, n_in, n_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(*groups, 1, n_out).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        groups = self.weight.shape[:-2]
        if x.shape[:-2] != groups:
            x = x.expand(*groups, *x.shape[-2:])
        y = torch.baddbmm(self.bias.flatten(0, -3), x.flatten(0, -3), self.weight.flatten(0, -3))
        return y.unflatten(0, groups) if len(groups) > 1 else y


class GroupedLayerNorm(nn.Module):
    """LayerNorm over the last dimension, with a gain and a shift for each group."""

    def __init__(self, groups: Sequence[int], width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(*groups, 1, width))
        self.shift = nn.Parameter(torch.zeros(*groups, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift, F.layer_norm(x, x.shape[-1:]), self.gain)


class ResidualBlock(nn.Module):
    """h + W₂ relu(W₁ norm(h))."""

    def __init__(self, groups: Sequence[int], width: int) -> None:
        super().__init__()
        self.norm = GroupedLayerNorm(groups, width)
        self.inner = GroupedLinear(groups, width, width)
        self.outer = GroupedLinear(groups, width, width)

    def forward(self, h: Tensor) -> Tensor:
        outer: Tensor = self.outer(F.relu(self.inner(self.norm(h))))
        return h + outer


class Hidden(nn.Module):
    """What follows a first layer: (*groups, B, width) pre-activations → (*groups, B, width) features.

    A plain shape of depth d holds d - 1 further layers: the first layer, wherever it is, is the d-th.
    """

    def __init__(self, groups: Sequence[int], shape: NetShape) -> None:
        super().__init__()
        if shape.residual:
            blocks = (ResidualBlock(groups, shape.width) for _ in range(shape.depth))
            self.layers = nn.Sequential(*blocks, GroupedLayerNorm(groups, shape.width), nn.ReLU())
        else:
            layers: list[nn.Module] = [nn.ReLU()]
            for _ in range(shape.depth - 1):
                layers += [GroupedLinear(groups, shape.width, shape.width), nn.ReLU()]
            self.layers = nn.Sequential(*layers)

    def forward(self, h: Tensor) -> Tensor:
        features: Tensor = self.layers(h)
        return features


class MLP(nn.Module):
    """First layer, `Hidden`, last layer: (*groups, B, n_in) → (*groups, B, n_out).

    With groups (E, M) these are E·M separate small networks, run as one.
    """

    def __init__(self, groups: Sequence[int], n_in: int, shape: NetShape, n_out: int) -> None:
        super().__init__()
        self.first = GroupedLinear(groups, n_in, shape.width)
        self.hidden = Hidden(groups, shape)
        self.last = GroupedLinear(groups, shape.width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.hidden(self.first(x)))
        return y
