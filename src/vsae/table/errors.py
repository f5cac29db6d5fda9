"""What may be wrong with a table, said in one line that names the column and the remedy."""

from __future__ import annotations

import importlib
from typing import Any


class TableError(ValueError):
    """A table, or what was asked of it, is wrong; one line that names the column and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(map(str.strip, message.splitlines())))  # the repr of an array may have several


class DataWarning(UserWarning):
    """Cells or columns that are given back as they came; the message names them."""


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {noun}{'s' * (n != 1)}"


def library(name: str) -> Any:
    """A dataframe library, imported when a table needs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package, *_ = name.split(".")
        raise TableError(f"this table needs {package}, which is not installed; pip install {package}") from error
