"""The page docs/evaluate.md, from the rows of results/evaluate.jsonl."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from benchmarks.evaluate.jobs import BENCHMARK, CLOSE, HIDDEN, OURS, TABLES, within
from benchmarks.markup import MADE, all_values, count_of, listed, markdown, paragraph
from benchmarks.peers.cells import TRIVIAL, geometric_mean
from benchmarks.peers.readings import Verdict
from benchmarks.store import Row

ENOUGH = 0.8  # of the columns, asked for
CLEAR = 0.1  # methods whose errors on a column differ by more than that share are told apart


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = BENCHMARK.rows(results)
    if not rows:
        return None
    columns = [column for row in rows for column in row["columns"]]
    verdicts = markdown(["asked", "found", "met"], [verdict.line() for verdict in (_close(columns), _order(rows))])
    return f"""{MADE.format(source="results/evaluate.jsonl")}
# Is what evaluate says right?

[How good is it on my table?](how-good.md) shows how `evaluate` is used, and what it does. Here its predictions are
compared with errors on cells that were truly hidden.

{_protocol(rows)}

{verdicts}

{_noise(columns)}

{_tables(rows)}

{_orders(rows)}

## To repeat it

```sh
python -m benchmarks evaluate  # the runs; those that are there are not run again
python -m benchmarks tables    # this page
```
"""


def _protocol(rows: list[Row]) -> str:
    efforts, machines = (", ".join(all_values(rows, key)) for key in ("effort", "machine"))
    absent = [table for table in TABLES if table not in {row["table"] for row in rows}]
    return paragraph(
        f"{HIDDEN:.0%} of the cells of a table are hidden completely at random. `evaluate` is given what is left, and",
        "predicts the error of each column; then a fit to what is left fills the hidden cells, and the actual error is",
        f"known. Core tables of docs/benchmark.md, effort {efforts}. Machine: {machines}.",
        f"Not run: {listed(absent)}." if absent else "",
    )


def _close(columns: list[Row]) -> Verdict:
    close = sum(map(within, columns))
    asked = f"error predicted within {CLOSE:.0%} on at least {ENOUGH:.0%} of the columns"
    return Verdict(asked, f"{close} of {len(columns)}, {close / len(columns):.0%}", close >= ENOUGH * len(columns))


def _order(rows: list[Row]) -> Verdict:
    same = [_ranking(row, "predicted") == _ranking(row, "actual") for row in rows]
    pairs = [_agrees(row, pair) for row in rows for pair in combinations(_methods(row), 2)]
    found = f"on {sum(same)} of {count_of(len(same), 'table')}; {sum(pairs)} of {len(pairs)} pairs of methods"
    return Verdict("methods in the same order on all tables", found, all(same))


def _noise(columns: list[Row]) -> str:
    """What of it is chance: the actual error is that of some hundred cells, and would be another on others."""
    chances = [_chance(column) for column in columns]
    relative = sum(map(_within_relative, columns))
    z = np.array([_deviation(column) / noise for column in columns if (noise := _noise_of(column)) > 0])
    return paragraph(
        "Both errors are of a limited number of cells and vary with them, shares of rare mistakes most. A prediction",
        f"without any fault of its own, of as many cells, would be within {CLOSE:.0%} on {np.mean(chances):.0%} of the",
        f"columns. In standard errors of both, predictions are off by {z.mean():+.2f} on average, and vary by",
        f"{z.std():.2f}; a faultless one would by 0 and 1. More than 0: `evaluate` fears errors larger than they are.",
        "What hard cells do to all methods alike cancels in the error / that of mean and mode, which is predicted",
        f"within {CLOSE:.0%} on {relative} of {len(columns)} columns, {relative / len(columns):.0%}.",
    )


def _tables(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        columns = row["columns"]
        off = np.median([_deviation(column) / max(column["actual"][OURS], 1e-9) for column in columns])
        close, chance = np.mean([within(c) for c in columns]), np.mean([_chance(c) for c in columns])
        cells, hidden = (round(np.median([column[key] for column in columns])) for key in ("cells", "hidden"))
        lines.append(
            [row["table"], row["rows"], len(columns), cells, hidden, f"{close:.0%}", f"{chance:.0%}", f"{off:+.1%}",
             f"{row['seconds']:.0f}"]
        )  # fmt: skip
    headings = [
        "table", "rows", "columns", "cells scored", "truly hidden", f"within {CLOSE:.0%}", "faultless",
        "median deviation", "seconds",
    ]  # fmt: skip
    return markdown(headings, lines)


def _orders(rows: list[Row]) -> str:
    """Errors of all columns together, and single columns on which methods clearly differ."""
    lines = []
    for row in rows:
        methods = _ranking(row, "actual")
        shown = (f"{method} {_relative(row, 'predicted', method):.3f} / {_relative(row, 'actual', method):.3f}"
                 for method in methods if method != TRIVIAL)  # fmt: skip
        lines.append([row["table"], ", ".join(shown), "yes" if methods == _ranking(row, "predicted") else "**no**"])
    told = [
        (column["predicted"][one] < column["predicted"][other]) == (column["actual"][one] < column["actual"][other])
        for row in rows
        for column in row["columns"]
        for one, other in combinations(_methods(row), 2)
        if _differ(column["actual"][one], column["actual"][other])
    ]
    words = paragraph(
        "All columns together: error / that of mean and mode, geometric mean over the columns where no method is",
        "faultless, predicted / actual; from the best to the worst.",
        f"On single columns, pairs of methods whose actual errors differ by more than {CLEAR:.0%} are in the order",
        f"that `evaluate` predicts in {sum(told)} of {len(told)} cases.",
    )
    return f"{words}\n\n{markdown(['table', 'predicted / actual', 'same order'], lines)}"


# --- of a column


def _deviation(column: Row) -> float:
    return float(column["predicted"][OURS] - column["actual"][OURS])


def _noise_of(column: Row) -> float:
    return math.hypot(column["se"], column["actual_se"])


def _chance(column: Row) -> float:
    """How probable it is that two errors of that size, of so many cells, are within 10 %."""
    reach, noise = CLOSE * column["actual"][OURS], _noise_of(column)
    return float(2 * ndtr(reach / noise) - 1) if noise > 0 else 1.0


def _within_relative(column: Row) -> bool:
    predicted, actual = (column[which][OURS] * column[other][TRIVIAL] for which, other in
                         (("predicted", "actual"), ("actual", "predicted")))  # fmt: skip
    return bool(abs(predicted - actual) <= CLOSE * actual)


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > CLEAR * max(one, other)


# --- of a table


def _methods(row: Row) -> list[str]:
    return list(row["columns"][0]["actual"])


def _relative(row: Row, which: str, method: str) -> float:
    """Over the columns in which no method is faultless."""
    return geometric_mean(
        column[which][method] / column[which][TRIVIAL]
        for column in row["columns"]
        if min(*column["actual"].values(), *column["predicted"].values()) > 0
    )


def _ranking(row: Row, which: str) -> list[str]:
    return sorted(_methods(row), key=lambda method: _relative(row, which, method))


def _agrees(row: Row, pair: Iterable[str]) -> bool:
    one, other = pair
    ranks = [_ranking(row, which) for which in ("predicted", "actual")]
    return len({rank.index(one) < rank.index(other) for rank in ranks}) == 1
