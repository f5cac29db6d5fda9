"""Values that no model can learn from: in Python an error of ours in one line, or a cell that is left and named."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from vsae import VSAEImputer, fit
from vsae.data.schema import Schema, SchemaError, real
from vsae.model.config import VSAEConfig
from vsae.table import Count, DataWarning, Real, Table, TableError

BIG = np.finfo(np.float64).max
OTHER = np.random.default_rng(0).normal(size=20)


def quick() -> VSAEImputer:
    return VSAEImputer(config={"steps": 3, "trees": 0}, random_state=0)


@pytest.mark.parametrize("container", [dict, pd.DataFrame])
def test_a_signalling_nan_is_missing(container):
    decimals = [Decimal("1.5"), Decimal("sNaN"), Decimal("2.5"), Decimal("3.5")] * 5
    columns = container({"a": np.array(decimals, dtype=object), "b": OTHER})
    filled = quick().fit_transform(columns)["a"]
    assert not any(value.is_nan() for value in filled)
    assert all(value == old for value, old in zip(filled, decimals, strict=True) if not old.is_nan())


def test_the_largest_numbers_come_back_and_are_not_learned():
    a = np.where(np.arange(20) % 5 == 0, BIG, np.arange(20.0))
    a[1] = np.nan
    with pytest.warns(DataWarning, match="is beyond"):
        filled = quick().fit_transform({"a": a, "b": OTHER})["a"]
    assert np.array_equal(filled[2:], a[2:])
    assert 0 < filled[1] < 100
    with pytest.raises(TableError, match="no value within"):
        Table.fit({"a": np.array([BIG, -BIG] * 10)})
    with pytest.raises(SchemaError, match=r"attribute 'a', row 0: .* is beyond"):
        fit(Schema([real("a")]), {"a": np.array([BIG, -BIG])}, np.ones((2, 1), bool), VSAEConfig(steps=1))


def test_complex_numbers_are_one_line():
    with pytest.raises(ValueError, match="Complex data not supported; give real and imaginary parts") as caught:
        quick().fit(OTHER.reshape(10, 2) + 1j)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "X", ["abc", 5.0, np.zeros(4, [("x", "f8"), ("y", "i4")]), np.zeros(2000), np.zeros((2, 2, 2))]
)
def test_what_is_no_table_is_one_line(X):
    with pytest.raises(ValueError, match="array") as caught:
        quick().fit(X)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("spec", ["real", "positive", "count", Real(min=-1, max=4), Count(min=1, max=3)], ids=repr)
def test_a_number_is_as_odd_alone_as_among_usual_ones(spec):
    plan = Table.fit({"x": np.array([1.0, 2.0, 3.0] * 10)}, schema={"x": spec}).plans[0]
    for value in (-np.inf, -1e101, -2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.5, 1e101, np.inf):
        alone, among = np.array([value]), np.array([2.0, value, 1.0])
        found = [
            [(odd.why, odd.cells.sum()) for odd in plan._odd_numbers(x) if odd.cells.any()] for x in (alone, among)
        ]
        assert found[0] == found[1]
        assert plan._usual(alone).all() == (not found[0])
