"""The one place that opens files to write: they are there whole or not at all.

A file is written beside its place, flushed to disk, then renamed into it; several files are renamed when all of them
are written. A device or a named pipe has no place to rename into: it gets the bytes once all of them are there.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

AnyPath: TypeAlias = "str | os.PathLike[str]"

STALE = 3600.0  # seconds since anything was written to a part of a file: its process was killed


class NotWritten(OSError):
    """The disk is full, or the like; the message names the file."""


def check_place(path: AnyPath) -> None:
    """Refuse, in one line, a path that `written_beside` could not write to."""
    target = Path(os.path.realpath(path))  # a link is written through
    if target.is_dir():
        raise IsADirectoryError(f"{path}: this is a folder; name a file in it")
    if is_special(path):
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}; create it first")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{path}: the folder {target.parent} is not writable; choose another")


def is_special(path: AnyPath) -> bool:
    """A device or a named pipe: it is written to as it is, and must not be renamed over."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def written_beside(path: AnyPath) -> Iterator[Path]:
    """A new file beside `path` to write to; afterwards it takes the place of `path`, or vanishes if anything failed.

    A link is written through, and a file that is there keeps its mode; a new one gets what the umask allows.
    """
    with written_together([path]) as (beside,):
        yield beside


@contextmanager
def written_together(paths: Sequence[AnyPath]) -> Iterator[list[Path]]:
    """The same of several files: none of them takes its place before all are written."""
    for path in paths:
        check_place(path)
    try:
        with ExitStack() as parts:
            places = [parts.enter_context(_part(path)) for path in paths]
            yield places
            for path, beside in zip(paths, places, strict=True):
                _settle(path, beside)
            for path, beside in zip(paths, places, strict=True):
                _put(beside, path)
    except NotWritten:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotWritten(f"{', '.join(map(str, paths[:3]))}: could not be written: {reason}") from None


@contextmanager
def _part(path: AnyPath) -> Iterator[Path]:
    """A new file in the folder of `path`, that is gone afterwards; those that killed processes left go, too."""
    target = Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if is_special(path) else target.parent
    prefix, suffix = f".{target.name[:80]}.", ".part"
    for old in folder.iterdir():
        if old.name.startswith(prefix) and old.name.endswith(suffix):
            with contextlib.suppress(OSError):  # its own process may be faster
                if time.time() - old.lstat().st_mtime > STALE:
                    old.unlink()
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)  # it is elsewhere by now, if all went well


def _settle(path: AnyPath, beside: Path) -> None:
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    there = os.path.isfile(path)
    beside.chmod(os.stat(path).st_mode & 0o777 if there else 0o666 & ~_umask())


def _put(beside: Path, path: AnyPath) -> None:
    if is_special(path):
        with beside.open("rb") as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)
    else:
        os.replace(beside, os.path.realpath(path))


def write_text(path: AnyPath, text: str) -> None:
    """
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/note", "whole")
    ...     print(Path(folder, "note").read_text(), len(os.listdir(folder)))
    whole 1
    """
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_stream(stream: Any, content: bytes) -> None:
    """All of `content`, to a binary stream that may be raw: such a one writes what it can, and says how much."""
    left = memoryview(content)
    while left:
        written = stream.write(left)
        if written is None:  # it does not block, and has no room now
            select.select([], [stream], [])
        left = left[written or 0 :]
    stream.flush()


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
