"""MVAE (Wu and Goodman 2018): a product of experts over the observed attributes, trained on sub-sampled ones.

q(z | x_o) ∝ p(z) Π_{i ∈ o} q(z | x_i), all Gaussian: precisions add up, and means are weighted by them. What is missing
has no expert. The bound is summed over the observed attributes together, one of them alone, and random parts of them,
so that every expert learns to do without the others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vsae.baselines.base import Baseline, loss_of
from vsae.batch import Batch
from vsae.config import VSAEConfig
from vsae.features import NumberFeatures
from vsae.generative import DataDistribution, DataNetwork
from vsae.latent_model import Draws, Noise
from vsae.objective import Elbo
from vsae.proposals import AttributiveProposal, DiagonalNormal, ProposalSettings, number_blocks, numbers
from vsae.schema import Schema


def product_of_experts(experts: DiagonalNormal, observed: Tensor) -> DiagonalNormal:
    """N(0, I) times the experts of what is observed: (E, B, M, K), (E, B, M) → (E, B, K).

    >>> one = DiagonalNormal(torch.full((1, 1, 2, 1), 3.0), torch.zeros(1, 1, 2, 1))
    >>> q = product_of_experts(one, torch.tensor([[[True, True]]]))
    >>> q.loc.item(), round(q.log_scale.exp().item() ** 2, 4)  # three precisions of 1, one of them with mean 0
    (2.0, 0.3333)
    """
    precision = torch.exp(-2 * experts.log_scale) * observed[..., None]
    total = 1.0 + precision.sum(-2)
    return DiagonalNormal((precision * experts.loc).sum(-2) / total, -0.5 * torch.log(total))


class MVAE(Baseline):
    """An expert an attribute (`config.attributive` shapes it), all on one latent; a decoder for all attributes."""

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.number_blocks = number_blocks(schema)
        self.features = NumberFeatures(sum(len(block) for block in self.number_blocks), config.features)
        settings = ProposalSettings(
            config.members, config.latent_dim, config.start_scale, config.holes, self.features.width
        )
        self.experts = AttributiveProposal(schema, config.attributive, settings)
        self.data_network = DataNetwork(
            schema, config.members, config.latent_dim, config.data_net, config.variance, reads_mask=False
        )

    def ask_experts(self, batch: Batch) -> DiagonalNormal:
        experts: DiagonalNormal = self.experts(
            batch, self.features(numbers(self.number_blocks, batch)) if self.number_blocks else None
        )
        return experts

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        experts = self.ask_experts(batch)
        parts = [self._part(experts, batch, part) for part in (batch.usable, *subsamples(batch.usable))]
        return parts[0], sum((loss_of(part) for part in parts), start=torch.zeros((), device=batch.mask.device))

    def _part(self, experts: DiagonalNormal, batch: Batch, part: Tensor) -> Elbo:
        """The bound of some of the observed attributes."""
        q = product_of_experts(experts, part)
        data = self.data_network(q.rsample(), None)
        return self.terms(self.log_likelihood(data, batch) * part, q.kl_to_prior())

    @property
    def numbers_per_row(self) -> int:
        return 4 * self.config.latent_dim + 2 * sum(self.data_network.splits) + 4 * self.config.data_net.width

    def infer(self, batch: Batch) -> DiagonalNormal:
        return product_of_experts(self.ask_experts(batch), batch.mask)

    def reconstruct(self, batch: Batch) -> DataDistribution:
        return self.data_network(self.infer(batch).loc, None)

    def draws(self, batch: Batch, noise: Noise, weighted: bool | None = None) -> Draws:
        q = self.infer(batch)
        z = q.loc[:, None] + q.log_scale.exp()[:, None] * noise(q.loc.shape[2:], q.loc.device)
        return Draws(self.data_network(z.flatten(1, 2), None))


def subsamples(observed: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row's observed attributes: one, and a random part; (E, B, M) each."""
    rank = torch.where(observed, torch.rand(observed.shape, device=observed.device), -1.0)
    one = observed & (rank == rank.amax(-1, keepdim=True))
    share = torch.rand(*observed.shape[:-1], 1, device=observed.device)
    return one, observed & (torch.rand(observed.shape, device=observed.device) < share)
