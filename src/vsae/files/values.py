"""Values in memory, whatever file they go to: which are missing, which were filled, and what every format takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from vsae.files.storage import FileError
from vsae.table.cells import is_null

Columns: TypeAlias = "dict[str, np.ndarray]"


def with_missing(absent: Sequence[bool], observed: np.ndarray) -> np.ndarray:
    """The observed values in their places, and the dtype's own mark of missing in the others.

    >>> with_missing([False, True, False], np.array([1.0, 2.0]))
    array([ 1., nan,  2.])
    """
    if len(observed) == len(absent):
        return observed
    empty: Any = {"O": None, "M": "NaT"}.get(observed.dtype.kind, np.nan)
    column = np.full(len(absent), empty, dtype=observed.dtype)
    column[~np.array(absent)] = observed
    return column


def changed(where: str, name: str, before: np.ndarray, filled: Any) -> tuple[np.ndarray, np.ndarray]:
    """(rows, values) of the cells that are not what they were; a cell that is still missing has not changed.

    >>> changed("a.csv", "x", np.array([1.0, np.nan, np.nan]), {"x": np.array([1.0, 7.0, np.nan])})
    (array([1]), array([7.]))
    """
    try:
        after = np.asarray(filled[name])
    except KeyError:
        raise FileError(f"{where}: column {name!r} is not in the filled table; pass it with all columns") from None
    if after.shape != before.shape:
        raise FileError(f"{where}: column {name!r} has {len(after)} rows in the filled table, not {len(before)}")
    kinds = {before.dtype.kind, after.dtype.kind}
    if kinds == {"M"} or kinds <= set("biuf"):
        rows = np.flatnonzero(~np.isnan(after) & (before != after))  # of datetimes, isnan finds NaT
    else:
        pairs = enumerate(zip(before.tolist(), after.tolist(), strict=True))
        found = (row for row, (old, new) in pairs if new is not old and not is_null(new) and not _same(old, new))
        rows = np.fromiter(found, dtype=np.intp)
    return rows, after[rows]


def _same(old: Any, new: Any) -> bool:
    try:
        return bool(old == new)
    except (TypeError, ValueError):  # arrays in cells
        return bool(np.array_equal(old, new))


def plain_values(values: np.ndarray, keep_floats: bool = False) -> list[Any]:
    """Python's own values, dates as ISO text; floats that are all whole numbers, such as ages, as integers, unless they
    are to be kept.

    >>> plain_values(np.array([31.0, np.nan])), plain_values(np.array([0.1], dtype=np.float32))
    ([31, None], [0.1])
    """
    if values.dtype.kind == "M":
        return [None if text == "NaT" else str(text) for text in np.datetime_as_string(values)]
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        if not keep_floats and (np.abs(known) < 2**53).all() and (known == np.rint(known)).all():
            return [None if value != value else int(value) for value in values.tolist()]
        # By way of their text: 0.1 in float32 is 0.1 for its reader, not 0.10000000149.
        exact = values.tolist() if values.dtype == float else [float(str(value)) for value in values]
        return [None if value != value else value for value in exact]
    return [None if is_null(value) else _plain_value(value) for value in values.tolist()]


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value.isoformat() if hasattr(value, "isoformat") else value


def as_text(value: Any) -> str:
    """A plain value as a cell of a delimited file."""
    if value is None:
        return ""
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
