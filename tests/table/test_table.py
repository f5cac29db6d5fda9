"""Any table in, the same table out: shape, names, dtypes and observed cells as they were, and no cell missing."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pytest

from vsae.data.schema import Kind
from vsae.table import (
    Binary,
    Categorical,
    Count,
    DataWarning,
    Date,
    Duration,
    Image,
    Integer,
    Keep,
    Ordinal,
    Positive,
    Real,
    Spec,
    Table,
    TableError,
    Time,
    spec_from_json,
)
from vsae.table.containers import view_of
from vsae.table.specs import as_spec

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

FRAMES = ["pandas", "polars", "pyarrow"]
N = 12
MISSING_ROWS = [1, 4, 9]


def filling(table: Table, X: Any, **options: Any) -> dict[str, np.ndarray]:
    """The poor man's model: the mean of the observed numbers, the commonest observed level."""
    encoded = table.encode(X, **options)
    filled = {}
    for j, variable in enumerate(table.schema.variables):
        x = encoded.columns[variable.name][encoded.mask[:, j]]
        if x.dtype == np.int64:
            best = float(np.bincount(x).argmax()) if len(x) else 0.0
        else:
            best = float(np.mean(x)) if len(x) else 1.0
        filled[variable.name] = np.full(encoded.n_rows, best)
    return filled


def impute(table: Table, X: Any, **options: Any) -> Any:
    return table.decode(X, filling(table, X, **options))


def lists(X: Any) -> dict[Any, list[Any]]:
    """Cells as Python objects, column by column; NaN is None."""
    if isinstance(X, dict):
        columns = {label: column.tolist() for label, column in X.items()}
    elif isinstance(X, np.ndarray):
        columns = {j: X[:, j].tolist() for j in range(X.shape[1])}
    elif isinstance(X, pd.DataFrame):
        columns = {label: X.iloc[:, j].tolist() for j, label in enumerate(X.columns)}
    else:
        frame = nw.from_native(X)
        columns = {label: frame[label].to_list() for label in frame.columns}
    return {label: [None if is_null(v) else v for v in cells] for label, cells in columns.items()}


def is_null(value: Any) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float | np.floating) and bool(np.isnan(value)))
    )


def dtypes(X: Any) -> Any:
    if isinstance(X, dict):
        return {label: column.dtype for label, column in X.items()}
    if isinstance(X, np.ndarray):
        return X.dtype
    if isinstance(X, pd.DataFrame):
        return X.dtypes.tolist()
    return X.schema


def assert_same_but_filled(before: Any, after: Any, unfilled: tuple[Any, ...] = ()) -> None:
    """The four promises."""
    assert type(after) is type(before)
    assert dtypes(after) == dtypes(before)
    if isinstance(before, pd.DataFrame):
        pd.testing.assert_index_equal(after.index, before.index)
        pd.testing.assert_index_equal(after.columns, before.columns)
    old, new = lists(before), lists(after)
    assert list(new) == list(old)
    for label, cells in old.items():
        assert len(new[label]) == len(cells)
        kept = [(repr(a), repr(b)) for a, b in zip(cells, new[label], strict=True) if a is not None]
        assert all(a == b for a, b in kept), label  # repr: -0.0 is not 0.0, 1 is not 1.0
        assert label in unfilled or None not in new[label], label


@pytest.fixture(autouse=True)
def _loud() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing may warn that a test does not ask for
        yield


# --- containers × dtypes ---------------------------------------------------------------------------------------------


def with_missing(values: list[Any]) -> list[Any]:
    cells = (values * N)[:N]
    return [None if i in MISSING_ROWS else cell for i, cell in enumerate(cells)]


ZONE = "Europe/Berlin"
STR = "str" if pd.__version__ >= "3" else "object"
MOMENTS = [dt.datetime(1955, 3, 1, 12, 30), dt.datetime(2020, 2, 29, 1), dt.datetime(1969, 12, 31, 23, 59, 59)]
DAYS = [dt.date(1901, 1, 31), dt.date(2024, 2, 29), dt.date(1969, 7, 20)]
SPANS = [dt.timedelta(days=2), dt.timedelta(seconds=-5), dt.timedelta(milliseconds=3)]
CLOCKS = [dt.time(0), dt.time(23, 59, 59), dt.time(12, 0, 1)]
MONEY = [Decimal("1.10"), Decimal("-20.05"), Decimal("3.00")]

# name → values, and the dtype in each library; the kind that is expected
CASES: dict[str, tuple[list[Any], Any, Any, Any, Kind]] = {
    "int64": ([3, 0, 7, 5], "Int64", pl.Int64, pa.int64(), Kind.COUNT),
    "int8": ([-3, 0, 7], "Int8", pl.Int8, pa.int8(), Kind.COUNT),
    "uint8": ([3, 0, 255], "UInt8", pl.UInt8, pa.uint8(), Kind.COUNT),
    "uint64": ([2**63 + 1, 2**63 + 3, 5], "UInt64", pl.UInt64, pa.uint64(), Kind.REAL),
    "big": ([2**60 + 1, 2**60 + 3, 2**60 - 5], "Int64", pl.Int64, pa.int64(), Kind.COUNT),
    "int128": ([1, 2, 3], "Int64", pl.Int128, pa.int64(), Kind.COUNT),
    "two": ([1, 2], "Int32", pl.Int32, pa.int32(), Kind.BINARY),
    "wide": ([0, 5_000_000, 33], "Int64", pl.Int64, pa.int64(), Kind.REAL),
    "float64": ([0.1, -0.0, 1e100, 1e-300], "float64", pl.Float64, pa.float64(), Kind.REAL),
    "float32": ([0.1, 2.5, 3.5], "float32", pl.Float32, pa.float32(), Kind.REAL),
    "Float32": ([0.5, 2.5, 3.5], "Float32", pl.Float32, pa.float32(), Kind.REAL),
    "float16": ([0.5, 2.5, 3.5], "float16", pl.Float32, pa.float16(), Kind.REAL),
    "whole": ([1.0, 2.0, 5.0], "float64", pl.Float64, pa.float64(), Kind.COUNT),
    "bool": ([True, False, True], "boolean", pl.Boolean, pa.bool_(), Kind.BINARY),
    "yes": ([True], "boolean", pl.Boolean, pa.bool_(), Kind.BINARY),
    "str": (["a", "", "ß"], STR, pl.String, pa.string(), Kind.CATEGORICAL),
    "string": (["a", "b"], "string", pl.String, pa.large_string(), Kind.BINARY),
    "python": (["a", "b", "c"], "string[python]", pl.String, pa.string(), Kind.CATEGORICAL),
    "object": (["a", "b", "c"], "object", pl.String, pa.string(), Kind.CATEGORICAL),
    "category": (
        ["b", "a", "c"],
        pd.CategoricalDtype(["never", "c", "b", "a"]),
        pl.Categorical,
        pa.dictionary(pa.int8(), pa.string()),
        Kind.CATEGORICAL,
    ),
    "enum": (
        ["b", "a", "c"],
        "category",
        pl.Enum(["never", "c", "b", "a"]),
        pa.dictionary(pa.uint16(), pa.large_string()),
        Kind.CATEGORICAL,
    ),
    "date": (DAYS, "object", pl.Date, pa.date32(), Kind.COUNT),
    "date64": (DAYS, pd.ArrowDtype(pa.date32()), pl.Date, pa.date64(), Kind.COUNT),
    "datetime": (MOMENTS, "datetime64[ns]", pl.Datetime("ms"), pa.timestamp("s"), Kind.REAL),
    "datetime_us": (MOMENTS, "datetime64[us]", pl.Datetime("ns"), pa.timestamp("ns"), Kind.REAL),
    "datetime_s": (MOMENTS, "datetime64[s]", pl.Datetime("us"), pa.timestamp("us"), Kind.REAL),
    "zoned": (
        MOMENTS,
        f"datetime64[us, {ZONE}]",
        pl.Datetime("us", ZONE),
        pa.timestamp("us", ZONE),
        Kind.REAL,
    ),
    "duration": (SPANS, "timedelta64[us]", pl.Duration("ms"), pa.duration("ms"), Kind.REAL),
    "time": (CLOCKS, "object", pl.Time, pa.time64("us"), Kind.COUNT),
    "time32": (CLOCKS, pd.ArrowDtype(pa.time64("us")), pl.Time, pa.time32("s"), Kind.COUNT),
    "decimal": (MONEY, "object", pl.Decimal(10, 2), pa.decimal128(10, 2), Kind.REAL),
    "decimal256": (MONEY, pd.ArrowDtype(pa.decimal128(9, 2)), pl.Decimal(38, 2), pa.decimal256(50, 2), Kind.REAL),
    "objects": ([1, 2.5, 4], "object", pl.Float64, pa.float64(), Kind.REAL),
    "flags": ([True, False], "object", pl.Boolean, pa.bool_(), Kind.BINARY),
}
ARROW_IN_PANDAS = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.timestamp("ns", ZONE), pa.duration("us")]


def make(container: str, columns: dict[str, tuple[list[Any], Any]]) -> Any:
    if container == "pandas":
        made = {}
        for name, (values, dtype) in columns.items():
            if isinstance(dtype, str) and dtype.startswith("datetime64") and ZONE in dtype:
                made[name] = pd.Series(values, dtype="datetime64[us]").dt.tz_localize(ZONE).astype(dtype)
            else:
                made[name] = pd.Series(values, dtype=dtype)
        return pd.DataFrame(made).set_axis([f"row{i}" for i in range(len(next(iter(made.values()))))], axis=0)
    if container == "polars":
        zoned = {name: dtype for name, (_, dtype) in columns.items() if getattr(dtype, "time_zone", None)}
        plain = {
            name: pl.Series(values, dtype=pl.Datetime(dtype.time_unit) if name in zoned else dtype)
            for name, (values, dtype) in columns.items()
        }
        return pl.DataFrame(plain).with_columns(*(pl.col(name).dt.replace_time_zone(ZONE) for name in zoned))
    arrays = {}
    for name, (values, dtype) in columns.items():
        half = len(values) // 2  # in two chunks
        arrays[name] = pa.chunked_array([arrow(values[:half], dtype), arrow(values[half:], dtype)])
    return pa.table(arrays)


def arrow(values: list[Any], dtype: Any) -> Any:
    """A dictionary by way of its values: before 25, pyarrow makes few kinds of dictionaries from lists."""
    if not pa.types.is_dictionary(dtype):
        return pa.array(values, type=dtype)
    coded = pa.array(values, type=dtype.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.cast(dtype.index_type), coded.dictionary)


def case(container: str, name: str) -> tuple[list[Any], Any]:
    values, *by_library, _ = CASES[name]
    return with_missing(values), by_library[FRAMES.index(container)]


@pytest.fixture(params=FRAMES)
def container(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestRoundTrip:
    @pytest.mark.parametrize("name", CASES)
    def test_a_column_of_each_dtype(self, container: str, name: str) -> None:
        X = make(container, {"x": case(container, name)})
        table = Table.fit(X)
        assert table.plans[0].kind is CASES[name][-1]
        assert_same_but_filled(X, impute(table, X))

    def test_all_of_them_in_one_table_twice(self, container: str) -> None:
        X = make(container, {name: case(container, name) for name in CASES})
        table = Table.fit(X)
        once = impute(table, X)
        assert_same_but_filled(X, once)
        assert_same_but_filled(once, impute(table, once))

    def test_categories_that_are_numbers_or_dates(self) -> None:
        coded = pa.array(with_missing([30, 10, 20])).dictionary_encode()
        for X in (
            pd.DataFrame({"x": pd.Series(with_missing([30, 10, 20]), dtype=pd.CategoricalDtype([30, 20, 10]))}),
            pd.DataFrame({"x": pd.Series(with_missing(MOMENTS)).astype("category")}),
            pa.table({"x": coded}),
        ):
            table = Table.from_json(json.loads(json.dumps(Table.fit(X).to_json())))
            assert table.plans[0].kind is Kind.CATEGORICAL
            assert_same_but_filled(X, impute(table, X))
            assert dtypes(table.frame({"x": np.zeros(2)}, n=2)) == dtypes(X)

    @pytest.mark.parametrize("arrow", ARROW_IN_PANDAS, ids=str)
    def test_pandas_columns_that_arrow_holds(self, arrow: Any) -> None:
        values = {pa.int64(): [2**60 + 1, 3, 5], pa.float64(): [0.5, 1.5], pa.bool_(): [True, False]}.get(arrow)
        values = values or {pa.string(): ["a", "b"], pa.duration("us"): SPANS}.get(arrow, MOMENTS)
        X = pd.DataFrame({"x": pd.Series(with_missing(values), dtype=pd.ArrowDtype(arrow))})
        assert_same_but_filled(X, impute(Table.fit(X), X))

    @pytest.mark.parametrize("name", CASES)
    def test_a_column_the_new_rows_lack_is_made_whole(self, container: str, name: str) -> None:
        X = make(container, {"x": case(container, name), "y": case(container, "int8")})
        lacking = nw.from_native(X).drop("x").to_native()
        table = Table.fit(X)
        filled = impute(table, lacking)
        assert list(nw.from_native(filled).columns) == ["y", "x"]
        assert None not in lists(filled)["x"]
        there = nw.from_native(X).select("y", "x").to_native()
        assert dtypes(filled) == dtypes(there)

    @pytest.mark.parametrize("name", CASES)
    def test_generated_rows_have_the_dtypes_of_fit(self, container: str, name: str) -> None:
        X = make(container, {"x": case(container, name)})
        table = Table.from_json(json.loads(json.dumps(Table.fit(X).to_json())))
        columns = {key: x[:5] for key, x in filling(table, X).items()}
        rows = table.frame(columns, n=5)
        assert dtypes(rows) == dtypes(X)
        assert None not in lists(rows)["x"]
        mask = np.array([True, False, True, False, False])[:, None]
        assert [cell is None for cell in lists(table.frame(columns, mask, n=5))["x"]] == (~mask[:, 0]).tolist()

    @pytest.mark.parametrize("name", CASES)
    def test_the_same_after_json(self, container: str, name: str) -> None:
        X = make(container, {"x": case(container, name)})
        table = Table.fit(X)
        again = Table.from_json(json.loads(json.dumps(table.to_json())))
        assert again == table
        assert again.schema == table.schema
        assert lists(impute(again, X)) == lists(impute(table, X))


ARRAYS = {
    "float64": np.array([[1.0, np.nan, 5.0], [2.0, 0.5, np.nan], [np.nan, 0.25, -5.0]]),
    "float32": np.array([[1.0, np.nan], [2.0, 0.5], [np.nan, 0.1]], dtype=np.float32),
    "float16": np.array([[1.0, np.nan], [2.0, 0.5]], dtype=np.float16),
    "fortran": np.asfortranarray(np.array([[1.0, np.nan], [2.0, 0.5]])),
    "big endian": np.array([[1.0, np.nan], [2.0, 0.5]], dtype=">f8"),
    "integers": np.array([[1, 2], [3, 4], [5, 6]]),
    "bool": np.array([[True, False], [False, False]]),
    "objects": np.array([[1, "a", None], [None, "b", 2.5], [3, None, np.nan], [7, "c", 0.1]], dtype=object),
    "text": np.array([["a", "x"], ["bb", "y"]]),
}
DICTS = {
    "float": np.array([0.5, np.nan, 2.5]),
    "longdouble": np.array([0.5, np.nan, 2.5], dtype=np.longdouble),
    "float32": np.array([0.5, np.nan, 2.5], dtype=np.float32),
    "int": np.array([1, 2, 3]),
    "bool": np.array([True, False, True]),
    "U": np.array(["a", "b", "c"]),
    "str": np.array(["a", None, "c"], dtype=object),
    "nan": np.array(["a", np.nan, "c"], dtype=object),
    "NA": np.array([3, pd.NA, 5], dtype=object),
    "NaT": np.array([dt.date(1900, 1, 1), pd.NaT, dt.date(1900, 1, 3)], dtype=object),
    "M8[ns]": np.array(["1950-01-01T00:00:01", "NaT", "2020-01-01"], dtype="M8[ns]"),
    "M8[M]": np.array(["1950-01", "NaT", "2020-07"], dtype="M8[M]"),
    "m8[h]": np.array([5, "NaT", 7], dtype="m8[h]"),
    "decimal": np.array([Decimal("1.5"), None, Decimal("2.5")], dtype=object),
    "datetime": np.array([dt.datetime(1950, 1, 1), None, dt.datetime(2020, 1, 1)], dtype=object),
    "time": np.array([dt.time(1), None, dt.time(2)], dtype=object),
    "timedelta": np.array([dt.timedelta(1), None, dt.timedelta(2)], dtype=object),
}


class TestArrays:
    @pytest.mark.parametrize("name", ARRAYS)
    def test_two_dimensions(self, name: str) -> None:
        X = ARRAYS[name]
        table = Table.fit(X)
        filled = impute(table, X)
        assert_same_but_filled(X, filled)
        assert filled is not X
        again = Table.from_json(json.loads(json.dumps(table.to_json())))
        assert again.frame({name: np.zeros(4) for name in again.schema.names}, n=4).dtype == X.dtype

    def test_float_columns_are_real_whatever_they_look_like(self) -> None:
        X = np.array([[0.0, 1.0, 7.0], [1.0, 2.0, 7.0], [np.nan, 3.0, -7.0]])
        table = Table.fit(X)
        assert [plan.kind for plan in table.plans] == [Kind.REAL] * 3
        assert [plan.min for plan in table.plans] == [0.0, 0.0, None]
        assert table.schema.names == ["x0", "x1", "x2"]
        assert impute(table, X)[2, 0] == 0.5

    def test_a_column_without_values_becomes_zero(self) -> None:
        X = np.array([[np.nan, 1.0], [np.nan, np.nan]], dtype=np.float32)
        with pytest.warns(DataWarning, match=r"0 \(no value to learn from, its missing cells become 0\)"):
            table = Table.fit(X)
        filled = impute(table, X)
        assert filled.tolist() == [[0.0, 1.0], [0.0, 1.0]]
        assert filled.dtype == np.float32
        assert table.frame({"x1": np.ones(3)}, n=3).tolist() == [[0.0, 1.0]] * 3

    def test_width_is_fixed(self) -> None:
        table = Table.fit(np.eye(4))
        for method in (table.encode, lambda X: table.decode(X, {})):
            with pytest.raises(TableError, match="X has 3 features, but VSAEImputer is expecting 4 features as input"):
                method(np.eye(3))

    def test_frames_and_arrays_meet_by_position(self) -> None:
        frame = pd.DataFrame({"a": [1.5, None], "b": [None, 2.5]})
        assert impute(Table.fit(frame), frame.to_numpy()).tolist() == [[1.5, 2.5], [1.5, 2.5]]
        assert impute(Table.fit(frame.to_numpy()), frame).to_numpy().tolist() == [[1.5, 2.5], [1.5, 2.5]]

    @pytest.mark.parametrize("name", DICTS)
    def test_a_dict_of_columns(self, name: str) -> None:
        X = {"x": DICTS[name]}
        table = Table.fit(X)
        assert_same_but_filled(X, impute(table, X))
        columns = {"x": np.zeros(2)}
        assert table.frame(columns, n=2)["x"].dtype.kind == DICTS[name].dtype.kind
        assert is_null(table.frame(columns, np.array([[True], [False]]), n=2)["x"].tolist()[1])

    def test_text_may_grow(self) -> None:
        table = Table.fit({"x": np.array(["a", "long", "long", "?"])}, missing_values={"x": "?"})
        assert table.decode({"x": np.array(["?"])}, {"x": np.array([1])})["x"].tolist() == ["long"]
        table = Table.fit(np.array([["long"], ["a"], ["?"]]), missing_values={0: "?"})
        assert table.decode(np.array([["?"]]), {"x0": np.array([1])}).tolist() == [["long"]]

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.zeros(3), "Expected 2D array, got 1D array"),
            ({"a": np.zeros(2), "b": np.zeros(3)}, "column 'b' has 3 rows, the first column has 2"),
            ({"a": np.zeros((2, 2))}, "column 'a' has 2 dimensions"),
            ({"a": 5}, "column 'a' has 0 dimensions; give a list"),
            ({"a": [[1], [1, 2]]}, "column 'a' has rows of different lengths; make them equal"),
            ([[1], [1, 2]], "X has rows of different lengths; make them equal"),
            (np.ma.masked_array([[1.0]], [[True]]), r"X is a masked array; call \.filled"),
            ({"a": np.ma.masked_array([1.0], [True])}, r"column 'a' is a masked array; call \.filled"),
            (pd.Series([1.0]), "to_frame"),
            (pl.LazyFrame({"a": [1]}), "collect"),
            (None, "Expected 2D array"),
            (np.zeros((0, 3)), "0 rows and 3 columns"),
            (np.zeros((3, 0)), "3 rows and 0 columns"),
        ],
    )
    def test_what_is_no_table(self, X: Any, message: str) -> None:
        with pytest.raises(TableError, match=message):
            Table.fit(X)


# --- odd tables ------------------------------------------------------------------------------------------------------


class TestOddTables:
    def test_no_rows(self, container: str) -> None:
        full = make(container, {name: case(container, name) for name in CASES})
        table = Table.fit(full)
        none = nw.from_native(full).head(0).to_native()
        with pytest.raises(TableError, match="the table has 0 rows"):
            Table.fit(none)
        encoded = table.encode(none)
        assert encoded.mask.shape == (0, len(CASES))
        assert_same_but_filled(none, table.decode(none, encoded.columns))

    def test_one_row_one_column(self, container: str) -> None:
        X = make(container, {"x": ([2.5], {"pandas": "float64", "polars": pl.Float64}.get(container, pa.float64()))})
        table = Table.fit(X)
        incomplete = make(
            container, {"x": ([None], {"pandas": "float64", "polars": pl.Float64}.get(container, pa.float64()))}
        )
        assert lists(impute(table, incomplete)) == {"x": [2.5]}

    def test_a_column_and_a_row_without_values(self, container: str) -> None:
        dtype = {"pandas": "Float64", "polars": pl.Float64}.get(container, pa.float64())
        X = make(container, {"x": ([1.5, None, 2.5], dtype), "none": ([None, None, None], dtype)})
        with pytest.warns(DataWarning, match=r"'none' \(no value to learn from\)") as caught:
            table = Table.fit(X)
        assert len(caught) == 1
        assert_same_but_filled(X, impute(table, X), unfilled=("none",))

    @pytest.mark.parametrize(("value", "kind"), [(7, Kind.COUNT), (0.3, Kind.REAL), ("a", Kind.CATEGORICAL)])
    def test_a_constant_column_is_filled_with_its_constant(self, value: Any, kind: Kind) -> None:
        X = pd.DataFrame({"x": [value, None, value]})
        table = Table.fit(X)
        assert table.plans[0].kind is kind
        codes = np.zeros(3) if kind is Kind.CATEGORICAL else np.full(3, 0.29876)
        assert table.decode(X, {"x": codes})["x"].tolist() == [value] * 3

    @pytest.mark.parametrize(
        "X",
        [
            pd.DataFrame([[1, 2.0]], columns=["a", "a"]),
            pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        ],
        ids=["pandas", "pyarrow"],
    )
    def test_duplicate_names(self, X: Any) -> None:
        with pytest.raises(TableError, match="column 'a' appears 2 times; rename or drop all but one"):
            Table.fit(X)

    def test_names_that_are_no_strings(self) -> None:
        labels = [1, "1", ("a", 2), 2.5, dt.date(2020, 1, 1), None]
        X = pd.DataFrame([[1.5] * 6, [None] * 6, [2.5] * 6]).set_axis(pd.Index(labels, dtype=object), axis=1)
        X.columns.name = "labels"
        table = Table.fit(X, schema={("a", 2): "positive"}, missing_values={2.5: [2.5]})
        assert table.schema.names == ["1", "1'", "('a', 2)", "2.5", "2020-01-01", "None"]
        assert table.plans[2].kind is Kind.POSITIVE
        assert_same_but_filled(X.drop(columns=2.5), impute(table, X).drop(columns=2.5))
        assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table
        lacking = X.drop(columns=[1, ("a", 2)])
        assert list(impute(table, lacking).columns) == ["1", 2.5, dt.date(2020, 1, 1), None, 1, ("a", 2)]

    def test_two_levels_of_names_and_of_rows(self) -> None:
        columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")], names=["upper", "lower"])
        rows = pd.MultiIndex.from_product([["r", "s"], [1, 2]], names=["k", "i"])
        X = pd.DataFrame([[1.5, 2, None], [None, 3, 1], [2.5, None, 0], [0.5, 4, 2]], index=rows, columns=columns)
        X.attrs["source"] = "clinic"
        table = Table.fit(X)
        filled = impute(table, X)
        assert_same_but_filled(X, filled)
        assert filled.attrs == X.attrs
        lacking = X.drop(columns=[("a", "y")])
        assert list(impute(table, lacking).columns) == [("a", "x"), ("b", "x"), ("a", "y")]

    def test_rows_with_the_same_name(self) -> None:
        X = pd.DataFrame({"x": [1.5, None, 2.5], "c": ["a", "b", None]}, index=["r", "r", "r"])
        assert_same_but_filled(X, impute(Table.fit(X), X))

    def test_a_category_with_very_many_levels(self, container: str) -> None:
        levels = [f"level {i % 100_000}" for i in range(150_000)]
        dtype = {"pandas": "category", "polars": pl.Categorical}.get(container, pa.dictionary(pa.int32(), pa.string()))
        number = {"pandas": "float64", "polars": pl.Float64}.get(container, pa.float64())
        X = make(container, {"c": (levels, dtype), "x": ([0.5] * 150_000, number)})
        with pytest.warns(DataWarning, match=r"'c' \(100000 levels\)"):
            table = Table.fit(X)
        assert_same_but_filled(X, impute(table, X))

    def test_the_largest_and_the_smallest_numbers(self) -> None:
        X = pd.DataFrame({"x": [1e100, None, -1e100, 5e99], "y": [1e-300, 3e-300, None, 2.5e-300]})
        table = Table.fit(X)
        assert_same_but_filled(X, impute(table, X))
        narrow = pd.DataFrame({"x": np.array([1.5, np.nan], np.float32), "y": [0.5, 0.5]})
        filled = table.decode(narrow, {"x": np.full(2, 1e100), "y": np.zeros(2)})
        assert filled["x"].iloc[1] == np.finfo(np.float32).max

    def test_infinities_are_kept_and_not_shown_to_the_model(self, container: str) -> None:
        dtype = {"pandas": "float64", "polars": pl.Float64}.get(container, pa.float64())
        X = make(container, {"x": ([0.5, math.inf, None, -math.inf, 1.5], dtype)})
        table = Table.fit(X)
        with pytest.warns(DataWarning, match=r"column 'x': inf \(and 1 more value\) is not finite") as caught:
            filled = impute(table, X)
        assert len(caught) == 1
        assert lists(filled)["x"] == [0.5, math.inf, 1.0, -math.inf, 1.5]
        with pytest.raises(TableError, match=r"column 'x': inf .* pass handle_unknown='keep'"):
            table.encode(X, handle_unknown="error")

    def test_columns_that_no_likelihood_speaks_of(self) -> None:
        n = 60
        X = pd.DataFrame(
            {
                "mixed": [1, "a", None] * 20,
                "lists": [[1], None, [2, 3]] * 20,
                "dicts": [{"a": 1}, None, {}] * 20,
                "bytes": [b"x", None, b"y"] * 20,
                "complex": [1j, None, 2j] * 20,
                "text": [f"note {i}" if i % 7 else None for i in range(n)],
                "long": ["lorem ipsum " * 20 + str(i % 3) for i in range(n)],
                "key": [f"{i:05d}" for i in range(n)],
                "customer_id": range(1000, 1000 + n),
                "period": pd.period_range("2020-01", periods=n, freq="M"),
                "sparse": pd.arrays.SparseArray([0.0, 1.0, np.nan] * 20),
                "aware": pd.Series([dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)] * n, dtype=object),
                "infinite": [math.inf, None, -math.inf] * 20,
                "x": [0.5, None, 1.5] * 20,
            }
        )
        with pytest.warns(DataWarning) as caught:
            table = Table.fit(X)
        assert len(caught) == 1
        for reason in (
            "'mixed' (mixed types: int, str)",
            "'lists' (nested values)",
            "'dicts' (nested values)",
            "'bytes' (bytes values)",
            "'complex' (complex128 values)",
            "'text' (an identifier: 51 values, all distinct)",
            "'long' (free text: 3 distinct values",
            "'key' (an identifier: 60 values, all distinct)",
            "'customer_id' (an identifier: 60 whole numbers, all distinct)",
            "'period' (Period values)",
            "'sparse' (values of dtype Sparse[float64, nan]; call .sparse.to_dense())",
            "'aware' (datetimes with zones as Python objects",
            "'infinite' (no value within ±1e+100)",
        ):
            assert reason in str(caught[0].message)
        assert table.schema.names == ["x"]
        assert_same_but_filled(X, impute(table, X), unfilled=tuple(X.columns[:-1]))

    def test_nested_and_binary_columns_of_polars_and_arrow(self) -> None:
        columns = {"l": [[1], None], "s": [{"a": 1}, None], "b": [b"x", None], "n": [None, None], "x": [0.5, None]}
        for X in (pl.DataFrame(columns), pa.table(columns)):
            with pytest.warns(DataWarning, match="'l' .*'s' .*'b' .*'n' "):
                table = Table.fit(X)
            assert_same_but_filled(X, impute(table, X), unfilled=("l", "s", "b", "n"))
        X = pa.table({"v": pa.array(["a", None], pa.string_view()), "x": [0.5, None]})
        with pytest.warns(DataWarning, match=r"'v' \(values of dtype string_view; cast it to string\)"):
            Table.fit(X)

    def test_numbers_that_float64_has_no_place_for(self) -> None:
        for huge in ([10**400, 3], [10**400, 0.5]):
            with pytest.warns(DataWarning, match=r"'x' \(numbers too large for float64\)"):
                Table.fit({"x": np.array(huge, dtype=object), "y": np.array([0.5, 1.5])})

    def test_tables_of_narwhals_come_back_as_what_they_wrap(self, container: str) -> None:
        X = make(container, {"x": case(container, "float64"), "c": case(container, "category")})
        table = Table.fit(nw.from_native(X))
        assert table == Table.fit(X)
        assert_same_but_filled(X, impute(table, nw.from_native(X)))

    def test_nothing_to_model(self) -> None:
        with pytest.raises(TableError, match=r"no column can be modelled: 'x' \(no value to learn from\)"):
            Table.fit(pd.DataFrame({"x": [None, None]}))
        with pytest.raises(TableError, match="no column can be modelled: all are kept"):
            Table.fit(pd.DataFrame({"x": [1, 2]}), schema={"x": "keep"})

    @pytest.mark.parametrize("kind", ["pandas", "array"])
    def test_five_thousand_columns(self, kind: str) -> None:
        X = np.random.default_rng(0).normal(size=(6, 5000))
        X[::2, ::3] = np.nan
        table_of = pd.DataFrame(X) if kind == "pandas" else X
        table = Table.fit(table_of)
        assert_same_but_filled(table_of, impute(table, table_of))

    def test_a_million_rows_take_seconds(self) -> None:
        n, rng = 1_000_000, np.random.default_rng(0)
        text = pl.Series(["a", "b", "c", None]).gather(rng.integers(0, 4, n))
        X = pl.DataFrame({"text": text, "x": rng.normal(size=n), "k": rng.integers(0, 9, n)})
        start = time.process_time()
        Table.fit(X).encode(X)
        assert time.process_time() - start < 5  # 20 columns: some 3 s on an idle core

    def test_dates_are_counted_in_the_coarsest_unit(self) -> None:
        stamps = pd.to_datetime(["1931-05-01", None, "1970-01-01", "2020-02-29"])
        cases = {"D": stamps, "h": stamps + pd.Timedelta(hours=1), "ns": stamps + pd.Timedelta(nanoseconds=1)}
        for unit, values in cases.items():
            X = pd.DataFrame({"x": values})
            table = Table.fit(X)
            assert table.plans[0].unit == unit
            filled = impute(table, X)
            assert_same_but_filled(X, filled)
            assert filled["x"].dt.floor(f"1{unit}").equals(filled["x"])

    def test_what_lies_beyond_the_calendar_stops_at_its_end(self) -> None:
        X = {
            "ns": np.array(["2000-01-01", "NaT"], "M8[ns]"),
            "us": np.array(["2000-01-01", "NaT"], "M8[us]"),
            "date": np.array([dt.date(2000, 1, 1), None], object),
            "span": np.array([dt.timedelta(1), None], object),
        }
        later = {
            name: x[:1] + (dt.timedelta(1) if x.dtype == object else np.timedelta64(1, "D")) for name, x in X.items()
        }
        table = Table.fit({name: np.concatenate([x, later[name]]) for name, x in X.items()})
        for far in (-1e30, 1e30):
            filled = table.decode(X, {name: np.full(2, far) for name in X})
            assert_same_but_filled(X, filled)
            assert isinstance(filled["date"][1], dt.date)

    def test_decimals_keep_their_digits(self) -> None:
        X = pl.DataFrame({"x": [Decimal("99.95"), None, Decimal("0.05")]}, schema={"x": pl.Decimal(4, 2)})
        table = Table.fit(X)
        assert lists(table.decode(X, {"x": np.full(3, 1e6)}))["x"][1] == Decimal("99.99")
        assert lists(table.decode(X, {"x": np.full(3, 1 / 3)}))["x"][1] == Decimal("0.33")

    def test_bins_of_pandas_cut(self) -> None:
        X = pd.DataFrame({"x": pd.cut(pd.Series([1.0, 2.0, None, 9.0, 5.0]), 3)})
        table = Table.fit(X)
        assert table.plans[0].kind is Kind.ORDINAL
        again = Table.from_json(json.loads(json.dumps(table.to_json())))
        assert_same_but_filled(X, impute(again, X))


class TestGeneration:
    X = pd.DataFrame(
        {1: [1.5, None, 2.5], "c": ["a", "b", None], "d": pd.to_datetime(["2020-01-01", None, "2020-01-03"])}
    )

    @pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict", "array"])
    def test_into_another_container(self, kind: str) -> None:
        table = Table.fit(self.X)
        columns = {"1": np.array([0.5, 1.0]), "c": np.array([1, 0]), "d": np.array([18262, 18263])}
        rows = table.frame(columns, np.array([[True, True, True], [False, False, False]]), n=2, container=kind)
        cells = lists(rows)
        assert list(cells) == {"pandas": [1, "c", "d"], "array": [0, 1, 2]}.get(kind, ["1", "c", "d"])
        (x, none), (c, nothing), (d, never) = cells.values()
        assert (x, none, c, nothing, never) == (0.5, None, "b", None, None)
        assert str(d).startswith("2020-01-01")
        if kind == "array":
            numbers = Table.fit(self.X[[1]]).frame({"1": np.zeros(2)}, n=2, container="array")
            assert numbers.dtype == np.float64

    def test_containers_that_are_not_known(self) -> None:
        with pytest.raises(TableError, match="container must be one of array, dict, pandas"):
            Table.fit(self.X).frame({}, n=0, container="excel")

    def test_columns_that_are_not_modelled(self) -> None:
        table = Table.fit(self.X, schema={"c": "keep"})
        assert list(table.frame({"1": np.zeros(2), "d": np.zeros(2)}, n=2).columns) == [1, "d"]
        table = Table.fit(np.array([[1, 2], [3, 4]]), schema={"x1": "keep"})
        np.testing.assert_array_equal(table.frame({"x0": np.array([5.4])}, n=1), [[5.0, np.nan]])

    def test_values_of_single_columns(self) -> None:
        table = Table.fit(self.X, missing_values={"c": "?"})
        given = {1: 3, "c": "b", "d": dt.datetime(2020, 1, 2)}
        assert table.values(given) == {"1": 3.0, "c": 1, "d": 18263.0}
        assert table.values({"1": 3, "d": dt.date(2020, 1, 2)}) == {"1": 3.0, "d": 18263.0}
        for bad, message in [
            ({"nope": 1}, "column 'nope' is not modelled; the columns that are: '1', 'c', 'd'"),
            ({"c": "z"}, "column 'c': 'z' was not seen in fit; it has 2 levels: a, b"),
            ({1: -1}, "column 1: -1 lies outside 0 … ∞"),
            ({1: math.nan}, "column 1: nan stands for a missing value"),
            ({"c": "?"}, "column 'c': '?' stands for a missing value"),
            ({1: "a"}, "column 1: 'a' was given; it takes number values"),
            ({1: [1]}, "column 1: nested values"),
        ]:
            with pytest.raises(TableError, match=re.escape(message)):
                table.values(bad)

    def test_values_of_numpy_and_moments_with_a_zone(self) -> None:
        table = Table.fit(self.X)
        for moment in (np.datetime64("2020-01-02", "ns"), dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc)):
            assert table.values({"d": moment, 1: np.float32(0.5)}) == {"d": 18263.0, "1": 0.5}

    def test_values_as_a_person_writes_them(self) -> None:
        spans = np.array([3, 5, 9], dtype="m8[h]")
        X = self.X.assign(t=[dt.time(1), dt.time(2), dt.time(5)], s=spans)
        plans = {plan.name: plan for plan in Table.fit(X).plans}
        for name, text, value, wrong in [
            ("1", "2.5", 2.5, "is not a number such as 12.5"),
            ("d", "2020-01-02T00:00:00.000000001", dt.datetime(2020, 1, 2), "is not a date such as 2024-05-17"),
            ("t", "13:45", dt.time(13, 45), "is not a time such as 13:45"),
            ("s", "7200", dt.timedelta(hours=2), "is not a number of seconds"),
        ]:
            assert plans[name].parse(text) == value
            with pytest.raises(TableError, match=f"column .*: 'soon' {wrong}"):
                plans[name].parse("soon")
        assert plans["c"].parse("b") == "b"


# --- inference and overrides -----------------------------------------------------------------------------------------


class TestInference:
    @pytest.mark.parametrize(
        ("values", "kind", "bounds"),
        [
            ([1, 2, 3], Kind.COUNT, (0, None)),
            ([-1, 2, 3], Kind.COUNT, (None, None)),
            ([0, 1, 1], Kind.BINARY, (None, None)),
            ([5.0, 7.0, None], Kind.BINARY, (None, None)),
            ([5.0, 7.0, 8.0], Kind.COUNT, (0, None)),
            ([5.5, 7.0, 8.0], Kind.REAL, (0, None)),
            ([-5.5, 7.0, 8.0], Kind.REAL, (None, None)),
            ([0, 10**9, 5], Kind.REAL, (0, None)),
            ([1e16, 3e16, 1e17], Kind.REAL, (0, None)),
            ([True, False, None], Kind.BINARY, (None, None)),
            (["a", "b", None], Kind.BINARY, (None, None)),
            (["a", "b", "c"], Kind.CATEGORICAL, (None, None)),
            ([dt.time(1), dt.time(5), dt.time(3)], Kind.COUNT, (0, 23)),
            ([dt.timedelta(1), dt.timedelta(5)], Kind.COUNT, (0, None)),
            ([Decimal("1.5"), Decimal("2.25")], Kind.REAL, (0, None)),
            ([Decimal("1"), Decimal("2"), Decimal("4")], Kind.COUNT, (0, None)),
        ],
    )
    def test_kinds(self, values: list[Any], kind: Kind, bounds: tuple[Any, Any]) -> None:
        plan = Table.fit({"x": np.array(values, dtype=object)}).plans[0]
        assert (plan.kind, (plan.min, plan.max)) == (kind, bounds)

    def test_wide_whole_numbers_come_back_whole(self) -> None:
        X = {"x": np.array([0.0, 1e9, np.nan, 7.0])}
        table = Table.fit(X)
        assert table.decode(X, {"x": np.full(4, 1234.56)})["x"][2] == 1235.0

    def test_an_ordered_category_keeps_its_order_and_the_levels_that_occur(self) -> None:
        dtype = pd.CategoricalDtype(["low", "never", "mid", "high"], ordered=True)
        X = pd.DataFrame({"x": pd.Series(["high", "low", None, "mid"], dtype=dtype)})
        ordered = pa.dictionary(pa.int8(), pa.string(), ordered=True)
        codes = pa.array([3, 0, None, 2], pa.int8())
        arrow = pa.DictionaryArray.from_arrays(codes, ["low", "never", "mid", "high"], ordered=True)
        assert arrow.type == ordered
        for each in (X, pa.table({"x": arrow})):
            table = Table.fit(each)
            assert (table.plans[0].kind, table.plans[0].levels) == (Kind.ORDINAL, ("low", "mid", "high"))
            filled = table.decode(each, {"x": np.full(4, 1)})
            assert lists(filled)["x"] == ["high", "low", "mid", "mid"]
            assert_same_but_filled(each, filled)

    def test_identifiers_need_a_name_and_completeness(self) -> None:
        n = 30
        for name, values, kept in [
            ("patient_id", np.arange(n), True),
            ("PatientID", np.arange(n), True),
            ("id", np.arange(n), True),
            ("id", np.arange(n) // 2, False),
            ("id", np.where(np.arange(n) == 3, np.nan, np.arange(n)), False),
            ("paid", np.arange(n), False),
            ("humidity", np.arange(n), False),
        ]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                table = Table.fit({name: values, "x": np.zeros(n)})
            assert (table.plans[0].kind is None) == kept, name

    def test_description(self) -> None:
        X = pd.DataFrame({"born": pd.to_datetime(["1931-05-01", "2020-02-29"]), "c": list("ab"), "note": [[1], [2]]})
        with pytest.warns(DataWarning):
            table = Table.fit(X, missing_values={"c": "b"})
        assert repr(table).splitlines() == [
            "born  date         1931-05-26 … 2020-02-08  0% missing",
            "c     categorical  1 level: a               50% missing",
            "note  keep         nested values            0% missing",
        ]


class TestMissingCodes:
    def test_codes_stand_for_missing_cells(self, container: str) -> None:
        columns = {
            "age": ([31, -1, 999, 47, 36], {"pandas": "int16", "polars": pl.Int16}.get(container, pa.int16())),
            "town": (["A", "?", "B", "C", "A"], {"pandas": STR, "polars": pl.String}.get(container, pa.string())),
        }
        X = make(container, columns)
        table = Table.fit(X, missing_values={"age": [-1, 999], "town": "?"})
        assert table.plans[1].levels == ("A", "B", "C")
        filled = impute(table, X)
        assert lists(filled) == {"age": [31, 38, 38, 47, 36], "town": ["A", "A", "B", "C", "A"]}
        assert dtypes(filled) == dtypes(X)

    def test_a_code_of_another_type_makes_a_mixed_column_whole(self) -> None:
        X = pd.DataFrame({"x": pd.Series([1, 2, "?", 5], dtype=object)})
        table = Table.fit(X, missing_values={"x": ["?"]})
        assert table.plans[0].kind is Kind.COUNT
        assert impute(table, X)["x"].tolist() == [1, 2, 3, 5]

    def test_dates_as_codes(self) -> None:
        X = pd.DataFrame({"x": pd.to_datetime(["2020-01-01", "2199-12-31", "2020-01-03", "2020-01-02"])})
        zoned = X.assign(x=X["x"].dt.tz_localize("UTC"))
        for each, code in ((X, dt.date(2199, 12, 31)), (zoned, dt.datetime(2199, 12, 31, tzinfo=dt.timezone.utc))):
            table = Table.fit(each, missing_values={"x": code})
            assert table.plans[0].missing == 0.25
            assert impute(table, each)["x"].iloc[1].day == 2
            assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table

    def test_codes_as_numpy_and_pandas_hold_them(self) -> None:
        X = pd.DataFrame({"x": [1.5, 2.5, -1.0, -2.0], "d": pd.to_datetime(["2020-01-01", "2199-12-31"] * 2)})
        codes = {"x": pd.Series([-1, -2]), "d": np.datetime64("2199-12-31", "ns")}
        assert [plan.missing for plan in Table.fit(X, missing_values=codes).plans] == [0.5, 0.5]
        with pytest.raises(TableError, match=r"column 'x': the missing code \[1\] is not a single value"):
            Table.fit(X, missing_values={"x": [[1]]})

    def test_empty_strings_are_values(self) -> None:
        X = pd.DataFrame({"x": ["", "a", None]})
        assert Table.fit(X).plans[0].levels == ("", "a")


class TestOverrides:
    X = pd.DataFrame(
        {
            "zip": [10115, 80331, 20095, None],
            "age": [31, 52, None, 47],
            "score": [0.5, None, 1.5, 2.5],
            "size": ["S", "L", None, "M"],
            "on": [dt.date(2020, 1, 1), dt.date(2020, 1, 5), None, dt.date(2020, 1, 3)],
            "flag": [True, False, True, None],
        }
    )

    @pytest.mark.parametrize(
        ("column", "asked", "kind"),
        [
            ("zip", "categorical", Kind.CATEGORICAL),
            ("zip", Kind.ORDINAL, Kind.ORDINAL),
            ("age", Count(min=0, max=120), Kind.COUNT),
            ("age", Real(), Kind.REAL),
            ("age", "positive", Kind.POSITIVE),
            ("age", Categorical(), Kind.CATEGORICAL),
            ("score", Positive(), Kind.POSITIVE),
            ("score", Real(min=0.5, max=2.5), Kind.REAL),
            ("size", Ordinal(levels=["S", "M", "L", "XL"]), Kind.ORDINAL),
            ("on", "categorical", Kind.CATEGORICAL),
            ("on", Count(min=dt.date(2020, 1, 1), max=dt.datetime(2020, 12, 31)), Kind.COUNT),
            ("flag", Binary(), Kind.BINARY),
            ("flag", "count", Kind.COUNT),
            ("size", None, None),
            ("size", "keep", None),
            ("size", Keep(), None),
        ],
    )
    def test_are_followed(self, column: str, asked: Any, kind: Kind | None) -> None:
        table = Table.fit(self.X, schema={column: asked})
        plan = next(plan for plan in table.plans if plan.label == column)
        assert plan.kind is kind
        assert_same_but_filled(self.X, impute(table, self.X), unfilled=(column,) if kind is None else ())
        assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table

    @pytest.mark.parametrize(
        ("column", "asked", "message"),
        [
            ("nope", "real", "schema names 'nope', which is not a column; the columns are 'zip', 'age'"),
            ("age", "reel", "column 'age': unknown kind 'reel'; use one of real, positive"),
            ("age", Kind.VECTOR, "column 'age': unknown kind 'vector'"),
            ("age", Count(max=50), "column 'age' as count: 52.0 lies outside 0 … 50; widen the bounds"),
            ("age", Binary(), "column 'age': binary takes 2 levels, not 3; use categorical"),
            ("age", Count(min=9, max=3), "column 'age': min 9 is not below max 3"),
            ("age", Count(min=dt.date(2020, 1, 1)), "column 'age': the bound .* is not a number"),
            ("score", Count(), "column 'score' as count: 0.5 is not a whole number; use real"),
            ("flag", Positive(), "column 'flag' as positive: False is not above zero; use real"),
            ("size", Real(), "column 'size' holds text such as 'S', real takes numbers; list it .* use categorical"),
            ("size", "ordinal", "column 'size': the order of its levels is not known; pass Ordinal"),
            ("size", Ordinal(["S", "M"]), "column 'size': 'L' is not among its levels; add it"),
            ("size", Ordinal(["S", "M", "L", "L"]), "column 'size': a level is listed twice"),
            ("size", Ordinal([None, "S"]), "column 'size': nulls were given; it takes text values"),
            ("size", Ordinal(levels=5), r"column 'size': levels must be a list, not 5; pass Ordinal\(levels="),  # type: ignore[arg-type]
            ("age", Count(max=-5), "column 'age': min 0 is not below max -5; swap or widen them"),
            ("age", Count(min=math.nan), "column 'age': no value lies within the bound nan; give another"),
            ("age", np.zeros((2, 2)), r"column 'age': unknown kind array\(\[\[0., 0.\], \[0., 0.\]\]\); use one of"),
            ("on", Real(min=3), "column 'on': the bound 3 is not a date; give one"),
        ],
    )
    def test_are_refused_when_the_data_contradict(self, column: str, asked: Any, message: str) -> None:
        with pytest.raises(TableError, match=message) as error:
            Table.fit(self.X, schema={column: asked})
        assert "\n" not in str(error.value)

    def test_unknown_names_of_missing_values(self) -> None:
        with pytest.raises(TableError, match="missing_values names 'nope', which is not a column"):
            Table.fit(self.X, missing_values={"nope": [1]})

    def test_what_is_said_of_no_column(self) -> None:
        with pytest.raises(TableError, match=r"schema=\['age'\] does not say which column .*; pass a dict"):
            Table.fit(self.X, schema=["age"])  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"kind": "count", "mim": 0}, "column 'age': 'mim' is not a key of kind count; use kind, min, max"),
            ({"min": 0}, "column 'age': {'min': 0} has no \"kind\"; add one of real, positive"),
            ({"kind": "reel"}, "column 'age': unknown kind 'reel'; use one of real, positive"),
            (["count"], "column 'age': unknown kind ['count']; use one of real, positive"),
        ],
    )
    def test_schema_files_are_refused_by_name(self, asked: Any, message: str) -> None:
        with pytest.raises(TableError, match=re.escape(message)):
            spec_from_json("age", asked)

    def test_a_column_without_values_cannot_be_asked_for(self) -> None:
        X = pd.DataFrame({"x": [None, None], "l": [[1], [2]], "y": [1.5, 2.5]})
        with pytest.raises(TableError, match="column 'x' has no value to learn from"):
            Table.fit(X, schema={"x": "real"})
        with pytest.raises(TableError, match="column 'l' has nested values"):
            Table.fit(X, schema={"l": "categorical"})

    def test_free_text_may_be_asked_for(self) -> None:
        X = {"x": np.array([f"text {i}" for i in range(100)], dtype=object)}
        assert len(Table.fit(X, schema={"x": "categorical"}).plans[0].levels) == 100

    def test_bounds_reach_the_schema_and_can_be_lifted(self) -> None:
        variables = Table.fit(self.X, schema={"age": Count(max=120), "score": Real(min=-math.inf)}).schema.variables
        assert [(v.min, v.max) for v in variables[1:3]] == [(0, 120), (None, None)]

    def test_whole_numbers_are_rounded_into_their_bounds(self) -> None:
        X = pd.DataFrame({"x": pd.array([1, 9, None], dtype="Int8")})
        for spec, x, expected in [
            (Real(min=0.5), 0.5, 1),
            (Positive(), 0.1, 1),
            (Count(max=9), 9.4, 9),
            (Count(), 300.0, 127),
        ]:
            table = Table.fit(X, schema={"x": spec})
            assert table.decode(X, {"x": np.full(3, x)})["x"].iloc[2] == expected

    def test_every_spec_has_a_name(self) -> None:
        for spec in (Real(), Positive(), Count(), Integer(), Date(), Time(), Duration(), Binary(), Categorical()):
            assert isinstance(spec, Spec)
            assert as_spec("x", spec.name) == spec
        for spec in (Ordinal(), Image(), Keep()):
            assert isinstance(spec, Spec)
            assert as_spec("x", spec.name) == spec

    KINDS = MappingProxyType(
        {
            "visits": ([3, 0, 7, 5, None], "count"),
            "balance": ([-3, 0, 7, 5, None], "integer"),
            "born": ([dt.date(1931, 5, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29), None, None], "date"),
            "seen": ([dt.datetime(1970, 1, 1, 3, 5, 7), dt.datetime(2020, 2, 29), None, None, None], "date"),
            "at": ([dt.time(1), dt.time(5), dt.time(3), None, None], "time"),
            "wait": ([dt.timedelta(1), dt.timedelta(5), dt.timedelta(seconds=1), None, None], "duration"),
            "score": ([0.5, -1.5, 2.5, 1.25, None], "real"),
            "sex": (["f", "m", "f", None, None], "binary"),
            "town": (["a", "b", "c", None, None], "categorical"),
            "nested": ([[1], [2], [3], [4], None], "keep"),
        }
    )

    def test_what_is_shown_may_be_written_in_a_schema(self) -> None:
        X = pd.DataFrame({name: pd.Series(values, dtype=object) for name, (values, _) in self.KINDS.items()})
        with pytest.warns(DataWarning, match="'nested'"):
            shown = Table.fit(X)
        assert {plan.label: plan.kind_name for plan in shown.plans} == {n: kind for n, (_, kind) in self.KINDS.items()}
        written = Table.fit(X, schema={plan.label: plan.kind_name for plan in shown.plans})
        assert written.modelled == shown.modelled
        assert repr(written).replace("as asked     ", "nested values") == repr(shown)

    def test_integers_have_no_lower_bound_unless_asked_for(self) -> None:
        X = pd.DataFrame({"x": [3, 0, 7, 5]})
        assert repr(Table.fit(X)) == "x  count  0 … 7, ≥ 0  0% missing"
        assert repr(Table.fit(X, schema={"x": "integer"})) == "x  integer  0 … 7  0% missing"
        assert repr(Table.fit(X, schema={"x": Integer(min=-5)})) == "x  integer  0 … 7, ≥ -5  0% missing"

    def test_times_of_day_are_shown_as_such(self) -> None:
        X = pd.DataFrame({"at": [dt.time(8, 30), dt.time(21, 45), None]})
        assert repr(Table.fit(X)) == "at  time  08:30:00 … 21:45:00  33% missing"
        bounded = Table.fit(X, schema={"at": Time(min=dt.time(6), max=dt.time(22))})
        assert repr(bounded) == "at  time  08:30:00 … 21:45:00, ≥ 06:00:00, ≤ 22:00:00  33% missing"
        with pytest.raises(TableError, match=r"time\(5, 0\) lies outside 06:00:00 … 22:00:00"):
            bounded.values({"at": dt.time(5)})

    def test_an_error_names_the_kind_that_was_asked_for(self) -> None:
        with pytest.raises(TableError, match=r"as count: -0\.5 is not a whole number; use real"):
            Table.fit(pd.DataFrame({"x": [-0.5, 2.5, 1.5]}), schema={"x": Count(max=3)})

    def test_dates_in_a_schema_file_are_text(self) -> None:
        X = pd.DataFrame({"born": pd.to_datetime(["1931-05-01", "2020-02-29"])})
        spec = spec_from_json("born", {"kind": "date", "min": "1900-01-01", "max": "2030-12-31"})
        shown = "born  date  1931-05-26 … 2020-02-08, ≥ 1900-01-01, ≤ 2030-12-31  0% missing"
        assert repr(Table.fit(X, schema={"born": spec})) == shown
        assert Table.fit(X, schema={"born": Date(dt.date(1900, 1, 1), dt.date(2030, 12, 31))}) == Table.fit(
            X, schema={"born": spec}
        )
        with pytest.raises(TableError, match="column 'born': 'soon' is not a date such as 2024-05-17"):
            Table.fit(X, schema={"born": Date(max="soon")})
        with pytest.raises(TableError, match="column 'born' as time: it holds datetime values; convert it first"):
            Table.fit(X, schema={"born": "time"})


# --- new rows --------------------------------------------------------------------------------------------------------


class TestNewRows:
    def fitted(self) -> Table:
        return Table.fit(
            pd.DataFrame(
                {
                    "x": [0.5, 1.5, None, 2.5],
                    "k": [1, 2, 3, 5],
                    "c": pd.Categorical(["a", "b", None, "c"]),
                    "d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-05", None]),
                }
            ),
            schema={"k": Count(min=0, max=10)},
        )

    def test_another_order_extra_columns_and_other_dtypes(self) -> None:
        new = pd.DataFrame(
            {
                "extra": [object(), None],
                "c": ["a", None],
                "k": [2.0, None],
                "d": [dt.date(2020, 1, 3), None],
                "x": pd.array([1, None], dtype="Int8"),
            }
        )
        assert_same_but_filled(new, impute(self.fitted(), new), unfilled=("extra",))

    def test_other_containers(self) -> None:
        for new in (pl.DataFrame({"x": [None, 1.5]}), pa.table({"x": [None, 1.5]}), {"x": np.array([np.nan, 1.5])}):
            filled = lists(impute(self.fitted(), new))
            assert filled["x"] == [1.5, 1.5]
            assert list(filled) == ["x", "k", "c", "d"]
            assert all(None not in cells for cells in filled.values())

    def test_rows_without_a_value_have_dtypes_of_their_own(self) -> None:
        table = self.fitted()
        for new in (
            pd.DataFrame({"x": [None], "k": [None], "c": [None], "d": [None]}),
            pd.DataFrame({"x": [pd.NaT], "k": [pd.NA], "c": [np.nan], "d": [np.nan]}),
            pl.DataFrame({"x": [None], "k": [None], "c": [None], "d": [None]}),
            pl.DataFrame({"x": [None], "k": [None], "c": [None], "d": [None]}, schema=dict.fromkeys("xkcd", pl.String)),
            pl.DataFrame(
                {"x": [None], "k": [None], "c": [None], "d": [None]}, schema=dict.fromkeys("xkcd", pl.Float64)
            ),
            pa.table({"x": [None], "k": [None], "c": [None], "d": [None]}),
            pa.table({name: pa.array([None], pa.list_(pa.int8())) for name in "xkcd"}),
            pa.table({name: pa.array([None], pa.binary()) for name in "xkcd"}),
            {name: np.array([np.nan]) for name in "xkcd"},
            np.full((1, 4), np.nan),
        ):
            filled = table.decode(new, {"x": np.array([1.5]), "k": np.array([2.0]), "c": np.zeros(1), "d": np.ones(1)})
            (x,), (k,), (c,), (d,) = lists(filled).values()
            assert (x, k, c) == (1.5, 2, "a")
            assert isinstance(d, dt.date)

    def test_unseen_levels(self, container: str) -> None:
        dtype = {"pandas": "category", "polars": pl.Categorical}.get(container, pa.dictionary(pa.int8(), pa.string()))
        table = Table.fit(make(container, {"c": (["a", "b", "c"], dtype)}))
        new = make(container, {"c": (["a", "purple", None, "red"], dtype)})
        with pytest.warns(
            DataWarning, match=r"column 'c': 'purple' \(and 1 more value\) was not seen in fit"
        ) as caught:
            encoded = table.encode(new)
        assert len(caught) == 1
        assert encoded.mask[:, 0].tolist() == [True, False, False, False]
        assert lists(table.decode(new, encoded.columns))["c"] == ["a", "purple", "a", "red"]
        with pytest.raises(TableError, match=r"column 'c': 'purple' .* pass handle_unknown='keep'"):
            table.encode(new, handle_unknown="error")
        with pytest.raises(TableError, match="handle_unknown must be 'keep' or 'error', not 'drop'"):
            table.encode(new, handle_unknown="drop")  # type: ignore[arg-type]

    @pytest.mark.parametrize("ordered", [False, True])
    def test_a_level_that_the_new_categories_lack_is_added(self, ordered: bool) -> None:
        table = self.fitted()
        new = pd.DataFrame({"c": pd.Categorical(["b", None], categories=["b"], ordered=ordered)})
        filled = table.decode(new, filling(table, new) | {"c": np.array([2, 2])})
        assert filled["c"].tolist() == ["b", "c"]
        assert filled["c"].dtype == pd.CategoricalDtype(["b", "c"], ordered=ordered)
        enum = pl.DataFrame({"c": pl.Series(["b", None], dtype=pl.Enum(["b"]))})
        filled = table.decode(enum, filling(table, enum) | {"c": np.array([2, 2])})
        assert filled["c"].to_list() == ["b", "c"]
        assert filled["c"].dtype == pl.Enum(["b", "c"])

    def test_a_dictionary_outgrows_its_index(self) -> None:
        levels = [f"{i:03d}" for i in range(130)]
        dtype = pa.dictionary(pa.int8(), pa.string())
        table = Table.fit({"c": np.array(levels * 3, dtype=object)})
        new = pa.table({"c": pa.array([*levels[:128], None], type=dtype)})
        filled = table.decode(new, {"c": np.full(129, 129)})
        assert filled["c"].to_pylist() == [*levels[:128], "129"]

    def test_odd_numbers_are_left_alone(self) -> None:
        new = pd.DataFrame({"k": [11.0, 2.5, None, -1.0], "x": [math.inf, -0.5, None, 1.5]})
        with pytest.warns(DataWarning) as caught:
            filled = impute(self.fitted(), new)
        assert_same_but_filled(new, filled[["k", "x"]])
        (message,) = (str(each.message) for each in caught)
        assert "column 'k': 11.0 (and 1 more value) lies outside 0 … 10" in message
        assert "column 'k': 2.5 is not a whole number" in message
        assert "column 'x': inf is not finite" in message
        assert "column 'x': -0.5 lies outside 0 … " in message

    @pytest.mark.parametrize(
        ("new", "message"),
        [
            ({"x": ["a", "b"]}, "column 'x' holds text values, but it held number values in fit; convert it"),
            ({"c": [1, 2]}, "column 'c' holds number values, but it held text values in fit; convert it"),
            ({"d": [1.5, 2.5]}, "column 'd' holds number values, but it held datetime values in fit; convert it"),
            ({"x": [[1], [2]]}, "column 'x' holds nested values, but it held number values in fit; convert it"),
            ({"x": [1, "a"]}, "column 'x' holds mixed types: int, str, but it held number values in fit; convert it"),
        ],
    )
    def test_what_a_column_cannot_turn_into(self, new: dict[str, list[Any]], message: str) -> None:
        with pytest.raises(TableError, match=message):
            self.fitted().encode(pd.DataFrame(new))

    def test_the_input_is_not_touched(self, container: str) -> None:
        X = make(container, {name: case(container, name) for name in CASES})
        before = repr(lists(X))
        impute(Table.fit(X), X)
        assert repr(lists(X)) == before
        complete = {"x": np.array([1.5, 2.5])}
        filled = impute(Table.fit(complete), complete)
        filled["x"][0] = 9
        assert complete["x"][0] == 1.5


def test_what_is_known_of_a_view_is_not_known_of_one_with_other_columns():
    view = view_of(pd.DataFrame({"a": [1.0, np.nan, 3.0]}))
    assert view.cells("a", ()).observed.tolist() == [True, False, True]
    assert view.missing("a", ()).tolist() == [False, True, False]
    other = replace(view, columns={"a": pd.Series([np.nan, 2.0])}, n=2)
    assert other.missing("a", ()).tolist() == [True, False]
