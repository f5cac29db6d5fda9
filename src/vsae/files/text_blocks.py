"""Blocks of delimited text: whole records of a few megabytes.

How columns are written is decided by all rows, as in a file that is read at once: each block is judged for itself and,
where it differs from what held so far, by its texts together with those that decided before. A pass in which that
changed something is repeated, so that in the end one notation a column has read every row.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from vsae.files import FileTable
from vsae.files.blocks import Block, Blocks, cannot_stream
from vsae.files.delimited import Asked, Delimited, Opening, Parsed, Scan, doubts, opening, parse_column, swapped_orders
from vsae.files.dialect import DELIMITED, Dialect, FixedWidth, unquote
from vsae.files.notations import Notation, Unknown
from vsae.files.sources import InputFile
from vsae.files.storage import FileError, FileFormat, TextSource, decode, not_utf8
from vsae.files.values import as_text
from vsae.table.missing_codes import is_never_a_number
from vsae.table.notations import Text, Whole

PIECE = 2**22  # bytes of a block
_LONGEST = 2**26  # bytes of a record: a quote that closes so late does not close
_HEAD = 2**20  # bytes, by which to tell the delimiter and whether there is a header
_ONE_BYTE = ("utf-8", "cp1252", "latin-1")  # tried in this order; in all of them a line ends with the same byte


class _Piece(NamedTuple):
    """Whole records of a file."""

    start: int  # byte
    end: int
    line: int  # lines before it
    text: str


@dataclass
class _Judged:
    """How a column is written, by all cells so far."""

    notation: Notation
    quoted: bool
    evidence: list[str] = field(default_factory=list)  # raw cells that decided it, a missing one among them
    missing: bool = False
    said: list[str] = field(default_factory=list)


class TextBlocks(Blocks):
    """Files of one delimiter and one header."""

    formats: ClassVar[tuple[str, ...]] = tuple(DELIMITED)

    def __init__(
        self,
        files: list[InputFile],
        format: FileFormat,
        asked: Asked,
        encoding: str | None = None,
        piece: int | None = None,
    ) -> None:
        if format.compression:
            raise cannot_stream(str(files[0].path), f"a file with {format.compression} around it")
        self.files, self.format, self.piece = files, format, piece or PIECE
        self.sources: list[TextSource] = []
        self.openings: list[Opening] = []
        self.carriages: list[bool | None] = []  # whether lines end in "\r\n"; None: there is but one
        for file in files:
            self._open(file, asked, encoding)
        self.names: list[str] = []
        found = self._judged(asked, encoding)
        notations = {name: judged.notation for name, judged in found.items()}
        notations |= swapped_orders(notations)
        self.quoted = {name: judged.quoted for name, judged in found.items()}
        self.asked = asked._replace(notations=notations, settled=True)
        self._check_partitions()
        self.columns = [*notations, *files[0].partitions]
        notes = self.openings[0].notes + [f"column {name!r}: {said}" for name, j in found.items() for said in j.said]
        others = [not_utf8(s.where, s.encoding) for s in self.sources if encoding is None and s.encoding != "utf-8"]
        self.notes = (*others, *(f"{files[0].path}: {note}" for note in notes + doubts(notations, asked)))

    @property
    def notations(self) -> dict[str, Notation]:
        return dict(self.asked.notations)

    # --- the first lines

    def _open(self, file: InputFile, asked: Asked, encoding: str | None) -> None:
        with file.path.open("rb") as raw:
            head = raw.read(_HEAD)
        if len(head) == _HEAD:
            head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1 or None]
        text, source, _ = decode(str(file.path), head, encoding)
        if source.encoding.startswith(("utf-16", "utf-32")):
            raise cannot_stream(str(file.path), f"text in {source.encoding}")
        delimiter = self.openings[0].dialect.delimiter if self.openings else asked.delimiter
        found = opening(source, text, self.format.name, asked._replace(delimiter=delimiter))
        if isinstance(found.dialect, FixedWidth):
            raise cannot_stream(str(file.path), "columns of fixed widths")
        self.sources.append(replace(source, encoding=(encoding and source.encoding) or _ONE_BYTE[0]))
        self.openings.append(found if not self.openings else found._replace(has_header=self.openings[0].has_header))
        before, newline, _ = text.partition(found.dialect.newline)
        self.carriages.append(before.endswith("\r") if newline else None)

    # --- all lines: where blocks begin, and how columns are written

    def _judged(self, asked: Asked, encoding: str | None) -> dict[str, _Judged]:
        found: dict[str, _Judged] = {}
        while not self._pass(found, asked, encoding):
            pass
        return found

    def _pass(self, found: dict[str, _Judged], asked: Asked, encoding: str | None) -> bool:
        """One pass over all files; whether it confirms what was known before it, or is the first to know anything."""
        self.blocks, self.names, same = [], [], True
        for number, file in enumerate(self.files):
            names: list[str] = []
            try:
                for piece in self._pieces(number):
                    scan = self._scan(number, piece, names)
                    names = scan.names
                    self._check_names(file, names)
                    self._add_block(number, piece, len(scan.rows))
                    for name, cells in scan.columns():
                        parse = _parser(name, self.openings[0].dialect, asked)
                        same &= _judge(found, name, cells, parse)
            except UnicodeDecodeError:
                self._try_next_encoding(number, encoding)
                return False
        if not self.rows:
            raise FileError(f"{self.files[0].path}: there are no rows; give at least one")
        return same

    def _try_next_encoding(self, number: int, given: str | None) -> None:
        source = self.sources[number]
        place = _ONE_BYTE.index(source.encoding) + 1 if source.encoding in _ONE_BYTE else len(_ONE_BYTE)
        if given is not None or place == len(_ONE_BYTE):
            raise FileError(f"{source.where}: this is not {source.encoding}; pass the right --encoding") from None
        self.sources[number] = replace(source, encoding=_ONE_BYTE[place])

    def _pieces(self, number: int) -> Iterator[_Piece]:
        """The file in pieces of whole records, from its beginning."""
        source, dialect = self.sources[number], self.openings[number].dialect
        newline, start, line, kept = dialect.newline.encode(), 0, 0, b""
        with self.files[number].path.open("rb") as raw:
            while True:
                more = raw.read(self.piece)
                kept += more
                end = kept.rfind(newline) + 1 if more else len(kept)
                text = kept[:end].decode(source.encoding)
                if more and '"' in text:
                    text = text[: self._complete(dialect, text)]
                    end = len(text.encode(source.encoding))
                if text:
                    yield _Piece(start, start + end, line, text)
                    start, line, kept = start + end, line + text.count(dialect.newline), kept[end:]
                if not more:
                    return
                if len(kept) > _LONGEST:
                    raise FileError(f"{source.where}: line {line + 1}: its record does not end; close its quote")

    def _complete(self, dialect: Dialect, text: str) -> int:
        """The letters of the records that end within the text: a quote may be open at its end."""
        length = 0
        try:
            for _, record, _ in dialect.scan("", text):
                length += len(record) + len(dialect.newline)
        except FileError:
            pass
        return min(length, len(text))

    def _scan(self, number: int, piece: _Piece, names: Sequence[str]) -> Scan:
        first, source = self.openings[number], self.sources[number]
        scan = Scan(source.where, first.has_header and not names, names)
        scan.add_all(first.dialect, self._body(number, piece.start, piece.text), piece.line)
        return scan

    def _body(self, number: int, start: int, text: str) -> str:
        """Without what stands before the first line of a file."""
        if start:
            return text
        return text.removeprefix(self.sources[number].bom).removeprefix(self.openings[number].preamble)

    def _check_names(self, file: InputFile, names: list[str]) -> None:
        """The same columns in all files, in the same order."""
        self.names = self.names or names
        if names == self.names:
            return
        first = self.files[0].path
        for name in self.names:
            if name not in names:
                raise FileError(f"{file.path}: column {name!r} is missing, which {first} has; add it")
        for name in names:
            if name not in self.names:
                raise FileError(f"{file.path}: column {name!r} is not in {first}; drop it, or add it there")
        raise FileError(f"{file.path}: its columns have another order than those of {first}; bring them into one")

    def _check_partitions(self) -> None:
        if both := [name for name in self.files[0].partitions if name in self.names]:
            where = self.files[0].path
            raise FileError(f"{where}: column {both[0]!r} is in the file and in the name of its folder; drop one")

    def _add_block(self, file: int, piece: _Piece, rows: int) -> None:
        first = self.blocks[-1].first_row + self.blocks[-1].rows if self.blocks else 0
        self.blocks.append(Block(len(self.blocks), file, first, rows, piece.start, piece.end))

    # --- blocks

    def read(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, FileTable]]:
        for number, some in groupby(blocks, key=lambda block: block.file):
            source, file = self.sources[number], self.files[number]
            with file.path.open("rb") as raw:
                for block in some:
                    raw.seek(block.start)
                    text = raw.read(block.end - block.start).decode(source.encoding)
                    yield block, self._table(number, block, text)

    def _table(self, number: int, block: Block, text: str) -> FileTable:
        source, first = self.sources[number], self.openings[number]
        preamble = first.preamble if block.start == 0 else ""
        source = source if block.start == 0 else replace(source, bom="")
        begins = block.start == 0 and first.has_header
        scan = Scan(source.where, begins, () if begins else self.names)
        scan.add_all(first.dialect, self._body(number, block.start, text))
        layout = Delimited(
            source, self.format.name, first.dialect, preamble, scan.records, scan.header, scan.rows,
            self.notations, self.quoted,
        )  # fmt: skip
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for name, cells in scan.columns():
            columns[name] = parse_column(cells, first.dialect.delimiter, self.asked, name).values
        for name, value in self.files[number].partitions.items():
            columns[name] = np.full(len(scan.rows), value, dtype=object)
        return FileTable(columns, self.format, source.encoding, (), layout)

    @property
    def style(self) -> str:
        return repr((self.sources, self.openings, self.carriages, self.notations, self.quoted))

    def part(self, block: Block, table: FileTable, filled: Any, *, whole: bool = False) -> bytes:
        layout = table.layout
        if whole and len(self.files) > 1 and isinstance(layout, Delimited):
            layout = self._in_one_file(block, layout, {**cast(Any, table.data), **filled})
        return layout.render(filled, table.data, self.format.name)

    def _in_one_file(self, block: Block, layout: Delimited, values: dict[str, Any]) -> Delimited:
        """The block as it goes on after those before it: one header, one encoding, one line end, and the columns that
        folders say."""
        layout = self._with_partitions(layout, values)
        if block.file and layout.header is not None:
            cut = layout.header + 1
            layout = replace(layout, records=layout.records[cut:], rows=[row - cut for row in layout.rows], header=None)
        carriage = next((each for each in self.carriages if each is not None), False)
        records = layout.records.copy()
        if self.carriages[block.file] not in (carriage, None):
            records = [_with_end(record, carriage) for record in records[:-1]] + records[-1:]
        if records and records[-1] and block.number + 1 < len(self.blocks):  # no newline at the end of a file
            records = [*records[:-1], _with_end(records[-1], carriage), ""]
        if not block.file:
            return replace(layout, records=records)
        source = replace(self.sources[0], where=layout.source.where, bom="")
        dialect = replace(layout.dialect, newline=self.openings[0].dialect.newline)
        return replace(layout, source=source, dialect=dialect, preamble="", records=records)

    def _with_partitions(self, layout: Delimited, values: dict[str, Any]) -> Delimited:
        names = list(self.files[0].partitions)
        if not names:
            return layout
        records, dialect = layout.records.copy(), layout.dialect
        if layout.header is not None:
            records[layout.header] = dialect.widened(records[layout.header], len(self.names), names)
        for number, row in enumerate(layout.rows):
            texts = [as_text(values[name][number]) for name in names]
            records[row] = dialect.widened(records[row], len(self.names), texts)
        return replace(layout, records=records)

    def join(self, parts: Sequence[Path], beside: Path, format: FileFormat, *, whole: bool) -> None:
        with beside.open("wb") as out:
            for path in parts:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, out)

    def check_format(self, where: str, format: FileFormat, *, whole: bool) -> None:
        if format.name not in (self.format.name, "txt") or format.compression:
            raise FileError(
                f"{where}: a {self.format.name} file that is read in blocks is written as .{self.format.name}"
            )
        if whole:
            self._check_letters()

    def _check_letters(self) -> None:
        """In one file, all letters are written as those of the first."""
        first = self.sources[0].encoding
        for number, source in enumerate(self.sources):
            if source.encoding == first or first == "utf-8":
                continue
            try:
                for piece in self._pieces(number):
                    piece.text.removeprefix(source.bom).encode(first)
            except UnicodeEncodeError as error:
                said = f"{error.object[error.start]!r} cannot be written in {first}, as {self.files[0].path} is"
                raise FileError(f"{source.where}: {said}; convert that to utf-8, or write to a folder") from None


def _with_end(record: str, carriage: bool) -> str:
    return record.removesuffix("\r") + "\r" * carriage


def _parser(name: str, dialect: Dialect, asked: Asked) -> Any:
    return lambda cells: parse_column(cells, dialect.delimiter, asked, name)


def _judge(found: dict[str, _Judged], name: str, cells: list[str], parse: Any) -> bool:
    """Take the cells of a column into account; whether they confirm what was known before."""
    parsed: Parsed = parse(cells)
    known = found.get(name)
    missing = _has_missing(parsed)
    if known is None:
        evidence = list(dict.fromkeys(cells))
        found[name] = _Judged(parsed.notation, parsed.quoted, evidence, missing, parsed.said)
        return True
    if not isinstance(parsed.notation, Unknown):
        known.quoted = parsed.quoted and (known.quoted or isinstance(known.notation, Unknown))
    confirmed = not (missing and not known.missing) and (
        isinstance(parsed.notation, Unknown) or _alike(parsed.notation, known.notation)
    )
    if parsed.said and not isinstance(parsed.notation, Text):  # words that stand for missing values
        words = dict.fromkeys(cell for cell in cells if is_never_a_number(unquote(cell)))
        known.evidence += [word for word in words if word not in known.evidence]
        known.said = parse(known.evidence).said
    if confirmed:
        return True
    evidence = list(dict.fromkeys([*known.evidence, *cells]))
    together: Parsed = parse(evidence)
    known.missing |= missing
    if together.notation == known.notation:
        return True
    before, known.evidence, known.said = known.notation, evidence, together.said
    known.notation = together.notation
    return isinstance(before, Unknown) or _alike(before, known.notation)


def _alike(one: Notation, other: Notation) -> bool:
    """But for whether cells are missing."""
    if isinstance(one, Whole) and isinstance(other, Whole):
        return True
    return one == other


def _has_missing(parsed: Parsed) -> bool:
    values = parsed.values
    if values.dtype.kind in "fM":
        return bool(np.isnan(values).any())
    return values.dtype == object and any(value is None for value in values.tolist())
