"""Models of the family beside VSAE's default, in docs/paper.md: seconds, and where one of them has the lower error."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.markup import listed, markdown
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
    """
    if not rows:
        return "–"
    where = listed(sorted({"GPU" if ", cuda," in row["machine"] else "CPU" for row in rows}))
    return f"{np.mean([row['seconds'] for row in rows]):.0f} ({where})"


def beaten(board: Board, columns: Iterable[Column]) -> str:
    """Where a model has a lower error than the default on the same cells: the seeds that both have."""
    found, compared = [], 0
    for column in dict.fromkeys(columns):
        for method in BASELINES:
            pair = _both(board, column, method)
            if pair is None:
                continue
            compared += 1
            ours, theirs = pair
            if theirs < ours:
                table, how, measure = column
                found.append(
                    f"{method} on {NAMES[table]} ({how}, {measure.upper()} {theirs:.3f}, {DEFAULT} {ours:.3f})"
                )
    if not compared:
        return ""
    said = f": {listed(found)}" if found else ""
    return (
        f"Of {compared} pairs of a model and a column of both tables, {DEFAULT} has the higher error in {len(found)}, "
        f"on the seeds that both have{said}."
    )


def _both(board: Board, column: Column, method: str) -> tuple[float, float] | None:
    """Mean errors of the default and of a model."""
    table, how, measure = column
    errors = [
        {row["seed"]: row["new_rows"][measure] for row in board.of(table, how, name) if measure in row["new_rows"]}
        for name in (DEFAULT, method)
    ]
    seeds = sorted(errors[0].keys() & errors[1].keys())
    if not seeds:
        return None
    ours, theirs = (float(np.mean([found[seed] for seed in seeds])) for found in errors)
    return ours, theirs
