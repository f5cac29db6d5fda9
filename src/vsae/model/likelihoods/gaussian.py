"""Numbers and vectors: Gaussians in standard units, or their mass between two edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from vsae.data.schema import Block
from vsae.model.config import Variance
from vsae.model.likelihoods.base import HALF_LOG_TAU, PACE, SCALE_RANGE, Head, Scored, normal_like, normal_log_density

_FIXED_LOG_SCALE = 0.5 * math.log(0.5)  # variance ½: the negative log-likelihood is the squared error

_LEAST_FACTOR = 1e-3  # of σ: its logarithm stays finite
_FAR_RIGHT = 10.0  # Φ is 1 there, in float32
_NARROW = 1e-2  # an interval this narrow has mass density × width to six digits


@dataclass(frozen=True)
class Gaussian(Scored):
    """N(loc, scale²) in standard units: normal or log-normal in natural ones."""

    loc: Tensor  # (E, B, variables)
    log_scale: Tensor  # broadcastable to it

    @property
    def scale(self) -> Tensor:
        return self.log_scale.exp().expand_as(self.loc)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def sample(self, generator: torch.Generator | None = None, noise: Tensor | None = None) -> Tensor:
        """A draw; its `noise`, standard normal in each cell, (E, B, variables), may be given."""
        return self.loc + self.scale * (normal_like(self.loc, generator) if noise is None else noise)

    def widened(self, factor: Tensor) -> Gaussian:
        """The same with σ times a factor, broadcastable to it."""
        return replace(self, log_scale=self.log_scale + factor.to(self.log_scale).clamp_min(_LEAST_FACTOR).log())

    def log_prob(self, values: Tensor) -> Tensor:
        return normal_log_density(values - self.loc, self.log_scale)

    @property
    def statistics(self) -> Tensor:
        return torch.stack([self.loc, self.loc**2], dim=-1)

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        mean, square = statistics.unbind(-1)
        squared_error = (square - mean**2).clamp_min(0.0) + (mean - self.loc) ** 2
        return -0.5 * squared_error * torch.exp(-2 * self.log_scale) - self.log_scale - HALF_LOG_TAU


@dataclass(frozen=True)
class CensoredGaussian(Gaussian):
    """A Gaussian seen through intervals: P(a < y < b) = Φ((b - μ)/σ) - Φ((a - μ)/σ).

    Counts are intervals of width one: unlike a Poisson or negative binomial, this may be under- as well as
    over-dispersed (ages, years, scores). A bound is an interval that reaches to infinity (a Tobit likelihood).
    Targets of the E step are means, not intervals: they are scored by the density.
    """

    def log_prob(self, values: Tensor) -> Tensor:
        _, lower, upper = values.unbind(-1)
        inverse = torch.exp(-self.log_scale)
        width = (upper - lower) * inverse  # before loc is subtracted: exact in float32, however narrow
        return log_normal_mass((lower - self.loc) * inverse, (upper - self.loc) * inverse, width)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return (values[..., 0] - mean) ** 2


def log_normal_mass(a: Tensor, b: Tensor, width: Tensor) -> Tensor:
    """log(Φ(b) - Φ(a)), stable in the tails and for narrow intervals; `width` is b - a, known more exactly.

    >>> a, b = torch.tensor([-1.0, 10.0]), torch.tensor([1.0, 11.0])
    >>> log_normal_mass(a, b, b - a)
    tensor([ -0.3817, -53.2313])
    """
    mass: Tensor = _LogNormalMass.apply(a, b, width)  # type: ignore[no-untyped-call]
    return mass


class _LogNormalMass(torch.autograd.Function):
    """Its derivatives, φ(b) / mass and -φ(a) / mass, take far fewer operations than those of all that is done here.

    erfcx(-x / √2) = 2 Φ(x) exp(x² / 2) does not vanish in the tail, where differences of log Φ would have no digits.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, width: Tensor) -> Tensor:
        right = a + b > 0  # Φ is accurate on the left
        low, high = torch.where(right, -b, a), torch.where(right, -a, b).clamp_max_(_FAR_RIGHT)
        low = torch.maximum(low, high - 40.0)  # below that lies nothing, in float32
        scaled_low, scaled_high = torch.special.erfcx(torch.stack([low, high]) * -math.sqrt(0.5))
        fall = 0.5 * (high - low) * (high + low)  # log φ(low) - log φ(high)
        share = -torch.expm1((torch.log(scaled_low / scaled_high) + fall).clamp_max_(-1e-6))  # of Φ(high)
        exact = torch.log(0.5 * scaled_high * share) - 0.5 * high**2
        density = -0.125 * (a + b) ** 2 - HALF_LOG_TAU + torch.log(width.clamp_min(1e-30))
        of_high = math.sqrt(2 / math.pi) / (scaled_high * share)
        ctx.save_for_backward(a + b, width, right, of_high, of_high * torch.exp(fall))
        return torch.where(width < _NARROW, density, exact)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        total, width, right, of_high, of_low = ctx.saved_tensors
        narrow, centre = width < _NARROW, -0.25 * total
        of_a = torch.where(narrow, centre, -torch.where(right, of_high, of_low))
        of_b = torch.where(narrow, centre, torch.where(right, of_low, of_high))
        of_width = torch.where(narrow, 1 / width.clamp_min(1e-30), 0.0)
        return of_a * gradient, of_b * gradient, of_width * gradient


@dataclass(frozen=True)
class Vector(Scored):
    """A Gaussian for each entry of a vector; the log-likelihood is the sum over entries."""

    entries: Gaussian  # loc (E, B, variables, d)

    @property
    def scale(self) -> Tensor:
        return self.entries.scale

    @property
    def mean(self) -> Tensor:
        return self.entries.loc

    @property
    def mode(self) -> Tensor:
        return self.entries.loc

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.entries.sample(generator)

    def widened(self, factor: Tensor) -> Vector:
        return Vector(self.entries.widened(factor))

    def log_prob(self, values: Tensor) -> Tensor:
        return self.entries.log_prob(values).sum(-1)

    @property
    def statistics(self) -> Tensor:
        return self.entries.statistics

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return self.entries.expected_log_prob(statistics).sum(-1)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return ((values - mean) ** 2).mean(-1)


class ScaledHead(Head):
    """Shared by all Gaussian heads: log σ is fixed, one number a column, or that plus one a cell."""

    slow_log_scale: Tensor  # the weight that is trained
    per_cell: Tensor

    def __init__(self, members: int, columns: int, variance: Variance) -> None:
        super().__init__()
        self.columns = columns
        per_cell = [variance == "cell" or (variance == "mixed" and e % 2 == 0) for e in range(members)]
        self.n_parameters = columns * (2 if any(per_cell) else 1)
        self.register_buffer("per_cell", torch.tensor(per_cell).float().view(-1, 1, 1))
        start = torch.full((members, 1, columns), _FIXED_LOG_SCALE / PACE if variance == "fixed" else 0.0)
        if variance == "fixed":
            self.register_buffer("slow_log_scale", start, persistent=False)
        else:
            self.slow_log_scale = nn.Parameter(start)

    @property
    def column_log_scale(self) -> Tensor:
        """log σ of each column, (E, 1, columns)"""
        return self.slow_log_scale * PACE

    def _gaussian_parameters(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """loc, log σ"""
        loc, *cell = raw.split(self.columns, dim=-1)
        column = self.column_log_scale
        log_scale = torch.addcmul(column, self.per_cell, cell[0]) if cell else column
        return loc, log_scale.clamp(*SCALE_RANGE)


class GaussianHead(ScaledHead):
    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__(members, len(block), variance)

    def forward(self, raw: Tensor) -> Gaussian:
        return Gaussian(*self._gaussian_parameters(raw))


class IntervalHead(GaussianHead):
    def forward(self, raw: Tensor) -> CensoredGaussian:
        return CensoredGaussian(*self._gaussian_parameters(raw))


class VectorHead(ScaledHead):
    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__(members, len(block) * block.width, variance)
        self.shape = (len(block), block.width)

    def forward(self, raw: Tensor) -> Vector:
        loc, log_scale = (x.unflatten(-1, self.shape) for x in self._gaussian_parameters(raw))
        return Vector(Gaussian(loc, log_scale))
