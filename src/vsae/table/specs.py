"""What a user may say of a column, from Python (`Count(max=120)`, "count", `Kind.COUNT`) or from a schema file."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, final

from vsae.data.schema import Kind, Pixels
from vsae.storage.typed import follows, typed
from vsae.table.cells import CALENDAR, Storage
from vsae.table.errors import TableError
from vsae.table.stamps import check_format

MOST_PIXELS = 2**26  # of one image, of any size: 67 megapixels, as a large camera has


class Spec:
    """What a column is to be taken for."""

    name: ClassVar[str]  # in a schema, and where schemas are shown
    kind: ClassVar[Kind | None] = None  # None: not modelled, or decided by the values
    min: Any = None
    max: Any = None
    levels: Sequence[Any] | None = None


@dataclass(frozen=True)
class Bounded(Spec):
    """Numbers, dates, times and durations. A lower bound that is left out is 0 where no number is negative;
    `min=-math.inf` lifts it."""

    min: Any = None  # a number, or a date, time or duration in columns of these
    max: Any = None


@final
class Real(Bounded):
    """Any number, from `min` to `max`."""

    name = "real"
    kind = Kind.REAL


@final
@dataclass(frozen=True)
class Positive(Spec):
    """Numbers above zero, modelled by their logarithm."""

    name = "positive"
    kind = Kind.POSITIVE


@final
class Count(Bounded):
    """Whole numbers, from `min` to `max`; from 0 where none is negative."""

    name = "count"
    kind = Kind.COUNT


@final
class Integer(Bounded):
    """Whole numbers, from `min` to `max`; without a lower bound unless one is given."""

    name = "integer"
    kind = Kind.COUNT


class Temporal(Bounded):
    """Whole units of time: modelled as whole numbers, or as real ones where there are very many."""

    storages: ClassVar[frozenset[Storage]]


@final
@dataclass(frozen=True)
class Date(Temporal):
    """Dates, with or without a time of day, from `min` to `max`. `format` says how texts write them: "%d/%m/%Y"."""

    name = "date"
    storages = CALENDAR
    format: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.format, str):
            check_format(self.format)


@final
class Time(Temporal):
    """Times of day, from `min` to `max`."""

    name = "time"
    storages = frozenset({Storage.TIME})


@final
class Duration(Temporal):
    """Lengths of time, from `min` to `max`."""

    name = "duration"
    storages = frozenset({Storage.DURATION})


@final
@dataclass(frozen=True)
class Binary(Spec):
    """Two levels."""

    name = "binary"
    kind = Kind.BINARY


@final
@dataclass(frozen=True)
class Categorical(Spec):
    """Levels without an order."""

    name = "categorical"
    kind = Kind.CATEGORICAL


@final
@dataclass(frozen=True)
class Ordinal(Spec):
    """Levels with an order: `levels` from first to last, else the column's own order."""

    name = "ordinal"
    kind = Kind.ORDINAL
    levels: Sequence[Any] | None = None


@final
@dataclass(frozen=True)
class Image(Spec):
    """Images: arrays, or paths of files, which are resized to `shape` (channels, height, width).

    Without a shape, that of the first array is taken, or the median size of the first files. `pixels` is the
    likelihood: "gaussian", "bernoulli" or "discretised".
    """

    name = "image"
    kind = Kind.IMAGE
    shape: tuple[int, int, int] | None = None
    pixels: Pixels = "gaussian"

    def __post_init__(self) -> None:
        if self.shape is not None:
            shape = tuple(self.shape) if isinstance(self.shape, list | tuple) else (self.shape,)  # a schema has a list
            if not follows(shape, tuple[int, int, int]) or min(shape) < 1 or math.prod(shape) > MOST_PIXELS:
                raise TableError(
                    f"Image(shape={self.shape}): give (channels, height, width), such as (1, 28, 28), of at most "
                    f"{MOST_PIXELS:,} pixels"
                )
            object.__setattr__(self, "shape", tuple(map(int, shape)))


@final
@dataclass(frozen=True)
class Keep(Spec):
    """Not modelled, given back as it came. `why` is empty when the user asked for it."""

    name = "keep"
    why: str = ""


#: By the names that a schema has for them.
SPECS: dict[str, type[Spec]] = {
    spec.name: spec
    for spec in (
        *(Real, Positive, Count, Integer, Date, Time, Duration),
        *(Binary, Categorical, Ordinal, Image, Keep),
    )
}
#: The temporal specs, by what the values of a column are.
TEMPORAL: dict[Storage, type[Temporal]] = {
    storage: spec for spec in (Date, Time, Duration) for storage in spec.storages
}


def as_spec(label: Hashable, asked: object) -> Spec:
    """A spec, from one, from a kind or its name, or from None, which keeps the column.

    >>> as_spec("age", "reel")
    Traceback (most recent call last):
    vsae.table.errors.TableError: column 'age': unknown kind 'reel'; use one of real, positive, count, integer,
    date, time, duration, binary, categorical, ordinal, image, keep, or a spec such as Count(min=0)
    """
    if isinstance(asked, Spec):
        return asked
    name = asked.value if isinstance(asked, Kind) else "keep" if asked is None else asked
    if not isinstance(name, str) or name not in SPECS:
        known = ", ".join(SPECS)
        raise TableError(f"column {label!r}: unknown kind {name!r}; use one of {known}, or a spec such as Count(min=0)")
    return SPECS[name]()


def spec_from_json(label: str, asked: Any) -> Spec:
    """A kind's name, or an object such as {"kind": "count", "min": 0, "max": 120}, from a schema file.

    >>> spec_from_json("age", {"kind": "count", "max": 120})
    Count(min=None, max=120)
    """
    if not isinstance(asked, dict):
        return as_spec(label, asked)
    if "kind" not in asked:
        raise TableError(f'column {label!r}: {asked!r} has no "kind"; add one of {", ".join(SPECS)}')
    spec = as_spec(label, asked["kind"])
    options = {key: value for key, value in asked.items() if key != "kind"}
    known = [each.name for each in fields(spec)]  # type: ignore[arg-type]  # all specs are dataclasses
    for key in options:
        if key not in known:
            raise TableError(
                f"column {label!r}: {key!r} is not a key of kind {spec.name}; use {', '.join(['kind', *known])}"
            )
    try:
        return typed(type(spec)(**options))
    except (TypeError, TableError) as error:
        raise TableError(f"column {label!r}: {error}") from None
