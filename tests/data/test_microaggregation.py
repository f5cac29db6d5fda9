"""Nothing that is kept of a column is the value of a single row."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.microaggregation import FEWEST, _groups, ends, microaggregated, quantiles

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


def test_groups_rise_and_are_of_as_many_cells_as_there_are():
    """Between two values of k cells, neighbours are put together until they are k, or all that lie there."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        count = rng.integers(1, 8, rng.integers(1, 30))
        own = count >= 5
        group = _groups(own, count, 5)
        assert group[0] == 0
        assert set(np.diff(group)) <= {0, 1}
        size = np.bincount(group, weights=count)
        for i, g in enumerate(group):
            if own[i]:
                assert (group == g).sum() == 1
            elif size[g] < 5:  # alone between two others, or at an end
                before, after = own[: i + 1][group[: i + 1] != g][-1:], own[i:][group[i:] != g][:1]
                assert before.all()
                assert after.all()
