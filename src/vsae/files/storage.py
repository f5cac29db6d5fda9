"""From a path to bytes and text and back: which format its name says, pipes, compression, encodings, whole writes."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from vsae.storage import atomic
from vsae.storage.atomic import AnyPath

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
    ".xlsx": "xlsx",
}
COMPRESSIONS: dict[str, str] = {".gz": "gzip", ".zst": "zstd"}

ANY_FILE, RATIO = 2**28, 100  # bytes that every file may expand to, and how many for each byte that it has
_PIECE = 256  # bytes of zstd at a time: no more than 8 MB come of them

#: First bytes of what is not text, and what to do: such files bear a text file's name now and then.
_MAGIC = {
    b"\x1f\x8b": "it is compressed with gzip; let its name end in .gz or pass --format csv.gz",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd; let its name end in .zst or pass --format csv.zst",
    b"PAR1": "it is a Parquet file; pass --format parquet",
    b"ARROW1": "it is an Arrow file; pass --format feather",
    b"PK\x03\x04": "it is a spreadsheet or a zip archive; pass --format xlsx for a workbook of Excel",
    b"\xd0\xcf\x11\xe0": "it is an old workbook of Excel; save it as .xlsx or CSV",
}


class FileError(ValueError):
    """The file cannot be read or written: one line that names file, line, column, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # those of libraries may have several


class FileFormat(NamedTuple):
    """What a file's name says about its content."""

    name: str  # a value of FORMATS
    compression: str | None = None  # a value of COMPRESSIONS


File: TypeAlias = tuple[AnyPath, bytes, str | None]  # a path, its content, a value of COMPRESSIONS


def is_pipe(path: AnyPath) -> bool:
    return os.fspath(path) == "-"


def format_of(path: AnyPath, format: str | None, *, default: str) -> FileFormat:
    """The format of `path`; `format` comes before its extension, and `default` is for pipes.

    >>> format_of("a/b.CSV.gz", None, default="csv"), format_of("data.gz", "tsv", default="csv")
    (FileFormat(name='csv', compression='gzip'), FileFormat(name='tsv', compression='gzip'))
    """
    stem, compression = _without_compression(os.path.basename(os.fspath(path)))
    if format is not None:
        extension, given = _without_compression("." + format.lower().lstrip("."))
        if extension not in FORMATS:
            raise FileError(f"unknown format {format!r}; use {', '.join(dict.fromkeys(FORMATS.values()))}")
        return FileFormat(FORMATS[extension], given or compression)
    if is_pipe(path):
        return FileFormat(default)
    extension = os.path.splitext(stem)[1].lower()
    if extension not in FORMATS:
        what = f"unknown extension {extension!r}" if extension else "the name has no extension"
        raise FileError(f"{path}: {what}; use {', '.join(FORMATS)} (with .gz or .zst after it), or pass --format")
    return FileFormat(FORMATS[extension], compression)


def _without_compression(name: str) -> tuple[str, str | None]:
    stem, last = os.path.splitext(name)
    compression = COMPRESSIONS.get(last.lower())
    return (stem if compression else name), compression


class Limit(NamedTuple):
    """How many bytes a file may make of itself: a few kilobytes of zstd can be gigabytes."""

    most: int

    @classmethod
    def of(cls, content: bytes, megabytes: int | None) -> Limit:
        return cls(max(ANY_FILE, RATIO * len(content)) if megabytes is None else megabytes * 2**20)

    def check(self, where: str, size: int) -> None:
        if size > self.most:
            raise FileError(
                f"{where}: it expands to more than {self.most // 2**20:,} MB; if it is not made to fill the memory, "
                "raise --max-expanded"
            )


def read_bytes(path: AnyPath, where: str, compression: str | None, megabytes: int | None = None) -> tuple[bytes, Limit]:
    """The content, decompressed, and what it may expand to further where its format is a compressed one."""
    if is_pipe(path) and sys.stdin is None:
        raise FileError("stdin is closed; name a file")
    try:
        content = sys.stdin.buffer.read() if is_pipe(path) else Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{where}: {_reason(error)}; check the path") from None
    codec, limit = codec_of(where, compression), Limit.of(content, megabytes)
    if compression is None:
        return content, limit
    try:
        content = codec.decompress(content, limit.most)
        limit.check(where, len(content))
        return content, limit
    except (FileError, MemoryError):  # the second is not the file's fault
        raise
    except Exception as error:  # every library has its own
        raise FileError(f"{where}: this is not a {compression} file, or it is damaged ({error})") from None


def write_files(contents: Iterable[File], paths: Sequence[AnyPath]) -> None:
    """Write contents to files that are all there or, if anything fails, all as they were.

    Each is written as it comes, so that not all contents are in memory at once; `paths` are those that come. What goes
    to stdout ("-") comes last.
    """
    files = [path for path in paths if not is_pipe(path)]
    for path in files:
        check_place(path)
    piped = []
    try:
        with atomic.written_together(files) as places:
            beside = dict(zip(files, places, strict=True))
            for path, content, compression in contents:
                content = codec_of(str(path), compression).compress(content)
                if is_pipe(path):
                    piped.append(content)
                else:
                    beside[path].write_bytes(content)
    except OSError as error:
        raise FileError(str(error)) from None
    for content in piped:
        _write_stdout(content)


def check_place(path: AnyPath) -> None:
    """Refuse a path that `write_files` could not write to."""
    if is_pipe(path):
        return
    try:
        atomic.check_place(path)
    except OSError as error:
        raise FileError(str(error)) from None


def check_source(path: AnyPath, where: str) -> None:
    """Refuse a path that is no file, before its extension is asked for."""
    if is_pipe(path) or (os.path.exists(path) and not os.path.isdir(path)):
        return
    reason = "this is a folder; name a file in it" if os.path.isdir(path) else "no such file; check the path"
    raise FileError(f"{where}: {reason}")


def _write_stdout(content: bytes) -> None:
    try:
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            atomic.write_stream(sys.stdout.buffer, content)
        else:  # a text-only stand-in, as in doctests and notebooks
            sys.stdout.write(content.decode())
        sys.stdout.flush()
    except OSError as error:
        raise FileError(f"stdout: could not be written: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class Codec(NamedTuple):
    """The two ways of a compression."""

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]  # not much more than so many bytes, and more only if there are more


def codec_of(where: str, compression: str | None) -> Codec:
    """What compresses and decompresses; a `FileError` where no library for it is installed."""
    if compression is None:
        return Codec(bytes, lambda content, most: content)
    if compression == "gzip":  # without a time, so that the same table gives the same bytes
        return Codec(
            lambda content: gzip.compress(content, compresslevel=6, mtime=0),
            lambda content, most: _read_to(gzip.GzipFile(fileobj=io.BytesIO(content)), most),
        )
    with contextlib.suppress(ImportError):
        zstd = importlib.import_module("compression.zstd")  # Python 3.14 on
        return Codec(zstd.compress, lambda content, most: _read_to(zstd.ZstdFile(io.BytesIO(content)), most))
    with contextlib.suppress(ImportError):
        zstandard = importlib.import_module("zstandard")
        return Codec(zstandard.ZstdCompressor().compress, lambda content, most: _all_frames(zstandard, content, most))
    with contextlib.suppress(ImportError):
        pa = importlib.import_module("pyarrow")
        return Codec(
            lambda content: pa.compress(content, codec="zstd", asbytes=True),
            lambda content, most: _read_to(pa.CompressedInputStream(pa.BufferReader(content), "zstd"), most),
        )
    raise FileError(f"{where}: zstd needs Python 3.14, zstandard or pyarrow; pip install zstandard")


def _read_to(stream: Any, most: int) -> bytes:
    """Piece by piece, as room for all that there may be would be taken at once."""
    parts: list[bytes] = []
    size = 0
    while size <= most and (piece := stream.read(2**20)):
        parts.append(piece)
        size += len(piece)
    return b"".join(parts)


def _all_frames(zstandard: Any, content: bytes, most: int) -> bytes:
    """A zstd file may hold several frames, of which zstandard reads one at a time, and does not mind a broken one."""
    parts: list[bytes] = []
    frame, at, size = None, 0, 0
    while at < len(content) and size <= most:
        frame = frame or zstandard.ZstdDecompressor().decompressobj()
        piece = content[at : at + _PIECE]
        parts.append(frame.decompress(piece))
        at, size = at + len(piece), size + len(parts[-1])
        if frame.eof:
            at, frame = at - len(frame.unused_data), None
    if frame is not None and size <= most:
        raise EOFError("it ends too early")
    return b"".join(parts)


@dataclass(frozen=True)
class TextSource:
    """Where a text was read and how its letters were bytes, so that it goes back the same way."""

    where: str
    encoding: str
    bom: str = ""  # the byte-order mark, if there was one

    def encode(self, text: str) -> bytes:
        try:
            return (self.bom + text).encode(self.encoding)
        except UnicodeEncodeError as error:
            letter = error.object[error.start]
            raise FileError(
                f"{self.where}: {letter!r} cannot be written in {self.encoding}; use utf-8 instead"
            ) from None


def decode(where: str, content: bytes, encoding: str | None) -> tuple[str, TextSource, tuple[str, ...]]:
    """(text, source, notes for the user); an `encoding` of None is detected.

    >>> decode("a.csv", "Zürich".encode("latin-1"), None)[:2]
    ('Zürich', TextSource(where='a.csv', encoding='cp1252', bom=''))
    """
    for magic, remedy in _MAGIC.items():
        if content.startswith(magic):
            raise FileError(f"{where}: this is not a text file: {remedy}")
    candidates = _encodings(where, content, encoding)
    for candidate in candidates:
        try:
            text = content.decode(candidate)
            break
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
    else:
        raise FileError(f"{where}: line {line}: this is not {candidate}; pass the right --encoding")
    if "\0" in text[:4096]:
        raise FileError(f"{where}: this is not a text file, or one in utf-16; pass --format or --encoding")
    bom, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    if not text.strip():
        raise FileError(f"{where}: the file is empty; it needs a header line and rows")
    notes = () if candidate == candidates[0] else (not_utf8(where, candidate),)
    return text, TextSource(where, candidate, bom), notes


def not_utf8(where: str, encoding: str) -> str:
    return f"{where}: this file is not UTF-8, so it was read as {encoding}; pass --encoding if letters look wrong"


def _encodings(where: str, content: bytes, given: str | None) -> tuple[str, ...]:
    """What to try, by names of codecs that leave a byte-order mark in the text and add none when writing."""
    if given is None and not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-8", "cp1252", "latin-1"  # Windows' Western code page; in latin-1 every byte is a letter
    try:
        name = codecs.lookup(given or "utf-16").name
        "".encode(name)  # a codec such as zlib or rot13 turns no letters into bytes
    except (LookupError, ValueError):
        raise FileError(f"{where}: unknown encoding {given!r}; use utf-8, cp1252, utf-16, ...") from None
    if name == "utf-16":
        return ("utf-16-be" if content.startswith(codecs.BOM_UTF16_BE) else "utf-16-le",)
    return ("utf-8" if name == "utf-8-sig" else name,)
