"""Seconds and memory that draws and intervals take after a fit, one thread, each table in a process of its own."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks import options
from benchmarks.markup import markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, in_process
from benchmarks.scaling import peak_bytes
from benchmarks.sizes import HIDDEN, simulated
from benchmarks.store import Row
from vsae import fit
from vsae.data.missingness import MCAR
from vsae.fitting.presets import config_for

#: rows, columns, draws; and the seconds and megabytes that are asked for.
SIZES = {(5000, 15, 20): (60.0, None), (500, 1000, 5): (120.0, 2000.0)}
MOST_INTERVAL_SECONDS = 4.0  # of the first


def measured(rows: int, columns: int, draws: int) -> Row:
    table = simulated(rows, columns)
    mask = table.hide(MCAR(HIDDEN), np.random.default_rng(1))
    fitted = fit(table.schema, table.columns, mask, config_for(table.schema, rows))
    began = time.perf_counter()
    fitted.draw(table.columns, mask, draws)
    drawn = time.perf_counter()
    fitted.quantiles(table.columns, mask, [0.05, 0.95])
    return {
        "rows": rows, "columns": columns, "draws": draws, "draw_seconds": drawn - began,
        "interval_seconds": time.perf_counter() - drawn, "memory_mb": peak_bytes("cpu") / 2**20,
        "machine": f"torch {torch.__version__}, {platform.machine()}, 1 thread, python {platform.python_version()}",
    }  # fmt: skip


def in_words(row: Row) -> str:
    seconds = f"{row['draws']} draws in {row['draw_seconds']:.1f} s, intervals in {row['interval_seconds']:.1f} s"
    return f"{seconds}, {row['memory_mb']:.0f} MB at most, the fit's included"


BENCHMARK = Benchmark("draw-times", ("rows", "columns", "draws"), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("draw-times", __doc__)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, [{"rows": n, "columns": p, "draws": k} for n, p, k in SIZES])


# --- its part of docs/joint.md


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## Seconds of draws\n\nNot run."
    head = ["rows", "columns", "draws", "seconds of the draws", "seconds of 90 % intervals", "most memory"]
    lines = [
        [f"{r['rows']:,}", f"{r['columns']:,}", r["draws"], f"{r['draw_seconds']:.1f}", f"{r['interval_seconds']:.1f}",
         f"{r['memory_mb']:.0f} MB"]
        for r in rows
    ]  # fmt: skip
    machines = "; ".join(sorted({row["machine"] for row in rows}))
    words = paragraph(f"After the fit, at the default effort, {HIDDEN:.0%} of the cells missing. Machine: {machines}.")
    return f"## Seconds of draws\n\n{markdown(head, lines)}\n\n{words}"


def verdicts(results: Path) -> list[Verdict]:
    rows = {(r["rows"], r["columns"], r["draws"]): r for r in BENCHMARK.rows(results)}
    out = []
    for size, (seconds, memory) in SIZES.items():
        n, columns, draws = size
        within = "" if memory is None else f", in {memory / 1000:.0f} GB"
        asked = f"{draws} draws of {n:,} × {columns:,} within {seconds:.0f} s on one core{within}"
        row = rows.get(size)
        if row is None:
            continue
        met = row["draw_seconds"] <= seconds and (memory is None or row["memory_mb"] <= memory)
        out.append(Verdict(asked, f"{row['draw_seconds']:.1f} s, {row['memory_mb']:.0f} MB", met))
    size = next(iter(SIZES))
    if size in rows:
        seconds = rows[size]["interval_seconds"]
        asked = f"intervals of {size[0]:,} × {size[1]} within {MOST_INTERVAL_SECONDS:.0f} s"
        out.append(Verdict(asked, f"{seconds:.1f} s", seconds <= MOST_INTERVAL_SECONDS))
    return out
