"""A forest: for each variable, trees that predict it from the others; read as tensors, all of them in one walk.

Networks are smooth, and see an edge late: a category that a threshold decides, a region cut out by two numbers, a level
that two others have in common. Trees see it at once. They read a row as the model fills it: what is missing is what the
model expects, so that there is nothing missing to ask about. Of levels that is their probabilities, and as the trees'
thresholds are random, a level that has .3 is taken for the case in three of ten trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Schema, Variable

MOST_LEVELS = 64  # of a variable that is predicted, or asked about
_AT_ONCE = 2**20  # rows that walk, times trees
_STRIDE = 4  # questions between two looks at who has arrived


class Fill(NamedTuple):
    """What the model expects in the cells of some rows, in standard units."""

    numbers: Tensor  # (n, numbers)
    levels: Mapping[str, Tensor]  # by variable, probabilities (n, levels)


class Inputs:
    """The columns that trees ask about: a number is one, a variable with two levels one, another one a level."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.numbers = [i for block in schema.number_blocks for i in block.attributes]
        self.levels = [
            (block.name, j, variable, i)
            for block in schema.blocks
            if block.family in DISCRETE
            for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True))
            if variable.size <= MOST_LEVELS
        ]
        widths = [1 if variable.size == 2 else variable.size for _, _, variable, _ in self.levels]
        owner = [i for (*_, i), width in zip(self.levels, widths, strict=True) for _ in range(width)]
        self.attribute = torch.tensor([*self.numbers, *owner])  # of each column

    def __call__(self, batch: Batch, fill: Fill) -> Tensor:
        """Rows (n, …) as they are shown, filled: (n, columns)."""
        parts = []
        if self.numbers:
            x = batch.numbers(self.schema.number_blocks)
            parts.append(torch.where(batch.mask[:, self.numbers], x, fill.numbers.to(x)))
        for block, j, variable, i in self.levels:
            shown = F.one_hot(batch.values[block][:, j], variable.size).float()
            share = torch.where(batch.mask[:, i, None], shown, fill.levels[variable.name].to(shown))
            parts.append(share[:, 1:] if variable.size == 2 else share)
        return torch.cat(parts, dim=1)


class _Nodes(NamedTuple):
    """As in a Forest, except that a leaf leads to itself: rows that have arrived stay where they are."""

    column: Tensor
    threshold: Tensor
    next: Tensor
    leaf: Tensor  # numbers; -1: a question

    def to(self, device: torch.device) -> _Nodes:
        return _Nodes(*(part.to(device) for part in self))

    def leaves(self, inputs: Tensor, row: Tensor, root: Tensor) -> Tensor:
        """Where rows (n,) of the inputs arrive that set out from nodes (n, T): (n, T)."""
        first = (row * inputs.shape[1])[:, None].expand_as(root).flatten()
        cells, node, arrived = inputs.flatten(), root.flatten(), root.flatten()
        under_way = torch.arange(len(node), device=node.device)
        while len(under_way):
            for _ in range(_STRIDE):
                cell = cells.index_select(0, first + self.column.index_select(0, node))
                node = self.next.index_select(0, node) + (cell > self.threshold.index_select(0, node))
            arrived = arrived.index_copy(0, under_way, node)
            going = (self.leaf.index_select(0, node) < 0).nonzero()[:, 0]
            under_way, node, first = (x.index_select(0, going) for x in (under_way, node, first))
        return self.leaf.index_select(0, arrived).view_as(root)


@dataclass(frozen=True)
class Forest:
    """T trees of each of F variables.

    A node asks whether a column of the inputs exceeds a threshold, and leads to one of two nodes that lie side by side;
    or it is a leaf, which has a mean (numbers) or shares (levels).
    """

    schema: Schema
    variables: Tensor  # (F,) places in the schema's list of variables
    roots: Tensor  # (F, T) nodes
    column: Tensor  # (N,) of the inputs
    threshold: Tensor  # (N,)
    next: Tensor  # (N,) the first of the two nodes, which comes later in the list; of a leaf -1 - its number
    values: Tensor  # of all leaves, one after the other: a mean in standard units, or a share for each level
    starts: Tensor  # (F + 1,): where those of a variable begin, and the end

    @cached_property
    def found(self) -> list[Variable]:
        every = self.schema.variables
        return [every[i] for i in self.variables.tolist()]

    @property
    def widths(self) -> list[int]:
        """How many values a leaf has, by variable."""
        return [variable.size if variable.family in DISCRETE else 1 for variable in self.found]

    @cached_property
    def inputs(self) -> Inputs:
        return Inputs(self.schema)

    @cached_property
    def _nodes(self) -> _Nodes:
        is_leaf, own = self.next < 0, torch.arange(len(self.next))
        return _Nodes(
            self.column.long(),
            torch.where(is_leaf, torch.inf, self.threshold),
            torch.where(is_leaf, own, self.next),
            torch.where(is_leaf, -1 - self.next, -1).long(),
        )

    def part(self, trees: slice) -> Forest:
        """Some trees of each variable."""
        return replace(self, roots=self.roots[:, trees])

    def predict(self, inputs: Tensor, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By variable, of some rows of the inputs, their numbers: means (n,) in standard units, shares (n, levels)."""
        wanted = [f for f, variable in enumerate(self.found) if variable.name in rows]
        if not wanted:
            return {}
        device = inputs.device
        place = [rows[self.found[f].name].to(device) for f in wanted]
        sizes = [len(cells) for cells in place]
        owner = torch.repeat_interleave(torch.tensor(wanted), torch.tensor(sizes))
        row, root = torch.cat(place), self.roots[owner].long().to(device)
        size, nodes = max(1, _AT_ONCE // self.roots.shape[1]), self._nodes.to(device)
        leaf = torch.cat([nodes.leaves(inputs, *part) for part in zip(row.split(size), root.split(size), strict=True)])
        out = {}
        for f, cells in zip(wanted, leaf.split(sizes), strict=True):
            variable, (start, end) = self.found[f], self.starts[f : f + 2].tolist()
            mean = F.embedding_bag(cells, self.values[start:end].to(device).view(-1, self.widths[f]), mode="mean")
            out[variable.name] = mean if variable.family in DISCRETE else mean[:, 0]
        return out

    def to_tensors(self) -> dict[str, Tensor]:
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "schema"}

    @classmethod
    def from_tensors(cls, schema: Schema, tensors: Mapping[str, Tensor]) -> Forest:
        """Of a file that anyone may have written: a walk ends, and finds a leaf that is there."""
        found = cls(schema, **tensors)
        nodes, every = len(found.next), schema.variables
        own, root = torch.arange(nodes), found.roots.flatten().long()
        if not (
            all(0 <= i < len(every) and not every[i].event for i in found.variables.tolist())
            and len(found.column) == len(found.threshold) == nodes > 0
            and bool(((found.next < 0) | ((found.next > own) & (found.next < nodes - 1))).all())
            and bool(((found.column >= 0) & (found.column < len(found.inputs.attribute))).all())
            and found.roots.shape[:1] == found.variables.shape
            and bool((root.diff() > 0).all() and root[0] == 0 and root[-1] < nodes)
            and bool(found.threshold.isfinite().all() and found.values.isfinite().all())
        ):
            raise ValueError("its trees are none")
        owner = torch.searchsorted(root, own, right=True).sub(1) // found.roots.shape[1]
        leaves = torch.zeros(len(found.variables), dtype=torch.long).scatter_reduce(
            0, owner, -found.next.long(), "amax"
        )
        if (leaves * torch.tensor(found.widths) != found.starts.diff()).any() or found.starts[-1] != len(found.values):
            raise ValueError("its trees have other leaves than values")
        return found
