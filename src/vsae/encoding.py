"""Natural units ⇄ the model's standard units, on plain numpy arrays.

Every numeric variable is warped onto the whole real line, then standardised, both in float64 before torch sees it:

    y = (g(x) - loc) / scale,    g(x) = x | log(x - min) | -log(max - x) | log((x - min) / (max - x))

so that a Gaussian in y is a normal, a log-normal or a logit-normal in x, and bounds hold by construction rather than
by clipping. A count k becomes y with the edges of [k - ½, k + ½]: its likelihood is the Gaussian mass between
them, and the outermost whole numbers take the tails. Level codes pass through unchanged.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from vsae.batch import Batch
from vsae.schema import DISCRETE, Block, Family, Kind, Schema, SchemaError, Variable

Columns = Mapping[str, NDArray[Any]]  # variable name → (n,), or (n, d) for a vector
Mask = NDArray[np.bool_]  # (n, M) over attributes, True = observed
Scaling = Literal["standard", "minmax"]

_BEYOND = 1e6  # an edge no Gaussian in standard units reaches; finite, so that gradients stay finite


class Warp(enum.IntEnum):
    """How a numeric variable is laid onto the real line."""

    IDENTITY = 0
    ABOVE = 1  # log(x - min)
    BELOW = 2  # -log(max - x)
    BETWEEN = 3  # log((x - min) / (max - x))

    @classmethod
    def of(cls, variable: Variable) -> Warp:
        if variable.family is not Family.GAUSSIAN:  # a count honours its bounds through its edges
            return cls.IDENTITY
        return cls((variable.min is not None) + 2 * (variable.max is not None))


@dataclass(frozen=True)
class Encoding:
    """Fitted on the observed cells of a table; turns columns into a `Batch` and back.

    >>> from vsae.schema import Schema, positive, real
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
    scaling: Scaling = "standard"

    @classmethod
    def fit(cls, schema: Schema, columns: Columns, mask: Mask, scaling: Scaling = "standard") -> Encoding:
        _check_mask(schema, mask)
        loc, scale = {}, {}
        for block in _numeric(schema):
            warped = _warp(block, _stack(block, columns, mask))  # NaN where not observed
            loc[block.name], scale[block.name] = _location_and_scale(warped, scaling)
        return cls(schema, loc, scale, scaling)

    def encode(self, columns: Columns, mask: Mask) -> Batch:
        """Columns in natural units → `Batch` of shape (n, …). Nothing unobserved is read."""
        _check_mask(self.schema, mask)
        values: dict[str, torch.Tensor] = {}
        for block in self.schema.blocks:
            x = _stack(block, columns, mask)
            if block.family in DISCRETE:
                values[block.name] = torch.from_numpy(x)
                continue
            y = np.nan_to_num(self._standardise(block, _warp(block, x)), nan=0.0)
            if block.family is Family.ROUNDED:
                y = np.stack([y, *self._edges(block, x)], axis=-1)
            values[block.name] = torch.from_numpy(y.astype(np.float32))
        return Batch(values, torch.from_numpy(np.ascontiguousarray(mask)))

    def decode(self, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Standard units → columns in natural units; `values` holds a single number per count."""
        columns: dict[str, NDArray[Any]] = {}
        for block in self.schema.blocks:
            x = values[block.name]
            if block.family not in DISCRETE:
                x = self._natural(block, np.asarray(x, dtype=np.float64))
            columns.update({variable.name: x[:, j] for j, variable in enumerate(block.variables)})
        return columns

    def expected(self, name: str, mean: NDArray[Any], std: NDArray[Any]) -> NDArray[np.float64]:
        """E[x] for y ~ N(mean, std²), by Gauss–Hermite quadrature through the warp; the block's shape.

        The mean is what minimises the squared error in natural units; exp(E[log x]) would be the median.
        """
        block = self._blocks[name]
        mean = np.asarray(mean, dtype=np.float64)
        if not self.warped(name):
            return self._unstandardise(block, mean)
        nodes, weights = np.polynomial.hermite_e.hermegauss(9)
        points = (self._natural(block, mean + node * std) for node in nodes)
        return np.asarray(
            sum(w * point for w, point in zip(weights / weights.sum(), points, strict=True)), dtype=np.float64
        )

    def warped(self, name: str) -> bool:
        """Whether any variable of the block is more than shifted and scaled."""
        return bool(_warps(self._blocks[name]).any())

    def whole(self, name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest admissible counts."""
        low, high = _bounds(self._blocks[name])
        return np.clip(np.rint(x), low, high)

    def log_jacobian(self, columns: Columns, mask: Mask) -> dict[str, NDArray[np.float64]]:
        """log |dy/dx| per continuous cell: add it to a log-density in y to get the log-density in x."""
        out: dict[str, NDArray[np.float64]] = {}
        for block in _numeric(self.schema):
            if block.family is Family.ROUNDED:  # a probability, not a density
                continue
            slope = _log_slope(block, _stack(block, columns, mask)) - np.log(self.scale[block.name])
            out[block.name] = np.nan_to_num(slope, nan=0.0)
        return out

    @cached_property
    def _blocks(self) -> dict[str, Block]:
        return {block.name: block for block in self.schema.blocks}

    def _standardise(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return (y - self.loc[block.name]) / self.scale[block.name]

    def _unstandardise(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return y * self.scale[block.name] + self.loc[block.name]

    def _natural(self, block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
        x = _unwarp(block, self._unstandardise(block, y))
        # for a draw this is exactly the rounded Gaussian: the outer numbers own the tails
        return self.whole(block.name, x) if block.family is Family.ROUNDED else x

    def _edges(self, block: Block, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = _bounds(block)
        lower = np.where(x <= low, -_BEYOND, self._standardise(block, x - 0.5))
        upper = np.where(x >= high, _BEYOND, self._standardise(block, x + 0.5))
        return np.nan_to_num(lower, nan=-_BEYOND), np.nan_to_num(upper, nan=_BEYOND)


def _numeric(schema: Schema) -> list[Block]:
    return [block for block in schema.blocks if block.family not in DISCRETE]


def _warps(block: Block) -> NDArray[np.int64]:
    return np.array([Warp.of(variable) for variable in block.variables], dtype=np.int64)


def _bounds(block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.array([-np.inf if v.min is None else v.min for v in block.variables], dtype=np.float64)
    high = np.array([np.inf if v.max is None else v.max for v in block.variables], dtype=np.float64)
    return low, high


def _warp(block: Block, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """g(x); a pass per kind of warp, not per column."""
    warps, (low, high) = _warps(block), _bounds(block)
    if not warps.any():
        return x
    y = x.copy()
    above, below, between = (warps == kind for kind in (Warp.ABOVE, Warp.BELOW, Warp.BETWEEN))
    y[:, above] = np.log(x[:, above] - low[above])
    y[:, below] = -np.log(high[below] - x[:, below])
    y[:, between] = np.log(x[:, between] - low[between]) - np.log(high[between] - x[:, between])
    return y


def _unwarp(block: Block, y: NDArray[np.float64]) -> NDArray[np.float64]:
    warps, (low, high) = _warps(block), _bounds(block)
    if not warps.any():
        return y
    x, y = y.copy(), np.clip(y, -700.0, 700.0)  # exp stays inside float64
    above, below, between = (warps == kind for kind in (Warp.ABOVE, Warp.BELOW, Warp.BETWEEN))
    x[..., above] = low[above] + np.exp(y[..., above])
    x[..., below] = high[below] - np.exp(-y[..., below])
    x[..., between] = low[between] + (high - low)[between] / (1.0 + np.exp(-y[..., between]))
    return x


def _log_slope(block: Block, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log g'(x)."""
    warps, (low, high) = _warps(block), _bounds(block)
    slope = np.where(np.isnan(x), np.nan, 0.0)
    if not warps.any():
        return slope
    above, below, between = (warps == kind for kind in (Warp.ABOVE, Warp.BELOW, Warp.BETWEEN))
    slope[:, above] = -np.log(x[:, above] - low[above])
    slope[:, below] = -np.log(high[below] - x[:, below])
    span = (high - low)[between]
    slope[:, between] = np.log(span) - np.log(x[:, between] - low[between]) - np.log(high[between] - x[:, between])
    return slope


def _location_and_scale(
    y: NDArray[np.float64], scaling: Scaling
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per column over the observed (non-NaN) cells; a column with one value, or none, gets scale 1."""
    seen = ~np.isnan(y)
    size = np.maximum(np.abs(np.where(seen, y, 0.0)).max(axis=0, initial=0.0), 1e-300)
    unit = np.where(seen, y, 0.0) / size  # squares of 1e300 would overflow
    n = np.maximum(seen.sum(axis=0), 1)
    if scaling == "minmax":
        low = np.where(seen, unit, np.inf).min(axis=0, initial=np.inf)
        high = np.where(seen, unit, -np.inf).max(axis=0, initial=-np.inf)
        empty = ~seen.any(axis=0)
        loc, scale = np.where(empty, 0.0, low), np.where(empty, 0.0, high) - np.where(empty, 0.0, low)
    else:
        loc = unit.sum(axis=0) / n
        scale = np.sqrt((np.where(seen, unit - loc, 0.0) ** 2).sum(axis=0) / n)
    scale = np.where(scale > 1e-12, scale * size, 1.0)  # a constant column: rounding noise is no spread
    return loc * size, scale


def _stack(block: Block, columns: Columns, mask: Mask) -> NDArray[Any]:
    """The block's columns as one checked array (n, variables[, d]); NaN (or code 0) where not observed."""
    observed = mask[:, list(block.attributes)]  # (n, variables)
    shape = (len(mask), block.width) if block.family is Family.VECTOR else (len(mask),)
    arrays = []
    for variable in block.variables:
        if variable.name not in columns:
            raise SchemaError(f"attribute {variable.name!r} is in the schema but not in the data; add the column")
        column = np.asarray(columns[variable.name])
        if column.shape != shape:
            raise SchemaError(
                f"attribute {variable.name!r} has shape {column.shape}, but mask and schema ask for {shape}"
            )
        arrays.append(column)
    if block.family in DISCRETE:
        return _checked_codes(block, np.stack(arrays, axis=1), observed)
    return _checked_numbers(block, np.stack(arrays, axis=1).astype(np.float64), observed)


def _checked_codes(block: Block, codes: NDArray[Any], observed: Mask) -> NDArray[np.int64]:
    sizes = np.array(block.sizes)
    whole = np.where(observed, codes, 0)
    with np.errstate(invalid="ignore"):
        bad = ~((whole >= 0) & (whole < sizes) & (whole == np.rint(whole)))  # NaN fails every comparison
    _refuse(bad, block, codes, "is not a level code 0 … size - 1; mark the cell missing or raise the size")
    return whole.astype(np.int64)


def _checked_numbers(block: Block, x: NDArray[np.float64], observed: Mask) -> NDArray[np.float64]:
    seen = observed[..., None] if block.family is Family.VECTOR else observed
    x = np.where(seen, x, np.nan)
    _refuse(seen & np.isnan(x), block, x, "in an observed cell; mark the cell missing")
    _refuse(seen & np.isinf(x), block, x, "in an observed cell; mark the cell missing or give a finite number")
    if block.family is Family.VECTOR:
        return x
    low, high = _bounds(block)
    counts = np.array([variable.kind is Kind.COUNT for variable in block.variables])
    with np.errstate(invalid="ignore"):
        outside = np.where(counts, (x < low) | (x > high), (x <= low) | (x >= high))
        broken = counts & (x != np.rint(x))
    _refuse(observed & outside, block, x, "lies outside the bounds; widen min/max or choose another kind")
    _refuse(observed & broken, block, x, "is no whole number; use kind real or positive instead of count")
    return x


def _refuse(bad: NDArray[np.bool_], block: Block, x: NDArray[Any], why: str) -> None:
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise SchemaError(f"attribute {block.variables[where[1]].name!r}, row {where[0]}: {x[where]} {why}")


def _check_mask(schema: Schema, mask: Mask) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        kind = getattr(mask, "dtype", type(mask).__name__)
        raise SchemaError(f"the mask must be a boolean array with True = observed, not {kind}")
    if mask.ndim != 2 or mask.shape[1] != len(schema):
        raise SchemaError(f"the mask has shape {mask.shape}; expected (rows, {len(schema)}), one column an attribute")
    if not len(mask):
        raise SchemaError("the table has no rows; pass at least one")
