"""What stands for a missing value without being null: texts that are known to, and numbers that are suspected of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import UNITS, scalars

#: Texts that stand for a missing value in any column, spaces around them aside: those of pandas and, in the UCI sets
#: and in SAS, "?" and ".". An empty cell always does. Pass `na=` where one of these is a value of yours.
DEFAULT_NA: tuple[str, ...] = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "<NA>", "#NA", "#N/A", "#N/A N/A"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "?", "."),
)
#: In small letters: texts that stand for one where the other cells are numbers, dates or booleans.
_NEVER_A_NUMBER = frozenset(
    [text.lower() for text in DEFAULT_NA]
    + ["none", "nil", "nat", "n.a.", "n. a.", "missing", "unknown", "-", "--", "---", "–", "—", "..", "...", "*"]
    + ["#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#error!"]  # a spreadsheet's errors
)
_FEWEST_CELLS = 2  # with a code, to suspect one
_FEWEST_VALUES = 5  # beside a code of one digit
_YEARS = (1753, 1899, 1900, 1970, 2099, 2999, 9999)  # of the first and the last day that some program knows


def is_never_a_number(text: str) -> bool:
    """Whether a text among numbers, dates or booleans says that there is none.

    >>> is_never_a_number(" #N/A"), is_never_a_number("–"), is_never_a_number("refused")
    (True, True, False)
    """
    return text.strip().lower() in _NEVER_A_NUMBER


def never_numbers(values: Iterable[Any]) -> tuple[str, ...]:
    """Such texts among values of all types, once each."""
    return tuple(dict.fromkeys(v for v in values if isinstance(v, str) and is_never_a_number(v)))


def suspected(values: NDArray[Any]) -> tuple[Any, ...]:
    """Numbers or dates that look like codes: repeated, far outside the others, and such as people choose.

    >>> suspected(np.array([31, 52, 47, -999, 28, -999, 64])), suspected(np.array([1, 0, -1, 1, 0, -1]))
    ((-999,), ())
    """
    if values.dtype.kind not in "iufM" or not len(values):
        return ()
    if not _chosen(np.array([values.min(), values.max()])).any():  # most columns end here
        return ()
    seen, cells = np.unique(values, return_counts=True)
    chosen = _chosen(seen)
    if chosen.all() or not chosen.any():
        return ()
    x = seen.astype("M8[s]").astype(np.float64) / UNITS["s"] if seen.dtype.kind == "M" else seen.astype(np.float64)
    low, high = x[~chosen].min(), x[~chosen].max()
    away = np.maximum(low - x, x - high)
    far = away > high - low
    if seen.dtype.kind != "M":
        small, few = np.abs(x) < 10, (~chosen).sum() < _FEWEST_VALUES  # -1 beside 0 and 1 is a value like them
        far = (far | ((x < 0) & (low >= 0))) & ~(small & few)
    return tuple(scalars(seen[chosen & far & (cells >= _FEWEST_CELLS)]))


def _chosen(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Which numbers people choose for codes: 99 and 97, 8888, all these with a minus, and -1 … -9; which dates."""
    if x.dtype.kind == "M":
        return np.isin(x.astype("M8[Y]").astype(int) + 1970, _YEARS)
    size = np.abs(x.astype(np.float64))
    lengths = 10.0 ** np.arange(2, 8)
    nines = np.concatenate([lengths - j for j in range(1, 5)])
    repeated = np.concatenate([digit * (lengths - 1) / 9 for digit in (7, 8)])
    small = (x < 0) & (size <= 9) & (size == np.rint(size))
    return np.isin(size, np.concatenate([nines, repeated])) | small
