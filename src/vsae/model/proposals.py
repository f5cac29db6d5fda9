"""q(z | x, m): the attributive, the collective and the selective proposal.

    attributive  q_φ(z_i | x_i)        one small network an attribute, all run as one
    collective   q_ψ(z_i | x_o, m)     one network that reads every observed attribute and the mask
    selective    Eq. 6: the first where m_i = 1, the second where m_i = 0

Both networks begin with a linear map of the same features of the row (`inputs.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.inputs import InputSettings, JointInput, SeparateInput
from vsae.model.nets import GroupedLinear, Hidden

_LOG_SCALE_RANGE = (-7.0, 5.0)  # of log σ: far beyond what training reaches, so that exp stays finite


class DiagonalNormal(NamedTuple):
    """N(loc, diag(exp(log_scale))²), batch (E, B, M), event (L,)."""

    loc: Tensor
    log_scale: Tensor

    def rsample(self, noise: Tensor | None = None) -> Tensor:
        """A reparameterised draw; `noise` (broadcastable, standard normal) makes it a chosen one."""
        if noise is None:
            noise = torch.randn_like(self.loc)
        return torch.addcmul(self.loc, self.log_scale.exp(), noise)

    def draws(self, noise: Tensor) -> Tensor:
        """A draw for each noise of (E, samples, B or 1, …): (E, samples, B, …)."""
        return self.loc[:, None] + self.log_scale.exp()[:, None] * noise

    def prior_ratio(self, draws: Tensor) -> Tensor:
        """log N(z; 0, I) - log q(z) of such draws, summed over the event: (E, samples, B) or (E, samples, B, M)."""
        standard = (draws - self.loc[:, None]) * torch.exp(-self.log_scale)[:, None]
        return (0.5 * (standard**2 - draws**2) + self.log_scale[:, None]).sum(-1)

    def kl_to_prior(self) -> Tensor:
        """KL(q ‖ N(0, I)), (E, B, M)."""
        return _half_excess(torch.exp(2 * self.log_scale), self.loc, 2 * self.log_scale)

    def kl_to(self, other: DiagonalNormal) -> Tensor:
        """KL(self ‖ other), (E, B, M)."""
        log_ratio = 2 * (self.log_scale - other.log_scale)
        shift = (self.loc - other.loc) * torch.exp(-other.log_scale)
        return _half_excess(torch.exp(log_ratio), shift, log_ratio)

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z_i), (E, B, M)."""
        standard = (z - self.loc) * torch.exp(-self.log_scale)
        return (-0.5 * standard**2 - self.log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)


def _half_excess(ratio: Tensor, shift: Tensor, log_ratio: Tensor) -> Tensor:
    """Σ (r + s² - log r - 1) / 2 over the last dimension: the KL of Gaussians, r their variances' ratio."""
    return 0.5 * (torch.addcmul(ratio, shift, shift) - log_ratio).sum(-1) - 0.5 * ratio.shape[-1]


def as_proposal(loc: Tensor, log_scale: Tensor, start_scale: float) -> DiagonalNormal:
    """From what a network gives, which is near 0 before training; σ then is `start_scale`."""
    return DiagonalNormal(loc, (log_scale + math.log(start_scale)).clamp(*_LOG_SCALE_RANGE))


def select(mask: Tensor, attributive: DiagonalNormal, collective: DiagonalNormal) -> DiagonalNormal:
    """Eq. 6."""
    chosen = mask[..., None].expand_as(collective.loc).contiguous()  # (E, B, M, L), which `where` runs through at once
    return DiagonalNormal(
        torch.where(chosen, attributive.loc, collective.loc),
        torch.where(chosen, attributive.log_scale, collective.log_scale),
    )


class AttributiveProposal(nn.Module):
    """q_φ(z_i | x_i) for every attribute."""

    def __init__(self, schema: Schema, config: VSAEConfig, inputs: InputSettings) -> None:
        super().__init__()
        shape, n_out = config.attributive, 2 * config.latent_dim
        groups, width = (config.members, len(schema)), shape.width if shape.depth else n_out
        self.start_scale = config.start_scale
        # where it stands alone, it must say something of missing attributes, too
        self.input = SeparateInput(schema, width, inputs, fills_missing=config.proposal == "attributive")
        self.hidden = Hidden(groups, shape) if shape.depth else nn.Identity()
        self.last = GroupedLinear(groups, width, n_out) if shape.depth else nn.Identity()

    def forward(self, batch: Batch) -> DiagonalNormal:
        return self.with_others(batch)[0]

    def with_others(self, batch: Batch) -> tuple[DiagonalNormal, Tensor | None]:
        """And the means for the other numbers that were read beside the rows' own, (E, B, M, L)."""
        parameters: Tensor = self.last(self.hidden(self.input(batch)))  # (E, M, B or 2B, 2L)
        own, *others = parameters.split(batch.rows, dim=2)
        loc, log_scale = own.unflatten(-1, (2, -1)).permute(3, 0, 2, 1, 4).contiguous()  # (E, B, M, L) both
        of_others = others[0].chunk(2, dim=-1)[0].transpose(1, 2) if others else None
        return as_proposal(loc, log_scale, self.start_scale), of_others


class CollectiveProposal(nn.Module):
    """q_ψ(z_i | x_o, m) for every attribute."""

    def __init__(self, schema: Schema, config: VSAEConfig, inputs: InputSettings, n_estimates: int) -> None:
        super().__init__()
        shape, n_out = config.collective, 2 * config.latent_dim * len(schema)
        self.attributes, self.start_scale = len(schema), config.start_scale
        self.input = JointInput(schema, shape.width, inputs, n_estimates)
        self.hidden = Hidden((config.members,), shape)
        self.last = GroupedLinear((config.members,), shape.width, n_out)

    def forward(self, batch: Batch) -> DiagonalNormal:
        parameters: Tensor = self.last(self.hidden(self.input(batch)))  # (E, B, 2·M·L)
        loc, log_scale = (part.unflatten(-1, (self.attributes, -1)) for part in parameters.chunk(2, dim=-1))
        return as_proposal(loc, log_scale, self.start_scale)
