"""What was put into missing cells, beside what is observed: distributions, pairs of columns, and how sure it is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from vsae.analysis.draws import Draws
from vsae.table import Encoded, Table
from vsae.table.plan import ColumnPlan

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Cells = Mapping[str, NDArray[Any]]
_BINS = 28
_WHOLE = 4  # whole numbers share a bin, at most; if more of them would, bins need not hold whole ones
_TAIL = 0.005  # of the values, on either side, are shown at the ends
_MOST_LEVELS = 10  # shown one by one
_INTERVAL = (0.05, 0.95)


@dataclass(frozen=True)
class Completed:
    """A table, and draws of its missing cells; numbers in natural units, and codes of levels."""

    plans: tuple[ColumnPlan, ...]
    observed: Encoded
    draws: Sequence[Cells]
    hidden: Bools | None = None  # (n, M), the cells that are filled; None: all that are not observed

    @classmethod
    def of(cls, draws: Draws) -> Completed:
        """Of completed tables as a user has them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the imputer has said it
            table = Table.fit(draws.original)
            return cls(
                tuple(plan for plan in table.modelled if plan.shape is None),
                table.encode(draws.original),
                [table.encode(completed).columns for completed in draws],
            )

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.observed.columns)}

    def missing(self, plan: ColumnPlan) -> Bools:
        """Cells that are drawn, (n,)."""
        hidden = ~self.observed.mask if self.hidden is None else self.hidden
        return hidden[:, self._place[plan.name]]

    def known(self, plan: ColumnPlan) -> Bools:
        return self.observed.mask[:, self._place[plan.name]]

    def seen(self, plan: ColumnPlan) -> NDArray[Any]:
        return self.observed.columns[plan.name][self.known(plan)]

    def drawn(self, plan: ColumnPlan) -> NDArray[Any]:
        """Of all draws, one after the other."""
        at = self.missing(plan)
        return np.concatenate([draw[plan.name][at] for draw in self.draws] or [np.zeros(0)])

    @property
    def filled(self) -> list[ColumnPlan]:
        """The columns with missing cells and observed ones."""
        return [plan for plan in self.plans if self.missing(plan).any() and self.known(plan).any()]


class Distribution(NamedTuple):
    """Of a column: shares of the observed and of the drawn cells, in bins of a number or by level."""

    plan: ColumnPlan
    observed: Numbers  # (K,)
    drawn: Numbers  # (K,)
    edges: Numbers | None  # (K + 1,) of a number
    levels: tuple[str, ...]  # (K,) otherwise; the last may stand for several
    cells: tuple[int, int]  # observed, missing


def distribution(completed: Completed, plan: ColumnPlan) -> Distribution:
    seen, drawn = completed.seen(plan), completed.drawn(plan)
    cells = len(seen), int(completed.missing(plan).sum())
    if plan.levels:
        shares = [np.bincount(x.astype(np.int64), minlength=len(plan.levels)) / max(1, len(x)) for x in (seen, drawn)]
        order = _shown_levels(plan, shares[0] + shares[1])
        kept = [np.append(x[order], 1 - x[order].sum()) if len(order) < len(x) else x[order] for x in shares]
        rest = [f"{len(plan.levels) - len(order)} others"] * (len(order) < len(plan.levels))
        levels = (*(plan.show_value(plan.levels[i]) for i in order), *rest)
        return Distribution(plan, np.maximum(kept[0], 0), np.maximum(kept[1], 0), None, levels, cells)
    edges = _edges(seen, drawn, plan.whole or bool((np.r_[seen, drawn] % 1 == 0).all()))
    heights = [np.histogram(np.clip(x, edges[0], edges[-1]), edges)[0] / max(1, len(x)) for x in (seen, drawn)]
    return Distribution(plan, heights[0], heights[1], edges, (), cells)


def _shown_levels(plan: ColumnPlan, weight: Numbers) -> Integers:
    """In their own order where all are shown or it means something, else the commonest."""
    if len(plan.levels) <= _MOST_LEVELS:
        return np.arange(len(plan.levels))
    return np.sort(np.argsort(-weight, kind="stable")[: _MOST_LEVELS - 1])


def _edges(seen: Numbers, drawn: Numbers, whole: bool) -> Numbers:
    """Of bins of equal width over what is observed and drawn, the last thousandths left out; whole numbers whole."""
    ends = [np.quantile(x, (_TAIL, 1 - _TAIL)) for x in (seen, drawn) if len(x)]
    low, high = float(min(e[0] for e in ends)), float(max(e[1] for e in ends))
    if whole and high - low < _WHOLE * _BINS:
        low, high = np.floor(low) - 0.5, np.ceil(high) + 0.5
        step = max(1.0, np.ceil((high - low) / _BINS))
        bins = np.ceil((high - low) / step)
        return low - np.floor((bins * step - (high - low)) / 2) + step * np.arange(bins + 1)
    if not low < high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _BINS + 1)


class Pair(NamedTuple):
    """Two columns: rows in which both are observed, and rows in which one of them or both are drawn."""

    x: ColumnPlan
    y: ColumnPlan
    observed: Numbers  # (n, 2)
    drawn: Numbers  # (m, 2)
    dependence: float


def pair(completed: Completed, x: ColumnPlan, y: ColumnPlan, most: int = 400, seed: int = 0) -> Pair:
    """At most `most` rows of each sort; draws are those of the first drawn table."""
    rng = np.random.default_rng(seed)
    hidden = completed.missing(x) | completed.missing(y)
    table = completed.draws[0] if completed.draws else completed.observed.columns
    parts = []
    known = completed.known(x) & completed.known(y)
    drawn = hidden & (completed.missing(x) | completed.known(x)) & (completed.missing(y) | completed.known(y))
    for rows in (np.flatnonzero(known), np.flatnonzero(drawn)):
        some = np.sort(rng.permutation(rows)[:most])
        parts.append(np.column_stack([table[x.name][some], table[y.name][some]]).astype(np.float64))
    return Pair(x, y, parts[0], parts[1], dependence(completed, x, y))


def strongest_pairs(completed: Completed, most: int = 6, among: int = 24) -> list[Pair]:
    """Those that depend on one another most, of the columns that miss most; each column in two of them at most."""
    filled = sorted(completed.filled, key=lambda plan: -completed.missing(plan).mean())[:among]
    others = [plan for plan in completed.plans if plan not in filled][: max(0, among - len(filled))]
    found = [
        (dependence(completed, one, other), one, other)
        for i, one in enumerate(filled)
        for other in (*filled[i + 1 :], *others)
    ]
    chosen: list[Pair] = []
    used: dict[str, int] = {}
    for _, one, other in sorted(found, key=lambda each: -each[0]):
        if len(chosen) < most and max(used.get(one.name, 0), used.get(other.name, 0)) < 2:
            x, y = (other, one) if one.levels == () or other.levels else (one, other)
            chosen.append(pair(completed, x, y))
            used |= {plan.name: used.get(plan.name, 0) + 1 for plan in (one, other)}
    return chosen


def dependence(completed: Completed, x: ColumnPlan, y: ColumnPlan, most: int = 2000) -> float:
    """From 0 to 1: |rank correlation| of numbers, √(share of variance of the ranks between levels), Cramér's V."""
    both = np.flatnonzero(completed.known(x) & completed.known(y))[:most]
    if len(both) < 10:
        return 0.0
    a, b = (completed.observed.columns[plan.name][both] for plan in (x, y))
    if not x.levels and not y.levels:
        a, b = rankdata(a), rankdata(b)
        spread = a.std() * b.std()
        return float(abs(((a - a.mean()) * (b - b.mean())).mean()) / spread) if spread else 0.0
    if x.levels and y.levels:
        return _cramer(a.astype(np.int64), b.astype(np.int64))
    codes, ranks = (a, rankdata(b)) if x.levels else (b, rankdata(a))
    codes = codes.astype(np.int64)
    count = np.maximum(np.bincount(codes), 1)
    between = np.bincount(codes) * (np.bincount(codes, ranks) / count - ranks.mean()) ** 2
    return float(np.sqrt(between.sum() / max(1e-12, len(ranks) * ranks.var())))


def _cramer(a: Integers, b: Integers) -> float:
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    degrees = min(table.shape) - 1
    return float(np.sqrt(((table - expected) ** 2 / expected).sum() / table.sum() / degrees)) if degrees else 0.0


class Uncertainty(NamedTuple):
    """Of the missing cells of a column, (m,): 0 if the model is sure; 1 if it knows little more than nothing.

    Numbers: width of the 90 % interval / that of the observed cells. Levels: probability of the others, relative to
    that if all levels were equally likely.
    """

    plan: ColumnPlan
    rows: Integers
    relative: Numbers
    low: NDArray[Any]  # ends of the interval; of levels, the probability of the one that is most probable, twice
    high: NDArray[Any]
    filled: NDArray[Any]  # middle of the interval, or code of the most probable level


def uncertainty(completed: Completed, plan: ColumnPlan, low: Numbers, high: Numbers, chances: Numbers) -> Uncertainty:
    """By the ends of intervals of numbers, (n,), or probabilities of levels, (n, levels)."""
    rows, seen = np.flatnonzero(completed.missing(plan)), completed.seen(plan)
    if plan.levels:
        best = chances[rows].max(axis=1)
        relative = (1 - best) / max(1 - 1 / len(plan.levels), 1e-9)
        return Uncertainty(plan, rows, relative, best, best, chances[rows].argmax(axis=1))
    width, usual = (high - low)[rows], float(np.subtract(*np.quantile(seen, _INTERVAL[::-1])))
    relative = width / (usual or float(width.max(initial=0)) or 1.0)  # a column may be nearly always the same
    return Uncertainty(plan, rows, relative, low[rows], high[rows], (low + high)[rows] / 2)


def drawn_uncertainty(completed: Completed) -> list[Uncertainty]:
    """By the draws themselves; some twenty of them say it roughly."""
    found = []
    for plan in completed.filled:
        values = np.stack([draw[plan.name] for draw in completed.draws])  # (D, n)
        low, high = np.quantile(values, _INTERVAL, axis=0)
        chances = np.stack([(values == code).mean(axis=0) for code in range(len(plan.levels))] or [low], axis=1)
        found.append(uncertainty(completed, plan, low, high, chances))
    return found
