"""Dtypes that once came back changed, or were not read as what they are."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.table import Table
from vsae.table.images import read, write

pd = pytest.importorskip("pandas")


def there_and_home(X):
    """The table with its missing cells filled, and a new one of the same plans, by way of a saved one."""
    table = Table.from_json(Table.fit(X).to_json())
    encoded = table.encode(X)
    assert encoded.mask.shape[1] == X.shape[1]  # all columns are modelled
    return table.decode(X, encoded.columns), table.frame(encoded.columns, n=encoded.n_rows)


@pytest.mark.parametrize("zone", ["America/New_York", "Etc/GMT+5", "Europe/Vienna", "UTC"])
def test_dates_with_a_zone_of_any_name(zone):
    when = pd.date_range("2020-03-01", periods=40, tz=zone).to_series(index=range(40))
    when[3] = pd.NaT
    X = pd.DataFrame({"when": when, "x": np.arange(40.0)})
    for back in there_and_home(X):
        assert (back.dtypes == X.dtypes).all()
        assert not back["when"].isna().any()
    assert back["when"][0] == when[0]


@pytest.mark.parametrize("dtype", ["string", "str", "object"])
def test_categories_stay_of_the_dtype_they_are_of(dtype):
    codes = np.arange(40) % 4 - 1
    X = pd.DataFrame({"c": pd.Categorical.from_codes(codes, pd.Index(["a", "b", "c"], dtype=dtype))})
    filled, _ = there_and_home(X)
    assert filled["c"].dtype == X["c"].dtype
    assert filled["c"].dtype.categories.dtype == X["c"].dtype.categories.dtype
    less = X[X["c"] != "c"].reset_index(drop=True)
    less["c"] = less["c"].cat.remove_unused_categories()
    table = Table.fit(X)
    lacking = table.decode(less, {"c": np.full(len(less), 2)})["c"]  # a category that is not among those of the column
    assert "c" in set(lacking)
    assert lacking.dtype.categories.dtype == less["c"].dtype.categories.dtype


def test_a_declared_category_of_thousands_of_levels_is_one():
    codes = np.resize(np.arange(3284), 5000)
    X = pd.DataFrame({"town": pd.Categorical.from_codes(codes, [f"town {i}" for i in range(3284)])})
    assert len(Table.fit(X).plans[0].levels) == 3284


def test_16_bits_are_told_by_the_dtype():
    dark = np.full((1, 4, 4), 200, dtype=np.uint16)
    pixels = read(np.fromiter([dark[0]], dtype=object), (1, 4, 4))
    assert pixels.max() == pytest.approx(200 / 65535)
    X = {"photo": [dark[0], None, 2 * dark[0]] * 4, "x": np.arange(12.0)}
    table = Table.fit(X, schema={"photo": "image"})
    filled = table.decode(X, table.encode(X).columns)["photo"]
    assert filled[1].dtype == np.uint16
    assert write(pixels[None, 0], "HW", 65535)[0].max() == 200


def test_a_row_alone_comes_back_as_it_does_among_others_and_shares_nothing_with_what_was_given():
    n = 40
    index = [f"row {i}" for i in range(n)]
    X = pd.DataFrame(
        {
            "number": np.linspace(0.5, 9.5, n),
            "text": pd.Series(["a", "b"] * (n // 2), index, dtype=object),
            "level": pd.Categorical(["low", "high"] * (n // 2)),
            "when": pd.date_range("2020-03-01", periods=n),
            "whole": pd.array(range(n), dtype="Int64"),
        },
        index,
    )
    X = X.mask(np.broadcast_to(np.arange(n)[:, None] % 3 == 0, X.shape))
    table = Table.fit(X)
    filled = table.decode(X, table.encode(X).columns)
    row = X.iloc[[3]]
    alone = table.decode(row, {name: x[[3]] for name, x in table.encode(X).columns.items()})
    pd.testing.assert_frame_equal(alone, filled.iloc[[3]])
    assert (filled.dtypes == X.dtypes).all()
    assert not alone.isna().any(axis=None)
    alone["number"] = -1.0
    alone.iloc[0, 0] = -2.0
    assert row.isna().all(axis=None)
