"""Tables ⇄ the columns and the mask that the core takes: what each column is, and how it comes back as it was.

`Table.fit` looks at every column once and writes down a `ColumnPlan`: its kind, its levels or bounds, its dtype.
`encode` follows the plans from a table to natural units and level codes; `decode` puts numbers and codes back into the
holes of the table it was given. A cell that is no hole is never written to, so it comes back bit-identical.

Three things can be the matter with a cell:

    hole      null, NaN, or one of the column's missing codes: unobserved, and filled by `decode`
    odd       a level or number the plan has no place for (unseen level, ±inf, out of bounds): unobserved, but kept
    observed  everything else

Cells travel as numpy arrays of the observed values only. Taking the nulls out *before* numpy sees a column is what
keeps nullable integers above 2^53 exact, and a null in an Arrow dictionary from turning into a level.
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
from dataclasses import dataclass, fields, replace
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
    "spec_from_json",
]

Bools = NDArray[np.bool_]
Column = Any  # nw.Series or one-dimensional np.ndarray: whatever the backend at hand understands

# ours: where a column stops being a category, and where whole numbers stop being worth counting one by one
_MOST_LEVELS = 1000
_MANY_LEVELS = 50  # above, a column whose values are mostly distinct is free text
_FEW_CODES = 10  # whole numbers that leave some out, and no more of them than this, are codes
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


def spec_from_json(label: str, asked: Any) -> Spec:
    """A kind's name, or an object such as {"kind": "count", "min": 0, "max": 120}, from a schema file.

    >>> spec_from_json("age", {"kind": "count", "max": 120})
    Count(min=None, max=120)
    """
    if not isinstance(asked, dict):
        return _as_spec(label, asked)
    spec = _as_spec(label, asked.get("kind"))
    try:
        return type(spec)(**{key: value for key, value in asked.items() if key != "kind"})
    except TypeError:
        known = ", ".join(["kind", *(each.name for each in fields(spec))])  # type: ignore[arg-type]
        raise TableError(f"column {label!r}: {asked!r} has a key that is not one of {known}") from None


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


_ALIKE = [{Storage.NUMBER, Storage.DECIMAL}, {Storage.DATE, Storage.DATETIME}]  # read alike
_LABELS = frozenset({Storage.TEXT, Storage.INTERVAL})  # no arithmetic
_UNITS = {  # of time, per day, coarsest first
    "D": 1,
    "h": 24,
    "m": 1440,
    "s": 86_400,
    "ms": 86_400 * 10**3,
    "us": 86_400 * 10**6,
    "ns": 86_400 * 10**9,
}
_MIDNIGHT = dt.datetime(1970, 1, 1)
_WITH_NAN = (float, np.floating, Decimal)


class _Unmodelled(Exception):
    """Values that no likelihood speaks of; the message says why."""


class _Cells(NamedTuple):
    """The observed cells of one column."""

    values: NDArray[Any]  # (observed,) bool, integers, floats, datetime64, timedelta64, or objects of one type
    observed: Bools  # (n,)
    storage: Storage | None = None
    exponent: int = 0  # the commonest one of decimals
    why: str = ""  # they can't be modelled

    @property
    def finite(self) -> NDArray[Any]:
        return self.values[np.isfinite(self.values)] if self.values.dtype.kind == "f" else self.values


def _objects(values: Iterable[Any]) -> NDArray[np.object_]:
    values = list(values)
    return np.fromiter(values, dtype=object, count=len(values))  # np.array would stack lists


def _integers(values: list[Any]) -> NDArray[Any]:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array(values, dtype=np.float64)


def _floats(values: list[Any]) -> NDArray[Any]:
    return np.fromiter(map(float, values), dtype=np.float64, count=len(values))


def _moments(values: list[Any]) -> NDArray[Any]:
    if any(value.tzinfo is not None for value in values):
        raise _Unmodelled("datetimes with zones as Python objects; give the column a datetime dtype")
    return np.array(values, dtype="M8[us]")


def _since_midnight(values: list[Any]) -> NDArray[Any]:
    return np.array([dt.datetime.combine(_MIDNIGHT, value) - _MIDNIGHT for value in values], dtype="m8[us]")


class _Reader(NamedTuple):
    storage: Storage
    read: Callable[[list[Any]], NDArray[Any]]


_FLOATS, _INTEGERS = _Reader(Storage.NUMBER, _floats), _Reader(Storage.NUMBER, _integers)
_READERS: list[tuple[type | tuple[type, ...], _Reader]] = [  # the first that fits
    ((bool, np.bool_), _Reader(Storage.NUMBER, lambda values: np.array(values, dtype=np.bool_))),
    ((int, np.integer), _INTEGERS),
    ((float, np.floating), _FLOATS),
    (Decimal, _Reader(Storage.DECIMAL, _floats)),
    (str, _Reader(Storage.TEXT, _objects)),
    (dt.datetime, _Reader(Storage.DATETIME, _moments)),
    (dt.date, _Reader(Storage.DATE, lambda values: np.array(values, dtype="M8[D]"))),
    (dt.timedelta, _Reader(Storage.DURATION, lambda values: np.array(values, dtype="m8[us]"))),
    (dt.time, _Reader(Storage.TIME, _since_midnight)),
]


def _reader(kind: type) -> _Reader:
    for types, reader in _READERS:
        if issubclass(kind, types):
            return reader
    if kind.__name__ == "Interval":  # pandas may not be installed
        return _Reader(Storage.INTERVAL, _objects)
    nested = issubclass(kind, (list, tuple, dict, set, frozenset, np.ndarray))
    raise _Unmodelled("nested values" if nested else f"{kind.__name__} values")


def _recognise(raw: NDArray[Any]) -> tuple[NDArray[Any], Storage]:
    """Values without nulls, as their library hands them out → values in an exact numpy dtype, and what they are."""
    kind = raw.dtype.kind
    if raw.ndim != 1:
        raise _Unmodelled("nested values")
    if kind in "biuf":
        return raw, Storage.NUMBER
    if kind in "Mm":
        unit, _ = np.datetime_data(raw.dtype)
        unit = unit if unit in _UNITS else "D" if unit in "YMW" else "ns"
        storage = Storage.DURATION if kind == "m" else Storage.DATE if unit == "D" else Storage.DATETIME
        return raw.astype(f"{kind}8[{unit}]"), storage
    if kind not in "OUT":
        raise _Unmodelled(f"{raw.dtype} values")
    values = raw.tolist()
    types = set(map(type, values))
    readers = {_reader(each) for each in types}
    if readers == {_INTEGERS, _FLOATS}:
        readers = {_FLOATS}
    if len(readers) > 1:
        raise _Unmodelled(f"mixed types: {', '.join(sorted(each.__name__ for each in types))}")
    reader = readers.pop() if readers else _FLOATS
    return reader.read(values), reader.storage


def _usual_exponent(decimals: Iterable[Decimal]) -> int:
    exponents = Counter(value.as_tuple().exponent for value in decimals)
    return next((exponent for exponent, _ in exponents.most_common() if isinstance(exponent, int)), 0)


_NULLS = ("NoneType", "NAType", "NaTType")  # by name: pandas may not be installed


def _is_null(value: Any) -> bool:
    return type(value).__name__ in _NULLS or (isinstance(value, _WITH_NAN) and bool(value != value))


def _object_nulls(values: list[Any]) -> Bools:
    types = set(map(type, values))
    nulls = {each for each in types if each.__name__ in _NULLS}
    some = any(issubclass(each, _WITH_NAN) for each in types)  # else the type says it all, without a look at the value
    found = map(_is_null, values) if some else map(nulls.__contains__, map(type, values))
    return np.fromiter(found, dtype=np.bool_, count=len(values))


def _scalars(values: NDArray[Any]) -> list[Any]:
    """Python scalars, which hash and compare alike whatever dtype they came from."""
    kind = values.dtype.kind
    scalars: list[Any] = (values.astype(f"{kind}8[us]") if kind in "Mm" else values).tolist()
    return scalars


def _coded(raw: NDArray[Any], codes: tuple[Any, ...]) -> Bools:
    """Which of the raw values are missing codes."""
    if raw.dtype.kind == "M":
        codes = tuple(_utc(code) for code in codes if isinstance(code, dt.date))
    try:
        return np.fromiter(map(frozenset(codes).__contains__, _scalars(raw)), dtype=np.bool_, count=len(raw))
    except TypeError:  # unhashable cells, such as lists, equal no code
        return np.zeros(len(raw), dtype=np.bool_)


def _utc(moment: dt.date) -> dt.datetime:
    if not isinstance(moment, dt.datetime):
        return dt.datetime(moment.year, moment.month, moment.day)
    return moment.astimezone(dt.timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment


def _numbers(values: NDArray[Any], unit: str) -> NDArray[np.float64]:
    """Values as float64; moments and durations in whole `unit`s of time, moments since 1970."""
    if values.dtype.kind in "Mm":
        values = values.astype(f"{values.dtype.kind}8[{unit}]").astype(np.int64)
    return values.astype(np.float64)


def _coarsest_unit(cells: _Cells) -> str:
    """The unit of time that all values are multiples of; '' for plain numbers."""
    values, kind = cells.values, cells.values.dtype.kind
    if kind not in "Mm":
        return ""
    units = list(_UNITS)[cells.storage is Storage.TIME :]  # the time of day in days would always be 0
    return next(unit for unit in units if (values.astype(f"{kind}8[{unit}]") == values).all())


def _times(x: NDArray[np.float64], unit: str, kind: str, target: np.dtype[Any] | None) -> NDArray[Any]:
    """Whole units of time → datetime64 or timedelta64, within the reach of `target` and of Python's own classes."""
    fine = unit == "ns" or (target is not None and target.kind in "Mm" and np.datetime_data(target)[0] == "ns")
    first, last = (-106_000, 106_000) if fine else {"M": (-719_162, 2_932_896), "m": (-(10**8), 10**8)}[kind]  # days
    return np.clip(x, first * _UNITS[unit], last * _UNITS[unit]).astype(np.int64).astype(f"{kind}8[{unit}]")


def _cast(values: NDArray[Any], target: np.dtype[Any]) -> NDArray[Any]:
    """To a numpy dtype, rounded and clipped where it is narrower."""
    if target.kind == "b":
        return np.rint(values.astype(np.float64)).astype(np.bool_)
    if target.kind == "f":
        most = float(np.finfo(target).max)
        return np.clip(values.astype(np.float64), -most, most).astype(target)
    if target.kind in "iu":
        least, most = float(np.iinfo(target).min), float(np.iinfo(target).max)
        if values.dtype.kind in "iu" and np.can_cast(values.dtype, target):
            return values.astype(target)
        most = most if abs(most) < _EXACT else float(np.nextafter(most, 0.0))  # 2^63 - 1 is no float64
        return np.clip(np.rint(values.astype(np.float64)), least, most).astype(target)
    return values.astype(target)


# --- one column, one plan --------------------------------------------------------------------------------------------


class _Oddity(NamedTuple):
    """Observed cells that the plan has no place for."""

    cells: Bools  # (observed,)
    why: str
    remedy: str = ""


#: Moments and durations as numpy arrays whose objects are Python's own.
_PYTHON = {
    Storage.DATE: "M8[D]",
    Storage.DATETIME: "M8[us]",
    Storage.DURATION: "m8[us]",
    Storage.TIME: "m8[us]",
}
#: Kinds of numpy dtype that take such values.
_HOLDERS = {
    Storage.NUMBER: "biufO",
    Storage.DECIMAL: "biufO",
    Storage.TEXT: "OUT",
    Storage.DATE: "MO",
    Storage.DATETIME: "MO",
    Storage.DURATION: "mO",
    Storage.TIME: "O",
    Storage.INTERVAL: "O",
}
_TYPED = ("label", "levels", "missing_codes", "constant", "min", "max", "low", "high")  # JSON needs to be told


@final
@dataclass(frozen=True)
class ColumnPlan:
    """What one column was taken for in fit, and all that is needed to read and to write it again."""

    name: str  # in the schema
    label: Hashable  # in the user's table
    kind: Kind | None  # None: passed through
    why: str = ""  # it was passed through; empty when the user asked for it
    storage: Storage | None = None
    dtype: Any = None  # as the backend describes it, JSON
    levels: tuple[Any, ...] = ()  # of discrete kinds; a level's code is its index
    min: float | None = None  # bounds
    max: float | None = None
    low: float | None = None  # seen in fit
    high: float | None = None
    unit: str = ""  # of time, that the numbers count
    whole: bool = False  # numbers come back whole
    exponent: int = 0  # of decimals
    constant: float | None = None  # the only number seen, or the one to put where none was
    missing_codes: tuple[Any, ...] = ()
    missing: float = 0.0  # share, in fit

    @property
    def variable(self) -> Variable:
        assert self.kind is not None, f"column {self.label!r} is not modelled"
        return Variable(self.name, self.kind, len(self.levels) or 1, self.min, self.max)

    @property
    def storage_name(self) -> str:
        return self.storage.value if self.storage else "no"

    def takes(self, storage: Storage | None) -> bool:
        """Whether values of that storage can be read."""
        return storage is self.storage or any({storage, self.storage} <= alike for alike in _ALIKE)

    @cached_property
    def codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels)}

    def read(self, cells: _Cells) -> tuple[NDArray[Any], list[_Oddity]]:
        """Observed values → level codes, or numbers in natural units; and which of them are odd."""
        values = cells.values
        if len(values) and not self.takes(cells.storage):
            found = cells.why or f"{cells.storage.value if cells.storage else 'no'} values"
            raise TableError(f"column {self.label!r} holds {found}, but {self.storage_name} values in fit; convert it")
        if self.levels:
            codes = np.fromiter(map(self.codes.get, _scalars(values), repeat(-1)), dtype=np.int64, count=len(values))
            return codes, [_Oddity(codes < 0, "was not seen in fit")]
        x = _numbers(values, self.unit) if len(values) else np.zeros(0)
        return x, self._odd_numbers(x)

    def write(self, x: NDArray[Any], target: np.dtype[Any] | None) -> NDArray[Any]:
        """Level codes, or numbers in natural units → values for a column of numpy dtype `target` (None: any)."""
        values = self._levels_at(x) if self.levels else self._values_at(np.asarray(x, dtype=np.float64), target)
        if target is not None and target.kind not in "OUT":
            return _cast(values, target)
        if self.storage is Storage.DECIMAL:
            return self._decimals(values)
        if self.storage is Storage.TIME:
            return _objects((_MIDNIGHT + span).time() for span in _scalars(values))
        if self.storage in _PYTHON:
            values = values.astype(_PYTHON[self.storage])
        return values if target is None else values.astype(object)

    def fits(self, target: np.dtype[Any]) -> bool:
        """Whether a column of numpy dtype `target` can hold what `write` gives."""
        return self.storage is not None and target.kind in _HOLDERS[self.storage]

    def parse(self, text: str) -> Any:
        """A value of this column from how a person writes it."""
        for level in self.levels:
            if str(level) == text:
                return level
        if self.levels:
            return text  # `values` says that there is no such level
        try:
            return np.datetime64(text).item() if self.unit else float(text)
        except ValueError:
            what = "a date such as 2024-05-17" if self.unit else "a number"
            raise TableError(f"column {self.label!r}: {text!r} is not {what}") from None

    def describe(self) -> str:
        """The levels, or the range seen and the bounds, or the reason for leaving the column alone."""
        if self.kind is None:
            return self.why or "as asked"
        if self.levels:
            shown = ", ".join(map(str, self.levels[:6])) + (", …" if len(self.levels) > 6 else "")
            return f"{len(self.levels)} levels: {shown}" if len(self.levels) > 1 else f"1 level: {shown}"
        bounds = [f"{sign} {self._show(x)}" for sign, x in (("≥", self.min), ("≤", self.max)) if x is not None]
        return ", ".join([f"{self._show(self.low)} … {self._show(self.high)}", *bounds])

    def to_json(self) -> dict[str, Any]:
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        data |= {key: _dump(data[key]) for key in _TYPED}
        return data | {"kind": self.kind and self.kind.value, "storage": self.storage and self.storage.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ColumnPlan:
        typed: dict[str, Any] = {key: _load(data[key]) for key in _TYPED}
        typed["kind"] = data["kind"] and Kind(data["kind"])
        typed["storage"] = data["storage"] and Storage(data["storage"])
        return cls(**{**data, **typed})

    def _odd_numbers(self, x: NDArray[np.float64]) -> list[_Oddity]:
        finite, (low, high) = np.isfinite(x), self._bounds
        outside = f"lies outside {self._show(self.min) or '-∞'} … {self._show(self.max) or '∞'}"
        odd = [
            _Oddity(~finite, "is not finite", "replace it or list it in missing_values"),
            _Oddity(finite & ((x < low) | (x > high)), outside, "widen the bounds or list it in missing_values"),
        ]
        if self.kind is Kind.COUNT:
            odd.append(_Oddity(finite & (x != np.rint(x)), "is not a whole number", "use kind real"))
        if self.kind is Kind.POSITIVE:
            odd.append(_Oddity(finite & (x <= 0), "is not above zero", "use Real(min=0)"))
        return odd

    @property
    def _bounds(self) -> tuple[float, float]:
        return -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max

    def _levels_at(self, codes: NDArray[Any]) -> NDArray[Any]:
        if self.storage in _LABELS:
            levels: NDArray[Any] = _objects(self.levels)
        elif self.unit:
            levels = np.array(self.levels, dtype=f"{self._time_kind}8[us]")
        else:
            levels = np.array(self.levels)
        return levels[np.asarray(codes).astype(np.int64)]

    def _values_at(self, x: NDArray[np.float64], target: np.dtype[Any] | None) -> NDArray[Any]:
        if self.constant is not None:
            x = np.full(len(x), self.constant)
        if self.whole or (target is not None and target.kind in "iu"):
            low, high = self._bounds
            x = np.clip(np.rint(x), 1.0 if self.kind is Kind.POSITIVE else np.ceil(low), np.floor(high))
        return _times(x, self.unit, self._time_kind, target) if self.unit else x

    @property
    def _time_kind(self) -> str:
        return "M" if self.storage in (Storage.DATE, Storage.DATETIME) else "m"

    def _decimals(self, x: NDArray[Any]) -> NDArray[np.object_]:
        """Decimals with the column's exponent, and no more digits before the point than were seen in fit."""
        quantum, context = Decimal((0, (1,), self.exponent)), Context(prec=400)
        largest = max(abs(self.low or 0.0), abs(self.high or 0.0), 1.0)
        digits = max(math.floor(math.log10(largest)) + 1, self.exponent + 1)
        most = context.subtract(Decimal((0, (1,), digits)), quantum)
        exact = (Decimal(repr(value)).quantize(quantum, context=context) for value in x.astype(np.float64).tolist())
        return _objects(min(max(value, most.copy_negate()), most) for value in exact)

    def _show(self, x: float | None) -> str:
        if x is None or not self.unit:
            return "" if x is None else f"{x:g}"
        return str(_times(np.array([x]), self.unit, self._time_kind, None)[0])


class _Typed(NamedTuple):
    """How a Python scalar that JSON does not know is written and read."""

    holds: Callable[[Any], bool]
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


_JSON: dict[str, _Typed] = {  # the first that holds
    "float": _Typed(lambda v: isinstance(v, float) and not math.isfinite(v), repr, float),
    "tuple": _Typed(lambda v: isinstance(v, tuple), lambda v: [*map(_dump, v)], lambda v: tuple(map(_load, v))),
    "decimal": _Typed(lambda v: isinstance(v, Decimal), str, Decimal),
    "datetime": _Typed(lambda v: isinstance(v, dt.datetime), lambda v: v.isoformat(), dt.datetime.fromisoformat),
    "date": _Typed(lambda v: isinstance(v, dt.date), lambda v: v.isoformat(), dt.date.fromisoformat),
    "time": _Typed(lambda v: isinstance(v, dt.time), lambda v: v.isoformat(), dt.time.fromisoformat),
    "timedelta": _Typed(
        lambda v: isinstance(v, dt.timedelta),
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: dt.timedelta(v[0], v[1], v[2]),
    ),
    "interval": _Typed(
        lambda v: type(v).__name__ == "Interval",
        lambda v: [_dump(v.left), _dump(v.right), v.closed],
        lambda v: _library("pandas").Interval(_load(v[0]), _load(v[1]), v[2]),
    ),
}


def _dump(value: Any) -> Any:
    """A scalar, or a tuple of them, as typed JSON.

    >>> _dump((1, dt.date(1950, 1, 2)))
    {'tuple': [1, {'date': '1950-01-02'}]}
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    for name, typed in _JSON.items():
        if typed.holds(value):
            return {name: typed.dump(value)}
    raise TableError(f"{value!r} of type {type(value).__name__} cannot be saved; use text, numbers or dates instead")


def _load(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    ((name, value),) = data.items()
    return _JSON[name].load(value)


# --- inference -------------------------------------------------------------------------------------------------------


class _Facts(NamedTuple):
    """What can be said of a column before it is planned."""

    cells: _Cells
    categorical: bool  # by its dtype
    order: list[Any] | None  # of its dtype's categories
    plain: bool  # of a 2-D array of numbers: a real number, whatever the values look like


def _infer(name: str, facts: _Facts) -> Spec:
    values = facts.cells.finite
    if facts.cells.why:
        return Keep(facts.cells.why)
    if not len(values):
        return Keep("no finite value" if len(facts.cells.values) else "no value to learn from")
    if facts.order is not None:
        return Ordinal() if len(facts.order) <= _MOST_LEVELS else Keep(f"{len(facts.order)} levels")
    if facts.categorical or facts.cells.storage in _LABELS:
        return _infer_labels(values)
    if values.dtype.kind == "b":
        return Binary()
    return Real() if facts.plain else _infer_number(name, facts.cells)


def _infer_labels(values: NDArray[Any]) -> Spec:
    distinct = dict.fromkeys(_scalars(values))
    n, d = len(values), len(distinct)
    length = sum(map(len, filter(lambda level: isinstance(level, str), distinct))) / d
    if d == n > _FEW_ROWS:
        return Keep(f"an identifier: {n} values, all distinct")
    if d > max(_MANY_LEVELS, n / 2) or (length > _LONG_TEXT and d > 2):
        return Keep(f"free text: {d} distinct values in {n} cells, {length:.0f} characters each")
    return Categorical() if d <= _MOST_LEVELS else Keep(f"{d} levels")


def _infer_number(name: str, cells: _Cells) -> Spec:
    values, unit = cells.finite, _coarsest_unit(cells)
    x = _numbers(values, unit)
    if not unit:
        if values.dtype.kind == "f" and not _all_whole(x):
            return Real()
        low, high = values.min(), values.max()
        if low < high and ((values == low) | (values == high)).all():
            return Binary()
        seen = np.unique(values)
        if len(seen) <= _FEW_CODES < len(values) and len(seen) <= high - low:  # 3, 6, 7: a 5 would mean nothing
            return Ordinal()
        complete = len(values) == len(cells.observed) > _FEW_ROWS
        if complete and _IDENTIFIER.search(name) and len(seen) == len(values):
            return Keep(f"an identifier: {len(values)} whole numbers, all distinct")
    return Count() if x.max() - x.min() <= _COUNTABLE else Real()


def _all_whole(x: NDArray[np.float64]) -> bool:
    return bool((np.abs(x) < _EXACT).all() and (x == np.rint(x)).all())


def _planned(plan: ColumnPlan, facts: _Facts, asked: Spec | None) -> ColumnPlan:
    """The plan with its kind, levels and bounds, after `asked` or else after what the values look like."""
    spec = asked or _infer(plan.name, facts)
    cells = facts.cells
    if isinstance(spec, Keep):
        if facts.plain and spec.why:  # an array has no other way to be complete; scikit-learn's keep_empty_features
            return replace(plan, why=f"{spec.why}, its holes become 0", constant=0.0)
        return replace(plan, why=spec.why)
    if not len(cells.finite) or cells.why:
        why = cells.why or "no value to learn from"
        raise TableError(f"column {plan.label!r} has {why}; leave it out of schema, or pass 'keep'")
    plan = replace(plan, kind=spec.kind, exponent=cells.exponent)
    if cells.storage not in _LABELS:
        unit = _coarsest_unit(cells)
        x = _numbers(cells.finite, unit)
        plan = replace(
            plan, unit=unit, low=float(x.min()), high=float(x.max()), whole=_all_whole(x) and not facts.plain
        )
    plan = _with_bounds(plan, spec) if spec.kind in NUMBERS else _with_levels(plan, facts, spec, inferred=not asked)
    if asked:
        _refuse_contradiction(plan, cells)
    return plan


def _with_levels(plan: ColumnPlan, facts: _Facts, spec: Spec, inferred: bool) -> ColumnPlan:
    seen, kind = set(_scalars(facts.cells.finite)), plan.kind
    if spec.levels is not None:
        levels = _scalars(_given(plan, spec.levels)[0])
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
    for value in seen - set(levels):
        raise TableError(
            f"column {plan.label!r}: {value!r} is not among its levels; add it or list it in missing_values"
        )
    if len(set(levels)) != len(levels):
        raise TableError(f"column {plan.label!r}: a level is listed twice; list each once")
    if kind is Kind.BINARY and len(levels) != 2:
        raise TableError(f"column {plan.label!r}: binary takes 2 levels, not {len(levels)}; use categorical")
    return replace(plan, kind=kind, levels=tuple(levels))


def _with_bounds(plan: ColumnPlan, spec: Spec) -> ColumnPlan:
    assert spec.kind is not None
    if plan.low is None or plan.high is None:
        raise TableError(f"column {plan.label!r} holds text, {spec.kind.value} takes numbers; use categorical")
    least: float | None = None
    most: float | None = None
    if plan.storage is Storage.TIME:
        least, most = 0.0, _UNITS[plan.unit] - 1.0
    elif plan.storage not in (Storage.DATE, Storage.DATETIME) and plan.kind is not Kind.POSITIVE and plan.low >= 0:
        least = 0.0
    least = least if spec.min is None else _bound(plan, spec.min)
    most = most if spec.max is None else _bound(plan, spec.max)
    if least is not None and most is not None and not least < most:
        raise TableError(f"column {plan.label!r}: min {spec.min} is not below max {spec.max}; swap or widen them")
    whole = plan.whole or spec.kind is Kind.COUNT
    return replace(plan, min=least, max=most, whole=whole, constant=plan.low if plan.low == plan.high else None)


def _bound(plan: ColumnPlan, value: Any) -> float | None:
    """A bound as the user gave it → natural units; an infinite one is none."""
    if isinstance(value, float) and math.isinf(value):
        return None
    bound, storage = _given(plan, [_utc(value) if isinstance(value, dt.date) else value])
    if not plan.takes(storage):
        raise TableError(f"column {plan.label!r}: the bound {value!r} is no {plan.storage_name}")
    return float(_numbers(bound, plan.unit)[0])


def _given(plan: ColumnPlan, values: Iterable[Any]) -> tuple[NDArray[Any], Storage]:
    try:
        return _recognise(_objects(values))
    except _Unmodelled as reason:
        raise TableError(
            f"column {plan.label!r}: {reason} among its levels or bounds; give values of one type"
        ) from None


def _refuse_contradiction(plan: ColumnPlan, cells: _Cells) -> None:
    """What the user said of a column must hold for the values in it."""
    values = cells.finite
    _, oddities = plan.read(cells._replace(values=values))
    for odd in oddities:
        if odd.cells.any():
            assert plan.kind is not None
            value = _scalars(values[odd.cells][:1])[0]
            raise TableError(f"column {plan.label!r} as {plan.kind.value}: {value!r} {odd.why}; {odd.remedy}")


# --- backends: what is left to the libraries -------------------------------------------------------------------------


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TableError(f"the table was fitted on {name}, which is not installed; pip install {name}") from error


class _Backend(ABC):
    """Columns of one library: which cells are null, what the others hold, and new cells of exactly the same dtype."""

    def observed(self, column: Column, codes: tuple[Any, ...]) -> Bools:
        seen = ~self.nulls(column)
        if codes:
            seen[seen] = ~_coded(self.raw(column, seen), codes)
        return seen

    def cells(self, column: Column, codes: tuple[Any, ...]) -> _Cells:
        seen = ~self.nulls(column)
        try:
            raw = self.raw(column, seen)
            if codes:
                coded = _coded(raw, codes)
                seen[seen], raw = ~coded, raw[~coded]
            values, storage = _recognise(raw)
        except _Unmodelled as reason:
            return _Cells(np.zeros(int(seen.sum())), seen, why=str(reason))
        exponent = _usual_exponent(raw.tolist()) if storage is Storage.DECIMAL else 0
        return _Cells(values, seen, storage, exponent)

    @abstractmethod
    def nulls(self, column: Column) -> Bools:
        """(n,), NaN included."""

    @abstractmethod
    def raw(self, column: Column, seen: Bools) -> NDArray[Any]:
        """The values that are not null, that is, where `seen`."""

    @abstractmethod
    def categorical(self, column: Column) -> bool: ...

    @abstractmethod
    def order(self, column: Column) -> list[Any] | None:
        """The categories of an ordered categorical dtype."""

    @abstractmethod
    def target(self, column: Column) -> np.dtype[Any]:
        """The numpy dtype that values must have to be written to the column."""

    @abstractmethod
    def describe(self, column: Column) -> Any:
        """The dtype, as JSON."""

    @abstractmethod
    def empty(self, described: Any) -> Column:
        """A column of that dtype without rows."""

    @abstractmethod
    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        """A column of the dtype of `like`, or of the values' own."""

    @abstractmethod
    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        """The column with `values` at the rows `where`; categories are added when they are wanting."""

    @abstractmethod
    def punch(self, column: Column, holes: Bools) -> Column:
        """The column with nulls at `holes`."""

    @abstractmethod
    def table(self, columns: dict[Hashable, Column]) -> Any:
        """A table of the columns."""


def _room(dtype: np.dtype[Any], values: NDArray[Any]) -> np.dtype[Any]:
    """The dtype, or for fixed-width text one as wide as the longest value."""
    return np.result_type(dtype, values.astype(str)) if dtype.kind == "U" else dtype


@final
class _Numpy(_Backend):
    """One-dimensional arrays, of dicts and of 2-D arrays."""

    def nulls(self, column: Column) -> Bools:
        if column.dtype.kind in "OT":
            return _object_nulls(column.tolist())
        nulls: Bools = np.isnan(column) if column.dtype.kind in "fcMm" else np.zeros(len(column), dtype=np.bool_)
        return nulls

    def raw(self, column: Column, seen: Bools) -> NDArray[Any]:
        raw: NDArray[Any] = column[seen]
        return raw

    def categorical(self, column: Column) -> bool:
        return False

    def order(self, column: Column) -> list[Any] | None:
        return None

    def target(self, column: Column) -> np.dtype[Any]:
        dtype: np.dtype[Any] = column.dtype
        return dtype

    def describe(self, column: Column) -> Any:
        return "T" if column.dtype.kind == "T" else column.dtype.str

    def empty(self, described: Any) -> Column:
        return np.empty(0, dtype=described)

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        return values if like is None else values.astype(_room(like.dtype, values))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        out = column.astype(_room(column.dtype, values))
        out[where] = values
        return out

    def punch(self, column: Column, holes: Bools) -> Column:
        kind = column.dtype.kind
        out = column.astype(column.dtype if kind in "fMm" else np.float64 if kind in "iu" else object)
        out[holes] = {"f": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}.get(out.dtype.kind)
        return out

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return columns


class _Frames(_Backend):
    """Series of a dataframe library, through narwhals as far as it goes."""

    unreadable: ClassVar[dict[str, str]]  # how a dtype's name begins → remedy

    def __init__(self, name: str) -> None:
        self.library = _library(name)

    def nulls(self, column: Column) -> Bools:
        nulls = column.is_null()
        if column.dtype.is_float():
            nulls = nulls | column.is_nan()
        return np.array(nulls.to_numpy(), dtype=np.bool_)

    def raw(self, column: Column, seen: Bools) -> NDArray[Any]:
        native = str(self.dtype(column))
        for name, remedy in self.unreadable.items():
            if native.startswith(name):
                raise _Unmodelled(f"values of dtype {native}; {remedy}")
        if column.dtype.is_nested():
            raise _Unmodelled("nested values")
        present = column.drop_nulls()
        if isinstance(column.dtype, nw.String | nw.Int128 | nw.UInt128):  # numpy's own types waste or lack room
            return _objects(present.to_list())
        raw: NDArray[Any] = present.to_numpy()
        return raw[~np.isnan(raw)] if raw.dtype.kind == "f" else raw

    def categorical(self, column: Column) -> bool:
        return isinstance(column.dtype, nw.Categorical | nw.Enum)

    def target(self, column: Column) -> np.dtype[Any]:
        dtype = column.dtype
        if isinstance(dtype, nw.Datetime | nw.Duration):
            return np.dtype(f"{'M' if isinstance(dtype, nw.Datetime) else 'm'}8[{dtype.time_unit}]")
        if isinstance(dtype, nw.Date):
            return np.dtype("M8[D]")
        if isinstance(dtype, nw.Boolean):
            return np.dtype(np.bool_)
        if dtype.is_integer() or dtype.is_float():
            return np.dtype(type(dtype).__name__.lower().replace("128", "64"))
        if str(self.dtype(column)).lower().startswith("null"):
            return np.dtype("V")  # takes nothing
        return np.dtype(str if isinstance(dtype, nw.String) else object)

    def dtype(self, column: Column) -> Any:
        return column.to_native().dtype

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return self.library.DataFrame({label: column.to_native() for label, column in columns.items()})


def _wrap(native: Any) -> Column:
    return nw.from_native(native, series_only=True)


def _wanting(categories: Iterable[Any], values: NDArray[Any]) -> list[Any]:
    known = set(categories)
    return [value for value in dict.fromkeys(values.tolist()) if value not in known]


@final
class _Pandas(_Frames):
    unreadable: ClassVar[dict[str, str]] = {"Sparse": "call .sparse.to_dense()"}

    def order(self, column: Column) -> list[Any] | None:
        dtype = self.dtype(column)
        return list(dtype.categories) if isinstance(dtype, self.library.CategoricalDtype) and dtype.ordered else None

    def target(self, column: Column) -> np.dtype[Any]:
        dtype = self.dtype(column)
        return dtype if isinstance(dtype, np.dtype) and dtype.kind == "O" else super().target(column)

    def describe(self, column: Column) -> Any:
        return self._describe(self.dtype(column))

    def _describe(self, dtype: Any) -> Any:
        if isinstance(dtype, self.library.CategoricalDtype):
            of = self._describe(dtype.categories.dtype)
            return {"categories": [*map(_dump, dtype.categories)], "of": of, "ordered": dtype.ordered}
        if isinstance(dtype, self.library.ArrowDtype):
            return {"arrow": _dump_arrow(dtype.pyarrow_dtype)}
        if isinstance(dtype, self.library.StringDtype) and str(dtype) == "string":
            return f"string[{dtype.storage}]"
        return str(dtype)

    def empty(self, described: Any) -> Column:
        return _wrap(self.library.Series([], dtype=self._dtype(described)))

    def _dtype(self, described: Any) -> Any:
        if not isinstance(described, dict):
            return self.library.api.types.pandas_dtype(described)
        if "arrow" in described:
            return self.library.ArrowDtype(_load_arrow(described["arrow"]))
        categories = self.library.Index([*map(_load, described["categories"])], dtype=self._dtype(described["of"]))
        return self.library.CategoricalDtype(categories, ordered=described["ordered"])

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        if like is None:
            return _wrap(self.library.Series(values))
        dtype = self.dtype(like)
        objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
        series = self.library.Series(values, dtype=object if objects else None)
        if isinstance(dtype, self.library.DatetimeTZDtype):
            series = series.dt.tz_localize("UTC")
        return _wrap(series.astype(dtype))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        native = column.to_native().copy()
        if isinstance(native.dtype, self.library.CategoricalDtype):
            native = native.cat.add_categories(_wanting(native.dtype.categories, values))
        native.iloc[where] = self.new(values, _wrap(native)).to_native().array  # pandas 2 trips over some Series
        return _wrap(native)

    def punch(self, column: Column, holes: Bools) -> Column:
        native = column.to_native()
        if isinstance(native.dtype, np.dtype) and native.dtype.kind in "biu":  # numpy's integers have no null
            native = native.convert_dtypes()
        return _wrap(native.where(~holes, None if native.dtype == object else self.library.NA))


@final
class _Polars(_Frames):
    unreadable: ClassVar[dict[str, str]] = {"Object": "give the column a dtype of polars"}
    arguments: ClassVar[dict[str, tuple[str, ...]]] = {
        "Datetime": ("time_unit", "time_zone"),
        "Duration": ("time_unit",),
        "Decimal": ("precision", "scale"),
        "Enum": ("categories",),
    }

    def order(self, column: Column) -> list[Any] | None:
        return None  # an Enum fixes its levels; that they are ranked is not said

    def describe(self, column: Column) -> Any:
        dtype = self.dtype(column)
        name = type(dtype).__name__
        given = {each: getattr(dtype, each) for each in self.arguments.get(name, ())}
        return [name, {key: list(value) if key == "categories" else value for key, value in given.items()}]

    def empty(self, described: Any) -> Column:
        name, arguments = described
        return _wrap(self.library.Series([], dtype=getattr(self.library, name)(**arguments)))

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        series = self.library.Series(values.tolist() if values.dtype == object else values)
        return _wrap(series if like is None else series.cast(self.dtype(like)))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        dtype = self.dtype(column)
        if isinstance(dtype, self.library.Enum):
            wide = self.library.Enum([*dtype.categories, *_wanting(dtype.categories, values)])
            column = _wrap(column.to_native().cast(wide))
        return column.scatter(where, self.new(values, column))

    def punch(self, column: Column, holes: Bools) -> Column:
        native = column.to_native()
        nothing = self.library.repeat(None, len(native), dtype=native.dtype, eager=True)
        return _wrap(native.zip_with(self.library.Series(~holes), nothing))


@final
class _Arrow(_Frames):
    unreadable: ClassVar[dict[str, str]] = {"string_view": "cast it to string", "binary_view": "cast it to binary"}

    def dtype(self, column: Column) -> Any:
        return column.to_native().type

    def table(self, columns: dict[Hashable, Column]) -> Any:
        return self.library.table({str(label): column.to_native() for label, column in columns.items()})

    def order(self, column: Column) -> list[Any] | None:
        dtype = self.dtype(column)
        ordered = self.library.types.is_dictionary(dtype) and dtype.ordered
        return self._dictionary(column).to_pylist() if ordered else None

    def describe(self, column: Column) -> Any:
        dtype = self.dtype(column)
        dictionary = self._dictionary(column).to_pylist() if self.library.types.is_dictionary(dtype) else []
        return {"arrow": _dump_arrow(dtype), "categories": [*map(_dump, dictionary)]}

    def empty(self, described: Any) -> Column:
        dtype, levels = _load_arrow(described["arrow"]), [*map(_load, described["categories"])]
        if self.library.types.is_dictionary(dtype):
            nothing = self.library.chunked_array([], type=dtype.value_type)
            return self._encoded(nothing, dtype, self.library.array(levels, type=dtype.value_type))
        return _wrap(self.library.chunked_array([], type=dtype))

    def new(self, values: NDArray[Any], like: Column | None) -> Column:
        array = self.library.chunked_array([self.library.array(values)])
        if like is None:
            return _wrap(array)
        dtype = self.dtype(like)
        if self.library.types.is_dictionary(dtype):
            return self._encoded(array.cast(dtype.value_type), dtype, self._dictionary(self._widened(like, values)))
        return _wrap(array.cast(dtype))

    def fill(self, column: Column, where: NDArray[np.int64], values: NDArray[Any]) -> Column:
        column = self._widened(column, values)
        old, new = (each.to_native() for each in (column, self.new(values, column)))
        rows = np.arange(len(column))
        rows[where] = len(column) + np.arange(len(where))
        return _wrap(
            self.library.chunked_array([*old.chunks, *new.chunks], type=old.type).take(self.library.array(rows))
        )

    def punch(self, column: Column, holes: Bools) -> Column:
        return _wrap(column.to_native().take(self.library.array(np.arange(len(column)), mask=holes)))

    def _widened(self, column: Column, values: NDArray[Any]) -> Column:
        """The column with a dictionary that has all of `values`."""
        dtype = self.dtype(column)
        if not self.library.types.is_dictionary(dtype):
            return column
        dictionary = self._dictionary(column)
        wanting = self.library.array(_wanting(dictionary.to_pylist(), values), type=dtype.value_type)
        plain = column.to_native().cast(dtype.value_type)
        return self._encoded(plain, dtype, self.library.concat_arrays([dictionary, wanting]))

    def _dictionary(self, column: Column) -> Any:
        native = column.to_native().unify_dictionaries()
        return native.chunk(0).dictionary if native.num_chunks else self.library.array([], type=native.type.value_type)

    def _encoded(self, plain: Any, dtype: Any, dictionary: Any) -> Column:
        """Values as a dictionary column with just this dictionary; a wider index where it has outgrown its own."""
        indices = _library("pyarrow.compute").index_in(plain, value_set=dictionary).combine_chunks()
        most = 2 ** (dtype.index_type.bit_width - 1)
        indices = indices.cast(dtype.index_type if len(dictionary) <= most else self.library.int32())
        array = self.library.DictionaryArray.from_arrays(indices, dictionary, ordered=dtype.ordered)
        return _wrap(self.library.chunked_array([array]))


def _dump_arrow(dtype: Any) -> str:
    pa = _library("pyarrow")
    return base64.b64encode(pa.schema([("", dtype)]).serialize().to_pybytes()).decode()


def _load_arrow(text: str) -> Any:
    pa = _library("pyarrow")
    return _library("pyarrow.ipc").read_schema(pa.py_buffer(base64.b64decode(text))).field(0).type


# --- containers: a table as labelled columns, and back ---------------------------------------------------------------

Container = Literal["pandas", "polars", "pyarrow", "array", "dict"]
_BACKENDS: dict[str, type[_Frames]] = {"pandas": _Pandas, "polars": _Polars, "pyarrow": _Arrow}


@dataclass(frozen=True)
class _View:
    """A user's table as labelled columns; `rebuild` makes a table like it, with some columns changed or added."""

    container: Container
    backend: _Backend
    columns: dict[Hashable, Column]
    n: int
    rebuild: Callable[[dict[Hashable, Column]], Any]
    plain: bool = False  # a 2-D array of numbers


def _view(X: Any) -> _View:
    if isinstance(X, Mapping):
        return _view_dict(X)
    if nw.dependencies.is_pandas_dataframe(X):
        return _view_pandas(X)
    if nw.dependencies.is_pyarrow_table(X):
        _refuse_twins(X.column_names)
    table = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(table, nw.LazyFrame):
        raise TableError("a lazy table has no cells yet; call .collect() first")
    if isinstance(table, nw.Series):
        raise TableError("a single column is no table; call .to_frame() first")
    return _view_frame(table) if isinstance(table, nw.DataFrame) else _view_array(X)


def _view_frame(frame: nw.DataFrame[Any]) -> _View:
    name = frame.implementation.value
    if name not in _BACKENDS:
        raise TableError(f"tables of {name} are not read; convert to pandas, polars or pyarrow")

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        return frame.with_columns(*(column.alias(str(label)) for label, column in changed.items())).to_native()

    columns: dict[Hashable, Column] = {label: frame.get_column(label) for label in frame.columns}
    container: Container = "polars" if name == "polars" else "pyarrow"
    return _View(container, _BACKENDS[name](name), columns, len(frame), rebuild)


def _view_pandas(X: Any) -> _View:
    """pandas takes any label for a column; narwhals sees their positions instead."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in X.columns]
    _refuse_twins(labels)
    keys = {label: str(j) for j, label in enumerate(labels)}
    frame = nw.from_native(X.set_axis([*keys.values()], axis=1), eager_only=True)
    backend = _Pandas("pandas")

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        added = [label for label in changed if label not in keys]
        names = keys | {label: f"+{j}" for j, label in enumerate(added)}
        out = frame.with_columns(*(column.alias(names[label]) for label, column in changed.items())).to_native()
        return out.set_axis(X.columns.append(backend.library.Index(added)) if added else X.columns, axis=1)

    columns = {label: frame.get_column(key) for label, key in keys.items()}
    return _View("pandas", backend, columns, len(X), rebuild)


def _view_dict(X: Mapping[Any, Any]) -> _View:
    columns: dict[Hashable, Column] = {label: _array(column) for label, column in X.items()}
    for label, column in columns.items():
        if column.ndim != 1:
            raise TableError(f"column {label!r} has {column.ndim} dimensions; a column has one")
    n = len(next(iter(columns.values()), ()))
    for label, column in columns.items():
        if len(column) != n:
            raise TableError(f"column {label!r} has {len(column)} rows, the first has {n}; make them equal")

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        return {label: column.copy() for label, column in columns.items()} | changed

    return _View("dict", _Numpy(), columns, n, rebuild)


def _view_array(X: Any) -> _View:
    array = _array(X)
    if array.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data with .reshape(-1, 1) if it is one"
            " column, or .reshape(1, -1) if it is one row"
        )

    def rebuild(changed: dict[Hashable, Column]) -> Any:
        out = array.astype(_common([array.dtype, *(column.dtype for column in changed.values())]))
        for j in range(array.shape[1]):
            out[:, j] = changed.get(j, array[:, j])
        return out

    columns: dict[Hashable, Column] = {j: array[:, j] for j in range(array.shape[1])}
    return _View("array", _Numpy(), columns, len(array), rebuild, plain=array.dtype.kind in "iuf")


def _common(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """The one dtype, room for the widest number or text, or objects."""
    kinds = {dtype.kind for dtype in dtypes}
    if len(set(dtypes)) == 1:
        return dtypes[0]  # result_type would undo a foreign byte order
    return np.result_type(*dtypes) if kinds == {"U"} or kinds <= set("iuf") else np.dtype(object)


def _stacked(columns: dict[Hashable, Column], order: list[Hashable]) -> NDArray[Any]:
    arrays = [columns[label] for label in order or columns]
    dtype = _common([array.dtype for array in arrays])
    return np.stack([array.astype(dtype) for array in arrays], axis=1).astype(dtype)  # again: stack undoes it, too


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise TableError("masked arrays are not read; call .filled(np.nan), or .astype(object).filled(None), first")
    return np.asarray(values)


def _refuse_twins(labels: list[Any]) -> None:
    for label, times in Counter(labels).items():
        if times > 1:
            raise TableError(f"column {label!r} appears {times} times; rename or drop all but one")


# --- the table -------------------------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """A table as the core takes it."""

    columns: dict[str, NDArray[Any]]  # variable → (n,) numbers in natural units, or level codes
    mask: Bools  # (n, M), True = observed
    holes: Bools  # (n, M), True = `decode` fills it; an odd cell is neither observed nor a hole
    n_rows: int


@final
@dataclass(frozen=True, repr=False)
class Table:
    """What the columns of a table are; made by `fit`, never changed afterwards.

    >>> table = Table.fit({"age": np.array([31.0, np.nan, 52.0, 47.0]), "sex": np.array(["F", "M", None, "F"])})
    >>> table
    age  count   31 … 52, ≥ 0    25% missing
    sex  binary  2 levels: F, M  25% missing
    >>> encoded = table.encode({"age": np.array([40.0]), "sex": np.array([None])})
    >>> encoded.mask
    array([[ True, False]])
    >>> table.decode({"age": np.array([40.0]), "sex": np.array([None])}, {"age": np.zeros(1), "sex": np.array([1])})
    {'age': array([40.]), 'sex': array(['M'], dtype=object)}
    """

    plans: tuple[ColumnPlan, ...]
    container: Container

    @classmethod
    def fit(
        cls,
        X: Any,
        *,
        schema: Mapping[Any, Any] | None = None,
        missing_values: Mapping[Any, Any] | None = None,
    ) -> Table:
        """Look at every column once. One warning names those that can't be modelled, and why."""
        view = _view(X)
        if not view.n or not view.columns:
            raise TableError(f"the table has {view.n} rows and {len(view.columns)} columns; fit needs one of each")
        names = _names(view)
        asked = {label: _as_spec(label, spec) for label, spec in _by_label("schema", schema, names).items()}
        codes = {label: _as_codes(given) for label, given in _by_label("missing_values", missing_values, names).items()}
        plans = tuple(
            _plan_column(view, label, name, asked.get(label), codes.get(label, ())) for label, name in names.items()
        )
        kept = [f"{plan.label!r} ({plan.why})" for plan in plans if plan.kind is None and plan.why]
        if all(plan.kind is None for plan in plans):
            raise TableError(f"no column can be modelled: {', '.join(kept) or 'all are kept'}; give a kind in schema")
        if kept:
            _warn(f"not modelled, and given back as they are: {', '.join(kept)}; a kind in schema overrides this")
        return cls(plans, view.container)

    @cached_property
    def modelled(self) -> tuple[ColumnPlan, ...]:
        return tuple(plan for plan in self.plans if plan.kind is not None)

    @cached_property
    def schema(self) -> Schema:
        """One attribute a modelled column, in the table's order."""
        return Schema(Attribute(plan.name, (plan.variable,)) for plan in self.modelled)

    def encode(self, X: Any, *, unknown: Literal["keep", "error"] = "keep") -> Encoded:
        """Natural units and level codes. Odd cells are unobserved and named in one warning, or refused."""
        if unknown not in ("keep", "error"):
            raise TableError(f"unknown={unknown!r} is neither 'keep' nor 'error'")
        view = _view(X)
        labels = [label for plan, label in zip(self.plans, self._labels(view), strict=True) if plan.kind is not None]
        columns: dict[str, NDArray[Any]] = {}
        mask = np.zeros((view.n, len(self.modelled)), dtype=np.bool_)
        holes = np.ones_like(mask)
        odd: list[str] = []
        for j, (plan, label) in enumerate(zip(self.modelled, labels, strict=True)):
            columns[plan.name] = np.zeros(view.n, dtype=np.int64 if plan.levels else np.float64)
            if label is _ABSENT:
                continue
            cells = view.backend.cells(view.columns[label], plan.missing_codes)
            x, oddities = plan.read(cells)
            strange = np.any([each.cells for each in oddities], axis=0)
            mask[cells.observed, j] = ~strange
            columns[plan.name][mask[:, j]] = x[~strange]
            holes[:, j] = ~cells.observed
            odd += [_complaint(plan, cells, each) for each in oddities if each.cells.any()]
        if odd and unknown == "error":
            raise TableError(f"{odd[0]}; pass unknown='keep' to leave such cells as they are")
        if odd:
            _warn(f"left as they are, and unobserved to the model: {'; '.join(odd)}")
        return Encoded(columns, mask, holes, view.n)

    def decode(self, X: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
        """A table like X, whose holes are filled from `columns`; columns that X lacks are added at its end."""
        view = _view(X)
        changed: dict[Hashable, Column] = {}
        for plan, label in zip(self.plans, self._labels(view), strict=True):
            if plan.kind is None and plan.constant is None:
                continue
            x = columns[plan.name] if plan.kind else np.zeros(view.n)
            if label is _ABSENT:
                changed[plan.label] = self._whole(view, plan, x)
                continue
            column = view.columns[label]
            where = np.flatnonzero(~view.backend.observed(column, plan.missing_codes))
            target = view.backend.target(column)
            if len(where) == view.n > 0 and not plan.fits(target):  # nothing but nulls, and so of some other dtype
                changed[label] = self._whole(view, plan, x)
            elif len(where):
                changed[label] = view.backend.fill(column, where, plan.write(x[where], target))
        return view.rebuild(changed)

    def values(self, given: Mapping[Any, Any]) -> dict[str, float]:
        """Values of single columns, by label or name → variable: number in natural units, or level code."""
        plans = {plan.name: plan for plan in self.modelled} | {plan.label: plan for plan in self.modelled}
        found: dict[str, float] = {}
        for label, value in given.items():
            if label not in plans:
                raise TableError(f"column {label!r} is not modelled; the columns that are: {_some(self.schema.names)}")
            plan = plans[label]
            if _is_null(value) or value in plan.missing_codes:
                raise TableError(f"column {label!r}: {value!r} stands for a hole, not for a value; give another")
            values, storage = _given(plan, [_utc(value) if isinstance(value, dt.datetime) else value])
            x, oddities = plan.read(_Cells(values, np.ones(1, dtype=np.bool_), storage))
            for odd in oddities:
                if odd.cells.any():
                    raise TableError(f"column {label!r}: {value!r} {odd.why}; it has {plan.describe()}")
            found[plan.name] = x[0].item()
        return found

    def frame(
        self,
        columns: Mapping[str, NDArray[Any]],
        mask: Bools | None = None,
        *,
        n: int,
        container: str | None = None,
    ) -> Any:
        """A new table of `n` rows like the fitted one, with holes where `mask` (n, M) is False.

        Columns that are not modelled are left out; in an array they are NaN (None) instead, to keep its width. In
        another `container` than the fitted one, columns go by their names in the schema and have default dtypes.
        """
        container = container or self.container
        if container not in ("array", "dict", *_BACKENDS):
            raise TableError(f"container={container!r} is none of array, dict, {', '.join(_BACKENDS)}")
        same, frames = container == self.container, _BACKENDS.get(container)
        backend = frames(container) if frames else _Numpy()
        made: dict[Hashable, Column] = {}
        for j, plan in enumerate(self.modelled):
            column = _column(backend, plan, columns[plan.name], backend.empty(plan.dtype) if same else None)
            holes = np.zeros(n, dtype=np.bool_) if mask is None else ~mask[:, j]
            made[plan.label if same else plan.name] = backend.punch(column, holes) if holes.any() else column
        if container == "array":
            return _stacked(made | self._blanks(n) if same else made, [plan.label for plan in self.plans if same])
        return backend.table(made)

    def describe(self) -> str:
        """One line a column: name, kind, levels or range, share missing in fit."""
        rows = [
            (str(plan.label), plan.kind.value if plan.kind else "kept", plan.describe(), f"{plan.missing:.0%} missing")
            for plan in self.plans
        ]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    __repr__ = describe

    def to_json(self) -> dict[str, Any]:
        return {"container": self.container, "plans": [plan.to_json() for plan in self.plans]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        return cls(tuple(map(ColumnPlan.from_json, data["plans"])), data["container"])

    def _whole(self, view: _View, plan: ColumnPlan, x: NDArray[Any]) -> Column:
        """A new column for `view`, of the dtype of fit where the library is the same."""
        like = view.backend.empty(plan.dtype) if self.container == view.container else None
        return _column(view.backend, plan, x, like)

    def _blanks(self, n: int) -> dict[Hashable, NDArray[Any]]:
        """What an array has in the columns that are not modelled."""
        dtype = np.dtype(self.modelled[0].dtype)  # an array has but one
        null, holding = (None, dtype) if dtype.kind == "O" else (np.nan, dtype if dtype.kind == "f" else np.float64)
        kept = (plan for plan in self.plans if plan.kind is None)
        return {plan.label: np.full(n, null if plan.constant is None else plan.constant, holding) for plan in kept}

    def _labels(self, view: _View) -> list[Hashable]:
        """For each plan the label of its column in `view`, or `_ABSENT`."""
        if "array" not in (self.container, view.container):
            return [plan.label if plan.label in view.columns else _ABSENT for plan in self.plans]
        found, expected = len(view.columns), len(self.plans)
        if found != expected:
            raise TableError(f"X has {found} features, but VSAEImputer is expecting {expected} features as input")
        return list(view.columns)


_ABSENT = object()


def _plan_column(view: _View, label: Hashable, name: str, asked: Spec | None, codes: tuple[Any, ...]) -> ColumnPlan:
    backend, column = view.backend, view.columns[label]
    cells = backend.cells(column, codes)
    facts = _Facts(cells, backend.categorical(column), backend.order(column), view.plain)
    missing = 1 - float(cells.observed.mean())
    plan = _planned(
        ColumnPlan(name, label, None, storage=cells.storage, missing_codes=codes, missing=missing), facts, asked
    )
    return replace(plan, dtype=backend.describe(column)) if plan.kind else plan


def _column(backend: _Backend, plan: ColumnPlan, x: NDArray[Any], like: Column | None) -> Column:
    return backend.new(plan.write(x, None if like is None else backend.target(like)), like)


def _names(view: _View) -> dict[Hashable, str]:
    """Label → name in the schema: the label as text, or x0, x1, … in arrays."""
    labels: dict[str, Hashable] = {}
    for label in view.columns:
        name = f"x{label}" if view.container == "array" else str(label)
        while name in labels:
            name += "'"  # columns 1 and '1'
        labels[name] = label
    return {label: name for name, label in labels.items()}


def _by_label(what: str, given: Mapping[Any, Any] | None, names: dict[Hashable, str]) -> dict[Hashable, Any]:
    labels = {name: label for label, name in names.items()} | {label: label for label in names}
    for key in given or {}:
        if key not in labels:
            raise TableError(f"{what} names {key!r}, which is no column; the columns are {_some(names)}")
    return {labels[key]: value for key, value in (given or {}).items()}


def _as_codes(given: Any) -> tuple[Any, ...]:
    several = isinstance(given, list | tuple | set | frozenset | np.ndarray)
    codes = (code.item() if isinstance(code, np.generic) else code for code in (given if several else [given]))
    return tuple(code for code in codes if not _is_null(code))


def _complaint(plan: ColumnPlan, cells: _Cells, odd: _Oddity) -> str:
    first, *others = dict.fromkeys(_scalars(cells.values[odd.cells]))
    more = f" (and {len(others)} more values)" if others else ""
    return f"column {plan.label!r}: {first!r}{more} {odd.why}"


def _some(names: Iterable[Any]) -> str:
    names = list(names)
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)
