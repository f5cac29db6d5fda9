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
_AT_ONCE = 2**17  # walks: what is known of them stays in the processor's cache
_STRIDE = 8  # questions between two looks at which rows have arrived


class Fill(NamedTuple):
    """What the model expects in the cells of some rows, in standard units."""

    numbers: Tensor  # (n, numbers)
    levels: Mapping[str, Tensor]  # by variable, probabilities (n, levels)


class Inputs:
    """The columns that trees ask about: a number is one, a variable with two levels one, another one a level."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.numbers = torch.tensor([i for block in schema.number_blocks for i in block.attributes], dtype=torch.long)
        self.blocks = [block for block in schema.blocks if block.family in DISCRETE]
        codes = [pair for block in self.blocks for pair in zip(block.variables, block.attributes, strict=True)]
        levels = [
            (place, level, i)
            for place, (variable, i) in enumerate(codes)
            if variable.size <= MOST_LEVELS
            for level in range(variable.size)
        ]
        self.names = [variable.name for variable, _ in codes if variable.size <= MOST_LEVELS]
        place, level, owner = torch.tensor(levels, dtype=torch.long).view(-1, 3).T
        of_two = torch.tensor([codes[j][0].size == 2 for j in place.tolist()], dtype=torch.bool)
        self.kept = (~of_two | (level == 1)).nonzero()[:, 0]  # of all levels, which have columns
        self.place, self.level, self.owner = (x[self.kept] for x in (place, level, owner))
        self.attribute = torch.cat([self.numbers, self.owner])  # of each column

    def __call__(self, batch: Batch, fill: Fill) -> Tensor:
        """Rows (n, …) as they are shown, filled: (n, columns)."""
        parts, device = [], batch.mask.device
        numbers, kept, place, level, owner = (
            x.to(device) for x in (self.numbers, self.kept, self.place, self.level, self.owner)
        )
        if len(numbers):
            x = batch.numbers(self.schema.number_blocks)
            parts.append(torch.where(batch.mask.index_select(1, numbers), x, fill.numbers.to(x)))
        if len(place):
            codes = torch.cat([batch.values[block.name] for block in self.blocks], dim=1)
            shown = (codes.index_select(1, place) == level).float()
            share = torch.cat([fill.levels[name] for name in self.names], dim=1).index_select(1, kept)
            parts.append(torch.where(batch.mask.index_select(1, owner), shown, share.to(shown)))
        return torch.cat(parts, dim=1)


class _Nodes(NamedTuple):
    """As in a Forest, except that a leaf leads to itself: rows that have arrived stay where they are."""

    column: Tensor
    threshold: Tensor
    next: Tensor
    leaf: Tensor  # numbers; -1: a question

    def to(self, device: torch.device) -> _Nodes:
        return _Nodes(*(part.to(device) for part in self))

    def leaves(self, cells: Tensor, first: Tensor, node: Tensor) -> Tensor:
        """Where rows arrive that begin at places `first` (w,) of the cells and set out from nodes (w,): (w,)."""
        arrived, under_way = node, torch.arange(len(node), device=node.device)
        while len(under_way):
            for _ in range(_STRIDE):
                before = node
                cell = cells.index_select(0, first + self.column.index_select(0, node))
                node = self.next.index_select(0, node) + (cell > self.threshold.index_select(0, node))
            arrived = arrived.index_copy(0, under_way, node)
            going = (node != before).nonzero()[:, 0]
            under_way, node, first = (x.index_select(0, going) for x in (under_way, node, first))
        return self.leaf.index_select(0, arrived)


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

    @cached_property
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
            self.column.int(),
            torch.where(is_leaf, torch.inf, self.threshold),
            torch.where(is_leaf, own, self.next).int(),
            torch.where(is_leaf, -1 - self.next, -1).int(),
        )

    def part(self, trees: slice) -> Forest:
        """Some trees of each variable."""
        return replace(self, roots=self.roots[:, trees])

    def predict(self, inputs: Tensor, rows: Mapping[str, Tensor], *, median: bool = False) -> dict[str, Tensor]:
        """By variable, of some rows of the inputs, their numbers: means (n,) in standard units, shares (n, levels).

        Of numbers, the `median` of what trees say, which is a value of some tree, in the place of the mean. All rows
        walk down one tree before the next, so that its nodes are at hand.
        """
        wanted = [f for f, variable in enumerate(self.found) if variable.name in rows]
        if not wanted:
            return {}
        device, trees, nodes = inputs.device, self.roots.shape[1], self._nodes.to(inputs.device)
        short = torch.int32 if inputs.numel() < 2**31 else torch.int64
        place = [(rows[self.found[f].name].to(device) * inputs.shape[1]).to(short) for f in wanted]
        first = torch.cat([cells.repeat(trees) for cells in place])
        roots = self.roots.int().to(device)
        root = torch.cat([roots[f].repeat_interleave(len(cells)) for f, cells in zip(wanted, place, strict=True)])
        walks, cells = zip(first.split(_AT_ONCE), root.split(_AT_ONCE), strict=True), inputs.flatten()
        leaf = torch.cat([nodes.leaves(cells, *walk) for walk in walks]).split([trees * len(each) for each in place])
        out, starts, every = {}, self.starts.tolist(), self.values.to(device)
        for f, leaves in zip(wanted, leaf, strict=True):
            variable, values = self.found[f], every[starts[f] : starts[f + 1]]
            of_rows = leaves.view(trees, -1).T.contiguous()  # (n, trees)
            if median and variable.family not in DISCRETE:
                odd = trees - 1 + trees % 2  # of an even number torch takes the lower one in the middle
                out[variable.name] = values[of_rows[:, :odd]].median(dim=1).values
                continue
            mean = F.embedding_bag(of_rows, values.view(-1, self.widths[f]), mode="mean")
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
