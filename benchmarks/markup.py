"""What the pages made from rows share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

MADE = "<!-- made by `python -m benchmarks tables` from {source}; do not edit -->"
MECHANISMS = {"self": "self-masking"}  # the others are abbreviations


def markdown(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; the first column is left-aligned, the others right.

    >>> print(markdown(["a", "b"], [["x", 1]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    headings = list(headings)
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    text = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    text[1] = text[1].replace(" ", "")
    return "\n".join(text)


# --- words


def paragraph(*sentences: str) -> str:
    text = " ".join(sentence for sentence in sentences if sentence)
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def count_of(number: int, noun: str) -> str:
    """
    >>> count_of(1, "run"), count_of(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def mask_name(mechanism: str, rate: float) -> str:
    """
    >>> mask_name("mcar", 0.5)
    'MCAR 0.5'
    """
    return f"{MECHANISMS.get(mechanism, mechanism.upper())} {rate:g}"


def all_values(rows: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    """All values that the rows have there, in order."""
    values = sorted({row[key] for row in rows if row[key] is not None})
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in values]


def short(seconds: float) -> str:
    """
    >>> short(0.001), short(0.123), short(4.56), short(78.9)
    ('< 0.01', '0.12', '4.6', '79')
    """
    return "< 0.01" if seconds < 0.01 else f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"
