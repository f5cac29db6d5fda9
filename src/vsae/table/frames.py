"""Columns of pandas, by its own means, and of polars and pyarrow: through narwhals as far as it goes."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable, Sequence
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

    def categories(self, column: Column) -> list[Any]:
        return list(column.cat.get_categories().to_list())

    def as_categorical(self, column: Column) -> Column:
        return column if self.categorical(column) else column.cast(nw.Categorical())

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


def _categories(columns: Sequence[Column]) -> NDArray[np.object_]:
    """Of all the columns, the first's first."""
    return objects(value for column in columns for value in column.cat.get_categories().to_list())


def _lacking(categories: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """The values that are not among the categories, once each."""
    known = set(categories)
    return [value for value in dict.fromkeys(values) if value not in known]


@final
class Pandas(_Frames, HoldsArrays):
    """Columns are pandas' own series: through narwhals, one row of a table would take ten times as long."""

    name: ClassVar[str] = "pandas"
    unreadable: ClassVar[dict[str, str]] = {"Sparse": "call .sparse.to_dense()"}

    def nulls(self, column: Column) -> Bools:
        dtype = column.dtype
        if dtype.kind != "f":
            try:
                return np.array(column.array.isna(), dtype=np.bool_)
            except InvalidOperation:  # Decimal("sNaN"), which pandas compares with itself
                return object_nulls(column.to_list())
        if isinstance(dtype, np.dtype):
            return np.isnan(column.to_numpy())
        return np.isnan(column.to_numpy(dtype=np.float64, na_value=np.nan))  # pandas takes a NaN for a number, or not

    def raw(self, column: Column, present: Bools) -> NDArray[Any]:
        dtype = column.dtype
        if isinstance(dtype, np.dtype):
            return column.to_numpy()[present]
        if isinstance(dtype, self.library.CategoricalDtype):
            return np.asarray(dtype.categories)[column.array.codes[present]]
        if isinstance(dtype, self.library.StringDtype):
            return np.asarray(column.array[present], dtype=object)
        if isinstance(dtype, self.library.DatetimeTZDtype):  # narwhals does not know the names of all zones
            return column[present].dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return super().raw(_wrap(column), present)

    def categorical(self, column: Column) -> bool:
        return isinstance(column.dtype, self.library.CategoricalDtype)

    def categories(self, column: Column) -> list[Any]:
        return list(column.cat.categories)

    def as_categorical(self, column: Column) -> Column:
        return column if self.categorical(column) else column.astype("category")

    def order(self, column: Column) -> list[Any] | None:
        return list(column.dtype.categories) if self.categorical(column) and column.dtype.ordered else None

    def target(self, column: Column) -> np.dtype[Any]:
        dtype = column.dtype
        if isinstance(dtype, np.dtype):
            return dtype.newbyteorder("=") if dtype.kind in "biufMm" else np.dtype(object)
        if isinstance(dtype, self.library.DatetimeTZDtype):
            return np.dtype(f"M8[{dtype.unit}]")
        if isinstance(dtype, self.library.StringDtype):
            return np.dtype(str)
        return np.dtype(object) if self.categorical(column) else super().target(_wrap(column))

    def dtype(self, column: Column) -> Any:
        return nw.to_native(column, pass_through=True).dtype

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return self.library.DataFrame(columns)

    def describe(self, column: Column) -> Any:
        return self._describe(column.dtype)

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
        return self.library.Series([], dtype=self._dtype(described))

    def _dtype(self, described: Any) -> Any:
        if not isinstance(described, dict):
            return self.library.api.types.pandas_dtype(described)
        if "arrow" in described:
            return self.library.ArrowDtype(_load_arrow(described["arrow"]))
        categories = self.library.Index([*map(load, described["categories"])], dtype=self._dtype(described["of"]))
        return self.library.CategoricalDtype(categories, ordered=described["ordered"])

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        if like is None:
            return self.library.Series(values)
        dtype = like.dtype
        series = self.library.Series(values, dtype=object if dtype == "object" else None)
        if isinstance(dtype, self.library.DatetimeTZDtype):
            series = series.dt.tz_localize("UTC")
        return series.astype(dtype)

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        dtype = column.dtype
        if isinstance(dtype, np.dtype):
            cells = column.to_numpy(copy=True)
            cells[where] = values
        elif isinstance(dtype, self.library.CategoricalDtype):
            cells = self._filled_codes(column.array, where, values.tolist())
        else:
            cells = column.array.copy()
            of_text = isinstance(dtype, self.library.StringDtype)  # a series of one cell would take ten times as long
            cells[where] = self.library.array(values, dtype=dtype) if of_text else self.new(values, column).array
        return self._like(column, cells)

    def _like(self, column: Column, cells: Any) -> Column:
        """The cells as they are, which a frame takes as well, unless it would guess at their dtype: a series of one
        cell takes as long as all else that is done with it."""
        if cells.dtype != object:
            return cells
        return self.library.Series(cells, index=column.index, name=column.name, dtype=cells.dtype, copy=False)

    def _filled_codes(self, cells: Any, where: NDArray[np.int64], values: list[Any]) -> Any:
        """A categorical with all of `values` among its categories, which stay of the dtype they are of."""
        dtype = self._widened(cells.dtype, values)
        place = {category: code for code, category in enumerate(dtype.categories)}
        codes = cells.codes.astype(np.int64)
        codes[where] = [place[value] for value in values]
        return self.library.Categorical.from_codes(codes, dtype=dtype, validate=False)

    def _widened(self, dtype: Any, values: Iterable[Any]) -> Any:
        lacking = _lacking(dtype.categories, values)
        if not lacking:
            return dtype
        categories = self.library.Index([*dtype.categories, *lacking], dtype=dtype.categories.dtype)
        return self.library.CategoricalDtype(categories, dtype.ordered)

    def fill_objects(self, column: Column, where: NDArray[np.int64], values: NDArray[np.object_]) -> Column:
        return self._like(column, put_objects(column.astype(object).to_numpy(copy=True), where, values))

    def with_nulls(self, column: Column, where: Bools) -> Column:
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biu":  # numpy's integers have no null
            column = column.convert_dtypes()
        return column.where(~where, None if column.dtype == "object" else self.library.NA)

    def concat(self, columns: Sequence[Column]) -> Column:
        if self.categorical(columns[0]):
            every = [value for column in columns for value in self.categories(column)]
            columns = [column.astype(self._widened(columns[0].dtype, every)) for column in columns]
        return self.library.concat(columns, ignore_index=True)


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
            wide = self.library.Enum([*dtype.categories, *_lacking(dtype.categories, values.tolist())])
            column = _wrap(column.to_native().cast(wide))
        return column.scatter(where, self.new(values, column))

    def with_nulls(self, column: Column, where: Bools) -> Column:
        native = column.to_native()
        nothing = self.library.repeat(None, len(native), dtype=native.dtype, eager=True)
        return _wrap(native.zip_with(self.library.Series(~where), nothing))

    def concat(self, columns: Sequence[Column]) -> Column:
        natives = [column.to_native() for column in columns]
        if isinstance(natives[0].dtype, self.library.Enum):
            wide = self.library.Enum([*dict.fromkeys(_categories(columns).tolist())])
            natives = [x.cast(wide) for x in natives]
        return _wrap(self.library.concat(natives))


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

    def concat(self, columns: Sequence[Column]) -> Column:
        natives = [column.to_native() for column in columns]
        dtype = natives[0].type
        if not self._is_dictionary(dtype):
            return _wrap(self.library.chunked_array([chunk for x in natives for chunk in x.chunks], type=dtype))
        plain = self.library.chunked_array([chunk for x in natives for chunk in x.cast(dtype.value_type).chunks])
        every = self.library.concat_arrays([self._dictionary(column) for column in columns])
        return self._encoded(plain, dtype, every.unique())

    def _is_dictionary(self, dtype: Any) -> bool:
        return bool(self.library.types.is_dictionary(dtype))

    def _widened(self, column: Column, values: NDArray[Any]) -> Column:
        """The column with a dictionary that has all of `values`."""
        dtype = self.dtype(column)
        if not self._is_dictionary(dtype):
            return column
        dictionary = self._dictionary(column)
        lacking = self.library.array(_lacking(dictionary.to_pylist(), values.tolist()), type=dtype.value_type)
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
