"""p(z) to generate modalities from: a mixture of Gaussians, each with a covariance of its own, found by EM.

With few attributes and much in each, the latents of one class of pictures are one cloud, of a form of its own: with
a common covariance (`prior.py`, which is linear in the number of attributes), pairs of MNIST digits add up to 9 in 86 %
of generated rows, with their own in 97 %, as in rows that are only reconstructed (98 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from vsae.model.prior import LatentPrior

_COMPONENTS = (1, 4, 8, 16, 32)  # to choose from
_ROWS_OF_A_COMPONENT = 40  # at least, on average
_ROWS_TO_CHOOSE_BY = 4000
_LEFT_OUT = 0.1  # of these
_CLUSTER_STEPS, _EM_STEPS = 20, 40
_RIDGE = 1e-4  # added to variances


class FullPrior(LatentPrior):
    """Σ_k w_k N(loc_k, R_k R_kᵀ) over (M, L), one mixture a member; N(0, I) until `fit`. Its size is quadratic in M·L.

    >>> torch.manual_seed(0).initial_seed()
    0
    >>> along = torch.randn(1, 2000, 1, 1)
    >>> z = torch.cat([along, along], dim=-1) * torch.where(torch.rand(1, 2000, 1, 1) < 0.5, 1.0, 0.1)
    >>> prior = FullPrior(1, 1, 2)
    >>> prior.fit(z, torch.full_like(z, -5.0))
    >>> torch.corrcoef(prior.sample(4000)[0, :, 0].T)[0, 1].round(decimals=1)
    tensor(1.)
    """

    root: Tensor

    def __init__(self, members: int, attributes: int, latent_dim: int) -> None:
        super().__init__(members, attributes, latent_dim, rank=0)
        d = attributes * latent_dim
        self.register_buffer("root", torch.eye(d).repeat(members, max(_COMPONENTS), 1, 1))

    @torch.no_grad()
    def fit(self, loc: Tensor, log_scale: Tensor) -> None:
        """To the aggregate posterior: to a draw of z for each of n rows, given q's parameters, (E, n, M, L)."""
        for member, z in enumerate((loc + log_scale.exp() * torch.randn_like(loc)).flatten(-2).double()):
            count = _best_count(z[:_ROWS_TO_CHOOSE_BY])
            weight, centre, root = _expectation_maximisation(z, count)
            self.weight[member].zero_()
            self.weight[member, :count] = weight.float()
            self.loc[member, :count] = centre.float()
            self.root[member, :count] = root.float()

    def log_prob(self, z: Tensor) -> Tensor:
        """log p(z), (E, n, M, L) → (E, n)."""
        parts = []
        for member, rows in enumerate(z.flatten(-2).double()):
            used = self.weight[member] > 0
            mixture = (x[member][used].double() for x in (self.weight, self.loc, self.root))
            parts.append(_log_density(rows, *mixture).logsumexp(1))
        return torch.stack(parts)

    def sample(self, rows: int, generator: torch.Generator | None = None) -> Tensor:
        """(E, rows, M, L)"""
        members, _, d = self.loc.shape
        component = torch.multinomial(self.weight, rows, replacement=True, generator=generator)  # (E, rows)
        noise = torch.randn(members, rows, d, generator=generator, device=self.loc.device)
        z = self.loc.gather(1, component[..., None].expand(-1, -1, d))
        for k in component.unique().tolist():  # the root of each row's component at once would take rows · d² floats
            at = (component == k)[..., None]
            z = z + torch.where(at, noise @ self.root[:, k].transpose(-1, -2), 0.0)
        return z.unflatten(-1, self.shape)

    @torch.no_grad()
    def given_others(
        self, z: Tensor, attributes: Sequence[int], member: int, rng: torch.Generator, width: float = 1.0
    ) -> Tensor:
        """A draw of some attributes' latents given those of the others, (n, M, L) → (n, len(attributes), L).

        Each component is a Gaussian and has Gaussian conditionals, whose noise is multiplied by `width`; how likely
        each component is, its density of what is given says.
        """
        unknown = torch.zeros(self.shape, dtype=torch.bool, device=z.device)
        unknown[list(attributes)] = True
        u, o = unknown.flatten().nonzero()[:, 0], (~unknown).flatten().nonzero()[:, 0]
        used = self.weight[member] > 0
        weight, centre, root = (x[member][used].double() for x in (self.weight, self.loc, self.root))
        covariance = root @ root.mT
        off = z.double().flatten(1)[:, o] - centre[:, None, o]  # (K, n, known)
        inner = torch.linalg.cholesky(covariance[:, o[:, None], o])
        white = torch.linalg.solve_triangular(inner, off.mT, upper=False)  # (K, known, n)
        score = weight.log()[:, None] - 0.5 * (white**2).sum(1) - inner.diagonal(dim1=1, dim2=2).log().sum(1)[:, None]
        chosen = torch.multinomial(torch.softmax(score, dim=0).T, 1, generator=rng)[:, 0]  # (n,)
        slope = torch.linalg.solve_triangular(inner, covariance[:, o[:, None], u], upper=False)  # (K, known, unknown)
        loc = centre[:, None, u] + white.mT @ slope  # (K, n, unknown)
        rest = torch.linalg.cholesky(covariance[:, u[:, None], u] - slope.mT @ slope)
        noise = torch.randn(len(z), len(u), generator=rng, device=z.device, dtype=loc.dtype)
        rows = torch.arange(len(z), device=z.device)
        drawn = (loc + width * noise @ rest.mT)[chosen, rows]
        return drawn.unflatten(-1, (len(attributes), -1)).to(z.dtype)


def _best_count(z: Tensor) -> int:
    """How many components suit the rows (n, d), by the density of some that are left out."""
    held = int(_LEFT_OUT * len(z))
    scores = {}
    for k in (k for k in _COMPONENTS if k == 1 or len(z) - held >= k * _ROWS_OF_A_COMPONENT):
        found = _expectation_maximisation(z[held:], k)
        scores[k] = float(_log_density(z[:held], *found).logsumexp(1).mean()) if held else 0.0
    return max(scores, key=lambda k: scores[k])


def _expectation_maximisation(z: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (K,), centres (K, d) and roots of covariances (K, d, d) for rows (n, d).

    Each covariance leans towards the mean one as if d more rows had shown it: a component of few rows must not take
    chance for form.
    """
    n, d = z.shape
    share = torch.nn.functional.one_hot(_clusters(z, count), count).to(z.dtype)  # (n, K)
    ridge = _RIDGE * torch.eye(d, dtype=z.dtype, device=z.device) * z.var(0).mean().clamp_min(1e-6)
    for step in range(_EM_STEPS if count > 1 else 1):
        size = share.sum(0).clamp_min(1e-6)
        centre = share.T @ z / size[:, None]
        scatter = torch.stack([((z - c) * s[:, None]).T @ (z - c) for c, s in zip(centre, share.T, strict=True)])
        common = scatter.sum(0) / n
        root = torch.linalg.cholesky((scatter + d * common) / (size + d)[:, None, None] + ridge)
        weight = size / n
        if step < _EM_STEPS - 1 and count > 1:
            share = torch.softmax(_log_density(z, weight, centre, root), dim=1)
    return weight, centre, root


def _log_density(z: Tensor, weight: Tensor, centre: Tensor, root: Tensor) -> Tensor:
    """log w_k N(z; loc_k, R_k R_kᵀ), (n, K)."""
    parts = []
    for w, c, r in zip(weight, centre, root, strict=True):
        along = torch.linalg.solve_triangular(r, (z - c).T, upper=False)
        parts.append(w.log() - 0.5 * (along**2).sum(0) - r.diagonal().log().sum())
    return torch.stack(parts, dim=1) - 0.5 * z.shape[1] * math.log(2 * math.pi)


def _clusters(z: Tensor, count: int) -> Tensor:
    """k-means of rows (n, d) → (n,); the first centres are rows far from one another (k-means++)."""
    x = z / z.std(0).clamp_min(1e-6)
    centres = x[:1]
    while len(centres) < count:
        distance = torch.cdist(x, centres).amin(1) ** 2
        chosen = torch.multinomial(distance.clamp_min(1e-12), 1)
        centres = torch.cat([centres, x[chosen]])
    for _ in range(_CLUSTER_STEPS if count > 1 else 0):
        member = torch.nn.functional.one_hot(torch.cdist(x, centres).argmin(1), count).to(x.dtype)
        size = member.sum(0)[:, None]
        centres = torch.where(size > 0, member.T @ x / size.clamp_min(1), centres)
    return torch.cdist(x, centres).argmin(1)
