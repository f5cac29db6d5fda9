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
    """Whether files can be read in blocks, as far as their names tell."""
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
    """Fill the blocks, once for each drawn table; what is there of the same job is not done again.

    `on_begin` is told how many blocks are there, of how many; `on_block`, how many rows were filled, of how many.
    """
    how = how or How()
    what = {"model": model[1], "strategy": imputer.strategy, "how": [how.draws, how.seed, list(how.only)]}
    parts = [Parts(target, {**what, "table": i}) for i, target in enumerate(targets)]
    for each in parts:
        each.open()
    pending = sorted({block for each in parts for block in each.pending()})
    if on_begin is not None:
        on_begin(len(blocks.blocks) - len(pending), len(blocks.blocks))
    summary, rows = Summary(absent=_absent(imputer, blocks)), sum(block.rows for block in pending)
    target_of = {file: i for i, (_, files) in enumerate(targets[0].files) for file in files}
    left = Counter(target_of[block.file] for block in pending)
    for number in range(len(targets[0].files)):
        if not left[number]:
            _finish(parts, number)
    filler = Filler(imputer, blocks, parts, how)
    for done in (engine or ThisProcess()).run(filler, pending, model[0]):
        summary.add(done)
        number = target_of[done.block.file]
        left[number] -= 1
        if not left[number]:
            _finish(parts, number)
        if on_block is not None:
            on_block(done, summary.rows, rows)
    for each in parts:
        each.remove()
    return summary


def _absent(imputer: VSAEImputer, blocks: Blocks) -> list[Any]:
    """The modelled columns that the table lacks."""
    return [plan.label for plan in imputer.schema_.modelled if plan.label not in blocks.columns]


def _finish(parts: Sequence[Parts], number: int) -> None:
    for each in parts:
        each.finish(number)


def checksum(path: str | Path) -> str:
    """Of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
