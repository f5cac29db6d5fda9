"""GAIN (Yoon, Jordon and van der Schaar 2018): a generator fills rows, a discriminator says which cells it filled.

    x̃ = x ⊙ m + z ⊙ (1 - m)            noise in missing cells
    x̂ = x ⊙ m + G(x̃, m) ⊙ (1 - m)      observed cells pass unchanged
    h = m where a cell is hinted, ½ elsewhere
    D(x̂, h) ≈ m                        by the cells that are not hinted

G is to make D wrong about the missing cells that are not hinted, and to give back the observed ones, at weight α. The
hint keeps the game determined: without it, many distributions of x̂ would leave D at a loss (their Theorem 1).

DIFF(GAIN): a likelihood for each kind of column, and numbers in standard units, where the paper has squared errors and
a sigmoid in [0, 1]; D says one word an attribute, which is missing as a whole, not one an entry; D reads levels that
are drawn. α is one of those the paper tries; the 100 of its code, in units of the squared range of a column, comes to
about as much in units of its variance. A cell is hinted by itself with probability .9, as that code has it, where the
paper hints at all cells but one; those that are not count for all, as in the code, which scores hinted cells, too. z is
standard normal: that code's U(0, .01) would make all draws alike. Training stops by held-out cells; the code has 10,000
steps. Its networks have as many units in a layer as a row has entries, and so have these: wider ones, such as the other
baselines have, let D know the rows of a small table by heart.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.baselines.filler import RowFiller
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.nets import MLP
from vsae.training.objective import Elbo
from vsae.training.step import Adversarial

HINT_RATE = 0.9
ALPHA = 2.0  # weight of the observed cells
_NARROWEST = 8  # a row of two columns still takes some units to describe


def hint(mask: Tensor, rate: float = HINT_RATE) -> tuple[Tensor, Tensor]:
    """What the discriminator is told of the mask, and which cells it is told; (…, M) each.

    >>> told, hinted = hint(torch.tensor([[True, False]]), rate=1.0)
    >>> told, bool(hinted.all())
    (tensor([[1., 0.]]), True)
    >>> hint(torch.tensor([[True, False]]), rate=0.0)[0]
    tensor([[0.5000, 0.5000]])
    """
    hinted = torch.rand(mask.shape, device=mask.device) < rate
    return torch.where(hinted, mask.float(), 0.5), hinted


class GAIN(Adversarial, RowFiller):
    """Both networks have two layers, as wide as a row; settings say whether they are residual."""

    hint_rate = HINT_RATE
    grows = False

    def shape(self, asked: NetShape) -> NetShape:
        return replace(asked, width=max(self.rows.width, _NARROWEST), depth=2)

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        entries = self.rows.width + len(schema)
        self.discriminator = MLP((config.members,), entries, self.shape(config.collective), len(schema))

    @property
    def opponent(self) -> nn.Module:
        return self.discriminator

    def discriminate(self, filled: Tensor, told: Tensor) -> Tensor:
        """Logits of "observed", (E, B, M)."""
        told = told.expand(*filled.shape[:-1], -1)
        logits: Tensor = self.discriminator(torch.cat([filled, told], dim=-1))
        return logits

    def opponent_loss(self, batch: Batch) -> Tensor:
        """Cross entropy of the mask, where the discriminator was not told it."""
        visible = batch.with_mask(batch.usable)
        with torch.no_grad():
            filled = self.filled(visible, self.said(visible, self.noise(visible)))
        told, hinted = hint(visible.mask, self.hint_rate)
        logits = self.discriminate(filled, told)
        mask = visible.mask.to(logits).expand_as(logits)
        wrong = F.binary_cross_entropy_with_logits(logits, mask, reduction="none")
        return (wrong * ~hinted).sum() / batch.rows

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The term of the mask is how far the discriminator takes what was filled, and not hinted, for observed."""
        visible = batch.with_mask(batch.usable)
        data = self.said(visible, self.noise(visible))
        told, hinted = hint(visible.mask, self.hint_rate)
        fooled = F.logsigmoid(self.discriminate(self.filled(visible, data), told)) * (~visible.mask & ~hinted)
        log_x = self.log_likelihood(data, batch) * visible.mask
        zero = torch.zeros_like(log_x)
        weight = 1 / max(1 - self.hint_rate, 1e-3)  # a few stand for all
        return Elbo(log_x, zero, fooled, zero), -(ALPHA * log_x + weight * fooled).sum() / batch.rows
