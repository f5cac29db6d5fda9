"""Completed tables one below the other, as R's mice and Stata's mi read them.

>>> drawn = [{"x": np.array([1.0, 2.5])}, {"x": np.array([1.0, 1.5])}]
>>> long_table(drawn)
{'.imp': array([1, 1, 2, 2]), '.id': array([1, 2, 1, 2]), 'x': array([1. , 2.5, 1. , 1.5])}
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from vsae.table.backends import Column
from vsae.table.containers import View, stacked, view_of
from vsae.table.errors import TableError

MICE = (".imp", ".id")  # names of the number of the imputation and of the row; `mice::as.mids` looks for these


def long_table(tables: Sequence[Any], original: Any = None) -> Any:
    """A table like those, rows of the first first; before them, as imputation 0, the `original`, if it is given."""
    views = [view_of(table) for table in (tables if original is None else [original, *tables])]
    return table_of(views, long_columns(views, MICE, first=1 if original is None else 0))


def long_columns(views: Sequence[View], names: tuple[str, str], first: int) -> dict[Hashable, Column]:
    """The number of the imputation, from `first` on, that of the row, from 1 on, and the columns of the tables."""
    backend, n, m = views[0].backend, views[0].n, len(views)
    numbers = np.repeat(np.arange(first, first + m), n), np.tile(np.arange(1, n + 1), m)
    columns: dict[Hashable, Column] = {name: backend.new(x, None) for name, x in zip(names, numbers, strict=True)}
    for label in views[0].columns:
        if label in columns:
            raise TableError(f"column {label!r} has the name that a long table gives to a column of its own; rename it")
        columns[label] = backend.concat([view.columns[label] for view in views])
    return columns


def table_of(views: Sequence[View], columns: dict[Hashable, Column]) -> Any:
    """A table like those, of long columns. The index of pandas says which row it is, so it is repeated with the row."""
    if views[0].container == "array":
        return stacked(columns.values())
    table = views[0].backend.table(columns)
    if views[0].container == "pandas":
        index = views[0].rebuild({}).index
        table = table.set_axis(index.append([index] * (len(views) - 1)), axis=0)
    return table
