"""The bound of Eq. 9 for a batch, and the weights its terms get in training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution
from vsae.model.proposals import DiagonalNormal
from vsae.model.vsae import VSAE
from vsae.training.elbo import Elbo

Statistics = Mapping[str, Tensor]  # block name → what the E step knows of the unobserved cells


def expected_log_likelihood(model: VSAE, data: DataDistribution, statistics: Statistics) -> Tensor:
    """E[log p(x̂_i | m, z)] over the x̂ of an E step, (E, B, M)."""
    return model.by_attribute([data[name].expected_log_prob(statistics[name]) for name in data])


def elbo(
    model: VSAE,
    batch: Batch,
    visible: Tensor | None = None,
    statistics: Statistics | None = None,
    noise: Tensor | None = None,
) -> Elbo:
    """One-sample estimate of the bound for a batch (E, B), attribute by attribute.

    `visible` (a part of `batch.usable`) is what the proposals get to see; every truly observed cell is scored, and the
    mask network always answers for the true mask. `statistics` come from the E step; `noise` (E, B, M, L) replaces the
    random draw of z.
    """
    visible = batch.usable if visible is None else visible
    return _elbo(model, model.propose(batch.with_mask(visible)).selective, batch, visible, statistics, noise)


def _elbo(
    model: VSAE,
    q: DiagonalNormal,
    batch: Batch,
    visible: Tensor,
    statistics: Statistics | None,
    noise: Tensor | None = None,
) -> Elbo:
    config = model.config
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
    terms = _elbo(model, q.selective, batch, visible, statistics)
    value = loss(terms, visible, model.config, model.balance)
    if model.config.match > 0 and model.config.proposal == "selective":
        disagreement = q.attributive.kl_to(q.collective) * (batch.usable & ~visible)
        value = value + model.config.match * disagreement.sum(-1).mean(-1).sum()
    return terms, value


def loss(terms: Elbo, visible: Tensor, config: VSAEConfig, balance: Tensor | float = 1.0) -> Tensor:
    """Minus the weighted bound, the mean over rows, the sum over members.

    `balance` (M,) weighs attributes, so that the many pixels of an image do not drown a label: the log-likelihood of d
    entries counts d^-balance. Numbers and levels count 1.
    """
    kl = terms.kl * torch.where(visible, config.kl_visible, config.kl_hidden)
    data = (terms.x_observed + config.e_step_weight * terms.x_unobserved) * balance
    return -(data + config.mask_weight * terms.mask - kl).sum(-1).mean(-1).sum()
