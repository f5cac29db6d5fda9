"""MVAE (Wu and Goodman 2018): a product of experts over the observed attributes, trained on sub-sampled ones.

q(z | x_o) ∝ p(z) Π_{i ∈ o} q(z | x_i), all Gaussian: precisions add up, and means are weighted by them. What is missing
has no expert. The bound is summed over the observed attributes together, each of them alone, and a random part of
them, so that every expert learns to do without the others.

DIFF(MVAE): of the sum over single attributes, one term is drawn a row and counted as often as there are terms; and
one random part is drawn a row, not several.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from vsae.baselines.base import OneLatent
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.proposals import AttributiveProposal, DiagonalNormal
from vsae.training.objective import Elbo


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


class MVAE(OneLatent):
    """An expert an attribute (`config.attributive` shapes it), all on one latent."""

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.experts = AttributiveProposal(schema, config, self.input_settings())

    def ask(self, batch: Batch) -> DiagonalNormal:
        """What each expert says, (E, B, M, K)."""
        batch = self.encode_images(batch)
        readings = self.experts.input.read(batch, self.number_features(batch))
        experts: DiagonalNormal = self.experts(replace(batch, readings=readings))
        return experts

    def infer(self, batch: Batch) -> DiagonalNormal:
        return product_of_experts(self.ask(batch), batch.mask)

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        experts, seen = self.ask(batch), batch.usable
        one, some = subsamples(seen)
        whole = self.bound_of(experts, batch, seen)
        singles = self.bound_of(experts, batch, one).rows().total * seen.sum(-1)
        total = whole.rows().total + singles + self.bound_of(experts, batch, some).rows().total
        return whole, -total.mean(-1).sum()

    def bound_of(self, experts: DiagonalNormal, batch: Batch, part: Tensor) -> Elbo:
        """The bound of some of the observed attributes, (E, B, M)."""
        q = product_of_experts(experts, part)
        data = self.decode(q.rsample(), part)
        return self.terms(self.log_likelihood(data, batch) * part, q.kl_to_prior())


def subsamples(observed: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row's observed attributes: one, and a random part; (E, B, M) each."""
    rank = torch.where(observed, torch.rand(observed.shape, device=observed.device), -1.0)
    one = observed & (rank == rank.amax(-1, keepdim=True))
    share = torch.rand(*observed.shape[:-1], 1, device=observed.device)
    return one, observed & (torch.rand(observed.shape, device=observed.device) < share)
