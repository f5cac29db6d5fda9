"""How wide draws of numbers are: σ, and the shape of the noise, as errors on hidden cells have it.

Training leaves σ where the likelihood of known cells wants it, early stopping leaves it short of that, and residuals
are seldom normal. So each column's σ is set to the errors that are made, and the noise around a decoded number takes
the shape of these errors: skewed, heavy-tailed, with a peak at the value most rows have.

Known cells that are hidden for the purpose are many, but the model was trained on them; withheld cells are few, but
were never shown. The first tell the columns apart, the second how much larger errors are on what was not trained on.
A refit makes the first smaller still, and not the second: what is expected of errors is asked before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from vsae.batch import Batch
from vsae.encoding import numeric_blocks
from vsae.latent_model import Noise
from vsae.likelihoods import NOISE_RANKS, GaussianHead, ScaledHead, normal_quantiles
from vsae.model import VSAE
from vsae.randomness import private_rng
from vsae.remasking import remask
from vsae.schema import Block, Family

_DRAWS = 8
_WAYS = 4  # to hide known cells of each row
_HIDDEN = 0.15  # of them
_LEANING = 30.0  # cells, towards what all columns have in common


class _Errors(NamedTuple):
    """Of hidden cells of a block of numbers, in standard units; (E, B, columns) each."""

    error: Tensor  # of the mean over draws of z
    latent: Tensor  # variance of that mean over the draws
    variance: Tensor  # σ²
    cells: Tensor  # (1, B, columns) bool: those that count

    def log_size(self) -> Tensor:
        """Log of the root mean square of the errors, (E, columns); NaN where nothing counts."""
        return 0.5 * torch.log((self.error**2 * self.cells).sum(1) / self.cells.sum(1))

    def shift(self, log_size: Tensor | None = None) -> Tensor:
        """What log σ lacks for σ² and the latents' part to make up the errors, these or such of another size.

        (E, columns); 0 where nothing counts.
        """
        error, latent, variance = (
            (x * self.cells).sum(1) / self.cells.sum(1) for x in (self.error**2, self.latent, self.variance)
        )
        if log_size is not None:
            error = torch.where(torch.isfinite(log_size), torch.exp(2 * log_size), error)
        wanted = (error - latent).clamp_min(0.05 * error)
        shift = 0.5 * torch.log(wanted / variance)
        return torch.where(torch.isfinite(shift), shift, 0.0).clamp(-4.0, 4.0)

    def residuals(self, shift: Tensor, member: int, column: int) -> Tensor:
        """Errors of the cells of one column in units of what is expected of them, one after the other."""
        at = member, self.cells[0, :, column], column
        expected = self.variance[at] * torch.exp(2 * shift[member, column]) + self.latent[at]
        return self.error[at] / expected.sqrt()


Sizes = Mapping[str, Tensor]  # block of numbers → log size of errors, (E, columns)


@torch.no_grad()
def expected_errors(model: VSAE, batch: Batch, seed: int) -> Sizes:
    """How large errors are on cells of a batch (1, B, …) that are withheld from the model, if there are such."""
    if batch.withheld is None:
        return {}
    with private_rng(seed, batch.mask.device):
        known, withheld = _errors_on_known(model, batch), _errors(model, batch, batch.withheld)
    return {name: _size(known[name], withheld[name]) for name in known}


def _size(known: _Errors, withheld: _Errors) -> Tensor:
    """Few cells say little of one column: its surplus leans towards the one of all columns together."""
    surplus = withheld.log_size() - known.log_size()
    weight = torch.where(torch.isfinite(surplus), withheld.cells.sum(1), 0).to(surplus.dtype)
    surplus = torch.where(weight > 0, surplus, 0.0).clamp(-2.0, 2.0)
    common = (surplus * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp_min(1)
    return known.log_size() + (weight * surplus + _LEANING * common) / (weight + _LEANING)


@torch.no_grad()
def calibrate(model: VSAE, batch: Batch, sizes: Sizes, seed: int) -> None:
    """Set σ and the noise of every column by known cells of a batch (1, B, …), and by the size errors should have."""
    with private_rng(seed, batch.mask.device):
        known = _errors_on_known(model, batch)
    for name, errors in known.items():
        head = model.data_network.heads[name]
        assert isinstance(head, ScaledHead)
        if isinstance(head, GaussianHead):
            _shape_noise(head, errors, errors.shift())
        head.spread += errors.shift(sizes.get(name))[:, None]


def _shape_noise(head: GaussianHead, errors: _Errors, shift: Tensor) -> None:
    """Few cells say little of a shape, so it leans towards the normal's."""
    normal = normal_quantiles().to(shift)
    for e, j in itertools.product(*map(range, shift.shape)):
        residuals = errors.residuals(shift, e, j)
        if len(residuals):
            share = len(residuals) / (len(residuals) + _LEANING)
            head.noise[e, j] = share * torch.quantile(residuals, NOISE_RANKS.to(residuals)) + (1 - share) * normal


def _errors_on_known(model: VSAE, batch: Batch) -> Mapping[str, _Errors]:
    shown = batch.with_mask(batch.usable).repeated(_WAYS)
    return _errors(model, shown, shown.mask & ~remask(shown.mask, _HIDDEN, _HIDDEN))


def _errors(model: VSAE, batch: Batch, hidden: Tensor) -> Mapping[str, _Errors]:
    decoded = model.draws(batch.with_mask(batch.mask & ~hidden), Noise(model.config.members, _DRAWS, batch.rows)).data

    def of(block: Block) -> _Errors:
        parts = (decoded[block.name].mean, decoded[block.name].scale)  # type: ignore[attr-defined]
        loc, scale = (part.unflatten(1, (_DRAWS, -1)).flatten(3) for part in parts)  # (E, draws, B, columns)
        x = batch.values[block.name]
        x = x[..., 0] if block.family is Family.INTERVAL else x.flatten(2)
        cells = hidden[..., list(block.attributes)].repeat_interleave(loc.shape[-1] // len(block), dim=-1)
        return _Errors(x - loc.mean(1), loc.var(1), (scale**2).mean(1), cells)

    return {block.name: of(block) for block in numeric_blocks(model.schema)}
