"""Nothing that is kept of a column is the value of a single row."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.microaggregation import FEWEST, ends, microaggregated, quantiles

COLUMNS = {
    "distinct": lambda rng: rng.normal(size=83),
    "repeated": lambda rng: np.round(rng.normal(size=200) * 20),
    "mostly zero": lambda rng: np.where(rng.random(100) < 0.6, 0.0, rng.exponential(size=100)),
    "few": lambda rng: np.repeat([1.0, 2.0, 9.0], [40, 2, 30]),
    "halves": lambda rng: np.round(2 * rng.normal(size=500)) / 2,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_value_is_that_of_several_cells(name):
    x = COLUMNS[name](np.random.default_rng(0))
    y = microaggregated(x)
    assert np.unique(y, return_counts=True)[1].min() >= FEWEST
    assert (np.diff(y[np.argsort(x)]) >= 0).all()
    values, count = np.unique(x, return_counts=True)
    common = values[count >= FEWEST]
    often = np.isin(x, common)
    np.testing.assert_array_equal(y[often], x[often])
    groups = np.setdiff1d(y, common)
    np.testing.assert_allclose([x[y == value].mean() for value in groups], groups)


def test_quantiles_are_those_of_the_column_to_the_size_of_a_group():
    x = np.random.default_rng(0).normal(size=1000)
    ranks = np.linspace(0.0, 1.0, 101)
    found = quantiles(x, ranks)
    assert np.isin(found, x).sum() == 0
    reached = np.searchsorted(np.sort(x), found) / len(x)
    assert np.abs(reached - ranks).max() <= FEWEST / len(x)


def test_a_point_mass_keeps_its_share():
    x = np.concatenate([np.zeros(400), np.linspace(1.0, 2.0, 600)])
    found = quantiles(x, np.linspace(0.0, 1.0, 1001))
    assert (found == 0).mean() == pytest.approx(0.4, abs=0.003)


def test_the_ends_are_of_several_cells():
    x = np.concatenate([np.linspace(0.0, 1.0, 50), [1000.0]])
    low, high = ends(x)
    assert low == pytest.approx(0.0, abs=1e-9)
    assert 500 < high < 1000
    assert ends(np.array([3.0, 3.0])) == (3.0, 3.0)
