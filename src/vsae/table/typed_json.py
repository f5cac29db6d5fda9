"""Python scalars and tuples of them as JSON that says of which type they are."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from vsae.table.cells import scalar
from vsae.table.errors import library


class Unsaveable(Exception):
    """A value of a type that is not known here; the message says which."""


class _Typed(NamedTuple):
    """How a Python scalar that JSON does not know is written and read."""

    holds: Callable[[Any], bool]
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


_TYPES: dict[str, _Typed] = {  # the first that holds
    "float": _Typed(lambda v: isinstance(v, float) and not math.isfinite(v), repr, float),
    "tuple": _Typed(lambda v: isinstance(v, tuple), lambda v: [*map(dump, v)], lambda v: tuple(map(load, v))),
    "decimal": _Typed(lambda v: isinstance(v, Decimal), str, Decimal),
    "datetime": _Typed(lambda v: isinstance(v, dt.datetime), lambda v: v.isoformat(), dt.datetime.fromisoformat),
    "date": _Typed(lambda v: isinstance(v, dt.date), lambda v: v.isoformat(), dt.date.fromisoformat),
    "time": _Typed(lambda v: isinstance(v, dt.time), lambda v: v.isoformat(), dt.time.fromisoformat),
    "timedelta": _Typed(
        lambda v: isinstance(v, dt.timedelta),
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: dt.timedelta(*v),
    ),
    "interval": _Typed(
        lambda v: type(v).__name__ == "Interval",  # pandas may not be installed
        lambda v: [dump(v.left), dump(v.right), v.closed],
        lambda v: library("pandas").Interval(load(v[0]), load(v[1]), v[2]),
    ),
}


def dump(value: Any) -> Any:
    """A scalar, or a tuple of them, as typed JSON.

    >>> dump((1, dt.date(1950, 1, 2)))
    {'tuple': [1, {'date': '1950-01-02'}]}
    """
    value = scalar(value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    for name, typed in _TYPES.items():
        if typed.holds(value):
            return {name: typed.dump(value)}
    raise Unsaveable(f"{value!r} of type {type(value).__name__} cannot be saved; use text, numbers or dates instead")


def load(data: Any) -> Any:
    """The value that `dump` wrote."""
    if not isinstance(data, dict):
        return data
    ((name, value),) = data.items()
    return _TYPES[name].load(value)
