"""What is asked of a library that holds columns, and numpy's answers; those of dataframe libraries are in `frames`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import Bools, Cells, Storage, Unmodelled, coded, object_nulls, recognise, usual_exponent

Column = Any  # nw.Series, pd.Series or one-dimensional np.ndarray: whatever the backend at hand understands


class Backend(ABC):
    """Columns of one library: which cells are null, what the others hold, and new cells of exactly the same dtype."""

    def cells(self, column: Column, codes: tuple[Any, ...]) -> Cells:
        """What is neither null nor one of the missing codes."""
        observed = ~self.nulls(column)
        try:
            raw = self.raw(column, observed)
            if codes:
                values = ~coded(raw, codes)
                observed[observed], raw = values, raw[values]
            values, storage = recognise(raw)
        except Unmodelled as reason:
            return Cells(np.zeros(int(observed.sum())), observed, why=str(reason))
        return Cells(values, observed, storage, usual_exponent(raw) if storage is Storage.DECIMAL else 0)

    def mixed(self, column: Column) -> list[Any]:
        """The values of a column whose values are of several types; of others, none."""
        try:
            raw = self.raw(column, ~self.nulls(column))
        except Unmodelled:
            return []
        return raw.tolist() if raw.dtype.kind == "O" and raw.ndim == 1 else []

    def missing(self, column: Column, codes: tuple[Any, ...]) -> Bools:
        """(n,), the others: null, or one of the missing codes."""
        return ~self.cells(column, codes).observed if codes else self.nulls(column)

    @abstractmethod
    def nulls(self, column: Column) -> Bools:
        """(n,), NaN included."""

    @abstractmethod
    def raw(self, column: Column, present: Bools) -> NDArray[Any]:
        """The values that are not null, that is, where `present`."""

    @abstractmethod
    def categorical(self, column: Column) -> bool: ...

    def categories(self, column: Column) -> list[Any]:
        """Of a categorical dtype, in its order."""
        return []

    def as_categorical(self, column: Column) -> Column:
        """Where the library has such columns."""
        return column

    @abstractmethod
    def order(self, column: Column) -> list[Any] | None:
        """The categories of an ordered categorical dtype."""

    @abstractmethod
    def target(self, column: Column) -> np.dtype[Any]:
        """The numpy dtype that values must have to be written to the column."""

    @abstractmethod
    def describe(self, column: Column) -> Any:
        """The dtype, as JSON."""

    @abstractmethod
    def empty(self, described: Any) -> Column:
        """A column of that dtype without rows."""

    @abstractmethod
    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        """A column of the dtype of `like`, or of the values' own."""

    @abstractmethod
    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        """The column with `values` at the rows `where`, for a container to take; categories are added where they are
        lacking."""

    @abstractmethod
    def with_nulls(self, column: Column, where: Bools) -> Column:
        """The column with nulls `where` (n,) is True."""

    @abstractmethod
    def concat(self, columns: Sequence[Column]) -> Column:
        """The columns, all of one dtype but for categories and nulls, one below the other."""

    @abstractmethod
    def table(self, columns: dict[Hashable, Column]) -> Any:
        """A table of the columns."""


class HoldsArrays(Backend):
    """A library whose cells may be arrays, as imputed images are."""

    @abstractmethod
    def fill_objects(self, column: Column, where: NDArray[np.int64], values: NDArray[np.object_]) -> Column:
        """The column as one of Python objects, with arrays at the rows `where`."""


@final
class Numpy(HoldsArrays):
    """One-dimensional arrays, of dicts and of 2-D arrays."""

    def nulls(self, column: Column) -> Bools:
        if column.dtype.kind in "OT":
            return object_nulls(column.tolist())
        return np.isnan(column) if column.dtype.kind in "fcMm" else np.zeros(len(column), dtype=np.bool_)

    def raw(self, column: Column, present: Bools) -> NDArray[Any]:
        return column[present]

    def categorical(self, column: Column) -> bool:
        return False

    def order(self, column: Column) -> list[Any] | None:
        return None

    def target(self, column: Column) -> np.dtype[Any]:
        return column.dtype

    def describe(self, column: Column) -> Any:
        return "T" if column.dtype.kind == "T" else column.dtype.str

    def empty(self, described: Any) -> Column:
        return np.empty(0, dtype=described)

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        return values if like is None else values.astype(_room(like.dtype, values))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        out = column.astype(_room(column.dtype, values))
        out[where] = values
        return out

    def fill_objects(self, column: Column, where: NDArray[np.int64], values: NDArray[np.object_]) -> Column:
        return put_objects(column.astype(object), where, values)

    def with_nulls(self, column: Column, where: Bools) -> Column:
        kind = column.dtype.kind
        out = column.astype(column.dtype if kind in "fMm" else np.float64 if kind in "iu" else object)
        out[where] = {"f": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}.get(out.dtype.kind)
        return out

    def concat(self, columns: Sequence[Column]) -> Column:
        return np.concatenate(columns)

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return columns


def put_objects(
    cells: NDArray[np.object_], where: NDArray[np.int64], values: NDArray[np.object_]
) -> NDArray[np.object_]:
    """One by one: numpy would spread an array that is to be a single cell."""
    for i, value in zip(where.tolist(), values, strict=True):
        cells[i] = value
    return cells


def _room(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """The dtype, or for fixed-width text one as wide as the longest value."""
    return np.result_type(dtype, values.astype(str)) if dtype.kind == "U" else dtype
