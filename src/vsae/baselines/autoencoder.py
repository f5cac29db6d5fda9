"""AE: a plain autoencoder. It learns to give back what it is shown, and nothing else."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from vsae.baselines.base import RowAutoencoder, loss_of
from vsae.data.batch import Batch
from vsae.model.generative import DataDistribution
from vsae.model.latent_model import Draws, Noise
from vsae.training.objective import Elbo


class Autoencoder(RowAutoencoder):
    """z is the encoder's mean: no noise, no prior. The scales its last layer gives are never used."""

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        visible = batch.with_mask(batch.usable)
        log_x = self.log_likelihood(self.reconstruct(visible), batch) * visible.mask
        terms = self.terms(log_x, torch.zeros_like(log_x[..., 0]))
        return terms, loss_of(terms)

    def kl_of(self, batch: Batch) -> Tensor | None:
        return None

    def generate(self, rows: int) -> DataDistribution | None:
        return None

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        if weighted:
            raise ValueError("an autoencoder has no prior to weight its draws by; leave weighted out")
        z = self.infer(batch).loc.repeat(1, noise.samples, 1)
        return Draws(self.decode(z, batch.repeated(noise.samples).mask))
