"""Relations between columns: their value in each row, how it changes with each cell, and whether they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import Kind
from vsae.table.cells import Bools
from vsae.table.conditions import day_share, literal
from vsae.table.expressions import Column, Comparison, Number, Operation, Quoted, Sum, columns_of, parse_relation
from vsae.table.plan import ColumnPlan

Floats = NDArray[np.float64]
MOST_DECIMALS = 8  # of a column whose values lie on a grid
TINY = 1e-9  # of a column's spread: what floating point leaves of an equality


@dataclass(frozen=True)
class Axes:
    """The K columns of some relations: how finely they are measured and how far they spread. Times count in days."""

    plans: tuple[ColumnPlan, ...]
    decimals: tuple[int | None, ...]  # None: on no grid
    spreads: tuple[float, ...]  # standard deviations, in natural units

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
        above = [10.0 ** -(MOST_DECIMALS if d is None else d) for d in self.decimals]  # zero
        least = [a if plan.kind is Kind.POSITIVE else plan.min for plan, a in zip(self.plans, above, strict=True)]
        low = [-np.inf if bound is None else bound for bound in least]
        high = [np.inf if plan.max is None else plan.max for plan in self.plans]
        return np.asarray(low) * self.units, np.asarray(high) * self.units

    def stacked(self, columns: Mapping[str, NDArray[Any]]) -> Floats:
        """(n, K)."""
        x = np.stack([np.asarray(columns[plan.name], dtype=np.float64) for plan in self.plans], axis=1)
        return x * self.units

    def on_grid(self, x: Floats) -> Floats:
        """Rounded, as the values of the columns are."""
        return np.stack([self.rounded(k, x[:, k]) for k in range(len(self.plans))], axis=1)

    def rounded(self, k: int, x: Floats) -> Floats:
        decimals, unit = self.decimals[k], self.units[k]
        return x if decimals is None else np.round(x / unit, decimals) * unit


class Value(NamedTuple):
    """Of a sum in each row, and how it changes with each column."""

    x: Floats  # (n,)
    slope: Floats  # (n, K)


@dataclass(frozen=True)
class Relation:
    """left - right < 0, <= 0 or == 0."""

    text: str
    found: Comparison
    axes: Axes

    @classmethod
    def of(cls, text: str, axes: Axes) -> Relation:
        found = parse_relation(text)
        like = axes.plans[axes.place[next(columns_of(found))]]
        left, right = (_with_numbers(side, like) for side in (found.left, found.right))
        return cls(text, Comparison(found.sign, left, right), axes)

    @property
    def sign(self) -> str:
        return self.found.sign

    @cached_property
    def named(self) -> list[int]:
        return [self.axes.place[name] for name in dict.fromkeys(columns_of(self.found))]

    @cached_property
    def slack(self) -> float:
        """What an equality may lack: half a step of a column that stands alone on one side, as it was rounded."""
        tiny = TINY * float(self.axes.spread[self.named].max())
        alone = [side for side in (self.found.left, self.found.right) if isinstance(side, Column)]
        steps = [self.axes.steps[self.axes.place[side.name]] for side in alone]
        return max(tiny, 0.5 * max(steps) * (1 + TINY)) if self.sign == "==" and steps else tiny

    @cached_property
    def margin(self) -> float:
        """How far the left must stay below the right: one step, where it must be less."""
        if self.sign != "<":
            return 0.0
        steps = self.axes.steps[self.named]
        return float(steps.min()) if (steps > 0).all() else 10 * self.slack

    @cached_property
    def step(self) -> float:
        """The coarsest of its columns."""
        return float(self.axes.steps[self.named].max())

    @cached_property
    def is_linear(self) -> bool:
        return _is_linear(self.found.left) and _is_linear(self.found.right)

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
            k = self.axes.place[node.name]
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


def _is_linear(node: Sum) -> bool:
    if not isinstance(node, Operation):
        return True
    left, right = (any(True for _ in columns_of(side)) for side in (node.left, node.right))
    simple = node.sign in "+-" or not right or (node.sign == "*" and not left)
    return simple and _is_linear(node.left) and _is_linear(node.right)


def _with_numbers(node: Sum, like: ColumnPlan) -> Sum:
    """The sum with numbers in place of all that is quoted: values of the column that it is compared with."""
    if isinstance(node, Operation):
        return Operation(node.sign, _with_numbers(node.left, like), _with_numbers(node.right, like))
    return Number(literal(node, like)) if isinstance(node, Quoted) else node
