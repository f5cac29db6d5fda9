"""Files that are there whole or not at all: written beside their place, flushed to disk, then renamed into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse, in one line, a path that `written_beside` could not write to."""
    target = Path(os.path.realpath(path))  # a link is written through
    if target.is_dir():
        raise IsADirectoryError(f"{path}: this is a folder; name a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}; create it first")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{path}: the folder {target.parent} is not writable; choose another")


@contextmanager
def written_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file beside `path` to write to; afterwards it takes the place of `path`, or vanishes if anything failed.

    A link is written through, and a file that is there keeps its mode; a new one gets what the umask allows.
    """
    check_place(path)
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=".part", dir=target.parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.chmod(mode)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/note", "whole")
    ...     print(Path(folder, "note").read_text(), len(os.listdir(folder)))
    whole 1
    """
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
