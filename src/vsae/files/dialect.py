"""How a text falls into records and fields: by a delimiter, by blanks or by fixed widths, given or detected."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from vsae.files.storage import FileError

DELIMITED = {"csv": ",", "tsv": "\t", "txt": "\t"}  # format → delimiter when nothing says otherwise
_DELIMITERS = (",", ";", "\t", "|")  # detected; others must be given
_TOKEN = re.compile(r'[ \t]*(?:"[^"]*(?:""[^"]*)*"(?=[ \t\r]|$)|[^ \t\r]+)')
_WIDEST = 10_000  # characters of a line that may have fixed widths
_QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"(.*)', re.S)


@dataclass(frozen=True)
class Dialect:
    """What separates fields, and what separates records.

    A raw field has its quotes and spaces, a raw record also its "\\r" if lines end in "\\r\\n": so what is not
    touched can be written back as it was.
    """

    delimiter: str
    newline: str  # "\n", for "\r\n" too, or the old Macs' "\r"

    @classmethod
    def of(cls, where: str, text: str, format: str, delimiter: str | None) -> Dialect:
        """The delimiter is the given one, the tab of a .tsv, or what splits the first lines most evenly; blanks where
        nothing else does.

        >>> Dialect.of("a.csv", "x;y\\n1,5;2,5\\n3,1;4,2\\n", "csv", None)
        Dialect(delimiter=';', newline='\\n')
        >>> Dialect.of("a.txt", "x   y\\n1.5  2\\n", "txt", None)
        Blanks(delimiter=' ', newline='\\n')
        """
        newline = "\r" if "\r" in text and "\n" not in text else "\n"
        if delimiter is not None and delimiter != " ":
            return cls(checked_delimiter(where, delimiter), newline)
        if format == "tsv" and "\t" in text.lstrip().partition(newline)[0]:
            return cls("\t", newline)
        dialects = [cls(candidate, newline) for candidate in _DELIMITERS if delimiter is None]
        best = max(dialects, key=lambda dialect: dialect._evenness(text), default=None)  # the first of equals
        if best is not None and any(best._evenness(text)):
            return best
        blanks = Blanks(" ", newline)
        if blanks.splits_evenly(text):
            return blanks
        return FixedWidth.found(text, newline) or cls(DELIMITED[format] if delimiter is None else " ", newline)

    def _evenness(self, text: str) -> tuple[float, int]:
        """(share of the first lines with as many fields as the header, that number); zeros if it splits nothing."""
        try:
            first = list(islice(self.scan("", text), 100))
        except FileError:  # its quotes do not stand beside this delimiter
            return 0, 0
        counts = [len(fields) for _, record, fields in first if record.strip(" \r\n")]
        return (counts.count(counts[0]) / len(counts), counts[0]) if counts and counts[0] > 1 else (0, 0)

    def scan(self, where: str, text: str) -> Iterator[tuple[int, str, list[str]]]:
        """(line number, raw record, raw fields) of each record; a quoted field may hold delimiters and newlines.

        A quote opens a field only at its start, as everywhere; 5" is a plain cell.

        >>> list(Dialect(",", "\\n").scan("a.csv", '1,"x ""y""\\n,",5"\\n,'))
        [(1, '1,"x ""y""\\n,",5"', ['1', '"x ""y""\\n,"', '5"']), (3, ',', ['', ''])]
        """
        start, line = 0, 1
        while start < len(text):
            end = text.find(self.newline, start)
            end = len(text) if end < 0 else end
            record = text[start:end]
            if '"' not in record:
                fields = record.split(self.delimiter)
            else:  # the newline may be a cell's
                fields, end = self._quoted_fields(where, text, start, line)
                record = text[start:end]
            if record.endswith("\r"):
                fields[-1] = fields[-1][:-1]
            yield line, record, fields
            start, line = end + 1, line + 1 + record.count(self.newline)

    def _quoted_fields(self, where: str, text: str, start: int, line: int) -> tuple[list[str], int]:
        """(fields, end) of the record at `start`, on `line`, field by field."""
        match, delimiter, fields = self._field.match, self.delimiter, []
        while found := match(text, start):
            fields.append(found[0])
            end = found.end()
            if end == len(text) or text[end] != delimiter:
                return fields, end
            start = end + 1
        line += sum(field.count(self.newline) for field in fields)
        raise FileError(
            f"{where}: line {line}: the quote that opens a cell does not close at its end; "
            "close it there, and double the quotes that belong to the text"
        )

    @functools.cached_property
    def _field(self) -> re.Pattern[str]:
        mark, carriage = re.escape(self.delimiter), "\r?" if self.newline == "\n" else ""
        # What follows a closing quote must end the cell: else an open quote would swallow rows until the next one.
        end_of_cell = rf" *(?:{carriage}(?={self.newline}|\Z)|(?={mark}))"
        return re.compile(rf'"[^"]*(?:""[^"]*)*"(?!"){end_of_cell}|(?!")[^{mark}{self.newline}]*')

    def split(self, record: str) -> tuple[list[str], str]:
        """(raw fields, "\\r" or nothing) of one raw record."""
        fields = next((fields for _, _, fields in self.scan("", record)), [""])
        return fields, "\r" if record.endswith("\r") else ""

    def joined(self, fields: Sequence[str]) -> str:
        """The raw record of raw fields."""
        return self.delimiter.join(fields)

    def widened(self, record: str, width: int, texts: Sequence[str]) -> str:
        """The raw record with further cells after its first `width`.

        >>> Dialect(",", "\\n").widened("1,2\\r", 2, ["x,y", ""])
        '1,2,"x,y",\\r'
        """
        fields, end = self.split(record)
        return self.joined([*fields[:width], *(self.quote(text, False) for text in texts)]) + end

    def refilled(self, number: int, old: str, new: str, quoted: bool, is_text: bool) -> str:
        """The raw field of a text that takes the place of another; "1, ?, 3" keeps its spaces."""
        if not quoted and not is_text:
            new = old[: len(old) - len(old.lstrip())] + new
        return self.quote(new, quoted)

    def quote(self, text: str, always: bool) -> str:
        """The raw field of a text."""
        if always or self.delimiter in text or '"' in text or "\n" in text or "\r" in text:
            return '"' + text.replace('"', '""') + '"'
        return text


@dataclass(frozen=True)
class Blanks(Dialect):
    """Fields between blanks, however many: what is not touched keeps its place in the line."""

    def scan(self, where: str, text: str) -> Iterator[tuple[int, str, list[str]]]:
        """As of any dialect; fields come without the blanks around them.

        >>> list(Blanks(" ", "\\n").scan("a.txt", "  1   2.5\\n 10  'x"))
        [(1, '  1   2.5', ['1', '2.5']), (2, " 10  'x", ['10', "'x"])]
        """
        for line, record in enumerate(text.removesuffix(self.newline).split(self.newline), 1):
            yield line, record, [field.strip() for field in self.split(record)[0]]

    def splits_evenly(self, text: str) -> bool:
        """Whether all of the first lines have as many fields; the header may have one less, as R writes it."""
        counts = [len(fields) for _, _, fields in islice(self.scan("", text), 100) if fields]
        return len(counts) > 1 and len({*counts[1:]}) == 1 and counts[1] > 1 and counts[0] in (counts[1], counts[1] - 1)

    def split(self, record: str) -> tuple[list[str], str]:
        """Raw fields with the blanks before them, and the blanks at the end."""
        fields = _TOKEN.findall(record)
        return fields, record[sum(map(len, fields)) :]

    def joined(self, fields: Sequence[str]) -> str:
        return "".join(fields)

    def widened(self, record: str, width: int, texts: Sequence[str]) -> str:
        fields, end = self.split(record)
        return (
            self.joined([*fields[:width], *(" " + self.quote(text, not text or " " in text) for text in texts)]) + end
        )

    def refilled(self, number: int, old: str, new: str, quoted: bool, is_text: bool) -> str:
        """Ends where the old one ended, if there is room."""
        raw = self.quote(new, quoted or " " in new)
        return raw.rjust(max(len(old), len(raw) + old.startswith((" ", "\t"))))


@dataclass(frozen=True)
class FixedWidth(Dialect):
    """Fields at the same places of all lines, empty ones among them."""

    starts: tuple[int, ...] = ()  # of the columns' places; the first has all that stands before it, too
    ends: tuple[int, ...] = ()  # of their longest fields
    rights: tuple[bool, ...] = ()  # whether the fields of a column all end there

    @classmethod
    def found(cls, text: str, newline: str) -> FixedWidth | None:
        """By the places that are blank in all lines; None where these do not lie between names.

        >>> FixedWidth.found("name      age\\nAda L.     36\\nBo\\n", "\\n").starts
        (0, 10)
        """
        lines = [line.rstrip() for line in text.split(newline) if line.strip()]
        width = max(map(len, lines))
        if width > _WIDEST or len(lines) < 3 or any("\t" in line for line in lines[:100]):
            return None
        used = np.zeros(width + 2, dtype=np.bool_)
        for line in lines:
            used[1 : len(line) + 1] |= np.frombuffer(line.encode("utf-32-le"), dtype=np.uint32) != ord(" ")
        starts, ends = (np.flatnonzero(edge).tolist() for edge in (used[1:] & ~used[:-1], used[:-1] & ~used[1:]))
        places: list[slice] = []
        for start, end in zip(starts, ends, strict=True):
            if lines[0][start:end].strip():
                places.append(slice(start, end))
            elif places:  # a blank that all fields of a column happen to have
                places[-1] = slice(places[-1].start, end)
        if len(places) < 2:
            return None
        fields = [[line[place] for line in lines[1:] if line[place].strip()] for place in places]
        rights = [len({len(field) for field in column}) == 1 for column in fields]
        starts, ends = [place.start for place in places], [place.stop for place in places]
        return cls(" ", newline, (0, *starts[1:]), tuple(ends), tuple(rights))

    def scan(self, where: str, text: str) -> Iterator[tuple[int, str, list[str]]]:
        for line, record in enumerate(text.removesuffix(self.newline).split(self.newline), 1):
            yield line, record, [field.strip() for field in self.split(record)[0]] if record.strip() else [""]

    def split(self, record: str) -> tuple[list[str], str]:
        """Raw fields with the blanks around them."""
        bare = record.removesuffix("\r")
        return [bare[a:b] for a, b in zip(self.starts, [*self.starts[1:], None], strict=True)], record[len(bare) :]

    def joined(self, fields: Sequence[str]) -> str:
        last = max((i for i, field in enumerate(fields) if field), default=0)
        widths = [b - a for a, b in zip(self.starts, self.starts[1:], strict=False)]
        padded = [field.ljust(width) for field, width in zip(fields[:last], widths, strict=False)]
        return "".join([*padded, fields[last]])

    def refilled(self, number: int, old: str, new: str, quoted: bool, is_text: bool) -> str:
        width = self.ends[number] - self.starts[number]
        return new.rjust(width) if self.rights[number] else new.ljust(min(len(old), width))


def unquote(raw: str) -> str:
    """The text of a raw field.

    >>> unquote('"a ""b"" c"'), unquote('5"')
    ('a "b" c', '5"')
    """
    found = _QUOTED.match(raw)
    return found[1].replace('""', '"') + found[2] if found else raw


def checked_delimiter(where: str, delimiter: str) -> str:
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)  # what one can type in a shell
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise FileError(f"{where}: the delimiter must be one character such as ',' ';' '|' or 'tab', not {delimiter!r}")
    return delimiter
