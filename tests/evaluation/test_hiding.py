"""Known cells are hidden as the table's own pattern hides cells."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.evaluation.hiding import hidden_cells


def mcar(n: int, columns: int, rate: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, columns)) < rate


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.1, 0.5])
def test_a_share_of_the_known_cells_of_each_column_is_hidden_and_none_twice(rate):
    missing, rng = mcar(1000, 8, rate), np.random.default_rng(1)
    used = np.zeros_like(missing)
    for _ in range(4):
        hidden = hidden_cells(~missing, missing, 0.1, rng, used=used)
        assert not (hidden & (missing | used)).any()
        np.testing.assert_allclose(hidden.sum(axis=0), 0.1 * (~missing).sum(axis=0), atol=3)
        used |= hidden


def test_a_row_keeps_as_many_cells_as_rows_that_miss_the_same_column_have():
    missing = mcar(2000, 12, 0.3)
    hidden = hidden_cells(~missing, missing, 0.1, np.random.default_rng(1))
    kept = (~missing & ~hidden).sum(axis=1)
    usual = (~missing).sum(axis=1)
    at_hidden, at_missing = (np.average(count, weights=cells.sum(axis=1)) for count, cells in
                             ((kept, hidden), (usual, missing)))  # fmt: skip
    assert at_hidden == pytest.approx(at_missing, abs=0.6)  # laid over any row, masks would leave 2 cells fewer


def test_columns_that_miss_cells_together_are_hidden_together():
    missing = mcar(1500, 10, 0.3)
    missing[:, 4] = missing[:, 7]
    hidden = hidden_cells(~missing, missing, 0.1, np.random.default_rng(1))
    np.testing.assert_array_equal(hidden[:, 4], hidden[:, 7])
    assert hidden[:, 4].sum() > 90
    assert 0 < (hidden[:, 4] & hidden[:, 5]).sum() < 60


def test_cells_are_hidden_even_if_no_row_knows_more_than_another():
    missing = np.zeros((600, 5), dtype=bool)
    missing[np.arange(600), np.arange(600) % 5] = True
    hidden = hidden_cells(~missing, missing, 0.1, np.random.default_rng(0))
    np.testing.assert_array_equal(hidden.sum(axis=0), 48)


def test_a_cell_that_does_not_apply_is_neither_hidden_nor_a_pattern():
    known = np.ones((400, 3), dtype=bool)
    known[:200, 2] = False  # does not apply
    missing = np.zeros_like(known)
    missing[200:260, 1] = True
    known &= ~missing
    hidden = hidden_cells(known, missing, 0.2, np.random.default_rng(0))
    assert not hidden[:200, 2].any()
    assert hidden[200:, 2].sum() == 40
