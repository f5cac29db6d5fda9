"""JSON-lines, one object per row: typed columns, and the lines as they were to set filled values into."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from vsae.files.notations import Notation, Unknown, filled_texts
from vsae.files.storage import FileError, TextSource
from vsae.files.values import Columns, with_missing
from vsae.table.cells import objects
from vsae.table.missing_codes import is_never_a_number
from vsae.table.notations import Boolean, Decimal, Text, Whole
from vsae.table.stamps import date_notation


@dataclass
class JsonLines:
    """The lines as they were, and how the keys write their values."""

    formats: ClassVar[tuple[str, ...]] = ("jsonl",)

    source: TextSource
    lines: list[str]
    rows: list[int]  # index of each row in lines; the others are blank
    notations: dict[str, Notation]
    strings: set[str]  # the keys whose values are strings

    def render(self, filled: Any, data: Columns, target: str) -> bytes:
        lines = self.lines.copy()
        escape = all(map(str.isascii, lines))  # such a file may go where only ASCII is read
        for row, texts in filled_texts(self.source.where, self.notations, data, filled).items():
            for name in self.strings & texts.keys():
                texts[name] = json.dumps(texts[name], ensure_ascii=escape)
            lines[self.rows[row]] = _spliced(lines[self.rows[row]], texts)
        return self.source.encode("\n".join(lines))


def read(source: TextSource, text: str, na: frozenset[str]) -> tuple[Columns, JsonLines]:
    """The typed columns of `text`, missing where null, NaN, absent or a string of `na`; and its layout."""
    lines = text.split("\n")
    rows = [number for number, line in enumerate(lines) if line.strip()]
    parsed = [_object(f"{source.where}: line {number + 1}", lines[number]) for number in rows]
    names = dict.fromkeys(name for row in parsed for name in row)
    if not names:
        raise FileError(f'{source.where}: the objects have no keys; each is a row such as {{"age": 31, "sex": null}}')
    columns: Columns = {}
    notations: dict[str, Notation] = {}
    strings: set[str] = set()
    for name in names:
        columns[name], notations[name], is_text = _column([row.get(name) for row in parsed], na)
        strings |= {name} if is_text else set()
    return columns, JsonLines(source, lines, rows, notations, strings)


def dump(columns: Mapping[str, list[Any]]) -> str:
    """A line of JSON per row of plain values."""
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = error.msg if isinstance(error, json.JSONDecodeError) else error
        raise FileError(f"{where}: this is not JSON ({what}); write one whole object per line") from None
    if not isinstance(row, dict):
        raise FileError(f"{where}: this is a {type(row).__name__}, not an object; write one object per line")
    return row


def _column(values: list[Any], na: frozenset[str]) -> tuple[np.ndarray, Notation, bool]:
    """The typed column of JSON values, its notation, and whether that is one of strings.

    >>> _column([1, None, 3], frozenset())
    (array([ 1., nan,  3.]), Whole(missing=True), False)
    """
    values = [None if value != value or (isinstance(value, str) and value in na) else value for value in values]
    absent = [value is None for value in values]
    observed = [value for value in values if value is not None]
    types = set(map(type, observed))
    if len(types) > 1 and str in types:  # words among numbers
        values = [None if isinstance(value, str) and is_never_a_number(value) else value for value in values]
        absent = [value is None for value in values]
        observed = [value for value in values if value is not None]
        types = set(map(type, observed))
    mixed = Unknown(functools.partial(json.dumps, default=str))  # nested values, several types, or none at all
    if not observed:
        return np.full(len(values), np.nan), mixed, False
    if types == {bool}:
        return objects(values), Boolean(("false", "true")), False
    if types == {int} and isinstance(notation := Whole.of(list(map(str, set(observed))), any(absent)), Whole):
        return with_missing(absent, notation.parse(observed)), notation, False
    if types in ({float}, {int, float}) and max(map(abs, observed)) <= sys.float_info.max:
        # Ten thousand numbers show how many decimals there are; the repr of all of them takes long.
        shown = list(map(repr, islice(dict.fromkeys(map(float, observed)), 10_000)))
        return with_missing(absent, np.array(observed, dtype=float)), Decimal.of(shown) or Decimal(None), False
    if types == {str}:
        texts = list(dict.fromkeys(observed))
        found = date_notation(texts) or Decimal.affixed(texts)
        if found is None or (isinstance(found, Decimal) and found.is_bare):  # a string of digits is no number in JSON
            return objects(values), Text(), True
        return with_missing(absent, found.parse(observed)), found, True
    return objects(values), mixed, False


def _spliced(line: str, texts: Mapping[str, str]) -> str:
    """`line` with the given JSON texts as values; every other character stays, and new keys are spaced like the old.

    >>> _spliced('{"a": null, "b": 1.50}', {"a": "2", "c": '"x"'})
    '{"a": 2, "b": 1.50, "c": "x"}'
    """
    decoder = json.JSONDecoder()
    spans: dict[str, tuple[int, int]] = {}  # of each key's value
    colon = gap = ""  # as between the first key and its value, and between the first two pairs
    end = line.index("{") + 1  # of the last value
    at = _skip_space(line, end)
    while line[at] != "}":
        key, key_end = decoder.raw_decode(line, at)
        start = _skip_space(line, _skip_space(line, key_end) + 1)
        _, end = decoder.raw_decode(line, start)
        spans[key] = start, end
        colon = colon or line[key_end:start]
        at = _skip_space(line, end)
        if line[at] == ",":
            at = _skip_space(line, at + 1)
            gap = gap or line[end:at]
    colon = colon or ": "
    gap = gap or (", " if colon.endswith(" ") else ",")
    pieces = [(spans[key], text) for key, text in texts.items() if key in spans]
    added = [f"{json.dumps(key)}{colon}{text}" for key, text in texts.items() if key not in spans]
    if added:
        pieces.append(((end, end), (gap if spans else "") + gap.join(added)))
    for (start, stop), text in sorted(pieces, reverse=True):  # from the right, so that positions stay true
        line = line[:start] + text + line[stop:]
    return line


def _skip_space(line: str, at: int) -> int:
    while line[at] in " \t\r\n":
        at += 1
    return at
