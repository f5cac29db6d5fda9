"""The four promises, over tables that hypothesis thinks up: shape, dtypes, observed cells, no missing cells."""

from __future__ import annotations

import datetime as dt
import json
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vsae.data.encoding import Encoding
from vsae.data.schema import DISCRETE
from vsae.table import DataWarning, Table, TableError
from vsae.table.containers import view_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

from test_table import FRAMES, ZONE, arrow, assert_same_but_filled, lists  # noqa: E402

few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
ABC = st.sampled_from(["a", "b", "c", "d"])


class Sort(NamedTuple):
    """A sort of column: its values, and how each library holds them."""

    values: st.SearchStrategy[Any]
    pandas: Any
    polars: Any
    pyarrow: Any
    numpy: Callable[[list[Any]], np.ndarray] = lambda cells: np.fromiter(cells, dtype=object, count=len(cells))


def floats(dtype: str) -> Callable[[list[Any]], np.ndarray]:
    return lambda cells: np.array([math.nan if cell is None else cell for cell in cells], dtype=dtype)


def times(dtype: str) -> Callable[[list[Any]], np.ndarray]:
    return lambda cells: np.array(["NaT" if cell is None else cell for cell in cells], dtype=dtype)


SORTS = {
    "int64": Sort(st.integers(-(2**63), 2**63 - 1), "Int64", pl.Int64, pa.int64()),
    "uint64": Sort(st.integers(0, 2**64 - 1), "UInt64", pl.UInt64, pa.uint64()),
    "int8": Sort(st.integers(-128, 127), "Int8", pl.Int8, pa.int8()),
    "small": Sort(st.integers(0, 3), "UInt8", pl.UInt8, pa.uint8()),
    "float64": Sort(
        st.floats(-1e300, 1e300) | st.sampled_from([math.inf, -math.inf]),
        "float64",
        pl.Float64,
        pa.float64(),
        floats("f8"),
    ),
    "float32": Sort(st.floats(allow_nan=False, width=32), "float32", pl.Float32, pa.float32(), floats("f4")),
    "whole": Sort(st.integers(-9, 9).map(float), "float64", pl.Float64, pa.float64(), floats("f8")),
    "bool": Sort(st.booleans(), "boolean", pl.Boolean, pa.bool_()),
    "text": Sort(TEXT, "string", pl.String, pa.string()),
    "category": Sort(ABC, pd.CategoricalDtype(list("abcd")), pl.Categorical, pa.dictionary(pa.int8(), pa.string())),
    "ordered": Sort(
        ABC,
        pd.CategoricalDtype(["d", "c", "b", "a"], ordered=True),
        pl.Enum(["d", "c", "b", "a"]),
        pa.dictionary(pa.int32(), pa.large_string()),
    ),
    "date": Sort(st.dates(), "object", pl.Date, pa.date32(), times("M8[D]")),
    "datetime": Sort(
        st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)),
        "datetime64[ns]",
        pl.Datetime("us"),
        pa.timestamp("us"),
        times("M8[us]"),
    ),
    "zoned": Sort(
        st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1), timezones=st.just(dt.timezone.utc)),
        f"datetime64[us, {ZONE}]",
        pl.Datetime("us", ZONE),
        pa.timestamp("us", ZONE),
    ),
    "duration": Sort(
        st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)),
        "timedelta64[us]",
        pl.Duration("us"),
        pa.duration("us"),
        times("m8[us]"),
    ),
    "time": Sort(st.times(), "object", pl.Time, pa.time64("us")),
    "decimal": Sort(
        st.decimals(-9999, 9999, places=2, allow_nan=False), "object", pl.Decimal(6, 2), pa.decimal128(6, 2)
    ),
}
AS_OBJECTS = {"zoned"}  # not as Python objects: a numpy array can't say in which zone


def column(container: str, sort: Sort, cells: list[Any]) -> Any:
    if container == "dict":
        return sort.numpy(cells)
    dtype = getattr(sort, container)
    if container == "pandas":
        return pd.Series(cells, dtype=dtype)
    if container == "polars":
        zone = getattr(dtype, "time_zone", None)
        return (
            pl.Series(cells, dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
            if zone
            else pl.Series(cells, dtype=dtype)
        )
    return arrow(cells, dtype)


def build(container: str, sorts: list[str], cells: list[list[Any]]) -> Any:
    columns = {f"{j} {name}": column(container, SORTS[name], cells[j]) for j, name in enumerate(sorts)}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}[container]
    return make(columns)


@st.composite
def tables(draw: st.DrawFn, rows: int = 2) -> tuple[Any, ...]:
    """`rows` tables of one make."""
    container = draw(st.sampled_from([*FRAMES, "dict"]))
    names = [name for name in SORTS if container != "dict" or name not in AS_OBJECTS]
    sorts = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    made = []
    for _ in range(rows):
        n = draw(st.integers(1, 8))
        size = {"min_size": n, "max_size": n}
        made.append(build(container, sorts, [draw(st.lists(st.none() | SORTS[name].values, **size)) for name in sorts]))
    return tuple(made)


def fit(X: Any) -> Table | None:
    try:
        return Table.fit(X)
    except TableError as error:
        if "no column can be modelled" not in str(error):
            raise
        return None


def wild(table: Table, n: int, numbers: list[float], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What no model would say: any level, any finite number."""
    return {
        variable.name: rng.integers(0, variable.size, n)
        if variable.family in DISCRETE
        else rng.choice(np.array(numbers), n)
        for variable in table.schema.variables
    }


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)
        yield


NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5)


@few
@given(tables(), NUMBERS, st.integers(0, 2**32))
def test_four_promises(made: tuple[Any, Any], numbers: list[float], seed: int) -> None:
    fitted, new = made
    table = fit(fitted)
    if table is None:
        return
    kept = tuple(plan.label for plan in table.plans if plan.kind is None)
    for X in (fitted, new):
        n = table.encode(X).n_rows
        filled = table.decode(X, wild(table, n, numbers, np.random.default_rng(seed)))
        assert_same_but_filled(X, filled, unfilled=kept)


@few
@given(tables(rows=1))
def test_the_core_takes_what_encode_gives(made: tuple[Any]) -> None:
    (X,) = made
    table = fit(X)
    if table is None:
        return
    encoded = table.encode(X)
    view = view_of(X)
    for j, plan in enumerate(table.modelled):
        assert not (encoded.mask[:, j] & view.backend.missing(view.columns[plan.label], ())).any()
    batch = Encoding.fit(table.schema, encoded.columns, encoded.mask).encode(encoded.columns, encoded.mask)
    assert all(bool(values.isfinite().all()) for values in batch.values.values())


@few
@given(tables(), NUMBERS, st.integers(0, 2**32))
def test_json_forgets_nothing(made: tuple[Any, Any], numbers: list[float], seed: int) -> None:
    fitted, new = made
    table = fit(fitted)
    if table is None:
        return
    again = Table.from_json(json.loads(json.dumps(table.to_json(), allow_nan=False)))
    assert again == table
    filled = wild(table, table.encode(new).n_rows, numbers, np.random.default_rng(seed))
    assert repr(lists(again.decode(new, filled))) == repr(lists(table.decode(new, filled)))


@few
@given(tables(rows=1), st.integers(0, 5))
def test_rows_may_come_in_any_order(made: tuple[Any], seed: int) -> None:
    (X,) = made
    if not isinstance(X, pd.DataFrame | pl.DataFrame) or (table := fit(X)) is None:
        return
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = X.iloc[order] if isinstance(X, pd.DataFrame) else X[order]
    one, other = table.encode(X), table.encode(shuffled)
    np.testing.assert_array_equal(one.mask[order], other.mask)
    for name, values in one.columns.items():
        np.testing.assert_array_equal(values[order], other.columns[name])
