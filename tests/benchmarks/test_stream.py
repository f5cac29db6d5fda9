"""Streams as rows grow: tables that are made in pieces, a run that keeps its row, and what the page makes of rows."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.store import Store
from benchmarks.stream import jobs, made
from benchmarks.stream.page import page, seconds_a_row, slope


def row(rows: int, seconds: float, memory: float = 900.0) -> dict:
    return {
        "what": "impute", "rows": rows, "columns": 20, "method": "vsae", "seconds": seconds, "wall": seconds,
        "memory_mb": memory, "input_mb": rows / 1e4, "machine": "ours",
    }  # fmt: skip


def test_tables_are_made_piece_by_piece_and_columns_explain_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(made, "_PIECE", 400)
    made.write(tmp_path / "t.parquet", 1000, 6)
    table = pq.read_table(tmp_path / "t.parquet")
    assert (len(table), pq.ParquetFile(tmp_path / "t.parquet").num_row_groups) == (1000, 3)
    assert np.mean([column.null_count for column in table.columns]) / 1000 == pytest.approx(made.HIDDEN, abs=0.03)
    assert set(table["x1"].to_pylist()) == {None, "a", "b", "c"}
    x = np.stack([made.columns_of(2000, 6, 0)[f"x{j}"] for j in (0, 2, 4)])
    assert abs(np.corrcoef(x) - np.eye(3)).max() > 0.3
    assert made.table(50, 6).columns["x1"].max() == 2


def test_slope_is_that_of_the_logarithms():
    assert slope([row(10**n, 3.0 * 10**n) for n in (3, 4, 5)]) == pytest.approx(1)
    assert seconds_a_row([row(1000, 5.0), row(3000, 6.0)]) == pytest.approx(1 / 2000)


def test_the_page_says_what_rows_say(tmp_path):
    store = Store(tmp_path / "stream.jsonl", jobs.BENCHMARK.key)
    assert page(tmp_path) is None
    store.add(row(10_000, 6.0), row(100_000, 24.0), row(1_000_000, 204.0, 930.0), row(500_000, 104.0))
    text = " ".join(page(tmp_path).split())
    assert "so time grows no faster than rows" in text
    assert "930 MB, below the 2,000" in text
    assert "+3% against one of 500,000 rows" in text
    assert "200 µs of one core a row" in text
    store.add(row(3_000_000, 5000.0, 2500.0))
    text = " ".join(page(tmp_path).split())
    assert "more than the 1.05" in text
    assert "above the 2,000" in text
