"""Relations between columns that imputed cells must satisfy: diastolic < systolic, total == a + b + c, end >= start.

Cells that were observed stay. Where a relation fails, the imputed cells of the row move as little as they can, each in
units of its column's spread: a projection onto the relations, one after the other, until all hold. Then the cells are
rounded as their columns are, and what rounding broke is mended: sums together, by elimination; factors of a product by
trying the values around; the rest in one cell each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import NUMBERS
from vsae.table.cells import Bools
from vsae.table.conditions import resolved
from vsae.table.errors import TableError
from vsae.table.expressions import columns_of, parse_relation
from vsae.table.plan import ColumnPlan
from vsae.table.relations import MOST_DECIMALS, TINY, Axes, Floats, Relation

_MOST_CYCLES = 100  # of projections: each brings the row nearer
_MOST_SEARCHED = 1000  # rows in which all relations are tried together, which is dear
_MOST_REPAIRS = 8
_ROOM = 3.0  # steps between a cell and its limits
_AROUND = [sign * offset for offset in range(1, 101) for sign in (1, -1)]  # steps, the nearest first
_MOST_NAMED = 5  # rows in a message


class Outcome(NamedTuple):
    columns: dict[str, NDArray[Any]]
    broken: dict[str, NDArray[np.int64]]  # relation → rows whose observed cells break it
    unsolved: dict[str, NDArray[np.int64]]  # relation → rows for whose missing cells no values were found


@dataclass(frozen=True)
class Constraints:
    texts: tuple[str, ...]
    axes: Axes  # of the columns in them

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        plans: Sequence[ColumnPlan],
        columns: Mapping[str, NDArray[Any]],
        known: Mapping[str, Bools],
    ) -> Constraints:
        texts = tuple([texts] if isinstance(texts, str) else texts)
        named: dict[str, ColumnPlan] = {}
        for text in texts:
            those = resolved(dict.fromkeys(columns_of(parse_relation(text))), plans, text)
            named |= {plan.name: plan for plan in those.values()}
        for label, plan in named.items():
            if plan.kind not in NUMBERS:
                raise TableError(f"column {label!r} in a constraint is {plan.kind_name}, not a number or a date")
        seen = [np.asarray(columns[p.name], dtype=np.float64)[known[p.name]] for p in named.values()]
        pairs = list(zip(named.values(), seen, strict=True))
        decimals = [0 if plan.whole or plan.unit else _decimals(x) for plan, x in pairs]
        spreads = [(float(x.std()) if len(x) else 0.0) or 1.0 for _, x in pairs]
        found = cls(texts, Axes(tuple(named.values()), tuple(decimals), tuple(spreads)))
        found.relations  # noqa: B018  (a literal that cannot be read is refused now)
        return found

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(Relation.of(text, self.axes) for text in self.texts)

    @property
    def equalities(self) -> list[Relation]:
        return [relation for relation in self.relations if relation.sign == "=="]

    @property
    def products(self) -> list[Relation]:
        return [relation for relation in self.equalities if not relation.is_linear]

    @property
    def plans(self) -> tuple[ColumnPlan, ...]:
        return self.axes.plans

    def hold(self, columns: Mapping[str, NDArray[Any]]) -> bool:
        """In all rows."""
        return bool(self._holds(self.axes.stacked(columns)).all())

    def satisfied(self, columns: Mapping[str, NDArray[Any]], mask: Mapping[str, Bools]) -> Outcome:
        """The columns with imputed cells, those that are not in `mask`, moved until the relations hold."""
        before = self.axes.stacked(columns)
        fixed = [mask[plan.name] | (plan.constant is not None) for plan in self.plans]  # a constant is always written
        free = ~np.stack(fixed, axis=1)
        x = np.where(free, self.axes.on_grid(before), before)
        wrong = np.flatnonzero(~self._fine(x, free).all(axis=1))
        moved = self._moved(x[wrong], free[wrong])
        solved = self._fine(moved, free[wrong]).all(axis=1)  # elsewhere, the model's own values are the best there are
        x[wrong[solved]] = moved[solved]
        fails = {relation.text: ~relation.holds(x) for relation in self.relations}
        observed = {r.text: ~free[:, r.named].any(axis=1) for r in self.relations}
        broken = {text: np.flatnonzero(rows & observed[text]) for text, rows in fails.items()}
        unsolved = {text: np.flatnonzero(rows & ~observed[text]) for text, rows in fails.items()}
        out = dict(columns)
        for k, plan in enumerate(self.plans):
            changed = np.flatnonzero(x[:, k] != before[:, k])
            if len(changed):
                out[plan.name] = np.array(columns[plan.name], dtype=np.float64)
                out[plan.name][changed] = x[changed, k] / self.axes.units[k]
        return Outcome(out, *({text: rows for text, rows in part.items() if len(rows)} for part in (broken, unsolved)))

    def _holds(self, x: Floats) -> Bools:
        """(n, relations)."""
        return np.stack([relation.holds(x) for relation in self.relations], axis=1)

    def _fine(self, x: Floats, free: Bools) -> Bools:
        """(n, relations): whether it holds, or nothing can be done about it."""
        beyond = np.stack([~free[:, relation.named].any(axis=1) for relation in self.relations], axis=1)
        return self._holds(x) | beyond

    def _moved(self, x: Floats, free: Bools) -> Floats:
        """At first with some room between cells and their limits, so that rounding does not push them over; then
        without, for rows that have none."""
        out, todo = x.copy(), np.arange(len(x))
        for room in (_ROOM, 0.0):
            if not len(todo):
                break
            rows = self._settled(x[todo], free[todo], room)
            for relation in self.equalities if not room else ():
                rows = self._searched(rows, free[todo], relation, alone=False)
            good = self._fine(rows, free[todo]).all(axis=1)
            out[todo[good]], todo = rows[good], todo[~good]
        return out

    def _settled(self, x: Floats, free: Bools, room: float) -> Floats:
        """Projected, rounded, and mended where rounding broke a relation."""
        x, free = self._projected(x, free, room), free.copy()
        for relation in self.products:  # rounded factors fit their product as a whole or not at all
            x = self._searched(self._repaired(x, free, relation), free, relation, alone=True)
            free[:, relation.named] &= ~relation.holds(x)[:, None]
        x = self._eliminated(self._projected(x, free, room), free)
        for _ in range(_MOST_REPAIRS):
            before = x
            for relation in self.relations:
                x = self._repaired(x, free, relation)
            if (x == before).all():
                break
        return x

    def _projected(self, x: Floats, free: Bools, room: float) -> Floats:
        """By cyclic projections, each to first order, in units of the spreads; then rounded."""
        x, todo = x.copy(), np.arange(len(x))
        for _ in range(_MOST_CYCLES):
            x[todo], wrong = self._cycle(x[todo], free[todo], room)
            todo = todo[wrong]
            if not len(todo):
                break
        return np.where(free, np.clip(self.axes.on_grid(x), *self.axes.bounds), x)

    def _cycle(self, x: Floats, free: Bools, room: float) -> tuple[Floats, Bools]:
        """One projection onto each relation; and the rows that any of them moved."""
        weight, moved = free * self.axes.spread**2, np.zeros(len(x), dtype=np.bool_)
        low, high = self.axes.bounds[0] + room * self.axes.steps, self.axes.bounds[1] - room * self.axes.steps
        for relation in self.relations:
            value = relation.value(x)
            is_equality = relation.sign == "=="
            excess = value.x + (0.0 if is_equality else relation.margin + room * relation.step)
            size = (value.slope**2 * weight).sum(axis=1)
            wrong = ((np.abs(excess) if is_equality else excess) > relation.slack) & (size > 0) & np.isfinite(value.x)
            if wrong.any():
                moved |= wrong
                pace = np.where(wrong, excess / np.where(size > 0, size, 1.0), 0.0)
                x = np.where(free, np.clip(x - pace[:, None] * value.slope * weight, low, high), x)
        return x, moved

    def _eliminated(self, x: Floats, free: Bools) -> Floats:
        """Sums that rounding broke, mended together: each gets a cell of its own that makes up for it.

        Of rows that miss the same cells, these cells are the same; the finest and the widest columns come first.
        """
        sums = [relation for relation in self.equalities if relation.is_linear]
        if not sums:
            return x
        x = x.copy()
        order = np.lexsort((-self.axes.spread, self.axes.steps))
        slopes = np.stack([relation.value(x[:1]).slope[0] for relation in sums])  # (sums, K)
        patterns, which = np.unique(free, axis=0, return_inverse=True)
        for i, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == i)
            residual = np.stack([relation.value(x[rows]).x for relation in sums])  # (sums, rows)
            pivots: list[int] = []
            for k in order[pattern[order]]:
                if np.linalg.matrix_rank(slopes[:, [*pivots, k]]) > len(pivots):
                    pivots.append(k)
            if pivots and np.abs(residual).max() > 0:
                change = np.linalg.pinv(slopes[:, pivots]) @ residual
                for k, by in zip(pivots, change, strict=True):
                    x[rows, k] = self.axes.rounded(k, x[rows, k] - by)
        low, high = self.axes.bounds
        return np.where(free, np.clip(x, low, high), x)

    def _repaired(self, x: Floats, free: Bools, relation: Relation) -> Floats:
        """The relation mended in one cell of each row that breaks it."""
        wrong = np.flatnonzero(~relation.holds(x))
        if not len(wrong):
            return x
        x = x.copy()
        x[wrong] = self._solved(x[wrong], free[wrong], relation)
        return x

    def _solved(self, rows: Floats, free: Bools, relation: Relation) -> Floats:
        """The relation solved for one free cell of each row: the one that then leaves most relations whole."""
        best, out = np.full(len(rows), -1), rows.copy()
        low, high = self.axes.bounds
        named = [k for k in relation.named if free[:, k].any()]
        for k in sorted(named, key=lambda k: self.axes.steps[k]):  # the finest first: it can make up for others
            tried = rows.copy()
            value = relation.value(tried)
            slope = value.slope[:, k]
            able = free[:, k] & (slope != 0)
            target = tried[:, k] - (value.x + relation.margin) / np.where(slope == 0, 1.0, slope)
            step = self.axes.steps[k]
            if step and relation.sign != "==":  # to the side on which the relation holds
                target = step * np.where(slope > 0, np.floor(target / step + TINY), np.ceil(target / step - TINY))
            target = self.axes.rounded(k, target)
            tried[:, k] = np.where(able, np.clip(target, low[k], high[k]), tried[:, k])
            good = np.flatnonzero(able & relation.holds(tried))
            whole = self._holds(tried[good]).sum(axis=1)
            better = whole > best[good]
            out[good[better]], best[good[better]] = tried[good[better]], whole[better]
        return out

    def _searched(self, x: Floats, free: Bools, relation: Relation, *, alone: bool) -> Floats:
        """Where two rounded cells must fit together, as the factors of a product must: one is tried at the values
        around its own, and the relation is solved for another. Unless it is `alone`, the others must hold, too."""
        x, (low, high) = x.copy(), self.axes.bounds
        for k in relation.named:
            fine = relation.holds(x) if alone else self._fine(x, free).all(axis=1)
            todo = np.flatnonzero(~fine & free[:, k] & (free[:, relation.named].sum(axis=1) > 1))
            todo = todo[: len(todo) if alone else _MOST_SEARCHED]
            if not len(todo) or not self.axes.steps[k]:
                continue
            for offset in _AROUND:
                rows, rest = x[todo].copy(), free[todo].copy()
                rows[:, k], rest[:, k] = self.axes.rounded(k, rows[:, k] + offset * self.axes.steps[k]), False
                good = (rows[:, k] >= low[k]) & (rows[:, k] <= high[k])
                rows = self._solved(rows, rest, relation)
                if not alone:
                    rest[:, relation.named] = False
                    rows = self._eliminated(self._projected(rows, rest, 0.0), rest)
                good &= relation.holds(rows) if alone else self._fine(rows, free[todo]).all(axis=1)
                x[todo[good]], todo = rows[good], todo[~good]
                if not len(todo):
                    break
        return x

    def to_json(self) -> dict[str, Any]:
        return {
            "texts": list(self.texts),
            "columns": [plan.name for plan in self.plans],
            "decimals": list(self.axes.decimals),
            "spreads": list(self.axes.spreads),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], plans: Iterable[ColumnPlan]) -> Constraints:
        named = {plan.name: plan for plan in plans}
        columns = tuple(named[name] for name in data["columns"])
        return cls(tuple(data["texts"]), Axes(columns, tuple(data["decimals"]), tuple(data["spreads"])))


def named_rows(broken: Mapping[str, NDArray[np.int64]]) -> str:
    """
    >>> named_rows({"a < b": np.array([0, 4])})
    "'a < b' in rows 1 and 5"
    """
    said = []
    for text, rows in broken.items():
        shown = [str(row + 1) for row in rows[:_MOST_NAMED].tolist()]
        shown += [f"{len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
        *others, last = shown
        said.append(f"{text!r} in " + (f"rows {', '.join(others)} and {last}" if others else f"row {last}"))
    return "; ".join(said)


def _decimals(x: Floats) -> int | None:
    finite = x[np.isfinite(x)]
    return next((d for d in range(MOST_DECIMALS + 1) if (np.round(finite, d) == finite).all()), None)
