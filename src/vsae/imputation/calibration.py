"""How wide draws of numbers are, and how distributed, as errors on hidden cells have it.

Training leaves σ where the likelihood of known cells wants it, early stopping leaves it short of that, and residuals
are seldom normal. So each member's σ of a column is set to the errors that it makes, and how the errors of all members
together are distributed around their estimate becomes the column's residual quantiles (`residual_quantiles.py`).

Known cells that are hidden for the purpose are many, but the model was trained on them; withheld cells are few, but
were never shown. The first tell columns and estimates apart, the second how much larger errors are on what was not
trained on. A refit makes the first smaller still, and not the second: what is expected of errors is asked before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Block, Family
from vsae.imputation.residual_quantiles import RANKS, ResidualQuantiles, normal_quantiles
from vsae.model.latent_model import Noise
from vsae.model.likelihoods import GaussianHead, ScaledHead
from vsae.model.vsae import VSAE

_DRAWS = 2  # mirrored, so that their mean is that of many
_WAYS = 4  # to hide known cells of each row: with _HIDDEN, most cells of it are hidden once
_HIDDEN = 0.15  # of them: so few that the rest of the row is as it was

# Chosen by CRPS and coverage on 24 tables kept for development, which no benchmark page shows (docs/decisions/0010).
_LEANING = 30.0  # cells: towards what all columns have in common, and towards normal residuals
_LEANING_ABSOLUTE = 150.0  # … of the size of residuals: a few outliers would decide it
_PLACES = 12  # estimates at which the residuals of a column are looked at
_NEAR, _NEAR_POINT_MASS = 1 / 3, 1 / 6  # by so many of its cells, those with the nearest estimates
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

    @property
    def estimate(self) -> Tensor:
        """Of all members together, (B, columns)."""
        return self.centre.mean(0)

    @property
    def std(self) -> Tensor:
        """Of all their draws, (B, columns)."""
        return ((self.centre - self.estimate) ** 2 + self.latent + self.variance).mean(0).sqrt()

    def mean(self, x: Tensor) -> Tensor:
        """(…, B, columns) → (…, columns) over the cells that count; NaN if there are none."""
        return (x * self.cells).sum(-2) / self.cells.sum(0)

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            torch.log(self.mean((self.x - self.estimate).abs())),
            0.5 * torch.log(self.mean((self.x - self.centre) ** 2)),
        )

    def shift(self, log_size: Tensor) -> Tensor:
        """What log σ lacks for σ² and the latents' part to make up errors of that size; (E, columns)."""
        wanted = torch.exp(2 * log_size)
        needed = (wanted - self.mean(self.latent)).clamp_min(0.05 * wanted)
        shift = 0.5 * torch.log(needed / self.mean(self.variance))
        return torch.where(torch.isfinite(shift), shift, 0.0).clamp(-4.0, 4.0)


class Sizes(NamedTuple):
    """Of errors, in logs."""

    absolute: Tensor  # (columns,): mean of all members together
    square: Tensor  # (E, columns): root mean of each member's own

    def where_known(self, others: Sizes) -> Sizes:
        """These, and the others where these are not known."""
        return Sizes(*(torch.where(torch.isfinite(a), a, b) for a, b in zip(self, others, strict=True)))


@torch.no_grad()
def expected_errors(model: VSAE, batches: Sequence[Batch], seed: int) -> Mapping[str, Sizes]:
    """How large errors are on cells of batches (1, B, …) that are withheld from the model, if there are such; by block
    of numbers."""
    if any(batch.withheld is None for batch in batches):
        return {}
    with private_rng(seed, batches[0].mask.device):
        known = _errors_on_known(model, batches)
        withheld = _joined([_errors(model, batch, batch.withheld) for batch in batches if batch.withheld is not None])
    return {name: _expected(known[name].sizes, withheld[name].sizes, withheld[name].cells.sum(0)) for name in known}


def _expected(known: Sizes, withheld: Sizes, cells: Tensor) -> Sizes:
    """Residual quantiles allow for outliers: their size is that of most cells, and no smaller on what was not shown."""
    absolute = _leaning(withheld.absolute - known.absolute, cells, _LEANING_ABSOLUTE).clamp_min(0.0)
    return Sizes(known.absolute + absolute, known.square + _leaning(withheld.square - known.square, cells, _LEANING))


def _leaning(surplus: Tensor, cells: Tensor, leaning: float) -> Tensor:
    """Few cells say little of one column, so its surplus leans towards that of all columns; (…, columns)."""
    weight = torch.where(torch.isfinite(surplus), cells, 0).to(surplus.dtype)
    surplus = torch.where(weight > 0, surplus, 0.0).clamp(-2.0, 2.0)
    common = (surplus * weight).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True).clamp_min(1)
    return (weight * surplus + leaning * common) / (weight + leaning)


@torch.no_grad()
def calibrate(
    model: VSAE, batches: Sequence[Batch], expected: Mapping[str, Sizes], seed: int
) -> dict[str, ResidualQuantiles]:
    """Set σ of every column by known cells of batches (1, B, …) and the size errors should have; and say how draws
    should be distributed, block by block."""
    residuals = {}
    with private_rng(seed, batches[0].mask.device):
        for name, errors in _errors_on_known(model, batches).items():
            head = model.data_network.heads[name]
            assert isinstance(head, ScaledHead)
            sizes = expected[name].where_known(errors.sizes) if name in expected else errors.sizes
            shift = errors.shift(sizes.square)
            head.widening += shift[:, None]
            if isinstance(head, GaussianHead):
                errors = errors._replace(variance=errors.variance * torch.exp(2 * shift[:, None]))
                surplus = sizes.absolute - errors.sizes.absolute
                residuals[name] = _residuals(errors, torch.where(torch.isfinite(surplus), surplus, 0.0))
    return residuals


def _residuals(errors: _Errors, surplus: Tensor) -> ResidualQuantiles:
    estimate, std = errors.estimate, errors.std
    columns = [
        _column_residuals(estimate[seen, j], errors.x[seen, j], std[seen, j], surplus[j])
        for j, seen in enumerate(errors.cells.T)
    ]
    places, quantiles, point_mass = zip(*columns, strict=True)
    return ResidualQuantiles(torch.stack(places).cpu(), torch.stack(quantiles).cpu(), torch.tensor(point_mass))


def _column_residuals(estimate: Tensor, x: Tensor, std: Tensor, surplus: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Places (K,), quantiles (K, knots), and whether the column has a point mass; by its hidden cells (n,)."""
    if len(x) < 2:
        return torch.arange(_PLACES).to(estimate), normal_quantiles().to(estimate).repeat(_PLACES, 1), False
    point_mass = len(x) >= _FEWEST_CELLS and int(torch.unique(x, return_counts=True)[1].max()) > _POINT_MASS * len(x)
    y = x if point_mass else torch.exp(surplus) * (x - estimate) / std.clamp_min(_NARROWEST)
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
    return torch.stack(places), torch.stack(quantiles), point_mass


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
