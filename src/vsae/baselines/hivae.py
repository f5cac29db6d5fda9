"""HI-VAE (Nazábal et al. 2020): heterogeneous likelihoods and a mixture prior; missing cells are taken to be MCAR.

    s ~ uniform over S components      q(s | x_o), drawn by the Gumbel-softmax trick
    z ~ N(μ(s), I)                     q(z | x_o, s)
    y = g(z), a few numbers an attribute, and x_i ~ p(x_i | y_i, s): each attribute has a head of its own

Missing cells are filled with zeros, and only observed cells enter the bound.
DIFF(HI-VAE): the temperature of the Gumbel-softmax falls to .1; its inputs are standardised once, not batch by batch.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn import functional as F

from vsae.baselines.base import OWN_CHOICES, RowReader, loss_of
from vsae.baselines.own_heads import OwnHeads
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution
from vsae.model.latent_model import Draws, Noise
from vsae.model.nets import MLP, GroupedLinear
from vsae.model.proposals import DiagonalNormal
from vsae.training.objective import Elbo

COMPONENTS = 10  # S
_FEWEST_NUMBERS, _MOST_NUMBERS = 5, 64  # of y for an attribute; more than 5 where one has many entries
_LEAST_TEMPERATURE = 0.1  # of the Gumbel softmax: below it gradients vanish


class HIVAE(RowReader):
    """Scales are learned, missing cells are zero: its paper's choices, not VSAE's."""

    settings = OWN_CHOICES

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        groups, latent, width = (config.members,), config.latent_dim, config.collective.width
        self.component = GroupedLinear(groups, width, COMPONENTS)
        self.last = GroupedLinear(groups, width + COMPONENTS, 2 * latent)
        self.centre = GroupedLinear(groups, COMPONENTS, latent)  # μ(s)
        self.numbers = min(max(_FEWEST_NUMBERS, *(v.entries for v in schema.variables)), _MOST_NUMBERS)
        self.trunk = MLP(groups, latent, config.data_net, len(schema) * self.numbers)
        self.own = OwnHeads(schema, self.make_heads(), config.members, self.numbers + COMPONENTS)

    def _latent(self, h: Tensor, s: Tensor) -> tuple[DiagonalNormal, Tensor]:
        """q(z | x_o, s), and the mean of p(z | s)."""
        parameters: Tensor = self.last(torch.cat([h, s], dim=-1))
        return self.as_proposal(*parameters.chunk(2, dim=-1)), self.centre(s)

    def decode_from(self, z: Tensor, s: Tensor) -> DataDistribution:
        """z (E, B, K), s (E, B, S)."""
        y = self.trunk(z).unflatten(-1, (len(self.schema), -1)).transpose(1, 2)  # (E, M, B, numbers)
        s = s[:, None].expand(-1, y.shape[1], -1, -1)
        distributions: DataDistribution = self.own(torch.cat([y, s], dim=-1))
        return distributions

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        visible = batch.with_mask(batch.usable)
        h = self.read(visible)
        logits = self.component(h)
        temperature = max(_LEAST_TEMPERATURE, 1 - 0.01 * epoch)
        s = F.gumbel_softmax(logits, temperature)
        q, centre = self._latent(h, s)
        data = self.decode_from(q.rsample(), s)
        terms = self.terms(self.log_likelihood(data, batch) * visible.mask, _kl(logits, q, centre))
        return terms, loss_of(terms)

    def kl_of(self, batch: Batch) -> Tensor | None:
        h = self.read(batch)
        logits = self.component(h)
        s = F.one_hot(logits.argmax(-1), COMPONENTS).to(h.dtype)
        return _kl(logits, *self._latent(h, s))

    @property
    def numbers_per_row(self) -> int:
        return 4 * self.config.latent_dim + self.own.numbers_per_row + 4 * self.config.data_net.width

    def _likeliest(self, batch: Batch) -> tuple[DiagonalNormal, Tensor]:
        """q(z | x_o, s) of the likeliest s, and that s."""
        h = self.read(batch)
        s = F.one_hot(self.component(h).argmax(-1), COMPONENTS).to(h.dtype)
        return self._latent(h, s)[0], s

    def infer(self, batch: Batch) -> DiagonalNormal:
        return self._likeliest(batch)[0]

    def reconstruct(self, batch: Batch) -> DataDistribution:
        q, s = self._likeliest(batch)
        return self.decode_from(q.loc, s)

    def generate(self, rows: int) -> DataDistribution | None:
        device = self.owner.device
        s = F.one_hot(torch.randint(COMPONENTS, (self.config.members, rows), device=device), COMPONENTS).float()
        z = self.centre(s) + torch.randn(*s.shape[:2], self.config.latent_dim, device=device)
        return self.decode_from(z, s)

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        if weighted:
            raise ValueError("HI-VAE's draws have no importance weights here; leave weighted out")
        h = self.read(batch)
        uniform = torch.special.ndtr(noise((COMPONENTS,), h.device)).clamp(1e-6, 1 - 1e-6)
        chosen = (self.component(h)[:, None] - torch.log(-torch.log(uniform))).argmax(-1)  # (E, samples, B)
        s = F.one_hot(chosen, COMPONENTS).to(h.dtype).flatten(1, 2)
        q, _ = self._latent(h[:, None].expand(-1, noise.samples, -1, -1).flatten(1, 2), s)
        normal = noise(q.loc.shape[2:], h.device).expand(-1, -1, batch.rows, -1).flatten(1, 2)
        return Draws(self.decode_from(q.rsample(normal), s))


def _kl(logits: Tensor, q: DiagonalNormal, centre: Tensor) -> Tensor:
    """KL(q(s) ‖ uniform) + KL(q(z | s) ‖ N(μ(s), I)), (E, B)."""
    log_share = torch.log_softmax(logits, dim=-1)
    of_s = (log_share.exp() * (log_share + math.log(COMPONENTS))).sum(-1)
    return of_s + DiagonalNormal(q.loc - centre, q.log_scale).kl_to_prior()
