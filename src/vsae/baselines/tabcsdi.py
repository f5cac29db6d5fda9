"""TabCSDI (Zheng and Charoenphakdee 2022): a diffusion of the missing cells, conditioned on the observed ones.

In training, some of the observed cells of a row are targets: noise of a random size σ is added to them, and a network
that reads the other observed cells, the noisy targets and σ is to give the targets back,

    D(x + σ n; σ, x_o) ≈ E[x | x + σ n, x_o].

To impute, all missing cells are targets: they begin as noise of the largest σ, which is then taken away bit by bit
along dx/dσ = (x - D(x; σ, x_o)) / σ. What is left is a joint draw from p(x_u | x_o).

DIFF(TabCSDI): noise is by σ, and the network preconditioned, as in Karras et al. (2022) and DiffPuter (Zhang et al.
2025); the sampler is DPM-Solver++ of second order (Lu et al. 2022): a draw takes 17 passes through the network, not
150. The network is one of this library's, residual, on rows as vectors (flat.py); the paper's is a transformer over
cells. A cell that is neither read nor a target is told to the network as such, where the paper's reads noise in its
place. Each row of a batch is seen under several σ at once, as networks this small are quick, and steps are not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

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

LEAST, MOST = 0.02, 10.0  # σ in standard units: nothing is left of a cell under the largest, all under the least
STEPS = 15  # of the sampler: the variance of a Gaussian is then right to 2 %
_TARGETS = (0.0, 0.99)  # share of a row's observed cells that are targets, drawn from a uniform distribution
_WAVES = 4  # pairs of features of log σ
_COPIES = 4  # of a row in a training step


class TabCSDI(Baseline):
    """`config.data_net` shapes the network."""

    # held-out cells are scored by means, which are learned first: later weights that do as well draw better, so that
    # epochs are those of CSDI (Tashiro et al. 2021), and no score ends them early
    settings: ClassVar[Mapping[str, Any]] = {"scaling": "standard", "fill": "zero", "tolerance": 0.02, "epochs": 200}
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
        usable = batch.usable.repeat(1, _COPIES, 1)
        read = remask(usable, *_TARGETS)
        x = self.rows.visible(batch.with_mask(batch.usable)).repeat(self.config.members // len(usable), _COPIES, 1)
        sigma = self._noise_sizes(batch.rows)
        noisy = x + sigma * torch.randn_like(x)
        found = self.denoise(noisy, sigma, x * self.rows.by_entry(read), read, usable & ~read)
        error = (found - x) ** 2 * self.rows.by_entry(usable & ~read) * (1 + sigma**-2)  # what D leaves of variance 1
        log_x = error.new_zeros(*x.shape[:2], len(self.schema)).index_add(-1, self.rows.owner, -0.5 * error)
        log_x = log_x.unflatten(1, (_COPIES, -1)).mean(1)
        zero = torch.zeros_like(log_x)
        return Elbo(log_x, zero, zero, zero), -log_x.sum() / batch.rows

    def _noise_sizes(self, rows: int) -> Tensor:
        """log σ is uniform; each copy of a row has a part of the range to itself: (E, copies·rows, 1)."""
        place = torch.rand(self.config.members, _COPIES, rows, 1, device=self.device)
        part = torch.arange(_COPIES, device=self.device).view(1, -1, 1, 1)
        share = (part + place) / _COPIES
        return LEAST * (MOST / LEAST) ** share.flatten(1, 2)

    @property
    def numbers_per_row(self) -> int:
        return 12 * self.rows.width + 6 * self.config.data_net.width

    def reconstruct(self, batch: Batch) -> DataDistribution:
        known = self.rows.visible(batch)
        return self.rows.certain(self._with_known(self._means(batch, known), batch, known))

    def _means(self, batch: Batch, known: Tensor) -> Tensor:
        """Under the largest σ, noisy targets say nothing, and D is E[x | x_o]."""
        start = known.new_zeros(self.config.members, *known.shape[1:])
        return self._denoise(start, MOST, batch, known)

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
        """The end of the path that begins at this noise around the means, (E, B, entries).

        Over one step, D is taken to be linear in log σ, as the step before has it; the rest is integrated exactly.
        """
        x, before = self._means(batch, known) + noise * MOST, None
        for sigma, following in pairwise(noise_levels()):
            found = self._denoise(x, sigma, batch, known)
            ahead = found if before is None else found + (found - before) / 2  # as steps of log σ are alike
            x = torch.lerp(ahead, x, following / sigma)
            before = found
        return self._with_known(self._denoise(x, LEAST, batch, known), batch, known)


def noise_levels() -> list[float]:
    """From the largest to the least, in equal ratios.

    >>> levels = noise_levels()
    >>> len(levels), round(levels[0], 6), round(levels[-1], 6)
    (16, 10.0, 0.02)
    """
    return [MOST * (LEAST / MOST) ** (i / STEPS) for i in range(STEPS + 1)]
