"""Numbers that rows share, where it matters which one it is.

To a few pieces of a line (`features.py`), neighbours are much the same. But a patient's number, an exact dose or a
price from a list say more: what other rows with the very same number have. So such a number is a level of its own,
too, which has an embedding (docs/decisions/0019).

An age is shared by rows as well, and yet those of 47 are like those of 46 and 48. Embeddings of ages would learn what
is chance, and whose rows these are. So a column has them only where means of other columns jump from one of its values
to the next by more than chance makes them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.data.microaggregation import FEWEST
from vsae.data.schema import DISCRETE, Schema

_MOST_CELLS = 100_000  # that values are counted in
_MOST_AWAY = 2.0**12  # standard deviations: no value that recurs lies farther from the mean
_APART = 2.0**14  # by which variables are set apart, so that all values that recur lie in one sorted list
_CLEAR = 8.0  # standard errors: on tables of the ordinary kind chance and curves come to 6, a patient's number to 1,000
_FEWEST_VALUES, _FEWEST_CELLS = 4, 2  # neighbours on both sides; cells of the other column beside a value
_OF_NEIGHBOURS = 1.94  # by which sums over overlapping neighbours vary more than over independent ones
_LARGEST = 1e4  # squared standard errors of one value: where a column leaves no error, the rest would not count
_FARTHEST = 3.0  # standard deviations, of a number whose means are compared
_MOST_LEVELS = 64
_MOST_NUMBERS = 2**24  # that are looked at: 100 MB


def cells_to_embed(schema: Schema, data: Batch) -> Tensor:
    """(n, numbers): usable cells of the columns in which it matters which number it is, of a data set (n, …)."""
    own = [i for block in schema.number_blocks for i in block.attributes]
    some = data.take(slice(0, None, -(-data.rows // _rows_looked_at(schema))))
    numbers, others = some.numbers(schema.number_blocks).double(), _Others.of(schema, some)
    found = [  # once a fit, not once a step
        jumps(numbers[seen, j], *others.beside(i, seen))
        for j, (i, seen) in enumerate(zip(own, some.usable.T[own], strict=True))
    ]
    return data.usable[:, own] & torch.tensor(found, device=data.mask.device)


def _rows_looked_at(schema: Schema) -> int:
    width = sum(min(v.size, _MOST_LEVELS) if v.family in DISCRETE else 1 for v in schema.variables if not v.event)
    return max(min(_MOST_CELLS, _MOST_NUMBERS // width), 1)


class _Others(NamedTuple):
    """What means are compared of: numbers, and shares of levels; of some rows, and which of these know them."""

    values: Tensor  # (n, K)
    known: Tensor  # (n, K)
    attribute: Tensor  # (K,)

    @classmethod
    def of(cls, schema: Schema, data: Batch) -> _Others:
        parts, attribute = [], list[int]()
        for block in schema.blocks:
            if block in schema.number_blocks:
                parts.append(data.numbers([block]).clamp(-_FARTHEST, _FARTHEST))
                attribute += block.attributes
            elif block.family in DISCRETE:
                for j, (size, i) in enumerate(zip(block.sizes, block.attributes, strict=True)):
                    levels = torch.arange(int(size == 2), min(size, _MOST_LEVELS), device=data.mask.device)
                    parts.append((data.values[block.name][:, j, None] == levels).float())
                    attribute += [i] * len(levels)
        owner = torch.tensor(attribute, device=data.mask.device)
        return cls(torch.cat(parts, dim=1), data.usable[:, owner], owner)

    def beside(self, attribute: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Of some rows, all but an attribute's own: values, and which are known."""
        other = self.attribute != attribute
        return self.values[rows][:, other].double(), self.known[rows][:, other].double()


def jumps(column: Tensor, x: Tensor, known: Tensor) -> bool:
    """Whether, beside a value of the column (n,), the mean of another one, x (n, K), is not between those beside its
    neighbours; as far as the others are known, (n, K).

    >>> codes = (torch.arange(400) % 40).double()
    >>> noise, known = torch.randn(400, 1).double(), torch.ones(400, 1).double()
    >>> jumps(codes, codes[:, None] / 10 + noise, known), jumps(codes, (7 * codes[:, None] % 40) / 10 + noise, known)
    (False, True)
    """
    value, place, count = column.unique(return_inverse=True, return_counts=True)
    shared = count >= FEWEST
    if int(shared.sum()) < _FEWEST_VALUES or not x.shape[1]:
        return False
    sums = (known, known * x, known * x * x)
    cells, total, squares = (x.new_zeros(len(value), x.shape[1]).index_add_(0, place, y) for y in sums)
    mean = total / cells.clamp_min(1)
    within = (squares - total * mean).clamp_min(0).sum(0) / (cells - 1).clamp_min(0).sum(0).clamp_min(1)
    value, mean, cells = value[shared], mean[shared], cells[shared]
    right = ((value[1:-1] - value[:-2]) / (value[2:] - value[:-2]))[:, None]
    off = mean[1:-1] - torch.lerp(mean[:-2], mean[2:], right)
    one = 1 / cells.clamp_min(1)
    chance = within * (one[1:-1] + (1 - right) ** 2 * one[:-2] + right**2 * one[2:])
    enough = torch.stack([cells[:-2], cells[1:-1], cells[2:]]).amin(0) >= _FEWEST_CELLS
    squared = torch.where(enough, (off**2 / chance.clamp_min(1e-12)).clamp_max(_LARGEST), 0.0).sum(0)
    values = enough.sum(0)
    clear = squared - values > _CLEAR * (2 * _OF_NEIGHBOURS * values).sqrt()
    return bool((clear & (values >= _FEWEST_VALUES - 2)).any())


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
