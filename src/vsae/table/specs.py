"""What a user may say of a column, from Python (`Count(max=120)`, "count", `Kind.COUNT`) or from a schema file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, final

from vsae.data.schema import Kind, Pixels
from vsae.table.errors import TableError


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
class Image(Spec):
    """Pictures: arrays, or paths of files, which are resized to `shape` (channels, height, width).

    Without a shape, that of the first picture is taken. `pixels` is the likelihood: "gaussian", "bernoulli" or
    "discretised".
    """

    kind: ClassVar[Kind | None] = Kind.IMAGE
    shape: tuple[int, int, int] | None = None
    pixels: Pixels = "gaussian"

    def __post_init__(self) -> None:
        if self.shape is not None:
            shape = tuple(int(size) for size in self.shape)  # a schema file has a list
            if len(shape) != 3 or min(shape) < 1:
                raise TableError(f"Image(shape={self.shape}): give (channels, height, width), such as (1, 28, 28)")
            object.__setattr__(self, "shape", shape)


@final
@dataclass(frozen=True)
class Keep(Spec):
    """Not modelled, given back as it came. `why` is empty when the user asked for it."""

    why: str = ""


_SPECS: dict[str, Spec] = {
    spec.kind.value if spec.kind else "keep": spec
    for spec in (Real(), Positive(), Count(), Binary(), Categorical(), Ordinal(), Image(), Keep())
}


def as_spec(label: Hashable, asked: object) -> Spec:
    """A spec, from one, from a kind or its name, or from None, which keeps the column.

    >>> as_spec("age", "reel")
    Traceback (most recent call last):
    vsae.table.errors.TableError: column 'age': unknown kind 'reel'; use one of real, positive, count, binary,
    categorical, ordinal, image, keep, or a spec such as Count(min=0)
    """
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
        return as_spec(label, asked)
    if "kind" not in asked:
        raise TableError(f'column {label!r}: {asked!r} has no "kind"; add one of {", ".join(_SPECS)}')
    spec = as_spec(label, asked["kind"])
    options = {key: value for key, value in asked.items() if key != "kind"}
    known = [each.name for each in fields(spec)]  # type: ignore[arg-type]  # all specs are dataclasses
    for key in options:
        if key not in known:
            raise TableError(f"column {label!r}: {key!r} is no key of its kind; use {', '.join(['kind', *known])}")
    return type(spec)(**options)
