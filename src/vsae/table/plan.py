"""`ColumnPlan`: what one column was taken for in fit, and how it is read, written, shown and saved from then on."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import LARGEST
from vsae.data.schema import NUMBERS, Kind, Pixels, Variable
from vsae.storage.typed import typed as typed_fields
from vsae.table.cells import (
    CALENDAR,
    LABELS,
    MIDNIGHT,
    Bools,
    Cells,
    Storage,
    Unmodelled,
    is_null,
    objects,
    recognise,
    scalar,
    scalars,
    utc,
)
from vsae.table.errors import TableError, counted
from vsae.table.images import Layout, NotAnImage, Shape
from vsae.table.images import read as read_images
from vsae.table.images import write as write_images
from vsae.table.specs import TEMPORAL, Integer, Keep
from vsae.table.stamps import notation_from_json, notation_to_json
from vsae.table.typed_json import Unsaveable, dump, load
from vsae.table.units import cast, day_of, to_numbers, to_times

_ALIKE = [{Storage.NUMBER, Storage.DECIMAL}, CALENDAR]  # read alike
#: The numpy dtype of times whose objects are Python's own; in nanoseconds they would be integers.
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
_TYPED = (
    "label",
    "levels",
    "missing_codes",
    "suspected",
    "constant",
    "min",
    "max",
    "low",
    "high",
)  # JSON needs to be told


class Oddity(NamedTuple):
    """Observed cells that the plan has no place for."""

    cells: Bools  # (observed,)
    why: str
    remedy: str = ""


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
    low: float | None = None  # seen in fit, of several cells: see microaggregation.py
    high: float | None = None
    unit: str = ""  # of time, that the numbers count
    whole: bool = False  # numbers come back whole
    exponent: int = 0  # of decimals
    constant: float | None = None  # the only number seen, or the one to put where none was
    missing_codes: tuple[Any, ...] = ()
    suspected: tuple[Any, ...] = ()  # of being one
    missing: float = 0.0  # share, in fit
    notation: Any = None  # of numbers or dates that the column holds as text; see notations.py and stamps.py
    shape: Shape | None = None  # of images
    layout: Layout = "HW"  # in which they come back
    pixels: Pixels = "gaussian"

    @property
    def variable(self) -> Variable:
        assert self.kind is not None, f"column {self.label!r} is not modelled"
        if self.shape is not None:
            return Variable(self.name, self.kind, math.prod(self.shape), shape=self.shape, pixels=self.pixels)
        return Variable(self.name, self.kind, len(self.levels) or 1, self.min, self.max)

    @property
    def kind_name(self) -> str:
        """What the kind is called in a schema: whoever writes this name gets this kind."""
        if self.kind is None:
            return Keep.name
        if self.kind in NUMBERS and self.storage in TEMPORAL:
            return TEMPORAL[self.storage].name
        if self.kind is Kind.COUNT and (self.min is None or self.min < 0):
            return Integer.name
        return self.kind.value

    @property
    def storage_name(self) -> str:
        return _name(self.storage)

    def blank(self, rows: int) -> NDArray[Any]:
        """Cells that nothing is known of, as the core takes them."""
        if self.shape is not None:
            return np.zeros((rows, *self.shape), dtype=np.float32)
        return np.zeros(rows, dtype=np.int64 if self.levels else np.float64)

    # --- reading

    def takes(self, storage: Storage | None) -> bool:
        """Whether values of that storage can be read."""
        if self.notation is not None and storage is Storage.TEXT:
            return True
        return storage is self.storage or any({storage, self.storage} <= alike for alike in _ALIKE)

    def read(self, cells: Cells) -> tuple[NDArray[Any], list[Oddity]]:
        """Observed values → level codes, or numbers in natural units; and those of them that are odd, if any."""
        values = cells.values
        if self.shape is not None:
            return self._images(cells), []
        if len(values) and not self.takes(cells.storage):
            found = cells.why or f"{_name(cells.storage)} values"
            raise TableError(
                f"column {self.label!r} holds {found}, but it held {self.storage_name} values in fit; convert it"
            )
        if self.notation is not None and cells.storage is Storage.TEXT:
            return self._read_texts(cells)
        if self.levels:
            codes = map(self._codes.get, scalars(values), repeat(-1))
            x: NDArray[Any] = np.fromiter(codes, dtype=np.int64, count=len(values))
            oddities = [Oddity(x < 0, "was not seen in fit")]
        else:
            x = to_numbers(values, self.unit) if len(values) else np.zeros(0)  # no values have no storage, either
            oddities = self._odd_numbers(x)
        return x, [odd for odd in oddities if odd.cells.any()]

    def _read_texts(self, cells: Cells) -> tuple[NDArray[Any], list[Oddity]]:
        """Texts that write numbers or dates."""
        texts = [text.strip() for text in cells.values.tolist()]
        read = np.fromiter(map(self.notation.reads, texts), dtype=np.bool_, count=len(texts))
        values, storage = recognise(self.notation.parse([text for text, good in zip(texts, read, strict=True) if good]))
        x, oddities = self.read(Cells(values, np.ones(len(values), dtype=np.bool_), storage))
        at = np.flatnonzero(read)
        out = np.zeros(len(texts))
        out[at] = x
        spread = [odd._replace(cells=np.isin(np.arange(len(texts)), at[odd.cells])) for odd in oddities]
        unread = Oddity(~read, f"is not written like the other {self.storage_name}s", "list it in missing_values")
        return out, [*spread, *([unread] if not read.all() else [])]

    def given(self, values: Iterable[Any]) -> tuple[NDArray[Any], Storage]:
        """Levels, bounds or values of this column that a user wrote in Python, recognised."""
        if self.shape is not None:
            raise TableError(f"column {self.label!r} holds images, which cannot be given; leave it out")
        values = [utc(scalar(value)) for value in values]
        try:
            if any(map(is_null, values)):
                raise Unmodelled("nulls")
            return recognise(objects(values))
        except Unmodelled as reason:
            raise TableError(
                f"column {self.label!r}: {reason} were given; it takes {self.storage_name} values"
            ) from None

    def parse(self, text: str) -> Any:
        """A value of this column from how a person writes it."""
        for level in self.levels:
            if text in (str(level), str(level).lower(), f"{level:g}" if isinstance(level, int | float) else None):
                return level  # True is also true, 3.0 is also 3
        if self.levels:
            known = ", ".join(map(str, self.levels[:20]))
            raise TableError(f"column {self.label!r}: {text!r} is not one of its levels: {known}")
        convert, example = _WRITTEN.get(self.storage, (float, "a number such as 12.5"))
        try:
            return convert(text)
        except (ValueError, OverflowError):
            raise TableError(f"column {self.label!r}: {text!r} is not {example}") from None

    def _images(self, cells: Cells) -> NDArray[np.float32]:
        assert self.shape is not None
        try:
            if len(cells.values) and cells.storage not in (Storage.IMAGE, Storage.TEXT):
                raise NotAnImage(cells.why or f"{_name(cells.storage)} values")
            return read_images(cells.values, self.shape)
        except NotAnImage as reason:
            raise TableError(f"column {self.label!r} holds {reason}; mend the cell, or make it missing") from None

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels)}

    def _odd_numbers(self, x: NDArray[np.float64]) -> list[Oddity]:
        if self._usual(x).all():
            return []
        finite, (low, high) = np.abs(x) <= LARGEST, self._bounds
        odd = [
            Oddity(~np.isfinite(x), "is not finite", "replace it or list it in missing_values"),
            Oddity(np.isfinite(x) & ~finite, f"is beyond ±{LARGEST:g}", "replace it or list it in missing_values"),
            Oddity(finite & ((x < low) | (x > high)), self._outside, "widen the bounds or list it in missing_values"),
        ]
        if self.kind is Kind.COUNT:
            odd.append(Oddity(finite & (x != np.rint(x)), "is not a whole number", "use real"))
        if self.kind is Kind.POSITIVE:
            odd.append(Oddity(finite & (x <= 0), "is not above zero", "use real"))
        return odd

    def _usual(self, x: NDArray[np.float64]) -> Bools:
        """Those that no likelihood nor bound speaks against, as nearly all numbers of nearly all columns."""
        low, high = self._bounds
        usual = (x >= max(low, -LARGEST)) & (x <= min(high, LARGEST))  # NaN fails every comparison
        if self.kind is Kind.COUNT:
            usual &= x == np.rint(x)
        return usual & (x > 0) if self.kind is Kind.POSITIVE else usual

    @cached_property
    def _outside(self) -> str:
        return f"lies outside {self.show(self.min) or '-∞'} … {self.show(self.max) or '∞'}"

    @property
    def _bounds(self) -> tuple[float, float]:
        return -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max

    # --- writing

    def fits(self, target: np.dtype[Any]) -> bool:
        """Whether a column of numpy dtype `target` can hold what `write` gives."""
        if self.shape is not None:
            return target.kind == "O"
        holders = "OUT" if self.notation is not None else _HOLDERS.get(self.storage, "") if self.storage else ""
        return target.kind in holders

    def write(self, x: NDArray[Any], target: np.dtype[Any] | None) -> NDArray[Any]:
        """Level codes, or numbers in natural units → values for a column of numpy dtype `target` (None: any)."""
        if not np.isfinite(x).all():
            raise TableError(f"column {self.label!r}: no finite value was found for a cell; fit the model again")
        if self.shape is not None:
            return write_images(x, self.layout, int(self.high or 1))
        values = self._levels_at(x) if self.levels else self._values_at(np.asarray(x, dtype=np.float64), target)
        if self.notation is not None and (target is None or target.kind in "OUT"):
            times = self.storage is Storage.TIME
            return objects(self.notation.write(objects(map(_time_of_day, scalars(values))) if times else values))
        if target is not None and target.kind not in "OUT":
            return cast(values, target)
        if self.storage is Storage.DECIMAL:
            return self._decimals(values)
        if self.storage is Storage.TIME:
            return objects(map(_time_of_day, scalars(values)))
        if self.storage in _PYTHON:
            values = values.astype(_PYTHON[self.storage])
        return values if target is None else values.astype(object)

    def _levels_at(self, codes: NDArray[Any]) -> NDArray[Any]:
        return self._values_of_levels[np.asarray(codes).astype(np.int64)]

    @cached_property
    def _values_of_levels(self) -> NDArray[Any]:
        if self.storage in LABELS:
            return objects(self.levels)
        return np.array(self.levels, dtype=f"{self._time_kind}8[us]" if self.unit else None)

    def _values_at(self, x: NDArray[np.float64], target: np.dtype[Any] | None) -> NDArray[Any]:
        if self.constant is not None:
            x = np.full(len(x), self.constant)
        if self.whole or (target is not None and target.kind in "iu"):
            low, high = self._bounds  # rounding must not leave them
            x = np.clip(np.rint(x), 1.0 if self.kind is Kind.POSITIVE else np.ceil(low), np.floor(high))
        return to_times(x, self.unit, self._time_kind, target) if self.unit else x

    @property
    def _time_kind(self) -> str:
        return "M" if self.storage in CALENDAR else "m"

    def _decimals(self, x: NDArray[Any]) -> NDArray[np.object_]:
        """Decimals with the column's exponent, and no more digits before the point than were seen in fit."""
        quantum, context = Decimal((0, (1,), self.exponent)), Context(prec=400)  # float64 has up to 309 digits
        largest = max(abs(self.low or 0.0), abs(self.high or 0.0), 1.0)
        digits = max(math.ceil(math.log10(largest)), 1, self.exponent + 1)
        most = context.subtract(Decimal((0, (1,), digits)), quantum)
        exact = (Decimal(repr(value)).quantize(quantum, context=context) for value in x.astype(np.float64).tolist())
        return objects(min(max(value, most.copy_negate()), most) for value in exact)

    # --- showing and saving

    def describe(self) -> str:
        """The levels, or the range seen and the bounds, or the reason for leaving the column alone."""
        if self.kind is None:
            return self.why or "as asked"
        if self.shape is not None:
            return f"{'×'.join(map(str, self.shape))} pixels"
        doubts = [f"{self.show_value(code)} may stand for missing" for code in self.suspected]
        if self.levels:
            shown = ", ".join(map(str, self.levels[:6])) + (", …" if len(self.levels) > 6 else "")
            return "; ".join([f"{counted(len(self.levels), 'level')}: {shown}", *doubts])
        bounds = [f"{sign} {self.show(x)}" for sign, x in (("≥", self.min), ("≤", self.max)) if x is not None]
        if self.storage is Storage.TIME and self._bounds == day_of(self.unit):
            bounds = []  # nobody asks for them
        return "; ".join([", ".join([f"{self.show(self.low)} … {self.show(self.high)}", *bounds]), *doubts])

    def show(self, x: float | None) -> str:
        """A number of this column as a person writes it: a time of day, a date or a duration where it is one."""
        if x is None:
            return ""
        if not self.unit:
            return f"{x:g}"
        times = to_times(np.array([x]), self.unit, self._time_kind, None)
        return str(_time_of_day(scalars(times)[0]) if self.storage is Storage.TIME else times[0])

    def show_value(self, value: Any) -> str:
        """A value of the user's table as a person writes it."""
        return f"{value:g}" if isinstance(value, float) else str(value)

    def to_json(self) -> dict[str, Any]:
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        try:
            data |= {key: dump(data[key]) for key in _TYPED}
        except Unsaveable as reason:
            raise TableError(f"column {self.label!r}: {reason}") from None
        notation = None if self.notation is None else notation_to_json(self.notation)
        return data | {
            "kind": self.kind and self.kind.value,
            "storage": self.storage and self.storage.value,
            "notation": notation,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ColumnPlan:
        typed: dict[str, Any] = {key: load(data[key]) for key in _TYPED if key in data}
        typed["kind"] = data["kind"] and Kind(data["kind"])
        typed["storage"] = data["storage"] and Storage(data["storage"])
        typed["notation"] = notation_from_json(data["notation"]) if data.get("notation") else None
        typed["shape"] = tuple(data["shape"]) if data.get("shape") else None
        return typed_fields(cls(**{**data, **typed}))


def _name(storage: Storage | None) -> str:
    return storage.value if storage else "no"


def _time_of_day(span: dt.timedelta) -> dt.time:
    return (MIDNIGHT + span).time()


def _moment(text: str) -> Any:
    return np.datetime64(text).astype("M8[us]").item()  # in nanoseconds it would be an integer


#: Storage → what a person's text means, and an example of it; of the rest, numbers.
_WRITTEN: dict[Storage | None, tuple[Callable[[str], Any], str]] = {
    Storage.DATE: (_moment, "a date such as 2024-05-17"),
    Storage.DATETIME: (_moment, "a date such as 2024-05-17 or 2024-05-17T13:45"),
    Storage.TIME: (dt.time.fromisoformat, "a time such as 13:45"),
    Storage.DURATION: (lambda text: dt.timedelta(seconds=float(text)), "a number of seconds"),
}
