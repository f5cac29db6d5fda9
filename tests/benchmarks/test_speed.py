"""Speed beside peers: tables that can be learned, rows that say what happened, and what the page makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.processes import Processes
from benchmarks.speed import jobs
from benchmarks.speed.made import made
from benchmarks.speed.page import page, tables_of, verdicts
from vsae.data.schema import DISCRETE


def test_made_tables_are_the_same_each_time_and_fit_their_schema():
    table, again, other = made(500, 9), made(500, 9), made(500, 9, seed=1)
    np.testing.assert_array_equal(table.matrix(), again.matrix())
    assert not np.array_equal(table.matrix(), other.matrix())
    for variable in table.schema.variables:
        x = table.columns[variable.name]
        assert variable.family not in DISCRETE or set(np.unique(x)) == set(range(variable.size))


def test_columns_of_made_tables_say_much_of_each_other():
    given = jobs.task_of(400, 10)
    assert given.given().new.shape == (1, 10)
    assert 1 - given.train_mask.mean() == pytest.approx(jobs.HIDDEN, abs=0.03)
    from sklearn.ensemble import RandomForestRegressor

    x = made(800, 10).matrix()
    for j in (0, 2):  # straight and bent
        others = np.delete(x, j, axis=1)
        forest = RandomForestRegressor(30, random_state=0).fit(others[:600], x[:600, j])
        assert forest.score(others[600:], x[600:, j]) > 0.3


def test_ours_is_timed_saved_loaded_and_asked_for_one_row():
    job = {"rows": 60, "columns": 4, "method": "vsae-fast", "threads": 1}
    row = jobs.measured(job, Processes(limit=120))
    assert row["status"] == "ok", row["error"]
    assert 0 < row["row_ms"] < 1000
    assert row["seconds"] > 0
    assert row["memory_mb"] > 100
    assert row["errors"]["nrmse"] < 1.2 * row["errors"]["nrmse_trivial"]
    assert jobs.in_words(row).endswith(" ms")


def test_scikit_learns_imputer_fills_levels_too():
    job = {"rows": 300, "columns": 8, "method": "iterative", "threads": 1}
    row = jobs.measured(job, Processes(limit=60))
    assert row["status"] == "ok", row["error"]
    assert row["errors"]["pfc"] < 0.9 * row["errors"]["pfc_trivial"]


def row(shape: tuple[int, int], method: str, seconds: float | None, error: float = 0.5, row_ms: float | None = None):
    errors = {"nrmse": error, "nrmse_trivial": 1.0, "pfc": error / 2, "pfc_trivial": 0.5}
    out = {
        "rows": shape[0],
        "columns": shape[1],
        "method": method,
        "threads": 1,
        "limit": 600.0,
        "machine": "a machine",
    }
    late = {"status": "timed out", "seconds": None, "errors": None, "row_ms": None, "memory_mb": 99.0, "version": None}
    ended = {"status": "ok", "seconds": seconds, "errors": errors, "row_ms": row_ms, "memory_mb": 9.0, "version": "1"}
    return out | (late if seconds is None else ended)


SMALL, LONG, WIDE = (1000, 10), (50_000, 15), (100, 2000)
ROWS = [
    row(SMALL, "vsae", 10.0, 0.5, 4.0), row(SMALL, "vsae-fast", 4.0, 0.6, 3.0), row(SMALL, "hyperimpute", 20.0, 0.4),
    row(SMALL, "missforest", 5.0, 0.55), row(LONG, "vsae", 100.0, 0.5, 6.0), row(LONG, "hyperimpute", None),
    row(WIDE, "vsae-fast", 29.0, 0.5, 4.5), row(WIDE, "utrees", 20.0, 0.7),
]  # fmt: skip


def found(rows) -> list[bool | None]:
    return [verdict.met for verdict in verdicts(tables_of(rows))]


def test_figures_are_judged_by_the_rows():
    fast, default, faster, long, wide, one = verdicts(tables_of(ROWS))
    assert (fast.met, default.met, faster.met, wide.met) == (True, True, True, True)
    assert faster.found == "2.0 × on 1,000 × 10 and > 6.0 × on 50,000 × 15"
    assert (long.found, long.met) == ("> 6.0 ×", True)
    assert (one.found, one.met) == ("at most 6.0 ms (vsae on 50,000 × 15)", False)
    assert found([]) == [None] * 6


def test_a_peer_that_is_faster_and_more_accurate_is_named():
    rows = [*ROWS, row(SMALL, "miceforest", 9.0, 0.45)]
    fast, default, *_ = verdicts(tables_of(rows))
    assert (default.found, default.met, fast.met) == ("miceforest on 1,000 × 10", False, True)


def test_a_run_out_of_time_is_no_win_and_a_limit_that_is_too_short_no_answer():
    late = [row(LONG, "vsae", None), row(LONG, "missforest", 500.0, 0.9)]
    assert found(late)[1] is False  # any answer is better than none
    assert found([row(LONG, "vsae", None), row(LONG, "hyperimpute", None)])[2:4] == [False, None]
    assert found([row(LONG, "vsae", 200.0), row(LONG, "hyperimpute", None)])[3] is None
    assert found([row(LONG, "vsae", 200.0), row(LONG, "hyperimpute", 500.0)])[3] is False


def test_the_page_is_made_of_rows(tmp_path):
    assert page(tmp_path) is None
    jobs.BENCHMARK.store(tmp_path).add(*ROWS, row(SMALL, "utrees", None) | {"status": "failed"})
    text = page(tmp_path)
    assert "Of 6 figures asked for, 5 are met, 1 not" in text
    assert "| vsae | 1 | 10 | 9 | 0.500 | 0.250 | 0.500 | 4.0 |" in text
    assert "| hyperimpute | – | > 600 | 99 | – | – | – | – |" in text
    assert "| utrees | – | failed | 99 | – | – | – | – |" in text
