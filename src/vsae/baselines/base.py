"""What the baselines share: one latent vector a row, the networks and likelihoods of VSAE, the same trainer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from vsae.batch import Batch
from vsae.config import VSAEConfig
from vsae.features import NumberFeatures
from vsae.generative import DataDistribution, DataNetwork
from vsae.latent_model import Draws, LatentModel, Noise
from vsae.nets import GroupedLinear, Hidden
from vsae.objective import Elbo
from vsae.proposals import DiagonalNormal, JointInput, ProposalSettings, number_blocks, numbers
from vsae.schema import Schema

LEARNED_SCALES = {"variance": "cell", "scaling": "standard", "holes": "zero"}


class Baseline(LatentModel):
    """A model that says what a batch teaches it. `settings` go over the `paper` preset's."""

    settings: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The terms of its objective, (E, B, M) each, and the loss: the mean over rows, the sum over members."""

    def terms(self, log_x: Tensor, kl: Tensor) -> Elbo:
        """From log-likelihoods of observed cells, (E, B, M), and one KL a row, (E, B), spread over the attributes."""
        zero = torch.zeros_like(log_x)
        return Elbo(log_x, zero, zero, (kl / len(self.schema))[..., None].expand_as(log_x))


def learn(model: Baseline, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
    """For `train`."""
    return model.bound(batch, epoch)


def loss_of(terms: Elbo) -> Tensor:
    return -terms.mean().total.sum()


class RowEncoder(Baseline):
    """A network that reads the whole row, holes filled; `config.collective` shapes it."""

    reads_mask = False

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, shape = config.members, config.collective
        self.number_blocks = number_blocks(schema)
        self.features = NumberFeatures(sum(len(block) for block in self.number_blocks), config.features)
        self.as_proposal = ProposalSettings(
            members, config.latent_dim, config.start_scale, config.holes, self.features.width
        )
        self.input = JointInput(
            schema, members, shape.width, config.holes, self.features.width, reads_mask=self.reads_mask
        )
        self.hidden = Hidden((members,), shape)

    def look_at(self, data: Batch) -> None:
        usable = data.with_mask(data.usable)
        if self.number_blocks:
            at = [i for block in self.number_blocks for i in block.attributes]
            self.features.fit(numbers(self.number_blocks, usable), usable.mask[:, at])

    def read(self, batch: Batch) -> Tensor:
        """What the batch shows, (E, B, width)."""
        features = self.features(numbers(self.number_blocks, batch)) if self.number_blocks else None
        h: Tensor = self.hidden(self.input(batch, features, None))
        return h


class RowAutoencoder(RowEncoder):
    """An encoder that reads the whole row, a decoder that gives it back: AE, VAE, CVAE and MIWAE.

    `config.data_net` shapes the decoder; z has `latent_dim` dimensions, (E, B, K).
    """

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, latent = config.members, config.latent_dim
        self.last = GroupedLinear((members,), config.collective.width, 2 * latent)
        self.data_network = DataNetwork(schema, members, latent, config.data_net, config.variance, self.reads_mask)

    def infer(self, batch: Batch) -> DiagonalNormal:
        """q(z | what the batch shows), (E, B, K)."""
        parameters: Tensor = self.last(self.read(batch))
        return self.as_proposal.as_normal(*parameters.chunk(2, dim=-1))

    def decode(self, z: Tensor, mask: Tensor) -> DataDistribution:
        return self.data_network(z, mask if self.reads_mask else None)

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The evidence lower bound of what is observed."""
        visible = batch.with_mask(batch.usable)
        q = self.infer(visible)
        data = self.decode(q.rsample(), visible.mask)
        terms = self.terms(self.log_likelihood(data, batch) * visible.mask, q.kl_to_prior())
        return terms, loss_of(terms)

    @property
    def numbers_per_row(self) -> int:
        return 4 * self.config.latent_dim + 2 * sum(self.data_network.splits) + 4 * self.config.data_net.width

    def reconstruct(self, batch: Batch) -> DataDistribution:
        return self.decode(self.infer(batch).loc, batch.mask)

    def draws(self, batch: Batch, noise: Noise, weighted: bool | None = None) -> Draws:
        q = self.infer(batch)
        z = q.loc[:, None] + q.log_scale.exp()[:, None] * noise(q.loc.shape[2:], q.loc.device)
        return self.decode_draws(batch, q, z, bool(self.importance_samples) if weighted is None else weighted)

    def decode_draws(self, batch: Batch, q: DiagonalNormal, z: Tensor, weighted: bool) -> Draws:
        """z (E, S, B, K) decoded, with log p(x_o | z) + log p(z) - log q(z)."""
        samples = z.shape[1]
        repeated = batch.repeated(samples)
        data = self.decode(z.flatten(1, 2), repeated.mask)
        if not weighted:
            return Draws(data)
        log_x = (self.log_likelihood(data, repeated) * repeated.mask).sum(-1).unflatten(1, (samples, -1))
        prior = DiagonalNormal(torch.zeros_like(z), torch.zeros_like(z))
        proposal = DiagonalNormal(q.loc[:, None], q.log_scale[:, None])
        return Draws(data, log_x + prior.log_prob(z) - proposal.log_prob(z))
