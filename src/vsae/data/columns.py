"""Columns and a mask as users of the core give them: checked against the schema, stacked block by block.

What does not fit is refused here, in one line that names the attribute, the row and the remedy. Nothing that the mask
says is missing is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import DISCRETE, Block, Family, Kind, Schema, SchemaError, Variable

Columns = Mapping[str, NDArray[Any]]  # variable name → (n,), (n, d) for a vector, (n, C, H, W) for an image
Mask = NDArray[np.bool_]  # (n, M) over attributes, True = observed

LARGEST = 2.0**1000  # 1e301: of larger numbers, differences and sums need not be numbers


def check_mask(schema: Schema, mask: Mask) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        kind = getattr(mask, "dtype", type(mask).__name__)
        raise SchemaError(f"the mask must be a boolean array with True = observed, not {kind}")
    if mask.ndim != 2 or mask.shape[1] != len(schema):
        raise SchemaError(f"the mask has shape {mask.shape}; expected (rows, {len(schema)}), one column an attribute")
    if not len(mask):
        raise SchemaError("the table has no rows; pass at least one")


def stack(block: Block, columns: Columns, mask: Mask) -> NDArray[Any]:
    """The block's columns as one checked array (n, variables[, d]); NaN (or code 0) where not observed."""
    observed = mask[:, list(block.attributes)]  # (n, variables)
    shape = (len(mask), block.width) if block.family is Family.VECTOR else (len(mask),)
    arrays = []
    for variable in block.variables:
        column = _column(variable, columns)
        if column.shape != shape:
            raise SchemaError(
                f"attribute {variable.name!r} has shape {column.shape}, but mask and schema ask for {shape}"
            )
        arrays.append(column)
    if block.family in DISCRETE:
        return _checked_codes(block, np.stack(arrays, axis=1), observed)
    return _checked_numbers(block, np.stack(arrays, axis=1).astype(np.float64), observed)


def _column(variable: Variable, columns: Columns) -> NDArray[Any]:
    if variable.name not in columns:
        raise SchemaError(f"attribute {variable.name!r} is in the schema but not in the data; add the column")
    column = np.asarray(columns[variable.name])
    if column.dtype.kind not in "biuf":
        what = "level codes" if variable.family in DISCRETE else "numbers"
        raise SchemaError(f"attribute {variable.name!r} holds {column.dtype} values; give it as {what}")
    return column


def stack_images(block: Block, columns: Columns, mask: Mask) -> NDArray[np.float32]:
    """(n, variables, C, H, W) in [0, 1], 0 where not observed; in single precision throughout, as pixels are many."""
    out = np.zeros((len(mask), len(block), *block.event), dtype=np.float32)
    for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
        column, seen = _column(variable, columns), mask[:, i]
        if column.shape == (len(mask), *block.event[1:]) and block.event[0] == 1:
            column = column[:, None]
        if column.shape != (len(mask), *block.event):
            raise SchemaError(
                f"attribute {variable.name!r} has shape {column.shape}, but mask and schema ask for "
                f"{(len(mask), *block.event)}"
            )
        pixels = column[seen].astype(np.float32) / (255 if column.dtype.kind in "iu" else 1)
        bad = ~((pixels >= 0) & (pixels <= 1)).all(axis=(1, 2, 3))  # NaN fails every comparison
        if bad.any():
            row = int(np.flatnonzero(seen)[bad.argmax()])
            raise SchemaError(
                f"attribute {variable.name!r}, row {row}: a pixel is no number in [0, 1], nor a byte; scale the image "
                "or mark it missing"
            )
        out[seen, j] = pixels
    return out


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
    _refuse(seen & (np.abs(x) > LARGEST), block, x, "is too large; divide the column, or mark the cell missing")
    if block.family is Family.VECTOR:
        return x
    low, high = bounds_of(block)
    with np.errstate(invalid="ignore"):
        outside = (x < low) | (x > high)
        broken = are_counts(block) & (x != np.rint(x))
        negative = are_logarithmic(block) & (x <= 0)
    _refuse(observed & outside, block, x, "lies outside the bounds; widen min/max or drop them")
    _refuse(observed & broken, block, x, "is no whole number; use kind real or positive instead of count")
    _refuse(observed & negative, block, x, "is not above zero; use kind real, with min=0 if zero is the least")
    return x


def _refuse(bad: NDArray[np.bool_], block: Block, x: NDArray[Any], why: str) -> None:
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise SchemaError(f"attribute {block.variables[where[1]].name!r}, row {where[0]}: {x[where]} {why}")


def are_logarithmic(block: Block) -> NDArray[np.bool_]:
    flags = np.array([variable.kind is Kind.POSITIVE for variable in block.variables])
    return flags[:, None] if block.family is Family.VECTOR else flags


def are_counts(block: Block) -> NDArray[np.bool_]:
    return np.array([variable.kind is Kind.COUNT for variable in block.variables])


def bounds_of(block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.array([-np.inf if v.min is None else v.min for v in block.variables], dtype=np.float64)
    high = np.array([np.inf if v.max is None else v.max for v in block.variables], dtype=np.float64)
    return low, high
