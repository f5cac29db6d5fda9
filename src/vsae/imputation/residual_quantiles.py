"""Residual quantiles: how hidden numbers turn out to be distributed around an estimate, column by column.

Residuals are seldom normal: they are skewed, have heavy tails, and differ with the estimate; and where one value makes
up much of a column, as no capital gain does, the chance of that very value falls as the estimate moves away from it. So
what value lies at a rank is for errors to say that the model made on known cells (`calibration.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

RANKS = torch.linspace(0.0, 1.0, 65, dtype=torch.float64)  # of the quantiles that describe a distribution
_TAIL = 1e-3  # a normal ends nowhere; its table of quantiles does


def normal_quantiles() -> Tensor:
    """At `RANKS`, in float32."""
    return torch.special.ndtri(RANKS.clamp(_TAIL, 1 - _TAIL)).float()


def interpolated(x: Tensor, y: Tensor, at: Tensor) -> Tensor:
    """The piecewise-linear function through points (…, K), where the rising x end constant; at (…, n).

    >>> interpolated(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 10.0, 0.0]), torch.tensor([-1.0, 0.5, 2.0]))
    tensor([0., 5., 5.])
    """
    right = torch.searchsorted(x.contiguous(), at).clamp(1, x.shape[-1] - 1)
    x0, x1, y0, y1 = x.gather(-1, right - 1), x.gather(-1, right), y.gather(-1, right - 1), y.gather(-1, right)
    return torch.lerp(y0, y1, ((at - x0) / (x1 - x0).clamp_min(1e-12)).clamp(0.0, 1.0))


@dataclass(frozen=True)
class ResidualQuantiles:
    """Of the columns of a block: quantiles of (x - estimate) / width at some estimates, linear between these.

    A cell's width is what errors were where the model's σ was as it is there: a piecewise-linear function of log σ.

    Where one value makes up much of a column they are quantiles of x itself. Between a point mass and what lies beside
    it there is nothing, so nothing is taken from between: it is one or the other.

    >>> quantiles = torch.tensor([[[-1.0, 0.0, 1.0], [-1.0, 0.0, 3.0]]])
    >>> residuals = ResidualQuantiles(torch.tensor([[0.0, 1.0]]), quantiles, torch.tensor([False]),
    ...                               torch.tensor([[-9.0, 9.0]]), torch.tensor([[-9.0, 9.0]]))
    >>> estimate, std = torch.tensor([[0.5], [9.0]]), torch.tensor([[1.0], [2.0]])
    >>> residuals.at(estimate, std, torch.tensor([[0.75], [1.0]]))
    tensor([[ 1.5000], [15.0000]])
    """

    places: Tensor  # (variables, K): estimates, rising
    quantiles: Tensor  # (variables, K, knots)
    point_mass: Tensor  # (variables,) bool: one value makes up much of the column
    log_std: Tensor  # (variables, W): of the model, rising
    log_width: Tensor  # (variables, W): what it is worth

    def only(self, variables: Sequence[int]) -> ResidualQuantiles:
        return ResidualQuantiles(*(getattr(self, field.name)[list(variables)] for field in fields(self)))

    def at(self, estimate: Tensor, std: Tensor, rank: Tensor, chance: Tensor | None = None) -> Tensor:
        """The values of ranks (…, B, variables) where the estimates and their σ are (B, variables).

        Between two places, a column with a point mass takes the distribution of one or the other, as `chance` has it,
        uniform in (0, 1) like the ranks; without it, the nearer one's.
        """
        places, quantiles, point_mass = self.places.to(rank), self.quantiles.to(rank), self.point_mass.to(rank.device)
        variables, count, knots = quantiles.shape
        right = torch.searchsorted(places, estimate.to(rank).T.contiguous()).T.clamp(1, count - 1)  # (B, variables)
        column = torch.arange(variables, device=rank.device)
        start, end = places[column, right - 1], places[column, right]
        along = ((estimate - start) / (end - start).clamp_min(1e-12)).clamp(0.0, 1.0).to(rank)
        knot = rank * (knots - 1)
        below = knot.long().clamp(0, knots - 2)
        between = knot - below
        if point_mass.any():
            along = torch.where(point_mass, (along > (0.5 if chance is None else chance)).to(rank), along)
            between = torch.where(point_mass, between.round(), between)

        def quantile(place: Tensor) -> Tensor:
            place = place.expand(rank.shape)
            return torch.lerp(quantiles[column, place, below], quantiles[column, place, below + 1], between)

        x = torch.lerp(quantile(right - 1), quantile(right), along.expand(rank.shape))
        log_std = std.clamp_min(1e-6).log().T.contiguous()
        width = interpolated(self.log_std.to(std), self.log_width.to(std), log_std).T.exp()
        return torch.where(point_mass, x, estimate + width * x)

    def to_tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name).cpu() for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> ResidualQuantiles:
        return cls(*(tensors[field.name] for field in fields(cls)))
