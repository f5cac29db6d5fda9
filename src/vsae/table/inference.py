"""What a column is, after what the user asked for, or else after what its values look like: its `ColumnPlan`."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import LARGEST
from vsae.data.microaggregation import shown_range
from vsae.data.schema import NUMBERS, Kind
from vsae.table.cells import CALENDAR, LABELS, Cells, Storage, recognise, scalars
from vsae.table.errors import TableError
from vsae.table.images import NotAnImage, is_path, median_shape, shape_and_layout, white_of
from vsae.table.notations import Text, number_notation
from vsae.table.plan import ColumnPlan
from vsae.table.specs import (
    TEMPORAL,
    Binary,
    Categorical,
    Count,
    Date,
    Image,
    Integer,
    Keep,
    Ordinal,
    Positive,
    Real,
    Spec,
    Temporal,
)
from vsae.table.stamps import date_notation
from vsae.table.units import EXACT, coarsest_unit, day_of, to_numbers

# ours: where a column stops being a category, and where whole numbers stop being worth counting one by one
_MOST_LEVELS = 1000
_MOST_DECLARED = 10_000  # by a categorical dtype
_MANY_LEVELS = 50  # above, a column whose values are mostly distinct is free text
_FEW_CODES = 10  # no more different whole numbers than this, none of them rare, are codes or grades …
_RARE = 0.01  # … while the rare values in a column's tail are those of a count
_FEW_ROWS = 20  # with no more, all-distinct values are no sign of an identifier
_LONG_TEXT = 100  # mean length of the distinct values
_COUNTABLE = 1e5  # a wider range is a real number, rounded: in float32 the unit interval of a count would vanish
_IDENTIFIER = re.compile(r"(?:^|[\W_])(?i:id|ids|uuid|guid|index)$|[a-z](?:Id|ID)$|^(?i:unnamed: 0|rowid)$")


class Facts(NamedTuple):
    """What can be said of a column before it is planned."""

    cells: Cells
    categorical: bool  # by its dtype
    order: list[Any] | None  # of its dtype's categories
    plain: bool  # of a 2-D array of numbers: a real number, whatever the values look like
    measured: bool = False  # part of a relation between numbers: no code, whatever the values look like


def planned(plan: ColumnPlan, facts: Facts, asked: Spec | None) -> ColumnPlan:
    """The plan with its kind, levels and bounds, after `asked` or else after what the values look like."""
    if asked and facts.cells.storage is Storage.TEXT and (isinstance(asked, Temporal) or asked.kind in NUMBERS):
        plan, facts = _from_text(plan, facts, asked)
    spec, cells = asked or _infer(plan.name, facts), facts.cells
    if isinstance(spec, Keep):
        if facts.plain and spec.why:  # an array has no other way to be complete; scikit-learn's keep_empty_features
            return replace(plan, why=f"{spec.why}, its missing cells become 0", constant=0.0)
        return replace(plan, why=spec.why)
    if cells.why or not len(cells.finite):
        why = cells.why or "no value to learn from"
        raise TableError(f"column {plan.label!r} has {why}; leave it out of schema, or use keep")
    plan = replace(plan, kind=spec.kind, exponent=cells.exponent)
    if isinstance(spec, Image):
        return _with_shape(plan, cells, spec)
    if cells.storage is Storage.IMAGE:
        raise TableError(f"column {plan.label!r} holds images; use image or keep")
    if isinstance(spec, Temporal) and cells.storage not in spec.storages:
        raise TableError(f"column {plan.label!r} as {spec.name}: it holds {plan.storage_name} values; convert it first")
    if cells.storage not in LABELS:
        unit = coarsest_unit(cells)
        x = to_numbers(cells.finite, unit)
        low, high = float(x.min()), float(x.max())
        whole = _all_whole(x) and not facts.plain
        kind = _whole_kind(low, high) if isinstance(spec, Temporal) else spec.kind
        plan = replace(plan, kind=kind, unit=unit, low=low, high=high, whole=whole)
    plan = _with_bounds(plan, spec) if plan.kind in NUMBERS else _with_levels(plan, facts, spec, inferred=not asked)
    if asked:
        _refuse_contradiction(plan, asked, cells)
    if plan.low is None:
        return plan
    low, high = shown_range(to_numbers(cells.finite, plan.unit))  # from here on, what is kept is of several cells
    return replace(plan, low=low, high=high)


def _from_text(plan: ColumnPlan, facts: Facts, asked: Spec) -> tuple[ColumnPlan, Facts]:
    """What a column of texts holds where numbers, dates or times are asked for, and how it writes them."""
    texts = [text.strip() for text in facts.cells.values.tolist()]

    def read(some: list[str]) -> Any:
        if not isinstance(asked, Temporal):
            return number_notation(some, missing=True)
        found = date_notation(some, asked.format if isinstance(asked, Date) else None)
        return found if found is None or recognise(found.parse(some))[1] in asked.storages else None

    notation = read(texts)
    if notation is None or isinstance(notation, Text):
        odd = next((text for text in texts if read([text]) is None), None)
        takes = f"{asked.name}s" if isinstance(asked, Temporal) else "numbers"
        if odd is None:
            raise TableError(
                f"column {plan.label!r} as {asked.name}: its texts write {takes} in several ways; convert it"
            )
        raise TableError(
            f"column {plan.label!r} holds text such as {odd!r}, {asked.name} takes {takes}; "
            "list it in missing_values, or use categorical"
        )
    values, storage = recognise(notation.parse(texts))
    return replace(plan, notation=notation, storage=storage), facts._replace(
        cells=facts.cells._replace(values=values, storage=storage)
    )


# --- what the values look like


def _infer(name: str, facts: Facts) -> Spec:
    values = facts.cells.finite
    if facts.cells.why:
        return Keep(facts.cells.why)
    if not len(values):
        return Keep(f"no value within ±{LARGEST:g}" if len(facts.cells.values) else "no value to learn from")
    if facts.cells.storage is Storage.IMAGE:
        paths = filter(is_path, values.tolist())
        return Image() if all(map(os.path.isfile, paths)) else Keep("images, and text that is not the path of one")
    if facts.order is not None:
        return Ordinal() if len(facts.order) <= _MOST_LEVELS else Keep(f"{len(facts.order)} levels")
    if facts.categorical or facts.cells.storage in LABELS:
        return _infer_labels(values, facts.categorical)
    if values.dtype.kind == "b":
        return Binary()
    return _infer_real(to_numbers(values, "")) if facts.plain else _infer_number(name, facts)


def _with_shape(plan: ColumnPlan, cells: Cells, spec: Image) -> ColumnPlan:
    """The shape asked for, that of the first array, or the median of the first files. All are read once, so that an
    unreadable one is refused now."""
    first, asked = cells.values[0], spec.shape
    try:
        if asked is None and is_path(first):
            asked = median_shape(list(filter(is_path, cells.values)))
        shape, layout = shape_and_layout(first, asked)
        white = white_of(first)
        plan = replace(
            plan,
            shape=asked or shape,
            layout=layout,
            whole=white > 1,
            pixels=spec.pixels,
            low=0.0,
            high=float(white),
        )
    except NotAnImage as reason:
        raise TableError(f"column {plan.label!r} as image holds {reason}; use another kind") from None
    plan.read(cells)
    return plan


def _infer_labels(values: NDArray[Any], declared: bool) -> Spec:
    """Whoever declares a category has decided that it is no free text."""
    distinct = set(scalars(values))
    n, d = len(values), len(distinct)
    length = sum(len(level) for level in distinct if isinstance(level, str)) / d
    if d == n > _FEW_ROWS:
        return Keep(f"an identifier: {n} values, all distinct")
    if not declared and (d > max(_MANY_LEVELS, n / 2) or (length > _LONG_TEXT and d > 2)):
        return Keep(f"free text: {d} distinct values in {n} cells, {length:.0f} characters each")
    return Categorical() if d <= (_MOST_DECLARED if declared else _MOST_LEVELS) else Keep(f"{d} levels")


def _infer_number(name: str, facts: Facts) -> Spec:
    cells = facts.cells
    if cells.storage in TEMPORAL:
        return TEMPORAL[cells.storage]()
    values = cells.finite
    x = to_numbers(values, "")
    if values.dtype.kind == "f" and not _all_whole(x):
        return _infer_real(x)
    if facts.measured:
        return Count() if _whole_kind(x.min(), x.max()) is Kind.COUNT else Real()
    low, high = values.min(), values.max()
    if low < high and ((values == low) | (values == high)).all():
        return Binary()
    seen, cells_of = np.unique(values, return_counts=True)
    if 1 < len(seen) <= _FEW_CODES < len(values) and cells_of.min() >= _RARE * len(values):
        return Ordinal()  # 3, 6, 7: a 5 would mean nothing
    complete = len(values) == len(cells.observed) > _FEW_ROWS
    if complete and _IDENTIFIER.search(name) and len(seen) == len(values):
        return Keep(f"an identifier: {len(values)} whole numbers, all distinct")
    return Count() if _whole_kind(x.min(), x.max()) is Kind.COUNT else Real()


def _whole_kind(low: float, high: float) -> Kind:
    """Of whole numbers from `low` to `high`, none of which is a code."""
    return Kind.COUNT if high - low <= _COUNTABLE else Kind.REAL


def _infer_real(x: NDArray[np.float64]) -> Spec:
    """Positive where nothing reaches zero and the logarithm is less skewed: amounts, durations, concentrations."""
    if len(x) <= _FEW_ROWS or x.min() <= 0 or x.min() == x.max():
        return Real()
    return Positive() if abs(_skewness(np.log(x))) < _skewness(x) else Real()


def _skewness(x: NDArray[np.float64]) -> float:
    deviation = (x - x.mean()) / max(x.std(), 1e-300)
    return float((deviation**3).mean())


def _all_whole(x: NDArray[np.float64]) -> bool:
    return bool((np.abs(x) < EXACT).all() and (x == np.rint(x)).all())


# --- levels and bounds


def _with_levels(plan: ColumnPlan, facts: Facts, spec: Spec, inferred: bool) -> ColumnPlan:
    seen, kind = set(scalars(facts.cells.finite)), plan.kind
    if spec.levels is not None:
        levels = _given_levels(plan, spec.levels)
    elif facts.order is not None:
        levels = [level for level in facts.order if level in seen]
    elif kind is Kind.ORDINAL and plan.storage is Storage.TEXT:
        raise TableError(f"column {plan.label!r}: the order of its levels is not known; pass Ordinal(levels=[...])")
    else:
        levels = [False, True] if facts.cells.values.dtype.kind == "b" else sorted(seen)
    if kind is Kind.ORDINAL and len(levels) == 1:
        kind = Kind.CATEGORICAL
    if inferred and kind is Kind.CATEGORICAL and len(levels) == 2:
        kind = Kind.BINARY
    for value in sorted(seen - set(levels), key=str):  # the same one is named every time
        raise TableError(
            f"column {plan.label!r}: {value!r} is not among its levels; add it or list it in missing_values"
        )
    if len(set(levels)) != len(levels):
        raise TableError(f"column {plan.label!r}: a level is listed twice; list each once")
    if kind is Kind.BINARY and len(levels) != 2:
        raise TableError(f"column {plan.label!r}: binary takes 2 levels, not {len(levels)}; use categorical")
    return replace(plan, kind=kind, levels=tuple(levels))


def _given_levels(plan: ColumnPlan, given: Any) -> list[Any]:
    if not np.iterable(given):
        raise TableError(f"column {plan.label!r}: levels must be a list, not {given!r}; pass Ordinal(levels=[...])")
    return scalars(plan.given(given)[0])


def _with_bounds(plan: ColumnPlan, spec: Spec) -> ColumnPlan:
    if plan.low is None or plan.high is None:
        raise TableError(f"column {plan.label!r} holds {plan.storage_name}, {spec.name} takes numbers; use categorical")
    least: float | None = None
    most: float | None = None
    if plan.storage is Storage.TIME:
        least, most = day_of(plan.unit)
    elif plan.storage not in CALENDAR and plan.low >= 0 and not isinstance(spec, Positive | Integer):
        least = 0.0
    least = least if spec.min is None else _bound(plan, spec.min, -math.inf)
    most = most if spec.max is None else _bound(plan, spec.max, math.inf)
    if least is not None and most is not None and not least < most:
        shown = f"min {plan.show(least)} is not below max {plan.show(most)}"
        raise TableError(f"column {plan.label!r}: {shown}; swap or widen them")
    whole = plan.whole or plan.kind is Kind.COUNT
    return replace(plan, min=least, max=most, whole=whole, constant=plan.low if plan.low == plan.high else None)


def _bound(plan: ColumnPlan, given: Any, none: float) -> float | None:
    """A bound as the user gave it → natural units; `none`, which is infinite, is none."""
    if isinstance(given, float | np.floating):
        if given == none:
            return None
        if not math.isfinite(given):
            raise TableError(f"column {plan.label!r}: no value lies within the bound {given!r}; give another")
    if isinstance(given, str) and plan.unit:  # JSON has no dates of its own
        given = plan.parse(given)
    values, storage = plan.given([given])
    if not plan.takes(storage):
        raise TableError(f"column {plan.label!r}: the bound {given!r} is not a {plan.storage_name}; give one")
    return float(to_numbers(values, plan.unit)[0])


def _refuse_contradiction(plan: ColumnPlan, asked: Spec, cells: Cells) -> None:
    """What the user said of a column must hold for the values in it."""
    values = cells.finite
    _, oddities = plan.read(cells._replace(values=values))
    for odd in oddities:
        value = scalars(values[odd.cells][:1])[0]
        raise TableError(f"column {plan.label!r} as {asked.name}: {value!r} {odd.why}; {odd.remedy}")
