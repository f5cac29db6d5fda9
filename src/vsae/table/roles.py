"""Columns that say something of rows: how much each counts, which belong together, and in what order they come."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.context import Groups
from vsae.table.backends import Column
from vsae.table.cells import Cells
from vsae.table.containers import View, view_of
from vsae.table.errors import TableError


def checked_weights(weight: Any, rows: int, of: str, numbers: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """One finite number a row, none below 0, and not all 0; `of` is where they come from. `numbers` are those of the
    rows in their table, if they are not all of it."""
    try:
        w = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"{of}: weights must be numbers") from None
    if w.ndim != 1:
        raise TableError(f"{of}: weights must be 1D, one number a row, not {w.ndim}D")
    if len(w) != rows:
        raise TableError(f"{of}: there are {len(w)} weights for {rows} rows; give one a row")
    for bad, why in ((np.isnan(w), "is missing"), (np.isinf(w), "is not finite"), (w < 0, "is below 0")):
        if bad.any():
            remedy = "give 0 to rows that are to be imputed but not learned from"
            row = int(bad.argmax() if numbers is None else numbers[bad.argmax()])
            raise TableError(f"{of}: the weight of row {row} {why}; {remedy}")
    if not (w > 0).any():
        raise TableError(f"{of}: all weights are zero; at least one row must count")
    return w


def weights_of(X: Any, label: Hashable, numbers: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """The weights that a column of the table holds; see `checked_weights`."""
    view = view_of(X)
    cells = _cells(view, label, "weights")
    w = np.full(view.n, np.nan)
    try:
        w[cells.observed] = cells.values.astype(np.float64)
    except (TypeError, ValueError):
        raise TableError(f"column {label!r} in weights must hold numbers") from None
    return checked_weights(w, view.n, f"column {label!r}", numbers)


def groups_of(X: Any, group: Hashable, order: Hashable | None = None) -> Groups:
    """By the columns that name the group of each row, and its place; a row without a group is one of its own.

    >>> groups_of({"patient": np.array(["b", None, "b"]), "day": np.array([3, 1, 2])}, "patient", "day")
    Groups(code=array([0, 1, 0]), order=array([2, 0, 1]))
    """
    view = view_of(X)
    known, code = _ranks(view, group, "groups")
    alone = np.flatnonzero(~known)
    code[alone] = code.max(initial=-1) + 1 + np.arange(len(alone))
    return Groups(code, None if order is None else _ranks(view, order, "order")[1])


def _ranks(view: View, label: Hashable, what: str) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which cells are there, and their place among the values of the column, (n,) both; -1 where there is none."""
    cells = _cells(view, label, what)
    ranks = np.full(view.n, -1, dtype=np.int64)
    ranks[cells.observed] = np.unique(cells.values, return_inverse=True)[1]
    return cells.observed, ranks


def _cells(view: View, label: Hashable, what: str) -> Cells:
    cells = view.backend.cells(column_of(view, label, what), ())
    if cells.why:
        raise TableError(f"column {label!r} in {what} holds {cells.why}; give numbers, dates or texts of one type")
    return cells


def column_of(view: View, label: Hashable, what: str) -> Column:
    if label not in view.columns:
        some = ", ".join(repr(name) for name in list(view.columns)[:10])
        raise TableError(f"{what} names {label!r}, which is not a column of this table; the columns are {some}")
    return view.columns[label]
