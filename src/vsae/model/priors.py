"""p(z) to generate from: the paper's N(0, I), or a mixture of Gaussians fitted to the latents of the training rows.

With a small KL weight the latents of different attributes stay dependent, and their dependence is the data's: N(0, I)
would lose it. How many components a mixture has is decided by rows that were left out.

    LowRankPrior  components share one covariance, of low rank plus a diagonal: the size is linear in the attributes
    FullPrior     each component has a covariance of its own, found by EM: for few attributes with much in each

A class of images is one cloud of latents with a form of its own: with a common covariance, pairs of MNIST digits add up
to 9 in 86 % of generated rows, with their own in 97 %, as in rows that are only reconstructed (98 %).

A mixture blurs the gap between the latents of observed and of missing attributes less than one Gaussian does, but it
does; a shift per attribute sets the rates of generated masks right again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vsae.data.microaggregation import FEWEST

_LEFT_OUT = 0.1  # of the rows that the number of components is chosen by
# LowRankPrior
_RANK = 128  # directions of dependence that are kept: bounds the size, and the cost of a density
_OVERSAMPLING = 8  # of the randomised decomposition (Halko et al. 2011 advise 5 to 10)
_SHARED_COMPONENTS = (1, 4, 16, 32)  # to choose from
_CLUSTER_DIRECTIONS = 16  # that rows are clustered in: k-means sees only noise in the others
_SHARED_CLUSTER_STEPS = 15  # k-means is only a start: the covariance is fitted to what it leaves
_FEWEST_ROWS = 200  # below that there is one component: 20 left-out rows could not choose
_SHARED_ROWS_TO_CHOOSE_BY = 1500  # each candidate is fitted to them: bounds the time
# FullPrior
_OWN_COMPONENTS = (1, 4, 8, 16, 32)  # to choose from
_ROWS_OF_A_COMPONENT = 40  # at least, on average: its covariance leans on the common one as if d rows had shown that
_OWN_ROWS_TO_CHOOSE_BY = 4000  # likewise
_OWN_CLUSTER_STEPS, _EM_STEPS = 20, 40  # bound the time; EM starts where k-means ends
_RIDGE = 1e-4  # of the mean variance, added to covariances: latents that never vary still have a density


class LatentPrior(nn.Module, ABC):
    """Σ_k w_k N(loc_k, ·) over (M, L), one mixture a member; N(0, I) until `fit`. Subclasses add the covariance."""

    weight: Tensor
    loc: Tensor
    mask_shift: Tensor

    def __init__(self, members: int, attributes: int, latent_dim: int, components: int) -> None:
        super().__init__()
        self.shape = (attributes, latent_dim)
        self.register_buffer("weight", torch.eye(1, components).repeat(members, 1))  # all on the first
        self.register_buffer("loc", torch.zeros(members, components, attributes * latent_dim))
        self.register_buffer("mask_shift", torch.zeros(members, 1, attributes))

    @abstractmethod
    def fit(self, loc: Tensor, log_scale: Tensor) -> None:
        """To the aggregate posterior, given q's parameters for n rows, (E, n, M, L)."""

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """log p(z), (E, n, M, L) → (E, n)."""

    @abstractmethod
    def sample(self, rows: int, generator: torch.Generator | None = None) -> Tensor:
        """(E, rows, M, L)"""

    @torch.no_grad()
    def calibrate_mask(self, logits: Tensor, rate: Tensor) -> None:
        """Shift the mask's logits, given for latents drawn from here, (E, n, M), to the observed rates, (M,)."""
        low, high = torch.full_like(self.mask_shift, -30.0), torch.full_like(self.mask_shift, 30.0)
        for _ in range(40):  # bisection: the mean of a sigmoid grows with its shift
            middle = (low + high) / 2
            above = torch.sigmoid(logits + middle).mean(1, keepdim=True) > rate
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        self.mask_shift.copy_((low + high) / 2)


class LowRankPrior(LatentPrior):
    """Σ_k w_k N(loc_k, F Fᵀ + diag(s²)).

    >>> torch.manual_seed(0).initial_seed()
    0
    >>> z = torch.randn(1, 5000, 1, 1) * torch.tensor([1.0, 2.0]) + 3  # one latent of dimension 2
    >>> prior = LowRankPrior(1, 1, 2)
    >>> prior.fit(z, torch.full_like(z, -5.0))
    >>> prior.sample(4000).std(1)[0, 0].round(decimals=0)
    tensor([1., 2.])
    """

    factor: Tensor
    log_scale: Tensor

    def __init__(self, members: int, attributes: int, latent_dim: int) -> None:
        super().__init__(members, attributes, latent_dim, max(_SHARED_COMPONENTS))
        d = attributes * latent_dim
        self.rank = min(_RANK, d)
        self.register_buffer("factor", torch.zeros(members, self.rank, d))
        self.register_buffer("log_scale", torch.zeros(members, 1, d))

    @torch.no_grad()
    def fit(self, loc: Tensor, log_scale: Tensor) -> None:
        mean, variance = loc.flatten(-2), torch.exp(2 * log_scale.flatten(-2))
        n = mean.shape[1]
        count = 1
        if n >= _FEWEST_ROWS:
            some = min(n, _SHARED_ROWS_TO_CHOOSE_BY)
            held = int(_LEFT_OUT * some)
            scores = {}
            for k in _SHARED_COMPONENTS:
                self._fit(mean[:, held:some], variance[:, held:some], k)
                z = mean[:, :held] + variance[:, :held].sqrt() * torch.randn_like(mean[:, :held])
                scores[k] = float(self.log_prob(z.unflatten(-1, self.shape)).mean())
            count = max(scores, key=lambda k: scores[k])
        self._fit(mean, variance, count)

    def _fit(self, mean: Tensor, variance: Tensor, components: int) -> None:
        n = mean.shape[1]
        cluster = _clusters_by_direction(mean, components)  # (E, n)
        member = nn.functional.one_hot(cluster, components).to(mean.dtype)  # (E, n, K)
        size = member.sum(1)  # (E, K)
        centres = member.transpose(1, 2) @ mean / size.clamp_min(1)[..., None]
        self.weight.zero_()
        self.weight[:, :components] = _of_several(size) / n
        self.loc.zero_()
        self.loc[:, :components] = torch.where(self.weight[:, :components, None] > 0, centres, 0.0)
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

    def sample(self, rows: int, generator: torch.Generator | None = None) -> Tensor:
        members, _, d = self.loc.shape
        device = self.loc.device
        component = torch.multinomial(self.weight, rows, replacement=True, generator=generator)  # (E, rows)
        centre = self.loc.gather(1, component[..., None].expand(-1, -1, d))
        common = torch.randn(members, rows, self.rank, generator=generator, device=device)
        own = torch.randn(members, rows, d, generator=generator, device=device)
        return (centre + common @ self.factor + self.log_scale.exp() * own).unflatten(-1, self.shape)


class FullPrior(LatentPrior):
    """Σ_k w_k N(loc_k, R_k R_kᵀ); its size is quadratic in M·L.

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
        super().__init__(members, attributes, latent_dim, max(_OWN_COMPONENTS))
        self.register_buffer("root", torch.eye(attributes * latent_dim).repeat(members, max(_OWN_COMPONENTS), 1, 1))

    @torch.no_grad()
    def fit(self, loc: Tensor, log_scale: Tensor) -> None:
        """To a draw of z for each row."""
        for member, z in enumerate((loc + log_scale.exp() * torch.randn_like(loc)).flatten(-2).double()):
            count = _best_count(z[:_OWN_ROWS_TO_CHOOSE_BY])
            weight, centre, root = _expectation_maximisation(z, count)
            count = len(weight)
            self.weight[member].zero_()
            self.weight[member, :count] = weight.float()
            self.loc[member, :count] = centre.float()
            self.root[member, :count] = root.float()

    def log_prob(self, z: Tensor) -> Tensor:
        parts = []
        for member, rows in enumerate(z.flatten(-2).double()):
            used = self.weight[member] > 0
            mixture = (x[member][used].double() for x in (self.weight, self.loc, self.root))
            parts.append(_log_density(rows, *mixture).logsumexp(1))
        return torch.stack(parts)

    def sample(self, rows: int, generator: torch.Generator | None = None) -> Tensor:
        members, _, d = self.loc.shape
        component = torch.multinomial(self.weight, rows, replacement=True, generator=generator)  # (E, rows)
        noise = torch.randn(members, rows, d, generator=generator, device=self.loc.device)
        z = self.loc.gather(1, component[..., None].expand(-1, -1, d))
        for k in component.unique().tolist():  # the root of each row's component at once would take rows · d² floats
            at = (component == k)[..., None]
            z = z + torch.where(at, noise @ self.root[:, k].transpose(-1, -2), 0.0)
        return z.unflatten(-1, self.shape)

    @torch.no_grad()
    def given_others(self, z: Tensor, attributes: Sequence[int], member: int, uniform: Tensor, noise: Tensor) -> Tensor:
        """A draw of some attributes' latents given those of the others, (n, M, L) → (n, len(attributes), L).

        Each component is a Gaussian and has Gaussian conditionals, which get the normal `noise`, (n, their entries);
        how likely each component is, its density of what is given says, and `uniform` (n,) picks one.
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
        edges = torch.softmax(score, dim=0).cumsum(0)  # (K, n)
        chosen = (edges <= uniform * edges[-1]).sum(0).clamp_max(len(edges) - 1)  # (n,)
        slope = torch.linalg.solve_triangular(inner, covariance[:, o[:, None], u], upper=False)  # (K, known, unknown)
        loc = centre[:, None, u] + white.mT @ slope  # (K, n, unknown)
        rest = torch.linalg.cholesky(covariance[:, u[:, None], u] - slope.mT @ slope)
        rows = torch.arange(len(z), device=z.device)
        drawn = (loc + noise.to(loc) @ rest.mT)[chosen, rows]
        return drawn.unflatten(-1, (len(attributes), -1)).to(z.dtype)


def _best_count(z: Tensor) -> int:
    """How many components suit the rows (n, d), by the density of some that are left out."""
    held = int(_LEFT_OUT * len(z))
    scores = {}
    for k in (k for k in _OWN_COMPONENTS if k == 1 or len(z) - held >= k * _ROWS_OF_A_COMPONENT):
        found = _expectation_maximisation(z[held:], k)
        scores[k] = float(_log_density(z[:held], *found).logsumexp(1).mean()) if held else 0.0
    return max(scores, key=lambda k: scores[k])


def _expectation_maximisation(z: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (K,), centres (K, d) and roots of covariances (K, d, d) for rows (n, d).

    Each covariance leans towards the mean one as if d more rows had shown it: a component of few rows must not take
    chance for form.
    """
    n, d = z.shape
    share = torch.nn.functional.one_hot(_clusters_from_afar(z, count), count).to(z.dtype)  # (n, K)
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
    kept = _of_several(size) > 0
    return weight[kept] / weight[kept].sum(), centre[kept], root[kept]


def _of_several(size: Tensor) -> Tensor:
    """Rows of components (…, K), none in those of fewer than `FEWEST`: the centre of one row is this row. These rows
    are spread over the others, if there are any."""
    kept = torch.where(size >= FEWEST, size, 0.0)
    total = kept.sum(-1, keepdim=True)
    return torch.where(total > 0, kept * size.sum(-1, keepdim=True) / total.clamp_min(1e-6), size)


def _log_density(z: Tensor, weight: Tensor, centre: Tensor, root: Tensor) -> Tensor:
    """log w_k N(z; loc_k, R_k R_kᵀ), (n, K)."""
    parts = []
    for w, c, r in zip(weight, centre, root, strict=True):
        along = torch.linalg.solve_triangular(r, (z - c).T, upper=False)
        parts.append(w.log() - 0.5 * (along**2).sum(0) - r.diagonal().log().sum())
    return torch.stack(parts, dim=1) - 0.5 * z.shape[1] * math.log(2 * math.pi)


def _clusters_by_direction(x: Tensor, count: int) -> Tensor:
    """k-means of rows (E, n, d), each member apart, in the directions that vary most; (E, n), 0 … count - 1."""
    members, n, d = x.shape
    if count == 1:
        return torch.zeros(members, n, dtype=torch.long, device=x.device)
    centred = x - x.mean(1, keepdim=True)
    scaled = centred / centred.std(1, keepdim=True).clamp_min(1e-6)
    _, _, v = torch.svd_lowrank(scaled, q=min(_CLUSTER_DIRECTIONS, n, d))
    y = scaled @ v  # (E, n, directions)
    start = torch.rand(members, n, device=x.device).argsort(dim=1)[:, :count]
    return _k_means(y, y.gather(1, start[..., None].expand(-1, -1, y.shape[-1])), _SHARED_CLUSTER_STEPS)


def _clusters_from_afar(z: Tensor, count: int) -> Tensor:
    """k-means of rows (n, d) → (n,); the first centres are rows far from one another (k-means++)."""
    x = z / z.std(0).clamp_min(1e-6)
    centres = x[:1]
    while len(centres) < count:
        distance = torch.cdist(x, centres).amin(1) ** 2
        chosen = torch.multinomial(distance.clamp_min(1e-12), 1)
        centres = torch.cat([centres, x[chosen]])
    return _k_means(x, centres, _OWN_CLUSTER_STEPS if count > 1 else 0)


def _k_means(x: Tensor, centres: Tensor, steps: int) -> Tensor:
    """Lloyd's steps from some centres (…, K, d): the cluster of each row, (…, n, d) → (…, n)."""
    for _ in range(steps):
        member = nn.functional.one_hot(torch.cdist(x, centres).argmin(-1), centres.shape[-2]).to(x.dtype)
        size = member.sum(-2)[..., None]
        centres = torch.where(size > 0, member.transpose(-1, -2) @ x / size.clamp_min(1), centres)
    return torch.cdist(x, centres).argmin(-1)
