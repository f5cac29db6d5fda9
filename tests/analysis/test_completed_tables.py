"""Draws are a sequence of tables, and one long table; both in the container, dtypes and order of the original."""

from __future__ import annotations

import numpy as np
import pytest

from vsae import Draws, TableError, VSAEImputer
from vsae.datasets import make_clinic

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

HOSTILE = "<script>alert(1)</script>"


def frame(*, bmi=(None, None), grade=(None, None), ok=(None, None)) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "bmi": [21.5, *bmi, 30.0],
            "grade": pd.Categorical(["low", *grade, "low"], categories=[*dict.fromkeys(["low", *filter(None, grade)])]),
            "ok": pd.array([True, *ok, False], dtype="boolean"),
            "name": ["a", "b", "c", "d"],
        },
        index=["w", "x", "y", "z"],
    )


TABLES = (
    frame(bmi=(1.0, 2.0), grade=("high", "low"), ok=(True, True)),
    frame(bmi=(3.0, 4.0), grade=("low", "top"), ok=(False, True)),
)
CONTAINERS = {
    "pandas": lambda table: table,
    "polars": lambda table: pl.from_pandas(table.astype({"grade": "str"})).with_columns(
        pl.col("grade").cast(pl.Enum(table["grade"].cat.categories.tolist()))
    ),
    "pyarrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "dict": lambda table: {name: table[name].to_numpy(dtype=object) for name in table},
}


@pytest.fixture(params=CONTAINERS)
def draws(request) -> Draws:
    make = CONTAINERS[request.param]
    return Draws((make(table) for table in TABLES), make(frame()))


def cells(table, name) -> list:
    column = table[name]
    values = next(getattr(column, name)() for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name))
    return [None if value is pd.NA or value != value else value for value in values]


def test_they_are_a_sequence(draws):
    assert len(draws) == 2
    assert [cells(table, "bmi")[1] for table in draws] == [1.0, 3.0]
    assert draws[-1] is draws[1] is list(draws)[1]
    some = draws[1:]
    assert isinstance(some, Draws)
    assert len(some) == 1
    assert some.original is draws.original
    with pytest.raises(IndexError):
        draws[2]
    assert draws.apply(lambda table: sum(cells(table, "bmi"))) == [54.5, 58.5]
    assert draws.drawn == {"bmi": 2, "grade": 2, "ok": 2, "name": 0}
    assert repr(draws) == "2 completed tables of 4 rows and 4 columns; 6 cells drawn in each"


@pytest.mark.parametrize("original", [False, True])
def test_long_has_all_rows_in_their_order(draws, original):
    long = draws.long(original=original)
    assert type(long) is type(draws[0])
    before = [draws.original] if original else []
    assert cells(long, ".imp") == [0] * 4 * original + [1] * 4 + [2] * 4
    assert cells(long, ".id") == [1, 2, 3, 4] * (2 + original)
    for name in ("bmi", "grade", "ok", "name"):
        assert cells(long, name) == [cell for table in (*before, *draws) for cell in cells(table, name)]
    assert cells(long, "grade").count(None) == 2 * original


def test_long_keeps_dtypes_and_the_index():
    long = Draws(TABLES, frame()).long(original=True)
    assert list(long.columns) == [".imp", ".id", "bmi", "grade", "ok", "name"]
    assert list(long.index) == ["w", "x", "y", "z"] * 3
    assert list(long["grade"].cat.categories) == ["low", "high", "top"]  # of which no table has all
    assert (long.dtypes[["bmi", "ok"]] == frame().dtypes[["bmi", "ok"]]).all()
    polars = Draws(map(CONTAINERS["polars"], TABLES), CONTAINERS["polars"](frame())).long()
    assert polars.schema["grade"] == pl.Enum(["low", "high", "top"])
    arrow = Draws(map(CONTAINERS["pyarrow"], TABLES), CONTAINERS["pyarrow"](frame())).long()
    assert pa.types.is_dictionary(arrow.schema.field("grade").type)


def test_an_array_gets_two_columns_before_its_own():
    original = np.array([[1.0, np.nan], [2.0, 5.0]])
    draws = Draws([np.array([[1.0, x], [2.0, 5.0]]) for x in (7.0, 8.0)], original)
    assert draws.long(original=True)[:, :2].tolist() == [[0, 1], [0, 2], [1, 1], [1, 2], [2, 1], [2, 2]]
    assert draws.long()[:, 2:].tolist() == [[1, 7], [2, 5], [1, 8], [2, 5]]


def test_bad_requests_stop_in_one_line():
    taken = Draws([{".imp": np.ones(2)}], {".imp": np.array([1, np.nan])})
    with pytest.raises(TableError, match=r"column '\.imp' has the name that a long table gives"):
        taken.long()
    with pytest.raises(ValueError, match="style must be one of mice, stata, not 'sas'"):
        taken.long(style="sas")
    with pytest.raises(ValueError, match="there are no draws here"):
        taken[1:].long(original=True)


def test_of_an_imputer_the_original_has_nulls_for_codes_and_is_not_the_users_table(few_steps):
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "code": rng.integers(1, 9, 60)}
    table["a"][:5], table["code"][5:15] = np.nan, -9
    imputer = VSAEImputer(missing_values={"code": -9}, random_state=0).fit(table)
    draws = imputer.draw(table, 2)
    table["a"][:] = 0  # the user goes on to work with it
    long = draws.long(original=True)
    assert draws.drawn == {"a": 5, "code": 10}
    assert np.isnan(long["a"][:60]).sum() == 5
    assert np.isnan(long["code"][:60]).sum() == 10
    assert not np.isnan(long["code"][60:]).any()
    assert (long["code"] != -9).all()
    observed = ~np.isnan(long["a"][:60])
    for one in draws:
        np.testing.assert_array_equal(one["a"][observed], long["a"][:60][observed])


def test_draws_of_no_rows_are_there_too(few_steps):
    frame = make_clinic(60).frame()
    draws = VSAEImputer(random_state=0).fit(frame).draw(frame.head(0), 3)
    assert len(draws) == 3
    assert len(draws.long(original=True)) == 0
    assert draws._repr_html_()


def test_a_notebook_shows_names_as_text():
    draws = Draws([{HOSTILE: np.ones(2)}], {HOSTILE: np.array([1, np.nan])})
    shown = draws._repr_html_()
    assert "1 completed table of 2 rows and 1 column; 1 cell drawn in each" in shown
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>1</td><td>50%</td>" in shown
    assert "<script" not in shown
