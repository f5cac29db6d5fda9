"""One column of a user's table: its plan, a new column like it, and whether there is room for images."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from vsae.data.schema import NUMBERS
from vsae.table.backends import Backend, Column, HoldsArrays
from vsae.table.containers import View
from vsae.table.errors import TableError
from vsae.table.inference import Facts, planned
from vsae.table.missing_codes import never_numbers, suspected
from vsae.table.plan import ColumnPlan
from vsae.table.specs import Spec, Temporal
from vsae.table.typed_json import Unsaveable


def plan_column(
    view: View, label: Hashable, name: str, asked: Spec | None, codes: tuple[Any, ...], measured: bool
) -> ColumnPlan:
    backend, column = view.backend, view.columns[label]
    cells = backend.cells(column, codes)
    numeric = asked is not None and (isinstance(asked, Temporal) or asked.kind in NUMBERS)
    if (cells.why or numeric) and (texts := never_numbers(backend.mixed(column))):  # words that say there is none
        cells, codes = backend.cells(column, codes + texts), codes + texts
    facts = Facts(cells, backend.categorical(column), backend.order(column), view.plain, measured)
    missing = 1 - float(cells.observed.mean())
    blank = ColumnPlan(name, label, None, storage=cells.storage, missing_codes=codes, missing=missing)
    plan = planned(replace(blank, suspected=suspected(cells.finite)), facts, asked)
    refuse_images(plan, view.container, backend)  # now, not after training
    try:
        return replace(plan, dtype=backend.describe(column)) if plan.kind else plan
    except Unsaveable as reason:
        raise TableError(f"column {label!r}: {reason}") from None


def new_column(backend: Backend, plan: ColumnPlan, x: NDArray[Any], like: Column | None) -> Column:
    if plan.shape is not None:  # arrays, whatever dtype the paths had
        return backend.new(plan.write(x, None), None)
    return backend.new(plan.write(x, None if like is None else backend.target(like)), like)


def refuse_images(plan: ColumnPlan, container: str, backend: Backend) -> None:
    """If it is a column of them, and the container has no room."""
    if plan.shape is not None:
        for_images(plan, container, backend)


def for_images(plan: ColumnPlan, container: str, backend: Backend) -> HoldsArrays:
    """The backend, if its cells have room for the images of a column."""
    if not isinstance(backend, HoldsArrays):
        raise TableError(
            f"column {plan.label!r} holds images, which a {container} table cannot hold once they are imputed; "
            "use pandas or a dict of columns"
        )
    return backend
