"""What every engine does with a block of rows: read it, fill it, keep what came of it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vsae.estimator import VSAEImputer
from vsae.files.blocks import Block, Blocks
from vsae.files.parts import Parts
from vsae.table import fills
from vsae.table.errors import DataWarning

_MOST_SAID = 20  # different warnings; the others are counted


class How(NamedTuple):
    """What is put into missing cells."""

    draws: int = 0  # tables; 0: one, as the strategy of the model says
    seed: int = 0  # of draws
    only: tuple[str, ...] = ()  # columns to fill; empty: all

    @property
    def tables(self) -> int:
        return max(1, self.draws)


class Filled(NamedTuple):
    """What was done with one block."""

    block: Block
    filled: dict[str, int]  # cells, by column
    left: dict[tuple[str, str], int]  # cells, by column and reason
    said: tuple[str, ...]  # warnings

    def report(self) -> list[Any]:
        """As JSON, without the block."""
        return [self.filled, [[*about, cells] for about, cells in self.left.items()], self.said]

    @classmethod
    def of(cls, block: Block, report: Any) -> Filled:
        filled, left, said = report
        return cls(block, filled, {(name, why): cells for name, why, cells in left}, tuple(said))


@dataclass
class Summary:
    """What was done with all blocks."""

    rows: int = 0
    filled: Counter[str] = field(default_factory=Counter)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)  # in how many blocks
    absent: list[Any] = field(default_factory=list)  # columns of the model that the table lacks

    @property
    def is_nothing(self) -> bool:
        """Whether cells are missing, and none of them could be filled."""
        return bool(self.left) and not self.filled

    def add(self, done: Filled) -> None:
        self.rows += done.block.rows
        self.filled.update(done.filled)
        self.left.update(done.left)
        for message in done.said:
            if message in self.said or len(self.said) < _MOST_SAID:
                self.said[message] += 1


class Filler:
    """Fills blocks with a model, and keeps their parts: one for each table that is written."""

    def __init__(self, imputer: VSAEImputer, blocks: Blocks, parts: Sequence[Parts], how: How) -> None:
        imputer.refuse_parts(draws=how.draws > 0)
        self.imputer, self.blocks, self.parts, self.how = imputer, blocks, parts, how

    def fill(self, blocks: Sequence[Block]) -> Iterator[Filled]:
        for block, table in self.blocks.read(blocks):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", DataWarning)
                warnings.filterwarnings(
                    "ignore", message="the missing cells of these columns are left"
                )  # it is counted
                tables = self._tables(table.data, block.first_row)
                if self.how.only:
                    tables = [table.only(each, self.how.only) for each in tables]
                counts = self._counted(table.data, tables[0])
            messages = [str(each.message) for each in said if issubclass(each.category, DataWarning)]
            done = Filled(block, *counts, tuple(dict.fromkeys(messages)))
            for parts, filled in zip(self.parts, tables, strict=True):
                part = self.blocks.part(block, table, filled, whole=not parts.target.is_folder)
                parts.write(block, part, done.report())
            yield done

    def _tables(self, data: Any, first_row: int) -> list[Any]:
        if not self.how.draws:
            return list(self.imputer.transform_batches([data], first_row=first_row))
        rows = np.arange(first_row, first_row + _length(data))
        return list(self.imputer.draw(data, self.how.draws, random_state=self.how.seed, row_ids=rows))

    def _counted(self, data: Any, filled: Any) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
        done, left = {}, {}
        for fill in fills.fills(self.imputer.schema_, data, filled):
            name, why = str(fill.label), fill.left
            if self.how.only and name not in self.how.only:
                why = why or "not among those of --only"
            if fill.size and why:
                left[name, why] = fill.size
            elif fill.size:
                done[name] = fill.size
        return done, left


def _length(data: Any) -> int:
    return len(next(iter(data.values()), ())) if isinstance(data, dict) else len(data)
