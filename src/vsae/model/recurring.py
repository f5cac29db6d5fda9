"""Numbers that rows share, where it matters which one it is.

To a few pieces of a line (`features.py`), neighbours are much the same. But a patient's number, an exact dose or a
price from a list say more: what other rows with the very same number have. So such a number is a level of its own,
too, which has an embedding (docs/decisions/0019).

An age is shared by rows as well, and yet those of 47 are like those of 46 and 48. Embeddings of ages would learn what
is chance, and whose rows these are. So a column has them only where means of other columns jump from one of its values
to the next by more than chance makes them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.data.microaggregation import FEWEST
from vsae.data.schema import DISCRETE, Block, Schema

T = TypeVar("T")

_MOST_CELLS = 100_000  # that values are counted in
_MOST_AWAY = 2.0**12  # standard deviations: no value that recurs lies farther from the mean
_APART = 2.0**14  # by which variables are set apart, so that all values that recur lie in one sorted list
_CLEAR = 8.0  # standard errors: ages, years and scores come to 5, and a patient's number to 50
_FEWEST_VALUES, _FEWEST_CELLS = 4, 2  # neighbours on both sides; cells of the other column beside a value
_OF_NEIGHBOURS = 1.94  # by which sums over overlapping neighbours vary more than over independent ones
_LARGEST = 25.0  # squared standard errors of one value: a step is two or three values of many, a code is all of them
_MATTERS = 1e-3  # of the other column's variance: what is less, such as the curve of a logarithm, is no jump
_FARTHEST = 3.0  # standard deviations, of a number whose means are compared
_MOST_LEVELS, _MOST_OTHERS, _FEWEST_OTHERS = 64, 128, 4  # of a column; columns in all, and beside one of them
_MOST_VISITS = 2**26  # of cells: a second


def cells_to_embed(schema: Schema, data: Batch) -> Tensor:
    """(n, numbers): usable cells of the columns in which it matters which number it is, of a data set (n, …)."""
    own = [i for block in schema.number_blocks for i in block.attributes]
    some = data.take(slice(0, None, max(1, data.rows // _MOST_CELLS)))
    columns = some.numbers(schema.number_blocks).double().T
    rows = {j: _rows_that_share(columns[j], some.usable[:, i]) for j, i in enumerate(own)}
    looked_at = {j: where for j, where in rows.items() if len(where)}
    telling = torch.zeros(len(own), dtype=torch.bool, device=data.mask.device)
    if looked_at:
        others = _Others.of(schema, some)
        each = _MOST_VISITS // sum(map(len, looked_at.values()))
        for j, where in looked_at.items():  # once a fit, not once a step
            telling[j] = jumps(columns[j][where], *others.beside(own[j], where, max(each, _FEWEST_OTHERS)))
    return data.usable[:, own] & telling


def _rows_that_share(column: Tensor, usable: Tensor) -> Tensor:
    """Rows with a number that several have, if there are enough such numbers to compare."""
    rows = usable.nonzero()[:, 0]
    _, place, count = column[rows].unique(return_inverse=True, return_counts=True)
    shared = count >= FEWEST
    return rows[shared[place]] if int(shared.sum()) >= _FEWEST_VALUES else rows[:0]


class _Others(NamedTuple):
    """What means are compared of: numbers, and shares of levels; of some rows, and which of these know them."""

    values: Tensor  # (n, K)
    known: Tensor  # (n, K)
    attribute: Tensor  # (K,)

    @classmethod
    def of(cls, schema: Schema, data: Batch) -> _Others:
        """Of all columns, or of as many as are enough, evenly."""
        every: list[tuple[int, Block, int, int]] = []  # attribute, block, variable, level
        for block in schema.blocks:
            if block not in schema.number_blocks and block.family not in DISCRETE:
                continue
            for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
                size = variable.size if block.family in DISCRETE else 1
                levels = [1] if size == 2 else _evenly(list(range(size)), _MOST_LEVELS)
                every += [(i, block, j, level) for level in levels]
        chosen, parts = _evenly(every, _MOST_OTHERS), []
        numbers = {block.name: data.numbers([block]).clamp(-_FARTHEST, _FARTHEST) for block in schema.number_blocks}
        for _, block, j, level in chosen:
            is_level = block.family in DISCRETE
            parts.append((data.values[block.name][:, j] == level).float() if is_level else numbers[block.name][:, j])
        owner = torch.tensor([i for i, *_ in chosen], device=data.mask.device)
        return cls(torch.stack(parts, dim=1), data.usable[:, owner], owner)

    def beside(self, attribute: int, rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Of some rows, but not of an attribute itself: values, and which are known."""
        other = _evenly((self.attribute != attribute).nonzero()[:, 0].tolist(), most)
        return self.values[rows][:, other].double(), self.known[rows][:, other].double()


def _evenly(things: list[T], most: int) -> list[T]:
    """
    >>> _evenly([1, 2, 3, 4, 5], 3)
    [1, 2, 4]
    """
    return [things[k * len(things) // most] for k in range(most)] if len(things) > most else things


def jumps(column: Tensor, x: Tensor, known: Tensor) -> bool:
    """Whether the means of another column beside the values of this one (n,), each of several rows, are off the lines
    through those beside their neighbours; of one of several others, x (n, K), as far as they are known (n, K).

    A squared distance holds what chance makes of means of so many cells, which each value's own cells tell; what is
    left, in units of the chance of all, is summed up.

    >>> codes = (torch.arange(400) % 40).double()
    >>> noise, known = torch.randn(400, 1).double(), torch.ones(400, 1).double()
    >>> jumps(codes, codes[:, None] / 10 + noise, known), jumps(codes, (7 * codes[:, None] % 40) / 10 + noise, known)
    (False, True)
    """
    if not x.shape[1]:
        return False
    value, place = column.unique(return_inverse=True)
    sums = (known, known * x, known * x * x)
    cells, total, squares = (x.new_zeros(len(value), x.shape[1]).index_add_(0, place, y) for y in sums)
    many = cells.clamp_min(1)
    mean = total / many
    scatter = (squares - total * mean).clamp_min(0)
    whole = (squares.sum(0) / many.sum(0) - (total.sum(0) / many.sum(0)) ** 2).clamp_min(1e-12)
    within = scatter.sum(0) / (cells - 1).clamp_min(0).sum(0).clamp_min(1)
    right = ((value[1:-1] - value[:-2]) / (value[2:] - value[:-2]))[:, None]
    off = mean[1:-1] - torch.lerp(mean[:-2], mean[2:], right)
    chance = _of_three(within / many, right) + _MATTERS * whole
    own = _of_three(scatter / (cells - 1).clamp_min(1) / many, right)
    enough = torch.stack([cells[:-2], cells[1:-1], cells[2:]]).amin(0) >= _FEWEST_CELLS
    excess = torch.where(enough, ((off**2 - own) / chance).clamp(-_LARGEST, _LARGEST), 0.0).sum(0)
    spread = torch.where(enough, (own / chance).clamp_min(1.0) ** 2, 0.0).sum(0)
    clear = excess > _CLEAR * (2 * _OF_NEIGHBOURS * spread).sqrt()
    return bool((clear & (enough.sum(0) >= _FEWEST_VALUES - 2)).any())


def _of_three(variance: Tensor, right: Tensor) -> Tensor:
    """The variance of a distance from the line between two neighbours, from those of the means (values, K)."""
    return variance[1:-1] + (1 - right) ** 2 * variance[:-2] + right**2 * variance[2:]


def recurring_values(numbers: Tensor, observed: Tensor, most: int) -> Tensor:
    """Keys, rising, of the values that at least `FEWEST` rows of a column show, the most frequent if there are more
    than `most`; of (n, variables) numbers and which of them are observed.

    >>> column = torch.tensor([[1.0]] * 5 + [[2.0]] * 4 + [[3.0]] * 7)
    >>> recurring_values(column, torch.ones(16, 1, dtype=torch.bool), most=9)
    tensor([1., 3.], dtype=torch.float64)
    """
    keys = [numbers.new_zeros(0, dtype=torch.float64)]
    counts = [numbers.new_zeros(0, dtype=torch.long)]
    for j, key in enumerate(_keys(numbers).T):  # once a fit, not once a step
        column = key[observed[:, j]]
        value, count = column[:: max(1, len(column) // _MOST_CELLS)].unique(return_counts=True)
        shared = count >= FEWEST
        keys.append(value[shared])
        counts.append(count[shared])
    every, frequent = torch.cat(keys), torch.cat(counts).argsort(descending=True, stable=True)
    return every[frequent[:most]].sort().values


def _keys(numbers: Tensor) -> Tensor:
    """(…, variables) numbers as places on one line, float64: those of one variable do not meet those of another."""
    variable = torch.arange(numbers.shape[-1], device=numbers.device, dtype=torch.float64)
    return numbers.double().clamp(-_MOST_AWAY, _MOST_AWAY) + _APART * variable


class RecurringValues(nn.Module):
    """Which of at most `size` values a number is.

    >>> values = RecurringValues(4)
    >>> values.fit(torch.tensor([[1.0]] * 5 + [[3.0]] * 5), torch.ones(10, 1, dtype=torch.bool))
    >>> values(torch.tensor([[3.0], [2.0], [1.0]])).flatten()
    tensor([1, 4, 0])
    """

    keys: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("keys", torch.full((size,), torch.finfo(torch.float64).max, dtype=torch.float64))

    @torch.no_grad()
    def fit(self, numbers: Tensor, observed: Tensor) -> None:
        found = recurring_values(numbers, observed, self.size)
        self.keys[: len(found)] = found

    def forward(self, numbers: Tensor) -> Tensor:
        """(…, variables) numbers → places among the values, `size` for none of them."""
        key = _keys(numbers).contiguous()
        place = torch.searchsorted(self.keys, key)
        return torch.where(self.keys[place.clamp_max(self.size - 1)] == key, place, self.size)
