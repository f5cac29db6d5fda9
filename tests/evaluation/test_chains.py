"""The simple imputers that a model is compared with."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.evaluation.chains import CHAINS


@pytest.fixture
def table():
    """Two numbers and a level that go with each other; a constant; a third of the cells missing."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=600)
    x = np.stack([base, 5 * base + rng.normal(size=600), np.digitize(base, [-0.5, 0.5]), np.full(600, 7.0)], axis=1)
    return x.astype(float), rng.random((600, 4)) < 0.67, np.array([0, 0, 3, 0])


@pytest.mark.parametrize("name", CHAINS)
def test_known_cells_stay_and_others_are_filled_with_possible_values(table, name):
    x, mask, levels = table
    filled = CHAINS[name](np.where(mask, x, 0.0), mask, levels, 0)
    np.testing.assert_array_equal(filled[mask], x[mask])
    assert set(filled[:, 2]) <= {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(filled[:, 3], 7.0)


@pytest.mark.parametrize("name", ["linear", "trees"])
def test_chains_learn_what_means_and_modes_do_not(table, name):
    x, mask, levels = table
    ours, trivial = (CHAINS[method](np.where(mask, x, 0.0), mask, levels, 0) for method in (name, "mean/mode"))
    for j in (0, 1):
        at = ~mask[:, j]
        assert np.abs(ours - x)[at, j].mean() < 0.7 * np.abs(trivial - x)[at, j].mean()
    wrong = [(filled != x)[~mask[:, 2], 2].mean() for filled in (ours, trivial)]
    assert wrong[0] < 0.7 * wrong[1]


@pytest.mark.parametrize("name", CHAINS)
def test_a_column_alone_or_without_a_known_cell_does_not_stop_them(name):
    x = np.arange(40.0)[:, None]
    assert CHAINS[name](x, np.arange(40)[:, None] % 4 > 0, np.array([0]), 0).shape == (40, 1)
    two = np.column_stack([x, np.zeros(40)])
    filled = CHAINS[name](two, np.column_stack([x > 5, np.zeros(40, dtype=bool)]), np.array([0, 2]), 0)
    assert np.isfinite(filled).all()
