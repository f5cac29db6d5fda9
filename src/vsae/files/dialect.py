"""How a delimited text falls into records and fields: delimiter, quotes and newline, given or detected."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from vsae.files.storage import FileError

DELIMITED = {"csv": ",", "tsv": "\t", "txt": "\t"}  # format → delimiter when nothing says otherwise
_DELIMITERS = (",", ";", "\t", "|")  # detected; others must be given
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
        """The delimiter is the given one, the tab of a .tsv, or what splits the first lines most evenly.

        >>> Dialect.of("a.csv", "x;y\\n1,5;2,5\\n3,1;4,2\\n", "csv", None)
        Dialect(delimiter=';', newline='\\n')
        """
        newline = "\r" if "\r" in text and "\n" not in text else "\n"
        if delimiter is not None:
            return cls(checked_delimiter(where, delimiter), newline)
        if format == "tsv" and "\t" in text.lstrip().partition(newline)[0]:
            return cls("\t", newline)
        dialects = [cls(candidate, newline) for candidate in _DELIMITERS]
        best = max(dialects, key=lambda dialect: dialect._evenness(text))  # the first of equals
        return best if any(best._evenness(text)) else cls(DELIMITED[format], newline)

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

    def quote(self, text: str, always: bool) -> str:
        """The raw field of a text."""
        if always or self.delimiter in text or '"' in text or "\n" in text or "\r" in text:
            return '"' + text.replace('"', '""') + '"'
        return text


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
