"""The rows of the paper's tables as errors of methods in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.jobs import UNIQUE, mechanism_name
from benchmarks.paper.methods import CHAINS, DEFAULT, PAPER
from benchmarks.store import Row
from vsae.baselines import BASELINES

TRIVIAL, WEIGHTED = "mean/mode", f"{PAPER}, weighted"
ORDER = (TRIVIAL, *BASELINES, *CHAINS, PAPER, WEIGHTED, DEFAULT)
Column = tuple[str, str, str]  # data set, mechanism with rate, measure

NAMES = {"phishing": "Phishing", UNIQUE: "Phishing, no copies", "mushroom": "Mushroom", "yeast": "Yeast",
         "whitewine": "White wine", "heart": "Heart"}  # fmt: skip
TABLE1: tuple[Column, ...] = (
    ("phishing", "mcar0.5", "pfc"), (UNIQUE, "mcar0.5", "pfc"), ("mushroom", "mcar0.5", "pfc"),
    ("yeast", "mcar0.5", "nrmse"), ("whitewine", "mcar0.5", "nrmse"), ("heart", "mcar0.5", "pfc"),
    ("heart", "mcar0.5", "nrmse"),
)  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """The errors of one method in one column, a number a seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0


class Board:
    """All rows, by experiment and method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            key = (row["table"], mechanism_name(row["mechanism"], row["rate"]), row["method"])
            self.rows.setdefault(key, []).append(row)
        self.seeds = max((len(found) for found in self.rows.values()), default=0)

    def of(self, table: str, how: str, method: str) -> list[Row]:
        return sorted(self.rows.get((table, how, method), []), key=lambda row: int(row["seed"]))

    def errors(self, column: Column, method: str, where: str = "new_rows") -> Errors | None:
        """Trivial errors come with any method's; those of `DEFAULT` are taken, or of whichever is there."""
        table, how, measure = column
        if method == TRIVIAL:
            for other in (DEFAULT, PAPER, *BASELINES):
                if rows := self.of(table, how, other):
                    return _errors([row[where].get(f"{measure}_trivial") for row in rows])
            return None
        if method == WEIGHTED:
            weighted = [row.get("weighted_new_rows", {}).get(measure) for row in self.of(table, how, PAPER)]
            return _errors(weighted) if where == "new_rows" else None
        return _errors([row[where].get(measure) for row in self.of(table, how, method)])

    def complete(self, columns: Iterable[Column], methods: Iterable[str]) -> bool:
        return all(self.errors(c, m) is not None for c in columns for m in methods)


def _errors(values: Sequence[float | None]) -> Errors | None:
    known = tuple(v for v in values if v is not None)
    return Errors(known) if known and len(known) == len(values) else None


def best_of(board: Board, column: Column, methods: Iterable[str], where: str = "new_rows") -> tuple[str, Errors] | None:
    there = [(m, e) for m in methods if (e := board.errors(column, m, where)) is not None]
    return min(there, key=lambda pair: pair[1].mean) if there else None
