"""What the rows of sharp tables say: our errors / the lowest of the peers', by table and measure.

An error is the mean over mechanisms, seeds, and rows in and out of the sample: a cell of a small table is mostly noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np

from benchmarks.markup import markdown
from benchmarks.peers.cells import DEFAULT, OURS, TRIVIAL, Board, board, geometric_mean, in_order, ratio
from benchmarks.peers.readings import Verdict
from benchmarks.sharp import tables
from benchmarks.sharp.made import MAKERS, made
from benchmarks.store import Row
from vsae.data.schema import DISCRETE

Place = tuple[str, str]  # table and measure
Errors = dict[Place, dict[str, float]]  # by method
LEVELS = ((2, 3), (4, 6), (7, None))  # of the column with most
LEFT = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.7), (0.7, 1.0))
MOST_ON_AVERAGE, MOST_ON_EACH, MOST_DESIGNED, MOST_INDEPENDENT = 1.0, 1.05, 1.05, 1.002  # asked


def errors_of(rows: Iterable[Row]) -> Errors:
    """Of the methods that have an error in all cells of a place."""
    cells: Board = board(rows)
    groups: dict[Place, list[dict[str, float]]] = {}
    for cell, errors in cells.errors.items():
        groups.setdefault((cell.table, cell.measure), []).append(errors)
    return {
        place: {
            m: float(np.mean([e[m] for e in groups[place]]))
            for m in cells.methods
            if all(m in e for e in groups[place])
        }
        for place in sorted(groups, key=_order)
    }


def to_lowest(errors: Errors, method: str, places: Iterable[Place] | None = None) -> dict[Place, float]:
    """The method's error / the lowest of the peers', where there are both."""
    found = {}
    for place in errors if places is None else places:
        peers = [error for m, error in errors[place].items() if m not in OURS]
        if peers and method in errors[place]:
            found[place] = ratio(errors[place][method], min(peers))
    return found


def sharp(errors: Errors) -> list[Place]:
    return [place for place in errors if tables.base(place[0]) != tables.CONTROL]


def summary(errors: Errors) -> str:
    """A line for each table and measure: errors of peers, then ours / the lowest of these; all together at the end."""
    methods = list(dict.fromkeys(m for there in errors.values() for m in there))
    ours, peers = [m for m in OURS if m in methods], [m for m in methods if m not in OURS]
    found = {m: to_lowest(errors, m) for m in ours}
    lines = [
        [_name(place), *(_text(errors[place].get(m)) for m in peers), *(_text(found[m].get(place)) for m in ours)]
        for place in errors
    ]
    lines.append(["all that are sharp", *[""] * len(peers), *(_text(average(errors, m)) for m in ours)])
    return markdown(["table and measure", *peers, *(f"{m} / lowest" for m in ours)], lines)


def average(errors: Errors, method: str, places: Iterable[Place] | None = None) -> float | None:
    """Geometric mean over places, all sharp ones unless said otherwise."""
    found = to_lowest(errors, method, sharp(errors) if places is None else places)
    return geometric_mean(found.values()) if found else None


def groups_of(errors: Errors) -> dict[str, list[Place]]:
    """Sharp places by rows (of tables that are made), by measure, by levels, and by how much peers can tell."""
    places = sharp(errors)
    found: dict[str, list[Place]] = {}
    for place in places:
        rows = place[0].partition("-")[2]
        found.setdefault(f"made, {int(rows):,} rows" if rows else "collected", []).append(place)
    for measure in ("nrmse", "pfc", "nmae"):
        found[measure.upper()] = [place for place in places if place[1] == measure]
    for least, most in LEVELS:
        name = f"PFC, made, {least} to {most} levels" if most else f"PFC, made, {least} levels or more"
        found[name] = [p for p in places if p[1] == "pfc" and least <= most_levels(p[0]) <= (most or np.inf)]
    for low, high in LEFT:
        found[f"lowest / that of mean and mode, {low} to {high}"] = [
            place for place in places if low <= left(errors[place]) < high
        ]
    return {name: some for name, some in found.items() if some}


@cache
def most_levels(table: str) -> int:
    """Of a column of a table that is made; 0 for others."""
    name, _, rows = table.partition("-")
    if name not in MAKERS:
        return 0
    return max((v.size for v in made(name, int(rows)).schema.variables if v.family in DISCRETE), default=0)


def left(there: Mapping[str, float]) -> float:
    """How much of the error of mean and mode the lowest peer leaves: the less, the more sharply a table is determined.
    NaN without either."""
    peers = [error for m, error in there.items() if m not in OURS and m != TRIVIAL]
    return min(peers) / there[TRIVIAL] if peers and TRIVIAL in there else float("nan")


def by_group(errors: Errors) -> str:
    ours = [m for m in OURS if any(m in there for there in errors.values())]
    lines = [[name, *(_text(average(errors, m, places)) for m in ours)] for name, places in groups_of(errors).items()]
    return markdown(["tables", *(f"{m} / lowest" for m in ours)], lines)


def verdicts(errors: Errors, method: str = DEFAULT) -> list[Verdict]:
    each = to_lowest(errors, method, sharp(errors))
    each |= {place: float("nan") for place in sharp(errors) if place not in each and _has_peers(errors[place])}
    designed = {place: value for place, value in each.items() if place[1] == "nmae"}
    control = {
        place: ratio(there[method], there[TRIVIAL])
        for place, there in errors.items()
        if place not in sharp(errors) and {method, TRIVIAL} <= there.keys()
    }
    return [
        _verdict("error / lowest peer's, average of sharp tables", average(errors, method), MOST_ON_AVERAGE),
        _verdict("error / lowest peer's, on each sharp table", *_highest(each, MOST_ON_EACH)),
        _verdict('absolute error (`strategy="median"`) / lowest peer\'s, designed', *_highest(designed, MOST_DESIGNED)),
        _verdict("error / that of mean and mode, independent columns", *_highest(control, MOST_INDEPENDENT)),
    ]


def _has_peers(there: Mapping[str, float]) -> bool:
    return any(m not in OURS and m != TRIVIAL for m in there)


def _highest(found: dict[Place, float], most: float) -> tuple[float | None, float, str]:
    """With NaN where a method has not run: a loss that is not there is not met, unless another one is found."""
    there = {place: value for place, value in found.items() if value == value}
    place = max(there, key=there.__getitem__, default=None)
    lacking = [other for other in found if other not in there]
    if place is None or (lacking and there[place] <= most):
        return None, most, f" ({_name(lacking[0])} not run)" if lacking else ""
    return there[place], most, f" ({_name(place)})"


def _verdict(asked: str, value: float | None, most: float, where: str = "") -> Verdict:
    return Verdict(f"{asked} ≤ {most}", _text(value) + where, None if value is None else value <= most)


def _name(place: Place) -> str:
    return f"{place[0]} {place[1].upper()}"


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _order(place: Place) -> tuple[object, ...]:
    name, _, rows = place[0].partition("-")
    return in_order(name, tables.NAMES), int(rows or 0), place[1]
