"""What callers hand to the estimator and get back, and the checks of single values."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, Literal, NamedTuple

from vsae.table import Table, TableError
from vsae.table.plan import ColumnPlan

Strategy = Literal["mean", "median", "draw"]


class Missing:
    """The value of `vsae.MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()  #: in `sample(given=…)`: the cell must be missing


class Interval(NamedTuple):
    """Two tables like the one asked about: observed cells as they are, and the bounds of the missing ones."""

    lower: Any
    upper: Any


def whole_number(name: str, value: Any) -> int:
    """Of rows, tables or masks."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def single(value: Any) -> Any:
    """Several values that are but one are this one.

    >>> single({3}), single(["F"]), single(["F", "M"]), single((30, 40))
    (3, 'F', ['F', 'M'], (30, 40))
    """
    value = list(value) if isinstance(value, set | frozenset) else value
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def modelled_by_label(table: Table, labels: Iterable[Any], argument: str) -> dict[Any, ColumnPlan]:
    """The plans of all modelled columns; an error where `labels`, from the argument of that name, has others."""
    plans = {plan.label: plan for plan in table.modelled}
    for label in labels:
        if label not in plans:
            known = ", ".join(map(repr, plans))
            raise TableError(f"column {label!r} in {argument} is not a modelled column; these are {known}")
    return plans
