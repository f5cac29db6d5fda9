"""From rows to what can be compared: cells, ratios of errors, ranks.

A cell is one table, mechanism, setting and measure. Its error is a method's mean over the masks; a method that lacks
one of the masks has no error there, but a reason why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, studentized_range

from benchmarks.peers.grid import CORE
from benchmarks.peers.jobs import METHODS
from benchmarks.store import Row

OURS = ("vsae-fast", "vsae", "vsae-best")
DEFAULT, BEST = "vsae", "vsae-best"
TRIVIAL = "mean/mode"
SETTINGS = {"in_sample": "in sample", "new_rows": "new rows"}
MEASURES = ("nrmse", "nmae", "pfc")
IGNORABLE = ("mcar", "mar", "paper-mar")  # whether a cell is missing does not depend on its value
TINY = 1e-3  # an error below it counts as this much, so that a ratio to a perfect answer means something

TIMED_OUT, FAILED, NOT_OFFERED, NOT_RUN = "timed out", "failed", "not offered", "not run"
SHORT = {TIMED_OUT: "t/o", FAILED: "failed", NOT_OFFERED: "–", NOT_RUN: "n/r"}


class Cell(NamedTuple):
    table: str
    mechanism: str
    rate: float
    setting: str
    measure: str

    @property
    def ignorable(self) -> bool:
        return self.mechanism in IGNORABLE


@dataclass(frozen=True)
class Board:
    """Every method in every cell: either an error, or the reason why there is none."""

    methods: list[str]  # those with any row; peers first, ours last
    errors: dict[Cell, dict[str, float]]
    reasons: dict[Cell, dict[str, str]]
    trivial: dict[Cell, float]  # of mean and mode

    @property
    def peers(self) -> list[str]:
        return [method for method in self.methods if method not in OURS]

    def cells(self, ignorable: bool = True, setting: str | None = None) -> list[Cell]:
        return [c for c in self.errors if c.ignorable == ignorable and setting in (None, c.setting)]

    def text(self, cell: Cell, method: str) -> str:
        """The error, or in short why there is none."""
        errors = self.errors[cell]
        return f"{errors[method]:.3f}" if method in errors else SHORT[self.reasons[cell][method]]

    def ran(self, cell: Cell, method: str) -> bool:
        """Whether its runs are there, to whatever end they came."""
        return method in self.errors[cell] or self.reasons[cell].get(method) in (TIMED_OUT, FAILED)

    def best_peer(self, cell: Cell) -> str | None:
        errors = self.errors[cell]
        return min((m for m in self.peers if m in errors), key=errors.__getitem__, default=None)

    def compared(self, method: str, cells: Iterable[Cell]) -> list[Cell]:
        """The cells in which both this method and a peer have an error."""
        return [c for c in cells if method in self.errors[c] and self.best_peer(c)]

    def to_best_peer(self, method: str, cell: Cell) -> float:
        peer = self.best_peer(cell)
        assert peer is not None, "ask only about cells that are `compared`"
        return ratio(self.errors[cell][method], self.errors[cell][peer])

    def to_trivial(self, method: str, cell: Cell) -> float:
        return ratio(self.errors[cell][method], self.trivial[cell])

    def taking_part(self, methods: Iterable[str], cells: Sequence[Cell]) -> list[str]:
        """Those that ran in half of the cells: one run here and there must not shrink what all have in common."""
        return [m for m in methods if 2 * sum(self.ran(c, m) for c in cells) >= max(len(cells), 1)]

    def shared(self, methods: Iterable[str], cells: Iterable[Cell]) -> list[Cell]:
        """The cells in which all these methods ran."""
        methods = list(methods)
        return [c for c in cells if all(self.ran(c, m) for m in methods)]

    def mean_ranks(self, methods: Sequence[str], cells: Sequence[Cell]) -> NDArray[np.float64]:
        """(methods,); 1 is the lowest error, ties share a rank, and those that came to no end share the last ones."""
        errors = [[self.errors[c].get(m, np.inf) for m in methods] for c in cells]
        return rankdata(errors, axis=1).mean(axis=0)


def in_place(rows: Iterable[Row]) -> list[Row]:
    """The rows with mechanisms in the order of their difficulty and tables in that of the grid."""
    return sorted(rows, key=_place)


def board(rows: Iterable[Row]) -> Board:
    rows = list(rows)
    tasks: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        tasks.setdefault((row["table"], row["mechanism"], row["rate"]), []).append(row)
    methods = _methods(rows)
    elsewhere = _not_offered(rows)
    out = Board(methods, {}, {}, {})
    for task, runs in tasks.items():
        for setting in SETTINGS:
            for measure in MEASURES:
                scores = {(r["method"], r["seed"]): r[setting] for r in runs if measure in (r[setting] or ())}
                if scores:
                    cell = Cell(*task, setting, measure)
                    out.trivial[cell] = _trivial(scores, measure)
                    out.errors[cell], out.reasons[cell] = {}, {}
                    for method in methods:
                        error, reason = _outcome(method, runs, scores, measure)
                        if (method, setting) in elsewhere:
                            out.reasons[cell][method] = NOT_OFFERED
                        elif error is None:
                            out.reasons[cell][method] = reason
                        else:
                            out.errors[cell][method] = error
    return out


def _outcome(
    method: str, runs: list[Row], scores: dict[tuple[str, int], dict[str, float]], measure: str
) -> tuple[float | None, str]:
    """The mean over all seeds that any method has a score for, or why there is none."""
    seeds = {seed for _, seed in scores}
    if all((method, seed) in scores for seed in seeds):
        return float(np.mean([scores[method, seed][measure] for seed in seeds])), ""
    own = {run["seed"]: run["status"] for run in runs if run["method"] == method}
    if TIMED_OUT in own.values():
        return None, TIMED_OUT
    return None, FAILED if FAILED in own.values() or seeds <= set(own) else NOT_RUN


def _trivial(scores: dict[tuple[str, int], dict[str, float]], measure: str) -> float:
    """Mean over seeds: that of mean and mode does not depend on the method."""
    return float(np.mean(list({seed: score[f"{measure}_trivial"] for (_, seed), score in scores.items()}.values())))


def _not_offered(rows: list[Row]) -> set[tuple[str, str]]:
    """(method, setting) that a method which came to an end has never answered."""
    ended = {row["method"] for row in rows if row["status"] == "ok"}
    answered = {(row["method"], setting) for row in rows for setting in SETTINGS if row[setting]}
    return {(method, setting) for method in ended for setting in SETTINGS} - answered


def _methods(rows: list[Row]) -> list[str]:
    there = {row["method"] for row in rows}
    known = [m for m in METHODS if m not in OURS]
    return [m for m in (*known, *sorted(there - {*known, *OURS}), *OURS) if m in there]


def _place(row: Row) -> tuple[Any, ...]:
    mechanism, table = in_order(row["mechanism"], ("mcar", "mar", "nmar")), in_order(row["table"], CORE.tables)
    return mechanism, row["rate"], table, row["seed"], row["method"]


def in_order(name: str, order: Sequence[str]) -> tuple[int, str]:
    """A key to sort by: those of the order first, then the others by name."""
    return order.index(name) if name in order else len(order), name


# --- numbers


def ratio(a: float, b: float) -> float:
    """
    >>> ratio(0.4, 0.2), ratio(0.0, 0.0)
    (2.0, 1.0)
    """
    return max(a, TINY) / max(b, TINY)


def geometric_mean(ratios: Iterable[float]) -> float:
    """
    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return float(np.exp(np.mean(np.log(list(ratios)))))


def critical_difference(methods: int, cells: int, alpha: float = 0.05) -> float:
    """Nemenyi's: q √(k (k + 1) / (6 N)), q the upper α quantile of the studentised range over √2.

    >>> round(critical_difference(4, 14), 3)
    1.254
    """
    quantile = studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * cells)))


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Of ranks in order, the longest stretches (first, last) that lie within the difference.

    >>> cliques([1.0, 2.0, 3.0, 6.0], 1.5)
    [(0, 1), (1, 2)]
    """
    last = [max(j for j, r in enumerate(ranks) if r - rank <= difference) for rank in ranks]
    return [(i, j) for i, j in enumerate(last) if j > i and (i == 0 or last[i - 1] < j)]
