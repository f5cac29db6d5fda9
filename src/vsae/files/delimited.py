"""CSV, TSV and other delimited files: typed columns, and the records as they were to set filled cells into."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vsae.data.schema import repeated
from vsae.files.dialect import DELIMITED, Dialect, unquote
from vsae.files.notations import Decimal, Notation, Text, Unknown, Whole, filled_texts, notation_of
from vsae.files.storage import FileError, TextSource
from vsae.files.values import Columns, as_text, with_missing
from vsae.table.errors import counted
from vsae.table.missing_codes import is_never_a_number

_FEW_WORDS = 5  # among numbers, that may stand for missing values


@dataclass
class Delimited:
    """A delimited file's records as they were, and how its columns write their cells."""

    formats: ClassVar[tuple[str, ...]] = tuple(DELIMITED)

    source: TextSource
    format: str
    dialect: Dialect
    records: list[str]  # header, rows and blank lines, raw; an empty one at the end if a newline ends the file
    header: int  # index of the header in records
    rows: list[int]  # index of each row in records
    notations: dict[str, Notation]
    quoted: dict[str, bool]  # whether all observed cells of a column are in quotes, so that filled ones are too
    notes: tuple[str, ...] = ()  # on cells that were not taken for what they are at first sight

    def render(self, filled: Any, data: Columns, target: str) -> bytes:
        records = self.records.copy()
        for row, cells in filled_texts(self.source.where, self.notations, data, filled).items():
            records[self.rows[row]] = self._refilled(records[self.rows[row]], cells)
        # A .txt may have any delimiter, so it keeps this file's.
        delimiter = self.dialect.delimiter if target in (self.format, "txt") else DELIMITED[target]
        if delimiter != self.dialect.delimiter:
            other = Dialect(delimiter, self.dialect.newline)
            for index in (self.header, *self.rows):
                records[index] = self._redelimited(records[index], other)
        return self.source.encode(self.dialect.newline.join(records))

    def _refilled(self, record: str, cells: Mapping[str, str]) -> str:
        fields, end = self.dialect.split(record)
        for number, (name, notation) in enumerate(self.notations.items()):
            if name in cells:
                old, new = fields[number], cells[name]
                quoted = old.startswith('"') or self.quoted[name]
                if not quoted and not isinstance(notation, Text):
                    new = old[: len(old) - len(old.lstrip())] + new  # "1, ?, 3" keeps its spaces
                fields[number] = self.dialect.quote(new, quoted)
        return self.dialect.delimiter.join(fields) + end

    def _redelimited(self, record: str, other: Dialect) -> str:
        fields, end = self.dialect.split(record)
        return other.delimiter.join(other.quote(unquote(raw), raw.startswith('"')) for raw in fields) + end


def read(
    source: TextSource, text: str, format: str, delimiter: str | None, na: frozenset[str]
) -> tuple[Columns, Delimited]:
    """The typed columns of `text`, in which the texts of `na` stand for missing values, and its layout."""
    dialect = Dialect.of(source.where, text, format, delimiter)
    names: list[str] = []
    records: list[str] = []
    rows = []
    for line, record, fields in dialect.scan(source.where, text):
        if not names and record.strip():
            names, header = _names(f"{source.where}: line {line}", fields), len(records)
            cells = _Cells(len(names))
        elif len(fields) == len(names):
            rows.append(len(records))
            cells.add(fields)
        elif record.strip():
            raise FileError(
                f"{source.where}: line {line}: {counted(len(fields), 'field')} instead of {len(names)}; "
                f"correct the line, or pass --delimiter if it is not {dialect.delimiter!r}"
            )
        records.append(record)  # a blank line is no row, but stays where it is
    if text.endswith(dialect.newline):
        records.append("")

    columns: Columns = {}
    notations: dict[str, Notation] = {}
    quoted: dict[str, bool] = {}
    notes = []
    for name, column in zip(names, cells.columns(), strict=True):
        found = _parse_column(column, dialect.delimiter, na)
        columns[name], notations[name], quoted[name] = found.values, found.notation, found.quoted
        notes += [f"{source.where}: column {name!r}: {said}" for said in found.said]
    return columns, Delimited(source, format, dialect, records, header, rows, notations, quoted, tuple(notes))


def dump(columns: Mapping[str, list[Any]], delimiter: str) -> str:
    """A delimited text of plain values."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(as_text, column) for column in columns.values()), strict=True))
    return out.getvalue()


class _Cells:
    """The columns' cells while they are read, joined to long texts: a string each takes six times the room.

    It is faster too: strings that were made one after the other lie beside each other in memory.
    """

    def __init__(self, width: int) -> None:
        self.block: list[list[str]] = []  # the last rows, not yet joined
        self.pieces: list[list[str | tuple[str, ...]]] = [[] for _ in range(width)]

    def add(self, fields: list[str]) -> None:
        self.block.append(fields)
        if len(self.block) * len(fields) > 100_000:
            self._join()

    def _join(self) -> None:
        for number, cells in enumerate(zip(*self.block, strict=True)):
            joined = "\n".join(cells)
            self.pieces[number].append(joined if joined.count("\n") == len(cells) - 1 else cells)
        self.block.clear()

    def columns(self) -> Iterator[list[str]]:
        """Each column's cells, once."""
        self._join()
        for pieces in self.pieces:
            yield [cell for piece in pieces for cell in (piece.split("\n") if isinstance(piece, str) else piece)]
            pieces.clear()


class _Parsed(NamedTuple):
    values: np.ndarray
    notation: Notation
    quoted: bool  # whether all observed cells are in quotes
    said: list[str]  # of cells that were not taken for what they are at first sight


def _parse_column(cells: list[str], delimiter: str, na: frozenset[str]) -> _Parsed:
    """The typed values and their notation, worked out on the different cells only.

    >>> _parse_column(["1", "", "3", "-"], ",", frozenset([""]))
    _Parsed(values=array([ 1., nan,  3., nan]), notation=Whole(missing=True), quoted=False, said=["'-' was read as
    missing"])
    """
    # Of cells that are mostly different, the different ones are not worth finding.
    sample = cells[:4096]
    repeated = len(set(sample)) * 2 < len(sample)
    different = list(dict.fromkeys(cells)) if repeated else cells
    texts = list(map(unquote, different)) if '"' in "".join(different) else different
    bare = list(map(str.strip, texts))
    absent = list(map(na.__contains__, bare))
    observed = [text for text, gone in zip(bare, absent, strict=True) if not gone]
    notation, said = notation_of(observed, any(absent), delimiter), []
    if isinstance(notation, Text):
        words = list(filter(is_never_a_number, observed))
        less = notation_of([text for text in observed if not is_never_a_number(text)], True, delimiter)
        if words and not isinstance(less, Text | Unknown):
            notation, said = less, [f"{_listed(words)} {_was(words)} read as missing"]
            absent = [gone or is_never_a_number(text) for text, gone in zip(bare, absent, strict=True)]
            observed = [text for text, gone in zip(bare, absent, strict=True) if not gone]
        else:
            said = _almost_numbers(observed)
            observed = [text for text, gone in zip(texts, absent, strict=True) if not gone]  # spaces are the text's own
    values = with_missing(absent, notation.parse(observed))
    if repeated:
        place = {cell: number for number, cell in enumerate(different)}
        values = values[np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))]
    quoted = bool(observed) and all(gone or raw.startswith('"') for raw, gone in zip(different, absent, strict=True))
    return _Parsed(values, notation, quoted, said)


def _almost_numbers(texts: list[str]) -> list[str]:
    """What to say of a text column that is numbers but for a few words."""
    words = list(
        dict.fromkeys(text for text in texts if not isinstance(notation_of([text], True, ","), Whole | Decimal))
    )
    if not 0 < len(words) <= min(_FEW_WORDS, len(texts) / 5):
        return []
    return [f"its cells are numbers but for {_listed(words)}; if that stands for a missing value, say so with --na"]


def _listed(texts: list[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(texts)))


def _was(texts: list[str]) -> str:
    return "was" if len(set(texts)) == 1 else "were"


def _names(where: str, header: list[str]) -> list[str]:
    """The header's names; each column must have one of its own."""
    names = [unquote(name).strip() for name in header]
    empty = [str(number) for number, name in enumerate(names, 1) if not name]
    if empty:
        raise FileError(
            f"{where}: no name in the header for column {', '.join(empty[:5])}; "
            "give each column a name (an index is left out by to_csv(index=False))"
        )
    twice = list(map(repr, repeated(names)))
    if twice:
        shown = ", ".join(twice[:5]) + (", ..." if len(twice) > 5 else "")
        raise FileError(
            f"{where}: the header has {shown} more than once; "
            "give each column its own name (and add a header line if there is none)"
        )
    return names
