"""What the command line says on stderr: notes, warnings and errors, one line each; and its streams, which may be closed
or full."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: object) -> str:
    r"""A text from outside, whose control characters would move the cursor, colour the screen or turn the line around.

    >>> print(printable("age\x1b[31m"))
    age\x1b[31m
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def note(message: object, quiet: bool = False) -> None:
    if not quiet:
        print(f"vsae: {' '.join(printable(message).split())}", file=sys.stderr)


def warn(message: object) -> None:
    """Said even when quiet: something is not as the user may think."""
    note(f"warning: {message}")


def fail(message: str) -> NoReturn:
    note(message)
    raise typer.Exit(1)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """An error in the input ends the program with one line and exit code 1; a warning is one line, too."""
    from vsae.storage.checkpoint import FileFormatError
    from vsae.training.history import TrainingDiverged

    said = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if str(message) not in said:  # a table is read by the fit, and again to be filled
            said.add(str(message))
            warn(message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except (ValueError, FileFormatError, TrainingDiverged, OSError) as error:
            fail(str(error))
        except MemoryError:
            fail(_OUT_OF_MEMORY)
        except RuntimeError as error:
            if "allocate memory" not in str(error):  # torch's own words
                raise
            fail(_OUT_OF_MEMORY)


_OUT_OF_MEMORY = "out of memory; use fewer rows or columns, fewer draws, or --effort fast"


@contextmanager
def whole_output() -> Iterator[None]:
    """Streams that are closed stay so. What stdout could not take ends the program with one line and code 1; what
    stderr could not take is dropped: results do not depend on remarks."""
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:  # or the next file that is opened would be taken for this stream
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # print would turn to stdout
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    sys.stderr = _Remarks(sys.stderr)  # type: ignore[assignment]  # all that it is asked for
    if sys.stdout is None:
        sys.stdout = _Closed()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        note(f"stdout: could not be written: {(error.strerror or str(error)).lower()}")
        _give_up_stdout()
        raise SystemExit(1) from None


class _Remarks:
    """stderr, whose disk may be full."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Closed(io.TextIOBase):
    """Stands for stdout where that is closed."""

    def write(self, text: str) -> int:
        raise OSError("stdout is closed; redirect it, or name a file with -o")

    @property
    def buffer(self) -> _Closed:
        return self


def _give_up_stdout() -> None:
    """Or Python would flush it once more, and say so."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
