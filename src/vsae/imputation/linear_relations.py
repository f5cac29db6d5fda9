"""Linear relations: cells that others determine, such as a total whose parts are known, or an end soon after its start.

A network learns that `total` rises with its parts, and errs by a percent or two of its range; a linear regression in
natural units is exact. So numbers that the others all but determine get a joint Gaussian of their own, in natural units
and without any shrinkage, and where its σ of a missing cell, given what its row shows, is far below the errors that the
model makes, the cell is its conditional mean; draws vary around that as known cells do. Cells that were withheld from
both must bear it out, column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.columns import Columns, Mask
from vsae.data.encoding import MOST_DECIMALS, Encoding
from vsae.data.microaggregation import quantiles
from vsae.data.schema import Schema
from vsae.imputation.residual_quantiles import RANKS, interpolated, normal_quantiles
from vsae.imputation.shrinkage import Estimates

_DETERMINED = 0.1  # of its std is what is left of a number, given all others
_SURE = 0.5  # of the model's error: a smaller σ than that is worth a change of method
_MOST_COLUMNS = 32  # in one Gaussian: a step costs their cube for every row
_MOST_ROWS = 3000
_MOST_STEPS, _SETTLED = 200, 0.02  # of EM: a relation's σ falls by a factor a step, until there is nothing left
_RIDGE = 1e-8  # of a variance: exact relations make singular matrices
_FEWEST_CELLS = 5  # withheld ones, to bear a column's relation out
_LEANING = 10.0  # cells, towards a σ that is as it says
_AT_ONCE = 2**21  # entries of the rows' matrices: 16 MB


class Determined(NamedTuple):
    """Of the missing cells of the columns that take part, (n, K) each, in natural units."""

    estimate: NDArray[np.float64]
    std: NDArray[np.float64]
    sure: NDArray[np.bool_]  # the model has no better one


@dataclass(frozen=True)
class LinearRelations:
    """A Gaussian of K columns, in units of their std, and how far to go by it."""

    names: tuple[str, ...]
    attributes: tuple[int, ...]
    decimals: Tensor  # (K,): of the values seen
    low: Tensor  # (K,): least and greatest value it can take, in natural units
    high: Tensor
    centre: Tensor  # (K,), natural units
    scale: Tensor  # (K,)
    mean: Tensor  # (K,), in units of the scale about the centre, as all below
    covariance: Tensor  # (K, K)
    widest: Tensor  # (K,): σ from which on a cell is the model's
    residuals: Tensor  # (K, knots): quantiles of (x - estimate) / σ

    @classmethod
    def fit(cls, encoding: Encoding, columns: Columns, known: Mask) -> LinearRelations | None:
        """None where no number is determined by others."""
        schema = encoding.schema
        numbers = [v.name for block in schema.number_blocks for v in block.variables]
        names = _candidates(numbers, schema, columns, known)
        if len(names) < 2:
            return None
        attributes = tuple(schema.attribute_of[name] for name in names)
        x, seen = _stacked(names, columns, known[:, list(attributes)])
        centre, scale = _standard(x, seen)
        some = torch.linspace(0, len(x) - 1, min(len(x), _MOST_ROWS)).long()
        mean, covariance = expectation_maximisation(((x - centre) / scale * seen)[some], seen[some])
        traits = zip(*(encoding.traits(name) for name in names), strict=True)
        decimals, low, high = (torch.tensor(part, dtype=torch.float64) for part in traits)
        normal = normal_quantiles().double().repeat(len(names), 1)
        every = cls(
            names, attributes, decimals, low, high, centre, scale, mean, covariance, torch.zeros_like(mean), normal
        )
        found = every._only(_left_over(covariance) < _DETERMINED)
        return found if len(found.names) > 1 else None

    def borne_out(self, columns: Columns, known: Mask, withheld: Mask, estimates: Estimates) -> LinearRelations | None:
        """By cells withheld from it and from the model, whose estimates are given; None if by none."""
        x, _ = _stacked(self.names, columns, known[:, list(self.attributes)])
        model = torch.stack([torch.as_tensor(estimates[name], dtype=torch.float64) for name in self.names], dim=1)
        hidden = torch.from_numpy(withheld[:, list(self.attributes)])
        cells = hidden.sum(0).clamp_min(1)
        error = ((x - model) / self.scale) ** 2 * hidden
        size = (error.sum(0) / cells).sqrt()
        relations = replace(self, widest=_SURE * size)
        found = relations.determined(columns, known & ~withheld)
        sure = torch.from_numpy(found.sure) & hidden
        own = ((x - torch.from_numpy(found.estimate)) / self.scale) ** 2 * sure
        count = sure.sum(0)
        kept = (count >= _FEWEST_CELLS) & (own.sum(0) < (error * sure).sum(0))
        if not kept.any():
            return None
        std = torch.where(sure, torch.from_numpy(found.std) / self.scale, 1.0)
        surplus = ((own / std**2).sum(0) + _LEANING) / (count + _LEANING)
        relations = replace(relations, widest=torch.where(kept, relations.widest, 0.0))
        surplus = surplus.clamp_min(1.0).sqrt()
        return replace(relations, residuals=relations._residual_quantiles(columns, known, surplus))

    def determined(self, columns: Columns, mask: Mask) -> Determined:
        x, seen = _stacked(self.names, columns, mask[:, list(self.attributes)])
        estimate, std = self._conditional((x - self.centre) / self.scale * seen, seen)
        sure = ~seen.bool() & (std < self.widest)
        estimate, std = estimate * self.scale + self.centre, std * self.scale
        exact = std < 10.0**-self.decimals
        return Determined(np.where(exact, self._rounded(estimate.numpy()), estimate), std.numpy(), sure.numpy())

    def estimates(self, columns: Columns, mask: Mask, model: Estimates) -> dict[str, NDArray[np.float64]]:
        """The model's estimates, but for the missing cells that others determine."""
        found = self.determined(columns, mask)
        own = {name: model[name] for name in self.names if name in model}
        return {**model, **self._where_sure(found, found.estimate, own)}

    def quantiles(
        self, columns: Columns, mask: Mask, ranks: Mapping[str, NDArray[np.float64]], model: Estimates
    ) -> dict[str, NDArray[np.float64]]:
        """The model's values at ranks (n,), by variable, but for the missing cells that others determine."""
        named = [name for name in self.names if name in ranks]
        if not named:
            return dict(model)
        found = self.determined(columns, mask)
        values = found.estimate.copy()
        for name in named:
            k = self.names.index(name)
            at = interpolated(RANKS, self.residuals[k], torch.from_numpy(ranks[name]).double())
            values[:, k] += found.std[:, k] * at.numpy()
        return {**model, **self._where_sure(found, self._rounded(values), {name: model[name] for name in named})}

    def _where_sure(self, found: Determined, values: NDArray[np.float64], model: Estimates) -> Estimates:
        """By variable: values (n, K), where they are sure and possible, else the model's."""
        kept = found.sure & (values >= self.low.numpy()) & (values <= self.high.numpy())
        at = {name: self.names.index(name) for name in model}
        return {name: np.where(kept[:, at[name]], values[:, at[name]], x) for name, x in model.items()}

    def _rounded(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, K), to the decimals of each column."""
        digits = [int(d) for d in self.decimals.tolist()]
        columns = [np.round(x[:, k], d) if d < MOST_DECIMALS else x[:, k] for k, d in enumerate(digits)]
        return np.stack(columns, axis=1)

    def to_tensors(self) -> dict[str, Tensor]:
        """All but the names."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    @classmethod
    def from_tensors(cls, schema: Schema, names: Sequence[str], tensors: Mapping[str, Tensor]) -> LinearRelations:
        attributes = tuple(schema.attribute_of[name] for name in names)
        return cls(tuple(names), attributes, **{field.name: tensors[field.name] for field in fields(cls)[2:]})

    def _only(self, kept: Tensor) -> LinearRelations:
        at = kept.nonzero().flatten().tolist()
        parts = {field.name: getattr(self, field.name)[at] for field in fields(self)[2:] if field.name != "covariance"}
        names, attributes = (tuple(part[i] for i in at) for part in (self.names, self.attributes))
        return LinearRelations(names, attributes, covariance=self.covariance[at][:, at], **parts)

    def _conditional(self, x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Means and σ of the missing cells given the rest of their rows; what is seen as it is."""
        parts = []
        for some in pieces(len(x), len(self.names)):
            filled, covariance = given_seen(self.mean, self.covariance, x[some], seen[some])
            parts.append((filled, covariance.diagonal(dim1=1, dim2=2).clamp_min(0.0).sqrt()))
        mean, std = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, std

    def _residual_quantiles(self, columns: Columns, known: Mask, surplus: Tensor) -> Tensor:
        """(K, knots), of known cells, each hidden in turn, where the relation would be used."""
        x, seen = _stacked(self.names, columns, known[:, list(self.attributes)])
        x, normal = (x - self.centre) / self.scale * seen, normal_quantiles().double()
        found = []
        for k in range(len(self.names)):  # once a fit
            rest = seen.clone()
            rest[:, k] = 0
            mean, std = (part[:, k] for part in self._conditional(x * rest, rest))
            used = (seen[:, k] > 0) & (std < self.widest[k])
            residual = (x[used, k] - mean[used]) / std[used].clamp_min(1e-12)
            if not len(residual):
                found.append(normal)
                continue
            share = len(residual) / (len(residual) + _LEANING)
            quantile = torch.from_numpy(quantiles(residual.numpy(), RANKS.numpy()))
            found.append(surplus[k] * (share * quantile + (1 - share) * normal * residual.square().mean().sqrt()))
        return torch.stack(found)


def _candidates(names: list[str], schema: Schema, columns: Columns, known: Mask) -> tuple[str, ...]:
    """Numbers that vary; where they are many, those that a quick estimate finds the most determined."""
    seen = known[:, [schema.attribute_of[name] for name in names]]
    x, observed = _stacked(names, columns, seen)
    _, scale = _standard(x, observed)
    varied = [i for i in range(len(names)) if torch.isfinite(scale[i]) and scale[i] > 0]
    if len(varied) > _MOST_COLUMNS:
        x, observed = x[:, varied], observed[:, varied]
        centre, scale = _standard(x, observed)
        y = (x - centre) / scale * observed
        correlation = (y.T @ y) / (observed.T @ observed).clamp_min(1)
        correlation = 0.9 * correlation + 0.1 * torch.eye(len(varied), dtype=y.dtype)
        square = torch.linalg.eigh(correlation)
        inverse = (square.eigenvectors / square.eigenvalues.clamp_min(0.05)) @ square.eigenvectors.T
        order = (1 / inverse.diagonal()).argsort()[:_MOST_COLUMNS].tolist()
        varied = sorted(varied[i] for i in order)
    return tuple(names[i] for i in varied)


def _stacked(names: tuple[str, ...] | list[str], columns: Columns, seen: Mask) -> tuple[Tensor, Tensor]:
    """(n, K) each, in double precision; 0 where not seen."""
    x = np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], axis=1)
    return torch.from_numpy(np.where(seen, x, 0.0)), torch.from_numpy(seen.astype(np.float64))


def _standard(x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std of what is seen; 0 for a std that is rounding alone."""
    size = x.abs().amax(0).clamp_min(1e-300)
    unit, count = x / size, seen.sum(0).clamp_min(1)  # squares of 1e300 would overflow
    mean = unit.sum(0) / count
    std = (((unit - mean) * seen).square().sum(0) / count).sqrt()
    return mean * size, torch.where(std > 1e-9, std * size, 0.0)


def pieces(rows: int, columns: int) -> Iterator[slice]:
    """Of rows, each of which needs a matrix of these columns."""
    length = max(1, _AT_ONCE // columns**2)
    yield from (slice(start, start + length) for start in range(0, max(rows, 1), length))


def given_seen(mean: Tensor, covariance: Tensor, x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (n, K) filled with conditional means, and the covariance (n, K, K) of what was missing."""
    shown = covariance * seen[:, :, None]
    square = shown * seen[:, None, :]
    square.diagonal(dim1=1, dim2=2).add_(1 - seen)
    weights = torch.cholesky_solve(shown, torch.linalg.cholesky(square))
    filled = mean + torch.einsum("nkd,nk->nd", weights, (x - mean) * seen)
    missing = 1 - seen
    left = (covariance - shown.mT @ weights) * missing[:, :, None] * missing[:, None, :]
    return torch.where(seen > 0, x, filled), left


def expectation_maximisation(x: Tensor, seen: Tensor, settled: float = _SETTLED) -> tuple[Tensor, Tensor]:
    """Mean (K,) and covariance (K, K) of a Gaussian with missing cells; `settled` is the relative change of any
    conditional σ at which it ends."""
    mean, covariance = torch.zeros_like(x[0]), torch.eye(x.shape[1], dtype=x.dtype)
    before = _left_over(covariance)
    for _ in range(_MOST_STEPS):
        parts = [given_seen(mean, covariance, x[some], seen[some]) for some in pieces(len(x), x.shape[1])]
        filled, left = torch.cat([part[0] for part in parts]), sum(part[1].sum(0) for part in parts)
        mean = filled.mean(0)
        covariance = ((filled - mean).T @ (filled - mean) + left) / len(x)
        covariance.diagonal().add_(_RIDGE)
        now = _left_over(covariance)
        if (now / before - 1).abs().max() < settled:
            break
        before = now
    return mean, covariance


def _left_over(covariance: Tensor) -> Tensor:
    """Of each column's std, given all others; (K,)."""
    return (1 / torch.linalg.inv(covariance).diagonal() / covariance.diagonal()).clamp_min(0.0).sqrt()
