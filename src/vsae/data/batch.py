"""`Batch`: rows as tensors, one tensor per block of variables, and the mask.

Values are in the model's *standard units* (see `encoding.py`). The leading shape is free: a data set is `(n, …)`;
the model takes `(E, B, …)`, rows for each of E ensemble members, or `(1, B, …)`, rows they all share.

| block         | shape behind the leading one | holds                                                      |
|---------------|------------------------------|------------------------------------------------------------|
| `gaussian`    | (variables,)                 | float: standardised values                                 |
| `interval`    | (variables, 3)               | float: standardised value, and the edges of what it stands for |
| `bernoulli`, `categorical`, `cumulative` | (variables,) | int64: level codes                              |
| `vector{d}`   | (variables, d)               | float: standardised entries                                |
| `image{C}x{H}x{W}` | (variables, C, H, W)    | float: pixels in [0, 1]                                    |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vsae.data.schema import Block, Family
from vsae.data.weights import effective_rows, systematic


@dataclass(frozen=True)
class Batch:
    """`values[block.name]` as in the table above; `mask` (…, M) bool, True = observed.

    Cells that are not observed hold zeros: no network may read them, and none does.

    >>> data = Batch({"gaussian": torch.arange(6.0).view(3, 2)}, torch.ones(3, 2, dtype=torch.bool))
    >>> data.take(torch.tensor([[2, 0]])).values["gaussian"]
    tensor([[[4., 5.], [0., 1.]]])
    """

    values: Mapping[str, Tensor]
    mask: Tensor
    withheld: Tensor | None = None  # (…, M) bool: observed cells kept for validation, which training must not see
    visible: Tensor | None = None  # (…, M) bool: the usable cells that a training step shows the proposals
    readings: Mapping[str, Tensor] = field(default_factory=dict)  # what a model has read of what is visible
    weight: Tensor | None = None  # (…,) of rows, 1 on average; None: they are alike

    @property
    def usable(self) -> Tensor:
        """Cells that may be read and scored; the mask itself is what the mask network answers for."""
        return self.mask if self.withheld is None else self.mask & ~self.withheld

    @property
    def rows(self) -> int:
        return self.mask.shape[-2]

    def cell_weight(self) -> Tensor | float:
        """Of rows, to weigh their cells with, (…, 1)."""
        return 1.0 if self.weight is None else self.weight[..., None]

    def in_proportion(self, rows: Tensor) -> Tensor:
        """Some rows (r,) of a data set, in their order, each as often as its weight says; as many as they are worth."""
        if self.weight is None or not len(rows):
            return rows
        weight = self.weight[rows]
        return rows[systematic(weight, max(1, round(effective_rows(weight))))]

    def take(self, index: Tensor | slice) -> Batch:
        """Rows of a data set; an index of shape (E, B) gives each member its own."""
        if isinstance(index, slice):
            return self._each(lambda x: x[index])
        flat, shape = index.flatten(), index.shape  # whole rows are copied more quickly than x[index] gathers cells
        return self._each(lambda x: x.index_select(0, flat).unflatten(0, shape))

    def for_members(self) -> Batch:
        """A data set (n, …) as one batch (1, n, …) that all members share."""
        return self._each(lambda x: x[None])

    def as_data_set(self) -> Batch:
        """A batch (1, n, …) that all members share, as (n, …)."""
        return self._each(lambda x: x[0])

    def split(self, members: int) -> Batch:
        """A data set (E·B, …) as a batch (E, B, …): each member has rows of its own."""
        return self._each(lambda x: x.unflatten(0, (members, -1)))

    @classmethod
    def joined(cls, parts: Sequence[Batch]) -> Batch:
        """One after the other along the first dimension: data sets (n, …), or batches (E, B, …) of other members."""
        values = {name: torch.cat([part.values[name] for part in parts]) for name in parts[0].values}
        withheld = [part.withheld for part in parts if part.withheld is not None]
        return cls(values, torch.cat([part.mask for part in parts]), torch.cat(withheld) if withheld else None)

    def repeated(self, times: int) -> Batch:
        """The rows of a batch (E, B, …) over and over, (E, times·B, …)."""
        return self._each(lambda x: x.repeat(1, times, *[1] * (x.dim() - 2)))

    def numbers(self, blocks: Sequence[Block]) -> Tensor:
        """The values of blocks of numbers side by side, (…, numbers)."""
        parts = [self.values[b.name][..., 0] if b.family is Family.INTERVAL else self.values[b.name] for b in blocks]
        return torch.cat(parts, dim=-1)

    def with_mask(self, mask: Tensor) -> Batch:
        """With another mask; what was read of the visible cells stays true of them alone."""
        readings = self.readings if mask is self.visible else {}
        return Batch(self.values, mask, self.withheld, readings=readings, weight=self.weight)

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda x: x.to(device))

    def step(self, number: int) -> Batch:
        """One of several batches that were taken and read together, (steps, E, B, …)."""
        return self._each(lambda x: x[number])

    def copy_(self, other: Batch) -> None:
        """Overwrite every tensor by that of another batch of the same shape."""
        for mine, its in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(its)

    def clone(self) -> Batch:
        return self._each(torch.clone)

    def _tensors(self) -> list[Tensor]:
        masks = [part for part in (self.mask, self.withheld, self.visible, self.weight) if part is not None]
        return [*self.values.values(), *masks, *self.readings.values()]

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        def of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: change(x) for name, x in tensors.items()}

        others = (self.withheld, self.visible, self.weight)
        withheld, visible, weight = (None if part is None else change(part) for part in others)
        return Batch(of(self.values), change(self.mask), withheld, visible, of(self.readings), weight)
