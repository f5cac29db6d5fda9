"""Blocks: a table in files, however large, as pieces that are read, filled and written one at a time.

Where the blocks begin and end follows from the files alone, so that whoever fills a block, and whenever, gives the
same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vsae.files import FileTable
from vsae.files.notations import Notation
from vsae.files.sources import InputFile
from vsae.files.storage import FileError, FileFormat

CELLS = 2**20  # of a block at most: some 50,000 rows of 20 columns, a few seconds of work


class Block(NamedTuple):
    """Rows that follow one another in one file."""

    number: int  # among all blocks
    file: int  # its number
    first_row: int  # its number over all files
    rows: int
    start: int  # in its file: the first group of rows, or byte
    end: int
    offset: int = 0  # rows of the group before the block


class Blocks(ABC):
    """A table in files of one format; it travels to other processes as it is."""

    files: list[InputFile]
    format: FileFormat
    blocks: list[Block]
    columns: list[str]  # those of folders among them
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def notations(self) -> dict[str, Notation]:
        """How the columns of a text are written; of other formats, none."""
        return {}

    @abstractmethod
    def read(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, FileTable]]:
        """Some of the blocks, in their order; each is a table as it is read from a file of its own."""

    @abstractmethod
    def part(self, block: Block, table: FileTable, filled: Any, *, whole: bool = False) -> bytes:
        """What is kept of a filled block until its file is put together; `whole`: one file of all, so that it needs
        what folders say, and one way of writing."""

    @abstractmethod
    def join(self, parts: Sequence[Path], beside: Path, format: FileFormat, *, whole: bool) -> None:
        """Write one file of the parts; `whole`: of all files."""

    @abstractmethod
    def check_format(self, where: str, format: FileFormat, *, whole: bool) -> None:
        """Refuse a format that the parts cannot be written in, and files that do not go into one."""

    @property
    @abstractmethod
    def style(self) -> str:
        """What all files together say of how a part is written."""

    def batches(self) -> Iterator[Any]:
        """All rows, block by block, as an imputer takes them."""
        for _, table in self.read(self.blocks):
            yield table.data


def cannot_stream(where: str, what: str) -> FileError:
    return FileError(
        f"{where}: {what} cannot be read in blocks; convert it to Parquet, or give it alone to --engine memory"
    )
