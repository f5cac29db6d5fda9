"""Models of the family beside VSAE's default, in docs/paper.md: seconds, and where one of them has the lower error."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.markup import count_of, listed, markdown
from benchmarks.paper.board import NAMES, Board, Column
from benchmarks.paper.jobs import TABLES
from benchmarks.paper.methods import DEFAULT, PAPER
from benchmarks.store import Row
from vsae.baselines import BASELINES


def seconds_table(board: Board) -> str:
    """Of a fit at MCAR .5, the mean over seeds."""
    lines = []
    for method in (*BASELINES, PAPER, DEFAULT):
        cells = [_seconds(board.of(table, "mcar0.5", method)) for table in TABLES]
        if any(cell != "–" for cell in cells):
            lines.append([method, *cells])
    return markdown(["", *(NAMES[table] for table in TABLES)], lines)


def _seconds(rows: list[Row]) -> str:
    """
    >>> _seconds([{"seconds": 3.2, "machine": "torch 2, cuda, 16 cores"}]), _seconds([])
    ('3 (GPU)', '–')
    >>> _seconds([{"seconds": 3.2, "machine": "torch 2, cpu, 2 cores", "clock": "processor"}])
    '3 (CPU)'
    """
    if not rows:
        return "–"
    return f"{np.mean([row['seconds'] for row in rows]):.0f} ({listed(sorted(set(map(_clock, rows))))})"


def _clock(row: Row) -> str:
    """Seconds of the wall on a CPU may be those of a machine that was busy."""
    if ", cuda," in row["machine"]:
        return "GPU"
    return "CPU" if row.get("clock") == "processor" else "CPU, wall"


def beaten(board: Board, columns: Iterable[Column]) -> str:
    """Where a model has a lower error than the default on the same cells: the seeds that both have."""
    found, compared = [], 0
    for column in dict.fromkeys(columns):
        for method in BASELINES:
            pair = _both(board, column, method)
            if pair is None:
                continue
            compared += 1
            ours, theirs = np.mean(pair, axis=1)
            if theirs < ours:
                table, how, measure = column
                seeds = f"on {sum(t < o for o, t in zip(*pair, strict=True))} of {count_of(len(pair[0]), 'seed')}"
                errors = f"{measure.upper()} {theirs:.3f}, {DEFAULT} {ours:.3f}"
                found.append(f"{method} on {NAMES[table]} ({how}, {errors}; lower {seeds})")
    if not compared:
        return ""
    said = f": {listed(found)}" if found else ""
    return (
        f"Of {compared} pairs of a model and a column of both tables, {DEFAULT} has the higher error in {len(found)}, "
        f"on the seeds that both have{said}."
    )


def _both(board: Board, column: Column, method: str) -> tuple[list[float], list[float]] | None:
    """Errors of the default and of a model, by the seeds that both have."""
    table, how, measure = column
    ours, theirs = (
        {row["seed"]: row["new_rows"][measure] for row in board.of(table, how, name) if measure in row["new_rows"]}
        for name in (DEFAULT, method)
    )
    seeds = sorted(ours.keys() & theirs.keys())
    return ([ours[s] for s in seeds], [theirs[s] for s in seeds]) if seeds else None
