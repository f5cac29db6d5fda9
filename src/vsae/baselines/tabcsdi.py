"""TabCSDI (Zheng and Charoenphakdee 2022): a diffusion of the missing cells, conditioned on the observed ones.

In training, some of the observed cells of a row are targets: noise of a random size σ is added to them, and a network
that reads the other observed cells, the noisy targets and σ is to give the targets back,

    D(x + σ n; σ, x_o) ≈ E[x | x + σ n, x_o].

To impute, all missing cells are targets: they begin as noise of the largest σ, which is then taken away bit by bit
along dx/dσ = (x - D(x; σ, x_o)) / σ. What is left is a joint draw from p(x_u | x_o).

DIFF(TabCSDI): noise levels, preconditioning and sampler are those of Karras et al. (2022), as DiffPuter (Zhang et al.
2025) has them: a draw takes 19 passes through the network, not 150. The network is one of this library's, residual, on
rows as vectors (flat.py); the paper's is a transformer over cells. A cell that is neither read nor a target is told to
the network as such, where the paper's reads noise in its place.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from vsae.baselines.base import Baseline
from vsae.baselines.filler import spread
from vsae.baselines.flat import FlatRows
from vsae.data.batch import Batch
from vsae.data.remasking import remask
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution
from vsae.model.latent_model import Draws, Noise
from vsae.model.nets import MLP
from vsae.training.objective import Elbo

LEAST, MOST = 0.01, 20.0  # σ in standard units: nothing is left of a cell under the largest, all under the least
STEPS = 10  # of the sampler, of second order
_BEND = 7.0  # ρ: small σ get more of the steps
_TARGETS = (0.0, 0.99)  # share of a row's observed cells that are targets, drawn from a uniform distribution
_WAVES = 4  # pairs of features of log σ


class TabCSDI(Baseline):
    """`config.data_net` shapes the network."""

    settings = {"scaling": "standard", "fill": "zero"}
    frequencies: Tensor

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.rows, shape = FlatRows(schema), replace(config.data_net, residual=True)
        n_in = 2 * self.rows.width + 2 * len(schema) + 2 * _WAVES
        self.network = MLP((config.members,), n_in, shape, self.rows.width)
        span = math.pi / math.log(MOST / LEAST)
        self.register_buffer("frequencies", span * torch.arange(1.0, _WAVES + 1), persistent=False)

    def denoise(self, noisy: Tensor, sigma: Tensor, known: Tensor, read: Tensor, targets: Tensor) -> Tensor:
        """D(noisy; σ, what is read), (E, B, entries).

        noisy, known (E, B, entries), the latter zero where nothing is read; σ (E, B, 1) or a number; read, targets
        (E or 1, B, M) bool. With σ of data 1, inputs and outputs of the network have variance 1, whatever σ is.
        """
        size = torch.sqrt(sigma**2 + 1)
        wave = torch.log(sigma / LEAST) * self.frequencies
        parts = [noisy / size * self.rows.by_entry(targets), known, read, targets, wave.sin(), wave.cos()]
        leading = noisy.shape[:-1]
        inputs = torch.cat([part.to(noisy).expand(*leading, -1) for part in parts], dim=-1)
        return noisy / size**2 + sigma / size * self.network(inputs)

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The term of observed cells is minus the weighted squared error of the targets among them."""
        read = remask(batch.usable, *_TARGETS)
        targets, x = batch.usable & ~read, self.rows.visible(batch.with_mask(batch.usable))
        leading = (self.config.members, batch.rows)
        sigma = LEAST * (MOST / LEAST) ** torch.rand(*leading, 1, device=x.device)
        noisy = x + sigma * torch.randn(*leading, x.shape[-1], device=x.device)
        found = self.denoise(noisy, sigma, x * self.rows.by_entry(read), read, targets)
        error = (found - x) ** 2 * self.rows.by_entry(targets) * (1 + sigma**-2)
        log_x = error.new_zeros(*leading, len(self.schema)).index_add(-1, self.rows.owner, -0.5 * error)
        zero = torch.zeros_like(log_x)
        return Elbo(log_x, zero, zero, zero), -log_x.sum() / batch.rows

    @property
    def numbers_per_row(self) -> int:
        return 12 * self.rows.width + 6 * self.config.data_net.width

    def reconstruct(self, batch: Batch) -> DataDistribution:
        """The mean of missing cells: under the largest σ, noisy targets say nothing, and D is E[x | x_o]."""
        known = self.rows.visible(batch)
        start = torch.zeros(self.config.members, *known.shape[1:], device=known.device)
        return self.rows.certain(self._with_known(self._denoise(start, MOST, batch, known), batch, known))

    def generate(self, rows: int) -> DataDistribution:
        nothing = torch.zeros(1, rows, len(self.schema), dtype=torch.bool, device=self.device)
        noise = torch.randn(self.config.members, rows, self.rows.width, device=self.device)
        return self.rows.certain(self._sampled(Batch({}, nothing), noise.new_zeros(1, rows, self.rows.width), noise))

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        if weighted:
            raise ValueError("a diffusion's draws have no importance weights; leave weighted out")
        repeated = batch.repeated(noise.samples)
        known = self.rows.visible(repeated)
        return Draws(self.rows.certain(self._sampled(repeated, known, spread(noise, self.rows.width, batch))))

    def _denoise(self, x: Tensor, sigma: float, batch: Batch, known: Tensor) -> Tensor:
        return self.denoise(x, x.new_full((1, 1, 1), sigma), known, batch.mask, ~batch.mask)

    def _with_known(self, x: Tensor, batch: Batch, known: Tensor) -> Tensor:
        return torch.where(self.rows.by_entry(batch.mask), known, x)

    def _sampled(self, batch: Batch, known: Tensor, noise: Tensor) -> Tensor:
        """The end of the path that begins at this noise, (E, B, entries), by Heun's method."""
        sigmas = noise_levels()
        x = noise * sigmas[0]
        for sigma, following in zip(sigmas[:-1], sigmas[1:], strict=True):
            slope = (x - self._denoise(x, sigma, batch, known)) / sigma
            there = x + (following - sigma) * slope
            if following > 0:
                slope = (slope + (there - self._denoise(there, following, batch, known)) / following) / 2
                there = x + (following - sigma) * slope
            x = there
        return self._with_known(x, batch, known)


def noise_levels() -> list[float]:
    """From the largest to the least, then none at all.

    >>> levels = noise_levels()
    >>> len(levels), round(levels[0], 6), round(levels[-2], 6), levels[-1]
    (11, 20.0, 0.01, 0.0)
    """
    ends = MOST ** (1 / _BEND), LEAST ** (1 / _BEND)
    return [(ends[0] + i / (STEPS - 1) * (ends[1] - ends[0])) ** _BEND for i in range(STEPS)] + [0.0]
