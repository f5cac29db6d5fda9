"""Tables for a notebook. Names and cells are a user's own and may hold markup, so all of them are escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def html_table(header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str = "", note: str = "") -> str:
    """
    >>> html_table(["column"], [["<b>"]])
    '<table><thead><tr><th>column</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = f"<caption>{_text(caption)}</caption>" if caption else ""
    body = "".join(_row("td", cells) for cells in rows)
    foot = f"<p>{_text(note)}</p>" if note else ""
    return f"<table>{head}<thead>{_row('th', header)}</thead><tbody>{body}</tbody></table>{foot}"


def _row(tag: str, cells: Sequence[Any]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(value: Any) -> str:
    return html.escape(str(value))
