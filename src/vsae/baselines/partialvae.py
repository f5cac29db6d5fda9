"""Partial VAE (Ma et al. 2019, EDDI): an encoder of the set of observed cells, whatever their number and order.

    s_i = e_i x_i + b_i                 an observed cell, by an embedding of its attribute ("PNP")
    c = Σ_{i ∈ o} h(s_i)                h is one network for all attributes
    q(z | x_o) = N(μ(c), σ(c))

What is missing takes no part in the sum, so nothing is filled in. Trained on the bound of a random part of the observed
cells: each is left out with probability min(u, .7), u uniform, as the paper's code has it.

Numbers lie in [0, 1], with σ = .1 √2, as that code has it; with σ learned, z stays at its prior on small tables.

DIFF(Partial VAE): h is as wide as the other layers, not 20; a level has an embedding of its own, where the paper has
numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from vsae.baselines.base import OneLatent, loss_of
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.inputs import SeparateInput
from vsae.model.likelihoods import ScaledHead
from vsae.model.likelihoods.base import PACE
from vsae.model.nets import MLP, GroupedLinear
from vsae.model.proposals import DiagonalNormal
from vsae.training.objective import Elbo

EMBEDDING = 20  # numbers of s
LOG_SCALE = math.log(0.1 * math.sqrt(2))
_MOST_LEFT_OUT = 0.7


class PartialVAE(OneLatent):
    """`config.collective` shapes what follows the sum."""

    settings: ClassVar[Mapping[str, Any]] = {"variance": "fixed", "scaling": "minmax", "fill": "zero"}

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, shape = (config.members,), config.collective
        self.embedding = SeparateInput(schema, EMBEDDING, self.input_settings(), fills_missing=False)
        self.shared = GroupedLinear(members, EMBEDDING, shape.width)  # h
        self.of_sum = MLP(members, shape.width, shape, 2 * config.latent_dim)
        for head in self.data_network.heads.values():
            if isinstance(head, ScaledHead):
                head.slow_log_scale.data.fill_(LOG_SCALE / PACE)

    def infer(self, batch: Batch) -> DiagonalNormal:
        shown = self.encode_images(batch)
        readings = self.embedding.read(shown, self.number_features(shown))
        return self.of_set(self.embedding(replace(shown, readings=readings)), batch.mask)

    def of_set(self, cells: Tensor, observed: Tensor) -> DiagonalNormal:
        """q(z) given cells (E, M, B, EMBEDDING), those that are observed, (E, B, M); their order says nothing."""
        code = F.relu(self.shared(cells.flatten(1, 2))).unflatten(1, cells.shape[1:3])  # (E, M, B, width)
        total = (code * observed.transpose(-1, -2)[..., None]).sum(1)
        parameters: Tensor = self.of_sum(total)
        return self.as_proposal(*parameters.chunk(2, dim=-1))

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        part = batch.with_mask(some_of(batch.usable))
        q = self.infer(part)
        data = self.decode(q.rsample(), part.mask)
        terms = self.terms(self.log_likelihood(data, batch) * part.mask, q.kl_to_prior())
        return terms, loss_of(terms)


def some_of(observed: Tensor) -> Tensor:
    """Each observed cell, unless it is left out, (…, M)."""
    rate = torch.rand(observed.shape, device=observed.device).clamp_max(_MOST_LEFT_OUT)
    return observed & (torch.rand(observed.shape, device=observed.device) >= rate)
