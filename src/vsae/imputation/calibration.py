"""How wide draws of numbers are, and how distributed, as errors on hidden cells have it.

Training leaves σ where the likelihood of known cells wants it, early stopping leaves it short of that, and residuals
are seldom normal. So each member's σ of a column is set to the errors that it makes, and how the errors of all members
together are distributed around their estimate becomes the column's residual quantiles (`residual_quantiles.py`).

Known cells that are hidden for the purpose are many, but the model was trained on them; withheld cells are few, but
were never shown. The first tell columns, estimates and contexts apart, the second how much larger errors are on what
was not trained on. A refit makes the first smaller still, and not the second: errors on withheld cells are those made
before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Block, Family
from vsae.imputation.moments import moments
from vsae.imputation.residual_quantiles import RANKS, ResidualQuantiles, interpolated, normal_quantiles
from vsae.model.latent_model import Noise
from vsae.model.likelihoods import ScaledHead
from vsae.model.vsae import VSAE

_DRAWS = 2  # mirrored, so that their mean is that of many
_WAYS = 4  # to hide known cells of each row: with _HIDDEN, most cells of it are hidden once
_HIDDEN = 0.15  # of them: so few that the rest of the row is as it was

# Chosen by CRPS and coverage on 24 tables kept for development, which no benchmark page shows (docs/decisions/0010).
_LEANING = 30.0  # cells: towards what all columns have in common, and towards normal residuals
_USUAL = (0.15, 0.15, 0.15)  # of known cells hidden, so few that the rest of the row is as it was,
_SPARSE = (0.5,)  # … and more of them: σ must be right where little is known, too
_SLOPES = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)  # of log σ over what the model says it is
_LEANING_SLOPE = 40.0  # nats for the whole way from 0 to 1, towards the one that suits all columns
_KEPT_SURPLUS = 0.75  # the refit takes part of it back: 90 % intervals cover .89 with none, .93 with all of it
_WIDTHS = 6  # values of σ at which the size of errors is looked at
_BEYOND = 5.0  # in log σ: farther out than any cell
_PLACES = 12  # estimates at which the residuals of a column are looked at
_NEAR, _NEAR_POINT_MASS = 1 / 3, 1 / 12  # by so many of its cells, those with the nearest estimates
_FEWEST_CELLS = 60  # … and at least so many: fewer do not fill 65 quantiles
_POINT_MASS = 0.3  # of a column's cells have the same value
_NARROWEST = 1e-6  # std of draws, in standard units: a division by it stays finite


class _Errors(NamedTuple):
    """Of a block of numbers in standard units."""

    x: Tensor  # (B, columns)
    centre: Tensor  # (E, B, columns): what a member decodes, mean over draws of z
    latent: Tensor  # variance over these draws
    variance: Tensor  # σ²
    cells: Tensor  # (B, columns) bool: those that count

    def mean(self, x: Tensor) -> Tensor:
        """(…, B, columns) → (…, columns) over the cells that count; NaN if there are none."""
        return (x * self.cells).sum(-2) / self.cells.sum(0)

    @property
    def log_size(self) -> Tensor:
        """Of each member's own errors, root mean square, (E, columns)."""
        return 0.5 * torch.log(self.mean((self.x - self.centre) ** 2))

    def shift(self, log_size: Tensor) -> Tensor:
        """What log σ lacks for σ² and the latents' part to make up errors of that size; (E, columns)."""
        wanted = torch.exp(2 * log_size)
        needed = (wanted - self.mean(self.latent)).clamp_min(0.05 * wanted)
        shift = 0.5 * torch.log(needed / self.mean(self.variance))
        return torch.where(torch.isfinite(shift), shift, 0.0).clamp(-4.0, 4.0)


class Predictions(NamedTuple):
    """Of a block of numbers in standard units, by all members together; (n, columns) each."""

    estimate: Tensor
    std: Tensor
    x: Tensor
    cells: Tensor  # bool: those that were hidden

    def column(self, j: int) -> tuple[Tensor, Tensor, Tensor]:
        """Estimates, σ and truth of the hidden cells of a column, (cells,) each."""
        seen = self.cells[:, j]
        return self.estimate[seen, j], self.std[seen, j], self.x[seen, j]

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        return cls(*map(torch.cat, zip(*parts, strict=True)))


class Withheld(NamedTuple):
    """What is known of errors on cells that a model was not trained on, asked while it was not."""

    log_sizes: Mapping[str, Tensor]  # of each member's own, (E, columns), by block of numbers or vectors
    surplus: float  # log of how much larger they are than on known cells, where all members speak together


@torch.no_grad()
def assess_withheld(model: VSAE, batches: Sequence[Batch], seed: int) -> Withheld | None:
    """On cells of batches (1, B, …) that are withheld from the model, if there are such."""
    if any(batch.withheld is None for batch in batches):
        return None
    with private_rng(seed, batches[0].mask.device):
        known = _errors_on_known(model, batches)
        withheld = _joined([_errors(model, batch, batch.withheld) for batch in batches if batch.withheld is not None])
        unseen, usual = _predictions(model, batches), _predictions_of_known(model, batches, _USUAL)
    sizes = {
        name: known[name].log_size + _leaning(found.log_size - known[name].log_size, found.cells.sum(0), _LEANING)
        for name, found in withheld.items()
    }
    return Withheld(sizes, _surplus(unseen, usual))


def _surplus(unseen: Mapping[str, Predictions], usual: Mapping[str, Predictions]) -> float:
    """Of all columns together: the few withheld cells of one column would tell chance."""
    size = [_log_size(x) - _log_size(usual[name]) for name, x in unseen.items()]
    cells = [x.cells.sum(0) for x in unseen.values()]
    if not size:
        return 0.0
    surplus, weight = torch.cat(size), torch.cat(cells).double()
    weight = torch.where(torch.isfinite(surplus), weight, 0.0)
    mean = (torch.where(weight > 0, surplus.double(), 0.0) * weight).sum() / weight.sum().clamp_min(1)
    return max(0.0, _KEPT_SURPLUS * float(mean))


def _leaning(surplus: Tensor, cells: Tensor, leaning: float) -> Tensor:
    """Few cells say little of one column, so its surplus leans towards that of all columns; (…, columns)."""
    weight = torch.where(torch.isfinite(surplus), cells, 0).to(surplus.dtype)
    surplus = torch.where(weight > 0, surplus, 0.0).clamp(-2.0, 2.0)
    common = (surplus * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True).clamp_min(1)
    return (weight * surplus + leaning * common) / (weight + leaning)


@torch.no_grad()
def calibrate(
    model: VSAE, batches: Sequence[Batch], withheld: Withheld | None, seed: int
) -> dict[str, ResidualQuantiles]:
    """Set σ of every column by known cells of batches (1, B, …) and the size errors should have; and say how draws
    should be distributed, block by block."""
    with private_rng(seed, batches[0].mask.device):
        for name, errors in _errors_on_known(model, batches).items():
            head = model.data_network.heads[name]
            assert isinstance(head, ScaledHead)
            size = errors.log_size
            if withheld is not None:
                size = torch.where(torch.isfinite(withheld.log_sizes[name]), withheld.log_sizes[name], size)
            head.widening += errors.shift(size)[:, None]
        usual, sparse = (_predictions_of_known(model, batches, shares) for shares in (_USUAL, _SPARSE))
    return fit_residuals(usual, sparse, 0.0 if withheld is None else withheld.surplus)


def _predictions(
    model: VSAE, batches: Sequence[Batch], shown: Sequence[Tensor] | None = None
) -> dict[str, Predictions]:
    """Of the cells that are withheld, or that known cells which are `shown` leave out."""
    noise, blocks = Noise(model.config.members, _DRAWS, 1, mirrored=True), model.schema.number_blocks
    parts: dict[str, list[Predictions]] = {block.name: [] for block in blocks}
    for i, batch in enumerate(batches):
        visible = batch.usable if shown is None else shown[i]
        known = batch.mask if shown is None else batch.usable
        seen = batch.with_mask(visible)
        draws = model.draws(seen, noise, only=list(parts))
        for block in blocks:
            hidden = (known & ~visible)[0][:, list(block.attributes)]
            estimate, std = moments(model, draws, seen, block.name, _DRAWS)
            parts[block.name].append(Predictions(estimate, std, batch.numbers([block])[0], hidden))
    return {name: Predictions.joined(part) for name, part in parts.items()}


def _predictions_of_known(model: VSAE, batches: Sequence[Batch], shares: Sequence[float]) -> dict[str, Predictions]:
    """Of known cells that are hidden for the purpose, these shares of them."""
    parts = [
        _predictions(model, batches, [remask(batch.usable, share, share) for batch in batches]) for share in shares
    ]
    return {name: Predictions.joined([part[name] for part in parts]) for name in parts[0]}


def fit_residuals(
    usual: Mapping[str, Predictions], sparse: Mapping[str, Predictions], surplus: float
) -> dict[str, ResidualQuantiles]:
    """By block of numbers, from known cells; errors on cells that were never shown are larger by exp(surplus).

    How wide they are, rows that show little say as well as usual ones; how they are distributed, usual ones alone.
    """
    known = {name: Predictions.joined([usual[name], sparse[name]]) for name in usual}
    slopes = _slopes(known)
    residuals = {}
    for name, every in known.items():
        columns = []
        for j in range(every.x.shape[1]):
            estimate, std, x = usual[name].column(j)
            point_mass = _has_point_mass(x)
            log_std, log_width = _widths(every, j, slopes[name][j])
            width = interpolated(log_std, log_width, std.clamp_min(_NARROWEST).log()).exp()
            y = x if point_mass else math.exp(surplus) * (x - estimate) / width
            places, quantiles = _quantiles_by_estimate(estimate, y, point_mass)
            columns.append((places, quantiles, torch.tensor(point_mass), log_std, log_width))
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


def _widths(found: Predictions, column: int, slope: Tensor) -> tuple[Tensor, Tensor]:
    """log σ at some places (W,), rising, and the log size of errors there, of cells near them, leaning to a line."""
    estimate, std, x = found.column(column)
    off = (x - estimate).abs()
    if len(std) < 2:
        return torch.arange(_WIDTHS + 2.0).to(std), torch.arange(_WIDTHS + 2.0).to(std)
    log_std, order = std.clamp_min(_NARROWEST).log().sort()
    scaled = off[order] / torch.exp(slope * log_std)
    whole, half = scaled.mean().clamp_min(_NARROWEST), max(len(std) / 4, _FEWEST_CELLS) / 2
    places, offsets = [], []
    for k in range(_WIDTHS):
        middle = (k + 0.5) / _WIDTHS * len(std)
        near = slice(max(0, int(middle - half)), max(int(middle + half), 1))
        count = len(scaled[near])
        places.append(log_std[near].mean())
        offsets.append(count / (count + 2 * _LEANING) * torch.log(scaled[near].mean().clamp_min(_NARROWEST) / whole))
    place = torch.stack([places[0] - _BEYOND, *places, places[-1] + _BEYOND])  # there, along the line
    return place, slope * place + torch.stack([offsets[0], *offsets, offsets[-1]])


def _has_point_mass(x: Tensor) -> bool:
    """Whether one value makes up much of a column, by its hidden cells (n,)."""
    return len(x) >= _FEWEST_CELLS and int(torch.unique(x, return_counts=True)[1].max()) > _POINT_MASS * len(x)


def _log_size(found: Predictions) -> Tensor:
    """Of residuals, in units of σ: of most of them, as quantiles allow for outliers; (columns,)."""
    size = (found.x - found.estimate).abs() / found.std.clamp_min(_NARROWEST)
    return torch.log((size * found.cells).sum(0) / found.cells.sum(0))


def _slope_losses(found: Predictions) -> Tensor:
    """Minus the likelihood of residuals with a scale c · std^slope under a Laplace distribution, (columns, slopes)."""
    losses = []
    for j in range(found.x.shape[1]):
        estimate, std, x = found.column(j)
        off, log_std = (x - estimate).abs().double().clamp_min(_NARROWEST), std.double().clamp_min(_NARROWEST).log()
        if not len(off):
            losses.append(torch.zeros(len(_SLOPES), dtype=torch.float64))
            continue
        scaled = (off * torch.exp(-_SLOPES.to(off)[:, None] * log_std)).mean(1).log()
        losses.append((len(off) * scaled + _SLOPES.to(off) * log_std.sum()).cpu())
    return torch.stack(losses)


def _quantiles_by_estimate(estimate: Tensor, y: Tensor, point_mass: bool) -> tuple[Tensor, Tensor]:
    """Places (K,), and the quantiles (K, knots) of cells (n,) whose estimates are near them."""
    if len(y) < 2:
        return torch.arange(_PLACES).to(estimate), normal_quantiles().to(estimate).repeat(_PLACES, 1)
    order = estimate.argsort()
    estimate, y = estimate[order], y[order]
    half = max((_NEAR_POINT_MASS if point_mass else _NEAR) * len(y), _FEWEST_CELLS) / 2
    places, quantiles, normal = [], [], normal_quantiles().to(y) * y.square().mean().sqrt()
    for k in range(_PLACES):
        middle = (k + 0.5) / _PLACES * len(y)
        near = slice(max(0, int(middle - half)), max(int(middle + half), 1))
        share = 1.0 if point_mass else len(y[near]) / (len(y[near]) + _LEANING)
        places.append(estimate[near].mean())
        quantile = torch.quantile(y[near], RANKS.to(y), interpolation="nearest" if point_mass else "linear")
        quantiles.append(share * quantile + (1 - share) * normal)
    return torch.stack(places), torch.stack(quantiles)


def _errors_on_known(model: VSAE, batches: Sequence[Batch]) -> Mapping[str, _Errors]:
    parts = []
    for batch in batches:
        shown = batch.with_mask(batch.usable).repeated(_WAYS)
        parts.append(_errors(model, shown, shown.mask & ~remask(shown.mask, _HIDDEN, _HIDDEN)))
    return _joined(parts)


def _joined(parts: Sequence[Mapping[str, _Errors]]) -> Mapping[str, _Errors]:
    return {
        name: _Errors(*(torch.cat(field, dim=-2) for field in zip(*(part[name] for part in parts), strict=True)))
        for name in parts[0]
    }


def _errors(model: VSAE, batch: Batch, hidden: Tensor) -> Mapping[str, _Errors]:
    noise = Noise(model.config.members, _DRAWS, batch.rows, mirrored=True)
    decoded = model.draws(batch.with_mask(batch.mask & ~hidden), noise).data

    def of(block: Block) -> _Errors:
        parts = (decoded[block.name].mean, decoded[block.name].scale)  # type: ignore[attr-defined]
        loc, scale = (part.unflatten(1, (_DRAWS, -1)).flatten(3) for part in parts)  # (E, draws, B, columns)
        x = batch.values[block.name][0]
        x = x[..., 0] if block.family is Family.INTERVAL else x.flatten(1)
        cells = hidden[0][:, list(block.attributes)].repeat_interleave(loc.shape[-1] // len(block), dim=-1)
        return _Errors(x, loc.mean(1), loc.var(1, correction=0), (scale**2).mean(1), cells)

    return {block.name: of(block) for block in model.schema.standardised_blocks}
