"""How wide and of what shape draws of numbers are, as errors on hidden cells have it.

Training leaves σ where the likelihood of known cells wants it, early stopping leaves it short of that, and residuals
are seldom normal. So each column's σ is set to the errors that are made by all members together, and how these errors
are distributed around the estimate becomes the column's shape (`shapes.py`).

Known cells that are hidden for the purpose are many, but the model was trained on them; withheld cells are few, but
were never shown. The first tell columns and estimates apart, the second how much larger errors are on what was not
trained on. A refit makes the first smaller still, and not the second: what is expected of errors is asked before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vsae.batch import Batch
from vsae.encoding import numeric_blocks
from vsae.latent_model import Noise
from vsae.likelihoods import GaussianHead, ScaledHead
from vsae.model import VSAE
from vsae.randomness import private_rng
from vsae.remasking import remask
from vsae.schema import Block, Family
from vsae.shapes import RANKS, Shapes, normal_quantiles

_DRAWS = 4
_WAYS = 4  # to hide known cells of each row
_HIDDEN = 0.15  # of them
_LEANING = 30.0  # cells: towards a normal shape,
_LEANING_SURPLUS = 150.0  # and towards what all columns have in common
_PLACES = 12  # estimates, at which the shape of a column is looked at
_NEAR, _NEAR_LUMPED = 1 / 3, 1 / 6  # by so many of its cells, those with the nearest estimates,
_FEWEST_CELLS = 60  # and at least so many
_LUMP = 0.3  # of a column's cells have the same value
_ENOUGH_LUMPS = 2000  # cells, counting each as often as it takes


class _Errors(NamedTuple):
    """Of a block of numbers in standard units; (B, columns) each."""

    estimate: Tensor  # mean over members and draws of z
    error: Tensor  # what it lacks
    between: Tensor  # variance of what is decoded, over members and draws
    within: Tensor  # σ²
    cells: Tensor  # bool: those that count

    def mean(self, x: Tensor) -> Tensor:
        """(columns,); NaN where nothing counts."""
        return (x * self.cells).sum(0) / self.cells.sum(0)

    @property
    def log_size(self) -> Tensor:
        """Log of the root mean square of the errors, (columns,)."""
        return 0.5 * torch.log(self.mean(self.error**2))

    def shift(self, log_size: Tensor) -> Tensor:
        """What log σ lacks for σ² and the variance between draws to make up errors of that size; (columns,)."""
        wanted = torch.exp(2 * log_size)
        shift = 0.5 * torch.log((wanted - self.mean(self.between)).clamp_min(0.05 * wanted) / self.mean(self.within))
        return torch.where(torch.isfinite(shift), shift, 0.0).clamp(-4.0, 4.0)


Sizes = Mapping[str, Tensor]  # block of numbers → log size of errors, (columns,)


@torch.no_grad()
def expected_errors(model: VSAE, batches: Sequence[Batch], seed: int) -> Sizes:
    """How large errors are on cells of batches (1, B, …) that are withheld from the model, if there are such."""
    if any(batch.withheld is None for batch in batches):
        return {}
    with private_rng(seed, batches[0].mask.device):
        known = _errors_on_known(model, batches)
        withheld = _joined([_errors(model, batch, batch.withheld) for batch in batches if batch.withheld is not None])
    return {name: _size(known[name], withheld[name]) for name in known}


def _size(known: _Errors, withheld: _Errors) -> Tensor:
    """Few cells say little of one column: its surplus leans towards the one of all columns together, and none errs less
    on what it was not shown. Surpluses are of absolute errors, as squares are a few outliers' business.
    """
    surplus = torch.log(withheld.mean(withheld.error.abs()) / known.mean(known.error.abs()))
    weight = torch.where(torch.isfinite(surplus), withheld.cells.sum(0), 0).to(surplus.dtype)
    surplus = torch.where(weight > 0, surplus, 0.0).clamp(-2.0, 2.0)
    common = (surplus * weight).sum() / weight.sum().clamp_min(1)
    own = (weight * surplus + _LEANING_SURPLUS * common) / (weight + _LEANING_SURPLUS)
    return known.log_size + own.clamp_min(0.0)


@torch.no_grad()
def calibrate(model: VSAE, batches: Sequence[Batch], sizes: Sizes, seed: int) -> dict[str, Shapes]:
    """Set σ of every column by known cells of batches (1, B, …) and the size errors should have; and say of what shape
    draws should be, block by block."""
    shapes = {}
    with private_rng(seed, batches[0].mask.device):
        for name, errors in _errors_on_known(model, batches).items():
            head = model.data_network.heads[name]
            assert isinstance(head, ScaledHead)
            size = sizes.get(name, errors.log_size)
            size = torch.where(torch.isfinite(size), size, errors.log_size)
            shift = errors.shift(size)
            head.spread += shift
            if isinstance(head, GaussianHead):
                shapes[name] = _shapes(errors._replace(within=errors.within * torch.exp(2 * shift)), size)
    return shapes


def _shapes(errors: _Errors, log_size: Tensor) -> Shapes:
    spread = (errors.between + errors.within).sqrt()
    columns = [
        _shape(errors.estimate[seen, j], errors.error[seen, j], spread[seen, j], log_size[j])
        for j, seen in enumerate(errors.cells.T)
    ]
    places, quantiles, lumped = zip(*columns, strict=True)
    return Shapes(torch.stack(places), torch.stack(quantiles), torch.tensor(lumped))


def _shape(estimate: Tensor, error: Tensor, spread: Tensor, log_size: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Places (K,), quantiles (K, knots) and whether they are those of a lumped column, by its hidden cells (n,)."""
    if len(error) < 2:
        return torch.arange(_PLACES).to(estimate), normal_quantiles().to(estimate).repeat(_PLACES, 1), False
    x, wanted, made = estimate + error, torch.exp(2 * log_size), (error**2).mean()
    lumped = len(x) >= _FEWEST_CELLS and int(torch.unique(x, return_counts=True)[1].max()) > _LUMP * len(x)
    if lumped:  # larger errors are no larger distances here, but estimates that know less
        times = -(-_ENOUGH_LUMPS // len(x))
        noise = torch.randn(times, len(x), device=x.device, dtype=x.dtype)
        estimate = (estimate + (wanted - made).clamp_min(0.0).sqrt() * noise).flatten()
        unit, y = x.new_tensor(1.0), x.repeat(times)
    else:
        unit = (wanted / made.clamp_min(1e-12)).sqrt()
        y = error / spread
        times = 1
    order = estimate.argsort()
    estimate, y = estimate[order], y[order]
    half = max((_NEAR_LUMPED if lumped else _NEAR) * len(y), _FEWEST_CELLS * times) / 2
    places, quantiles, normal = [], [], normal_quantiles().to(y) * y.square().mean().sqrt()
    for k in range(_PLACES):
        middle = (k + 0.5) / _PLACES * len(y)
        near = slice(max(0, int(middle - half)), max(int(middle + half), 1))
        share = 1.0 if lumped else len(y[near]) / (len(y[near]) + _LEANING)
        places.append(estimate[near].mean())
        quantile = torch.quantile(y[near], RANKS.to(y), interpolation="nearest" if lumped else "linear")
        quantiles.append(unit * (share * quantile + (1 - share) * normal))
    return torch.stack(places), torch.stack(quantiles), lumped


def _errors_on_known(model: VSAE, batches: Sequence[Batch]) -> Mapping[str, _Errors]:
    parts = []
    for batch in batches:
        shown = batch.with_mask(batch.usable).repeated(_WAYS)
        parts.append(_errors(model, shown, shown.mask & ~remask(shown.mask, _HIDDEN, _HIDDEN)))
    return _joined(parts)


def _joined(parts: Sequence[Mapping[str, _Errors]]) -> Mapping[str, _Errors]:
    return {
        name: _Errors(*(torch.cat(field) for field in zip(*(part[name] for part in parts), strict=True)))
        for name in parts[0]
    }


def _errors(model: VSAE, batch: Batch, hidden: Tensor) -> Mapping[str, _Errors]:
    decoded = model.draws(batch.with_mask(batch.mask & ~hidden), Noise(model.config.members, _DRAWS, batch.rows)).data

    def of(block: Block) -> _Errors:
        parts = (decoded[block.name].mean, decoded[block.name].scale)  # type: ignore[attr-defined]
        loc, scale = (part.unflatten(1, (_DRAWS, -1)).flatten(3) for part in parts)  # (E, draws, B, columns)
        x = batch.values[block.name][0]
        x = x[..., 0] if block.family is Family.INTERVAL else x.flatten(1)
        cells = hidden[0][:, list(block.attributes)].repeat_interleave(loc.shape[-1] // len(block), dim=-1)
        estimate = loc.mean((0, 1))
        return _Errors(estimate, x - estimate, loc.var((0, 1)), (scale**2).mean((0, 1)), cells)

    return {block.name: of(block) for block in numeric_blocks(model.schema)}
