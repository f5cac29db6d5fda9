"""VAEAC (Ivanov, Figurnov and Vetrov 2019): a VAE that is conditioned on any part of a row.

    p(z | x_v)        the prior network: reads the visible cells v, and which they are
    q(z | x_k, v)     the full encoder: reads all known cells k, and which of them are visible
    p(x_h | z, x_v)   the decoder, of the hidden cells h; features of the prior network go around z

In training half of the known cells of each row are hidden, and the bound is of these:
E_q log p(x_h | z, x_v) - KL(q(z | x_k, v) ‖ p(z | x_v)). Cells that are missing in the data are never visible and never
scored. To impute, everything that is known is visible, and z comes from the prior network.

DIFF(VAEAC): what goes around z is the prior network's last hidden layer, not one layer beside each of the decoder's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from vsae.baselines.base import OWN_CHOICES, RowReader, loss_of
from vsae.data.batch import Batch
from vsae.data.remasking import remask
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution, DataNetwork
from vsae.model.inputs import JointInput
from vsae.model.latent_model import Draws, Noise
from vsae.model.nets import GroupedLinear, Hidden
from vsae.model.proposals import DiagonalNormal
from vsae.training.objective import Elbo

HIDDEN_SHARE = 0.5
_MEAN_SCALE, _SCALE_WEIGHT = 1e4, 1e-4  # of what keeps the prior network's mean and scale from running away


class VAEAC(RowReader):
    """`config.collective` shapes the prior network and the full encoder, `config.data_net` the decoder."""

    settings = OWN_CHOICES
    reads_mask = True

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)  # `read` is the prior network's
        members, shape, latent = (config.members,), config.collective, config.latent_dim
        self.last = GroupedLinear(members, shape.width, 2 * latent)
        self.full_input = JointInput(schema, shape.width, self.input_settings(), n_estimates=len(schema))
        self.full_hidden = Hidden(members, shape)
        self.full_last = GroupedLinear(members, shape.width, 2 * latent)
        self.data_network = DataNetwork(
            self.make_heads(), config.members, latent + shape.width, config.data_net, len(schema), reads_mask=False
        )

    def condition(self, visible: Batch) -> tuple[DiagonalNormal, Tensor]:
        """p(z | x_v), and the features that go around z, (E, B, width)."""
        features = self.read(visible)
        parameters: Tensor = self.last(features)
        return self.as_proposal(*parameters.chunk(2, dim=-1)), features

    def infer(self, batch: Batch) -> DiagonalNormal:
        return self.condition(batch)[0]

    def infer_from_all(self, known: Batch, visible: Tensor) -> DiagonalNormal:
        """q(z | x_k, v)."""
        shown = self.encode_images(known)
        which = visible.float().expand(shown.mask.shape)
        readings = self.full_input.read(shown, self.number_features(shown), which)
        parameters: Tensor = self.full_last(self.full_hidden(self.full_input(replace(shown, readings=readings))))
        return self.as_proposal(*parameters.chunk(2, dim=-1))

    def decode(self, z: Tensor, features: Tensor, only: Collection[str] | None = None) -> DataDistribution:
        found: DataDistribution = self.data_network(torch.cat([z, features], dim=-1), None, only)
        return found

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        known = batch.with_mask(batch.usable)
        visible = remask(known.mask, HIDDEN_SHARE, HIDDEN_SHARE)
        prior, features = self.condition(batch.with_mask(visible))
        q = self.infer_from_all(known, visible)
        data = self.decode(q.rsample(), features)
        terms = self.terms(self.log_likelihood(data, batch) * (known.mask & ~visible), q.kl_to(prior))
        return terms, loss_of(terms) + _restraint(prior)

    def kl_of(self, batch: Batch) -> Tensor | None:
        return None  # z is inferred by the prior network itself

    @property
    def numbers_per_row(self) -> int:
        heads, shape = self.data_network.heads.numbers_per_row, self.config.collective
        return 4 * self.config.latent_dim + 3 * shape.width + heads + 4 * self.config.data_net.width

    def reconstruct(self, batch: Batch) -> DataDistribution:
        prior, features = self.condition(batch)
        return self.decode(prior.loc, features)

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        if weighted:
            raise ValueError("VAEAC's draws have no importance weights; leave weighted out")
        prior, features = self.condition(batch)
        z = prior.draws(noise(prior.loc.shape[2:], prior.loc.device)).flatten(1, 2)
        return Draws(self.decode(z, features.repeat(1, noise.samples, 1), only))


def _restraint(prior: DiagonalNormal) -> Tensor:
    """Minus the logarithm of a normal prior of the means and a gamma prior of the scales: the mean over rows."""
    of_mean = 0.5 * (prior.loc / _MEAN_SCALE) ** 2
    of_scale = _SCALE_WEIGHT * (prior.log_scale.exp() - prior.log_scale)
    return (of_mean + of_scale).sum(-1).mean(-1).sum()
