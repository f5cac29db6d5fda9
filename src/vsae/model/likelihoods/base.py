"""What every likelihood has in common.

A head turns a slice of the data network's output into a distribution over its block; a distribution knows

    log_prob(values)              log p(x), values as in `Batch`                → (E, B, variables)
    mean                          E[x] in standard units, or level probabilities
    mode                          the single best value, as `Encoding.decode` takes it
    sample()                      a draw, as `Encoding.decode` takes it
    statistics                    what of this distribution the E step averages over its samples
    expected_log_prob(statistics) E[log p(x̂)] over the x̂ those statistics describe
    error(values)                 squared error, or Brier score Σ_k (p_k - 1[x = k])²; (E, B, variables)
    error_of_mean(mean, values)   the same for another `mean`, such as an average over members

`statistics` carry the E step: log p is linear in x̂'s sufficient statistics (mean and square, or probabilities), so
100 samples of x̂ need not be kept, only their average.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol

import torch
from torch import Tensor, nn

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)

PACE = 10.0  # of log σ of a column: Adam moves all weights alike, and this one has farther to go than others

SCALE_RANGE = (-5.0, 3.0)  # of log σ in standard units: σ from .007 to 20


class Distribution(Protocol):
    """The contract above; `generator` makes draws reproducible without touching the global state."""

    def log_prob(self, values: Tensor) -> Tensor: ...
    @property
    def mean(self) -> Tensor: ...
    @property
    def mode(self) -> Tensor: ...
    def sample(self, generator: torch.Generator | None = None) -> Tensor: ...
    @property
    def statistics(self) -> Tensor: ...
    def expected_log_prob(self, statistics: Tensor) -> Tensor: ...
    def error(self, values: Tensor) -> Tensor: ...
    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor: ...


class Head(nn.Module, ABC):
    """Reads `n_parameters` numbers a row off the data network and makes a distribution of them."""

    n_parameters: int

    @abstractmethod
    def forward(self, raw: Tensor) -> Distribution: ...


class Scored:
    """`error` by way of `error_of_mean`."""

    mean: Any

    def error(self, values: Tensor) -> Tensor:
        return self.error_of_mean(self.mean, values)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return (values - mean) ** 2


def uniform_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def gumbel_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Noise that makes the highest of log probabilities a draw."""
    return -torch.log(-torch.log(uniform_like(x, generator).clamp_min(1e-20)))


def normal_log_density(deviation: Tensor, log_scale: Tensor) -> Tensor:
    return -0.5 * (deviation * torch.exp(-log_scale)) ** 2 - log_scale - HALF_LOG_TAU
