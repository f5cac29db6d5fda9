"""A job on a table in files: its blocks, the parts that are done, and the files that are put together of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from vsae.engines.filling import Filled, Filler, How, Summary
from vsae.estimator import VSAEImputer
from vsae.files import DEFAULT_NA
from vsae.files.arrow_blocks import ArrowBlocks
from vsae.files.blocks import Block, Blocks, cannot_stream
from vsae.files.delimited import Asked
from vsae.files.parts import Parts, Target
from vsae.files.sources import input_files, is_many
from vsae.files.storage import FileError
from vsae.files.text_blocks import TextBlocks
from vsae.table.survey import Survey

Model = tuple[str | Path, str]  # a file, and its checksum
LARGE = 2**28  # bytes: what is larger is streamed unless the user says otherwise


class Engine(Protocol):
    """Decides who reads and fills which block."""

    def survey(self, blocks: Blocks, size: int, seed: int, on_rows: Callable[[int], None] | None = None) -> Survey:
        """One pass over all rows, of which `size` are sampled; `on_rows` may be told how many were read."""

    def run(self, filler: Filler, pending: Sequence[Block], model: str | Path) -> Iterator[Filled]:
        """Each block once, in any order; `model` is the file of the filler's own."""


class ThisProcess:
    """One block after the other, here."""

    def survey(self, blocks: Blocks, size: int, seed: int, on_rows: Callable[[int], None] | None = None) -> Survey:
        found = Survey(size, seed)
        for _, table in blocks.read(blocks.blocks):
            found.add(table.data)
            if on_rows is not None:
                on_rows(found.rows)
        return found

    def run(self, filler: Filler, pending: Sequence[Block], model: str | Path) -> Iterator[Filled]:
        return filler.fill(pending)


def blocks_of(given: str, format: str | None = None, asked: Asked | None = None, encoding: str | None = None) -> Blocks:
    """The blocks of a table in files: a file, a folder, or a name with wildcards."""
    files, found = input_files(given, format)
    if found.name in ArrowBlocks.formats:
        return ArrowBlocks(files, found)
    if found.name in TextBlocks.formats:
        return TextBlocks(files, found, asked or Asked(na=frozenset(DEFAULT_NA)), encoding)
    raise cannot_stream(str(files[0].path), f"a {found.name} file")


def is_large(given: str) -> bool:
    """Whether a table is streamed where the user does not say: several files, or more than `LARGE` bytes.

    Of a Parquet file, the bytes that it has when they are not compressed.
    """
    if is_many(given):
        return True
    path = Path(given)
    if not path.is_file():
        return False
    size = path.stat().st_size
    if path.suffix.lower() in (".parquet", ".pq"):
        with suppress(Exception):  # what is wrong with it, its reader says
            from pyarrow.parquet import ParquetFile

            known = ParquetFile(path).metadata
            size = max(size, sum(known.row_group(i).total_byte_size for i in range(known.num_row_groups)))
    return size > LARGE


def can_stream(given: str) -> bool:
    """Whether files can be read in blocks, as far as their names tell: of several files, there is no other way."""
    if is_many(given):
        return True
    try:
        found = input_files(given)[1]
    except FileError:
        return False
    return not found.compression and found.name in (*ArrowBlocks.formats, *TextBlocks.formats)


def impute(
    imputer: VSAEImputer,
    blocks: Blocks,
    targets: Sequence[Target],
    *,
    model: Model,
    how: How | None = None,
    engine: Engine | None = None,
    on_begin: Callable[[int, int], None] | None = None,
    on_block: Callable[[Filled, int, int], None] | None = None,
) -> Summary:
    """Fill the blocks, once for each drawn table; what is there of the same job is not done again, and counted.

    Where cells are missing and none could be filled, there is no output. `on_begin` is told how many blocks are there,
    of how many; `on_block`, how many rows were filled, of how many.
    """
    how = how or How()
    what = {"model": model[1], "strategy": imputer.strategy, "how": [how.draws, how.seed, list(how.only)]}
    parts = [Parts(target, {**what, "table": i}) for i, target in enumerate(targets)]
    filler = Filler(imputer, blocks, parts, how)  # refuses what cannot be filled, before there are folders
    for each in parts:
        each.open()
    pending = sorted({block for each in parts for block in each.pending()})
    if on_begin is not None:
        on_begin(len(blocks.blocks) - len(pending), len(blocks.blocks))
    summary, outputs = Summary(absent=_absent(imputer, blocks)), _Outputs(parts, pending)
    waiting = set(pending)
    for block in (block for block in blocks.blocks if block not in waiting):
        summary.add(Filled.of(block, parts[0].report(block) or ({}, [], [])))
    outputs.finish(summary)
    rows, of = 0, sum(block.rows for block in pending)
    for done in (engine or ThisProcess()).run(filler, pending, model[0]):
        summary.add(done)
        outputs.add(done.block)
        outputs.finish(summary)
        rows += done.block.rows
        if on_block is not None:
            on_block(done, rows, of)
    for each in parts:
        each.remove()
    return summary


class _Outputs:
    """The files that are put together when all of their blocks are done, and it is known that there is any use."""

    def __init__(self, parts: Sequence[Parts], pending: Sequence[Block]) -> None:
        files = [files for _, files in parts[0].target.files]
        self.parts, self.number = parts, {file: i for i, some in enumerate(files) for file in some}
        self.pending = Counter(self.number[block.file] for block in pending)
        self.ready = [i for i in range(len(files)) if not self.pending[i]]

    def add(self, block: Block) -> None:
        """A block that is done."""
        number = self.number[block.file]
        self.pending[number] -= 1
        if not self.pending[number]:
            self.ready.append(number)

    def finish(self, summary: Summary) -> None:
        """Put together what is ready, from the first cell that was filled on, or where all is done and none misses."""
        if not summary.filled and (self.pending.total() or summary.is_nothing):
            return
        for number in self.ready:
            for each in self.parts:
                each.finish(number)
        self.ready.clear()


def _absent(imputer: VSAEImputer, blocks: Blocks) -> list[Any]:
    """The modelled columns that the table lacks."""
    return [plan.label for plan in imputer.schema_.modelled if plan.label not in blocks.columns]


def checksum(path: str | Path) -> str:
    """Of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
