"""MisGAN (Li, Jiang and Marlin 2019): one GAN learns the masks, one complete rows through them, one fills rows.

    masks    m̃ = G_m(ε)                              against m                     by D_m
    rows     x̃ = G_x(z), seen as f(x̃, m̃)            against f(x, m)               by D_x,  f(x, m) = x ⊙ m + τ (1 - m)
    filling  x̂ = x ⊙ m + G_i(x ⊙ m + ω ⊙ (1 - m)) ⊙ (1 - m)   against x̃           by D_i

All are Wasserstein GANs with a penalty on the critics' gradients (Gulrajani et al. 2017): a complete row is never
seen, but rows that are complete are made, as they must look right through masks that look right. G_x also learns what
helps G_i, at weight β, and G_m what helps G_x, at weight α.

DIFF(MisGAN): the paper has images; here rows are vectors (flat.py), numbers in standard units, τ = 0 their mean; a
level is drawn, with a straight-through gradient. All networks are those of this library, at one learning rate, by Adam
with its usual momentum; a critic moves five times on the rows of one batch, with other noise each time, not on five
batches. Held-out cells say when to stop; the paper trains on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vsae.baselines.filler import RowFiller, without_noise
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution, DataNetwork, MaskNetwork
from vsae.model.nets import MLP
from vsae.training.objective import Elbo
from vsae.training.step import Adversarial

ALPHA, BETA = 0.2, 0.1  # of G_x's game in G_m's, and of G_i's in G_x's
TEMPERATURE = 0.66  # of the masks' sigmoid
PENALTY = 10.0
_FLAT = 1e-12  # the root has a slope even where the critic has none
_RATE = 1e-3  # of learning: the paper has 1e-4, and a hundred times the steps


class Critics(nn.Module):
    """D_m, D_x and D_i."""

    def __init__(self, attributes: int, entries: int, config: VSAEConfig) -> None:
        super().__init__()
        self.masks, self.rows, self.filled = (
            MLP((config.members,), n, config.collective, 1) for n in (attributes, entries, entries)
        )


class MisGAN(Adversarial, RowFiller):
    """`config.data_net` shapes G_x and G_i, `config.mask_net` G_m, `config.collective` the critics."""

    settings: ClassVar[Mapping[str, Any]] = {
        **RowFiller.settings,
        "learning_rate": _RATE,
        "evaluate_every": 50,  # steps: games take hundreds of them, however few rows there are
        "patience": 20,
    }
    reads_mask = False
    opponent_moves = 5

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, latent = config.members, config.latent_dim
        self.mask_generator = MaskNetwork(members, latent, config.mask_net, len(schema))
        self.row_generator = DataNetwork(
            self.make_heads(), members, latent, config.data_net, len(schema), reads_mask=False
        )
        self.critics = Critics(len(schema), self.rows.width, config)

    @property
    def opponent(self) -> nn.Module:
        return self.critics

    def generate(self, rows: int) -> DataDistribution:
        return without_noise(self.row_generator(self._latent(rows), None))

    def generate_masks(self, rows: int) -> Tensor:
        """(E, rows, M) bool, True = observed; what G_m is not sure of is drawn."""
        share = self._soft_masks(rows)
        return torch.rand(share.shape, device=self.device) < share

    def _soft_masks(self, rows: int) -> Tensor:
        """m̃, between 0 and 1, so that a gradient passes; mostly near one of them."""
        return torch.sigmoid(self.mask_generator(self._latent(rows)).logits / TEMPERATURE)

    def _latent(self, rows: int) -> Tensor:
        return torch.randn(self.config.members, rows, self.config.latent_dim, device=self.device)

    def _made(self, visible: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """m̃ (E, B, M), x̃ and x̂ (E, B, entries), as many as a batch has rows."""
        masks = self._soft_masks(visible.rows)
        rows = self.rows.drawn(self.row_generator(self._latent(visible.rows), None))
        return masks, rows, self.filled(visible, self.said(visible, self.noise(visible)))

    def _seen(self, rows: Tensor, masks: Tensor) -> Tensor:
        """f(x̃, m̃), with τ = 0."""
        return rows * self.rows.by_entry(masks)

    def opponent_loss(self, batch: Batch) -> Tensor:
        visible = batch.with_mask(batch.usable)
        with torch.no_grad():
            masks, rows, filled = self._made(visible)
        pairs = (
            (self.critics.masks, visible.mask.to(masks), masks),
            (self.critics.rows, self.rows.visible(visible), self._seen(rows, masks)),
            (self.critics.filled, rows, filled),
        )
        return torch.stack([critic_loss(*pair) for pair in pairs]).sum()

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """Of its terms, those of cells and of masks are what the critics of rows and of masks say of what was made."""
        visible = batch.with_mask(batch.usable)
        masks, rows, filled = self._made(visible)
        of_masks = self.critics.masks(masks)  # (E, B, 1)
        of_rows = self.critics.rows(self._seen(rows, gradient_times(masks, ALPHA)))
        of_filled = self.critics.filled(filled) - self.critics.filled(gradient_times(rows, BETA))
        share = torch.ones(len(self.schema), device=self.device) / len(self.schema)
        zero = torch.zeros_like(of_rows * share)
        terms = Elbo(of_rows * share, of_filled * share, of_masks * share, zero)
        return terms, -(of_masks + of_rows + of_filled).sum() / batch.rows


def gradient_times(x: Tensor, weight: float) -> Tensor:
    """x, whose gradient counts for less.

    >>> x = torch.ones(1, requires_grad=True)
    >>> gradient_times(x, 0.1).backward()
    >>> x.grad
    tensor([0.1000])
    """
    return weight * x + (1 - weight) * x.detach()


def critic_loss(critic: nn.Module, real: Tensor, made: Tensor) -> Tensor:
    """D(made) - D(real) + penalty · (|∇D| - 1)² in between; the mean over rows, the sum over members."""
    real = real.expand_as(made)
    share = torch.rand(*made.shape[:-1], 1, device=made.device)
    between = torch.lerp(real, made, share).requires_grad_()
    said = critic(torch.cat([real, made, between], dim=-2)).unflatten(-2, (3, -1))  # (E, 3, B, 1), in one pass
    (slope,) = torch.autograd.grad(said[:, 2].sum(), between, create_graph=True)
    steepness = (slope.square().sum(-1, keepdim=True) + _FLAT).sqrt()
    return (said[:, 1] - said[:, 0] + PENALTY * (steepness - 1) ** 2).sum() / made.shape[-2]
