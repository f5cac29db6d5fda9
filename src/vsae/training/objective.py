"""The bound of Eq. 9 as a sum of named terms, and the weights it gets in training.

L' = E_z[ Σ_{j∈U} E log p(x_j | m, z) ] + E_z[ Σ_{i∈O} log p(x_i | m, z) ] + E_z[ log p(m | z) ] - KL(q ‖ p(z))
          x_unobserved                        x_observed                         mask                kl
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution
from vsae.model.proposals import DiagonalNormal

if TYPE_CHECKING:  # the baselines have an `Elbo`, and do not know VSAE
    from vsae.model.vsae import VSAE

Statistics = Mapping[str, Tensor]  # block name → what the E step knows of the unobserved cells


class Elbo(NamedTuple):
    """The four terms, with the paper's signs. Each (E, B, M), attribute by attribute, or (E, B) after `rows()`."""

    x_observed: Tensor
    x_unobserved: Tensor
    mask: Tensor
    kl: Tensor

    @property
    def total(self) -> Tensor:
        return self.x_observed + self.x_unobserved + self.mask - self.kl

    def rows(self) -> Elbo:
        return Elbo(*(term.sum(-1) for term in self))

    def mean(self) -> Elbo:
        """Average over rows, (E,)."""
        return Elbo(*(term.mean(-1) for term in self.rows()))


def expected_log_likelihood(model: VSAE, data: DataDistribution, statistics: Statistics) -> Tensor:
    """E[log p(x̂_i | m, z)] over the x̂ of an E step, (E, B, M)."""
    return model.by_attribute([data[name].expected_log_prob(statistics[name]) for name in data])


def elbo(
    model: VSAE,
    batch: Batch,
    visible: Tensor | None = None,
    statistics: Statistics | None = None,
    noise: Tensor | None = None,
    q: DiagonalNormal | None = None,
) -> Elbo:
    """One-sample estimate of the bound for a batch (E, B), attribute by attribute.

    `visible` (a part of `batch.usable`) is what the proposals get to see; every truly observed cell is scored, and the
    mask network always answers for the true mask. `statistics` come from the E step; `noise` (E, B, M, L) replaces the
    random draw of z. `q` is the selective proposal, where it has been asked for already.
    """
    config = model.config
    visible = batch.usable if visible is None else visible
    q = model.propose(batch.with_mask(visible)).selective if q is None else q
    given = config.decoder_mask == "given" or not config.mask_modelling
    m, data = model.decode(q.rsample(noise), visible if given else None)

    observed = model.log_likelihood(data, batch) * batch.usable
    zero = torch.zeros_like(observed)
    unobserved = zero
    if statistics is not None:
        unobserved = expected_log_likelihood(model, data, statistics) * ~batch.mask
    mask = m.log_prob(batch.mask) if config.mask_modelling else zero
    return Elbo(observed, unobserved, mask, q.kl_to_prior())


def objective(model: VSAE, batch: Batch, visible: Tensor, statistics: Statistics | None) -> tuple[Elbo, Tensor]:
    """The four terms, and what training minimises: minus their weighted sum, and how far the proposals disagree.

    Where an attribute is known but hidden, both proposals speak of the same z_i, one having seen x_i, the other not;
    KL(attributive ‖ collective) draws them together, so that what is decoded from one is decoded from the other.
    """
    q = model.propose(batch.with_mask(visible))
    terms = elbo(model, batch, visible, statistics, q=q.selective)
    value = loss(terms, visible, model.config, model.balance)
    if model.config.match > 0 and model.config.proposal == "selective":
        disagreement = q.attributive.kl_to(q.collective) * (batch.usable & ~visible)
        value = value + disagreement.sum() * (model.config.match / batch.rows)
    return terms, value


def loss(terms: Elbo, visible: Tensor, config: VSAEConfig, balance: Tensor | float = 1.0) -> Tensor:
    """Minus the weighted bound, the mean over rows, the sum over members.

    `balance` (M,) weighs attributes, so that the many pixels of an image do not drown a label: the log-likelihood of d
    entries counts d^-balance. Numbers and levels count 1.
    """
    data = torch.add(terms.x_observed, terms.x_unobserved, alpha=config.e_step_weight) * balance
    bound = torch.add(data, terms.mask, alpha=config.mask_weight)
    bound = torch.addcmul(bound, terms.kl, torch.where(visible, config.kl_visible, config.kl_hidden), value=-1)
    return bound.sum() / -visible.shape[-2]
