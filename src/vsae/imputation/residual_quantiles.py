"""Residual quantiles: how hidden numbers turn out to be distributed around an estimate, column by column.

A raw draw is a member's: a draw of z, decoded, and normal noise. Where it lies among all such draws is the model's to
say, for therein is how the cells of a row, and the rows of a drawn table, go together. What value lies there is for
errors to say that the model made on known cells (`calibration.py`), and these are seldom normal. They are skewed, have
heavy tails, and differ with the estimate; and where one value makes up much of a column, as no capital gain does, the
chance of that very value falls as the estimate moves away from it.

So a raw draw keeps its rank and takes the value of that rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from vsae.model.likelihoods import Gaussian

RANKS = torch.linspace(0.0, 1.0, 65, dtype=torch.float64)  # of the quantiles that describe a distribution
_TAIL = 1e-3  # a normal ends nowhere; its table of quantiles does


def normal_quantiles() -> Tensor:
    """At `RANKS`, in float32."""
    return torch.special.ndtri(RANKS.clamp(_TAIL, 1 - _TAIL)).float()


@dataclass(frozen=True)
class ResidualQuantiles:
    """Of the columns of a block: quantiles of (x - estimate) / std at some estimates, and between these in between.

    Where one value makes up much of a column they are quantiles of x itself. Between a point mass and what lies beside
    it there is nothing, so nothing is taken from between: it is one or the other.

    >>> quantiles = torch.tensor([[[-1.0, 0.0, 1.0], [-1.0, 0.0, 3.0]]])
    >>> residuals = ResidualQuantiles(torch.tensor([[0.0, 1.0]]), quantiles, torch.tensor([False]))
    >>> residuals.at(torch.tensor([[0.5], [9.0]]), torch.tensor([[0.75], [1.0]])).flatten()
    tensor([1., 3.])
    """

    places: Tensor  # (variables, K): estimates, rising
    quantiles: Tensor  # (variables, K, knots)
    point_mass: Tensor  # (variables,) bool: one value makes up much of the column

    def __call__(
        self, decoded: Gaussian, raw: Tensor, samples: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """Raw draws of all members, `samples` of each row, (E, samples · B, variables), as the data would have them."""
        loc, scale, raw = (x.unflatten(1, (samples, -1)) for x in (decoded.loc, decoded.scale, raw))
        estimate = loc.mean((0, 1))  # (B, variables)
        std = ((scale**2).mean((0, 1)) + loc.var((0, 1))).sqrt()
        x = self.at(estimate, torch.special.ndtr((raw - estimate) / std.clamp_min(1e-12)), generator)
        return torch.where(self.point_mass.to(x.device), x, estimate + std * x).flatten(1, 2)

    def at(self, estimate: Tensor, rank: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The quantiles of ranks (…, B, variables) where the estimates are (B, variables)."""
        places, quantiles, point_mass = self.places.to(rank), self.quantiles.to(rank), self.point_mass.to(rank.device)
        variables, count, knots = quantiles.shape
        right = torch.searchsorted(places, estimate.T.contiguous()).T.clamp(1, count - 1)  # (B, variables)
        column = torch.arange(variables, device=rank.device)
        start, end = places[column, right - 1], places[column, right]
        along = ((estimate - start) / (end - start).clamp_min(1e-12)).clamp(0.0, 1.0)
        knot = rank * (knots - 1)
        below = knot.long().clamp(0, knots - 2)
        between = knot - below
        if point_mass.any():
            chance = torch.rand(rank.shape, generator=generator, device=rank.device, dtype=rank.dtype)
            along = torch.where(point_mass, (chance < along).to(rank), along)
            between = torch.where(point_mass, between.round(), between)

        def quantile(place: Tensor) -> Tensor:
            place = place.expand(rank.shape)
            return torch.lerp(quantiles[column, place, below], quantiles[column, place, below + 1], between)

        return torch.lerp(quantile(right - 1), quantile(right), along.expand(rank.shape))

    def to_tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name).cpu() for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> ResidualQuantiles:
        return cls(*(tensors[field.name] for field in fields(cls)))
