"""`Imputer`: a trained model with what turns its decoded values into cells of a table.

Rows are worked through in chunks whose size follows from the model's, so memory stays bounded for any number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding, as_dtype
from vsae.data.schema import DISCRETE, Block, Family, Schema
from vsae.imputation.blend import Blend
from vsae.imputation.calibration import Calibration
from vsae.imputation.linear_relations import LinearRelations
from vsae.imputation.tilts import Tilts
from vsae.model.latent_model import ModelT, Noise

ArrayT = TypeVar("ArrayT", NDArray[np.float64], Tensor)
CHUNK_NUMBERS = 2**26  # floats alive at once in one decoded chunk: about 256 MB
_CACHE_NUMBERS = 2**21  # … and in a piece of one that a processor works through in its cache
_FEWEST_IN_PIECE = 32  # rows: of a wide table, it is the weights that leave the cache, for each piece again


@dataclass
class Imputer(Generic[ModelT]):
    """What `point` and `draws` work with. Columns are in natural units, by variable name (level codes for discrete
    variables); `mask` (n, M) is over attributes, True = observed. What is not observed is never read.
    """

    model: ModelT
    encoding: Encoding
    calibration: Calibration = field(default_factory=Calibration)
    relations: LinearRelations | None = None  # None: no number is determined by others
    tilts: Tilts = field(default_factory=Tilts)  # of what is missing because of its own value
    blend: Blend | None = None  # with what trees say; None: the model's word alone
    turns: NDArray[np.int64] | None = None  # in which each attribute is drawn, (M,); None: one after the other

    @property
    def schema(self) -> Schema:
        return self.encoding.schema

    @property
    def device(self) -> torch.device:
        return self.model.device

    def ranges(
        self, rows: int, draws: int = 1, numbers: int | None = None, least: int = 1
    ) -> Iterator[tuple[int, int]]:
        """(start, length) of chunks of bounded memory."""
        size = max(
            least, (numbers or CHUNK_NUMBERS) // (self.model.config.members * draws * self.model.numbers_per_row)
        )
        for start in range(0, rows, size):
            yield start, min(size, rows - start)

    def chunks(self, columns: Columns, mask: Mask, draws: int) -> Iterator[tuple[int, Batch]]:
        """(first row, batch that all members share)."""
        return self.chunks_of(self.encoding.encode(columns, mask), draws)

    def chunks_of(self, data: Batch, draws: int) -> Iterator[tuple[int, Batch]]:
        """Likewise of rows (n, …) that are encoded."""
        for start, rows in self.ranges(data.rows, draws):
            yield start, data.take(slice(start, start + rows)).to(self.device).for_members()

    def pieces_of(self, data: Batch, draws: int) -> Iterator[Batch]:
        """Rows (n, …) that are encoded, in the pieces of their chunks."""
        for _, chunk in self.chunks_of(data, draws):
            yield from self.pieces(chunk, draws)

    def pieces(self, batch: Batch, draws: int) -> Iterator[Batch]:
        """The rows of a chunk, some at a time: as many as a processor decodes without leaving its cache, or all on a
        GPU, which would have to wait for the next."""
        ranges = list(self.ranges(batch.rows, draws, _CACHE_NUMBERS, _FEWEST_IN_PIECE))
        if self.device.type == "cuda" or len(ranges) == 1:
            yield batch
            return
        data = batch.as_data_set()
        for start, rows in ranges:
            yield data.take(slice(start, start + rows)).for_members()

    def shared_noise(self, draws: int | None) -> Noise:
        """The same for every row, so that a row's result depends on nothing but the row; from torch's own generator.

        Latent draws come in mirrored pairs.
        """
        draws = draws or self.model.importance_samples or self.model.config.latent_draws
        return Noise(self.model.config.members, max(2, draws + draws % 2), rows=1, mirrored=True)

    @property
    def knows_every_subset(self) -> bool:
        """Whether re-masking has taught the model to predict a cell from any others: then they can be drawn in turn."""
        return self.model.config.remask[1] > 0 and not self.model.importance_samples

    def fill(
        self, columns: Columns, mask: Mask, imputed: Mapping[str, NDArray[Any]], rows: NDArray[np.intp] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Observed cells as they came, bit for bit; the others imputed, in the column's own dtype. What is imputed may
        be of some rows alone, if no others miss anything, and of some variables."""
        out, at = {v.name: np.array(columns[v.name]) for v in self.schema.variables}, self.schema.attribute_of
        for variable in self.schema.variables:
            missing = np.flatnonzero(~mask[:, at[variable.name]])
            if len(missing):
                column, new = out[variable.name], imputed[variable.name]
                new = finite(variable.name, new[missing if rows is None else np.searchsorted(rows, missing)])
                column[missing] = as_dtype(variable, new, column.dtype).reshape(-1, *column.shape[1:])
        return out


class NoValue(ValueError):
    """The model has no value for a cell: its weights, or those it was saved with, are not finite."""


def finite(name: str, x: ArrayT) -> ArrayT:
    """The values or probabilities of a variable, if all of them are; a cell is never left empty without a word."""
    if not _all_finite(x):
        raise NoValue(f"column {name!r}: the model gives no finite value, so it is damaged; fit it again")
    return x


def _all_finite(x: NDArray[np.float64] | Tensor) -> bool:
    return bool((np.isfinite(x) if isinstance(x, np.ndarray) else torch.isfinite(x)).all())


def per_variable(block: Block, x: ArrayT) -> dict[str, ArrayT]:
    """A block's means or probabilities, apart for its variables; levels have three ways to be laid out."""
    if block.family not in DISCRETE:
        parts = [x[:, j] for j in range(len(block))]
    elif block.family is Family.BERNOULLI:
        both = (np.stack if isinstance(x, np.ndarray) else torch.stack)([1 - x, x], -1)  # (rows, variables, 2)
        parts = [both[:, j] for j in range(len(block))]
    elif block.family is Family.CUMULATIVE:
        parts = [x[:, j, :size] for j, size in enumerate(block.sizes)]
    else:
        ends = np.cumsum([0, *block.sizes]).tolist()
        parts = [x[:, a:b] for a, b in pairwise(ends)]
    named = {variable.name: part for variable, part in zip(block.variables, parts, strict=True)}
    # NaN would be the first level; numbers are looked at where they become cells
    if block.family in DISCRETE and not _all_finite(x):
        for name, part in named.items():
            finite(name, part)
    return named
