"""What a column's cells look like: a notation reads their texts as values, and writes filled values as such texts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from vsae.files.values import Columns, as_text, changed, plain_values
from vsae.table.cells import objects

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.I)
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
_BOOLEAN = re.compile("true|false", re.I)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    _DATE.pattern + r"(?P<gap>[T ])[0-9]{2}:[0-9]{2}"
    r"(?P<seconds>:[0-9]{2}(?:\.(?P<fraction>[0-9]{1,9}))?)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
)


def notation_of(texts: Sequence[str], missing: bool, delimiter: str) -> Notation:
    """The first notation that all of a column's texts, without spaces around them, fit.

    >>> notation_of(["1", "2.50"], False, ","), notation_of(["01", "12"], False, ","), notation_of(["1,5"], False, ";")
    (Decimal(decimals=2, mark='.'), Text(), Decimal(decimals=1, mark=','))
    """
    if not texts:
        return Unknown()
    return (
        Whole.of(texts, missing)
        or Decimal.of(texts)
        or Decimal.with_comma(texts, delimiter)
        or Boolean.of(texts)
        or IsoDate.of(texts)
        or IsoMoment.of(texts)
        or Text()
    )


def filled_texts(
    where: str, notations: Mapping[str, Notation], data: Columns, filled: Any
) -> dict[int, dict[str, str]]:
    """Row → column → text of each cell that differs between `data` and `filled`, in the style of its column."""
    texts: dict[int, dict[str, str]] = defaultdict(dict)
    for name, notation in notations.items():
        rows, values = changed(where, name, data[name], filled)
        for row, text in zip(rows.tolist(), notation.write(values), strict=True):
            texts[row][name] = text
    return texts


@dataclass(frozen=True)
class Whole:
    """Integers: exact in int64, or, beside missing cells, in float64.

    >>> Whole.of(["1", "-20"], missing=True).parse(["7"]), Whole.of(["0012"], missing=False)
    (array([7.]), None)
    """

    missing: bool  # whether cells of the column are

    @classmethod
    def of(cls, texts: Sequence[str], missing: bool) -> Whole | Text | None:
        if not _all_match(_WHOLE, texts):
            return None
        # Python refuses to read very long ones; 20 characters are what int64 could hold.
        exact = max(map(len, texts)) <= 20 and max(map(abs, map(int, texts))) <= (2**53 if missing else 2**63 - 1)
        return cls(missing) if exact else Text()  # and not Decimal: that would join different numbers

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(list(map(int, texts)), dtype=float if self.missing else np.int64)

    def write(self, values: np.ndarray) -> list[str]:
        return [str(round(value)) for value in values.tolist()]


@dataclass(frozen=True)
class Decimal:
    """Numbers with a decimal mark; filled ones get as many decimals as the most precise of the others.

    >>> Decimal.of(["1.5", "2", "0.25"]).write(np.array([3.14159, -0.001]))
    ['3.14', '0.00']
    >>> Decimal.of(["1e-5", "2.0"]).write(np.array([3.14159e-7]))
    ['3.14159e-07']
    """

    decimals: int | None  # None: scientific notation
    mark: str = "."

    @classmethod
    def of(cls, texts: Sequence[str], mark: str = ".") -> Decimal | None:
        texts = [text.replace(mark, ".") for text in texts] if mark != "." else texts
        if not _all_match(_DECIMAL, texts):
            return None
        joined = "\n".join(texts)
        if "e" in joined or "E" in joined:
            return cls(None, mark)
        decimals = 0
        while more := re.search(rf"\.[0-9]{{{decimals + 1},}}", joined):
            decimals = len(more[0]) - 1
        return cls(decimals, mark)

    @classmethod
    def with_comma(cls, texts: Sequence[str], delimiter: str) -> Decimal | None:
        commas = [text for text in texts if "," in text]
        if delimiter not in ";\t" or not commas or any("." in text for text in texts):
            return None
        # Beside tabs, 1,234 is as likely a thousand; a semicolon is chosen because commas are decimal marks.
        if delimiter != ";" and _all_match(_THOUSANDS, commas):
            return None
        return cls.of(texts, ",")

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([float(text.replace(self.mark, ".")) for text in texts])

    def write(self, values: np.ndarray) -> list[str]:
        pattern = "%.6g" if self.decimals is None else f"%.{self.decimals}f"
        texts = (pattern % value for value in values.tolist())
        # A small negative number may have lost all its digits: -0.00 is 0.00.
        return [(t.lstrip("-") if not t.strip("-0.") else t).replace(".", self.mark) for t in texts]


@dataclass(frozen=True)
class Boolean:
    """true and false, in the letters that the column uses.

    >>> Boolean.of(["TRUE"]).write(np.array([False, True]))
    ['FALSE', 'TRUE']
    """

    words: tuple[str, str]  # for False and for True

    @classmethod
    def of(cls, texts: Sequence[str]) -> Boolean | None:
        if not _all_match(_BOOLEAN, texts):
            return None
        style = str.upper if texts[0].isupper() else str.title if texts[0].istitle() else str.lower
        return cls((style("false"), style("true")))

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return objects(text.lower() == "true" for text in texts)

    def write(self, values: np.ndarray) -> list[str]:
        return [self.words[bool(value)] for value in values.tolist()]


@dataclass(frozen=True)
class IsoDate:
    """ISO dates, YYYY-MM-DD."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> IsoDate | None:
        return cls() if _all_match(_DATE, texts) and _in_calendar(texts) else None

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(texts, dtype="datetime64[D]")

    def write(self, values: np.ndarray) -> list[str]:
        return np.datetime_as_string(values.astype("datetime64[D]")).tolist()


@dataclass(frozen=True)
class IsoMoment:
    """ISO date-times of one zone; the values are that zone's wall clock, in seconds or microseconds.

    >>> notation = IsoMoment.of(["2024-02-29 12:30:00.5Z"])
    >>> notation.write(notation.parse(["2024-02-29 23:59:59.25Z"]))
    ['2024-02-29 23:59:59.2Z']
    """

    gap: str  # between date and time
    digits: int | None  # of the second's fraction, up to 9; None: no seconds
    zone: str

    @classmethod
    def of(cls, texts: Sequence[str]) -> IsoMoment | None:
        if not _all_match(_MOMENT, texts):
            return None
        parts = [found.groupdict("") for found in map(_MOMENT.fullmatch, texts) if found]
        seconds = any(part["seconds"] for part in parts)
        digits = max(len(part["fraction"]) for part in parts) if seconds else None
        notation = cls(parts[0]["gap"], digits, parts[0]["zone"])
        one_clock = all(part["zone"] == notation.zone for part in parts)  # as one array has
        return notation if one_clock and _in_calendar(notation._clock(texts)) else None

    def _clock(self, texts: Sequence[str]) -> list[str]:
        """Without the zone, which numpy has no place for, nor what is finer than microseconds."""
        return [text.removesuffix(self.zone)[:26] for text in texts]

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(self._clock(texts), dtype="datetime64[us]" if self.digits else "datetime64[s]")

    def write(self, values: np.ndarray) -> list[str]:
        unit = "m" if self.digits is None else "us" if self.digits else "s"
        texts: list[str] = np.datetime_as_string(values.astype(f"datetime64[{unit}]")).tolist()
        if self.digits:  # from microseconds to nine digits, and from there to as many as the column has
            texts = [(text + "000")[: self.digits - 9 or None] for text in texts]
        return [text.replace("T", self.gap) + self.zone for text in texts]


@dataclass(frozen=True)
class Text:
    """Anything else, as it is."""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return objects(texts)

    def write(self, values: np.ndarray) -> list[str]:
        return list(map(str, values.tolist()))


@dataclass(frozen=True)
class Unknown:
    """No cells to tell a notation by: NaN, as other readers give; what fills it is spelled in full."""

    spell: Callable[[Any], str] = as_text

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.empty(0)

    def write(self, values: np.ndarray) -> list[str]:
        return list(map(self.spell, plain_values(values)))


Notation: TypeAlias = Whole | Decimal | Boolean | IsoDate | IsoMoment | Text | Unknown


def _all_match(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return all(map(pattern.fullmatch, texts))


def _in_calendar(texts: Sequence[str]) -> bool:
    """Not 30 February."""
    try:
        np.array(texts, dtype="datetime64[us]")
    except ValueError:
        return False
    return True
