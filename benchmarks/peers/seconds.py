"""The part of docs/benchmark.md that says what the methods take: seconds, memory, and errors against seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import data
from benchmarks.markup import listed, markdown, paragraph, short
from benchmarks.peers.cells import (
    DEFAULT,
    FAILED,
    SETTINGS,
    TIMED_OUT,
    TRIVIAL,
    Board,
    board,
    geometric_mean,
    in_order,
    in_place,
    ratio,
)  # fmt: skip
from benchmarks.peers.figures import Point
from benchmarks.peers.grid import CORE, NEW_SHARE
from benchmarks.peers.jobs import LONG
from benchmarks.store import Row

RIVAL = "hyperimpute"  # the peer whose seconds ours are held against


def time_section(rows: list[Row], cells: Board) -> str:
    tables = sorted({row["table"] for row in rows}, key=lambda t: in_order(t, CORE.tables))
    lines: list[list[object]] = [
        [m, *(mean_seconds(timed(rows, m, t)) for t in tables), _median_memory(timed(rows, m))] for m in cells.methods
    ]
    if {DEFAULT, RIVAL} <= set(cells.methods):
        lines.append([f"`{DEFAULT}` / {RIVAL}", *(_against_rival(rows, table) for table in tables), ""])
    parts = [
        paragraph(
            "Mean CPU seconds over mechanisms and seeds to fit and to fill the training rows, without imports; > where",
            "a run timed out and counts as the limit. Last column: peak memory, the median of the runs.",
        ),
        markdown(["method", *tables, "MB"], lines),
    ]
    if points := points_of(rows, cells):
        left = [m for m in cells.methods if m not in {TRIVIAL, *(point.method for point in points)}]
        parts += [
            "![Error against seconds](figures/error-seconds.svg)",
            paragraph(
                "Error: geometric mean of error / error of mean and mode over the MCAR and MAR cells, in sample, where",
                "all these methods ran. Seconds: median of the runs behind them, the limit for one that timed out.",
                "A hollow mark has no result in some of the cells; its ratio to `vsae` is taken to be the same there",
                "as in the others.",
                f"Left out, without a result in half of them: {listed(left)}." if left else "",
            ),
        ]
    return "\n\n".join(parts)


def long_table(results: Path) -> str:
    """The rows of a longer table, which the core grid has not."""
    rows = in_place(LONG.rows(results))
    if not rows:
        return ""
    cells = board(rows)
    columns = list(cells.errors)
    lines: list[list[object]] = [
        [m, mean_seconds(timed(rows, m)), *(cells.text(c, m) for c in columns)] for m in cells.methods if timed(rows, m)
    ]
    first = rows[0]
    count = round(first["rows"] * (1 - NEW_SHARE))
    return "\n\n".join(
        [
            paragraph(
                f"A longer table: {count:,} rows of adult to fit, {first['columns']} columns, MCAR {first['rate']},",
                f"masks of the seeds {listed(map(str, sorted({r['seed'] for r in rows})))}; CPU seconds and errors.",
                f"`python -m benchmarks peers --tables {data.LONG} --mechanisms mcar0.5 --out results/long.jsonl`",
                "repeats it.",
            ),
            markdown(["method", "seconds", *(f"{c.measure.upper()} {SETTINGS[c.setting]}" for c in columns)], lines),
        ]
    )


def timed(rows: Iterable[Row], method: str, table: str | None = None) -> list[Row]:
    """The runs whose time is known, or known to be above the limit."""
    return [r for r in rows if r["method"] == method and r["status"] != FAILED and table in (None, r["table"])]


def seconds_of(rows: Iterable[Row]) -> list[float]:
    """Those that timed out count as their limit."""
    return [float(row["limit"] if row["status"] == TIMED_OUT else row["seconds"]) for row in rows]


def _late(rows: Iterable[Row]) -> bool:
    return any(row["status"] == TIMED_OUT for row in rows)


def mean_seconds(rows: list[Row]) -> str:
    """
    >>> mean_seconds([{"status": "ok", "seconds": 2.0}, {"status": "timed out", "limit": 300}])
    '> 151'
    """
    return ("> " if _late(rows) else "") + short(float(np.mean(seconds_of(rows)))) if rows else "–"


def _median_memory(rows: list[Row]) -> str:
    memory = [row["memory_mb"] for row in rows if row["memory_mb"]]
    return f"{np.median(memory):.0f}" if memory else "–"


def on_same_masks(rows: Sequence[Row], one: str, other: str, table: str | None = None) -> tuple[list[Row], list[Row]]:
    """The runs of two methods that are timed on the masks both have, in one order."""
    first, second = ({mask_of(row): row for row in timed(rows, m, table)} for m in (one, other))
    both = [mask for mask in first if mask in second]
    return [first[mask] for mask in both], [second[mask] for mask in both]


def mask_of(row: Row) -> tuple[object, ...]:
    return row["table"], row["mechanism"], row["rate"], row["seed"]


def _against_rival(rows: list[Row], table: str) -> str:
    """Mean seconds of ours / of the rival over the masks both have; a bound if one of them timed out."""
    ours, theirs = on_same_masks(rows, DEFAULT, RIVAL, table)
    if not ours or (_late(ours) and _late(theirs)):
        return "–"
    bound = "> " if _late(ours) else "< " if _late(theirs) else ""
    return f"{bound}{sum(seconds_of(ours)) / sum(seconds_of(theirs)):.2f}"


def points_of(rows: list[Row], cells: Board) -> list[Point]:
    """All methods but mean/mode, whose ratio is 1, and those with too few results.

    Ratios go through our default: a method that gave up on the hard tables must not gain from it, nor lose from having
    given up on the easy ones.
    """
    everywhere = cells.cells(setting="in_sample")
    methods = cells.taking_part([m for m in cells.methods if m != TRIVIAL], everywhere)
    group = [c for c in cells.shared(methods, everywhere) if DEFAULT in cells.errors[c]]
    tasks = {(c.table, c.mechanism, c.rate) for c in group}
    points = []
    for method in methods if group else []:
        own = [cells.errors[c] for c in group if method in cells.errors[c]]
        if 2 * len(own) >= len(group):
            ours = geometric_mean(cells.to_trivial(DEFAULT, c) for c in group)
            error = ours * geometric_mean(ratio(errors[method], errors[DEFAULT]) for errors in own)
            runs = [r for r in timed(rows, method) if (r["table"], r["mechanism"], r["rate"]) in tasks]
            points.append(Point(method, float(np.median(seconds_of(runs))), error, len(own) == len(group)))
    return points
