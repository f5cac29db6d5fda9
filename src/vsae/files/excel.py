"""Excel workbooks, through openpyxl, which is imported only when one is read or written.

Only the cells that were missing are written: formulas, formats, other sheets stay. A formula counts with the value that
was last worked out.
"""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vsae.data.schema import repeated
from vsae.files.notations import Notation, Unknown, notation_of
from vsae.files.storage import FileError, Limit
from vsae.files.values import Columns, changed, with_missing
from vsae.table.cells import is_null, objects
from vsae.table.errors import counted
from vsae.table.missing_codes import is_never_a_number
from vsae.table.notations import Decimal, Text
from vsae.table.specs import Spec

_INDEX = "Unnamed: 0"
_MOST_SHOWN = 10_000  # numbers, to see how many decimals there are


@dataclass
class ExcelSheet:
    """The workbook as it was, and where the cells of the table are in it."""

    formats: ClassVar[tuple[str, ...]] = ("xlsx",)

    where: str
    content: bytes
    sheet: str
    first: int  # row of the first values, counted from 1
    places: dict[str, int]  # name → number of its column, counted from 1
    notations: dict[str, Notation]  # of columns that hold text
    decimals: dict[str, int]  # of columns that hold numbers: filled ones get no more
    notes: tuple[str, ...]

    def formulas(self, data: Columns) -> list[str]:
        """What to say of formulas whose values were not saved; openpyxl does not work them out."""
        if b"<f" not in _sheets(self.content):
            return []
        sheet, said = _opened(self.where, self.content, values=False)[self.sheet], []
        for name, place in self.places.items():
            rows = [row for row, value in enumerate(data[name].tolist()) if is_null(value)]
            found = sum(sheet.cell(row=self.first + row, column=place).data_type == "f" for row in rows)
            if found:
                what = f"{counted(found, 'formula')} without a value stay as they are; save the file in Excel"
                said.append(f"{self.where}: column {name!r}: {what}")
        return said

    def render(self, filled: Any, data: Columns, target: str) -> bytes:
        book = _opened(self.where, self.content, values=False)
        sheet = book[self.sheet]
        for name, place in self.places.items():
            rows, values = changed(self.where, name, data[name], filled)
            notation = self.notations.get(name)
            values = np.round(values, self.decimals[name]) if name in self.decimals else values
            written = plain(values) if notation is None else notation.write(values)
            for row, value in zip(rows.tolist(), written, strict=True):
                cell = sheet.cell(row=self.first + row, column=place)
                if cell.data_type == "f":  # without a saved value, but not missing
                    continue
                cell.value = value
                if cell.is_date and cell.number_format == "General":
                    cell.number_format = "yyyy-mm-dd"
        out = io.BytesIO()
        book.save(out)
        return out.getvalue()


def import_openpyxl(where: str) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise FileError(f"{where}: Excel files need openpyxl; pip install 'vsae[excel]', or save it as CSV") from None
    return openpyxl


def read(
    where: str,
    content: bytes,
    limit: Limit,
    sheet: str | None,
    na: frozenset[str],
    header: bool | None,
    kinds: Mapping[str, Spec],
) -> tuple[Columns, ExcelSheet]:
    """The typed columns of the sheet of that name, or of the first one that holds anything."""
    limit.check(where, _expanded(content))
    book = _opened(where, content, values=True)
    if sheet is not None and sheet not in book.sheetnames:
        raise FileError(f"{where}: there is no sheet {sheet!r}; the sheets are {', '.join(map(repr, book.sheetnames))}")
    found = (
        book[sheet] if sheet is not None else next((s for s in book.worksheets if s.max_row > 1), book.worksheets[0])
    )
    rows = [list(row) for row in found.iter_rows(values_only=True)]
    start = next((i for i, row in enumerate(rows) if sum(cell is not None for cell in row) > 1), 0)
    while rows and all(cell is None for cell in rows[-1]):  # formatted, but empty
        rows.pop()
    if len(rows) <= start + (header is not False):
        raise FileError(f"{where}: the sheet {found.title!r} is empty; it needs a header line and rows")
    names = [f"c{i + 1}" for i in range(len(rows[start]))] if header is False else _names(where, rows[start])
    first = start if header is False else start + 1
    columns: Columns = {}
    layout = ExcelSheet(where, content, found.title, first + 1, {}, {}, {}, ())
    notes = [] if len(book.sheetnames) == 1 else [f"{where}: the sheet {found.title!r} was read; --sheet names another"]
    for place, name in enumerate(names):
        cells = [row[place] for row in rows[first:]]
        if not name:
            if any(cell is not None for cell in cells):
                raise FileError(f"{where}: no name in the header for column {place + 1}; give each column a name")
            continue
        layout.places[name] = place + 1
        columns[name], notation, said = _column(cells, na, kinds.get(name))
        notes += [f"{where}: column {name!r}: {said}"] if said else []
        if notation is not None:
            layout.notations[name] = notation
        elif columns[name].dtype.kind == "f":
            shown = Decimal.of(list(map(repr, columns[name][~np.isnan(columns[name])][:_MOST_SHOWN].tolist())))
            if shown is not None and shown.decimals is not None and not shown.exponent:
                layout.decimals[name] = shown.decimals
    layout.notes = (*notes, *layout.formulas(columns))
    return columns, layout


def dump(where: str, columns: Mapping[str, Any]) -> bytes:
    """A workbook of one sheet."""
    book = import_openpyxl(where).Workbook()
    sheet = book.active
    sheet.append(list(columns))
    for row in zip(*(plain(np.asarray(values)) for values in columns.values()), strict=True):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def plain(values: np.ndarray) -> list[Any]:
    """Values as a cell of Excel takes them: whole floats as integers, moments as Python's own, nothing where missing.

    >>> plain(np.array([31.0, np.nan])), plain(np.array(["2024-02-29"], dtype="M8[D]"))
    ([31, None], [datetime.date(2024, 2, 29)])
    """
    if values.dtype.kind == "M":
        values = values.astype("M8[D]") if values.dtype == np.dtype("M8[D]") else values.astype("M8[us]")
    cells = [None if is_null(value) else value for value in values.tolist()]
    if values.dtype.kind == "f" and all(cell is None or cell.is_integer() for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]
    simple = (str, bool, int, float, dt.date, dt.time, dt.timedelta, type(None))
    return [cell if isinstance(cell, simple) else str(cell) for cell in cells]


def _opened(where: str, content: bytes, values: bool) -> Any:
    try:
        return import_openpyxl(where).load_workbook(io.BytesIO(content), data_only=values)
    except FileError:
        raise
    except Exception as error:  # openpyxl lets through whatever zip and XML raise
        raise FileError(f"{where}: this is not an Excel workbook, or it is damaged ({error})") from None


def _expanded(content: bytes) -> int:
    """The bytes of all parts, as the archive says; of what is none, nothing: openpyxl will say why."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            return sum(part.file_size for part in parts.infolist())
    except Exception:  # of a damaged archive, whichever
        return 0


def _sheets(content: bytes) -> bytes:
    """The XML of all sheets."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist() if name.startswith("xl/worksheets/sheet"))


def _names(where: str, header: list[Any]) -> list[str]:
    names = ["" if cell is None else str(cell).strip() for cell in header]
    if len(names) > 1 and not names[0]:
        names[0] = _INDEX
    twice = list(map(repr, repeated([name for name in names if name])))
    if twice:
        raise FileError(f"{where}: the header has {', '.join(twice[:5])} more than once; give each column its own name")
    return names


def _column(cells: list[Any], na: frozenset[str], asked: Spec | None) -> tuple[np.ndarray, Notation | None, str]:
    """The typed column of a sheet's cells, its notation if it is text, and what to say of it."""
    cells = [None if isinstance(cell, str) and cell.strip() in na else cell for cell in cells]
    kinds = {type(cell) for cell in cells if cell is not None}
    words: list[str] = []
    if len(kinds) > 1 and str in kinds:
        words = list(dict.fromkeys(cell for cell in cells if isinstance(cell, str) and is_never_a_number(cell)))
        cells = [None if isinstance(cell, str) and is_never_a_number(cell) else cell for cell in cells]
        kinds = {type(cell) for cell in cells if cell is not None}
    absent, known = [cell is None for cell in cells], [cell for cell in cells if cell is not None]
    said = f"{', '.join(map(repr, words))} read as missing" if words else ""
    if not known:
        return np.full(len(cells), np.nan), None, said
    if kinds <= {int, float}:
        exact = kinds == {int} and not any(absent)
        return with_missing(absent, np.array(known, dtype=np.int64 if exact else float)), None, said
    if kinds <= {dt.datetime, dt.date}:
        moments = np.array(known, dtype="M8[us]")
        days = moments.astype("M8[D]")
        return with_missing(absent, days if (days == moments).all() else moments.astype("M8[s]")), None, said
    if kinds != {str}:
        return objects(cells), None, said  # booleans, times, durations; a mixture is kept
    texts = [text.strip() for text in known]
    notation = notation_of(texts, True, ",", asked)
    if isinstance(notation, Text | Unknown) or (isinstance(notation, Decimal) and notation.is_bare and asked is None):
        return objects(cells), None, said  # numbers that are text were made so
    doubt = getattr(notation, "doubt", "")
    return with_missing(absent, notation.parse(texts)), notation, doubt or said
