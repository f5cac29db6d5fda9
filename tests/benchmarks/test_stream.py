"""Streams as rows grow: tables that are made in pieces, a run that keeps its row, and what the page makes of rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.store import Store
from benchmarks.stream import cluster, jobs, made
from benchmarks.stream.page import page, seconds_a_row, slope


def row(rows: int, seconds: float, memory: float = 900.0) -> dict:
    return {
        "what": "impute", "rows": rows, "columns": 20, "method": "vsae", "seconds": seconds, "wall": seconds,
        "memory_mb": memory, "input_mb": rows / 1e4, "machine": "ours",
    }  # fmt: skip


ERRORS = {"nrmse": 0.5, "pfc": 0.25}


def on_ray(differ: int, elsewhere: Sequence[str] = ()) -> dict:
    return {
        **row(10**6, 0.0), "what": "ray", "workers": 2, "killed": 1, "rows_of_many": 10**6, "differ": differ,
        "empty": 0, "same_bytes": not differ, "listening_elsewhere": list(elsewhere),
    }  # fmt: skip


def test_models_are_told_apart_by_cells_that_were_hidden_from_them(tmp_path, monkeypatch):
    class Mean:
        def transform(self, table: pa.Table) -> pa.Table:
            return pa.table({n: pc.fill_null(x, "b" if pa.types.is_string(x.type) else 0.0) for n, x in zip(
                table.column_names, table.columns, strict=True)})  # fmt: skip

    monkeypatch.setattr("vsae.load", lambda _: Mean())
    found = cluster.errors(tmp_path, 4)
    assert found["nrmse"] == pytest.approx(1, abs=0.05)
    assert found["pfc"] == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_process_and_what_it_listens_at_are_found():
    code = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            assert child.pid in cluster.descendants(os.getpid())
            assert cluster.listening({child.pid}) == {"0100007F"}
        finally:
            child.kill()


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
    assert "by one process" not in text
    store.add(on_ray(differ=0), {**row(50_000, 0.0), "what": "sample", "of": 10**6, "errors": ERRORS})
    text = " ".join(page(tmp_path).split())
    assert "0 empty cells, and the same bytes as by one process" in text
    assert "loopback device: none" in text
    assert "| 50,000 | 0.5000 | 0.2500 |" in text
    store.add(on_ray(differ=7, elsewhere=["00000000"]))
    text = " ".join(page(tmp_path).split())
    assert "7 other cells as by one process" in text
    assert "loopback device: 00000000" in text
    store.add(row(3_000_000, 5000.0, 2500.0))
    text = " ".join(page(tmp_path).split())
    assert "more than the 1.05" in text
    assert "above the 2,000" in text
