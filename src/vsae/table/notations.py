"""How the texts of a column write numbers and booleans: a notation reads texts as values, and writes values as texts.

A notation is decided by all texts of a column together. What it writes has the form of what it read: currency and unit,
marks of decimals and of thousands, as many decimals as the most precise of the texts, parentheses for negatives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vsae.table.cells import objects

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.I)
_EXPONENT = re.compile(r"([eE])([+-]?)([0-9]+)$", re.M)
_BOOLEAN = re.compile("true|false", re.I)
_SPACES = "    "  # a plain one, and those that do not break a line
_CURRENCY = (
    r"(?:US|A|C|R|NZ|HK|S)?\$|[€£¥₹₽₩₺₪₫₴]|CHF|Fr\.|kr\.?|zł|"
    r"USD|EUR|GBP|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|BRL|MXN|ZAR"
)
_UNIT = (
    r"%|‰|°[CF]?|ppm|[µμmcdk]?m[²³23]?|[µμmk]?g|lbs?|oz|ft|in|yd|mi|[µmcd]?[lL]|[mµn]?s|secs?|min|hrs?|[hd]|days?|"
    r"weeks?|months?|years?|yrs?|bpm|mmHg|kcal|cal|kJ|[kM]?Wh?|[mk]V|mA|[kMG]?Hz|[hk]?Pa|m?bar|psi|[kMGT]i?B|[mµn]?mol|"
    r"[mµk]?IU|km/h|mph|m/s"
)
_AFFIXED = re.compile(
    rf"(?P<open>\()?(?P<outer>[+−-]?)(?P<prefix>(?:{_CURRENCY})[{_SPACES}]?)?(?P<inner>[+−-]?)"
    rf"(?P<digits>[0-9](?:[0-9.,'’{_SPACES}]*[0-9])?|[.,][0-9]+)"
    rf"(?P<suffix>[{_SPACES}]?(?:(?:{_UNIT})(?:/(?:{_UNIT}|[0-9]+))?|[€£$¥]|zł|kr|EUR|USD|GBP|CHF))?(?P<close>\))?"
)
_EXACT = 15  # digits that float64 always has


class _Marks(NamedTuple):
    group: str  # between thousands
    mark: str  # before decimals
    doubtful: bool = False  # whether another reading was possible


@dataclass(frozen=True)
class Whole:
    """Integers: exact in int64, or, beside missing cells, in float64.

    >>> Whole.of(["1", "-20"], missing=True).parse(["7"]), Whole.of(["0012"], missing=False)
    (array([7.]), None)
    """

    missing: bool  # whether cells of the column are

    @classmethod
    def of(cls, texts: Sequence[str], missing: bool) -> Whole | Text | None:
        if not all_match(_WHOLE, texts):
            return None
        # Python refuses to read very long ones; 20 characters are what int64 could hold.
        exact = max(map(len, texts)) <= 20 and max(map(abs, map(int, texts))) <= (2**53 if missing else 2**63 - 1)
        return cls(missing) if exact else Text()  # and not Decimal: that would join different numbers

    def reads(self, text: str) -> bool:
        return bool(_WHOLE.fullmatch(text))

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(list(map(int, texts)), dtype=float if self.missing else np.int64)

    def write(self, values: np.ndarray) -> list[str]:
        return [str(round(value)) for value in values.tolist()]


@dataclass(frozen=True)
class Decimal:
    """Numbers with a decimal mark; filled ones get as many decimals as the most precise of the others.

    >>> Decimal.of(["1.5", "2", "0.25"]).write(np.array([3.14159, -0.001]))
    ['3.14', '0.00']
    >>> Decimal.of(["1e-5", "2.0"]).write(np.array([3.14159e-7])), Decimal.of(["1.5e5"]).write(np.array([3.14e7]))
    (['3.14159e-07'], ['3.1e7'])
    >>> Decimal.affixed(["€1.408,33", "€9,50", "-€0,99"]).write(np.array([12345.678, -2.0]))
    ['€12.345,68', '-€2,00']
    """

    decimals: int | None  # None: scientific notation
    mark: str = "."
    group: str = ""  # between thousands
    prefix: str = ""
    suffix: str = ""
    parentheses: bool = False  # for negatives
    inner: bool = False  # whether the sign follows the prefix
    exponent: str = ""  # how all texts write 5 as an exponent: e5, E5, e+5, e+05, …
    doubt: str = field(default="", compare=False, repr=False)  # what to say where another reading was possible

    @classmethod
    def of(cls, texts: Sequence[str], mark: str = ".") -> Decimal | None:
        """Without thousands, currency or unit."""
        texts = [text.replace(mark, ".") for text in texts] if mark != "." else texts
        if not all_match(_DECIMAL, texts):
            return None
        joined = "\n".join(texts)
        exponents = _EXPONENT.findall(joined)
        if exponents and len(exponents) == len(texts):
            letter, _, digits = exponents[0]
            plus = "+" if any(sign == "+" for _, sign, _ in exponents) else ""
            return cls(_most_decimals(joined, "."), mark, exponent=f"{letter}{plus}{'5'.zfill(len(digits))}")
        return cls(None, mark) if exponents else cls(_most_decimals(joined, "."), mark)

    @classmethod
    def affixed(cls, texts: Sequence[str], delimiter: str = "") -> Decimal | None:
        """With thousands, currency, unit, parentheses or a decimal comma, alike in all texts. Beside ";" and tabs, a
        lone comma is a decimal mark; a number with leading zeros is none."""
        found = [_AFFIXED.fullmatch(texts[0])]
        if not found[0]:  # most columns of text end here
            return None
        found = list(map(_AFFIXED.fullmatch, texts))
        parts = [match.groupdict("") for match in found if match]
        affixes = {(part["prefix"], part["suffix"]) for part in parts}
        if len(parts) < len(texts) or len(affixes) > 1 or any(bool(p["open"]) != bool(p["close"]) for p in parts):
            return None
        ((prefix, suffix),) = affixes
        digits = [part["digits"] for part in parts]
        marks = _marks_of(digits, delimiter, bool(prefix or suffix))
        if marks is None:
            return None
        notation = cls(
            _most_decimals("\n".join(digits), marks.mark) if marks.mark else 0,
            *(marks.mark or ".", marks.group, prefix, suffix),
            parentheses=any(part["open"] for part in parts),
            inner=any(part["inner"] for part in parts),
        )
        if (
            not all_match(notation._plain, digits)
            or max(map(len, digits)) - digits[0].count(marks.group or ";") > _EXACT
        ):
            return None
        said = f"{texts[0]!r} was read as {notation.parse(texts[:1])[0]:.15g}"
        return replace(notation, doubt=said if marks.doubtful else "")

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        """The digits of a number, with their marks."""
        group = rf"|[1-9][0-9]{{0,2}}(?:{re.escape(self.group)}[0-9]{{3}})+" if self.group else ""
        return re.compile(rf"(?:0|[1-9][0-9]*{group})(?:{re.escape(self.mark)}[0-9]*)?|{re.escape(self.mark)}[0-9]+")

    @property
    def is_bare(self) -> bool:
        """Without thousands, currency, unit or parentheses."""
        return not (self.group or self.prefix or self.suffix or self.parentheses)

    def reads(self, text: str) -> bool:
        if self.is_bare:
            return bool(_DECIMAL.fullmatch(text.replace(self.mark, ".")))
        found = _AFFIXED.fullmatch(text)
        if not found or not self._plain.fullmatch(found["digits"]):
            return False
        return ((found["prefix"] or "").strip(), (found["suffix"] or "").strip()) == (
            self.prefix.strip(),
            self.suffix.strip(),
        )

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        if self.is_bare:
            return np.array([float(text.replace(self.mark, ".")) for text in texts])
        return np.array([self._value(_AFFIXED.fullmatch(text)) for text in texts])

    def _value(self, found: re.Match[str] | None) -> float:
        assert found is not None, "`affixed` has seen all texts"
        digits = found["digits"].replace(self.group, "") if self.group else found["digits"]
        negative = found["open"] or found["outer"] in ("-", "−") or found["inner"] in ("-", "−")
        return float(digits.replace(self.mark, ".")) * (-1 if negative else 1)

    def write(self, values: np.ndarray) -> list[str]:
        if self.decimals is None:
            return [f"{value:.6g}".replace(".", self.mark) for value in values.tolist()]
        if self.exponent:
            return [self._scientific(f"{value:.{self.decimals}e}") for value in values.tolist()]
        marks = str.maketrans({",": self.group, ".": self.mark})
        return [self._text(f"{value:,.{self.decimals}f}", marks) for value in values.tolist()]

    def _scientific(self, text: str) -> str:
        if "e" not in text:  # infinite
            return text
        mantissa, _, power = text.partition("e")
        sign = "-" if power.startswith("-") else "+" * ("+" in self.exponent)
        digits = power.lstrip("+-0").rjust(len(self.exponent.lstrip("eE+")), "0")
        return mantissa.replace(".", self.mark) + self.exponent[0] + sign + digits

    def _text(self, text: str, marks: dict[int, str]) -> str:
        negative = text.startswith("-") and text.strip("-0.,") != ""  # -0.00 is 0.00
        digits = text.lstrip("-").translate(marks)
        if negative and self.parentheses:
            return f"({self.prefix}{digits}{self.suffix})"
        if self.inner:
            return f"{self.prefix}{'-' * negative}{digits}{self.suffix}"
        return f"{'-' * negative}{self.prefix}{digits}{self.suffix}"


@dataclass(frozen=True)
class Boolean:
    """true and false, in the letters that the column uses.

    >>> Boolean.of(["TRUE"]).write(np.array([False, True]))
    ['FALSE', 'TRUE']
    """

    words: tuple[str, str]  # for False and for True

    @classmethod
    def of(cls, texts: Sequence[str]) -> Boolean | None:
        if not all_match(_BOOLEAN, texts):
            return None
        style = str.upper if texts[0].isupper() else str.title if texts[0].istitle() else str.lower
        return cls((style("false"), style("true")))

    def reads(self, text: str) -> bool:
        return bool(_BOOLEAN.fullmatch(text))

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return objects(text.lower() == "true" for text in texts)

    def write(self, values: np.ndarray) -> list[str]:
        return [self.words[bool(value)] for value in values.tolist()]


@dataclass(frozen=True)
class Text:
    """Anything else, as it is."""

    def reads(self, text: str) -> bool:
        return True

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return objects(texts)

    def write(self, values: np.ndarray) -> list[str]:
        return list(map(str, values.tolist()))


def number_notation(texts: Sequence[str], missing: bool, delimiter: str = "") -> Whole | Decimal | Text | None:
    """The notation of numbers that all texts, without spaces around them, fit; Text where no array could hold them."""
    return Whole.of(texts, missing) or Decimal.of(texts) or Decimal.affixed(texts, delimiter)


def is_number(text: str) -> bool:
    """Whether a text is a number without thousands, currency or unit, and without leading zeros."""
    return _DECIMAL.fullmatch(text) is not None


def all_match(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return all(map(pattern.fullmatch, texts))


def _most_decimals(joined: str, mark: str) -> int:
    """Of the numbers in a text."""
    decimals = 0
    while more := re.search(rf"{re.escape(mark)}[0-9]{{{decimals + 1},}}", joined):
        decimals = len(more[0]) - 1
    return decimals


def _marks_of(digits: Sequence[str], delimiter: str, decorated: bool) -> _Marks | None:
    """What stands between thousands and before decimals; None where it cannot be told.

    >>> _marks_of(["1.408,33"], ",", True), _marks_of(["51,643", "7"], ",", False), _marks_of(["1,5"], ",", False)
    (_Marks(group='.', mark=',', doubtful=False), _Marks(group=',', mark='', doubtful=True), None)
    """
    joined = "\n".join(digits)
    apart = {letter for letter in f"{_SPACES}'’" if letter in joined}
    if len(apart) > 1 or (apart and "," in joined and "." in joined):
        return None
    if apart:
        return _Marks(apart.pop(), "," if "," in joined else "." if "." in joined else "")
    if "," in joined and "." in joined:
        both = [text for text in digits if "," in text and "." in text]
        if both:
            mark = max(",.", key=both[0].rfind)
            return _Marks({",": ".", ".": ","}[mark], mark)
        return _Marks(",", ".") if _thousands(digits, ",") else _Marks(".", ",") if _thousands(digits, ".") else None
    if "," in joined:
        if any(text.count(",") > 1 for text in digits):
            return _Marks(",", "")
        # Beside tabs, 1,234 is as likely a thousand; a semicolon is chosen because commas are decimal marks.
        if _thousands(digits, ",") and delimiter != ";":
            return _Marks(",", "", doubtful=not decorated)
        return _Marks("", ",") if decorated or delimiter in (";", "\t", " ") else None  # "1,5" may be two answers
    if "." in joined and _thousands(digits, ".") and (decorated or any(text.count(".") > 1 for text in digits)):
        return _Marks(".", "", doubtful=not any(text.count(".") > 1 for text in digits))
    return _Marks("", "." if "." in joined else "")


def _thousands(digits: Sequence[str], mark: str) -> bool:
    """Whether the mark stands between thousands wherever it stands."""
    pattern = re.compile(rf"[1-9][0-9]{{0,2}}(?:{re.escape(mark)}[0-9]{{3}})+")
    return all_match(pattern, [text for text in digits if mark in text])
