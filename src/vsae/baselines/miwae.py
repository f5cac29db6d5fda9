"""MIWAE (Mattei and Frellsen 2019): the importance-weighted bound, and imputation by weighted samples.

The bound of K samples, log 1/K Σ_k w_k with w_k = p(x_o | z_k) p(z_k) / q(z_k | x_o), is tighter than the VAE's
(K = 1). A missing cell's estimate is the mean of the decoded samples under normalised weights; a draw picks samples by
their weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from vsae.baselines.base import OWN_CHOICES, RowAutoencoder
from vsae.data.batch import Batch
from vsae.model.latent_model import Draws, Noise
from vsae.training.objective import Elbo


class MIWAE(RowAutoencoder):
    """Scales are learned, missing cells are zero: its paper's choices, not VSAE's."""

    settings: ClassVar[Mapping[str, Any]] = OWN_CHOICES
    importance_samples = 1000
    training_samples = 20  # K
    validation_samples = 50

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        visible, samples = batch.with_mask(batch.usable), self.training_samples
        draws = self.weighted_draws(visible, Noise(self.config.members, samples, batch.rows))
        assert draws.log_weight is not None
        bound = torch.logsumexp(draws.log_weight, dim=1) - math.log(samples)  # (E, B)
        with torch.no_grad():  # the terms, for the record: what the weighted samples make of the observed cells
            repeated = visible.repeated(samples)
            log_x = (self.log_likelihood(draws.data, repeated) * repeated.mask).unflatten(1, (samples, -1))
            weighted = (torch.softmax(draws.log_weight, dim=1)[..., None] * log_x).sum(1)
            terms = self.terms(weighted, weighted.sum(-1) - bound)
        return terms, -bound.mean(-1).sum()

    def weighted_draws(self, batch: Batch, noise: Noise) -> Draws:
        """What is decoded from the latents, with their importance weights."""
        return super().draws(batch, noise, weighted=True)

    def validation_draws(self, batch: Batch) -> Draws:
        """Weighted samples, as imputation has them: the mean of q alone would say that training is over too soon."""
        return self.draws(batch, Noise(self.config.members, self.validation_samples, 1, mirrored=True), weighted=True)
