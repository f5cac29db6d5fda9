"""Natural units ⇄ the model's standard units, on plain numpy arrays.

Every number is standardised in float64 before torch sees it:

    y = (g(x) - loc) / scale,    g(x) = log x for positive variables, else x

so that a Gaussian in y is a normal or a log-normal in x. A count k, and a real number with bounds, becomes y with the
edges of the interval it stands for: [k - ½, k + ½], or a sliver around x; at a bound, all that lies beyond. The
likelihood is the Gaussian mass between the edges, so bounds hold by the likelihood rather than by clipping. Level codes
pass through unchanged, and so do pixels: numbers in [0, 1], or bytes, which are divided by 255.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from vsae.data.batch import Batch
from vsae.data.columns import (
    Columns,
    Mask,
    check_mask,
    stack,
    stack_images,
)
from vsae.data.microaggregation import FEWEST, ends, settings
from vsae.data.schema import DISCRETE, Block, Family, Kind, Schema, Variable

Scaling = Literal["standard", "minmax"]

_BEYOND = 1e6  # an edge no Gaussian in standard units reaches; finite, so that gradients stay finite
MOST_SETTINGS = 12  # values of a column that has few exact ones
MOST_DECIMALS = 7  # numbers with so many come as they are
_DECIMALS = range(-3, MOST_DECIMALS)  # that numbers may have
_POINT_MASS = 0.3  # of a column's cells have the same value: the one rule, which draws go by, too
_HIT = 1e-5  # standard units; float32 has seven digits
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # of Gauss–Hermite quadrature
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_NODES_NUMBERS = 2**17  # of several nodes at once: a megabyte
_SLIVER = 1e-3  # half-width, in standard units, of the interval that an unrounded number stands for


@dataclass(frozen=True)
class Encoding:
    """Fitted on the observed cells of a table; turns columns into a `Batch` and back.

    >>> from vsae.data.schema import Schema, positive, real
    >>> columns = {"a": np.array([1.0, 3.0]), "b": np.array([1.0, np.e])}
    >>> mask = np.array([[True, True], [True, False]])
    >>> encoding = Encoding.fit(Schema([real("a"), positive("b")]), columns, mask)
    >>> batch = encoding.encode(columns, mask)
    >>> batch.values["gaussian"]
    tensor([[-1.,  0.], [ 1.,  0.]])
    """

    schema: Schema
    loc: Mapping[str, NDArray[np.float64]]  # per numeric block, (variables[, d])
    scale: Mapping[str, NDArray[np.float64]]
    low: Mapping[str, NDArray[np.float64]]  # where the values seen end, in standard units: see microaggregation.py
    high: Mapping[str, NDArray[np.float64]]
    decimals: Mapping[str, NDArray[np.int64]]  # of the values seen; -1 are tens, MOST_DECIMALS: any number
    point_mass: Mapping[str, NDArray[np.float64]]  # the value that makes up much of a column, or NaN; in natural units
    scaling: Scaling = "standard"
    settings: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  # all values of columns of few, then NaN

    @classmethod
    def fit(
        cls,
        schema: Schema,
        columns: Columns,
        mask: Mask,
        scaling: Scaling = "standard",
        weight: NDArray[np.float64] | None = None,
    ) -> Encoding:
        """`weight` (n,): of rows."""
        check_mask(schema, mask)
        loc, scale, low, high, decimals, point_mass, exact = {}, {}, {}, {}, {}, {}, {}
        for block in schema.standardised_blocks:
            natural = stack(block, columns, mask)  # NaN where not observed
            warped = _warp(block, natural)
            decimals[block.name], point_mass[block.name] = (
                _decimals(block, natural),
                _point_mass(block, natural, weight),
            )
            exact[block.name] = _settings(block, natural)
            loc[block.name], scale[block.name] = _location_and_scale(warped, scaling, weight)
            y = (warped - loc[block.name]) / scale[block.name]
            low[block.name], high[block.name] = _ends(y)
        return cls(schema, loc, scale, low, high, decimals, point_mass, scaling, exact)

    def widened(self, columns: Columns, mask: Mask) -> Encoding:
        """The same units, for values as far out and as fine as those of more rows."""
        other = Encoding.fit(self.schema, columns, mask, self.scaling)
        low, high, decimals, exact = dict(self.low), dict(self.high), dict(self.decimals), dict(self.settings)
        for block in self.schema.standardised_blocks:
            name, shown = block.name, np.asarray(mask[:, list(block.attributes)].any(axis=0))
            seen = shown[:, None] if block.family is Family.VECTOR else shown
            ends = (other._unstandardise(block, end[name]) for end in (other.low, other.high))
            least, most = (self._standardise(block, end) for end in ends)
            low[name] = np.where(seen, np.minimum(low[name], least), low[name])
            high[name] = np.where(seen, np.maximum(high[name], most), high[name])
            finer = np.maximum(decimals[name], other.decimals[name])
            decimals[name] = np.where(shown, finer, decimals[name])
            if name in exact and block.family is not Family.VECTOR:
                x = stack(block, columns, mask)  # (n, variables)
                among = np.isnan(x) | (x[..., None] == exact[name]).any(axis=-1)
                exact[name] = np.where(among.all(axis=0)[:, None], exact[name], np.nan)
        return replace(self, low=low, high=high, decimals=decimals, settings=exact)

    def reaching_beyond(self) -> Encoding:
        """The same units, where estimates may lie as far beyond the values seen as these lie apart: for a model that
        knows why cells are missing, as those that hide by their value may lie where none was seen."""
        low, high = {}, {}
        for block in self.schema.standardised_blocks:
            name, scale = block.name, self.scale[block.name]
            span = self.high[name] - self.low[name]
            with np.errstate(over="ignore"):  # in natural units, which for a logarithm is its double at most
                span = np.where(block.logarithmic, np.log(2 - np.exp(-span * scale)) / scale, span)
            low[name], high[name] = self.low[name] - span, self.high[name] + span
        return replace(self, low=low, high=high)

    def encode(self, columns: Columns, mask: Mask) -> Batch:
        """Columns in natural units → `Batch` of shape (n, …). Nothing unobserved is read."""
        check_mask(self.schema, mask)
        values: dict[str, torch.Tensor] = {}
        for block in self.schema.blocks:
            if block.family is Family.IMAGE:
                values[block.name] = torch.from_numpy(stack_images(block, columns, mask))
                continue
            x = stack(block, columns, mask)
            if block.family in DISCRETE:
                values[block.name] = torch.from_numpy(x)
                continue
            values[block.name] = self.encode_numbers(block, x)
        return Batch(values, torch.from_numpy(np.ascontiguousarray(mask)))

    def encode_numbers(self, block: Block, x: NDArray[np.float64]) -> torch.Tensor:
        """A block's numbers or vectors, (n, variables[, d]) in natural units, NaN where not observed."""
        y = np.nan_to_num(self._standardise(block, _warp(block, x)), nan=0.0)
        if block.family is Family.INTERVAL:
            y = np.stack([y, *self._edges(block, x)], axis=-1)
        y = np.clip(y, -_BEYOND, _BEYOND)  # what lies farther out than that would overflow in float32
        return torch.from_numpy(y.astype(np.float32))

    def decode(self, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Standard units → columns in natural units, of the blocks given; `values` holds a single number per count.

        Numbers have as many decimals as those seen; what is meant for the value of a point mass is that value.
        """
        columns: dict[str, NDArray[Any]] = {}
        for block in self.schema.blocks:
            if block.name not in values:
                continue
            x = values[block.name]
            if block.family is Family.IMAGE:
                x = np.clip(x, 0.0, 1.0)
            elif block.family not in DISCRETE:
                x = self._natural(block, np.asarray(x, dtype=np.float64))
            columns.update({variable.name: x[:, j] for j, variable in enumerate(block.variables)})
        return columns

    def expected(self, name: str, mean: NDArray[Any], std: NDArray[Any]) -> NDArray[np.float64]:
        """E[x] for y ~ N(mean, std²), by Gauss–Hermite quadrature where x is not affine in y; the block's shape.

        The mean is what minimises the squared error in natural units; exp(E[log x]) would be the median. What lies
        beyond all that was seen counts as the outermost: the tail of a log-normal must not carry its mean away.
        """
        block = self.schema.block[name]
        low, high = self.low[name], self.high[name]
        mean = np.asarray(mean, dtype=np.float64)
        if self.affine(name):
            return self._unstandardise(block, np.clip(mean, low, high))
        found, at_once = np.zeros(mean.shape), max(1, _NODES_NUMBERS // max(1, mean.size))
        for first in range(0, len(_NODES), at_once):
            node, weight = (x[first : first + at_once] for x in (_NODES, _WEIGHTS))
            y = np.clip(mean + np.multiply.outer(node, np.broadcast_to(std, mean.shape)), low, high)
            found += np.tensordot(weight, self.natural(block, y), axes=1)
        return found

    @property
    def has_point_mass(self) -> dict[str, list[bool]]:
        """Whether one value makes up much of a column, of those of each block of numbers."""
        return {b.name: (~np.isnan(self.point_mass[b.name])).tolist() for b in self.schema.number_blocks}

    def affine(self, name: str) -> bool:
        """Whether the block's variables are only shifted and scaled, and unbounded."""
        return self.schema.block[name].affine

    def natural(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, variables) in natural units, inside the bounds, not rounded."""
        return self._within(block, _unwarp(block, self._unstandardise(block, y)))

    def admissible(self, name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest values that the block's variables can take: whole numbers for counts, inside the bounds."""
        block = self.schema.block[name]
        return self._within(block, np.where(block.counts, np.rint(x), x))

    def log_jacobian(self, columns: Columns, mask: Mask) -> dict[str, NDArray[np.float64]]:
        """log |dy/dx| per continuous cell: add it to a log-density in y to get the log-density in x."""
        out: dict[str, NDArray[np.float64]] = {}
        for block in self.schema.standardised_blocks:
            x, log_scale = stack(block, columns, mask), np.log(self.scale[block.name])
            if block.family is Family.INTERVAL:  # counts and bounds have probabilities; slivers divide by their width
                low, high = block.bounds
                inside = ~block.counts & (x > low) & (x < high)
                slope = np.where(inside, -np.log(2 * _SLIVER) - log_scale, 0.0)
            else:
                slope = np.where(block.logarithmic, -np.log(np.where(x > 0, x, 1.0)), 0.0) - log_scale
            out[block.name] = np.where(np.isnan(x), 0.0, slope)
        return out

    def _standardise(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):  # of numbers near the largest there is
            return (y - self.loc[block.name]) / self.scale[block.name]

    def _unstandardise(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return y * self.scale[block.name] + self.loc[block.name]

    def _natural(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        x = self.rounded(block, _unwarp(block, self._unstandardise(block, y)))
        if block.family is not Family.VECTOR:
            value = self.point_mass[block.name]
            with np.errstate(invalid="ignore"):  # NaN is near nothing
                x = np.where(np.abs(y - self._standardise(block, _warp(block, value))) < _HIT, value, x)
        # for a draw this is exactly the interval likelihood: a bound owns the tail behind it
        return self.admissible(block.name, x) if block.family is Family.INTERVAL else x

    def rounded(self, block: Block, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, variables) to the decimals of the values seen; what is positive stays so."""
        out = x.copy()
        for j, digits in enumerate(self.decimals[block.name].tolist()):
            if digits in _DECIMALS:
                least = 10.0**-digits if block.variables[j].kind is Kind.POSITIVE else -np.inf
                out[:, j] = np.maximum(np.round(x[:, j], digits), least) + 0.0  # no -0.0
        return out

    def nearest_settings(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
        """The columns, of those given, that have few exact values: each number as the nearest of them."""
        out = {}
        for block in self.schema.number_blocks:
            for variable, exact in zip(block.variables, self.settings.get(block.name, ()), strict=False):
                values = exact[~np.isnan(exact)]
                if len(values) and variable.name in columns:
                    middle = (values[1:] + values[:-1]) / 2
                    out[variable.name] = values[np.searchsorted(middle, columns[variable.name])]
        return out

    def traits(self, name: str) -> tuple[int, float, float]:
        """Of a number: the decimals of values seen (`MOST_DECIMALS` or more: any), and its least and greatest value."""
        block = next(block for block in self.schema.number_blocks if any(v.name == name for v in block.variables))
        j = [v.name for v in block.variables].index(name)
        digits, (low, high) = int(self.decimals[block.name][j]), block.bounds
        least = np.nextafter(0.0, 1.0) if block.logarithmic[j] else low[j]
        return digits, float(least), float(high[j])

    def _within(self, block: Block, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(x, *block.bounds) if block.family is Family.INTERVAL else x

    def _edges(self, block: Block, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = block.bounds
        sliver = _SLIVER * self.scale[block.name]
        half = np.where(block.counts, np.maximum(0.5, sliver), sliver)  # in float32 less would vanish
        y, half = self._standardise(block, x), half / self.scale[block.name]
        lower = np.where(x <= low, -_BEYOND, y - half)
        upper = np.where(x >= high, _BEYOND, y + half)
        return np.nan_to_num(lower, nan=-_BEYOND), np.nan_to_num(upper, nan=_BEYOND)


def _settings(block: Block, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """(variables, MOST_SETTINGS); of vectors none."""
    out = np.full((len(block), MOST_SETTINGS), np.nan)
    if block.family is not Family.VECTOR:
        for j in range(len(block)):
            values = settings(x[:, j], MOST_SETTINGS)
            out[j, : len(values)] = values
    return out


def as_dtype(variable: Variable, x: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values in natural units as a column of that dtype holds them: whole numbers rounded, pixels as bytes."""
    if dtype.kind not in "iu":
        return x
    return np.rint(x * 255.0 if variable.kind is Kind.IMAGE else x)


def _warp(block: Block, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(x)."""
    positive = block.logarithmic
    return np.where(positive, np.log(np.where(positive, x, 1.0)), x) if positive.any() else x


def _unwarp(block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
    positive = block.logarithmic
    if not positive.any():
        return y
    return np.where(positive, np.exp(np.where(positive, np.clip(y, -700.0, 700.0), 0.0)), y)


def _decimals(block: Block, x: NDArray[np.float64]) -> NDArray[np.int64]:
    """The fewest decimals that all numbers of a column have, one more than the most if they are many; vectors' do.

    >>> from vsae.data.schema import Schema, real
    >>> (block,) = Schema([real("a"), real("b"), real("c"), real("d")]).blocks
    >>> _decimals(block, np.array([[1.5, 3.0, 1 / 3, 120.0], [2.25, np.nan, 1.0, 5000.0]]))
    array([ 2,  0,  7, -1])
    """
    found = np.full(len(block), _DECIMALS.stop)
    for j in range(0 if block.family is Family.VECTOR else len(block)):
        seen = x[:, j][~np.isnan(x[:, j])]
        if len(seen):
            found[j] = _fewest_decimals(seen)
    return found


def _fewest_decimals(x: NDArray[np.float64]) -> int:
    """Up to the last bits of a product such as 3 · 0.1, or of numbers that were float32 once."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.array_equal(x.astype(np.float32), x)
        last_bits = 4 * np.finfo("f4" if single else "f8").eps * np.abs(x)
        return next((d for d in _DECIMALS if (np.abs(np.round(x, d) - x) <= last_bits).all()), _DECIMALS.stop)


def _ends(y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the columns of (n, variables[, d]) begin and end, (variables[, d]) each; 0 where nothing is observed."""
    found = [ends(column[~np.isnan(column)]) for column in y.reshape(len(y), -1).T]
    low, high = (np.array(part).reshape(y.shape[1:]) for part in zip(*found, strict=True))
    return low, high


def _point_mass(block: Block, x: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """
    >>> from vsae.data.schema import Schema, real
    >>> (block,) = Schema([real("a"), real("b")]).blocks
    >>> _point_mass(block, np.array([[0.0, 1.0], [0.0, 2.0], [1.5, np.nan], [np.nan, 4.0]] * 3))
    array([ 0., nan])
    """
    found = np.full(len(block), np.nan)
    for j in range(0 if block.family is Family.VECTOR else len(block)):
        seen = ~np.isnan(x[:, j])
        values, which, cells = np.unique(x[seen, j], return_inverse=True, return_counts=True)
        counts = np.bincount(which, None if weight is None else weight[seen])
        if len(values) and cells.max() >= FEWEST and counts.max() > _POINT_MASS * counts.sum():
            found[j] = values[counts.argmax()]
    return found


def _location_and_scale(
    y: NDArray[np.float64], scaling: Scaling, weight: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per column over the observed (non-NaN) cells; a column with one value, or none, gets scale 1."""
    seen = ~np.isnan(y)
    size = np.maximum(np.abs(np.where(seen, y, 0.0)).max(axis=0, initial=0.0), 1e-300)
    unit = np.where(seen, y, 0.0) / size  # squares of 1e300 would overflow
    share = seen if weight is None else seen * weight.reshape(-1, *[1] * (y.ndim - 1))
    n = np.maximum(share.sum(axis=0), 1e-300)
    if scaling == "minmax":
        low = np.where(seen, unit, np.inf).min(axis=0, initial=np.inf)
        high = np.where(seen, unit, -np.inf).max(axis=0, initial=-np.inf)
        empty = ~seen.any(axis=0)
        loc, scale = np.where(empty, 0.0, low), np.where(empty, 0.0, high) - np.where(empty, 0.0, low)
    else:
        loc = (unit * share).sum(axis=0) / n
        scale = np.sqrt(((unit - loc) ** 2 * share).sum(axis=0) / n)
    scale = np.where(scale > 1e-12, scale * size, 1.0)  # a constant column: rounding noise is no variation
    return loc * size, scale
