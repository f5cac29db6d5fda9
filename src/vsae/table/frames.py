"""Columns of pandas, polars and pyarrow: through narwhals as far as it goes, and then by each library's own means."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable
from decimal import InvalidOperation
from typing import Any, ClassVar, final

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from vsae.table.backends import Backend, Column, HoldsArrays, put_objects
from vsae.table.cells import Bools, Unmodelled, object_nulls, objects
from vsae.table.errors import library
from vsae.table.typed_json import dump, load


class _Frames(Backend):
    """Series of a dataframe library."""

    name: ClassVar[str]  # of the library
    unreadable: ClassVar[dict[str, str]]  # how a dtype's name begins → remedy

    def __init__(self) -> None:
        self.library = library(self.name)

    def nulls(self, column: Column) -> Bools:
        try:
            nulls = column.is_null()
        except InvalidOperation:  # Decimal("sNaN"), which pandas compares with itself
            return object_nulls(column.to_list())
        if column.dtype.is_float():
            nulls = nulls | column.is_nan()
        return np.array(nulls.to_numpy(), dtype=np.bool_)

    def raw(self, column: Column, present: Bools) -> NDArray[Any]:
        native = str(self.dtype(column))
        for name, remedy in self.unreadable.items():
            if native.startswith(name):
                raise Unmodelled(f"values of dtype {native}; {remedy}")
        if column.dtype.is_nested():
            raise Unmodelled("nested values")
        try:
            column = column.drop_nulls()
        except InvalidOperation:
            return objects(column.to_list())[present]
        if isinstance(column.dtype, nw.String | nw.Int128 | nw.UInt128):  # numpy's own types waste or lack room
            return objects(column.to_list())
        raw = column.to_numpy()
        return raw[~np.isnan(raw)] if raw.dtype.kind == "f" else raw

    def categorical(self, column: Column) -> bool:
        return isinstance(column.dtype, nw.Categorical | nw.Enum)

    def target(self, column: Column) -> np.dtype[Any]:
        dtype = column.dtype
        if isinstance(dtype, nw.Datetime | nw.Duration):
            return np.dtype(f"{'M' if isinstance(dtype, nw.Datetime) else 'm'}8[{dtype.time_unit}]")
        if isinstance(dtype, nw.Date):
            return np.dtype("M8[D]")
        if isinstance(dtype, nw.Boolean):
            return np.dtype(np.bool_)
        if dtype.is_integer() or dtype.is_float():
            return np.dtype(type(dtype).__name__.lower().replace("128", "64"))
        if dtype.is_nested() or isinstance(dtype, nw.Binary) or str(self.dtype(column)).lower().startswith("null"):
            return np.dtype("V")  # takes nothing
        return np.dtype(str if isinstance(dtype, nw.String) else object)

    def dtype(self, column: Column) -> Any:
        """The library's own."""
        return column.to_native().dtype

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return self.library.DataFrame({label: column.to_native() for label, column in columns.items()})


def _wrap(native: Any) -> Column:
    return nw.from_native(native, series_only=True)


def _lacking(categories: Iterable[Any], values: NDArray[Any]) -> list[Any]:
    """The values that are not among the categories, once each."""
    known = set(categories)
    return [value for value in dict.fromkeys(values.tolist()) if value not in known]


@final
class Pandas(_Frames, HoldsArrays):
    name: ClassVar[str] = "pandas"
    unreadable: ClassVar[dict[str, str]] = {"Sparse": "call .sparse.to_dense()"}

    def order(self, column: Column) -> list[Any] | None:
        dtype = self.dtype(column)
        return list(dtype.categories) if isinstance(dtype, self.library.CategoricalDtype) and dtype.ordered else None

    def raw(self, column: Column, present: Bools) -> NDArray[Any]:
        if isinstance(
            self.dtype(column), self.library.DatetimeTZDtype
        ):  # narwhals does not know the names of all zones
            return column.to_native().dropna().dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return super().raw(column, present)

    def target(self, column: Column) -> np.dtype[Any]:
        dtype = self.dtype(column)
        if isinstance(dtype, self.library.DatetimeTZDtype):
            return np.dtype(f"M8[{dtype.unit}]")
        return np.dtype(object) if dtype == "object" else super().target(column)

    def describe(self, column: Column) -> Any:
        return self._describe(self.dtype(column))

    def _describe(self, dtype: Any) -> Any:
        if isinstance(dtype, self.library.CategoricalDtype):
            of = self._describe(dtype.categories.dtype)
            return {"categories": [*map(dump, dtype.categories)], "of": of, "ordered": dtype.ordered}
        if isinstance(dtype, self.library.ArrowDtype):
            return {"arrow": _dump_arrow(dtype.pyarrow_dtype)}
        if isinstance(dtype, self.library.StringDtype) and str(dtype) == "string":
            return f"string[{dtype.storage}]"  # which "string" does not say
        return str(dtype)

    def empty(self, described: Any) -> Column:
        return _wrap(self.library.Series([], dtype=self._dtype(described)))

    def _dtype(self, described: Any) -> Any:
        if not isinstance(described, dict):
            return self.library.api.types.pandas_dtype(described)
        if "arrow" in described:
            return self.library.ArrowDtype(_load_arrow(described["arrow"]))
        categories = self.library.Index([*map(load, described["categories"])], dtype=self._dtype(described["of"]))
        return self.library.CategoricalDtype(categories, ordered=described["ordered"])

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        if like is None:
            return _wrap(self.library.Series(values))
        dtype = self.dtype(like)
        series = self.library.Series(values, dtype=object if dtype == "object" else None)
        if isinstance(dtype, self.library.DatetimeTZDtype):
            series = series.dt.tz_localize("UTC")
        return _wrap(series.astype(dtype))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        native = column.to_native().copy()
        if isinstance(native.dtype, self.library.CategoricalDtype):
            native = native.astype(self._widened(native.dtype, values))
        native.iloc[where] = self.new(values, _wrap(native)).to_native().array  # pandas 2 trips over some Series
        return _wrap(native)

    def _widened(self, dtype: Any, values: NDArray[Any]) -> Any:
        """The dtype with all of `values` among its categories, which stay of the dtype they are of."""
        lacking = _lacking(dtype.categories, values)
        if not lacking:
            return dtype
        categories = self.library.Index([*dtype.categories, *lacking], dtype=dtype.categories.dtype)
        return self.library.CategoricalDtype(categories, dtype.ordered)

    def fill_objects(self, column: Column, where: NDArray[np.int64], values: NDArray[np.object_]) -> Column:
        native = column.to_native()
        cells = put_objects(native.astype(object).to_numpy(copy=True), where, values)
        return _wrap(self.library.Series(cells, index=native.index, name=native.name, dtype=object))

    def with_nulls(self, column: Column, where: Bools) -> Column:
        native = column.to_native()
        if isinstance(native.dtype, np.dtype) and native.dtype.kind in "biu":  # numpy's integers have no null
            native = native.convert_dtypes()
        return _wrap(native.where(~where, None if native.dtype == "object" else self.library.NA))


@final
class Polars(_Frames):
    name: ClassVar[str] = "polars"
    unreadable: ClassVar[dict[str, str]] = {"Object": "give the column a dtype of polars"}
    arguments: ClassVar[dict[str, tuple[str, ...]]] = {  # of dtypes that take any
        "Datetime": ("time_unit", "time_zone"),
        "Duration": ("time_unit",),
        "Decimal": ("precision", "scale"),
        "Enum": ("categories",),
    }

    def order(self, column: Column) -> list[Any] | None:
        return None  # an Enum fixes its levels; that they are ranked is not said

    def describe(self, column: Column) -> Any:
        dtype = self.dtype(column)
        name = type(dtype).__name__
        given = {each: getattr(dtype, each) for each in self.arguments.get(name, ())}
        return [name, {key: list(value) if key == "categories" else value for key, value in given.items()}]

    def empty(self, described: Any) -> Column:
        name, arguments = described
        return _wrap(self.library.Series([], dtype=getattr(self.library, name)(**arguments)))

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        series = self.library.Series(values.tolist() if values.dtype == object else values)
        return _wrap(series if like is None else series.cast(self.dtype(like)))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        dtype = self.dtype(column)
        if isinstance(dtype, self.library.Enum):
            wide = self.library.Enum([*dtype.categories, *_lacking(dtype.categories, values)])
            column = _wrap(column.to_native().cast(wide))
        return column.scatter(where, self.new(values, column))

    def with_nulls(self, column: Column, where: Bools) -> Column:
        native = column.to_native()
        nothing = self.library.repeat(None, len(native), dtype=native.dtype, eager=True)
        return _wrap(native.zip_with(self.library.Series(~where), nothing))


@final
class Arrow(_Frames):
    name: ClassVar[str] = "pyarrow"
    unreadable: ClassVar[dict[str, str]] = {"string_view": "cast it to string", "binary_view": "cast it to binary"}

    def dtype(self, column: Column) -> Any:
        return column.to_native().type

    def raw(self, column: Column, present: Bools) -> NDArray[Any]:
        dtype = self.dtype(column)
        if self._is_dictionary(dtype):  # before 25, pyarrow turns none with unsigned indices into an array
            column = _wrap(column.to_native().cast(self.library.dictionary(self.library.int64(), dtype.value_type)))
        return super().raw(column, present)

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return self.library.table({str(label): column.to_native() for label, column in columns.items()})

    def order(self, column: Column) -> list[Any] | None:
        dtype = self.dtype(column)
        return self._dictionary(column).to_pylist() if self._is_dictionary(dtype) and dtype.ordered else None

    def describe(self, column: Column) -> Any:
        dtype = self.dtype(column)
        dictionary = self._dictionary(column).to_pylist() if self._is_dictionary(dtype) else []
        return {"arrow": _dump_arrow(dtype), "categories": [*map(dump, dictionary)]}

    def empty(self, described: Any) -> Column:
        dtype, levels = _load_arrow(described["arrow"]), [*map(load, described["categories"])]
        if self._is_dictionary(dtype):
            nothing = self.library.chunked_array([], type=dtype.value_type)
            return self._encoded(nothing, dtype, self.library.array(levels, type=dtype.value_type))
        return _wrap(self.library.chunked_array([], type=dtype))

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        array = self.library.chunked_array([self.library.array(values)])
        if like is None:
            return _wrap(array)
        dtype = self.dtype(like)
        if self._is_dictionary(dtype):
            return self._encoded(array.cast(dtype.value_type), dtype, self._dictionary(self._widened(like, values)))
        return _wrap(array.cast(dtype))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        column = self._widened(column, values)
        old, new = (each.to_native() for each in (column, self.new(values, column)))
        both = self.library.chunked_array([*old.chunks, *new.chunks], type=old.type)
        rows = np.arange(len(column))
        rows[where] = len(column) + np.arange(len(where))
        return _wrap(both.take(self.library.array(rows)))

    def with_nulls(self, column: Column, where: Bools) -> Column:
        return _wrap(column.to_native().take(self.library.array(np.arange(len(column)), mask=where)))

    def _is_dictionary(self, dtype: Any) -> bool:
        return bool(self.library.types.is_dictionary(dtype))

    def _widened(self, column: Column, values: NDArray[Any]) -> Column:
        """The column with a dictionary that has all of `values`."""
        dtype = self.dtype(column)
        if not self._is_dictionary(dtype):
            return column
        dictionary = self._dictionary(column)
        lacking = self.library.array(_lacking(dictionary.to_pylist(), values), type=dtype.value_type)
        plain = column.to_native().cast(dtype.value_type)
        return self._encoded(plain, dtype, self.library.concat_arrays([dictionary, lacking]))

    def _dictionary(self, column: Column) -> Any:
        native = column.to_native().unify_dictionaries()  # each chunk may have its own
        return native.chunk(0).dictionary if native.num_chunks else self.library.array([], type=native.type.value_type)

    def _encoded(self, plain: Any, dtype: Any, dictionary: Any) -> Column:
        """Values as a dictionary column with just this dictionary; a wider index where it has outgrown its own."""
        indices = library("pyarrow.compute").index_in(plain, value_set=dictionary).combine_chunks()
        most = 2 ** (dtype.index_type.bit_width - 1)
        indices = indices.cast(dtype.index_type if len(dictionary) <= most else self.library.int32())
        array = self.library.DictionaryArray.from_arrays(indices, dictionary, ordered=dtype.ordered)
        return _wrap(self.library.chunked_array([array]))


def _dump_arrow(dtype: Any) -> str:
    """An Arrow dtype, of pyarrow or of pandas, as text: the schema message of Arrow's own format."""
    schema = library("pyarrow").schema([("", dtype)])
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _load_arrow(text: str) -> Any:
    buffer = library("pyarrow").py_buffer(base64.b64decode(text))
    return library("pyarrow.ipc").read_schema(buffer).field(0).type
