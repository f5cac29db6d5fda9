"""`VSAE`: the proposals, the aggregation and the generative networks, put together. Nothing else."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.remasking import remask, remask_weights
from vsae.data.schema import Schema
from vsae.model.aggregation import aggregation
from vsae.model.config import VSAEConfig
from vsae.model.gaussian import GaussianImputation
from vsae.model.generative import DataDistribution, DataNetwork, MaskNetwork
from vsae.model.latent_model import Draws, LatentModel, Noise
from vsae.model.likelihoods import Bernoulli
from vsae.model.priors import FullPrior, LatentPrior, LowRankPrior
from vsae.model.proposals import (
    AttributiveProposal,
    CollectiveProposal,
    DiagonalNormal,
    select,
)
from vsae.model.recurring import RecurringValues


class Proposals(NamedTuple):
    """Everything inferred from a batch: both proposals, and the one that is used."""

    attributive: DiagonalNormal
    collective: DiagonalNormal
    selective: DiagonalNormal


class Decoded(NamedTuple):
    """Everything generated from latents."""

    mask: Bernoulli
    data: DataDistribution


class VSAE(LatentModel):
    """p(x, m, z) with its selective proposal, for E members at once.

    >>> from vsae.data.schema import Schema, real
    >>> model = VSAE(Schema([real("a"), real("b")]), VSAEConfig(latent_dim=3, members=1))
    >>> batch = Batch({"gaussian": torch.zeros(1, 5, 2)}, torch.ones(1, 5, 2, dtype=torch.bool))
    >>> z = model.propose(batch).selective.rsample()
    >>> z.shape, model.decode(z, batch.mask).data["gaussian"].mean.shape
    (torch.Size([1, 5, 2, 3]), torch.Size([1, 5, 2]))
    """

    is_number: Tensor
    remask_weights: Tensor
    shared_parts = ("features.", "gaussian.", "recurring.", "remask_weights")

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, latent = config.members, config.latent_dim
        self.gaussian = GaussianImputation(schema, used=config.gaussian)
        self.recurring = RecurringValues(config.recurring)
        is_number = torch.zeros(len(schema), latent)
        is_number[self.number_attributes] = 1.0
        self.register_buffer("is_number", is_number, persistent=False)
        inputs = self.input_settings(config.recurring)
        self.attributive = AttributiveProposal(schema, config, inputs)
        self.collective = CollectiveProposal(schema, config, inputs, self.gaussian.width)
        self.aggregate = aggregation(config.aggregation, members, len(schema), latent, config.data_net.width)
        self.mask_network = MaskNetwork(members, self.aggregate.width, config.mask_net, len(schema))
        self.data_network = DataNetwork(self.make_heads(), members, self.aggregate.width, config.data_net, len(schema))
        own = config.prior_covariance == "own"
        self.prior: LatentPrior = (FullPrior if own else LowRankPrior)(members, len(schema), latent)
        self.register_buffer("remask_weights", torch.ones(len(schema)))  # how much of each attribute is re-masked

    def fit_statistics(self, data: Batch) -> None:
        """And the Gaussian, and what to re-mask how often."""
        super().fit_statistics(data)
        if self.gaussian.width:
            usable = data.with_mask(data.usable)
            self.gaussian.fit(usable, self.number_features(usable))
        if self.config.remask_rates == "as_missing":
            self.remask_weights.copy_(remask_weights(data.mask, data.cell_weight()))

    def update_statistics(self, data: Batch, share: float) -> None:
        if self.gaussian.width:
            usable = data.with_mask(data.usable)
            self.gaussian.update(usable, self.number_features(usable), share)
        if self.config.remask_rates == "as_missing":
            self.remask_weights.lerp_(remask_weights(data.mask), share)

    def prepare(self, batch: Batch) -> Batch:
        """Hide some of what is known, so that there is something to predict, and read the rest."""
        if batch.visible is not None:
            return batch
        low, high = self.config.remask
        visible = remask(batch.usable, low, high, self.remask_weights) if high > 0 else batch.usable
        shown = batch.with_mask(visible)
        readings = {} if self.schema.image_blocks else self.read(shown).readings  # encoders of images have weights
        return Batch(batch.values, batch.mask, batch.withheld, visible, readings)

    @property
    def has_constant_steps(self) -> bool:
        return self.config.e_step_samples == 0 and not self.schema.image_blocks

    def read(self, batch: Batch) -> Batch:
        """What the proposals read of what the batch shows, put into its readings.

        Where there is a Gaussian imputation, the attributive proposal reads its numbers as well, in a second half of
        the rows.
        """
        if batch.readings:
            return batch
        features, estimate, places, others = self.number_features(batch), None, None, []
        if self.recurring.size and features is not None:
            places = self.recurring(batch.numbers(self.number_blocks))
        if self.gaussian.width and features is not None:
            estimate = self.gaussian(batch, features)  # (E, B, D)
            scores = self.gaussian.scores(estimate, features.shape[-2])
            others = [self.features(self.features.number(scores), scores)]
        readings = self.attributive.input.read(batch, features, others)
        readings |= self.collective.input.read(batch, features, estimate, places)
        return Batch(batch.values, batch.mask, batch.withheld, readings=readings)

    def propose(self, batch: Batch) -> Proposals:
        """q(z | x_o, m), each (E, B, M, L)."""
        batch = self.read(self.encode_images(batch))
        attributive, imputed = self.attributive.with_others(batch)
        collective: DiagonalNormal = self.collective(batch)
        if imputed is not None:
            # the imputation is decoded as if it were observed, from the first step on; q_ψ says how to correct it
            collective = collective._replace(loc=torch.addcmul(collective.loc, imputed, self.is_number))
        if self.config.proposal == "attributive":
            selective = attributive
        elif self.config.proposal == "collective":
            selective = collective
        else:
            selective = select(batch.mask, attributive, collective)
        return Proposals(attributive, collective, selective)

    def decode(self, z: Tensor, mask: Tensor | None, only: Collection[str] | None = None) -> Decoded:
        """p(m | z) and p(x | m, z), with `mask` as m; None: the probabilities that the mask network gives.

        Without mask modelling the mask network's output conditions nothing, so None means all observed.
        """
        context = self.aggregate(z)  # (E, B, M·L), or (E, B, width of the data network)
        m = self.mask_network(context)
        if mask is None:
            mask = m.mean if self.config.mask_modelling else torch.ones_like(m.logits)
        return Decoded(m, self.data_network(context, mask, only))

    @property
    def numbers_per_row(self) -> int:
        latents = self.config.latent_dim * len(self.schema) * 3
        return latents + self.data_network.heads.numbers_per_row + self.config.data_net.width * 4

    def imputing_mask(self, mask: Tensor) -> Tensor | None:
        """m for `decode` when imputing: the given mask, or None for the reconstructed one."""
        return None if self.config.mask_modelling and self.config.imputation_mask == "reconstructed" else mask

    def infer(self, batch: Batch) -> DiagonalNormal:
        return self.propose(batch).selective

    def linear_imputation(self) -> GaussianImputation | None:
        return self.gaussian if self.gaussian.width else None

    def latent_prior(self) -> LatentPrior:
        return self.prior

    def attribute_kl(self, batch: Batch) -> Tensor:
        return self.propose(batch).attributive.kl_to_prior()

    def reconstruct(self, batch: Batch) -> DataDistribution:
        return self.decode(self.propose(batch).selective.loc, self.imputing_mask(batch.mask)).data

    def decode_draws(
        self, batch: Batch, noise: Noise, only: Collection[str] | None = None
    ) -> tuple[Decoded, DiagonalNormal, Tensor]:
        """Draws of z decoded, rows draw-major; with the proposal they come from, and themselves, (E, S, B, M, L)."""
        q = self.infer(batch)
        z = q.draws(noise(q.loc.shape[2:], q.loc.device))
        mask = batch.mask[:, None].expand(-1, noise.samples, -1, -1).flatten(1, 2)
        return self.decode(z.flatten(1, 2), self.imputing_mask(mask), only), q, z

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        if not weighted:
            return Draws(self.decode_draws(batch, noise, only)[0].data)
        decoded, q, z = self.decode_draws(batch, noise)  # the weights need all of it
        log_weight = self.log_weight(batch, decoded.data, q, z)
        if self.config.mask_modelling:
            log_m = decoded.mask.log_prob(batch.repeated(noise.samples).mask).sum(-1)
            log_weight = log_weight + log_m.unflatten(1, (noise.samples, -1))
        return Draws(decoded.data, log_weight)
