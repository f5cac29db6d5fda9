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
    shaded: bool = False  # by a number from 0 to 1


def name_cell(label: Any) -> Cell:
    return Cell(f'<span class="name">{text(label)}</span>')


def number_cell(x: float | None, shown: str | None = None) -> Cell:
    if x is None or math.isnan(x):
        return Cell("", -math.inf)
    return Cell(text(number(x) if shown is None else shown), x)


def bar_cell(share: float) -> Cell:
    """A share as a number and as a bar."""
    bar = f'<span class="bar"><i style="width:{100 * min(max(share, 0), 1):.1f}%"></i></span>'
    return Cell(f'{bar}<span class="n">{percent(share)}</span>', share)


def ends_cell(low: float, middle: float, high: float, end: float) -> Cell:
    """A range as a line from 0 to `end`, with a point on it."""
    left, at, right = (100 * min(x, end) / end for x in (low, middle, high))
    line = f'<i style="left:{left:.1f}%;width:{max(0.5, right - left):.1f}%"></i><b style="left:{at:.1f}%"></b>'
    return Cell(f'<span class="sure">{line}</span>', middle, right=False)


def share_cell(share: float | None) -> Cell:
    return Cell("", -math.inf) if share is None else Cell(percent(share), share)


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
        body.append(f"<tr{attribute('data-column', about)}>{''.join(map(_cell, cells))}</tr>")
    said = f"<caption>{words(caption)}</caption>" if caption else ""
    tall = " tall" if len(lines) > _TALL else ""
    parts = f"{said}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<div class="scroll{tall}"><table class="sortable {kind}">{parts}</table></div>'


def _cell(cell: Cell) -> str:
    if cell.value is None:
        return f"<td>{cell.shown}</td>"
    known = math.isfinite(cell.value)
    shade = f' style="--s:{100 * cell.value:.0f}"' if cell.shaded and known else ""
    return f'<td{_side(cell)} data-v="{cell.value if known else ""}"{shade}>{cell.shown}</td>'


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
        rest = f'<div class="cards">{"".join(shown[first:])}</div>'
        out += f'<details class="more"><summary>{len(shown) - first:,} more {what}</summary>{rest}</details>'
    return out
