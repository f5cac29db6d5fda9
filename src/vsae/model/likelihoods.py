"""p(x_i | m, z): one likelihood per family of variables, computed for a whole block at once.

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
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.schema import Block, Family

Variance = Literal["cell", "column", "mixed", "fixed"]  # mixed: cell and column in turn, over the members

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_FIXED_LOG_SCALE = 0.5 * math.log(0.5)  # variance ½: the negative log-likelihood is the squared error
_PACE = 10.0  # of log σ of a column: Adam moves all weights alike, and this one has farther to go than others
_DARKEST = 0.005  # of a mean image: a pixel that was never seen lit can still be
_FIRST_PIXEL_VARIANCE = 0.1  # where it is learned
_SCALE_RANGE = (-5.0, 3.0)  # of log σ in standard units: σ from .007 to 20
_FAR = 1e6  # standard deviations: an edge that nothing lies beyond
_NARROW = 1e-2  # an interval this narrow has mass density × width to six digits


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


class _Scored:
    """`error` by way of `error_of_mean`."""

    mean: Any

    def error(self, values: Tensor) -> Tensor:
        return self.error_of_mean(self.mean, values)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return (values - mean) ** 2


def _uniform_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def _normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def _gumbel_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Noise that makes the highest of log probabilities a draw."""
    return -torch.log(-torch.log(_uniform_like(x, generator).clamp_min(1e-20)))


def _normal_log_density(deviation: Tensor, log_scale: Tensor) -> Tensor:
    return -0.5 * (deviation * torch.exp(-log_scale)) ** 2 - log_scale - _HALF_LOG_TAU


@dataclass(frozen=True)
class Gaussian(_Scored):
    """N(loc, scale²) in standard units: normal or log-normal in natural ones."""

    loc: Tensor  # (E, B, variables)
    log_scale: Tensor  # broadcastable to it
    trained_log_scale: Tensor | None = None  # before calibration; None: there was none

    @property
    def scale(self) -> Tensor:
        return self.log_scale.exp().expand_as(self.loc)

    @property
    def trained_scale(self) -> Tensor:
        log_scale = self.log_scale if self.trained_log_scale is None else self.trained_log_scale
        return log_scale.exp().expand_as(self.loc)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def sample(self, generator: torch.Generator | None = None, noise: Tensor | None = None) -> Tensor:
        """A draw; its `noise`, standard normal in each cell, (E, B, variables), may be given."""
        return self.loc + self.scale * (_normal_like(self.loc, generator) if noise is None else noise)

    def log_prob(self, values: Tensor) -> Tensor:
        return _normal_log_density(values - self.loc, self.log_scale)

    @property
    def statistics(self) -> Tensor:
        return torch.stack([self.loc, self.loc**2], dim=-1)

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        mean, square = statistics.unbind(-1)
        squared_error = (square - mean**2).clamp_min(0.0) + (mean - self.loc) ** 2
        return -0.5 * squared_error * torch.exp(-2 * self.log_scale) - self.log_scale - _HALF_LOG_TAU


@dataclass(frozen=True)
class Interval(Gaussian):
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
    a, b = torch.where(a + b > 0, -b, a), torch.where(a + b > 0, -a, b)  # Φ is accurate on the left
    narrow = width < _NARROW
    density = -0.5 * ((a + b) / 2) ** 2 - _HALF_LOG_TAU + torch.log(width.clamp_min(1e-30))
    b = b.clamp_max(20.0)
    a = torch.maximum(a, b - 40.0)  # below that lies nothing, in float32
    log_upper = _log_ndtr(torch.where(narrow, a + _NARROW, b))  # the branch not taken stays finite
    log_ratio = _log_ndtr(a) - log_upper
    exact = log_upper + torch.log(-torch.expm1(log_ratio.clamp_max(-1e-6)))
    return torch.where(narrow, density, exact)


def _log_ndtr(x: Tensor) -> Tensor:
    """log Φ(x); beyond -10 by its asymptotic series, because torch's gradient there loses all digits."""
    far = x.clamp_max(-10.0)
    square = far**-2
    tail = -0.5 * far**2 - torch.log(-far) - _HALF_LOG_TAU + torch.log1p(square * (3 * square - 1))
    return torch.where(x < -10.0, tail, torch.special.log_ndtr(x.clamp_min(-10.0)))


@dataclass(frozen=True)
class Vector(_Scored):
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

    def log_prob(self, values: Tensor) -> Tensor:
        return self.entries.log_prob(values).sum(-1)

    @property
    def statistics(self) -> Tensor:
        return self.entries.statistics

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return self.entries.expected_log_prob(statistics).sum(-1)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return ((values - mean) ** 2).mean(-1)


@dataclass(frozen=True)
class Bernoulli(_Scored):
    """Two levels, one logit; `mean` is P(level 1)."""

    logits: Tensor  # (E, B, variables)

    @property
    def mean(self) -> Tensor:
        return torch.sigmoid(self.logits)

    @property
    def mode(self) -> Tensor:
        return (self.logits > 0).long()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return (_uniform_like(self.logits, generator) < self.mean).long()

    def take(self, rows: Tensor) -> Bernoulli:
        return Bernoulli(self.logits[:, rows])

    def tilted(self, tilt: Tensor) -> Bernoulli:
        """With something added to the log odds of each level 1."""
        return Bernoulli(self.logits + tilt)

    def log_prob(self, values: Tensor) -> Tensor:
        return self.expected_log_prob(values.to(self.logits.dtype))

    @property
    def statistics(self) -> Tensor:
        return self.mean

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return statistics * self.logits - F.softplus(self.logits)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return 2 * (values - mean) ** 2


def _summed(per_pixel: Tensor) -> Tensor:
    """(E, B, images, C, H, W) → (E, B, images)"""
    return per_pixel.flatten(3).sum(-1)


@dataclass(frozen=True)
class Picture(_Scored, ABC):
    """Pixels that are independent given z; their mean is sigmoid(logits), and the log-likelihood the sum over them.

    A draw is the mean: what varies from picture to picture is z, and noise from pixel to pixel would only hide it.
    """

    logits: Tensor  # (E, B, images, C, H, W)

    @property
    def mean(self) -> Tensor:
        return torch.sigmoid(self.logits)

    @property
    def mode(self) -> Tensor:
        return self.mean

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.mean

    @abstractmethod
    def log_prob(self, values: Tensor) -> Tensor: ...

    @property
    @abstractmethod
    def statistics(self) -> Tensor: ...

    @abstractmethod
    def expected_log_prob(self, statistics: Tensor) -> Tensor: ...

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return ((values - mean) ** 2).flatten(3).mean(-1)


@dataclass(frozen=True)
class BernoulliPicture(Picture):
    """x log p + (1 - x) log(1 - p), for grey values between 0 and 1 as well."""

    def log_prob(self, values: Tensor) -> Tensor:
        return self.expected_log_prob(values)

    @property
    def statistics(self) -> Tensor:
        return self.mean

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return _summed(statistics * self.logits - F.softplus(self.logits))


@dataclass(frozen=True)
class GaussianPicture(Picture):
    """N(mean, scale²), one scale an image attribute."""

    log_scale: Tensor  # (E, 1, images, 1, 1, 1)

    def log_prob(self, values: Tensor) -> Tensor:
        return _summed(_normal_log_density(values - self.mean, self.log_scale))

    @property
    def statistics(self) -> Tensor:
        return torch.stack([self.mean, self.mean**2], dim=-1)

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return _summed(Gaussian(self.mean, self.log_scale).expected_log_prob(statistics))


@dataclass(frozen=True)
class DiscretisedPicture(GaussianPicture):
    """The mass of that Gaussian around each of 256 grey values; black and white own what lies beyond them."""

    def log_prob(self, values: Tensor) -> Tensor:
        inverse, half = torch.exp(-self.log_scale), 0.5 / 255
        lower = torch.where(values <= half, -_FAR, (values - half - self.mean) * inverse)
        upper = torch.where(values >= 1 - half, _FAR, (values + half - self.mean) * inverse)
        width = torch.where(upper - lower < _FAR / 2, 2 * half * inverse, upper - lower)
        return _summed(log_normal_mass(lower, upper, width))


class Segments(nn.Module):
    """Where each variable's levels lie in one flat row of logits: variables of 2 and 3 levels make 5 logits."""

    offsets: Tensor
    owner: Tensor

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        length = torch.tensor(sizes)
        self.count, self.total = len(sizes), int(length.sum())
        self.register_buffer("offsets", length.cumsum(0) - length, persistent=False)  # (variables,)
        self.register_buffer("owner", torch.repeat_interleave(length), persistent=False)  # (levels,)

    def sum(self, x: Tensor) -> Tensor:
        """(…, levels) → (…, variables)."""
        return x.new_zeros(*x.shape[:-1], self.count).index_add(-1, self.owner, x)

    def max(self, x: Tensor) -> Tensor:
        low = torch.full((*x.shape[:-1], self.count), -torch.inf, dtype=x.dtype, device=x.device)
        return low.scatter_reduce(-1, self.owner.expand_as(x), x, "amax")

    def spread(self, x: Tensor) -> Tensor:
        """(…, variables) → (…, levels): each variable's number to all of its levels."""
        return x.index_select(-1, self.owner)

    def argmax(self, x: Tensor) -> Tensor:
        """The first best level of each variable, as a code; (…, levels) → (…, variables)."""
        best = x >= self.spread(self.max(x))
        code = torch.arange(self.total, device=x.device) - self.spread(self.offsets)
        candidates = torch.where(best, code, self.total)
        low = torch.full((*x.shape[:-1], self.count), self.total, device=x.device)
        return low.scatter_reduce(-1, self.owner.expand_as(x), candidates, "amin")


@dataclass(frozen=True)
class Categorical(_Scored):
    """Levels without an order: one segmented softmax over the flat logits of all variables."""

    logits: Tensor  # (E, B, all levels of all variables)
    segments: Segments

    @property
    def log_probs(self) -> Tensor:
        return self.logits - self.segments.spread(self._log_normaliser())

    @property
    def mean(self) -> Tensor:
        return self.log_probs.exp()

    @property
    def mode(self) -> Tensor:
        return self.segments.argmax(self.logits)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.segments.argmax(self.logits + _gumbel_like(self.logits, generator))

    def take(self, rows: Tensor) -> Categorical:
        return Categorical(self.logits[:, rows], self.segments)

    def tilted(self, tilt: Tensor) -> Categorical:
        """With something added to the log probability of each level."""
        return Categorical(self.logits + tilt, self.segments)

    def log_prob(self, values: Tensor) -> Tensor:
        index = (values + self.segments.offsets).expand(*self.logits.shape[:-1], -1)
        return self.logits.gather(-1, index) - self._log_normaliser()

    @property
    def statistics(self) -> Tensor:
        return self.mean

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return self.segments.sum(statistics * self.log_probs)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        index = (values + self.segments.offsets).expand(*mean.shape[:-1], -1)
        return self.segments.sum(mean**2) - 2 * mean.gather(-1, index) + 1

    def _log_normaliser(self) -> Tensor:
        highest = self.segments.max(self.logits.detach())
        return highest + self.segments.sum((self.logits - self.segments.spread(highest)).exp()).log()


@dataclass(frozen=True)
class Cumulative(_Scored):
    """Levels with an order: P(x ≤ k) = sigmoid((c_k - location) / scale), cutpoints c_0 < c_1 < … per variable."""

    location: Tensor  # (E, B, variables)
    log_scale: Tensor  # (E, B, variables)
    cutpoints: Tensor  # (E, 1, variables, most levels + 1), -big first, +big from the variable's last level on

    @property
    def log_probs(self) -> Tensor:
        edges = self._standard(self.cutpoints)
        return _log_logistic_mass(edges[..., :-1], edges[..., 1:])  # (E, B, variables, most levels)

    @property
    def mean(self) -> Tensor:
        return self.log_probs.exp()

    @property
    def mode(self) -> Tensor:
        return self.log_probs.argmax(-1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        uniform = _uniform_like(self.location, generator).clamp(1e-7, 1 - 1e-7)
        draw = self.location + self.log_scale.exp() * torch.logit(uniform)
        return (draw[..., None] > self.cutpoints[..., 1:-1]).sum(-1)

    def take(self, rows: Tensor) -> Cumulative:
        return Cumulative(self.location[:, rows], self.log_scale[:, rows], self.cutpoints)

    def tilted(self, tilt: Tensor) -> Loose:
        """With something added to the log probability of each level, which then follow no cutpoints any more."""
        return Loose(self.log_probs + tilt)

    def log_prob(self, values: Tensor) -> Tensor:
        index = values[..., None]
        cutpoints = self.cutpoints.expand(*self.location.shape, -1)
        index = index.expand(*self.location.shape, 1)
        lower, upper = cutpoints.gather(-1, index), cutpoints.gather(-1, index + 1)
        return _log_logistic_mass(self._standard(lower), self._standard(upper)).squeeze(-1)

    @property
    def statistics(self) -> Tensor:
        return self.mean

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return (statistics * self.log_probs.clamp_min(-1e4)).sum(-1)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        index = values[..., None].expand(*mean.shape[:-1], 1)
        return (mean**2).sum(-1) - 2 * mean.gather(-1, index).squeeze(-1) + 1

    def _standard(self, cutpoints: Tensor) -> Tensor:
        return (cutpoints - self.location[..., None]) * torch.exp(-self.log_scale)[..., None]


@dataclass(frozen=True)
class Loose:
    """Levels of several variables, side by side as those of `Cumulative` are; to be drawn from."""

    logits: Tensor  # (E, B, variables, most levels)

    @property
    def mean(self) -> Tensor:
        return torch.softmax(self.logits, dim=-1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return (self.logits + _gumbel_like(self.logits, generator)).argmax(-1)


Levels = Bernoulli | Categorical | Cumulative  # distributions of levels


def _log_logistic_mass(a: Tensor, b: Tensor) -> Tensor:
    """log(σ(b) - σ(a)) = log σ(b) + log σ(-a) + log(1 - exp(a - b)); -1e9 or so where a = b: no such level."""
    gap = (b - a).clamp_min(1e-6)
    mass = F.logsigmoid(b) + F.logsigmoid(-a) + torch.log(-torch.expm1(-gap))
    return torch.where(b > a, mass, torch.full_like(mass, -1e9))


class Head(nn.Module, ABC):
    """Reads `n_parameters` numbers a row off the data network and makes a distribution of them."""

    n_parameters: int

    @abstractmethod
    def forward(self, raw: Tensor) -> Distribution: ...


class ScaledHead(Head):
    """Shared by all Gaussian heads: log σ is fixed, one number a column, or that plus one a cell."""

    slow_log_scale: Tensor  # the weight that is trained
    per_cell: Tensor
    spread: Tensor  # added to log σ in use, not in training: see calibration.py

    def __init__(self, members: int, columns: int, variance: Variance) -> None:
        super().__init__()
        self.columns = columns
        per_cell = [variance == "cell" or (variance == "mixed" and e % 2 == 0) for e in range(members)]
        self.n_parameters = columns * (2 if any(per_cell) else 1)
        self.register_buffer("per_cell", torch.tensor(per_cell).float().view(-1, 1, 1))
        self.register_buffer("spread", torch.zeros(members, 1, columns))
        start = torch.full((members, 1, columns), _FIXED_LOG_SCALE / _PACE if variance == "fixed" else 0.0)
        if variance == "fixed":
            self.register_buffer("slow_log_scale", start, persistent=False)
        else:
            self.slow_log_scale = nn.Parameter(start)

    @property
    def column_log_scale(self) -> Tensor:
        """log σ of each column, (E, 1, columns)"""
        return self.slow_log_scale * _PACE

    def _gaussian_parameters(self, raw: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """loc, log σ, and the latter before calibration."""
        loc, cell = raw[..., : self.columns], raw[..., self.columns :]
        column = self.column_log_scale
        log_scale = column + self.per_cell * cell if cell.shape[-1] else column
        trained = log_scale.clamp(*_SCALE_RANGE)
        return (loc, trained, None) if self.training else (loc, (log_scale + self.spread).clamp(*_SCALE_RANGE), trained)


class GaussianHead(ScaledHead):
    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__(members, len(block), variance)

    def forward(self, raw: Tensor) -> Gaussian:
        return Gaussian(*self._gaussian_parameters(raw))


class IntervalHead(GaussianHead):
    def forward(self, raw: Tensor) -> Interval:
        return Interval(*self._gaussian_parameters(raw))


class VectorHead(ScaledHead):
    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__(members, len(block) * block.width, variance)
        self.shape = (len(block), block.width)

    def forward(self, raw: Tensor) -> Vector:
        loc, log_scale, _ = self._gaussian_parameters(raw)
        return Vector(Gaussian(loc.unflatten(-1, self.shape), log_scale.unflatten(-1, self.shape)))


class BernoulliHead(Head):
    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__()
        self.n_parameters = len(block)

    def forward(self, raw: Tensor) -> Bernoulli:
        return Bernoulli(raw)


class CategoricalHead(Head):
    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__()
        self.segments = Segments(block.sizes)
        self.n_parameters = self.segments.total

    def forward(self, raw: Tensor) -> Categorical:
        return Categorical(raw, self.segments)


class PictureHead(Head):
    """Logits of pixels; a Gaussian's variance is fixed, or (None) learned, one an image attribute.

    What the networks say is added to the logits of the mean image (`begin_at`): else they would spend their first
    hundreds of steps on painting that one, with no use for z.
    """

    slow_log_scale: Tensor
    centre: Tensor

    def __init__(self, block: Block, members: int, pixel_variance: float | None) -> None:
        super().__init__()
        self.shape, self.pixels = (len(block), *block.event), block.variables[0].pixels
        self.n_parameters, self.block = math.prod(self.shape), block.name
        self.register_buffer("centre", torch.zeros(members, 1, *self.shape))
        start = 0.5 * math.log(_FIRST_PIXEL_VARIANCE if pixel_variance is None else pixel_variance) / _PACE
        scale = torch.full((members, 1, len(block), 1, 1, 1), start)
        if pixel_variance is None and self.pixels != "bernoulli":
            self.slow_log_scale = nn.Parameter(scale)
        else:
            self.register_buffer("slow_log_scale", scale, persistent=False)

    @torch.no_grad()
    def begin_at(self, mean: Tensor, members: slice) -> None:
        """The mean images, (images, C, H, W), that some members begin at."""
        self.centre[members] = torch.logit(mean.clamp(_DARKEST, 1 - _DARKEST))

    def forward(self, raw: Tensor) -> Picture:
        logits = raw.unflatten(-1, self.shape) + self.centre
        if self.pixels == "bernoulli":
            return BernoulliPicture(logits)
        kind = DiscretisedPicture if self.pixels == "discretised" else GaussianPicture
        return kind(logits, (self.slow_log_scale * _PACE).clamp(*_SCALE_RANGE))


class CumulativeHead(Head):
    """Cutpoints are free parameters: the first one, and positive gaps (softplus) between the next."""

    inner: Tensor

    def __init__(self, block: Block, members: int, variance: Variance) -> None:
        super().__init__()
        sizes = torch.tensor(block.sizes)
        most = int(sizes.max())
        self.n_parameters = 2 * len(block)
        self.first = nn.Parameter(-torch.ones(members, 1, len(block), 1))
        self.gaps = nn.Parameter(torch.zeros(members, 1, len(block), max(most - 2, 0)))
        # cutpoint k sits above level k; those at or above a variable's last level are out of reach
        self.register_buffer("inner", torch.arange(most - 1) < sizes[:, None] - 1, persistent=False)

    def forward(self, raw: Tensor) -> Cumulative:
        location, log_scale = raw.chunk(2, dim=-1)
        edge = torch.full_like(self.first, 1e4)
        steps = torch.cat([self.first, F.softplus(self.gaps)], dim=-1)[..., : self.inner.shape[-1]]
        cutpoints = torch.where(self.inner, steps.cumsum(-1), edge)
        return Cumulative(location, log_scale.clamp(-3.0, 3.0), torch.cat([-edge, cutpoints, edge], dim=-1))


LIKELIHOODS: dict[Family, type[Head]] = {
    Family.GAUSSIAN: GaussianHead,
    Family.INTERVAL: IntervalHead,
    Family.BERNOULLI: BernoulliHead,
    Family.CATEGORICAL: CategoricalHead,
    Family.CUMULATIVE: CumulativeHead,
    Family.VECTOR: VectorHead,
}


def head_for(block: Block, members: int, variance: Variance, pixel_variance: float | None = None) -> Head:
    """The one place where a family becomes a likelihood."""
    if block.family is Family.IMAGE:
        return PictureHead(block, members, pixel_variance)
    head: Head = LIKELIHOODS[block.family](block, members, variance)  # type: ignore[call-arg]
    return head
