"""Conditions on encoded rows: of which it is known that they hold, and of which that they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import Kind
from vsae.table.cells import UNITS, Bools, Storage
from vsae.table.errors import TableError
from vsae.table.expressions import (
    Both,
    Column,
    Comparison,
    Condition,
    Membership,
    Not,
    Number,
    Operation,
    Quoted,
    Sum,
    columns_of,
    parse_condition,
)
from vsae.table.plan import ColumnPlan
from vsae.table.units import to_numbers


class Truth(NamedTuple):
    holds: Bools  # (n,)
    fails: Bools  # (n,); where neither, a cell that matters is missing


@dataclass(frozen=True)
class Rows:
    """Encoded columns with their plans, and which cells are known."""

    plans: Mapping[str, ColumnPlan]  # by name
    columns: Mapping[str, NDArray[Any]]
    known: Mapping[str, Bools]

    def truth(self, condition: Condition) -> Truth:
        if isinstance(condition, Not):
            part = self.truth(condition.part)
            return Truth(part.fails, part.holds)
        if isinstance(condition, Both):
            parts = [self.truth(part) for part in condition.parts]
            every, some = np.logical_and.reduce, np.logical_or.reduce
            join, split = (every, some) if condition.all else (some, every)
            return Truth(join([part.holds for part in parts]), split([part.fails for part in parts]))
        if isinstance(condition, Membership):
            values = tuple(Comparison("==", condition.column, value) for value in condition.values)
            return self.truth(Both(False, values))
        return self._comparison(condition)

    def _comparison(self, found: Comparison) -> Truth:
        plans = [self.plans[name] for side in (found.left, found.right) for name in _columns(side)]
        like = plans[0] if plans else None
        if found.sign in ("<", "<=") and any(plan.levels and not is_ranked(plan) for plan in plans):
            raise TableError(f"column {plans[0].label!r}: its levels have no order; compare it with == or in")
        (x, known), (y, also) = (self._numbers(side, like) for side in (found.left, found.right))
        compare = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}[found.sign]
        holds, both = compare(x, y), known & also
        return Truth(holds & both, ~holds & both)

    def _numbers(self, node: Sum, like: ColumnPlan | None) -> tuple[NDArray[np.float64], Bools]:
        """Values, and where they are known; what is quoted is a value of the column that it is compared with."""
        n = len(next(iter(self.columns.values())))
        if isinstance(node, Number | Quoted):
            return np.full(n, literal(node, like)), np.ones(n, dtype=np.bool_)
        if isinstance(node, Column):
            return comparable(self.plans[node.name], self.columns[node.name]), self.known[node.name]
        (x, known), (y, also) = (self._numbers(side, like) for side in (node.left, node.right))
        return operation(node, x, y), known & also


def operation(node: Operation, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[node.sign](x, y)


def is_ranked(plan: ColumnPlan) -> bool:
    """Whether its levels can be compared by more than whether they are the same."""
    return plan.kind is Kind.ORDINAL or _is_numeric(plan)


def comparable(plan: ColumnPlan, x: NDArray[Any]) -> NDArray[np.float64]:
    """Natural units or level codes as numbers that can be compared: times in days, levels by their number or code."""
    if plan.levels and _is_numeric(plan):
        return np.asarray(plan.levels, dtype=np.float64)[x]
    return np.asarray(x, dtype=np.float64) * day_share(plan)


def day_share(plan: ColumnPlan) -> float:
    """Of one natural unit of the column, if it counts time; else 1."""
    return 1 / UNITS[plan.unit] if plan.unit and not plan.levels else 1.0


def literal(node: Number | Quoted, like: ColumnPlan | None) -> float:
    """A value as a person writes it, as `comparable` has those of the column."""
    if like is None or (isinstance(node, Number) and (not like.levels or _is_numeric(like))):
        if isinstance(node, Quoted):
            raise TableError(f"{node.text!r} is compared with no column; write a number")
        return node.value
    text = node.text if isinstance(node, Quoted) else f"{node.value:g}"
    value = like.parse(text)
    if like.levels:
        code = like.levels.index(value)
        return float(value) if _is_numeric(like) else float(code)
    values, _ = like.given([value])
    return float(to_numbers(values, like.unit)[0]) * day_share(like)


def rows_where(
    text: str, plans: Iterable[ColumnPlan], columns: Mapping[str, NDArray[Any]], known: Mapping[str, Bools]
) -> Truth:
    """The rows of encoded columns, by name, in which a condition holds, and those in which it does not."""
    condition = parse_condition(text)
    named = resolved(dict.fromkeys(columns_of(condition)), plans, text)
    cells = {label: columns[plan.name] for label, plan in named.items()}
    return Rows(named, cells, {label: known[plan.name] for label, plan in named.items()}).truth(condition)


def resolved(names: Iterable[str], plans: Iterable[ColumnPlan], said: str) -> dict[str, ColumnPlan]:
    """The plans of the columns that a text names, by label or, as in arrays, by name; each must be modelled."""
    plans = list(plans)
    known = {plan.name: plan for plan in plans} | {str(plan.label): plan for plan in plans}
    for name in names:
        if name not in known or known[name].kind is None:
            shown = ", ".join(repr(plan.name) for plan in plans if plan.kind)
            raise TableError(f"{said!r}: there is no modelled column {name!r}; these are {shown}")
    return {name: known[name] for name in names}


def _columns(node: Sum) -> list[str]:
    if isinstance(node, Column):
        return [node.name]
    return _columns(node.left) + _columns(node.right) if isinstance(node, Operation) else []


def _is_numeric(plan: ColumnPlan) -> bool:
    return plan.storage in (Storage.NUMBER, Storage.DECIMAL)
