"""Thresholds: what a missing cell holds where all values beyond some value are missing.

No observed cell is like those that are hidden, so there is nothing to tilt: the column goes on beyond the cut. It is
taken for normal around a mean that the row tells, x ~ N(μ, σ²), of which values up to the cut c are seen:

    x | missing ~ N(μ, σ²), given x > c

The model, which learned from what is seen, estimates E[x | x ≤ c] = μ - σ φ(α) / Φ(α), α = (c - μ) / σ, and this is
turned back into μ. How it is fitted: `mechanism/censored.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vsae.imputation.residual_quantiles import interpolated

_GRID = torch.linspace(-6.0, 4.0, 401, dtype=torch.float64)  # of (μ - c) / σ: beyond, a row tells no more
_LEAST = 1e-300


class Threshold(NamedTuple):
    """Of one column, in standard units; with sign -1 it is what lies below the cut that is missing.

    >>> threshold = Threshold(1.0, 0.0, 1.0, 0.0, 1.0, 1.0)
    >>> estimate = torch.tensor([-0.7979])  # the mean of the lower half of a standard normal
    >>> threshold.quantile(estimate, torch.tensor([0.5])).round(decimals=2)  # the median of its upper half
    tensor([0.6700])
    """

    sign: float
    cut: float
    inner_std: float  # with which estimates are turned into means
    shift: float  # μ = shift + gain · (such a mean)
    gain: float
    std: float

    def mean(self, estimate: Tensor) -> Tensor:
        """μ, in double precision and mirrored if the sign is -1."""
        deviate = _GRID.to(estimate.device)
        cut, estimate = self.sign * self.cut, self.sign * estimate.double()
        seen = deviate - torch.exp(-0.5 * deviate**2 - 0.9189385332 - torch.special.log_ndtr(-deviate))
        found = interpolated(cut + self.inner_std * seen, cut + self.inner_std * deviate, estimate)
        return self.shift + self.gain * found

    def quantile(self, estimate: Tensor, rank: Tensor) -> Tensor:
        """Values of missing cells at ranks (…, B), where the model's estimates are (B,)."""
        mean, rank = self.mean(estimate), rank.double() if self.sign > 0 else 1 - rank.double()
        beyond = torch.special.ndtr((mean - self.sign * self.cut) / self.std)
        deviate = -torch.special.ndtri(((1 - rank) * beyond).clamp_min(_LEAST))
        value = (mean + self.std * deviate).clamp_min(self.sign * self.cut)
        return (self.sign * value).to(estimate)
