"""Tables ⇄ the columns and the mask that the core takes: what each column is, and how it comes back as it was.

`Table.fit` looks at every column once and writes down a `ColumnPlan`: its kind, its levels or bounds, its dtype.
`encode` follows the plans from a table to natural units and level codes; `decode` puts numbers and codes back into the
holes of the table it was given. A cell that is no hole is never written to, so it comes back bit-identical.

Three things can be the matter with a cell:

    hole      null, NaN, or one of the column's missing codes: unobserved, and filled by `decode`
    odd       a level or number the plan has no place for (unseen level, ±inf, out of bounds): unobserved, but kept
    observed  everything else

Cells travel as numpy arrays of the observed values only. Taking the nulls out *before* numpy sees a column is what keeps
nullable integers above 2^53 exact, and a null in an Arrow dictionary from turning into a level.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import importlib
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Context, Decimal
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple, final

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from vsae.schema import NUMBERS, Attribute, Kind, Schema, Variable

__all__ = [
    "Binary",
    "Categorical",
    "ColumnPlan",
    "Count",
    "DataWarning",
    "Encoded",
    "Keep",
    "Ordinal",
    "Positive",
    "Real",
    "Spec",
    "Storage",
    "Table",
    "TableError",
]

Bools = NDArray[np.bool_]
Column = Any  # nw.Series or one-dimensional np.ndarray: whatever the backend at hand understands

# ours: where a column stops being a category, and where whole numbers stop being worth counting one by one
_MOST_LEVELS = 1000
_MANY_LEVELS = 50  # above, a column whose values are mostly distinct is free text
_FEW_ROWS = 20  # with no more, all-distinct values are no sign of an identifier
_LONG_TEXT = 100  # mean length of the distinct values
_COUNTABLE = 1e5  # a wider range is a real number, rounded: in float32 the unit interval of a count would vanish
_EXACT = 2.0**53
_IDENTIFIER = re.compile(r"(?:^|[\W_])(?i:id|ids|uuid|guid|index)$|[a-z](?:Id|ID)$|^(?i:unnamed: 0|rowid)$")


class TableError(ValueError):
    """A table, or what was asked of it, is wrong; one line that names the column and the remedy."""


class DataWarning(UserWarning):
    """Cells or columns that are given back as they came; the message names them."""


# --- what a user may say of a column ---------------------------------------------------------------------------------


class Spec:
    """What a column is to be taken for. Bounds left out are found as if nothing had been said: 0 where no value is
    negative; `min=-math.inf` lifts that one."""

    kind: ClassVar[Kind | None] = None
    min: Any = None  # a number, or a date, time or duration in columns of these
    max: Any = None
    levels: Sequence[Any] | None = None


@final
@dataclass(frozen=True)
class Real(Spec):
    """Any number, from `min` to `max`."""

    kind: ClassVar[Kind | None] = Kind.REAL
    min: Any = None
    max: Any = None


@final
@dataclass(frozen=True)
class Positive(Spec):
    """Numbers above zero, modelled by their logarithm."""

    kind: ClassVar[Kind | None] = Kind.POSITIVE


@final
@dataclass(frozen=True)
class Count(Spec):
    """Whole numbers, from `min` to `max`."""

    kind: ClassVar[Kind | None] = Kind.COUNT
    min: Any = None
    max: Any = None


@final
@dataclass(frozen=True)
class Binary(Spec):
    """Two levels."""

    kind: ClassVar[Kind | None] = Kind.BINARY


@final
@dataclass(frozen=True)
class Categorical(Spec):
    """Levels without an order."""

    kind: ClassVar[Kind | None] = Kind.CATEGORICAL


@final
@dataclass(frozen=True)
class Ordinal(Spec):
    """Levels with an order: `levels` from first to last, else the column's own order."""

    kind: ClassVar[Kind | None] = Kind.ORDINAL
    levels: Sequence[Any] | None = None


@final
@dataclass(frozen=True)
class Keep(Spec):
    """Not modelled, given back as it came. `why` is empty when the user asked for it."""

    why: str = ""


_SPECS: dict[str, Spec] = {
    spec.kind.value if spec.kind else "keep": spec
    for spec in (Real(), Positive(), Count(), Binary(), Categorical(), Ordinal(), Keep())
}


def _as_spec(label: Hashable, asked: object) -> Spec:
    if isinstance(asked, Spec):
        return asked
    name = asked.value if isinstance(asked, Kind) else "keep" if asked is None else asked
    if not isinstance(name, str) or name not in _SPECS:
        known = ", ".join(_SPECS)
        raise TableError(f"column {label!r}: unknown kind {name!r}; use one of {known}, or a spec such as Count(min=0)")
    return _SPECS[name]


# --- cells: raw values → numpy arrays that are exact -----------------------------------------------------------------


class Storage(enum.Enum):
    """What the values of a column are, whatever dtype holds them."""

    NUMBER = "number"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    DATETIME = "datetime"
    DURATION = "duration"
    TIME = "time"
    INTERVAL = "interval"  # of pandas.cut; levels only


_ALIKE = [frozenset({Storage.NUMBER, Storage.DECIMAL}), frozenset({Storage.DATE, Storage.DATETIME})]
_LABELS = frozenset({Storage.TEXT, Storage.INTERVAL})  # no arithmetic
_UNITS = ("D", "h", "m", "s", "ms", "us", "ns")  # of time, coarsest first


class _Unmodelled(Exception):
    """Values that no likelihood speaks of; the message says why."""


class _Cells(NamedTuple):
    values: NDArray[Any]  # of the observed cells: bool, integers, floats, datetime64, timedelta64, or objects
    observed: Bools  # (n,)
    storage: Storage


def _objects(values: Iterable[Any]) -> NDArray[np.object_]:
    values = list(values)
    return np.fromiter(values, dtype=object, count=len(values))  # np.array would make lists of lists two-dimensional


def _integers(values: list[Any]) -> NDArray[Any]:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=np.float64)


def _floats(values: list[Any]) -> NDArray[Any]:
    return np.fromiter(map(float, values), dtype=np.float64, count=len(values))


def _naive(values: list[Any]) -> NDArray[Any]:
    if any(value.tzinfo is not None for value in values):
        raise _Unmodelled("datetimes with zones as Python objects; give the column a datetime dtype")
    return np.array(values, dtype="M8[us]")


_MIDNIGHT = dt.datetime(1970, 1, 1)


def _since_midnight(values: list[Any]) -> NDArray[Any]:
    return np.array([dt.datetime.combine(_MIDNIGHT, v) - _MIDNIGHT for v in values], dtype="m8[us]")


class _Reader(NamedTuple):
    storage: Storage
    read: Callable[[list[Any]], NDArray[Any]]


_READ_FLOATS = _Reader(Storage.NUMBER, _floats)
_READ_INTEGERS = _Reader(Storage.NUMBER, _integers)
_READERS: list[tuple[type | tuple[type, ...], _Reader]] = [  # the first that fits
    ((bool, np.bool_), _Reader(Storage.NUMBER, lambda values: np.array(values, dtype=bool))),
    ((int, np.integer), _READ_INTEGERS),
    ((float, np.floating), _READ_FLOATS),
    (Decimal, _Reader(Storage.DECIMAL, _floats)),
    (str, _Reader(Storage.TEXT, _objects)),
    (dt.datetime, _Reader(Storage.DATETIME, _naive)),
    (dt.date, _Reader(Storage.DATE, lambda values: np.array(values, dtype="M8[D]"))),
    (dt.timedelta, _Reader(Storage.DURATION, lambda values: np.array(values, dtype="m8[us]"))),
    (dt.time, _Reader(Storage.TIME, _since_midnight)),
]
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)


def _reader(kind: type) -> _Reader:
    for types, reader in _READERS:
        if issubclass(kind, types):
            return reader
    if kind.__name__ == "Interval":  # pandas may not be installed
        return _Reader(Storage.INTERVAL, _objects)
    what = "nested" if issubclass(kind, _NESTED) else "binary" if issubclass(kind, bytes) else kind.__name__
    raise _Unmodelled(f"{what} values")


def _recognise(raw: NDArray[Any]) -> tuple[NDArray[Any], Storage]:
    """Values without nulls, as their library hands them out → values in an exact numpy dtype, and what they are."""
    if raw.ndim != 1:
        raise _Unmodelled("nested values")
    kind = raw.dtype.kind
    if kind in "biuf":
        return raw, Storage.NUMBER
    if kind in "Mm":
        unit, _ = np.datetime_data(raw.dtype)
        values = raw.astype(f"{kind}8[{unit if unit in _UNITS else 'D' if unit in 'YMW' else 'ns'}]")
        dates = np.datetime_data(values.dtype)[0] == "D"
        return values, Storage.DURATION if kind == "m" else Storage.DATE if dates else Storage.DATETIME
    if kind not in "OUT":
        raise _Unmodelled("binary values" if kind == "S" else f"{raw.dtype} values")
    values = raw.tolist()
    types = set(map(type, values))
    readers = {_reader(each) for each in types}
    if readers == {_READ_INTEGERS, _READ_FLOATS}:
        readers = {_READ_FLOATS}
    if len(readers) > 1:
        raise _Unmodelled(f"mixed types: {', '.join(sorted(each.__name__ for each in types))}")
    reader = readers.pop() if readers else _READ_FLOATS
    return reader.read(values), reader.storage


def _is_null(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, float | np.floating | Decimal):
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")  # pandas may not be installed


def _scalars(values: NDArray[Any]) -> list[Any]:
    """Python scalars that hash and compare alike whatever dtype they came from."""
    return (values.astype(f"{values.dtype.kind}8[us]") if values.dtype.kind in "Mm" else values).tolist()  # type: ignore[no-any-return]


def _coded(raw: NDArray[Any], codes: tuple[Any, ...]) -> Bools:
    """Which of the raw values are missing codes."""
    if raw.dtype.kind == "M":
        codes = tuple(_utc(code) for code in codes if isinstance(code, dt.date))
    try:
        return np.fromiter(map(frozenset(codes).__contains__, _scalars(raw)), dtype=np.bool_, count=len(raw))
    except TypeError:  # unhashable cells, lists for one: equal to no code
        return np.zeros(len(raw), dtype=np.bool_)


def _utc(moment: dt.date) -> dt.datetime:
    if not isinstance(moment, dt.datetime):
        return dt.datetime(moment.year, moment.month, moment.day)
    return moment.astimezone(dt.timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment


def _numbers(values: NDArray[Any], unit: str) -> NDArray[np.float64]:
    """Values as float64; moments and durations in whole `unit`s, since 1970."""
    if values.dtype.kind in "Mm":
        values = values.astype(f"{values.dtype.kind}8[{unit}]").astype(np.int64)
    return values.astype(np.float64)


def _coarsest_unit(values: NDArray[Any]) -> str:
    """The unit of time that all values are multiples of; '' for plain numbers."""
    kind = values.dtype.kind
    if kind not in "Mm":
        return ""
    return next((unit for unit in _UNITS if (values.astype(f"{kind}8[{unit}]") == values).all()), "ns")


def _all_whole(x: NDArray[np.float64]) -> bool:
    return bool((np.abs(x) < _EXACT).all() and (x == np.rint(x)).all())


# --- one column, one plan --------------------------------------------------------------------------------------------


class _Oddity(NamedTuple):
    """Cells that the plan has no place for."""

    cells: Bools  # among the observed ones
    why: str
    remedy: str


@final
@dataclass(frozen=True)
class ColumnPlan:
    """What one column was taken for in fit, and all that is needed to read and to write it again."""

    name: str  # in the schema
    label: Hashable  # in the user's table
    kind: Kind | None  # None: passed through
    why: str = ""  # it was passed through
    storage: Storage = Storage.NUMBER
    dtype: Any = None  # as the backend describes it: JSON
    levels: tuple[Any, ...] = ()  # of discrete kinds; the code is the index
    min: float | None = None  # bounds
    max: float | None = None
    low: float | None = None  # seen in fit
    high: float | None = None
    unit: str = ""  # of time, that numbers are counted in
    whole: bool = False  # numbers come back whole
    exponent: int = 0  # of decimals
    constant: float | None = None  # the only value seen, or the one that fills a column without any
    missing_codes: tuple[Any, ...] = ()
    missing: float = 0.0  # share, in fit

    @property
    def variable(self) -> Variable:
        assert self.kind is not None
        return Variable(self.name, self.kind, len(self.levels) or 1, self.min, self.max)

    @cached_property
    def codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels)}

    def read(self, values: NDArray[Any], storage: Storage) -> tuple[NDArray[Any], list[_Oddity]]:
        """Observed values → codes or numbers in natural units, and which of them are odd."""
        if storage is not self.storage and not any({storage, self.storage} <= alike for alike in _ALIKE):
            raise TableError(
                f"column {self.label!r} holds {storage.value} values, but {self.storage.value} values in fit; convert it"
            )
        if self.levels:
            codes = np.fromiter(map(self.codes.get, _scalars(values), repeat(-1)), dtype=np.int64, count=len(values))
            return codes, [_Oddity(codes < 0, "was not seen in fit", "add it to the levels or to missing_values")]
        x = _numbers(values, self.unit)
        return x, self._odd_numbers(x)

    def _odd_numbers(self, x: NDArray[np.float64]) -> list[_Oddity]:
        finite = np.isfinite(x)
        odd = [_Oddity(~finite, "is not finite", "replace it or list it in missing_values")]
        if self.min is not None or self.max is not None:
            low, high = self._bounds
            span = f"lies outside {self._show(self.min)} … {self._show(self.max)}"
            odd.append(_Oddity(finite & ((x < low) | (x > high)), span, "widen the bounds or list it in missing_values"))
        if self.kind is Kind.COUNT:
            odd.append(_Oddity(finite & (x != np.rint(x)), "is not a whole number", "use kind real"))
        if self.kind is Kind.POSITIVE:
            odd.append(_Oddity(finite & (x <= 0), "is not above zero", "use Real(min=0)"))
        return odd

    @property
    def _bounds(self) -> tuple[float, float]:
        return -np.inf if self.min is None else self.min, np.inf if self.max is None else self.max

    def write(self, x: NDArray[Any], target: np.dtype[Any] | None) -> NDArray[Any]:
        """Codes or numbers in natural units → values that a column of numpy dtype `target` can hold."""
        values = self._levels_at(x) if self.levels else self._values_of(np.asarray(x, dtype=np.float64), target)
        if target is not None and target.kind not in "OUT":
            return _cast(values, target)
        if self.storage is Storage.DECIMAL:
            return self._decimals(values)
        if self.storage is Storage.TIME:
            return _objects((_MIDNIGHT + span).time() for span in _scalars(values))
        if self.storage in _PYTHON:
            return values.astype(_PYTHON[self.storage]).astype(object if target is not None else None)
        return values if target is None else values.astype(object)

    def _levels_at(self, codes: NDArray[Any]) -> NDArray[Any]:
        dtype = {Storage.DATE: "M8[D]", Storage.TIME: "m8[us]"} | _PYTHON
        if self.storage in _LABELS:
            levels: NDArray[Any] = _objects(self.levels)
        else:
            levels = np.array(self.levels, dtype=dtype.get(self.storage))
        return levels[np.asarray(codes).astype(np.int64)]

    def _values_of(self, x: NDArray[np.float64], target: np.dtype[Any] | None) -> NDArray[Any]:
        if self.constant is not None:
            x = np.full(len(x), self.constant)
        if self.whole or (target is not None and target.kind in "iu"):
            low, high = self._bounds
            low = 1.0 if self.kind is Kind.POSITIVE else low
            x = np.clip(np.rint(x), np.ceil(low), np.floor(high))
        return _times(x, self.unit, self.storage, target) if self.unit else x

    def _decimals(self, x: NDArray[Any]) -> NDArray[np.object_]:
        """Decimals with the column's exponent, and no more digits before the point than it had in fit."""
        top = max(abs(self.low or 0.0), abs(self.high or 0.0), 1.0)
        quantum, most = Decimal((0, (1,), self.exponent)), Decimal(10) ** (math.floor(math.log10(top)) + 1)
        most, wide = most - max(quantum, Decimal(1)) if self.exponent > 0 else most - quantum, Context(prec=400)
        return _objects(
            min(max(Decimal(repr(value)).quantize(quantum, context=wide), -most), most)
            for value in x.astype(np.float64).tolist()
        )

    def _show(self, x: float | None) -> str:
        if x is None:
            return ""
        if not self.unit:
            return f"{x:g}"
        return str(_times(np.array([x]), self.unit, self.storage, None).astype("O" if self.unit != "ns" else None)[0])

    def describe(self) -> str:
        """Levels, or the range seen."""
        if self.kind is None:
            return self.why or "as asked"
        if not self.levels:
            return f"{self._show(self.low)} … {self._show(self.high)}"
        shown = ", ".join(str(level) for level in self.levels[:6])
        return f"{len(self.levels)} levels: {shown}{', …' if len(self.levels) > 6 else ''}"

    def to_json(self) -> dict[str, Any]:
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        return data | {
            "kind": self.kind and self.kind.value,
            "storage": self.storage.value,
            **{key: _dump(data[key]) for key in ("label", "levels", "missing_codes", "constant", "low", "high")},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ColumnPlan:
        typed = {key: _load(data[key]) for key in ("label", "levels", "missing_codes", "constant", "low", "high")}
        kind = data["kind"] and Kind(data["kind"])
        return cls(**{**data, **typed, "kind": kind, "storage": Storage(data["storage"])})


#: The numpy dtypes whose objects are Python's dates, datetimes and timedeltas.
_PYTHON = {Storage.DATE: "M8[D]", Storage.DATETIME: "M8[us]", Storage.DURATION: "m8[us]"}


def _times(x: NDArray[np.float64], unit: str, storage: Storage, target: np.dtype[Any] | None) -> NDArray[Any]:
    """Whole units → datetime64 or timedelta64, within what int64 and Python's own classes reach."""
    kind = "M" if storage in (Storage.DATE, Storage.DATETIME) else "m"
    fine = "ns" in (unit, np.datetime_data(target)[0] if target is not None and target.kind in "Mm" else "")
    reach = (106_000 if fine else 2_900_000) if kind == "M" else (106_000 if fine else 100_000_000)  # days
    limit = np.timedelta64(reach, "D").astype(f"m8[{unit}]").astype(np.int64)
    low = max(-limit, int(np.datetime64("0001-01-01").astype(f"M8[{unit}]").astype(np.int64))) if not fine else -limit
    return np.clip(x, low if kind == "M" else -limit, limit).astype(np.int64).astype(f"{kind}8[{unit}]")


def _cast(values: NDArray[Any], target: np.dtype[Any]) -> NDArray[Any]:
    """To a numpy dtype, rounded and clipped where it is narrower."""
    if target.kind == "b":
        return np.rint(values.astype(np.float64)).astype(np.bool_)
    if target.kind == "f":
        most = np.finfo(target).max
        return np.clip(values.astype(np.float64), -float(most), float(most)).astype(target)
    if target.kind in "iu":
        least, largest = int(np.iinfo(target).min), int(np.iinfo(target).max)
        if values.dtype.kind in "iu":
            own = np.iinfo(values.dtype)
            return np.clip(values, max(least, int(own.min)), min(largest, int(own.max))).astype(target)
        top = float(largest) if int(float(largest)) <= largest else np.nextafter(float(largest), 0.0)
        return np.clip(np.rint(values.astype(np.float64)), float(least), top).astype(target)
    return values.astype(target)


# --- inference -------------------------------------------------------------------------------------------------------


class _Facts(NamedTuple):
    """One column of the table that is fitted."""

    label: Hashable
    name: str
    cells: _Cells
    dtype: Any
    codes: tuple[Any, ...]
    categorical: bool  # by its dtype
    order: list[Any] | None  # of its dtype's categories
    plain: bool  # a column of a 2-D number array: real, whatever the values look like

    @property
    def usable(self) -> NDArray[Any]:
        values = self.cells.values
        return values[np.isfinite(values)] if values.dtype.kind == "f" else values


def _infer(facts: _Facts) -> Spec:
    values = facts.usable
    if not len(values):
        return Keep("no value to learn from" if not len(facts.cells.values) else "no finite value")
    if facts.order is not None:
        return Ordinal() if len(facts.order) <= _MOST_LEVELS else Keep(f"{len(facts.order)} levels")
    if facts.categorical or facts.cells.storage in _LABELS:
        return _infer_labels(facts)
    if values.dtype.kind == "b":
        return Binary()
    return Real() if facts.plain else _infer_number(facts)


def _infer_labels(facts: _Facts) -> Spec:
    distinct = dict.fromkeys(_scalars(facts.usable))
    n, d = len(facts.usable), len(distinct)
    if d == n > _FEW_ROWS:
        return Keep(f"an identifier: {n} values, all distinct")
    if d > _MANY_LEVELS and d > n / 2:
        return Keep(f"free text: {d} distinct values in {n} cells")
    if d > _MOST_LEVELS:
        return Keep(f"{d} levels")
    if facts.cells.storage is Storage.TEXT and sum(map(len, distinct)) > _LONG_TEXT * d:
        return Keep(f"free text: {sum(map(len, distinct)) // d} characters a value")
    return Categorical()


def _infer_number(facts: _Facts) -> Spec:
    values, unit = facts.usable, _coarsest_unit(facts.usable)
    x = _numbers(values, unit)
    if not unit:
        if values.dtype.kind == "f" and not _all_whole(x):
            return Real()
        low, high = values.min(), values.max()
        if low < high and ((values == low) | (values == high)).all():
            return Binary()
        complete = facts.cells.observed.all() and len(values) > _FEW_ROWS
        if complete and _IDENTIFIER.search(facts.name) and len(np.unique(values)) == len(values):
            return Keep(f"an identifier: {len(values)} whole numbers, all distinct")
    return Count() if x.max() - x.min() <= _COUNTABLE else Real()


def _plan(facts: _Facts, asked: Spec | None) -> ColumnPlan:
    spec = asked or _infer(facts)
    plan = ColumnPlan(
        facts.name,
        facts.label,
        spec.kind,
        storage=facts.cells.storage,
        dtype=facts.dtype,
        missing_codes=facts.codes,
        missing=1 - float(facts.cells.observed.mean()),
    )
    if isinstance(spec, Keep):
        empty = facts.plain and not len(facts.usable)  # scikit-learn's keep_empty_features
        return replace(plan, why=spec.why, constant=0.0 if empty else None)
    if not len(facts.usable):
        raise TableError(f"column {facts.label!r} has no value to learn from; drop it or leave it out of schema")
    if spec.kind in NUMBERS:
        plan = _number_plan(plan, facts, spec)
    else:
        plan = _level_plan(plan, facts, spec, inferred=asked is None)
    if asked:
        _refuse_contradiction(plan, facts)
    return plan


def _level_plan(plan: ColumnPlan, facts: _Facts, spec: Spec, inferred: bool) -> ColumnPlan:
    seen = set(_scalars(facts.usable))
    if spec.levels is not None:
        levels = list(spec.levels)
        if len(set(levels)) != len(levels):
            raise TableError(f"column {plan.label!r}: a level appears twice; list each once")
    elif facts.order is not None:
        levels = [level for level in facts.order if level in seen]
    elif spec.kind is Kind.ORDINAL and plan.storage is Storage.TEXT:
        raise TableError(f"column {plan.label!r}: the order of text is not known; pass Ordinal(levels=[...])")
    else:
        levels = [False, True] if facts.usable.dtype.kind == "b" else sorted(seen)
    kind = plan.kind
    if len(levels) == 1:
        kind = Kind.CATEGORICAL if inferred or kind is Kind.ORDINAL else kind
    if inferred and kind is Kind.CATEGORICAL and len(levels) == 2:
        kind = Kind.BINARY
    if kind is Kind.BINARY and len(levels) != 2:
        raise TableError(f"column {plan.label!r} has {len(levels)} levels, binary takes 2; use categorical")
    return replace(plan, kind=kind, levels=tuple(levels))


def _number_plan(plan: ColumnPlan, facts: _Facts, spec: Spec) -> ColumnPlan:
    assert spec.kind is not None
    if plan.storage in _LABELS:
        what = f"column {plan.label!r} holds {plan.storage.value}, not numbers"
        raise TableError(f"{what}; use categorical instead of {spec.kind.value}, or convert it")
    values, unit = facts.usable, _coarsest_unit(facts.usable)
    x = _numbers(values, unit)
    low, high = float(x.min()), float(x.max())
    exponents = Counter(v.as_tuple().exponent for v in facts.decimals) if plan.storage is Storage.DECIMAL else None
    plan = replace(
        plan,
        unit=unit,
        low=low,
        high=high,
        whole=bool(unit) or spec.kind is Kind.COUNT or (not facts.plain and _all_whole(x)),
        constant=low if low == high else None,
    )
    return plan


def _refuse_contradiction(plan: ColumnPlan, facts: _Facts) -> None:
    _, oddities = plan.read(facts.usable, plan.storage)
    for odd in oddities:
        if odd.cells.any():
            value = _scalars(facts.usable[odd.cells][:1])[0]
            kind = plan.kind.value if plan.kind else ""
            raise TableError(f"column {plan.label!r} as {kind}: {value!r} {odd.why}; {odd.remedy}")
