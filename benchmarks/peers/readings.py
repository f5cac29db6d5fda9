"""From the rows of methods on tasks to numbers in tables: what each method reads in each place, or why nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.markup import markdown, paragraph
from benchmarks.peers.cells import in_order
from benchmarks.peers.grid import CORE
from benchmarks.store import Row

Pick = Callable[[Row], float | None]  # a number of a row that came to its end, or None if it does not have it
SHORT = {"timed out": "t/o", "failed": "failed", "ok": "–"}
NOT_RUN = "n/r"


class Mask(NamedTuple):
    mechanism: str
    rate: float


class Place(NamedTuple):
    table: str
    mask: Mask


class Verdict(NamedTuple):
    """A figure that was asked for, what the rows say of it, and whether that is enough; None: nothing to judge by."""

    asked: str
    found: str
    met: bool | None

    def line(self) -> list[str]:
        return [self.asked, self.found, {True: "yes", False: "**no**", None: "–"}[self.met]]


class Measure:
    """A number of a row, which way it is better, if any, and what it means; `references` are lines below its table."""

    def __init__(
        self,
        title: str,
        pick: Pick,
        best: Callable[..., float] | None,
        *words: str,
        references: Mapping[str, Pick] | None = None,
    ) -> None:
        self.title, self.pick, self.best = title, pick, best
        self.words, self.references = paragraph(*words), references or {}


@dataclass(frozen=True)
class Readings:
    rows: tuple[Row, ...]

    @property
    def masks(self) -> list[Mask]:
        found = {Mask(row["mechanism"], row["rate"]) for row in self.rows}
        return sorted(found, key=lambda mask: (in_order(mask.mechanism, ("mcar", "mar", "nmar")), mask.rate))

    def places(self, mask: Mask | None = None) -> list[Place]:
        found = {Place(row["table"], Mask(row["mechanism"], row["rate"])) for row in self.rows}
        kept = [place for place in found if mask in (None, place.mask)]
        return sorted(kept, key=lambda p: (self.masks.index(p.mask), in_order(p.table, CORE.tables)))

    def runs(self, place: Place, method: str) -> list[Row]:
        wanted = (place.table, *place.mask, method)
        return [row for row in self.rows if (row["table"], row["mechanism"], row["rate"], row["method"]) == wanted]

    def of(self, place: Place, method: str, pick: Pick) -> float | None:
        """The mean over the seeds, or None where one of them has no such number."""
        runs = self.runs(place, method)
        found = [value for row in runs if row["status"] == "ok" and (value := pick(row)) is not None]
        return float(np.mean(found)) if runs and len(found) == len(runs) else None

    def all_of(self, places: Iterable[Place], methods: Iterable[str], pick: Pick) -> dict[tuple[Place, str], float]:
        read = {(p, m): self.of(p, m, pick) for p in places for m in methods}
        return {key: value for key, value in read.items() if value is not None}

    def why_not(self, place: Place, method: str) -> str:
        status = {row["status"] for row in self.runs(place, method)}
        return next((text for name, text in SHORT.items() if name in status), NOT_RUN)

    def best(
        self, place: Place, methods: Iterable[str], pick: Pick, choose: Callable[..., float] = min
    ) -> float | None:
        found = self.all_of([place], methods, pick)
        return choose(found.values()) if found else None

    def table(self, mask: Mask, methods: Sequence[str], measure: Measure, among: Sequence[str]) -> str:
        """Methods by tables, without tables that nobody has a number for; the best of those `among` is bold."""
        places = self._read(mask, methods, measure)
        shown = [m for m in methods if any(self.runs(p, m) for p in places)]
        columns = [self._column(p, shown, measure, among) for p in places]
        lines = [[m, *(column[m] for column in columns)] for m in shown]
        for name, pick in measure.references.items():
            values = [next(iter(self.all_of([p], methods, pick).values()), None) for p in places]
            lines.append([f"*{name}*", *("–" if value is None else f"{value:.3f}" for value in values)])
        return markdown(["method", *(p.table for p in places)], lines)

    def averages(self, mask: Mask, methods: Sequence[str], measures: Sequence[Measure], among: Sequence[str]) -> str:
        """Methods by measures: means over all tables that anybody has a number for, or – where one is lacking."""
        shown = [m for m in methods if any(self.runs(p, m) for p in self.places(mask))]
        columns = [
            _entries({m: self.average(mask, m, methods, measure) for m in shown}, measure, among)
            for measure in measures
        ]
        headings = ["method", *(measure.title for measure in measures)]
        return markdown(headings, [[m, *(column[m] for column in columns)] for m in shown])

    def average(self, mask: Mask, method: str, methods: Sequence[str], measure: Measure) -> float | None:
        values = [self.of(p, method, measure.pick) for p in self._read(mask, methods, measure)]
        found = [value for value in values if value is not None]
        return float(np.mean(found)) if found and len(found) == len(values) else None

    def _column(self, place: Place, methods: Sequence[str], measure: Measure, among: Sequence[str]) -> dict[str, str]:
        values = {m: self.of(place, m, measure.pick) for m in methods}
        lacking = {m: self.why_not(place, m) for m, value in values.items() if value is None}
        return _entries(values, measure, among) | lacking

    def _read(self, mask: Mask, methods: Sequence[str], measure: Measure) -> list[Place]:
        return [p for p in self.places(mask) if self.all_of([p], methods, measure.pick)]


def _entries(values: Mapping[str, float | None], measure: Measure, among: Sequence[str]) -> dict[str, str]:
    """Method → its number as text; the best of those `among` bold, with those that look the same."""
    running = [value for method, value in values.items() if method in among and value is not None]
    lead = f"{measure.best(running):.3f}" if measure.best and running else None
    texts = {method: "–" if value is None else f"{value:.3f}" for method, value in values.items()}
    return {m: f"**{text}**" if m in among and text == lead else text for m, text in texts.items()}


def with_place(value: float, place: Place, digits: str = ".3f") -> str:
    """
    >>> with_place(0.12345, Place("adult", Mask("mar", 0.3)))
    '0.123 (adult, MAR)'
    """
    return f"{value:{digits}} ({place.table}, {place.mask.mechanism.upper()})"
