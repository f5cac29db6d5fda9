"""Levels: two, several without an order, several with one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.schema import Block
from vsae.model.config import Variance
from vsae.model.likelihoods.base import Head, Scored, gumbel_like, uniform_like


@dataclass(frozen=True)
class Bernoulli(Scored):
    """Two levels, one logit; `mean` is P(level 1)."""

    logits: Tensor  # (E, B, variables)

    @property
    def mean(self) -> Tensor:
        return torch.sigmoid(self.logits)

    @property
    def mode(self) -> Tensor:
        return (self.logits > 0).long()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return (uniform_like(self.logits, generator) < self.mean).long()

    def log_prob(self, values: Tensor) -> Tensor:
        return self.expected_log_prob(values.to(self.logits.dtype))

    @property
    def statistics(self) -> Tensor:
        return self.mean

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return statistics * self.logits - F.softplus(self.logits)

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return 2 * (values - mean) ** 2


class Segments(nn.Module):
    """Where each variable's levels lie in one flat row of logits: variables of 2 and 3 levels make 5 logits."""

    offsets: Tensor
    owner: Tensor
    by_size: Tensor
    in_order: Tensor

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        length = torch.tensor(sizes)
        self.count, self.total = len(sizes), int(length.sum())
        self.register_buffer("offsets", length.cumsum(0) - length, persistent=False)  # (variables,)
        self.register_buffer("owner", torch.repeat_interleave(length), persistent=False)  # (levels,)
        by_size = length[self.owner].argsort(stable=True)
        self.register_buffer("by_size", by_size, persistent=False)  # (levels,)
        self.register_buffer("in_order", by_size.argsort(), persistent=False)
        self.groups = sorted(Counter(sizes).items())  # a size, and how many variables have it

    def sum(self, x: Tensor) -> Tensor:
        """(…, levels) → (…, variables)."""
        return x.new_zeros(*x.shape[:-1], self.count).index_add(-1, self.owner, x)

    def max(self, x: Tensor) -> Tensor:
        low = torch.full((*x.shape[:-1], self.count), -torch.inf, dtype=x.dtype, device=x.device)
        return low.scatter_reduce(-1, self.owner.expand_as(x), x, "amax")

    def broadcast(self, x: Tensor) -> Tensor:
        """(…, variables) → (…, levels): each variable's number to all of its levels."""
        return x.index_select(-1, self.owner)

    def softmax(self, x: Tensor) -> Tensor:
        """Over each variable's levels; variables that have as many are one operation.

        >>> Segments((2, 3)).softmax(torch.zeros(1, 5))
        tensor([[0.5000, 0.5000, 0.3333, 0.3333, 0.3333]])
        """
        if len(self.groups) == 1:
            return _softmax(x, *self.groups[0])
        parts = x.index_select(-1, self.by_size).split([size * n for size, n in self.groups], dim=-1)
        shares = [_softmax(part, *group) for part, group in zip(parts, self.groups, strict=True)]
        return torch.cat(shares, dim=-1).index_select(-1, self.in_order)

    def argmax(self, x: Tensor) -> Tensor:
        """The first best level of each variable, as a code; (…, levels) → (…, variables)."""
        best = x >= self.broadcast(self.max(x))
        code = torch.arange(self.total, device=x.device) - self.broadcast(self.offsets)
        candidates = torch.where(best, code, self.total)
        low = torch.full((*x.shape[:-1], self.count), self.total, device=x.device)
        return low.scatter_reduce(-1, self.owner.expand_as(x), candidates, "amin")


def _softmax(x: Tensor, size: int, count: int) -> Tensor:
    """Over each `size` of the last dimension. Levels come first, so that one operation runs through whole vectors: over
    three numbers that lie side by side, torch's takes eight times as long."""
    by_level = x.unflatten(-1, (count, size)).movedim(-1, 0).contiguous()
    return by_level.softmax(0).movedim(0, -1).flatten(-2)


@dataclass(frozen=True)
class SegmentedCategorical(Scored):
    """Levels without an order: one segmented softmax over the flat logits of all variables."""

    logits: Tensor  # (E, B, all levels of all variables)
    segments: Segments

    @property
    def log_probs(self) -> Tensor:
        return self.logits - self.segments.broadcast(self._log_normaliser())

    @property
    def mean(self) -> Tensor:
        return self.segments.softmax(self.logits)

    @property
    def mode(self) -> Tensor:
        return self.segments.argmax(self.logits)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.segments.argmax(self.logits + gumbel_like(self.logits, generator))

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
        return highest + self.segments.sum((self.logits - self.segments.broadcast(highest)).exp()).log()


@dataclass(frozen=True)
class Cumulative(Scored):
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
        uniform = uniform_like(self.location, generator).clamp(1e-7, 1 - 1e-7)
        draw = self.location + self.log_scale.exp() * torch.logit(uniform)
        return (draw[..., None] > self.cutpoints[..., 1:-1]).sum(-1)

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


def _log_logistic_mass(a: Tensor, b: Tensor) -> Tensor:
    """log(σ(b) - σ(a)) = log σ(b) + log σ(-a) + log(1 - exp(a - b)); -1e9 or so where a = b: no such level."""
    gap = (b - a).clamp_min(1e-6)
    mass = F.logsigmoid(b) + F.logsigmoid(-a) + torch.log(-torch.expm1(-gap))
    return torch.where(b > a, mass, torch.full_like(mass, -1e9))


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

    def forward(self, raw: Tensor) -> SegmentedCategorical:
        return SegmentedCategorical(raw, self.segments)


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
