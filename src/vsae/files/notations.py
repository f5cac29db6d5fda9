"""The notation of each column of a text file, and the texts of its filled cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from vsae.data.schema import NUMBERS
from vsae.files.values import Columns, as_text, changed, plain_values
from vsae.table.cells import is_null
from vsae.table.notations import Boolean, Decimal, Text, Whole, number_notation
from vsae.table.specs import Date, Spec, Temporal
from vsae.table.stamps import IsoDate, IsoMoment, Stamp, date_notation, iso_notation


@dataclass(frozen=True)
class Unknown:
    """No cells to tell a notation by: NaN, as other readers give; what fills it is spelled in full."""

    spell: Callable[[Any], str] = as_text

    def reads(self, text: str) -> bool:
        return False

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.empty(0)

    def write(self, values: np.ndarray) -> list[str]:
        return list(map(self.spell, plain_values(values)))


Notation: TypeAlias = Whole | Decimal | Boolean | IsoDate | IsoMoment | Stamp | Text | Unknown


def notation_of(texts: Sequence[str], missing: bool, delimiter: str, asked: Spec | None = None) -> Notation:
    """The first notation that all of a column's texts, without spaces around them, fit; what was asked for comes first.

    >>> [type(notation_of(texts, False, ",")).__name__ for texts in (["1", "2.50"], ["01", "12"], ["31.12.2024"])]
    ['Decimal', 'Text', 'Stamp']
    """
    if not texts:
        return Unknown()
    if isinstance(asked, Temporal):
        return date_notation(texts, asked.format if isinstance(asked, Date) else None) or Text()
    if asked is not None and asked.kind in NUMBERS:
        return number_notation(texts, missing, delimiter) or Text()
    plain = Whole.of(texts, missing) or Decimal.of(texts) or Boolean.of(texts) or iso_notation(texts)
    if asked is not None:  # levels, which are named as they are written
        return plain or Text()
    compact = Stamp.of(texts, "%Y%m%d") if isinstance(plain, Whole) and len(texts[0]) == 8 else None
    return compact or plain or Decimal.affixed(texts, delimiter) or date_notation(texts) or Text()


def all_texts(notation: Notation, values: np.ndarray) -> list[str]:
    """The texts of a whole column; nothing where a value is missing.

    >>> all_texts(Decimal(2), np.array([1.5, np.nan]))
    ['1.50', '']
    """
    known = np.array([not is_null(value) for value in values.tolist()], dtype=np.bool_)
    texts = iter(notation.write(values[known]))
    return [next(texts) if there else "" for there in known.tolist()]


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
