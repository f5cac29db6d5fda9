"""CSV, TSV and other delimited files: typed columns, and the records as they were to set filled cells into."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vsae.data.schema import repeated
from vsae.files.dialect import DELIMITED, Dialect, unquote
from vsae.files.notations import Notation, Unknown, filled_texts, notation_of
from vsae.files.storage import FileError, TextSource
from vsae.files.values import Columns, as_text, with_missing
from vsae.table.errors import counted
from vsae.table.missing_codes import is_never_a_number
from vsae.table.notations import Boolean, Decimal, Text, Whole, is_number
from vsae.table.specs import Spec
from vsae.table.stamps import IsoDate, IsoMoment, Stamp

_INDEX = "Unnamed: 0"  # pandas' name for a column without one, which holds the numbers or names of rows
_SEPARATOR = re.compile(r'"?sep=(.)"?[ \t]*\r?\n', re.I)  # Excel's hint
_FIRST = 20  # records, by which to tell whether there is a header
_FEW_WORDS = 5  # among numbers, that may stand for missing values


@dataclass
class Delimited:
    """A delimited file's records as they were, and how its columns write their cells."""

    formats: ClassVar[tuple[str, ...]] = tuple(DELIMITED)

    source: TextSource
    format: str
    dialect: Dialect
    preamble: str  # a first line that names the delimiter, as Excel has it
    records: list[str]  # header, rows and blank lines, raw; an empty one at the end if a newline ends the file
    header: int | None  # index of the header in records
    rows: list[int]  # index of each row in records
    notations: dict[str, Notation]
    quoted: dict[str, bool]  # whether all observed cells of a column are in quotes, so that filled ones are too
    notes: tuple[str, ...] = ()  # on what was not taken for what it is at first sight

    def render(self, filled: Any, data: Columns, target: str) -> bytes:
        records = self.records.copy()
        for row, cells in filled_texts(self.source.where, self.notations, data, filled).items():
            records[self.rows[row]] = self._refilled(records[self.rows[row]], cells)
        # A .txt may have any delimiter, so it keeps this file's.
        delimiter = self.dialect.delimiter if target in (self.format, "txt") else DELIMITED[target]
        preamble = self.preamble
        if delimiter != self.dialect.delimiter:
            other, preamble = Dialect(delimiter, self.dialect.newline), ""
            for index in (*([] if self.header is None else [self.header]), *self.rows):
                records[index] = self._redelimited(records[index], other)
        return self.source.encode(preamble + self.dialect.newline.join(records))

    def _refilled(self, record: str, cells: Mapping[str, str]) -> str:
        fields, end = self.dialect.split(record)
        for number, (name, notation) in enumerate(self.notations.items()):
            if name in cells:
                old, new = fields[number], cells[name]
                quoted = old.lstrip().startswith('"') or self.quoted[name]
                fields[number] = self.dialect.refilled(number, old, new, quoted, isinstance(notation, Text))
        return self.dialect.joined(fields) + end

    def _redelimited(self, record: str, other: Dialect) -> str:
        fields, end = self.dialect.split(record)
        if self.dialect.delimiter == " ":
            fields, end = [field.strip() for field in fields], end.strip(" ")
        return other.joined([other.quote(unquote(raw), raw.startswith('"')) for raw in fields]) + end


class Asked(NamedTuple):
    """What the caller says of a text file."""

    delimiter: str | None = None
    na: frozenset[str] = frozenset([""])
    header: bool | None = None  # None: found out
    kinds: Mapping[str, Spec] = MappingProxyType({})  # of columns
    notations: Mapping[str, Notation] = MappingProxyType({})  # of columns, as another file had them
    settled: bool = False  # whether these are the notations, and not only the first to try


class Opening(NamedTuple):
    """What the first lines of a file tell of all."""

    preamble: str  # a line that names the delimiter
    dialect: Dialect
    has_header: bool
    notes: list[str]


def opening(source: TextSource, text: str, format: str, asked: Asked) -> Opening:
    found = _SEPARATOR.match(text)
    preamble, text = (found[0], text[found.end() :]) if found else ("", text)
    dialect = Dialect.of(source.where, text, format, asked.delimiter or (found[1] if found else None))
    if asked.header is not None:
        return Opening(preamble, dialect, asked.header, [])
    first = islice((fields for _, record, fields in dialect.scan(source.where, text) if record.strip()), _FIRST)
    if not _starts_with_a_row(list(first), asked.na):
        return Opening(preamble, dialect, True, [])
    said = "the first line was taken for a row; the columns are called c1, c2, … (--header if not)"
    return Opening(preamble, dialect, False, [said])


def read(source: TextSource, text: str, format: str, asked: Asked) -> tuple[Columns, Delimited]:
    """The typed columns of `text`, and its layout."""
    preamble, dialect, has_header, notes = opening(source, text, format, asked)
    scan = Scan(source.where, has_header)
    scan.add_all(dialect, text[len(preamble) :], lines_before=bool(preamble))
    layout = Delimited(source, format, dialect, preamble, scan.records, scan.header, scan.rows, {}, {})
    columns: Columns = {}
    for name, column in scan.columns():
        parsed = parse_column(column, dialect.delimiter, asked, name)
        columns[name], layout.notations[name], layout.quoted[name] = parsed.values, parsed.notation, parsed.quoted
        notes += [f"column {name!r}: {said}" for said in parsed.said]
    for name, other in swapped_orders(layout.notations).items():
        known = ~np.isnat(columns[name])
        columns[name][known] = other.parse(layout.notations[name].write(columns[name][known]))
        layout.notations[name] = other
    notes += doubts(layout.notations, asked)
    layout.notes = tuple(f"{source.where}: {note}" for note in notes)
    return columns, layout


def doubts(notations: Mapping[str, Notation], asked: Asked) -> list[str]:
    """What to say of notations that could have been others."""
    return [
        f"column {name!r}: {notation.doubt}; --schema can say what it is"
        for name, notation in notations.items()
        if isinstance(notation, Decimal | Stamp) and notation.doubt and name not in {*asked.notations, *asked.kinds}
    ]


class Scan:
    """Which records of a file are its header and its rows, and the cells of its columns."""

    def __init__(self, where: str, has_header: bool, names: Sequence[str] = ()) -> None:
        self.where, self.has_header = where, has_header
        self.names: list[str] = list(names)  # where they are known, there is no header
        self.header: int | None = None  # index in records
        self.records: list[str] = []
        self.rows: list[int] = []  # indices in records
        self.cells = _Cells()

    def add_all(self, dialect: Dialect, text: str, lines_before: int = 0) -> None:
        for line, record, fields in dialect.scan(self.where, text):
            if not self.add(lines_before + line, record, fields):
                few = f"{counted(len(fields), 'field')} instead of {len(self.names)}"
                remedy = f"correct the line, or pass --delimiter if it is not {dialect.delimiter!r}"
                raise FileError(f"{self.where}: line {lines_before + line}: {few}; {remedy}")
        if text.endswith(dialect.newline):
            self.records.append("")

    def add(self, line: int, record: str, fields: list[str]) -> bool:
        """Whether the record is the header, a row, or blank; a blank one is no row, but stays where it is."""
        known = not record.strip()
        if not self.names and record.strip():
            self.names = [f"c{number}" for number in range(1, len(fields) + 1)]
            if self.has_header:
                self.names, self.header = _names(f"{self.where}: line {line}", fields), len(self.records)
        if self.header == len(self.records) or self._add_row(fields):
            known = True
        self.records.append(record)
        return known

    def _add_row(self, fields: list[str]) -> bool:
        width = len(self.names)
        if len(fields) == width + 1 and fields[-1].strip() and not self.rows and self.header is not None:
            self.names = [_INDEX, *self.names]  # R has no name for the names of rows
        elif len(fields) > width and not any(map(str.strip, fields[width:])):
            fields = fields[:width]  # a delimiter at the end of each line
        if not self.names or len(fields) != len(self.names):
            return False
        self.rows.append(len(self.records))
        self.cells.add(fields)
        return True

    def columns(self) -> Iterator[tuple[str, list[str]]]:
        """Each name and its cells, once; without those of a delimiter at the end of all lines, the header's too."""
        for number, (name, column) in enumerate(zip(self.names, self.cells.columns(len(self.names)), strict=True), 1):
            if name:
                yield name, column
            elif any(map(str.strip, column)):
                raise _nameless(self.where, number)


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

    def __init__(self) -> None:
        self.block: list[list[str]] = []  # the last rows, not yet joined
        self.pieces: dict[int, list[str | tuple[str, ...]]] = defaultdict(list)

    def add(self, fields: list[str]) -> None:
        self.block.append(fields)
        if len(self.block) * len(fields) > 100_000:
            self._join()

    def _join(self) -> None:
        for number, cells in enumerate(zip(*self.block, strict=True)):
            joined = "\n".join(cells)
            self.pieces[number].append(joined if joined.count("\n") == len(cells) - 1 else cells)
        self.block.clear()

    def columns(self, width: int) -> Iterator[list[str]]:
        """The cells of each of `width` columns, once."""
        self._join()
        for number in range(width):
            pieces = self.pieces[number]
            yield [cell for piece in pieces for cell in (piece.split("\n") if isinstance(piece, str) else piece)]
            pieces.clear()


class Parsed(NamedTuple):
    values: np.ndarray
    notation: Notation
    quoted: bool  # whether all observed cells are in quotes
    said: list[str]  # of cells that were not taken for what they are at first sight


def parse_column(cells: list[str], delimiter: str, asked: Asked, name: str = "") -> Parsed:
    """The typed values and their notation, worked out on the different cells only.

    >>> parse_column(["1", "", "3", "-"], ",", Asked())
    Parsed(values=array([ 1., nan,  3., nan]), notation=Whole(missing=True), quoted=False, said=["'-' was read as
    missing"])
    """
    # Of cells that are mostly different, the different ones are not worth finding.
    sample = cells[:4096]
    repeated = len(set(sample)) * 2 < len(sample)
    different = list(dict.fromkeys(cells)) if repeated else cells
    texts = list(map(unquote, different)) if '"' in "".join(different) else different
    bare = list(map(str.strip, texts))
    absent = list(map(asked.na.__contains__, bare))
    observed = [text for text, gone in zip(bare, absent, strict=True) if not gone]

    def find(texts: list[str], missing: bool) -> Notation:
        before = asked.notations.get(name)
        if before is not None and texts and all(map(before.reads, texts)):  # as the model's own file wrote them
            return replace(before, missing=missing) if isinstance(before, Whole) else before
        return notation_of(texts, missing, delimiter, asked.kinds.get(name))

    notation, said = asked.notations[name] if asked.settled else find(observed, any(absent)), []
    if asked.settled and not isinstance(notation, Text):
        absent = [
            gone or (is_never_a_number(text) and not notation.reads(text))
            for text, gone in zip(bare, absent, strict=True)
        ]
        observed = [text for text, gone in zip(bare, absent, strict=True) if not gone]
    elif isinstance(notation, Text):
        words = [] if asked.settled else list(filter(is_never_a_number, observed))
        less = find([text for text in observed if not is_never_a_number(text)], True) if words else notation
        if not isinstance(less, Text | Unknown):
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
    return Parsed(values, notation, quoted, said)


def _almost_numbers(texts: list[str]) -> list[str]:
    """What to say of a text column that is numbers but for a few words."""
    if sum(map(is_number, texts[:100])) * 2 < len(texts[:100]):  # most columns of text end here
        return []
    words = list(dict.fromkeys(text for text in texts if not is_number(text)))
    if not 0 < len(words) <= min(_FEW_WORDS, len(texts) / 5):
        return []
    return [f"its cells are numbers but for {_listed(words)}; if that stands for a missing value, say so with --na"]


def _listed(texts: list[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(texts)))


def _was(texts: list[str]) -> str:
    return "was" if len(set(texts)) == 1 else "were"


def _starts_with_a_row(records: list[list[str]], na: frozenset[str]) -> bool:
    """Whether the first record holds values and not names: a date, or a number that is neither a year nor one of
    0, 1, 2, …; and no word above numbers.

    >>> _starts_with_a_row([["5.1", "3.5", "setosa"], ["4.9", "3.0", "virginica"]], frozenset())
    True
    >>> _starts_with_a_row([["mean", "25%", "75%"], ["4.9", "3.0", "5.1"]], frozenset())
    False
    """
    first, *others = [[unquote(field).strip() for field in fields] for fields in records] or [[]]
    notations = [notation_of([text] if text else [], True, ",") for text in first]
    for number, notation in enumerate(notations):
        below = [fields[number] for fields in others if number < len(fields) and fields[number] not in na]
        if below and isinstance(notation, Text) and not isinstance(notation_of(below, True, ","), Text | Boolean):
            return False
    if any(isinstance(notation, Decimal | IsoDate | IsoMoment | Stamp) for notation in notations):
        return True
    whole = [int(text) for text, notation in zip(first, notations, strict=True) if isinstance(notation, Whole)]
    steps = whole in ([*range(len(whole))], [*range(1, len(whole) + 1)])
    return not steps and not all(1000 <= number < 3000 for number in whole)


def swapped_orders(notations: Mapping[str, Notation]) -> dict[str, Stamp]:
    """Dates that may have the day or the month first are read as those of other columns, which can be read one way."""
    stamps = {name: n for name, n in notations.items() if isinstance(n, Stamp) and n.day_first is not None}
    sure = {n.day_first for n in stamps.values() if not n.doubt}
    return {
        name: notation.swapped()
        for name, notation in stamps.items()
        if notation.ambiguous and len(sure) == 1 and notation.day_first not in sure
    }


def _nameless(where: str, number: object) -> FileError:
    remedy = "give each column a name, or pass --no-header"
    return FileError(f"{where}: no name in the header for column {number}; {remedy}")


def _names(where: str, header: list[str]) -> list[str]:
    """The header's names; each column must have one of its own, but for an index at the start and a delimiter at the
    end."""
    names = [unquote(name).strip() for name in header]
    if len(names) > 1 and not names[0]:
        names[0] = _INDEX
    named = names[: max((number for number, name in enumerate(names, 1) if name), default=0)]
    empty = [str(number) for number, name in enumerate(named, 1) if not name]
    if empty or not named:
        raise _nameless(where, ", ".join(empty[:5]) or 1)
    twice = list(map(repr, repeated(named)))
    if twice:
        shown = ", ".join(twice[:5]) + (", ..." if len(twice) > 5 else "")
        remedy = "give each column its own name, or pass --no-header"
        raise FileError(f"{where}: the header has {shown} more than once; {remedy}")
    return names
