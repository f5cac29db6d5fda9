"""What is missing in a table, against plain loops over its cells."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.plots.missingness import Missingness, grouped
from vsae.table import TableError


@pytest.fixture
def found() -> Missingness:
    rng = np.random.default_rng(0)
    missing = rng.random((60, 5)) < [0.0, 0.2, 0.5, 0.3, 0.3]
    missing[:, 4] = missing[:, 1]
    return Missingness(tuple("abcde"), missing)


def test_flux_is_as_defined_over_pairs_of_cells(found):
    m, (n, k) = found.missing, found.missing.shape
    flux = found.flux()
    for j in range(k):
        into = sum(m[i, j] and not m[i, other] for i in range(n) for other in range(k))
        out = sum(not m[i, j] and m[i, other] for i in range(n) for other in range(k))
        assert flux.influx[j] == pytest.approx(into / (~m).sum(), rel=1e-6)
        assert flux.outflux[j] == pytest.approx(out / m.sum(), rel=1e-6)
    assert (flux.influx[0], flux.outflux[0]) == (0, 1)  # always observed


def test_patterns_count_every_row_once(found):
    every = found.patterns(most=1000)
    assert every.rows.sum() + every.complete == len(found.missing)
    assert (np.diff(every.rows) <= 0).all()
    for cells, count in zip(every.cells, every.rows, strict=True):
        assert ((found.missing[:, every.columns] == cells).all(axis=1)).sum() == count
    few = found.patterns(most=2)
    assert len(few.rows) == 2
    assert few.others == len(every.rows) - 2


def test_a_table_without_missing_cells_has_no_patterns():
    complete = Missingness(("a", "b"), np.zeros((4, 2), dtype=bool))
    assert len(complete.patterns().rows) == 0
    assert complete.patterns().complete == 4
    assert complete.matrix().shape == (0, 4)
    assert not complete.flux().influx.any()


def test_columns_that_miss_together_stand_together(found):
    order = found.clustered.tolist()
    assert sorted(order) == [1, 2, 3, 4]
    assert abs(order.index(1) - order.index(4)) == 1


def test_stretches_of_rows_keep_the_share(found):
    assert np.allclose(found.matrix(most=20).mean(axis=1), found.share[found.clustered])
    assert found.matrix(most=1000).shape[1] == len(found.missing)


def test_shares_by_group_are_means_of_rows(found):
    groups, codes = grouped({"g": np.array(["x", "y", None] * 20, dtype=object)}, "g")
    assert groups == ["x", "y"]
    shares = found.by_group("g", groups, codes)
    assert shares.rows.tolist() == [20, 20]
    assert np.allclose(shares.share[1:, 1], found.missing[1::3, 1:].mean(axis=0))
    assert np.isnan(shares.share[0]).all()  # nothing is missing
    assert found.by_group("g", ["all"], np.zeros(60, dtype=int)).spread == 0


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(TableError, match="by names 'h', which is not a column"):
        grouped({"g": np.array(["x"])}, "h")
