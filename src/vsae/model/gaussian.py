"""Gaussian imputation: what a joint Gaussian of all attributes would fill the missing cells with.

DIFF(paper): the collective proposal reads it beside what is observed. Much of what one column says of another is a
straight line between normal scores; a covariance matrix knows it from a few hundred rows, where a network needs
thousands of steps. The network is left with what is bent.

Every number enters as its normal score, every binary or ordered level as its standardised code: D entries a row; levels
without an order stay out. Their covariance comes from the incomplete rows by stochastic EM; the imputation is the
conditional mean of the missing entries given the observed ones. A table without numbers does without.
"""

from __future__ import annotations

import copy
import itertools

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.data.schema import Family, Schema
from vsae.data.weights import effective_rows, systematic
from vsae.model.features import NumberFeatures

_MOST_ENTRIES = 256  # the cost of a step grows with their square: wider tables do without
_FEWEST_ROWS, _MOST_ROWS = 1000, 3000  # for the covariance: draws of a short table are repeated, long ones thinned
_EM_STEPS = 60  # the second half is averaged, as stochastic EM never comes to rest
_LEAST_SHRINKAGE = 0.02  # of the correlations: no relation is known to the last digit
_SOLVER_STEPS, _EXACT_STEPS = 12, 40  # of conjugate gradients: in every training step, and in the fit
_MATRIX_NUMBERS = 2**22  # floats of matrices that are solved at once
_MOST_REGRESSORS = 64  # each number has a matrix of them, squared: bounds the memory


class GaussianImputation(nn.Module):
    """Batch, features of its numbers → (E, B, D): entries as they are where observed, their estimate elsewhere."""

    covariance: Tensor
    centre: Tensor
    scale: Tensor
    moments: Tensor
    owner: Tensor

    def __init__(self, schema: Schema, used: bool = True) -> None:
        super().__init__()
        numbers = [i for block in schema.number_blocks for i in block.attributes]
        ends = itertools.accumulate(len(block) for block in schema.number_blocks)
        self.numbers = {b.name: range(end - len(b), end) for b, end in zip(schema.number_blocks, ends, strict=True)}
        self.ordered = [b for b in schema.blocks if b.family in (Family.BERNOULLI, Family.CUMULATIVE)]
        owner = numbers + [i for block in self.ordered for i in block.attributes]
        self.width = len(owner) if used and numbers and 1 < len(owner) <= _MOST_ENTRIES else 0
        self.register_buffer("owner", torch.tensor(owner[: self.width], dtype=torch.long), persistent=False)
        self.register_buffer("covariance", torch.eye(self.width))
        self.register_buffer("centre", torch.zeros(self.width))
        self.register_buffer("scale", torch.ones(self.width))
        regressions = len(numbers) if 0 < self.width <= _MOST_REGRESSORS else 0
        moment = torch.eye(1 + self.width)
        self.register_buffer("moments", moment.repeat(regressions, 1, 1))  # see `_second_moments`

    def entries(self, batch: Batch, features: Tensor | None) -> Tensor:
        """(…, D), not yet standardised; what a hidden cell holds is not to be read."""
        parts = [] if features is None else [NumberFeatures.score(features)]
        return torch.cat([*parts, *(batch.values[block.name].float() for block in self.ordered)], dim=-1)

    @torch.no_grad()
    def fit(self, data: Batch, features: Tensor | None) -> None:
        """Means, scales and the covariance of a data set (n, …)."""
        x, seen = self.entries(data, features).double(), data.mask[:, self.owner].double()
        share = seen * data.cell_weight()
        count = share.sum(0).clamp_min(1e-9)
        centre = (x * share).sum(0) / count
        scale = (((x - centre) ** 2 * share).sum(0) / count).sqrt()
        scale = torch.where(scale > 1e-6, scale, 1.0)
        x = (x - centre) / scale * seen
        some, rows = _sample(data)
        mean, covariance = _moments(x[some], seen[some], min(rows / len(some), 1.0))
        self.centre.copy_(centre + mean * scale)
        self.scale.copy_(scale)
        self.covariance.copy_(covariance)
        if len(self.moments):
            self.moments.copy_(self._second_moments(data, features))

    @torch.no_grad()
    def update(self, data: Batch, features: Tensor | None, share: float) -> None:
        """By more rows (n, …), a share of all that were seen: moments are pooled, in the scale that they had."""
        new = copy.deepcopy(self)
        new.fit(data, features)
        unit, shift = new.scale / self.scale, (new.centre - self.centre) / self.scale
        between = share * (1 - share) * torch.outer(shift, shift)
        self.covariance.lerp_(new.covariance * torch.outer(unit, unit), share).add_(between)
        self.centre.add_(share * shift * self.scale)
        if len(self.moments):
            self.moments.mul_(float(share < 1)).add_(self._second_moments(data, features))

    def _second_moments(self, data: Batch, features: Tensor | None) -> Tensor:
        """For every number, Σ φφᵀ over the rows that show it, φ = (1, all entries, estimated where missing).

        What a linear regression of that number knows of its slopes: see parameter_uncertainty.py.
        """
        some, rows = _sample(data)
        part = data.take(some)
        seen = part.mask[:, self.owner].double()
        entries = self(part, None if features is None else features[some]).double()
        row = torch.cat([torch.ones_like(entries[:, :1]), entries], dim=1)
        moments = torch.stack([(row * shown[:, None]).T @ row for shown in seen[:, : len(self.moments)].T])
        return moments * (rows / len(some))

    def scores(self, estimate: Tensor, numbers: int) -> Tensor:
        """The normal scores of the numbers, which are the first entries."""
        return estimate[..., :numbers] * self.scale[:numbers] + self.centre[:numbers]

    @torch.no_grad()
    def forward(self, batch: Batch, features: Tensor | None) -> Tensor:
        seen = batch.mask[..., self.owner].float()
        x = (self.entries(batch, features) - self.centre) / self.scale * seen
        # once trained, in double: rounding, which goes by the rows beside a row, would grow by the condition of Σ_oo
        kind = x.dtype if self.training else torch.float64
        weights = _solve(self.covariance.to(kind), x.to(kind), seen.to(kind), _SOLVER_STEPS).to(x.dtype)
        return torch.where(seen > 0, x, weights @ self.covariance)

    @torch.no_grad()
    def conditional_std(self, mask: Tensor, block: str) -> Tensor:
        """Of the numbers of a block, given the entries that rows (B, M) show, (B, variables); 1 in too wide a table.

        It depends on nothing but which cells are shown, so rows with the same mask share it.
        """
        at = self.numbers[block]
        if not len(self.moments):
            return torch.ones(1, len(at), device=mask.device)
        shown, which = torch.unique(mask[:, self.owner], dim=0, return_inverse=True)
        at_once = max(1, _MATRIX_NUMBERS // self.width**2)
        return torch.cat([self._conditional_std(some.float(), at) for some in shown.split(at_once)])[which]

    def _conditional_std(self, shown: Tensor, at: range) -> Tensor:
        among = self.covariance * shown[:, :, None] * shown[:, None, :] + torch.diag_embed(1 - shown)
        across = self.covariance[list(at)] * shown[:, None, :]  # (B, variables, D)
        told = (across * torch.linalg.solve(among, across.mT).mT).sum(-1)
        return (self.covariance.diagonal()[list(at)] - told).clamp_min(_LEAST_SHRINKAGE).sqrt()


def _sample(data: Batch) -> tuple[Tensor, int]:
    """Rows in proportion to their weights, of which there are not too many, and how many rows they stand for."""
    if data.weight is not None:
        return systematic(data.weight, _MOST_ROWS), round(effective_rows(data.weight))
    return torch.linspace(0, data.rows - 1, min(data.rows, _MOST_ROWS), device=data.mask.device).long(), data.rows


def _solve(covariance: Tensor, x: Tensor, seen: Tensor, steps: int) -> Tensor:
    """w with Σ_oo w_o = x_o, and 0 elsewhere, per row; by conjugate gradients, as each row has an o of its own."""
    shape = x.shape[:-1]
    x, seen = (part.flatten(0, -2).T.contiguous() for part in (x, seen))  # (D, rows): a sum over D adds whole vectors
    w, residual, direction = torch.zeros_like(x), x.clone(), x.clone()
    square = (x * x).sum(0)
    for _ in range(min(steps, len(x))):  # as many as there are entries would do, if numbers were exact
        product = (covariance @ direction).mul_(seen)
        step = square / (direction * product).sum(0).clamp_min_(1e-12)
        w.addcmul_(step, direction)
        residual.addcmul_(step, product, value=-1)
        before, square = square.clamp_min_(1e-12), (residual * residual).sum(0)
        direction.mul_(square / before).add_(residual)
    return w.T.unflatten(0, shape)


def _moments(x: Tensor, seen: Tensor, worth: float = 1.0) -> tuple[Tensor, Tensor]:
    """Stochastic EM for a Gaussian with missing cells, which hold zeros: (n, D) → mean (D,), covariance (D, D).

    They are filled with draws given the rest, by Matheron's rule: draw a whole row y, then correct it by what
    Σ makes of its error where x is known, y + Σ_·o Σ_oo⁻¹ (x_o - y_o). No matrix is inverted row by row. The mean is
    that of what is seen at first, which is not the column's where missingness depends on other columns. A row is worth
    so much of one, as rows may be there several times.
    """
    pairs = worth * (seen.T @ seen)
    x, seen = (part.repeat(-(-_FEWEST_ROWS // len(part)), 1) for part in (x, seen))  # more draws of a short table
    mean = torch.zeros(x.shape[1], dtype=x.dtype, device=x.device)
    covariance = torch.diag(torch.ones_like(mean))
    for step in range(_EM_STEPS):
        y = mean + torch.randn_like(x) @ torch.linalg.cholesky(covariance).T
        y = torch.where(seen > 0, x, y + _solve(covariance, (x - y) * seen, seen, _EXACT_STEPS) @ covariance)
        rate = 1 / max(1, step - _EM_STEPS // 2)  # the second half is averaged
        mean = (1 - rate) * mean + rate * y.mean(0)
        centred = y - mean
        covariance = (1 - rate) * covariance + rate * _shrunk(centred.T @ centred / len(y), _LEAST_SHRINKAGE)
    return mean, _shrunk(covariance, max(_LEAST_SHRINKAGE, _chance(covariance, pairs)))


def _shrunk(covariance: Tensor, share: float) -> Tensor:
    """Correlations drawn towards 0."""
    return (1 - share) * covariance + share * torch.diag(covariance.diagonal().clamp_min(1e-3))


def _chance(covariance: Tensor, pairs: Tensor) -> float:
    """How much of the correlations' square sum is chance (after Ledoit and Wolf).

    `pairs` holds the number of rows that show both entries: the fewer, the more of a correlation is chance.
    """
    scale = covariance.diagonal().clamp_min(1e-3).sqrt()
    square = (covariance / torch.outer(scale, scale)) ** 2
    square.fill_diagonal_(0.0)
    chance = (1 - square) ** 2 / pairs.clamp_min(1)
    chance.fill_diagonal_(0.0)
    return float((chance.sum() / square.sum().clamp_min(1e-9)).clamp_max(1.0))
