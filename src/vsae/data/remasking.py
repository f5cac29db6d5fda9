"""Hiding what is known, so that there is something to learn from and to score.

DIFF(paper): an observed attribute is reconstructed from its own latent, so nothing would teach the collective proposal
to predict it. Hidden but known, it does.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST = 0.1  # weight of an attribute that never was missing: in rows to come, it may be


def remask(mask: Tensor, low: float, high: float, weight: Tensor | None = None) -> Tensor:
    """Hide, in each row, a share of the observed attributes drawn from U(low, high); (E, B, M).

    `weight` (M,) scales the share of each attribute.
    """
    share = low + (high - low) * torch.rand(*mask.shape[:-1], 1, device=mask.device)
    if weight is not None:
        share = share * weight
    return mask & (torch.rand(mask.shape, device=mask.device) >= share)


def remask_weights(mask: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """(M,) in (0, 1], from the mask of a data set (n, M) and weights of its rows (n, 1).

    What is rarely missing is rarely asked for, so rarely hidden: the rows seen in training then lack the cells that
    rows lack, and have more of the others' context.

    >>> remask_weights(torch.tensor([[True, False, False], [True, True, False]]))
    tensor([0.1000, 0.7071, 1.0000])
    """
    rate = 1 - (mask * weight).float().mean(0)
    most = rate.max()
    return (rate / most).sqrt().clamp_min(_LEAST) if most > 0 else torch.ones_like(rate)
