"""`VSAE`: the proposals, the aggregation and the generative networks, put together. Nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vsae.aggregation import Concatenation
from vsae.batch import Batch
from vsae.config import VSAEConfig
from vsae.features import NumberFeatures
from vsae.generative import DataDistribution, DataNetwork, MaskNetwork
from vsae.guess import GaussianGuess
from vsae.likelihoods import Bernoulli
from vsae.prior import LatentPrior
from vsae.proposals import (
    AttributiveProposal,
    CollectiveProposal,
    DiagonalNormal,
    ProposalSettings,
    number_blocks,
    numbers,
    select,
)
from vsae.remasking import hiding_weights
from vsae.schema import Schema


class Proposals(NamedTuple):
    """Everything inferred from a batch: both proposals, and the one that is used."""

    attributive: DiagonalNormal
    collective: DiagonalNormal
    selective: DiagonalNormal


class Decoded(NamedTuple):
    """Everything generated from latents."""

    mask: Bernoulli
    data: DataDistribution


class VSAE(nn.Module):
    """p(x, m, z) with its selective proposal, for E members at once.

    >>> from vsae.schema import Schema, real
    >>> model = VSAE(Schema([real("a"), real("b")]), VSAEConfig(latent_dim=3, members=1))
    >>> batch = Batch({"gaussian": torch.zeros(1, 5, 2)}, torch.ones(1, 5, 2, dtype=torch.bool))
    >>> z = model.propose(batch).selective.rsample()
    >>> z.shape, model.decode(z, batch.mask).data["gaussian"].mean.shape
    (torch.Size([1, 5, 2, 3]), torch.Size([1, 5, 2]))
    """

    owner: Tensor
    is_number: Tensor
    hiding: Tensor

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__()
        self.schema, self.config = schema, config
        members, latent = config.members, config.latent_dim
        self.number_blocks = number_blocks(schema)
        self.features = NumberFeatures(sum(len(block) for block in self.number_blocks), config.features)
        self.guess = GaussianGuess(schema, used=config.guess)
        is_number = torch.zeros(len(schema), 1)
        self.number_attributes = [i for block in self.number_blocks for i in block.attributes]
        is_number[self.number_attributes] = 1.0
        self.register_buffer("is_number", is_number, persistent=False)
        settings = ProposalSettings(members, latent, config.start_scale, config.holes, self.features.width)
        fill = config.proposal == "attributive"
        self.attributive = AttributiveProposal(schema, config.attributive, settings, fill)
        self.collective = CollectiveProposal(schema, config.collective, settings, self.guess.width)
        self.aggregate = Concatenation(len(schema), latent)
        self.mask_network = MaskNetwork(members, self.aggregate.width, config.mask_net, len(schema))
        self.data_network = DataNetwork(schema, members, self.aggregate.width, config.data_net, config.variance)
        self.prior = LatentPrior(members, len(schema), latent)
        owner = torch.tensor([i for block in schema.blocks for i in block.attributes])
        self.register_buffer("owner", owner, persistent=False)  # attribute of each variable, block by block
        self.in_order = owner.tolist() == list(range(len(schema)))
        self.register_buffer("hiding", torch.ones(len(schema)))  # how much of each attribute re-masking hides

    def take_members(self, index: Sequence[int]) -> VSAE:
        """A model of some of the members, with copies of their weights."""
        model = VSAE(self.schema, self.config.replace(members=len(index))).to(self.owner.device)
        shared = {f"{part}.{name}" for part in ("features", "guess") for name in getattr(self, part).state_dict()}
        shared.add("hiding")
        state = {name: x if name in shared else x[list(index)] for name, x in self.state_dict().items()}
        model.load_state_dict(state)
        return model.train(self.training)

    def by_attribute(self, blocks: Sequence[Tensor]) -> Tensor:
        """Numbers per variable, block by block, (…, variables) each → sums per attribute, (…, M)."""
        flat = torch.cat(list(blocks), dim=-1)
        return (
            flat
            if self.in_order
            else flat.new_zeros(*flat.shape[:-1], len(self.schema)).index_add(-1, self.owner, flat)
        )

    def look_at(self, data: Batch) -> None:
        """What is taken from a data set (n, …) once, before training: features, the guess, what to hide how often."""
        usable = data.with_mask(data.usable)
        if self.number_blocks:
            self.features.fit(numbers(self.number_blocks, usable), usable.mask[:, self.number_attributes])
        if self.guess.width:
            self.guess.fit(usable, self._features(usable))
        if self.config.hiding == "as_missing":
            self.hiding.copy_(hiding_weights(data.mask))

    def _features(self, batch: Batch) -> Tensor | None:
        return self.features(numbers(self.number_blocks, batch)) if self.number_blocks else None

    def propose(self, batch: Batch) -> Proposals:
        """q(z | x_o, m), each (E, B, M, L)."""
        features = self._features(batch)
        attributive = self.attributive(batch, features)
        collective = self._collective(batch, features)
        if self.config.proposal == "attributive":
            selective = attributive
        elif self.config.proposal == "collective":
            selective = collective
        else:
            selective = select(batch.mask, attributive, collective)
        return Proposals(attributive, collective, selective)

    def _collective(self, batch: Batch, features: Tensor | None) -> DiagonalNormal:
        """q_ψ; where there is a guess, it says how to correct the attributive proposal of the guess.

        So the guess is decoded as if it were observed, from the first step on, and training adds what is not linear.
        """
        if not self.guess.width or features is None:
            return self.collective(batch, features, None)
        guess = self.guess(batch, features)  # (E, B, D)
        q: DiagonalNormal = self.collective(batch, features, guess)
        number = self.features.number(self.guess.scores(guess, features.shape[-2]))
        anchor = self.attributive(batch, self.features(number)).loc
        return q._replace(loc=q.loc + anchor * self.is_number)

    def decode(self, z: Tensor, mask: Tensor | None) -> Decoded:
        """p(m | z) and p(x | m, z), with `mask` as m; None: the probabilities that the mask network gives.

        Without mask modelling the mask network's output conditions nothing, so None means all observed.
        """
        context = self.aggregate(z)  # (E, B, M·L)
        m = self.mask_network(context)
        if mask is None:
            mask = m.mean if self.config.mask_modelling else torch.ones_like(m.logits)
        return Decoded(m, self.data_network(context, mask))
