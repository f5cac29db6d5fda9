"""Raw values, as a library hands them out → numpy arrays that hold them exactly, and what the values are."""

from __future__ import annotations

import datetime as dt
import enum
import os
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import LARGEST

Bools = NDArray[np.bool_]

MIDNIGHT = dt.datetime(1970, 1, 1)
UNITS = {  # of time, per day, coarsest first
    "D": 1,
    "h": 24,
    "m": 1440,
    "s": 86_400,
    "ms": 86_400 * 10**3,
    "us": 86_400 * 10**6,
    "ns": 86_400 * 10**9,
}
_NULLS = ("NoneType", "NAType", "NaTType")  # by name: pandas may not be installed
_WITH_NAN = (float, np.floating, np.datetime64, np.timedelta64, Decimal)


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
    IMAGE = "image"  # arrays, or images of Pillow, paths among them or not; see images.py


CALENDAR = frozenset({Storage.DATE, Storage.DATETIME})
LABELS = frozenset({Storage.TEXT, Storage.INTERVAL})  # no arithmetic


class Unmodelled(Exception):
    """Values that no likelihood speaks of; the message says why."""


class Cells(NamedTuple):
    """The observed cells of one column."""

    values: NDArray[Any]  # (observed,) bool, integers, floats, datetime64, timedelta64, or objects of one type
    observed: Bools  # (n,)
    storage: Storage | None = None
    exponent: int = 0  # the commonest one of decimals
    why: str = ""  # they can't be modelled; the values are then zeros

    @property
    def finite(self) -> NDArray[Any]:
        """Those that can be computed with: numbers up to `LARGEST`."""
        return self.values[np.abs(self.values) <= LARGEST] if self.values.dtype.kind == "f" else self.values


# --- values of one type, by the type that Python has for them


def objects(values: Iterable[Any]) -> NDArray[np.object_]:
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
        raise Unmodelled("datetimes with zones as Python objects; give the column a datetime dtype")
    return np.array(values, dtype="M8[us]")


def _since_midnight(values: list[Any]) -> NDArray[Any]:
    return np.array([dt.datetime.combine(MIDNIGHT, value) - MIDNIGHT for value in values], dtype="m8[us]")


def _images(values: list[Any]) -> NDArray[Any]:
    if any(np.ndim(value) < 2 for value in values if not isinstance(value, str | os.PathLike)):
        raise Unmodelled("nested values")
    return objects(values)


class _Reader(NamedTuple):
    storage: Storage
    read: Callable[[list[Any]], NDArray[Any]]


_IMAGES = _Reader(Storage.IMAGE, _images)
_FLOATS, _INTEGERS = _Reader(Storage.NUMBER, _floats), _Reader(Storage.NUMBER, _integers)
_READERS: list[tuple[type | tuple[type, ...], _Reader]] = [  # the first that fits: True is an int, a datetime a date
    ((bool, np.bool_), _Reader(Storage.NUMBER, lambda values: np.array(values, dtype=np.bool_))),
    ((int, np.integer), _INTEGERS),
    ((float, np.floating), _FLOATS),
    (Decimal, _Reader(Storage.DECIMAL, _floats)),
    (str, _Reader(Storage.TEXT, objects)),
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
        return _Reader(Storage.INTERVAL, objects)
    if issubclass(kind, np.ndarray) or kind.__module__.startswith("PIL."):  # nor Pillow
        return _IMAGES
    if issubclass(kind, os.PathLike):
        return _Reader(Storage.TEXT, objects)
    nested = issubclass(kind, (list, tuple, dict, set, frozenset))
    raise Unmodelled("nested values" if nested else f"{kind.__name__} values")


def recognise(raw: NDArray[Any]) -> tuple[NDArray[Any], Storage]:
    """Values without nulls, as their library hands them out → values in an exact numpy dtype, and what they are.

    >>> recognise(objects([2**60 + 1, 3]))
    (array([1152921504606846977, 3]), <Storage.NUMBER: 'number'>)
    """
    kind = raw.dtype.kind
    if raw.ndim != 1:
        raise Unmodelled("nested values")
    if kind in "biuf":
        return raw, Storage.NUMBER
    if kind in "Mm":
        unit, _ = np.datetime_data(raw.dtype)
        unit = unit if unit in UNITS else "D" if unit in "YMW" else "ns"
        storage = Storage.DURATION if kind == "m" else Storage.DATE if unit == "D" else Storage.DATETIME
        return raw.astype(f"{kind}8[{unit}]"), storage
    if kind not in "OUT":
        raise Unmodelled(f"{raw.dtype} values")
    return _recognise_objects(raw.tolist())


def _recognise_objects(values: list[Any]) -> tuple[NDArray[Any], Storage]:
    types = set(map(type, values))
    readers = {_reader(each) for each in types} or {_FLOATS}
    if readers == {_INTEGERS, _FLOATS}:  # the one mixture with a meaning
        readers = {_FLOATS}
    if {reader.storage for reader in readers} == {Storage.IMAGE, Storage.TEXT}:  # paths, and what was imputed
        return _images(values), Storage.IMAGE
    if len(readers) > 1:
        raise Unmodelled(f"mixed types: {', '.join(sorted(each.__name__ for each in types))}")
    (reader,) = readers
    try:
        return reader.read(values), reader.storage
    except OverflowError:
        raise Unmodelled("numbers too large for float64") from None


def usual_exponent(decimals: Iterable[Decimal]) -> int:
    exponents = Counter(value.as_tuple().exponent for value in decimals)
    return next((exponent for exponent, _ in exponents.most_common() if isinstance(exponent, int)), 0)


# --- nulls, scalars, missing codes


def is_null(value: Any) -> bool:
    """None, NaN, NaT, and pandas' NA and NaT, which need not be imported to be known."""
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling NaN cannot be compared
    return type(value).__name__ in _NULLS or (isinstance(value, _WITH_NAN) and bool(value != value))


def object_nulls(values: list[Any]) -> Bools:
    types = set(map(type, values))
    if any(issubclass(each, _WITH_NAN) for each in types):
        found = map(is_null, values)
    else:  # the type says it all, without a slow look at each value
        found = map({each for each in types if each.__name__ in _NULLS}.__contains__, map(type, values))
    return np.fromiter(found, dtype=np.bool_, count=len(values))


def scalars(values: NDArray[Any]) -> list[Any]:
    """Python scalars, which hash and compare alike whatever dtype they came from."""
    kind = values.dtype.kind
    return (values.astype(f"{kind}8[us]") if kind in "Mm" else values).tolist()


def scalar(value: Any) -> Any:
    """A value that a user gave; one of numpy's as Python has it."""
    return scalars(np.array([value]))[0] if isinstance(value, np.generic) else value


def utc(value: Any) -> Any:
    """Dates and moments as libraries hand out theirs, without a zone; anything else as it is."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    return dt.datetime.combine(value, dt.time()) if isinstance(value, dt.date) else value


def coded(raw: NDArray[Any], codes: Iterable[Any]) -> Bools:
    """Which of the raw values are missing codes."""
    known = frozenset(map(utc, codes) if raw.dtype.kind == "M" else codes)
    try:
        return np.fromiter(map(known.__contains__, scalars(raw)), dtype=np.bool_, count=len(raw))
    except TypeError:  # unhashable cells, such as lists, equal no code
        return np.zeros(len(raw), dtype=np.bool_)
