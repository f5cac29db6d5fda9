"""Residual quantiles: how hidden numbers turn out to be distributed around an estimate, column by column.

Residuals are seldom normal: they are skewed, have heavy tails, and differ with the estimate; and where one value makes
up much of a column, as no capital gain does, the chance of that very value falls as the estimate moves away from it. So
what value lies at a rank is for errors to say that the model made on known cells (`calibration.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vsae.data.microaggregation import microaggregated
from vsae.data.microaggregation import quantiles as smooth

RANKS = torch.linspace(0.0, 1.0, 65, dtype=torch.float64)  # of the quantiles that describe a distribution
NARROWEST = 1e-6  # σ in standard units: a division by it stays finite
_TAIL = 1e-3  # a normal ends nowhere; its table of quantiles does

# Chosen by CRPS and coverage on 24 tables kept for development, which no benchmark page shows (docs/decisions/0010).
_LEANING = 30.0  # cells: towards what all columns have in common, and towards normal residuals
_SLOPES = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)  # of log σ over what the model says it is
_LEANING_SLOPE = 40.0  # nats for the whole way from 0 to 1, towards the one that suits all columns
_WIDTHS = 6  # values of σ at which the size of errors is looked at
_BEYOND = 5.0  # in log σ: farther out than any cell
_PLACES = 12  # estimates at which the residuals of a column are looked at
_NEAR, _NEAR_POINT_MASS = 1 / 3, 1 / 12  # by so many of its cells, those with the nearest estimates
_FEWEST_CELLS = 60  # … and at least so many: fewer do not fill 65 quantiles


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


class Moments(NamedTuple):
    """Of the numbers of a block in standard units, over latents and members; (B, variables[, d]) each."""

    estimate: Tensor
    std: Tensor  # with what members and latents differ by
    scale: Tensor  # σ as it is decoded, of all members


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
        log_std = std.clamp_min(NARROWEST).log().T.contiguous()
        width = interpolated(self.log_std.to(std), self.log_width.to(std), log_std).T.exp()
        return torch.where(point_mass, x, estimate + width * x)

    def to_tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name).cpu() for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> ResidualQuantiles:
        return cls(*(tensors[field.name] for field in fields(cls)))


# --- fitted to predictions of hidden cells


class Predictions(NamedTuple):
    """Moments of the cells of a block, (n, columns) each, and what was true; vectors have a column an entry."""

    estimate: Tensor
    std: Tensor
    scale: Tensor
    x: Tensor
    cells: Tensor  # bool: those that were hidden
    by_trees: Tensor | None = None  # medians of trees, if they are wanted; NaN where there is none

    def column(self, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """Estimates, σ and truth of the hidden cells of a column, (cells,) each."""
        seen = self.cells[:, j]
        return self.estimate[seen, j], self.std[seen, j], self.x[seen, j]

    @property
    def log_size(self) -> Tensor:
        """Of residuals in units of σ, of most of them: quantiles allow for outliers; (columns,), NaN without any."""
        size = (self.x - self.estimate).abs() / self.std.clamp_min(NARROWEST)
        return torch.log((size * self.cells).sum(0) / self.cells.sum(0))

    @property
    def relative_error(self) -> Tensor:
        """Root mean square of residuals over that of the decoded σ, (columns,); 1 without any."""
        off, variance = (((part**2) * self.cells).sum(0) for part in (self.x - self.estimate, self.scale))
        return torch.where(variance > 0, off / variance.clamp_min(NARROWEST**2), 1.0).sqrt()

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        estimate, std, scale, x, cells = (torch.cat(some) for some in zip(*(part[:5] for part in parts), strict=True))
        by_trees = [part.by_trees for part in parts if part.by_trees is not None]
        return cls(estimate, std, scale, x, cells, torch.cat(by_trees) if by_trees else None)


def fit_residuals(
    usual: Mapping[str, Predictions],
    sparse: Mapping[str, Predictions],
    point_mass: Mapping[str, Sequence[bool]],
    surplus: float = 0.0,
) -> dict[str, ResidualQuantiles]:
    """By block of numbers, from known cells; errors on cells that were never shown are larger by exp(surplus).

    How wide they are, rows that show little say as well as usual ones; how they are distributed, usual ones alone.
    `point_mass`: whether one value makes up much of a column.
    """
    known = {name: Predictions.joined([usual[name], sparse[name]]) for name in usual}
    slopes = _slopes(known)
    residuals = {}
    for name, every in known.items():
        columns = []
        for j in range(every.x.shape[1]):
            estimate, std, x = usual[name].column(j)
            whole = point_mass[name][j] and len(x) >= _FEWEST_CELLS
            log_std, log_width = _widths(every, j, slopes[name][j])
            width = interpolated(log_std, log_width, std.clamp_min(NARROWEST).log()).exp()
            y = x if whole else math.exp(surplus) * (x - estimate) / width
            places, quantiles = _quantiles_by_estimate(estimate, y, whole)
            columns.append((places, quantiles, torch.tensor(whole), log_std, log_width))
        residuals[name] = ResidualQuantiles(*(torch.stack(part).cpu() for part in zip(*columns, strict=True)))
    return residuals


def _slopes(known: Mapping[str, Predictions]) -> dict[str, Tensor]:
    """How far the size of errors follows the model's σ, log size = slope · log σ + a constant; (columns,) by block.

    Greatest likelihood, one slope a column, drawn towards the one that suits all.
    """
    losses = {name: _slope_losses(found) for name, found in known.items()}
    if not losses:
        return {}
    common = _SLOPES[torch.cat(list(losses.values())).sum(0).argmin()]
    return {
        name: _SLOPES[(loss + _LEANING_SLOPE * (_SLOPES - common) ** 2).argmin(1)].to(known[name].std)
        for name, loss in losses.items()
    }


def _slope_losses(found: Predictions) -> Tensor:
    """Minus the likelihood of residuals with a scale c · std^slope under a Laplace distribution, (columns, slopes)."""
    losses = []
    for j in range(found.x.shape[1]):
        estimate, std, x = found.column(j)
        off, log_std = (x - estimate).abs().double().clamp_min(NARROWEST), std.double().clamp_min(NARROWEST).log()
        if not len(off):
            losses.append(torch.zeros(len(_SLOPES), dtype=torch.float64))
            continue
        scaled = (off * torch.exp(-_SLOPES.to(off)[:, None] * log_std)).mean(1).log()
        losses.append((len(off) * scaled + _SLOPES.to(off) * log_std.sum()).cpu())
    return torch.stack(losses)


def _widths(found: Predictions, column: int, slope: Tensor) -> tuple[Tensor, Tensor]:
    """log σ at some places (W,), rising, and the log size of errors there, of cells near them, leaning to a line."""
    estimate, std, x = found.column(column)
    off = (x - estimate).abs()
    if len(std) < 2:
        line = torch.linspace(-_BEYOND, _BEYOND, _WIDTHS + 2).to(std)
        return line, line
    log_std, order = std.clamp_min(NARROWEST).log().sort()
    scaled = off[order] / torch.exp(slope * log_std)
    whole, half = scaled.mean().clamp_min(NARROWEST), max(len(std) / 4, _FEWEST_CELLS) / 2
    places, offsets = [], []
    for k in range(_WIDTHS):
        middle = (k + 0.5) / _WIDTHS * len(std)
        near = slice(max(0, int(middle - half)), max(int(middle + half), 1))
        count = len(scaled[near])
        places.append(log_std[near].mean())
        offsets.append(count / (count + 2 * _LEANING) * torch.log(scaled[near].mean().clamp_min(NARROWEST) / whole))
    place = torch.stack([places[0] - _BEYOND, *places, places[-1] + _BEYOND])  # there, along the line
    return place, slope * place + torch.stack([offsets[0], *offsets, offsets[-1]])


def _quantiles_by_estimate(estimate: Tensor, y: Tensor, point_mass: bool) -> tuple[Tensor, Tensor]:
    """Places (K,), and the quantiles (K, knots) of cells (n,) whose estimates are near them."""
    if len(y) < 2:
        return torch.arange(_PLACES).to(estimate), normal_quantiles().to(estimate).repeat(_PLACES, 1)
    order = estimate.argsort()
    estimate, y = estimate[order], y[order]
    half = max((_NEAR_POINT_MASS if point_mass else _NEAR) * len(y), _FEWEST_CELLS) / 2
    normal = normal_quantiles().to(y) * y.square().mean().sqrt()

    @cache  # few cells are near every place
    def around(first: int, end: int) -> tuple[Tensor, Tensor]:
        near = y[first:end]
        share = 1.0 if point_mass else len(near) / (len(near) + _LEANING)
        return estimate[first:end].mean(), share * _quantiles(near, point_mass) + (1 - share) * normal

    middles = [(k + 0.5) / _PLACES * len(y) for k in range(_PLACES)]
    found = [around(max(0, int(m - half)), min(len(y), max(int(m + half), 1))) for m in middles]
    return torch.stack([place for place, _ in found]), torch.stack([quantile for _, quantile in found])


def _quantiles(y: Tensor, point_mass: bool) -> Tensor:
    """At `RANKS`, of several cells each; where there is a point mass, values of these and none between them."""
    cells, ranks = y.double().cpu().numpy(), RANKS.numpy()
    found = np.quantile(microaggregated(cells), ranks, method="nearest") if point_mass else smooth(cells, ranks)
    return torch.from_numpy(found).to(y)
