"""What the baselines share: one latent vector a row, the networks and likelihoods of VSAE, the same trainer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution, DataNetwork
from vsae.model.inputs import JointInput
from vsae.model.latent_model import Draws, LatentModel, Noise
from vsae.model.nets import GroupedLinear, Hidden
from vsae.model.proposals import DiagonalNormal, as_proposal
from vsae.training.objective import Elbo

#: What HI-VAE's and MIWAE's own papers choose where VSAE's chooses otherwise: learned scales, standardised, no noise.
OWN_CHOICES: Mapping[str, Any] = {"variance": "cell", "scaling": "standard", "fill": "zero"}


class Baseline(LatentModel):
    """A model that says what a batch teaches it, how it reconstructs a row, and how it draws one.

    What a new one has to give: `bound`, `reconstruct`, `draws` and `numbers_per_row`; `infer` and `generate` where it
    has latents and a prior. All its parameters have a leading dimension of members, and all that a fit may not change
    is in buffers, so that `state_dict`, schema and config are the model: that is how it is saved. A model one part of
    which plays against the rest is `training.step.Adversarial`, too.
    """

    settings: ClassVar[Mapping[str, Any]] = {}  # over those of the `paper` preset
    takes_images: ClassVar[bool] = True
    has_draws: ClassVar[bool] = True  # or else it knows of nothing but the best estimate of a cell
    reaches_beyond: ClassVar[bool] = False  # whether missing cells may lie where no value was seen
    grows: ClassVar[bool] = True  # is widened until it has VSAE's size, which follows the table's

    @abstractmethod
    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The terms of its objective, (E, B, M) each, and the loss: the mean over rows, the sum over members."""

    def terms(self, log_x: Tensor, kl: Tensor) -> Elbo:
        """From log-likelihoods of observed cells, (E, B, M), and one KL a row, (E, B), in equal shares."""
        zero = torch.zeros_like(log_x)
        return Elbo(log_x, zero, zero, (kl / len(self.schema))[..., None].expand_as(log_x))

    def kl_of(self, batch: Batch) -> Tensor | None:
        """KL of what is inferred from a batch to the model's own prior, (E, B); None for a model without one."""
        q = self.infer(batch)
        return None if q is None else q.kl_to_prior()

    def generate(self, rows: int) -> DataDistribution | None:
        """New rows, (E, rows, …), from draws of the prior; None for a model without one."""
        return None

    def as_proposal(self, loc: Tensor, log_scale: Tensor) -> DiagonalNormal:
        return as_proposal(loc, log_scale, self.config.start_scale)


def learn(model: Baseline, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
    """For `train`."""
    return model.bound(batch, epoch)


def loss_of(terms: Elbo) -> Tensor:
    return -terms.mean().total.sum()


class OneLatent(Baseline):
    """z ~ N(0, I), (E, B, K) with `latent_dim` as K, and a decoder for all attributes, shaped by `config.data_net`."""

    reads_mask = False  # whether the networks are told the mask

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.data_network = DataNetwork(
            self.make_heads(), config.members, config.latent_dim, config.data_net, len(schema), self.reads_mask
        )

    @abstractmethod
    def infer(self, batch: Batch) -> DiagonalNormal: ...

    def decode(self, z: Tensor, mask: Tensor) -> DataDistribution:
        return self.data_network(z, mask if self.reads_mask else None)

    @property
    def numbers_per_row(self) -> int:
        heads = self.data_network.heads.numbers_per_row
        return 4 * self.config.latent_dim + heads + 4 * self.config.data_net.width

    def reconstruct(self, batch: Batch) -> DataDistribution:
        return self.decode(self.infer(batch).loc, batch.mask)

    def generate(self, rows: int) -> DataDistribution | None:
        """As complete rows have it: where the mask is read, nothing is missing."""
        z = torch.randn(self.config.members, rows, self.config.latent_dim, device=self.owner.device)
        return self.decode(z, torch.ones(*z.shape[:2], len(self.schema), dtype=torch.bool, device=z.device))

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        q = self.infer(batch)
        z = q.draws(noise(q.loc.shape[2:], q.loc.device))
        data = self.decode(z.flatten(1, 2), batch.repeated(noise.samples).mask)
        weighted = self.importance_samples > 0 if weighted is None else weighted
        return Draws(data, self.log_weight(batch, data, q, z) if weighted else None)


class RowReader(Baseline):
    """A network that reads the whole row, missing cells filled; `config.collective` shapes it."""

    reads_mask = False

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, shape = config.members, config.collective
        self.input = JointInput(schema, shape.width, self.input_settings(), reads_mask=self.reads_mask)
        self.hidden = Hidden((members,), shape)

    def read(self, batch: Batch) -> Tensor:
        """What the batch shows, (E, B, width)."""
        batch = self.encode_images(batch)
        readings = self.input.read(batch, self.number_features(batch))
        h: Tensor = self.hidden(self.input(replace(batch, readings=readings)))
        return h


class RowAutoencoder(RowReader, OneLatent):
    """An encoder that reads the whole row, a decoder that gives it back: AE, VAE, CVAE and MIWAE."""

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.last = GroupedLinear((config.members,), config.collective.width, 2 * config.latent_dim)

    def infer(self, batch: Batch) -> DiagonalNormal:
        parameters: Tensor = self.last(self.read(batch))
        return self.as_proposal(*parameters.chunk(2, dim=-1))

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The evidence lower bound of what is observed."""
        visible = batch.with_mask(batch.usable)
        q = self.infer(visible)
        data = self.decode(q.rsample(), visible.mask)
        terms = self.terms(self.log_likelihood(data, batch) * visible.mask, q.kl_to_prior())
        return terms, loss_of(terms)
