"""How the texts of a column write dates, moments and times of day: by ISO 8601, or as in 31.12.2024 and 8:47 PM."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from vsae.table.cells import objects
from vsae.table.errors import TableError
from vsae.table.notations import Boolean, Decimal, Text, Whole, all_match

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    _DATE.pattern + r"(?P<gap>[T ])[0-9]{2}:[0-9]{2}"
    r"(?P<seconds>:[0-9]{2}(?:\.(?P<fraction>[0-9]{1,9}))?)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
#: What a letter after % stands for: a pattern, and whether zeros may be left out.
_FIELDS = {
    "Y": r"[0-9]{4}",
    "y": r"[0-9]{2}",
    "m": r"[0-9]{1,2}",
    "d": r"[0-9]{1,2}",
    "b": "|".join(month[:3] for month in MONTHS),
    "B": "|".join(MONTHS),
    "H": r"[0-9]{1,2}",
    "I": r"[0-9]{1,2}",
    "M": r"[0-9]{2}",
    "S": r"[0-9]{2}",
    "p": "[AP]M",
}
_UNPADDED = "mdHI"
_ORDERS = ("%Y{0}%m{0}%d", "%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%d{0}%m{0}%y", "%m{0}%d{0}%y")
_NAMED = ("%d{0}%b{0}%Y", "%d{0}%b{0}%y", "%d{0}%B{0}%Y")
_OTHERS = ("%b %d, %Y", "%B %d, %Y", "%d. %b %Y", "%d. %B %Y", "%b %Y", "%B %Y", "%Y%m%d")
_CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
_ORDER = "whether the day or the month comes"
_CENTURY = (np.datetime64("1969-01-01"), np.datetime64("2068-12-31"))  # that two digits of a year can say
_PLAUSIBLE = (1900, 2100)  # years of dates without any mark between their parts


@dataclass(frozen=True)
class IsoDate:
    """ISO dates, YYYY-MM-DD."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> IsoDate | None:
        return cls() if all_match(_DATE, texts) and _in_calendar(texts) else None

    def reads(self, text: str) -> bool:
        return self.of([text]) is not None

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(texts, dtype="datetime64[D]")

    def write(self, values: np.ndarray) -> list[str]:
        return np.datetime_as_string(values.astype("datetime64[D]")).tolist()


@dataclass(frozen=True)
class IsoMoment:
    """ISO date-times; the values are the wall clock of their zone or, where there are several, UTC.

    >>> notation = IsoMoment.of(["2024-02-29 12:30:00.5Z"])
    >>> notation.write(notation.parse(["2024-02-29 23:59:59.25Z"]))
    ['2024-02-29 23:59:59.2Z']
    >>> notation = IsoMoment.of(["2024-01-01T10:00+01:00", "2024-07-01T10:00+02:00", "2024-08-01T10:00+02:00"])
    >>> notation.write(notation.parse(["2024-07-01T10:00+02:00", "2024-01-01T10:00+01:00"]))
    ['2024-07-01T10:00+02:00', '2024-01-01T11:00+02:00']
    """

    gap: str  # between date and time
    digits: int | None  # of the second's fraction, up to 9; None: no seconds
    zone: str  # the commonest, where there are several
    several: bool = False

    @classmethod
    def of(cls, texts: Sequence[str]) -> IsoMoment | None:
        if not all_match(_MOMENT, texts):
            return None
        parts = [found.groupdict("") for found in map(_MOMENT.fullmatch, texts) if found]
        seconds = any(part["seconds"] for part in parts)
        digits = max(len(part["fraction"]) for part in parts) if seconds else None
        zones = Counter(part["zone"] for part in parts)
        notation = cls(parts[0]["gap"], digits, zones.most_common(1)[0][0], len(zones) > 1)
        known = "" not in zones or len(zones) == 1  # a clock without a zone cannot be told from UTC
        return notation if known and _in_calendar([_clock(text)[0] for text in texts]) else None

    def reads(self, text: str) -> bool:
        found = self.of([text])
        return found is not None and (self.several or found.zone == self.zone)

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        clocks = [_clock(text) for text in texts]
        values = np.array([text for text, _ in clocks], dtype="datetime64[us]" if self.digits else "datetime64[s]")
        return values - np.array([_offset(zone) for _, zone in clocks], dtype="m8[m]") if self.several else values

    def write(self, values: np.ndarray) -> list[str]:
        unit = "m" if self.digits is None else "us" if self.digits else "s"
        values = values + np.timedelta64(_offset(self.zone), "m") if self.several else values
        texts: list[str] = np.datetime_as_string(values.astype(f"datetime64[{unit}]")).tolist()
        if self.digits:  # from microseconds to nine digits, and from there to as many as the column has
            texts = [(text + "000")[: self.digits - 9 or None] for text in texts]
        return [text.replace("T", self.gap) + self.zone for text in texts]


@dataclass(frozen=True)
class Stamp:
    """Dates, moments or times of day in a form of strftime's letters.

    >>> notation = Stamp.of(["31.12.2024", "1.2.2023"])
    >>> notation.write(notation.parse(["7.11.2024"]))
    ['7.11.2024']
    >>> Stamp.of(["07 Nov 2024"]), Stamp.of(["08:47"]).parse(["23:59"])
    (Stamp(format='%d %b %Y'), array([datetime.time(23, 59)], dtype=object))
    """

    format: str
    padded: bool = field(default=True, repr=False)  # 07 and not 7
    style: str = field(default="title", repr=False)  # of letters
    doubt: str = field(default="", compare=False, repr=False)  # what to say where another reading was possible

    @classmethod
    def of(cls, texts: Sequence[str], format: str | None = None) -> Stamp | None:
        """By the first form that all texts have; day first where neither order is ruled out, unless slashes are between
        the parts."""
        forms = [format] if format is not None else _forms().get(_skeleton(texts[0]), [])
        fitting = [form for form in forms if _fits(form, texts)]
        if not fitting:
            return None
        chosen = next((form for form in fitting if form.startswith("%m/")), fitting[0])
        joined = "\n".join(texts)
        padded = all(_is_padded(_pattern(chosen).fullmatch(text)) for text in texts)
        letters = re.sub(r"[^A-Za-z]", "", joined.replace("T", "") if "T%" in chosen else joined)
        style = "upper" if letters.isupper() else "lower" if letters.islower() else "title"
        return cls(chosen, padded, style, _doubt(chosen, fitting, texts))

    @property
    def day_first(self) -> bool | None:
        """None where there is no number of a day or of a month."""
        day, month = self.format.find("%d"), self.format.find("%m")
        return None if min(day, month) < 0 else day < month

    @property
    def ambiguous(self) -> bool:
        """Whether the day and the month could have been taken for each other."""
        return self.doubt.startswith(_ORDER)

    @property
    def is_clock(self) -> bool:
        return "%Y" not in self.format and "%y" not in self.format

    @property
    def has_clock(self) -> bool:
        return "%M" in self.format

    def reads(self, text: str) -> bool:
        return _fits(self.format, [text])

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        iso = [_iso(self.format, text) for text in texts]
        if self.is_clock:
            return objects(dt.time.fromisoformat(text[11:]) for text in iso)
        return np.array(iso, dtype="datetime64[s]" if self.has_clock else "datetime64[D]")

    def write(self, values: np.ndarray) -> list[str]:
        if self.is_clock:
            return [self._text(dt.datetime.combine(dt.date(2000, 1, 1), value)) for value in values.tolist()]
        if "%y" in self.format:
            values = np.clip(values, *_CENTURY)
        return [self._text(value) for value in values.astype("datetime64[us]").tolist()]

    def _text(self, value: dt.datetime) -> str:
        """By hand: strftime writes names of months in the language of the machine, and zeros where none are wanted."""
        month, hour = MONTHS[value.month - 1], value.hour % 12 or 12
        names = {"b": month[:3], "B": month, "p": "AM" if value.hour < 12 else "PM"}
        numbers = {"m": value.month, "d": value.day, "H": value.hour, "I": hour, "M": value.minute, "S": value.second}
        restyle: Callable[[str], str] = {"upper": str.upper, "lower": str.lower}.get(self.style, str)
        digits = {letter: f"{n:02d}" if self.padded or letter in "MS" else str(n) for letter, n in numbers.items()}
        fields = {"Y": f"{value.year:04d}", "y": f"{value.year % 100:02d}", **digits}
        fields |= {letter: restyle(name) for letter, name in names.items()}
        return re.sub(r"%(\w)", lambda found: fields[found[1]], self.format)

    def swapped(self) -> Stamp:
        """Day first instead of month first, or the other way round."""
        swap = {"%d": "%m", "%m": "%d"}
        form = re.sub("%[dm]", lambda found: swap[found[0]], self.format)
        order = "month" if self.day_first else "day"
        return replace(self, format=form, doubt=f"it was read {order} first, as another column is")


NOTATIONS: dict[str, type] = {
    kind.__name__: kind for kind in (Whole, Decimal, Boolean, Text, IsoDate, IsoMoment, Stamp)
}


def notation_to_json(notation: Any) -> dict[str, Any]:
    """
    >>> notation_to_json(IsoDate())
    {'IsoDate': {}}
    """
    return {type(notation).__name__: asdict(notation) | ({"doubt": ""} if hasattr(notation, "doubt") else {})}


def notation_from_json(data: Mapping[str, Any]) -> Any:
    ((name, content),) = data.items()
    return NOTATIONS[name](**{key: tuple(x) if isinstance(x, list) else x for key, x in content.items()})


def iso_notation(texts: Sequence[str]) -> IsoDate | IsoMoment | None:
    return IsoDate.of(texts) or IsoMoment.of(texts)


def date_notation(texts: Sequence[str], format: str | None = None) -> IsoDate | IsoMoment | Stamp | None:
    """The notation of dates, moments or times of day that all texts, without spaces around them, fit."""
    if format is not None:
        return Stamp.of(texts, format)
    return iso_notation(texts) or Stamp.of(texts)


@functools.cache
def _forms() -> dict[str, list[str]]:
    """All forms, by their skeletons: few need be tried."""
    dates = [form.format(mark) for form, mark in product(_ORDERS, "-/.")]
    dates += [form.format(mark) for form, mark in product(_NAMED, " -/")] + [*_OTHERS]
    moments = [f"{date}{gap}{clock}" for date, clock, gap in product(dates, _CLOCKS, " T")]
    found: dict[str, list[str]] = defaultdict(list)
    for form in (*dates, *_CLOCKS, *moments):
        found[_skeleton(re.sub(r"%[bBp]", "Jan", re.sub(r"%[YymdHIMS]", "0", form)))].append(form)
    return found


def _skeleton(text: str) -> str:
    """What a text looks like, whatever its numbers and words are.

    >>> _skeleton("07 Nov 2024"), _skeleton("8:47PM")
    ('0 a 0', '0:0a')
    """
    return re.sub(r"[0-9]+", "0", re.sub(r"[A-Za-z]+", "a", text))


def check_format(form: str) -> None:
    """Refuse, in one line, what does not say how dates are written."""
    _pattern(form)


@functools.cache
def _pattern(form: str) -> re.Pattern[str]:
    parts = re.split(r"%(\w)", form)  # literal, letter, literal, …
    if not set(parts[1::2]) <= set(_FIELDS) or len(set(parts[1::2])) < len(parts[1::2]):
        known = ", ".join(f"%{letter}" for letter in _FIELDS)
        raise TableError(f"the format {form!r} is none of dates; it takes {known}, each once")
    return re.compile(
        "".join(f"(?P<{part}>{_FIELDS[part]})" if i % 2 else re.escape(part) for i, part in enumerate(parts)), re.I
    )


def _iso(form: str, text: str) -> str:
    """A text of that form as an ISO date-time, which need not be in the calendar."""
    found = _pattern(form).fullmatch(text)
    parts = found.groupdict() if found else {}
    year = parts.get("Y") or (f"{1900 if int(parts['y']) > 68 else 2000}"[:2] + parts["y"] if "y" in parts else "2000")
    name = parts.get("b") or parts.get("B")
    month = (
        next(i for i, m in enumerate(MONTHS, 1) if m[:3].lower() == name[:3].lower())
        if name
        else int(parts.get("m", 1))
    )
    hour = int(parts.get("H", 0))
    if "p" in parts:
        hour = int(parts["I"]) % 12 + 12 * (parts["p"][0] in "pP")
    day, minute, second = (int(parts.get(letter, low)) for letter, low in (("d", 1), ("M", 0), ("S", 0)))
    return f"{year}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"


def _fits(form: str, texts: Sequence[str]) -> bool:
    if not all_match(_pattern(form), texts) or not _in_calendar([_iso(form, text) for text in texts]):
        return False
    if "%I" in form and not all(1 <= int(found["I"]) <= 12 for found in map(_pattern(form).fullmatch, texts) if found):
        return False
    return form != "%Y%m%d" or all(_PLAUSIBLE[0] <= int(text[:4]) < _PLAUSIBLE[1] for text in texts)


def _is_padded(found: re.Match[str] | None) -> bool:
    assert found is not None
    return all(len(value) == 2 for letter, value in found.groupdict().items() if letter in _UNPADDED)


def _doubt(chosen: str, fitting: Sequence[str], texts: Sequence[str]) -> str:
    if chosen == "%Y%m%d":
        return f"{texts[0]!r} was read as a date"
    if not any(form for form in fitting if form != chosen and sorted(form) == sorted(chosen)):
        return ""
    first = "month" if chosen.startswith("%m") else "day"
    return f"{_ORDER} first in {texts[0]!r} is not to be told; it was read {first} first"


def _clock(text: str) -> tuple[str, str]:
    """An ISO date-time without its zone, nor what is finer than microseconds; and the zone."""
    found = _MOMENT.fullmatch(text)
    zone = (found["zone"] or "") if found else ""
    return text.removesuffix(zone)[:26], zone


def _offset(zone: str) -> int:
    """Minutes ahead of UTC."""
    if zone in ("", "Z"):
        return 0
    return (1 if zone[0] == "+" else -1) * (60 * int(zone[1:3]) + int(zone[-2:]))


def _in_calendar(texts: Sequence[str]) -> bool:
    """Not 30 February, nor 25 o'clock."""
    try:
        np.array(texts, dtype="datetime64[us]")
    except ValueError:
        return False
    return True
