"""AE: a plain autoencoder. It learns to give back what it is shown, and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from vsae.baselines.base import RowAutoencoder, loss_of
from vsae.batch import Batch
from vsae.latent_model import Draws, Noise
from vsae.objective import Elbo


class Autoencoder(RowAutoencoder):
    """z is the encoder's mean: no noise, no prior."""

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        visible = batch.with_mask(batch.usable)
        log_x = self.log_likelihood(self.reconstruct(visible), batch) * visible.mask
        terms = self.terms(log_x, torch.zeros_like(log_x[..., 0]))
        return terms, loss_of(terms)

    def draws(self, batch: Batch, noise: Noise, weighted: bool | None = None) -> Draws:
        q = self.infer(batch)
        z = q.loc[:, None].expand(-1, noise.samples, -1, -1)
        return self.decode_draws(batch, q, z, weighted=False)
