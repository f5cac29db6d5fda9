"""What the command line says on stderr: notes, warnings and errors, one line each."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer


def note(message: object, quiet: bool = False) -> None:
    if not quiet:
        print(f"vsae: {message}", file=sys.stderr)


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

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        warn(message)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except (ValueError, FileFormatError, TrainingDiverged, OSError) as error:
            fail(" ".join(str(error).split()))
