"""Weights of rows: how many rows of the population one stands for.

What learns by steps or by sums weighs its rows; what looks at rows once looks at a sample of them, in which a row is as
often as its weight says.
"""

from __future__ import annotations

import torch
from torch import Tensor


def effective_rows(weight: Tensor) -> float:
    """How many rows of equal weight would tell as much (Kish 1965).

    >>> effective_rows(torch.tensor([1.0, 1.0, 0.0])), round(effective_rows(torch.tensor([3.0, 1.0])), 2)
    (2.0, 1.6)
    """
    weight = weight.double()
    return float(weight.sum() ** 2 / (weight**2).sum())


def systematic(weight: Tensor, count: int, start: Tensor | float = 0.5) -> Tensor:
    """A systematic sample of rows with weights (…, n): rising numbers (…, count), a row being there as often as its
    share of the weights, rounded down or up. `start` in (0, 1), (…, 1), decides which.

    >>> systematic(torch.tensor([1.0, 0.0, 2.0]), 6)
    tensor([0, 0, 2, 2, 2, 2])
    """
    edges = weight.double().cumsum(-1)
    place = (torch.arange(count, device=weight.device) + start) / count * edges[..., -1:]
    return torch.searchsorted(edges, place.contiguous(), right=True).clamp_max(weight.shape[-1] - 1)
