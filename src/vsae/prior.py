"""p(z) to generate from: the paper's N(0, I), or a Gaussian fitted to the latents of the training rows.

With a small KL weight the latents of different attributes stay dependent, and their dependence is the data's: N(0, I)
would lose it. The fitted Gaussian has a low-rank covariance plus a diagonal, so its size is linear in the attributes.
Being Gaussian, it blurs the gap between latents of seen and of missing attributes; a shift per attribute sets the
rates of generated masks right again.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_RANK = 128  # directions of dependence that are kept
_OVERSAMPLING = 8  # of the randomised decomposition


class LatentPrior(nn.Module):
    """N(loc, F Fᵀ + diag(s²)) over (M, L), one per member; N(0, I) until `fit`.

    >>> torch.manual_seed(0).initial_seed()
    0
    >>> z = torch.randn(1, 5000, 1, 1) * torch.tensor([1.0, 2.0]) + 3  # one latent of dimension 2
    >>> prior = LatentPrior(1, 1, 2, rank=2)
    >>> prior.fit(z, torch.zeros_like(z))
    >>> prior.sample(4000).std(1)[0, 0].round(decimals=0)
    tensor([1., 2.])
    """

    loc: Tensor
    factor: Tensor
    log_scale: Tensor
    mask_shift: Tensor

    def __init__(self, members: int, attributes: int, latent_dim: int, rank: int | None = None) -> None:
        super().__init__()
        self.shape = (attributes, latent_dim)
        d = attributes * latent_dim
        self.rank = min(d, _RANK if rank is None else rank)
        self.register_buffer("loc", torch.zeros(members, 1, d))
        self.register_buffer("factor", torch.zeros(members, self.rank, d))
        self.register_buffer("log_scale", torch.zeros(members, 1, d))
        self.register_buffer("mask_shift", torch.zeros(members, 1, attributes))

    @torch.no_grad()
    def fit(self, loc: Tensor, log_scale: Tensor) -> None:
        """Match mean and covariance of the aggregate posterior, given q's parameters for n rows, (E, n, M, L)."""
        mean, spread = loc.flatten(-2), log_scale.flatten(-2)
        n = mean.shape[1]
        self.loc.copy_(mean.mean(1, keepdim=True))
        centred = mean - self.loc
        q = min(self.rank, n, centred.shape[-1])
        _, singular, v = torch.svd_lowrank(centred, q=min(q + _OVERSAMPLING, n, centred.shape[-1]))
        factor = (v[..., :q] * singular[:, None, :q]).transpose(-1, -2) / n**0.5  # (E, q, d)
        self.factor.zero_()
        self.factor[:, :q] = factor
        # what the factor leaves out, and the width of q itself
        variance = (centred**2).mean(1) - (factor**2).sum(1) + torch.exp(2 * spread).mean(1)
        self.log_scale.copy_(0.5 * torch.log(variance.clamp_min(1e-8))[:, None])

    @torch.no_grad()
    def calibrate_mask(self, logits: Tensor, rate: Tensor) -> None:
        """Shift the mask's logits, given for latents drawn from here, (E, n, M), to the observed rates, (M,)."""
        low, high = torch.full_like(self.mask_shift, -30.0), torch.full_like(self.mask_shift, 30.0)
        for _ in range(40):  # bisection: the mean of a sigmoid grows with its shift
            middle = (low + high) / 2
            above = torch.sigmoid(logits + middle).mean(1, keepdim=True) > rate
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        self.mask_shift.copy_((low + high) / 2)

    def sample(self, rows: int, generator: torch.Generator | None = None) -> Tensor:
        """(E, rows, M, L)"""
        members, device = self.loc.shape[0], self.loc.device
        common = torch.randn(members, rows, self.rank, generator=generator, device=device)
        own = torch.randn(members, rows, self.loc.shape[-1], generator=generator, device=device)
        return (self.loc + common @ self.factor + self.log_scale.exp() * own).unflatten(-1, self.shape)
