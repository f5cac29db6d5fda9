"""The two steps of the paper's expectation maximisation, on one batch."""

from __future__ import annotations

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.model.vsae import VSAE
from vsae.training.objective import Elbo, Statistics, objective


@torch.no_grad()
def e_step(model: VSAE, batch: Batch, samples: int) -> dict[str, Tensor]:
    """Eq. 10: what the model so far says of the unobserved cells, averaged over latent draws.

    Latents of observed attributes come from the attributive proposal, those of unobserved ones from the prior (or, as
    an ablation, from the collective proposal). All draws are decoded as one batch of `samples`·B rows, without
    gradient.
    """
    config = model.config
    q = model.propose(batch.with_mask(batch.usable))
    chosen = batch.usable[..., None]
    prior_loc = torch.zeros_like(q.attributive.loc)
    unobserved = q.collective if config.e_step_latents == "collective" else type(q.collective)(prior_loc, prior_loc)
    loc = torch.where(chosen, q.attributive.loc, unobserved.loc)  # (E, B, M, L)
    scale = torch.where(chosen, q.attributive.log_scale, unobserved.log_scale).exp()
    noise = torch.randn(loc.shape[0], samples, *loc.shape[1:], device=loc.device)
    z = torch.addcmul(loc[:, None], scale[:, None], noise)  # (E, samples, B, M, L)
    given = config.decoder_mask == "given" or not config.mask_modelling
    mask = batch.usable[:, None].expand(-1, samples, -1, -1).flatten(1, 2) if given else None
    data = model.decode(z.flatten(1, 2), mask).data
    return {name: data[name].statistics.unflatten(1, (samples, -1)).mean(1) for name in data}


def m_step(model: VSAE, batch: Batch, statistics: Statistics | None) -> tuple[Elbo, Tensor]:
    """The bound on the same batch: its four terms, (E, B, M), and what a step must minimise to climb it."""
    batch = model.prepare(batch)
    assert batch.visible is not None
    return objective(model, batch, batch.visible, statistics)


def learn(model: VSAE, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
    """One E step, where it is switched on, and one M step."""
    config = model.config
    warm = config.e_step_samples > 0 and epoch >= config.e_step_warmup
    return m_step(model, batch, e_step(model, batch, config.e_step_samples) if warm else None)
