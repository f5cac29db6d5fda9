"""What becomes of the missing cells of a table: which are filled, which are left, and why."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from vsae.table.cells import Bools
from vsae.table.containers import view_of
from vsae.table.errors import DataWarning
from vsae.table.plan import ColumnPlan
from vsae.table.table import Table


class Fill(NamedTuple):
    """What becomes of the missing cells of one column of a user's table: they are all filled, or all left."""

    label: Hashable
    cells: Bools  # (n,), the missing ones
    left: str = ""  # why; empty: they are filled

    @property
    def size(self) -> int:
        return int(self.cells.sum())

    @property
    def filled(self) -> Bools:
        return self.cells & (not self.left)


def fills(table: Table, X: Any, filled: Any = None) -> list[Fill]:
    """What `Table.decode` does with the missing cells of each column of X, in its order.

    A cell that does not apply is not missing; where that depends on a missing cell, the `filled` table tells.

    >>> table = Table.fit({"age": np.array([31.0, 47.0, 52.0])})
    >>> [(fill.size, fill.left) for fill in fills(table, {"age": np.array([np.nan]), "AGE": np.array([np.nan])})]
    [(1, ''), (1, "the model does not know this column; it knows 'age'")]
    """
    view = view_of(X)
    plans = {label: plan for plan, label in table.located(view)}
    empty: dict[str, Bools] = {}
    if table.structural:
        columns, mask, _ = table.read(view if filled is None else view_of(filled))
        empty = table.inapplicable(columns, mask)
    found = []
    for label, column in view.columns.items():
        plan = plans.get(label)
        cells = view.backend.missing(column, plan.missing_codes if plan else ())
        if plan is not None and plan.name in empty:
            cells = cells & ~empty[plan.name]
        found.append(Fill(label, cells, _left(table, label, plan)))
    return found


def warn_of_unknown(table: Table, X: Any) -> None:
    """Of columns that were renamed since the fit, or never were in it, and have missing cells."""
    view = view_of(X)
    unknown = view.columns.keys() - {label for _, label in table.located(view)}
    if not unknown:
        return
    left = [f"{fill.label!r} ({fill.left})" for fill in fills(table, X) if fill.label in unknown and fill.size]
    if left:
        message = f"the missing cells of these columns are left as they are: {', '.join(left)}"
        warnings.warn(message, DataWarning, stacklevel=3)


def absent(table: Table, X: Any) -> list[Hashable]:
    """The modelled columns that X lacks."""
    view = view_of(X)
    return [plan.label for plan, label in table.located(view) if plan.kind and label not in view.columns]


def imputed_mask(table: Table, X: Any, filled: Any = None) -> Any:
    """A table like X of booleans: True where a cell is filled."""
    view = view_of(X)
    masks = {fill.label: fill.filled for fill in fills(table, X, filled)}
    if view.container == "array":
        return np.stack(list(masks.values()), axis=1)
    return view.rebuild({label: view.backend.new(mask, None) for label, mask in masks.items()})


def without_codes(table: Table, X: Any) -> Any:
    """A copy of X in which all missing cells are null, those too that hold a code."""
    view, changed = view_of(X), {}
    for plan, label in table.located(view):
        if plan.missing_codes and label in view.columns:
            column = view.columns[label]
            missing = view.backend.missing(column, plan.missing_codes)
            if (missing & ~view.backend.nulls(column)).any():
                changed[label] = view.backend.with_nulls(column, missing)
    return view.rebuild(changed)


def with_indicators(table: Table, X: Any, filled: Any) -> Any:
    """`filled` and, at its end, a column of booleans for each column of fit that had missing cells."""
    view, masks = view_of(filled), {fill.label: fill.cells for fill in fills(table, X, filled)}
    labels = [label for plan, label in table.located(view_of(X)) if _is_indicated(plan)]
    marked = [masks.get(label, np.ones(view.n, np.bool_)) for label in labels]
    if view.container == "array":
        return np.column_stack([filled, *(mask.astype(filled.dtype) for mask in marked)])
    named: dict[Hashable, Bools] = dict(zip(indicators(table), marked, strict=True))
    return view.rebuild({name: view.backend.new(mask, None) for name, mask in named.items()})


def indicators(table: Table) -> list[str]:
    """The names of the columns that `with_indicators` adds, as scikit-learn has them."""
    return [f"missingindicator_{plan.name}" for plan in table.plans if _is_indicated(plan)]


def _is_indicated(plan: ColumnPlan) -> bool:
    return plan.kind is not None and plan.missing > 0


def _left(table: Table, label: Hashable, plan: ColumnPlan | None) -> str:
    """Why the missing cells of a column are left; empty where they are not."""
    if plan is None:
        alike = [p.label for p in table.modelled if _alike(p.label) == _alike(label)]
        return "the model does not know this column" + (f"; it knows {alike[0]!r}" if alike else "")
    if plan.kind is None and plan.constant is None:
        return f"not modelled: {plan.why or 'as asked'}"
    return ""


def _alike(label: Hashable) -> str:
    """The same for labels that differ in case, blanks and punctuation only."""
    return "".join(filter(str.isalnum, str(label).lower()))
