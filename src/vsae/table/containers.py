"""A user's table, in whatever container, as labelled columns; and a table like it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import repeated
from vsae.table.backends import Backend, Column, Numpy
from vsae.table.cells import Bools, Cells, objects, scalar
from vsae.table.errors import TableError, library
from vsae.table.frames import Arrow, Pandas, Polars

BACKENDS: dict[str, Callable[[], Backend]] = {
    "array": Numpy,
    "dict": Numpy,
    "pandas": Pandas,
    "polars": Polars,
    "pyarrow": Arrow,
}


@dataclass(frozen=True)
class View:
    """A user's table as labelled columns; `rebuild` makes a table like it, with some columns changed or added."""

    container: str  # one of BACKENDS
    columns: dict[Hashable, Column]
    n: int
    rebuild: Callable[[dict[Hashable, Column]], Any]
    plain: bool = False  # a 2-D array of numbers
    # codes, and what is missing, of columns that were looked at; no argument: a view with other columns begins anew
    _cells: dict[Hashable, tuple[tuple[Any, ...], Bools]] = field(default_factory=dict, init=False)

    @cached_property
    def backend(self) -> Backend:
        return BACKENDS[self.container]()

    def cells(self, label: Hashable, codes: tuple[Any, ...]) -> Cells:
        """Of a column: what is neither null nor one of the missing codes."""
        found = self.backend.cells(self.columns[label], codes)
        self._cells[label] = codes, ~found.observed
        return found

    def missing(self, label: Hashable, codes: tuple[Any, ...]) -> Bools:
        """(n,), the others; as they were found, if the column has been looked at."""
        known, missing = self._cells.get(label, (None, None))
        if missing is None or known is not codes:
            missing = self.backend.missing(self.columns[label], codes)
        return missing


def view_of(X: Any) -> View:
    """The table X, or a `TableError` that says what it should have been; a view is its own."""
    if isinstance(X, View):
        return X
    X = nw.to_native(X, pass_through=True)
    if isinstance(X, Mapping):
        return _view_dict(X)
    if nw.dependencies.is_pandas_dataframe(X):
        return _view_pandas(X)
    if nw.dependencies.is_pyarrow_table(X):
        _refuse_repeated(X.column_names)
    table = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(table, nw.LazyFrame):
        raise TableError("a lazy table has no cells yet; call .collect() first")
    if isinstance(table, nw.Series):
        raise TableError("a single column is not a table; call .to_frame() first")
    return _view_frame(table) if isinstance(table, nw.DataFrame) else _view_array(X)


def _view_frame(frame: nw.DataFrame[Any]) -> View:
    container = frame.implementation.value
    if container not in BACKENDS:
        raise TableError(f"{container} tables are not supported; convert to pandas, polars or pyarrow")

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        return frame.with_columns(*(column.alias(str(label)) for label, column in changed.items())).to_native()

    return View(container, {label: frame.get_column(label) for label in frame.columns}, len(frame), rebuild)


def _view_pandas(X: Any) -> View:
    labels = [scalar(label) for label in X.columns]
    _refuse_repeated(labels)
    place = {label: j for j, label in enumerate(labels)}

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        added = [label for label in changed if label not in place]
        out = X.set_axis(range(len(labels)), axis=1) if added else X.set_axis(X.columns, axis=1)
        for label, column in changed.items():
            if isinstance(column, library("pandas").Series) and not column.index.is_(X.index):
                column = column.set_axis(X.index)
            if label in place:
                out.isetitem(place[label], column)
            else:
                out.insert(len(out.columns), len(out.columns), column)
        return out.set_axis(X.columns.append(library("pandas").Index(added)), axis=1) if added else out

    columns = (column for _, column in X.items())  # of any labels
    return View("pandas", dict(zip(labels, columns, strict=True)), len(X), rebuild)


def _view_dict(X: Mapping[Any, Any]) -> View:
    columns: dict[Hashable, Column] = {label: _array(f"column {label!r}", column) for label, column in X.items()}
    columns = {label: objects(list(x)) if x.ndim in (3, 4) else x for label, x in columns.items()}  # stacked images
    for label, column in columns.items():
        if column.ndim != 1:
            raise TableError(f"column {label!r} has {column.ndim} dimensions; give a list or an array of one dimension")
    n = len(next(iter(columns.values()), ()))
    for label, column in columns.items():
        if len(column) != n:
            raise TableError(f"column {label!r} has {len(column)} rows, the first column has {n}; make them equal")

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        return {label: column.copy() for label, column in columns.items()} | changed

    return View("dict", columns, n, rebuild)


def _view_array(X: Any) -> View:
    array = _array("X", X)
    if array.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data with .reshape(-1, 1) if it is one"
            " column, or .reshape(1, -1) if it is one row"
        )

    def rebuild(changed: dict[Any, Column]) -> Any:
        out = array.astype(_common([array.dtype, *(column.dtype for column in changed.values())]))
        for j, column in changed.items():
            out[:, j] = column
        return out

    columns: dict[Hashable, Column] = dict(enumerate(array.T))
    return View("array", columns, len(array), rebuild, plain=array.dtype.kind in "iuf")


def stacked(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """The columns side by side in one array."""
    arrays = list(columns)
    dtype = _common([array.dtype for array in arrays])
    return np.stack([array.astype(dtype) for array in arrays], axis=1).astype(dtype)  # again: stack undoes it, too


def _common(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """The one dtype, room for the widest number or text, or objects."""
    if len(set(dtypes)) == 1:
        return dtypes[0]  # result_type would undo a foreign byte order
    kinds = {dtype.kind for dtype in dtypes}
    return np.result_type(*dtypes) if kinds == {"U"} or kinds <= set("iuf") else np.dtype(object)


def _array(what: str, values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise TableError(f"{what} is a masked array; call .filled(np.nan), or .astype(object).filled(None), first")
    if isinstance(values, list | tuple) and any(isinstance(value, np.ndarray) for value in values):
        return objects(values)  # images: numpy would stack them, or fail to
    try:
        return np.asarray(values)
    except ValueError:
        raise TableError(f"{what} has rows of different lengths; make them equal") from None


def _refuse_repeated(labels: list[Any]) -> None:
    for label, times in repeated(labels).items():
        raise TableError(f"column {label!r} appears {times} times; rename or drop all but one")
