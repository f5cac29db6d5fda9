"""HTML by hand: everything that comes from a table passes `text`, which leaves no markup in it."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

#: Characters that have no shape, or turn the line around.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_TALL = 24  # lines, beyond which a table scrolls


def text(value: Any) -> str:
    r"""
    >>> print(text("<b> & \x1b"))
    &lt;b&gt; &amp; �
    """
    return html.escape(_UNSEEN.sub("\ufffd", str(value)), quote=True)


def words(sentence: str) -> str:
    """A sentence, whose `names` are set apart.

    >>> words("`a<b` is missing")
    '<code>a&lt;b</code> is missing'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(sentence))


def cut(value: Any, most: int) -> str:
    """A label that fits into a figure, not escaped.

    >>> cut("systolic pressure", 9)
    'systolic…'
    """
    said = str(value)
    return said if len(said) <= most else said[: most - 1].rstrip() + "…"


def number(x: float) -> str:
    """
    >>> number(0.123456), number(1234567), number(float("nan")), number(12.0)
    ('0.123', '1,234,567', '', '12')
    """
    if math.isnan(x):
        return ""
    if float(x).is_integer() and abs(x) < 1e9:
        return f"{int(x):,}"
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e9 else f"{x:.3g}"


def percent(share: float) -> str:
    """
    >>> percent(0.123), percent(0.0004), percent(0), percent(1)
    ('12%', '0.04%', '0%', '100%')
    """
    if math.isnan(share):
        return ""
    p = 100 * share
    return f"{p:.0f}%" if p >= 9.95 or p == 0 else f"{p:.1f}%" if p >= 0.095 else f"{p:.1g}%"


def paragraph(*sentences: str, kind: str = "") -> str:
    said = " ".join(words(sentence) for sentence in sentences if sentence)
    return f"<p{attribute('class', kind)}>{said}</p>" if said else ""


def attribute(name: str, value: Any) -> str:
    return f' {name}="{text(value)}"' if value != "" else ""


class Cell(NamedTuple):
    """Of a table: what is shown, and the number it is sorted by."""

    shown: str  # HTML
    value: float | None = None  # None: a text
    right: bool = True  # where a number stands


def name_cell(label: Any) -> Cell:
    return Cell(f'<span class="name">{text(label)}</span>')


def number_cell(x: float | None, shown: str | None = None) -> Cell:
    if x is None or math.isnan(x):
        return Cell("", -math.inf)
    return Cell(text(number(x) if shown is None else shown), x)


def bar_cell(share: float) -> Cell:
    """A share as a number and as a bar."""
    width = f"{100 * min(max(share, 0), 1):.1f}"
    return Cell(f'<span class="bar"><i style="width:{width}%"></i></span><span class="n">{percent(share)}</span>', share)


def table(
    headings: Sequence[str], lines: Iterable[tuple[Any, Sequence[Cell]]], *, caption: str = "", kind: str = ""
) -> str:
    """Lines, each with the column of the user's table that it is about, by which lines are filtered."""
    lines, body = list(lines), []
    first = lines[0][1] if lines else [Cell("")] * len(headings)
    head = "".join(
        f'<th scope="col"{_side(cell)}>{text(heading)}</th>' for heading, cell in zip(headings, first, strict=True)
    )
    for about, cells in lines:
        shown = "".join(
            f"<td>{cell.shown}</td>"
            if cell.value is None
            else f'<td{_side(cell)} data-v="{cell.value if math.isfinite(cell.value) else ""}">{cell.shown}</td>'
            for cell in cells
        )
        body.append(f"<tr{attribute('data-column', about)}>{shown}</tr>")
    said = f"<caption>{words(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll{" tall" if len(lines) > _TALL else ""}"><table class="sortable {kind}">{said}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _side(cell: Cell) -> str:
    return ' class="r"' if cell.value is not None and cell.right else ""


def card(label: Any, body: str, note: str = "", *, kind: str = "") -> str:
    """A figure of one column."""
    said = f'<p class="note">{note}</p>' if note else ""
    return (
        f'<figure class="card {kind}"{attribute("data-column", label)}>'
        f"<figcaption>{text(label)}</figcaption>{body}{said}</figure>"
    )


def cards(shown: Sequence[str], first: int, what: str = "columns") -> str:
    """The first ones, and the others to open."""
    out = f'<div class="cards">{"".join(shown[:first])}</div>'
    if len(shown) > first:
        more = f"{len(shown) - first:,} more {what}"
        out += f'<details class="more"><summary>{more}</summary><div class="cards">{"".join(shown[first:])}</div></details>'
    return out
