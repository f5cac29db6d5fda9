"""Tables on disk and in pipes: CSV, TSV and JSON-lines by ourselves, Parquet and Feather through pyarrow, Excel through
openpyxl.

What was read comes back as it was. A text file keeps its quotes, line endings, byte-order mark, delimiter
and encoding, and every cell its very characters, so that `diff` of input and output shows only the filled
cells. The model gets typed columns beside that text.

>>> import os, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = os.path.join(folder.name, "people.csv")
>>> with open(path, "w", newline="") as file:
...     _ = file.write('name;height;born\\r\\n"Ada";1,70;1815-12-10\\r\\n"Bo";;NA')
>>> table = read_table(path)
>>> table.data["height"], table.data["born"]
(array([1.7, nan]), array(['1815-12-10', 'NaT'], dtype='datetime64[D]'))
>>> filled = table.data | {"height": np.array([1.7, 1.825])}
>>> table.write(path, filled)
>>> open(path, newline="").read()
'name;height;born\\r\\n"Ada";1,70;1815-12-10\\r\\n"Bo";1,82;NA'
>>> folder.cleanup()
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vsae.files import arrow, delimited, excel, jsonlines, storage
from vsae.files.arrow import ArrowFile
from vsae.files.delimited import Delimited
from vsae.files.dialect import DELIMITED, checked_delimiter
from vsae.files.excel import ExcelSheet
from vsae.files.jsonlines import JsonLines
from vsae.files.notations import Notation, all_texts
from vsae.files.storage import COMPRESSIONS, FORMATS, File, FileError, FileFormat, write_files
from vsae.files.values import Columns, plain_values
from vsae.storage.atomic import AnyPath
from vsae.table.missing_codes import DEFAULT_NA
from vsae.table.notations import Decimal
from vsae.table.specs import Spec

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "COMPRESSIONS",
    "DEFAULT_NA",
    "FORMATS",
    "File",
    "FileError",
    "FileFormat",
    "FileTable",
    "check_target",
    "read_table",
    "rendered",
    "write_files",
    "write_table",
]

TableData: TypeAlias = "Mapping[str, Any] | pyarrow.Table"


@dataclass
class FileTable:
    """A table as it was read, and how to write it back.

    `data` is what the imputer takes: a dict of typed columns for text formats, else a pyarrow.Table.
    """

    data: Columns | pyarrow.Table
    format: FileFormat
    encoding: str | None  # as detected or given; None for binary formats
    notes: tuple[str, ...]  # one line each, for the user, e.g. on a detected encoding
    layout: Delimited | JsonLines | ArrowFile | ExcelSheet = field(
        repr=False
    )  # what the file looked like beside its values

    def write(self, path: AnyPath, filled: TableData, *, format: str | None = None) -> None:
        """Write `filled`, the same container as `data`, to `path` or "-" (stdout).

        Only the cells whose value differs from `data` are written anew; one that is still missing stays as it
        was. A `path` of another format converts: between delimited formats the cells keep their text.
        """
        storage.write_files([self.rendered(path, filled, format=format)], [path])

    def rendered(self, path: AnyPath, filled: TableData, *, format: str | None = None) -> File:
        """What `write` would write, for `write_files`."""
        _refuse_images(str(path), filled)
        target = storage.format_of(path, format, default=self.format.name)
        filled = self._own(filled)
        if target.name in self.layout.formats:
            content = self.layout.render(filled, self.data, target.name)
        else:
            content = _dump(str(path), filled, target.name, notations=self.notations)
        return path, content, target.compression

    def only(self, filled: TableData, names: Sequence[str]) -> TableData:
        """`filled` in the columns of that name, and in all others as it was read."""
        known = list(self.data if isinstance(self.data, dict) else self.data.column_names)
        for name in names:
            if name not in known:
                raise FileError(f"there is no column {name!r}; the columns are {', '.join(map(repr, known))}")
        if isinstance(self.data, dict):
            return {name: filled[name] if name in names else self.data[name] for name in known}
        table: Any = filled
        for place, name in enumerate(known):
            if name not in names:
                table = table.set_column(place, self.data.schema.field(name), self.data[name])
        return table

    @property
    def notations(self) -> dict[str, Notation]:
        """How the columns of a text are written; of other formats, none."""
        return {} if isinstance(self.layout, ArrowFile) else dict(self.layout.notations)

    def _own(self, filled: TableData) -> TableData:
        """Without columns that the file does not have: only its missing cells change, whatever the format."""
        if isinstance(self.data, dict) or isinstance(filled, Mapping):
            return {name: filled[name] for name in self.data if name in filled}
        return filled.select([name for name in self.data.column_names if name in filled.column_names])


def read_table(
    path: AnyPath,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = DEFAULT_NA,
    header: bool | None = None,
    kinds: Mapping[str, Spec] | None = None,
    sheet: str | None = None,
    notations: Mapping[str, Notation] | None = None,
    max_expanded: int | None = None,
) -> FileTable:
    """Read the table at `path`, or on stdin for "-"; `format` ("csv", "jsonl.gz", ...) overrules the name.

    A column of a delimited file is taken for the first of these that all its cells look like: integers
    (int64, or float64 with NaN where cells are missing), decimals (float64), true/false (object), ISO dates and
    date-times (datetime64), numbers with thousands, currency or unit (float64), other dates (datetime64) and times of
    day (object), text (object, None where missing). Numbers with leading zeros, such as zip codes, are text, and so are
    integers that their array could not hold exactly. `kinds` says of columns what they are instead, and `notations` how
    another file, such as that of a model, wrote them. With ";", a tab
    or blanks between cells, "12,5" is a decimal. `header` says whether the first line has names; it is found out
    otherwise.

    Of an Excel workbook, `sheet` is read, or the first that holds anything; a text in it is read as in a CSV file.

    A compressed file may expand to 256 MB or a hundred times its size, whichever is more, or to `max_expanded` MB.

    In JSON-lines a missing value is null, NaN or an absent key; `na` counts there only if it is not the default.
    Parquet and Feather have nulls of their own.
    """
    where = "stdin" if storage.is_pipe(path) else os.fspath(path)
    storage.check_source(path, where)
    found = storage.format_of(path, format, default="csv")
    content, limit = storage.read_bytes(path, where, found.compression, max_expanded)
    if found.name in arrow.ARROW_FORMATS:
        return FileTable(arrow.read(where, content, found.name, limit), found, None, (), ArrowFile())
    if found.name == "xlsx":
        columns, book = excel.read(where, content, limit, sheet, frozenset(na) | {""}, header, kinds or {})
        return FileTable(columns, found, None, book.notes, book)
    text, source, notes = storage.decode(where, content, encoding)
    layout: Delimited | JsonLines
    if found.name == "jsonl":
        columns, layout = jsonlines.read(source, text, frozenset(() if tuple(na) == DEFAULT_NA else na))
    else:
        asked = delimited.Asked(delimiter, frozenset(na) | {""}, header, kinds or {}, notations or {})
        columns, layout = delimited.read(source, text, found.name, asked)
        notes += layout.notes
    return FileTable(columns, found, source.encoding, notes, layout)


def write_table(
    path: AnyPath,
    data: TableData,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    notations: Mapping[str, Notation] | None = None,
) -> None:
    """Write a table that never was a file: a dict of arrays or a pyarrow.Table, to `path` or "-" (stdout).

    Missing cells (None, NaN, NaT) are empty in delimited files, null elsewhere. Numbers are written in full, unless
    their notation is given.

    >>> write_table("-", {"age": np.array([31.0, np.nan]), "sex": np.array(["f", None], dtype=object)})
    age,sex
    31,f
    ,
    """
    content = rendered(path, data, format=format, delimiter=delimiter, encoding=encoding, notations=notations)
    storage.write_files([content], [path])


def rendered(
    path: AnyPath,
    data: TableData,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    notations: Mapping[str, Notation] | None = None,
) -> File:
    """What `write_table` would write, for `write_files`."""
    _refuse_images(str(path), data)
    target = storage.format_of(path, format, default="csv")
    mark = None if delimiter is None else checked_delimiter(str(path), delimiter)
    return path, _dump(str(path), data, target.name, mark, encoding, notations), target.compression


def check_target(path: AnyPath, *, format: str | None = None) -> None:
    """Raise now the `FileError` that writing to `path` would raise after the work is done.

    >>> check_target("result.xls")
    Traceback (most recent call last):
        ...
    vsae.files.storage.FileError: result.xls: unknown extension '.xls'; use .csv, .tsv, .txt, .jsonl, .ndjson,
    .parquet, .pq, .feather, .arrow, .xlsx (with .gz or .zst after it), or pass --format
    """
    target = storage.format_of(path, format, default="csv")
    if target.name in arrow.ARROW_FORMATS:
        arrow.import_pyarrow(str(path))
    if target.name == "xlsx":
        excel.import_openpyxl(str(path))
    storage.codec_of(str(path), target.compression)
    storage.check_place(path)


def _refuse_images(where: str, data: TableData) -> None:
    """A cell that is an array would be written as numpy prints it."""
    for name, column in data.items() if isinstance(data, Mapping) else ():
        cells = column if getattr(column, "dtype", np.dtype(object)) == np.dtype(object) else ()
        if any(isinstance(cell, np.ndarray) and cell.ndim > 1 for cell in cells):
            raise FileError(
                f"{where}: column {name!r} holds images, which cannot be written to a file; use VSAEImputer in Python"
            )


def _dump(
    where: str,
    data: TableData,
    format: str,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    notations: Mapping[str, Notation] | None = None,
) -> bytes:
    """The bytes of a table that has no layout in `format`."""
    if format in arrow.ARROW_FORMATS:
        return arrow.dump(where, data, format)
    columns = data if isinstance(data, Mapping) else arrow.columns_of(where, data)
    if format == "xlsx":
        return excel.dump(where, {str(name): values for name, values in columns.items()})
    known = notations or {}
    arrays = {str(name): np.asarray(values) for name, values in columns.items()}
    if format == "jsonl":
        plain = {name: plain_values(x, keep_floats=isinstance(known.get(name), Decimal)) for name, x in arrays.items()}
        text = jsonlines.dump(plain)
    else:
        cells = {name: all_texts(known[name], x) if name in known else plain_values(x) for name, x in arrays.items()}
        text = delimited.dump(cells, delimiter or DELIMITED[format])
    return storage.TextSource(where, encoding).encode(text)
