"""Relations between columns that imputed cells must satisfy: diastolic < systolic, total == a + b + c, end >= start.

Cells that were observed stay. Where a relation fails, the imputed cells of the row move as little as they can, each in
units of its column's spread: a projection onto the relations, one after the other, until all hold. Then the cells are
rounded as their columns are, and what rounding broke is mended in one cell. Dates and times count in days.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import NUMBERS, Kind
from vsae.table.cells import Bools
from vsae.table.conditions import day_share, literal, resolved
from vsae.table.errors import TableError
from vsae.table.expressions import Column, Comparison, Number, Operation, Quoted, Sum, columns_of, parse_relation
from vsae.table.plan import ColumnPlan

Floats = NDArray[np.float64]
_MOST_DECIMALS = 8  # of a column whose values lie on a grid
_MOST_CYCLES = 200  # of projections: each brings the row nearer
_MOST_REPAIRS = 8
_AROUND = [sign * offset for offset in range(1, 101) for sign in (1, -1)]  # steps, the nearest first
_TINY = 1e-9  # of a column's spread: what floating point leaves of an equality
_MOST_NAMED = 5  # rows in a message


class Value(NamedTuple):
    """Of a sum in each row, and how it changes with each column."""

    x: Floats  # (n,)
    slope: Floats  # (n, K)


class Outcome(NamedTuple):
    columns: dict[str, NDArray[Any]]
    broken: dict[str, NDArray[np.int64]]  # relation → rows whose observed cells break it, or leave it no way to hold


@dataclass(frozen=True)
class Constraints:
    """Relations, and of the columns in them how finely they are measured and how far they spread."""

    texts: tuple[str, ...]
    plans: tuple[ColumnPlan, ...]  # of the K columns
    decimals: tuple[int | None, ...]  # None: on no grid
    spreads: tuple[float, ...]  # standard deviations, in natural units

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
        found = cls(texts, tuple(named.values()), tuple(decimals), tuple(spreads))
        found.relations  # noqa: B018  (a literal that cannot be read is refused now)
        return found

    @cached_property
    def relations(self) -> tuple[_Relation, ...]:
        return tuple(_Relation.of(text, self) for text in self.texts)

    @cached_property
    def place(self) -> dict[str, int]:
        """By label or name."""
        named = {plan.name: k for k, plan in enumerate(self.plans)}
        return named | {str(plan.label): k for k, plan in enumerate(self.plans)}

    @cached_property
    def units(self) -> Floats:
        """(K,): days of a natural unit, or 1."""
        return np.array([day_share(plan) for plan in self.plans])

    @cached_property
    def steps(self) -> Floats:
        """(K,): from one possible value to the next; 0: any value."""
        return np.array([0.0 if d is None else 10.0**-d for d in self.decimals]) * self.units

    @cached_property
    def spread(self) -> Floats:
        return np.asarray(self.spreads) * self.units

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        above = [10.0 ** -(_MOST_DECIMALS if d is None else d) for d in self.decimals]  # zero
        least = [a if plan.kind is Kind.POSITIVE else plan.min for plan, a in zip(self.plans, above, strict=True)]
        low = [-np.inf if bound is None else bound for bound in least]
        high = [np.inf if plan.max is None else plan.max for plan in self.plans]
        return np.asarray(low) * self.units, np.asarray(high) * self.units

    def hold(self, columns: Mapping[str, NDArray[Any]]) -> bool:
        """In all rows."""
        return bool(self._holds(self._stacked(columns)).all())

    def satisfied(self, columns: Mapping[str, NDArray[Any]], mask: Mapping[str, Bools]) -> Outcome:
        """The columns with imputed cells, those that are not in `mask`, moved until the relations hold."""
        before = self._stacked(columns)
        fixed = [mask[plan.name] | (plan.constant is not None) for plan in self.plans]  # a constant is always written
        free = ~np.stack(fixed, axis=1)
        x = np.where(free, self._on_grid(before), before)
        wrong = np.flatnonzero(~self._holds(x).all(axis=1))
        broken: dict[str, NDArray[np.int64]] = {}
        if len(wrong):
            moved = self._moved(x[wrong], free[wrong])
            failed = ~self._holds(moved)
            helped = ~failed.any(axis=1)  # elsewhere, the model's own values are the best there are
            x[wrong[helped]] = moved[helped]
            broken = {r.text: wrong[failed[:, i]] for i, r in enumerate(self.relations) if failed[:, i].any()}
        out = dict(columns)
        for k, plan in enumerate(self.plans):
            changed = np.flatnonzero(x[:, k] != before[:, k])
            if len(changed):
                out[plan.name] = np.array(columns[plan.name], dtype=np.float64)
                out[plan.name][changed] = x[changed, k] / self.units[k]
        return Outcome(out, broken)

    def _stacked(self, columns: Mapping[str, NDArray[Any]]) -> Floats:
        """(n, K)."""
        x = np.stack([np.asarray(columns[plan.name], dtype=np.float64) for plan in self.plans], axis=1)
        return x * self.units

    def _holds(self, x: Floats) -> Bools:
        """(n, relations)."""
        return np.stack([relation.holds(x) for relation in self.relations], axis=1)

    def _on_grid(self, x: Floats) -> Floats:
        """Rounded, as the values of the columns are."""
        return np.stack([self._rounded(k, x[:, k]) for k in range(len(self.plans))], axis=1)

    def _rounded(self, k: int, x: Floats) -> Floats:
        decimals, unit = self.decimals[k], self.units[k]
        return x if decimals is None else np.round(x / unit, decimals) * unit

    def _moved(self, x: Floats, free: Bools) -> Floats:
        x = self._projected(x.copy(), free)
        low, high = self.bounds
        x = np.where(free, np.clip(self._on_grid(x), low, high), x)
        for _ in range(_MOST_REPAIRS):
            before = x.copy()
            for relation in self.relations:
                x = self._repaired(x, free, relation)
            if (x == before).all():
                break
        for relation in self.relations:
            x = self._searched(x, free, relation)
        return x

    def _projected(self, x: Floats, free: Bools) -> Floats:
        """By cyclic projections, each to first order, in units of the spreads."""
        weight = free * self.spread**2
        low, high = self.bounds
        for _ in range(_MOST_CYCLES):
            moved = False
            for relation in self.relations:
                value = relation.value(x)
                excess = value.x + relation.margin
                wrong = np.abs(value.x) > relation.slack if relation.sign == "==" else excess > relation.slack
                size = (value.slope**2 * weight).sum(axis=1)
                wrong &= (size > 0) & np.isfinite(value.x)
                if wrong.any():
                    moved = True
                    pace = np.where(wrong, excess / np.where(size > 0, size, 1.0), 0.0)
                    x = np.where(free, np.clip(x - pace[:, None] * value.slope * weight, low, high), x)
            if not moved:
                break
        return x

    def _repaired(self, x: Floats, free: Bools, relation: _Relation) -> Floats:
        """What rounding broke, mended in one cell of the row: the one that then leaves most relations whole."""
        wrong = np.flatnonzero(~relation.holds(x))
        if not len(wrong):
            return x
        x = x.copy()
        x[wrong] = self._solved(x[wrong], free[wrong], relation)
        return x

    def _solved(self, rows: Floats, free: Bools, relation: _Relation) -> Floats:
        """The relation solved for one free cell of each row."""
        best, out = np.full(len(rows), -1), rows.copy()
        low, high = self.bounds
        named = [k for k in relation.named if free[:, k].any()]
        for k in sorted(named, key=lambda k: self.steps[k]):  # the finest first: it can make up for what others cannot
            tried = rows.copy()
            value = relation.value(tried)
            slope = value.slope[:, k]
            able = free[:, k] & (slope != 0)
            target = tried[:, k] - (value.x + relation.margin) / np.where(slope == 0, 1.0, slope)
            step = self.steps[k]
            if step and relation.sign != "==":  # to the side on which the relation holds
                target = step * np.where(slope > 0, np.floor(target / step + _TINY), np.ceil(target / step - _TINY))
            target = self._rounded(k, target)
            tried[:, k] = np.where(able, np.clip(target, low[k], high[k]), tried[:, k])
            good = np.flatnonzero(able & relation.holds(tried))
            whole = self._holds(tried[good]).sum(axis=1)
            better = whole > best[good]
            out[good[better]], best[good[better]] = tried[good[better]], whole[better]
        return out

    def _searched(self, x: Floats, free: Bools, relation: _Relation) -> Floats:
        """Where two rounded cells must fit together, as the factors of a product must: one is tried at the values
        around its own, and the relation is solved for another."""
        for k in relation.named:
            wrong = np.flatnonzero(~self._holds(x).all(axis=1) & free[:, k] & (free[:, relation.named].sum(axis=1) > 1))
            if not len(wrong) or not self.steps[k] or relation.sign != "==":
                continue
            rest = free[wrong].copy()
            rest[:, k] = False
            for offset in _AROUND:
                rows = x[wrong].copy()
                rows[:, k] = self._rounded(k, rows[:, k] + offset * self.steps[k])
                inside = (rows[:, k] >= self.bounds[0][k]) & (rows[:, k] <= self.bounds[1][k])
                found = self._solved(rows, rest, relation)
                good = self._holds(found).all(axis=1) & inside
                x[wrong[good]] = found[good]
                wrong, rest = wrong[~good], rest[~good]
                if not len(wrong):
                    break
        return x

    def to_json(self) -> dict[str, Any]:
        return {
            "texts": list(self.texts),
            "columns": [plan.name for plan in self.plans],
            "decimals": list(self.decimals),
            "spreads": list(self.spreads),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], plans: Iterable[ColumnPlan]) -> Constraints:
        named = {plan.name: plan for plan in plans}
        return cls(
            tuple(data["texts"]),
            tuple(named[name] for name in data["columns"]),
            tuple(data["decimals"]),
            tuple(data["spreads"]),
        )


@dataclass(frozen=True)
class _Relation:
    """left - right < 0, <= 0 or == 0."""

    text: str
    found: Comparison
    of_all: Constraints

    @classmethod
    def of(cls, text: str, of_all: Constraints) -> _Relation:
        found = parse_relation(text)
        like = of_all.plans[of_all.place[next(columns_of(found))]]
        left, right = (_with_numbers(side, like) for side in (found.left, found.right))
        return cls(text, Comparison(found.sign, left, right), of_all)

    @property
    def sign(self) -> str:
        return self.found.sign

    @cached_property
    def named(self) -> list[int]:
        return [self.of_all.place[name] for name in dict.fromkeys(columns_of(self.found))]

    @cached_property
    def slack(self) -> float:
        """What an equality may lack: half a step of a column that stands alone on one side, as it was rounded."""
        tiny = _TINY * float(self.of_all.spread[self.named].max())
        alone = [side for side in (self.found.left, self.found.right) if isinstance(side, Column)]
        steps = [self.of_all.steps[self.of_all.place[side.name]] for side in alone]
        return max(tiny, 0.5 * max(steps) * (1 + _TINY)) if self.sign == "==" and steps else tiny

    @cached_property
    def margin(self) -> float:
        """How far the left must stay below the right: one step, where it must be less."""
        if self.sign != "<":
            return 0.0
        steps = self.of_all.steps[self.named]
        return float(steps.min()) if (steps > 0).all() else 10 * self.slack

    def holds(self, x: Floats) -> Bools:
        value = self.value(x).x
        if self.sign == "==":
            return np.abs(value) <= self.slack
        return value < -self.slack if self.sign == "<" else value <= self.slack

    def value(self, x: Floats) -> Value:
        left, right = (self._value(side, x) for side in (self.found.left, self.found.right))
        return Value(left.x - right.x, left.slope - right.slope)

    def _value(self, node: Sum, x: Floats) -> Value:
        if isinstance(node, Number):
            return Value(np.full(len(x), node.value), np.zeros_like(x))
        if isinstance(node, Column):
            k = self.of_all.place[node.name]
            slope = np.zeros_like(x)
            slope[:, k] = 1.0
            return Value(x[:, k], slope)
        assert isinstance(node, Operation), "what was quoted is a number by now"
        (a, da), (b, db) = (self._value(side, x) for side in (node.left, node.right))
        u, v = a[:, None], b[:, None]
        with np.errstate(all="ignore"):
            if node.sign == "+":
                return Value(a + b, da + db)
            if node.sign == "-":
                return Value(a - b, da - db)
            if node.sign == "*":
                return Value(a * b, da * v + u * db)
            return Value(a / b, np.nan_to_num((da * v - u * db) / v**2))


def _with_numbers(node: Sum, like: ColumnPlan) -> Sum:
    """The sum with numbers in place of all that is quoted: values of the column that it is compared with."""
    if isinstance(node, Operation):
        return Operation(node.sign, _with_numbers(node.left, like), _with_numbers(node.right, like))
    return Number(literal(node, like)) if isinstance(node, Quoted) else node


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
    return next((d for d in range(_MOST_DECIMALS + 1) if (np.round(finite, d) == finite).all()), None)
