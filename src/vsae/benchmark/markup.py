"""What the pages made from rows share."""

from __future__ import annotations

from collections.abc import Iterable

MADE = "<!-- made by `vsae bench tables` from {source}; do not edit -->"


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
