"""A network that fills the missing cells of a row, given noise in their place: what GAIN and MisGAN have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from vsae.baselines.base import Baseline
from vsae.baselines.flat import FlatRows
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.generative import DataDistribution, DataNetwork
from vsae.model.latent_model import Draws, Noise
from vsae.model.likelihoods import Gaussian, Vector

_VALIDATION_SAMPLES = 4


class RowFiller(Baseline):
    """x ⊙ m + G(x ⊙ m + z ⊙ (1 - m)) ⊙ (1 - m): observed cells pass unchanged; `config.data_net` shapes G."""

    settings: ClassVar[Mapping[str, Any]] = {"variance": "fixed", "scaling": "standard", "fill": "zero"}
    reads_mask = True

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.rows = FlatRows(schema)
        shape = self.shape(config.data_net)
        self.filler = DataNetwork(
            self.make_heads(), config.members, self.rows.width, shape, len(schema), self.reads_mask
        )

    def shape(self, asked: NetShape) -> NetShape:
        """Of a network, where settings ask for this one."""
        return asked

    def said(self, visible: Batch, noise: Tensor | float, only: Collection[str] | None = None) -> DataDistribution:
        """What the network says of every cell, given noise (E, B, entries)."""
        data: DataDistribution = self.filler(
            self.rows.visible(visible, noise), visible.mask if self.reads_mask else None, only
        )
        return data

    def filled(self, visible: Batch, data: DataDistribution) -> Tensor:
        """Rows whose missing cells are what was said of them, (E, B, entries)."""
        return self.rows.visible(visible, self.rows.drawn(data))

    def noise(self, visible: Batch) -> Tensor:
        return torch.randn(self.config.members, visible.rows, self.rows.width, device=visible.mask.device)

    @property
    def numbers_per_row(self) -> int:
        width = self.shape(self.config.data_net).width
        return 4 * self.rows.width + self.filler.heads.numbers_per_row + 4 * width

    def reconstruct(self, batch: Batch) -> DataDistribution:
        return without_noise(self.said(batch, 0.0))

    def validation_draws(self, batch: Batch) -> Draws:
        members = self.config.members
        draws = self.draws(batch, Noise(members, _VALIDATION_SAMPLES, 1, mirrored=True))
        alike = torch.zeros(members, _VALIDATION_SAMPLES, batch.rows, device=batch.mask.device)
        return Draws(draws.data, alike)

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        if weighted:
            raise ValueError("a GAN's draws have no importance weights; leave weighted out")
        z = spread(noise, self.rows.width, batch)
        return Draws(without_noise(self.said(batch.repeated(noise.samples), z, only)))


def without_noise(data: DataDistribution) -> DataDistribution:
    """A generator's word is a value, not a distribution around it: numbers are as decoded."""
    narrow = torch.zeros(())
    return {name: x.widened(narrow) if isinstance(x, Gaussian | Vector) else x for name, x in data.items()}


def spread(noise: Noise, width: int, batch: Batch) -> Tensor:
    """Noise for each draw of each row, (E, samples·B, width)."""
    return noise((width,), batch.mask.device).expand(-1, -1, batch.rows, -1).flatten(1, 2)
