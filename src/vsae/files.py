"""Tables on disk and in pipes: CSV, TSV and JSON-lines by ourselves, Parquet and Feather through pyarrow.

What was read comes back as it was. A text file keeps its quotes, line endings, byte-order mark, delimiter
and encoding, and every cell its very characters, so that `diff` of input and output shows only the filled
cells. The model gets typed columns beside that text.

>>> import os, tempfile
>>> folder = tempfile.mkdtemp()
>>> path = os.path.join(folder, "people.csv")
>>> with open(path, "w", newline="") as file:
...     _ = file.write('name;height;born\\r\\n"Ada";1,70;1815-12-10\\r\\n"Bo";;NA')
>>> table = read_table(path)
>>> table.data["height"], table.data["born"]
(array([1.7, nan]), array(['1815-12-10', 'NaT'], dtype='datetime64[D]'))
>>> filled = table.data | {"height": np.array([1.7, 1.825])}
>>> table.write(path, filled)
>>> open(path, newline="").read()
'name;height;born\\r\\n"Ada";1,70;1815-12-10\\r\\n"Bo";1,82;NA'
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import importlib
import io
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow

#: Cells of a text file that are holes, spaces around them aside. The empty cell always is one.
#: "?" and "." are the codes of the UCI sets and of SAS; pass `na=` where one of these is a value of yours.
DEFAULT_NA: tuple[str, ...] = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".")

FORMATS: dict[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
}
COMPRESSIONS: dict[str, str] = {".gz": "gzip", ".zst": "zstd"}
DELIMITED = {"csv": ",", "tsv": "\t", "txt": "\t"}  # format → delimiter when nothing says otherwise
DELIMITERS = (",", ";", "\t", "|")  # found out; others must be given

Columns: TypeAlias = "dict[str, np.ndarray]"
TableData: TypeAlias = "Columns | pyarrow.Table"


class FileError(ValueError):
    """The file cannot be read or written: one line that names file, line, column, and what to do."""


class FileFormat(NamedTuple):
    """What a file's name says about its content."""

    name: str  # a value of FORMATS
    compression: str | None = None  # a value of COMPRESSIONS


class Layout(Protocol):
    """What a file looked like beside its values."""

    def render(self, filled: Any, data: Any, source: str, target: str) -> bytes | None:
        """The file with the filled cells, in format `target`; None if this layout has no place there."""


@dataclass
class FileTable:
    """A table as it was read, and how to write it back.

    `data` is what the imputer takes: a dict of typed columns for text formats, else a pyarrow.Table.
    """

    data: TableData
    format: FileFormat
    encoding: str | None  # as found out or given; None for binary formats
    notes: tuple[str, ...]  # one-line remarks for the user, e.g. on a guessed encoding
    layout: Layout = field(repr=False)  # what the file looked like beside its values

    def write(
        self,
        path: str | os.PathLike[str],
        filled: Mapping[str, Any] | pyarrow.Table,
        *,
        format: str | None = None,
    ) -> None:
        """Write `filled`, the same container as `data`, to `path` or "-" (stdout).

        Only the cells whose value differs from `data` are written anew; one that is still missing stays as it
        was. A `path` of another format converts: between delimited formats the cells keep their text.
        """
        target = _format_of(path, format, default=self.format.name)
        content = self.layout.render(filled, self.data, self.format.name, target.name)
        if content is None:
            content = _serialise(str(path), filled, target.name, None, "utf-8")
        _write_bytes(path, _compress(str(path), content, target.compression))


def read_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = DEFAULT_NA,
) -> FileTable:
    """Read the table at `path`, or on stdin for "-"; `format` ("csv", "jsonl.gz", ...) overrules the name.

    A column of a delimited file is taken for the first of these that all its cells look like: integers
    (int64, or float64 with NaN where there are holes), decimals (float64), true/false (object), ISO dates and
    date-times (datetime64), text (object, None for holes). Numbers with leading zeros, such as zip codes, are
    text, and so are integers that their array could not hold exactly. With ";" or a tab between cells, "12,5"
    is a decimal.

    In JSON-lines a hole is null, NaN or an absent key; `na` counts there only if it is not the default.
    Parquet and Feather have nulls of their own.
    """
    where = "stdin" if _is_pipe(path) else os.fspath(path)
    found = _format_of(path, format, default="csv")
    content = _decompress(where, _read_bytes(path, where), found.compression)
    if found.name in ("parquet", "feather"):
        table = _read_arrow(where, content, found.name)
        return FileTable(table, found, None, (), _Arrow())
    text, encoding, notes = _decode(where, content, encoding)
    bom, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    if not text.strip():
        raise FileError(f"{where}: the file is empty; it needs a header line and rows")
    if found.name == "jsonl":
        texts = frozenset() if tuple(na) == DEFAULT_NA else frozenset(na)
        columns, lines = _read_json_lines(where, text, texts)
        return FileTable(columns, found, encoding, notes, _JsonLines(where, encoding, bom, *lines))
    mark = _delimiter_of(where, text, found.name, delimiter)
    columns, layout = _read_delimited(where, text, mark, frozenset(na) | {""})
    layout.bom, layout.encoding = bom, encoding
    return FileTable(columns, found, encoding, notes, layout)


def write_table(
    path: str | os.PathLike[str],
    data: Mapping[str, Any] | pyarrow.Table,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> None:
    """Write a table that never was a file: a dict of arrays or a pyarrow.Table, to `path` or "-" (stdout).

    Missing cells (None, NaN, NaT) are empty in delimited files, null elsewhere. Numbers are written in full.

    >>> write_table("-", {"age": np.array([31.0, np.nan]), "sex": np.array(["f", None], dtype=object)})
    age,sex
    31,f
    ,
    """
    target = _format_of(path, format, default="csv")
    mark = None if delimiter is None else _checked_delimiter(str(path), delimiter)
    content = _serialise(str(path), data, target.name, mark, encoding)
    _write_bytes(path, _compress(str(path), content, target.compression))


def check_target(path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Raise now the `FileError` that writing to `path` would raise after the work is done.

    >>> check_target("result.xlsx")
    Traceback (most recent call last):
        ...
    vsae.files.FileError: result.xlsx: unknown extension '.xlsx'; use .csv, .tsv, .txt, .jsonl, .ndjson,
    .parquet, .pq, .feather, .arrow (with .gz or .zst after it), or pass --format
    """
    where = str(path)
    target = _format_of(path, format, default="csv")
    if target.name in ("parquet", "feather"):
        _pyarrow(where)
    if target.compression == "zstd":
        _zstd(where)
    if _is_pipe(path):
        return
    goal = Path(os.path.realpath(path))
    if goal.is_dir():
        raise FileError(f"{where}: is a folder; name a file in it")
    if not goal.parent.is_dir():
        raise FileError(f"{where}: there is no folder {goal.parent}; create it first")
    if not os.access(goal.parent, os.W_OK):
        raise FileError(f"{where}: the folder {goal.parent} is not writable; choose another")


# ---- which format --------------------------------------------------------------------------------


def _is_pipe(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) == "-"


def _format_of(path: str | os.PathLike[str], format: str | None, *, default: str) -> FileFormat:
    """The format of `path`; `format` comes before its extension, and `default` is for pipes.

    >>> _format_of("a/b.CSV.gz", None, default="csv"), _format_of("data.gz", "tsv", default="csv")
    (FileFormat(name='csv', compression='gzip'), FileFormat(name='tsv', compression='gzip'))
    """
    stem, compression = _strip_compression(os.path.basename(os.fspath(path)))
    if format is not None:
        kind, given = _strip_compression("." + format.lower().lstrip("."))
        if kind not in FORMATS:
            raise FileError(f"unknown format {format!r}; use {', '.join(dict.fromkeys(FORMATS.values()))}")
        return FileFormat(FORMATS[kind], given or compression)
    if _is_pipe(path):
        return FileFormat(default)
    extension = os.path.splitext(stem)[1].lower()
    if extension not in FORMATS:
        what = f"unknown extension {extension!r}" if extension else "the name has no extension"
        raise FileError(f"{path}: {what}; use {', '.join(FORMATS)} (with .gz or .zst after it), or pass --format")
    return FileFormat(FORMATS[extension], compression)


def _strip_compression(name: str) -> tuple[str, str | None]:
    stem, last = os.path.splitext(name)
    compression = COMPRESSIONS.get(last.lower())
    return (stem, compression) if compression else (name, None)


# ---- bytes ---------------------------------------------------------------------------------------

#: First bytes of what is not text, and what to do: such files bear a text file's name now and then.
_MAGIC = {
    b"\x1f\x8b": "it is compressed with gzip; let its name end in .gz or pass --format csv.gz",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd; let its name end in .zst or pass --format csv.zst",
    b"PAR1": "it is a Parquet file; pass --format parquet",
    b"ARROW1": "it is an Arrow file; pass --format feather",
    b"PK\x03\x04": "it is a spreadsheet or a zip archive; save it as CSV",
}


def _read_bytes(path: str | os.PathLike[str], where: str) -> bytes:
    if _is_pipe(path):
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{where}: {_reason(error)}; check the path") from None


def _write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the target, flush to disk, then rename: a reader sees the old file or the new, whole."""
    if _is_pipe(path):
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:  # a text-only stand-in, as in doctests and notebooks
            sys.stdout.write(content.decode())
        else:
            stream.write(content)
        sys.stdout.flush()
        return
    try:
        target = Path(os.path.realpath(path))  # a symlink stays one: what it points to is replaced
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(content)  # a device or a named pipe must not be renamed over
        else:
            _replace(target, content)
    except OSError as error:
        raise FileError(f"{path}: could not be written: {_reason(error)}") from None


def _replace(target: Path, content: bytes) -> None:
    beside = target.with_name(f".{target.name[:80]}.{os.getpid()}-{os.urandom(4).hex()}.part")
    # os.open and not tempfile, so that a new file gets the user's usual permissions and not 0600.
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(handle, "wb") as file:
            with contextlib.suppress(OSError):  # a private table must not become public by being overwritten
                os.chmod(beside, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _decompress(where: str, content: bytes, compression: str | None) -> bytes:
    if compression is None:
        return content
    read = gzip.decompress if compression == "gzip" else _zstd(where)[1]
    try:
        return read(content)
    except (OSError, EOFError, zlib.error, ValueError, RuntimeError) as error:
        raise FileError(f"{where}: not a {compression} file, or a damaged one ({error})") from None
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # compression.zstd and zstandard each have their own
            raise
        raise FileError(f"{where}: not a {compression} file, or a damaged one ({error})") from None


def _compress(where: str, content: bytes, compression: str | None) -> bytes:
    if compression is None:
        return content
    if compression == "gzip":
        return gzip.compress(content, compresslevel=6, mtime=0)  # the same table gives the same bytes
    return _zstd(where)[0](content)


def _zstd(where: str) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """(compress, decompress) from the first library at hand."""
    with contextlib.suppress(ImportError):
        zstd = importlib.import_module("compression.zstd")  # Python 3.14 on
        return zstd.compress, zstd.decompress
    with contextlib.suppress(ImportError):
        zstandard = importlib.import_module("zstandard")

        def decompress(content: bytes) -> bytes:
            reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
            return bytes(reader.read())

        return zstandard.ZstdCompressor().compress, decompress
    with contextlib.suppress(ImportError):
        pa = importlib.import_module("pyarrow")

        def compress(content: bytes) -> bytes:
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, "zstd") as stream:
                stream.write(content)
            return bytes(sink.getvalue())

        def expand(content: bytes) -> bytes:
            with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                return bytes(stream.read())

        return compress, expand
    raise FileError(f"{where}: zstd needs Python 3.14, zstandard or pyarrow; pip install zstandard")


# ---- text ----------------------------------------------------------------------------------------


def _decode(where: str, content: bytes, encoding: str | None) -> tuple[str, str, tuple[str, ...]]:
    """(text, encoding, notes). A byte-order mark stays in the text, so that it can be written back.

    >>> _decode("a.csv", "Zürich".encode("latin-1"), None)[:2]
    ('Zürich', 'cp1252')
    """
    for magic, remedy in _MAGIC.items():
        if content.startswith(magic):
            raise FileError(f"{where}: this is not a text file: {remedy}")
    guessed = encoding is None
    if encoding is None:
        encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        encoding = codecs.lookup(encoding).name
    except LookupError:
        raise FileError(f"{where}: unknown encoding {encoding!r}; use utf-8, cp1252, utf-16, ...") from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    if encoding == "utf-16":  # the codec of that name would drop the mark and choose its own order on writing
        encoding = "utf-16-be" if content.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    try:
        text, notes = content.decode(encoding), ()
    except UnicodeDecodeError as error:
        if not guessed or encoding != "utf-8":
            line = content.count(b"\n", 0, error.start) + 1
            raise FileError(f"{where}: line {line}: not {encoding}; pass --encoding with the right one") from None
        return _decode_old(where, content)
    if "\0" in text[:4096]:
        raise FileError(f"{where}: this is not a text file, or one in utf-16; pass --format or --encoding")
    return text, encoding, notes


def _decode_old(where: str, content: bytes) -> tuple[str, str, tuple[str, ...]]:
    """Text that is not UTF-8: Windows' Western code page, else latin-1, in which every byte is a letter."""
    try:
        text, encoding = content.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        text, encoding = content.decode("latin-1"), "latin-1"
    return text, encoding, (f"{where}: not UTF-8, read as {encoding}; pass --encoding if letters look wrong",)


def _encode(where: str, text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        letter = text[error.start]
        raise FileError(f"{where}: {letter!r} cannot be written in {encoding}; use utf-8 instead") from None


# ---- what a column's cells look like -------------------------------------------------------------

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?", re.I)
_BOOLEAN = re.compile("true|false", re.I)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<gap>[T ])[0-9]{2}:[0-9]{2}"
    r"(?P<seconds>:[0-9]{2}(?:\.(?P<fraction>[0-9]{1,9}))?)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")


class Kind(Protocol):
    """How the texts of a column are read as values, and how values are written as such texts."""

    def parse(self, texts: Sequence[str]) -> np.ndarray: ...

    def write(self, values: np.ndarray) -> list[str]: ...


@dataclass(frozen=True)
class Whole:
    """Integers: exact in int64, or, beside holes, in float64.

    >>> Whole.of(["1", "-20"], holes=True).parse(["7"]), Whole.of(["0012"], holes=False)
    (array([7.]), None)
    """

    holes: bool

    @classmethod
    def of(cls, texts: Sequence[str], holes: bool) -> Whole | Text | None:
        if not _all_match(_WHOLE, texts):
            return None
        # Python refuses to read very long ones; 20 characters are what int64 could hold.
        exact = max(map(len, texts)) <= 20 and max(map(abs, map(int, texts))) <= (2**53 if holes else 2**63 - 1)
        return cls(holes) if exact else Text()  # and not Decimal: that would join different numbers

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(list(map(int, texts)), dtype=float if self.holes else np.int64)

    def write(self, values: np.ndarray) -> list[str]:
        return [str(value if isinstance(value, int) else round(value)) for value in values.tolist()]


@dataclass(frozen=True)
class Decimal:
    """Numbers with a decimal mark; filled ones get as many decimals as the most precise of the others.

    >>> Decimal.of(["1.5", "2", "0.25"]).write(np.array([3.14159, -0.001]))
    ['3.14', '0.00']
    >>> Decimal.of(["1e-5", "2.0"]).write(np.array([3.14159e-7]))
    ['3.14159e-07']
    """

    decimals: int | None  # None: scientific notation
    mark: str = "."

    @classmethod
    def of(cls, texts: Sequence[str], mark: str = ".") -> Decimal | None:
        texts = [text.replace(mark, ".") for text in texts] if mark != "." else texts
        if not _all_match(_DECIMAL, texts):
            return None
        joined = "\n".join(texts)
        if "e" in joined or "E" in joined:
            return cls(None, mark)
        decimals = at = 0
        while found := re.compile(rf"\.[0-9]{{{decimals + 1},}}").search(joined, at):
            decimals, at = len(found[0]) - 1, found.end()
        return cls(decimals, mark)

    @classmethod
    def with_comma(cls, texts: Sequence[str], delimiter: str) -> Decimal | None:
        commas = [text for text in texts if "," in text]
        if delimiter not in ";\t" or not commas or any("." in text for text in texts):
            return None
        # Beside tabs, 1,234 is as likely a thousand; a semicolon is chosen because commas are decimal marks.
        if delimiter != ";" and _all_match(_THOUSANDS, commas):
            return None
        return cls.of(texts, ",")

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        if self.mark != ".":
            texts = [text.replace(self.mark, ".") for text in texts]
        return np.array(list(map(float, texts)), dtype=float)

    def write(self, values: np.ndarray) -> list[str]:
        pattern = "%.6g" if self.decimals is None else f"%.{self.decimals}f"
        texts = (pattern % value for value in values.tolist())
        # A small negative number may have lost all its digits: -0.00 is 0.00.
        return [(t.lstrip("-") if not t.strip("-0.") else t).replace(".", self.mark) for t in texts]


@dataclass(frozen=True)
class Boolean:
    """true and false, in the letters that the column uses.

    >>> Boolean.of(["TRUE"]).write(np.array([False, True]))
    ['FALSE', 'TRUE']
    """

    words: tuple[str, str]  # for False and for True

    @classmethod
    def of(cls, texts: Sequence[str]) -> Boolean | None:
        if not _all_match(_BOOLEAN, texts):
            return None
        sample = texts[0]
        style = str.upper if sample.isupper() else str.title if sample.istitle() else str.lower
        return cls((style("false"), style("true")))

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return _objects([text.lower() == "true" for text in texts])

    def write(self, values: np.ndarray) -> list[str]:
        return [self.words[bool(value)] for value in values.tolist()]


@dataclass(frozen=True)
class Date:
    """ISO dates, YYYY-MM-DD."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Date | None:
        return cls() if _all_match(_DATE, texts) and _in_calendar(texts) else None

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(texts, dtype="datetime64[D]")

    def write(self, values: np.ndarray) -> list[str]:
        return [str(text) for text in np.datetime_as_string(values.astype("datetime64[D]"))]


@dataclass(frozen=True)
class Moment:
    """ISO date-times of one zone; the values are that zone's wall clock, in seconds or microseconds.

    >>> kind = Moment.of(["2024-02-29 12:30:00.5Z"])
    >>> kind.write(kind.parse(["2024-02-29 23:59:59.25Z"]))
    ['2024-02-29 23:59:59.2Z']
    """

    gap: str  # between date and time
    digits: int | None  # of the second's fraction; None: no seconds
    zone: str

    @classmethod
    def of(cls, texts: Sequence[str]) -> Moment | None:
        parts = [found for found in takewhile(bool, map(_MOMENT.fullmatch, texts)) if found]
        if len(parts) < len(texts):
            return None
        zone = parts[0]["zone"] or ""
        if any((part["zone"] or "") != zone for part in parts):
            return None  # one array has one clock
        seconds = any(part["seconds"] for part in parts)
        digits = max(len(part["fraction"] or "") for part in parts) if seconds else None
        kind = cls(parts[0]["gap"], digits, zone)
        return kind if _in_calendar(kind._clock(texts)) else None

    def _clock(self, texts: Sequence[str]) -> list[str]:
        """Without the zone, which numpy has no place for, nor what is finer than microseconds."""
        return [text[: len(text) - len(self.zone)][:26] for text in texts]

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.array(self._clock(texts), dtype="datetime64[us]" if self.digits else "datetime64[s]")

    def write(self, values: np.ndarray) -> list[str]:
        unit = "m" if self.digits is None else "us" if self.digits else "s"
        texts = np.datetime_as_string(values.astype(f"datetime64[{unit}]"))
        cut = None if not self.digits or self.digits >= 6 else self.digits - 6
        zeros = "0" * max(0, (self.digits or 0) - 6)
        return [str(text)[:cut].replace("T", self.gap) + zeros + self.zone for text in texts]


@dataclass(frozen=True)
class Text:
    """Anything else, as it is."""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return _objects(texts)

    def write(self, values: np.ndarray) -> list[str]:
        return [str(value) for value in values.tolist()]


@dataclass(frozen=True)
class Unknown:
    """No cell to judge by: an array of NaN, as other readers give; what fills it is written in full."""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return np.empty(0)

    def write(self, values: np.ndarray) -> list[str]:
        return [_text(value) for value in _plain_values(values)]


def _kind_of(texts: Sequence[str], holes: bool, delimiter: str) -> Kind:
    """The first kind that all of a column's texts, without spaces around them, fit.

    >>> _kind_of(["1", "2.50"], False, ","), _kind_of(["01", "12"], False, ","), _kind_of(["1,5"], False, ";")
    (Decimal(decimals=2, mark='.'), Text(), Decimal(decimals=1, mark=','))
    """
    if not texts:
        return Unknown()
    return (
        Whole.of(texts, holes)
        or Decimal.of(texts)
        or Decimal.with_comma(texts, delimiter)
        or Boolean.of(texts)
        or Date.of(texts)
        or Moment.of(texts)
        or Text()
    )


def _all_match(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return all(map(pattern.fullmatch, texts))


def _in_calendar(texts: Sequence[str]) -> bool:
    try:
        np.array(texts, dtype="datetime64[us]")
    except ValueError:
        return False
    return True


def _objects(values: Iterable[Any]) -> np.ndarray:
    return np.fromiter(values, dtype=object)  # np.array would make lists of one length a second dimension


def _spread(absent: Sequence[bool], observed: np.ndarray) -> np.ndarray:
    """The observed values in their places, and the dtype's own mark of missing in the others.

    >>> _spread([False, True, False], np.array([1.0, 2.0]))
    array([ 1., nan,  2.])
    """
    if len(observed) == len(absent):
        return observed
    empty: Any = {"O": None, "M": "NaT"}.get(observed.dtype.kind, np.nan)
    column = np.full(len(absent), empty, dtype=observed.dtype)
    column[~np.array(absent)] = observed
    return column


# ---- delimited files -----------------------------------------------------------------------------


@dataclass
class _ColumnText:
    kind: Kind
    quoted: bool  # every observed cell is in quotes, so filled ones are too


@dataclass
class _Delimited:
    """A delimited file's records as they were, and which of them are rows."""

    where: str
    delimiter: str
    newline: str
    records: list[str]  # the header, the rows, and blank lines, without `newline`
    header: int  # index of the header in records
    rows: list[int]  # index of each row in records
    columns: dict[str, _ColumnText]
    tail: str  # after the last record: a newline or nothing
    bom: str = ""
    encoding: str = "utf-8"

    def render(self, filled: Any, data: Any, source: str, target: str) -> bytes | None:
        if target not in DELIMITED:
            return None
        same = target == source or target == "txt"
        delimiter = self.delimiter if same else DELIMITED[target]
        records = self.records.copy()
        columns = list(self.columns.values())
        for row, cells in self._changes(filled, data).items():
            records[row] = self._replaced(records[row], cells, columns)
        if delimiter != self.delimiter:
            records[self.header] = self._redelimited(records[self.header], delimiter)
            for row in self.rows:
                records[row] = self._redelimited(records[row], delimiter)
        return _encode(self.where, self.bom + self.newline.join(records) + self.tail, self.encoding)

    def _changes(self, filled: Any, data: Columns) -> dict[int, list[tuple[int, str]]]:
        """Record → (column, text) of its filled cells."""
        changes: dict[int, list[tuple[int, str]]] = {}
        for number, (name, column) in enumerate(self.columns.items()):
            rows, values = _changed(self.where, name, data[name], filled)
            for row, text in zip(rows.tolist(), column.kind.write(values), strict=True):
                changes.setdefault(self.rows[row], []).append((number, text))
        return changes

    def _replaced(self, record: str, cells: list[tuple[int, str]], columns: list[_ColumnText]) -> str:
        fields, end = self._split(record)
        for number, text in cells:
            old = fields[number]
            quoted = old.startswith('"') or columns[number].quoted
            if not quoted and not isinstance(columns[number].kind, Text):
                text = old[: len(old) - len(old.lstrip())] + text  # "1, ?, 3" keeps its spaces
            fields[number] = _quote(text, self.delimiter, quoted)
        return self.delimiter.join(fields) + end

    def _redelimited(self, record: str, delimiter: str) -> str:
        fields, end = self._split(record)
        return delimiter.join(_quote(_unquote(text), delimiter, text.startswith('"')) for text in fields) + end

    def _split(self, record: str) -> tuple[list[str], str]:
        """(fields, what ends the record beside the newline)."""
        if not record:
            return [""], ""
        _, _, fields = next(_scan(self.where, record, self.newline, self.delimiter))
        return fields, "\r" if self.newline == "\n" and record.endswith("\r") else ""


def _read_delimited(where: str, text: str, delimiter: str, na: frozenset[str]) -> tuple[Columns, _Delimited]:
    newline = _newline_of(text)
    records: list[str] = []
    scan = _scan(where, text, newline, delimiter)
    while not (found := next(scan))[1].strip():  # blank lines above the header stay too
        records.append(found[1])
    line, record, fields = found
    records.append(record)
    names = _names(where, line, [_unquote(name).strip() for name in fields])

    width, header, rows = len(names), len(records) - 1, []
    cells: list[list[str]] = [[] for _ in names]
    block: list[list[str]] = []
    for line, record, fields in scan:
        if len(fields) != width:
            if not record.strip():  # a blank line is no row, but stays where it is
                records.append(record)
                continue
            raise FileError(
                f"{where}: line {line}: {len(fields)} fields instead of {width}; "
                f"correct the line, or pass --delimiter if it is not {delimiter!r}"
            )
        rows.append(len(records))
        records.append(record)
        block.append(fields)
        if len(block) == 4096:  # in pieces: a list for every row would fill the memory
            _append_transposed(cells, block)
            block.clear()
    _append_transposed(cells, block)

    columns: Columns = {}
    layouts: dict[str, _ColumnText] = {}
    for name, column in zip(names, cells, strict=True):
        columns[name], layouts[name] = _parse_column(column, delimiter, na)
        column.clear()
    tail = newline if text.endswith(newline) else ""
    return columns, _Delimited(where, delimiter, newline, records, header, rows, layouts, tail)


def _append_transposed(cells: list[list[str]], rows: list[list[str]]) -> None:
    for column, part in zip(cells, zip(*rows, strict=True), strict=False):
        column.extend(part)


def _parse_column(cells: list[str], delimiter: str, na: frozenset[str]) -> tuple[np.ndarray, _ColumnText]:
    """The typed column, worked out on its different cells only.

    >>> _parse_column(["1", "", "3", "1"], ",", frozenset([""]))[0]
    array([ 1., nan,  3.,  1.])
    """
    # Of cells that are mostly different, the different ones are not worth finding.
    sample = cells[:4096]
    repeated = len(set(sample)) * 2 < len(sample)
    different = list(dict.fromkeys(cells)) if repeated else cells
    quotes = '"' in "".join(different)
    texts = list(map(_unquote, different)) if quotes else different
    bare = list(map(str.strip, texts))
    absent = list(map(na.__contains__, bare))
    observed = [text for text, hole in zip(bare, absent, strict=True) if not hole]
    kind = _kind_of(observed, len(observed) < len(texts), delimiter)
    if isinstance(kind, Text):  # whose spaces are its own
        observed = [text for text, hole in zip(texts, absent, strict=True) if not hole]
    values = _spread(absent, kind.parse(observed))
    if repeated:
        place = dict(zip(different, range(len(different)), strict=True))
        values = values[np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))]
    known = zip(different, absent, strict=True)
    quoted = quotes and bool(observed) and all(hole or cell.startswith('"') for cell, hole in known)
    return values, _ColumnText(kind, quoted)


def _names(where: str, line: int, names: list[str]) -> list[str]:
    """The header's names, each there and there once."""
    empty = [str(number) for number, name in enumerate(names, 1) if not name]
    if empty:
        raise FileError(
            f"{where}: line {line}: no name in the header for column {', '.join(empty[:5])}; "
            "give each column a name (an index is left out by to_csv(index=False))"
        )
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1)) if _repeats(names) else []
    if twice:
        shown = ", ".join(map(repr, twice[:5])) + (", ..." if len(twice) > 5 else "")
        raise FileError(
            f"{where}: line {line}: the header has {shown} more than once; "
            "give each column its own name (and add a header line if there is none)"
        )
    return names


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _scan(where: str, text: str, newline: str, delimiter: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line number, raw record, raw fields) of each record; a quoted field may hold delimiters and newlines.

    A quote opens a field only at its start, as everywhere; 5" is a plain cell.

    >>> list(_scan("a.csv", '1,"x ""y""\\n,",5"\\n,', "\\n", ","))
    [(1, '1,"x ""y""\\n,",5"', ['1', '"x ""y""\\n,"', '5"']), (3, ',', ['', ''])]
    """
    plain = f"[^{re.escape(delimiter)}{newline}]*"
    one = re.compile(f'"[^"]*(?:""[^"]*)*"{plain}|(?!"){plain}')
    start, line, length = 0, 1, len(text)
    while start < length:
        end = text.find(newline, start)
        end = length if end < 0 else end
        record = text[start:end]
        lines = 1
        if '"' not in record:
            body = record[:-1] if newline == "\n" and record.endswith("\r") else record
            fields = body.split(delimiter)
        else:
            fields, end = [], start - 1
            while end < start or (end < length and text[end] == delimiter):
                found = one.match(text, end + 1)
                if found is None:
                    lines += text.count(newline, start, end + 1)
                    raise FileError(
                        f"{where}: line {line + lines - 1}: a quote at the start of a cell is never closed; "
                        "close it, or double it and put the cell in quotes if it belongs to the text"
                    )
                fields.append(found[0])
                end = found.end()
            record = text[start:end]
            if newline == "\n":
                fields[-1] = fields[-1].removesuffix("\r")
            lines += record.count(newline)
        yield line, record, fields
        start, line = end + 1, line + lines


def _newline_of(text: str) -> str:
    return "\r" if "\r" in text and "\n" not in text else "\n"  # of \r\n, the \r is part of the record


_QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"(.*)', re.S)


def _unquote(raw: str) -> str:
    """The text of a raw field.

    >>> _unquote('"a ""b"" c"'), _unquote('5"')
    ('a "b" c', '5"')
    """
    if not raw.startswith('"'):
        return raw
    found = _QUOTED.match(raw)
    return found[1].replace('""', '"') + found[2] if found else raw


def _quote(text: str, delimiter: str, always: bool) -> str:
    if always or delimiter in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def _delimiter_of(where: str, text: str, format: str, given: str | None) -> str:
    """The delimiter: given, the tab of a .tsv, or what splits the first lines most evenly.

    >>> _delimiter_of("a.csv", "x;y\\n1,5;2,5\\n3,1;4,2\\n", "csv", None)
    ';'
    """
    if given is not None:
        return _checked_delimiter(where, given)
    newline = _newline_of(text)
    if format == "tsv" and "\t" in text.lstrip().partition(newline)[0]:
        return "\t"
    best, delimiter = (0.0, 1), DELIMITED[format]
    for candidate in DELIMITERS:
        score = _evenness(text, newline, candidate)
        if score[1] > 1 and score > best:
            best, delimiter = score, candidate
    return delimiter


def _evenness(text: str, newline: str, delimiter: str) -> tuple[float, int]:
    """(share of the first lines with as many fields as the header, that number)."""
    try:
        first = [(record, len(fields)) for _, record, fields in islice(_scan("", text, newline, delimiter), 100)]
    except FileError:  # its quotes do not stand beside this delimiter
        return 0.0, 0
    counts = [count for record, count in first if record.strip(" \r\n")]
    return (counts.count(counts[0]) / len(counts), counts[0]) if counts else (0.0, 0)


def _checked_delimiter(where: str, delimiter: str) -> str:
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)  # what one can type in a shell
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise FileError(f"{where}: the delimiter must be one character such as ',' ';' '|' or 'tab', not {delimiter!r}")
    return delimiter


# ---- JSON-lines ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixed:
    """JSON values that are no column of one kind: nested ones, several types, or none at all."""

    def parse(self, texts: Sequence[str]) -> np.ndarray:
        return _objects(texts)

    def write(self, values: np.ndarray) -> list[str]:
        return [json.dumps(value, default=str) for value in _plain_values(values)]


@dataclass
class _JsonLines:
    """The lines as they were, and which of them are rows."""

    where: str
    encoding: str
    bom: str
    lines: list[str]
    rows: list[int]  # index of each row in lines
    kinds: dict[str, Kind]

    def render(self, filled: Any, data: Any, source: str, target: str) -> bytes | None:
        if target != "jsonl":
            return None
        lines = self.lines.copy()
        for row, values in self._changes(filled, data).items():
            lines[row] = _spliced(lines[row], values)
        return _encode(self.where, self.bom + "\n".join(lines), self.encoding)

    def _changes(self, filled: Any, data: Columns) -> dict[int, dict[str, str]]:
        """Line → key → JSON text of its filled values."""
        escape = all(map(str.isascii, self.lines))  # such a file may go where only ASCII is read
        changes: dict[int, dict[str, str]] = {}
        for name, kind in self.kinds.items():
            rows, values = _changed(self.where, name, data[name], filled)
            for row, text in zip(rows.tolist(), kind.write(values), strict=True):
                if isinstance(kind, Text | Date | Moment):
                    text = json.dumps(text, ensure_ascii=escape)
                changes.setdefault(self.rows[row], {})[name] = text
        return changes


def _read_json_lines(
    where: str, text: str, na: frozenset[str]
) -> tuple[Columns, tuple[list[str], list[int], dict[str, Kind]]]:
    lines = text.split("\n")
    rows, objects = [], []
    for number, line in enumerate(lines):
        if line.strip():
            rows.append(number)
            objects.append(_json_object(where, number + 1, line))
    names = list(dict.fromkeys(name for row in objects for name in row))
    if not names:
        raise FileError(f'{where}: the objects have no keys; each is a row such as {{"age": 31, "sex": null}}')
    columns: Columns = {}
    kinds: dict[str, Kind] = {}
    for name in names:
        columns[name], kinds[name] = _json_column([row.get(name) for row in objects], na)
    return columns, (lines, rows, kinds)


def _json_object(where: str, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = getattr(error, "msg", None) or str(error)
        raise FileError(f"{where}: line {number}: not JSON ({what}); write one whole object per line") from None
    if not isinstance(row, dict):
        raise FileError(f"{where}: line {number}: a {type(row).__name__}, not an object; write one object per line")
    return row


def _json_column(values: list[Any], na: frozenset[str]) -> tuple[np.ndarray, Kind]:
    """The typed column of JSON values.

    >>> _json_column([1, None, 3], frozenset())
    (array([ 1., nan,  3.]), Whole(holes=True))
    """
    values = [None if value != value or (na and isinstance(value, str) and value in na) else value for value in values]
    absent = [value is None for value in values]
    observed = [value for value in values if value is not None]
    holes = len(observed) < len(values)
    types = set(map(type, observed))
    if not observed:
        return np.full(len(values), np.nan), Mixed()
    if types == {bool}:
        return _objects(values), Boolean(("false", "true"))
    if types == {int} and isinstance(kind := Whole.of(list(map(str, dict.fromkeys(observed))), holes), Whole):
        return _spread(absent, kind.parse(observed)), kind
    if types in ({float}, {int, float}) and max(map(abs, observed)) <= sys.float_info.max:
        # Ten thousand numbers show how many decimals there are; the repr of all of them takes long.
        shown = list(map(repr, islice(dict.fromkeys(map(float, observed)), 10_000)))
        return _spread(absent, np.array(observed, dtype=float)), Decimal.of(shown) or Decimal(None)
    if types == {str}:
        texts = list(dict.fromkeys(observed))
        stamp = Date.of(texts) or Moment.of(texts)
        return (_spread(absent, stamp.parse(observed)), stamp) if stamp else (_objects(values), Text())
    return _objects(values), Mixed()


_SPACE = re.compile(r"[ \t\n\r]*")


def _spliced(line: str, changes: Mapping[str, str]) -> str:
    """`line` with the given JSON texts as values; every other character stays.

    >>> _spliced('{"a": null, "b": 1.50}', {"a": "2", "c": '"x"'})
    '{"a": 2, "b": 1.50, "c": "x"}'
    """
    decoder, spans, gap, colon = json.JSONDecoder(), {}, None, None
    last = at = line.index("{") + 1
    while line[at := _skip(line, at)] != "}":
        if line[at] == ",":
            at = _skip(line, at + 1)
            gap = gap or line[last:at]
        key, named = decoder.raw_decode(line, at)
        at = _skip(line, _skip(line, named) + 1)
        colon = colon or line[named:at]
        last = decoder.raw_decode(line, at)[1]
        spans[key] = (at, last)
        at = last
    colon = colon or ": "
    gap = gap or (", " if colon.endswith(" ") else ",")
    absent = [f"{json.dumps(key)}{colon}{text}" for key, text in changes.items() if key not in spans]
    pieces = [((last, last), (gap if spans else "") + gap.join(absent))] if absent else []
    pieces += [(spans[key], text) for key, text in changes.items() if key in spans]
    for (start, end), text in sorted(pieces, reverse=True):  # from the right, so that positions stay true
        line = line[:start] + text + line[end:]
    return line


def _skip(line: str, at: int) -> int:
    found = _SPACE.match(line, at)
    return found.end() if found else at


# ---- Parquet and Feather -------------------------------------------------------------------------


@dataclass
class _Arrow:
    def render(self, filled: Any, data: Any, source: str, target: str) -> bytes | None:
        if target not in ("parquet", "feather"):
            return None
        if filled.schema.equals(data.schema):  # without metadata and with nullability
            filled = type(filled).from_arrays(filled.columns, schema=data.schema)
        return _arrow_bytes(filled.replace_schema_metadata(data.schema.metadata), target)


def _pyarrow(where: str) -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise FileError(f"{where}: Parquet and Feather files need pyarrow; pip install pyarrow") from None


def _read_arrow(where: str, content: bytes, format: str) -> Any:
    pa = _pyarrow(where)
    try:
        if format == "parquet":
            table = importlib.import_module("pyarrow.parquet").read_table(pa.BufferReader(content))
        elif content.startswith((b"ARROW1", b"FEA1")):
            table = importlib.import_module("pyarrow.feather").read_table(pa.BufferReader(content))
        else:
            table = pa.ipc.open_stream(content).read_all()  # .arrow is now and then the stream of the same
    except (pa.ArrowException, OSError, ValueError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(f"{where}: not a {format.title()} file, or a damaged one ({what})") from None
    if _repeats(table.column_names):
        twice = dict.fromkeys(name for name in table.column_names if table.column_names.count(name) > 1)
        raise FileError(f"{where}: columns {', '.join(map(repr, twice))} are there more than once; rename them")
    return table


def _arrow_bytes(table: Any, format: str) -> bytes:
    sink = io.BytesIO()
    if format == "parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, sink)
    else:
        importlib.import_module("pyarrow.feather").write_feather(table, sink)
    return sink.getvalue()


# ---- writing without an original -----------------------------------------------------------------


def _serialise(where: str, data: Any, format: str, delimiter: str | None, encoding: str) -> bytes:
    if format in ("parquet", "feather"):
        return _arrow_bytes(_arrow_table(where, data), format)
    columns = _plain_columns(where, data)
    out = io.StringIO()
    if format == "jsonl":
        for row in zip(*columns.values(), strict=True):
            out.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=str) + "\n")
    else:
        writer = csv.writer(out, delimiter=delimiter or DELIMITED[format], lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*([_text(value) for value in column] for column in columns.values()), strict=True))
    return _encode(where, out.getvalue(), encoding)


def _arrow_table(where: str, data: Any) -> Any:
    pa = _pyarrow(where)
    if isinstance(data, pa.Table):
        return data
    arrays = {}
    for name, values in data.items():
        try:
            arrays[name] = pa.array(values, from_pandas=True)  # NaN and NaT become null
        except (pa.ArrowException, ValueError, TypeError) as error:
            what = str(error).splitlines()[0]
            raise FileError(f"{where}: column {name!r} does not fit Arrow ({what}); write .csv or .jsonl") from None
    return pa.table(arrays)


def _plain_columns(where: str, data: Any) -> dict[str, list[Any]]:
    """Lists of None, bool, int, float, str and nested values."""
    if isinstance(data, Mapping):
        return {str(name): _plain_values(np.asarray(values)) for name, values in data.items()}
    pa = _pyarrow(where)
    columns = {}
    for name, column in zip(data.column_names, data.columns, strict=True):
        if pa.types.is_timestamp(column.type):  # nanoseconds would need pandas
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        columns[name] = _plain_values(_objects(column.to_pylist()))
    return columns


def _plain_values(values: np.ndarray) -> list[Any]:
    """Python's own values, dates as ISO text; floats that are all whole numbers, such as ages, as integers.

    >>> _plain_values(np.array([31.0, np.nan])), _plain_values(np.array([0.1], dtype=np.float32))
    ([31, None], [0.1])
    """
    if values.dtype.kind == "M":
        return [None if text == "NaT" else str(text) for text in np.datetime_as_string(values)]
    if values.dtype.kind == "f":
        known = values[~np.isnan(values)]
        if (np.abs(known) < 2**53).all() and (known == np.rint(known)).all():
            return [None if value != value else int(value) for value in values.tolist()]
        # By way of their text: 0.1 in float32 is 0.1 for its reader, not 0.10000000149.
        exact = values.tolist() if values.dtype == float else [float(str(value)) for value in values]
        return [None if value != value else value for value in exact]
    return [None if _is_missing(value) else _plain_value(value) for value in values.tolist()]


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value.isoformat() if hasattr(value, "isoformat") else value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


# ---- what was filled -----------------------------------------------------------------------------


def _changed(where: str, name: str, before: np.ndarray, filled: Any) -> tuple[np.ndarray, np.ndarray]:
    """(rows, values) of the cells that are not what they were; a cell that is still missing has not changed.

    >>> _changed("a.csv", "x", np.array([1.0, np.nan, np.nan]), {"x": np.array([1.0, 7.0, np.nan])})
    (array([1]), array([7.]))
    """
    try:
        after = np.asarray(filled[name])
    except KeyError:
        raise FileError(f"{where}: column {name!r} is not in the filled table; pass it with all columns") from None
    if after.shape != before.shape:
        raise FileError(f"{where}: column {name!r} has {len(after)} rows in the filled table, not {len(before)}")
    kinds = {before.dtype.kind, after.dtype.kind}
    if kinds == {"M"} or kinds <= set("biuf"):
        there = ~np.isnat(after) if after.dtype.kind == "M" else after == after
        changed = np.flatnonzero(there & (before != after))
    else:
        pairs = enumerate(zip(before.tolist(), after.tolist(), strict=True))
        rows = [row for row, (old, new) in pairs if new is not old and not _is_missing(new) and not _same(old, new)]
        changed = np.array(rows, dtype=np.intp)
    return changed, after[changed]


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT, and pandas' NA and NaT, which need not be imported to be known."""
    if isinstance(value, float | np.floating | np.datetime64):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _same(old: Any, new: Any) -> bool:
    try:
        return bool(old == new)
    except (TypeError, ValueError):  # arrays in cells
        return bool(np.array_equal(old, new))
