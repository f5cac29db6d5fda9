"""p(z) to generate from: the paper's N(0, I), or a mixture of Gaussians fitted to the latents of the training rows.

With a small KL weight the latents of different attributes stay dependent, and their dependence is the data's: N(0, I)
would lose it. The components share one covariance, of low rank plus a diagonal, so the size is linear in the
attributes; how many components there are is decided by rows that were left out. A mixture blurs the gap between
latents of seen and of missing attributes less than one Gaussian does, but it does; a shift per attribute sets the rates
of generated masks right again.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_RANK = 128  # directions of dependence that are kept
_OVERSAMPLING = 8  # of the randomised decomposition
_COMPONENTS = (1, 4, 16, 32)  # to choose from
_CLUSTER_DIRECTIONS = 16  # in which rows are told apart
_CLUSTER_STEPS = 15
_FEWEST_ROWS = 200  # below that there is one component
_ROWS_TO_CHOOSE_BY = 1500
_LEFT_OUT = 0.1  # of these


class LatentPrior(nn.Module):
    """Σ_k w_k N(loc_k, F Fᵀ + diag(s²)) over (M, L), one mixture a member; N(0, I) until `fit`.

    >>> torch.manual_seed(0).initial_seed()
    0
    >>> z = torch.randn(1, 5000, 1, 1) * torch.tensor([1.0, 2.0]) + 3  # one latent of dimension 2
    >>> prior = LatentPrior(1, 1, 2, rank=2)
    >>> prior.fit(z, torch.full_like(z, -5.0))
    >>> prior.sample(4000).std(1)[0, 0].round(decimals=0)
    tensor([1., 2.])
    """

    weight: Tensor
    loc: Tensor
    factor: Tensor
    log_scale: Tensor
    mask_shift: Tensor

    def __init__(self, members: int, attributes: int, latent_dim: int, rank: int | None = None) -> None:
        super().__init__()
        self.shape = (attributes, latent_dim)
        d = attributes * latent_dim
        self.rank = min(_RANK, d) if rank is None else rank
        most = max(_COMPONENTS)
        self.register_buffer("weight", torch.eye(1, most).repeat(members, 1))  # all on the first
        self.register_buffer("loc", torch.zeros(members, most, d))
        self.register_buffer("factor", torch.zeros(members, self.rank, d))
        self.register_buffer("log_scale", torch.zeros(members, 1, d))
        self.register_buffer("mask_shift", torch.zeros(members, 1, attributes))

    @torch.no_grad()
    def fit(self, loc: Tensor, log_scale: Tensor) -> None:
        """To the aggregate posterior, given q's parameters for n rows, (E, n, M, L)."""
        mean, variance = loc.flatten(-2), torch.exp(2 * log_scale.flatten(-2))
        n = mean.shape[1]
        count = 1
        if n >= _FEWEST_ROWS:
            some = min(n, _ROWS_TO_CHOOSE_BY)
            held = int(_LEFT_OUT * some)
            scores = {}
            for k in _COMPONENTS:
                self._fit(mean[:, held:some], variance[:, held:some], k)
                z = mean[:, :held] + variance[:, :held].sqrt() * torch.randn_like(mean[:, :held])
                scores[k] = float(self.log_prob(z.unflatten(-1, self.shape)).mean())
            count = max(scores, key=lambda k: scores[k])
        self._fit(mean, variance, count)

    def _fit(self, mean: Tensor, variance: Tensor, components: int) -> None:
        n = mean.shape[1]
        cluster = _clusters(mean, components)  # (E, n)
        member = nn.functional.one_hot(cluster, components).to(mean.dtype)  # (E, n, K)
        size = member.sum(1)  # (E, K)
        centres = member.transpose(1, 2) @ mean / size.clamp_min(1)[..., None]
        self.weight.zero_()
        self.weight[:, :components] = size / n
        self.loc.zero_()
        self.loc[:, :components] = centres
        centred = mean - centres.gather(1, cluster[..., None].expand_as(mean))
        q = min(self.rank, n, centred.shape[-1])
        _, singular, v = torch.svd_lowrank(centred, q=min(q + _OVERSAMPLING, n, centred.shape[-1]))
        factor = (v[..., :q] * singular[:, None, :q]).transpose(-1, -2) / n**0.5  # (E, q, d)
        self.factor.zero_()
        self.factor[:, :q] = factor
        # what the factor leaves out, and the width of q itself
        rest = (centred**2).mean(1) - (factor**2).sum(1) + variance.mean(1)
        self.log_scale.copy_(0.5 * torch.log(rest.clamp_min(1e-8))[:, None])

    def log_prob(self, z: Tensor) -> Tensor:
        """log p(z), (E, n, M, L) → (E, n)."""
        z, d = z.flatten(-2).double(), self.loc.shape[-1]
        factor, inverse = self.factor.double(), torch.exp(-2 * self.log_scale.double())  # 1 / s²
        scaled = factor * inverse  # F D⁻¹, (E, rank, d)
        inner = torch.eye(self.rank, dtype=z.dtype, device=z.device) + scaled @ factor.transpose(1, 2)
        root = torch.linalg.cholesky(inner)
        log_det = 2 * self.log_scale.double().sum(-1) + 2 * root.diagonal(dim1=1, dim2=2).log().sum(-1)[:, None]

        def along(x: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(root, scaled @ x.transpose(1, 2), upper=False).transpose(1, 2)

        centre = (self.weight[..., None] * self.loc).sum(1, keepdim=True).double()  # keeps the squares small
        z, loc = z - centre, self.loc.double() - centre
        of_z, of_loc = along(z), along(loc)
        square_z, square_loc = (((x**2 * inverse).sum(-1) - (y**2).sum(-1)) for x, y in ((z, of_z), (loc, of_loc)))
        product = (z * inverse) @ loc.transpose(1, 2) - of_z @ of_loc.transpose(1, 2)  # (E, n, K)
        distance = square_z[..., None] - 2 * product + square_loc[:, None]
        parts = self.weight[:, None].double().log() - 0.5 * (distance + log_det[..., None])
        return torch.logsumexp(parts, dim=-1) - 0.5 * d * math.log(2 * math.pi)

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
        members, _, d = self.loc.shape
        device = self.loc.device
        component = torch.multinomial(self.weight, rows, replacement=True, generator=generator)  # (E, rows)
        centre = self.loc.gather(1, component[..., None].expand(-1, -1, d))
        common = torch.randn(members, rows, self.rank, generator=generator, device=device)
        own = torch.randn(members, rows, d, generator=generator, device=device)
        return (centre + common @ self.factor + self.log_scale.exp() * own).unflatten(-1, self.shape)


def _clusters(x: Tensor, count: int) -> Tensor:
    """k-means of rows (E, n, d), each member apart, in the directions that vary most; (E, n), 0 … count - 1."""
    members, n, d = x.shape
    if count == 1:
        return torch.zeros(members, n, dtype=torch.long, device=x.device)
    centred = x - x.mean(1, keepdim=True)
    scaled = centred / centred.std(1, keepdim=True).clamp_min(1e-6)
    _, _, v = torch.svd_lowrank(scaled, q=min(_CLUSTER_DIRECTIONS, n, d))
    y = scaled @ v  # (E, n, directions)
    start = torch.rand(members, n, device=x.device).argsort(dim=1)[:, :count]
    centres = y.gather(1, start[..., None].expand(-1, -1, y.shape[-1]))
    for _ in range(_CLUSTER_STEPS):
        member = nn.functional.one_hot(torch.cdist(y, centres).argmin(-1), count).to(y.dtype)
        size = member.sum(1)[..., None]
        centres = torch.where(size > 0, member.transpose(1, 2) @ y / size.clamp_min(1), centres)
    return torch.cdist(y, centres).argmin(-1)
