"""Values that a user gives for single columns, in the units of the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import Bools, Cells, coded, is_null, objects, scalar
from vsae.table.errors import TableError
from vsae.table.labels import some
from vsae.table.plan import ColumnPlan


def values_of(modelled: Sequence[ColumnPlan], given: Mapping[Any, Any]) -> dict[str, float]:
    """Values of single columns, by label or name → variable: number in natural units, or level code."""
    plans = {plan.name: plan for plan in modelled} | {plan.label: plan for plan in modelled}
    found: dict[str, float] = {}
    for label, value in given.items():
        if label not in plans:
            raise TableError(
                f"column {label!r} is not modelled; the columns that are: {some(plan.name for plan in modelled)}"
            )
        plan = plans[label]
        if is_null(value) or coded(objects([scalar(value)]), plan.missing_codes).any():
            raise TableError(f"column {label!r}: {value!r} stands for a missing value; give a value, or vsae.MISSING")
        values, storage = plan.given([value])
        if not plan.takes(storage):
            raise TableError(f"column {label!r}: {value!r} was given; it takes {plan.storage_name} values")
        x, oddities = plan.read(Cells(values, np.ones(1, dtype=np.bool_), storage))
        for odd in oddities:
            raise TableError(f"column {label!r}: {value!r} {odd.why}; it has {plan.describe()}")
        found[plan.name] = x[0].item()
    return found


def allowed_of(modelled: Sequence[ColumnPlan], given: Mapping[Any, Any]) -> dict[str, Callable[[NDArray[Any]], Bools]]:
    """By name, whether encoded values lie in a range (low, high), whose ends may be None, or are one of a list."""
    names = {plan.label: plan.name for plan in modelled}
    found: dict[str, Callable[[NDArray[Any]], Bools]] = {}
    for label, wanted in given.items():
        if label not in names:
            raise TableError(f"column {label!r} is not modelled; the columns that are: {some(names)}")
        if isinstance(wanted, tuple) and len(wanted) != 2:
            raise TableError(f"column {label!r}: a range has two ends, not {len(wanted)}; write a list of values")
        ends = [None if value is None else values_of(modelled, {label: value}).popitem()[1] for value in wanted]
        found[names[label]] = partial(_in_range if isinstance(wanted, tuple) else _is_one_of, ends)
    return found


def _in_range(ends: list[float | None], x: NDArray[Any]) -> Bools:
    low, high = ends
    return np.asarray((x >= (-np.inf if low is None else low)) & (x <= (np.inf if high is None else high)))


def _is_one_of(values: list[float | None], x: NDArray[Any]) -> Bools:
    return np.isin(x, np.array(values, dtype=np.float64))
