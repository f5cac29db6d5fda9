"""Boosted trees: an ensemble of them for each variable, which predicts it from the others; all grow together.

Networks are smooth, and see an edge late: a category that a threshold decides, a region cut out by two numbers. Trees
see it at once, and read missing cells as they are. All have the same depth, so a tree is a table of questions and a
table of values, and the leaf of a row is the number that its answers spell.

A question about a number is whether it is at most some value, missing cells being so or not, or whether it is missing;
about levels, whether it is a certain one, or missing. Which question gains most is read off sums of residuals by leaf,
variable and bin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.microaggregation import FEWEST, microaggregated
from vsae.data.schema import DISCRETE, Block, Schema, Variable

DEPTH = 5
_LEAVES = 2**DEPTH
_BINS = 128  # at most, of a variable; 0 holds its missing cells, and the last one all further levels
_MOST_LEVELS = 64  # of a variable that is predicted
_MOST_ASKED = 32  # variables that are asked about, for each that is predicted: those that tell most by themselves
_MOST_ROWS, _MOST_ROWS_OF_A_TREE, _ROWS_TO_CHOOSE_BY = 50_000, 8192, 512
_AT_ONCE = 2**22  # sums by leaf, variable and bin: 16 MB
_SHARE_OF_ROWS = 0.7  # on which a tree grows, so that trees differ
_RARE = 0.05  # of the rows that show one variable, miss another
_ROWS_REMASKED, _SHARE_HIDDEN = 3, 0.5  # in one of so many rows, so much
_RATE = 0.1
_LEANING = 1.0  # cells of a leaf, towards no change
_FEWEST_CELLS = FEWEST  # on either side of a question, and so in a leaf
_STEEPEST = 4.0  # change of a score by a leaf, before the rate
_PATIENCE = 12  # trees without a better score
_AT_MOST, _AT_MOST_AND_SEEN, _IS = range(3)  # kinds of questions


class Questions(NamedTuple):
    """Of the nodes of trees, level by level, (…, nodes) each: does a variable's cell lie in this bin, or in this one or
    a lower one? Yes leads to the left."""

    variable: Tensor
    bin: Tensor
    kind: Tensor

    def leaf(self, bins: Tensor) -> Tensor:
        """Of rows whose cells lie in bins (F, n), for (T, nodes): (T, n)."""
        leaf = torch.zeros(len(self.variable), bins.shape[1], dtype=torch.long, device=bins.device)
        for depth in range(DEPTH):
            node = leaf + (2**depth - 1)
            variable, bin_, kind = (part.gather(1, node) for part in self)
            leaf = 2 * leaf + _denied(bins.gather(0, variable), bin_, kind)
        return leaf


def _denied(cell: Tensor, bin_: Tensor, kind: Tensor) -> Tensor:
    """Whether the answer is no."""
    higher = (cell > bin_) | ((cell == 0) & (kind == _AT_MOST_AND_SEEN))
    return torch.where(kind == _IS, cell != bin_, higher)


@dataclass(frozen=True)
class BoostedTrees:
    """T trees of each of F variables, numbers first; those that a variable does not want add nothing to it.

    A number has one output, in standard units, a variable with levels one for each, which are log odds; O in all.
    """

    schema: Schema
    edges: Tensor  # (numbers, edges of bins)
    start: Tensor  # (O,): what trees add to
    count: Tensor  # (F,): trees that a variable wants
    questions: Tensor  # (3, F, T, nodes): see Questions
    values: Tensor  # (O, T, leaves)

    @cached_property
    def variables(self) -> list[Variable]:
        return [v for block in _blocks(self.schema) for v in block.variables]

    def bins(self, batch: Batch) -> Tensor:
        """Of rows (n, …), (F, n); 0 where a cell is not shown."""
        return _binned(self.schema, batch, self.edges)

    def predict(self, batch: Batch, only: Collection[str] | None = None) -> dict[str, Tensor]:
        """By variable, of rows (n, …): numbers in standard units (n,), probabilities of levels (n, levels)."""
        bins, out = self.bins(batch), {}
        for f, (variable, outputs) in enumerate(zip(self.variables, _outputs(self.variables), strict=True)):
            if outputs.start == outputs.stop or (only is not None and variable.name not in only):
                continue
            trees = int(self.count[f])
            questions = Questions(*self.questions[:, f, :trees].long().to(bins.device))
            place = questions.leaf(bins) + torch.arange(trees, device=bins.device)[:, None] * _LEAVES  # (T, n)
            values = self.values[outputs, :trees].flatten(1).to(bins.device)
            added = torch.stack([table[place].sum(0) for table in values])  # one at a time: place is large
            score = self.start[outputs, None].to(bins.device) + added
            out[variable.name] = torch.softmax(score, dim=0).T if variable.family in DISCRETE else score[0]
        return out

    def to_tensors(self) -> dict[str, Tensor]:
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "schema"}

    @classmethod
    def from_tensors(cls, schema: Schema, tensors: Mapping[str, Tensor]) -> BoostedTrees:
        return cls(schema, **tensors)


def fit_trees(
    schema: Schema, data: Batch, most: int, seed: int = 0, only: Collection[str] | None = None
) -> BoostedTrees:
    """To the usable cells of a data set (n, …), for all variables or some: at most so many trees for each, and no more
    than do good in rows that they did not grow on."""
    rng = torch.Generator().manual_seed(seed)
    if data.rows > _MOST_ROWS:
        data = data.take(torch.randperm(data.rows, generator=rng)[:_MOST_ROWS].to(data.mask.device))
    return _Growth(schema, data, rng, only).grown(most)


def _blocks(schema: Schema) -> list[Block]:
    return [*schema.number_blocks, *(block for block in schema.blocks if block.family in DISCRETE)]


def _sizes(variables: Sequence[Variable]) -> list[int]:
    """How many outputs each has: none, where levels are too many."""
    return [v.size if v.size <= _MOST_LEVELS else 0 for v in variables]


def _outputs(variables: Sequence[Variable]) -> list[slice]:
    ends = torch.tensor([0, *_sizes(variables)]).cumsum(0).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def _numbers(schema: Schema, batch: Batch) -> Tensor:
    """(numbers, n), in standard units."""
    none = batch.mask.new_zeros(0, batch.rows).float()
    return batch.numbers(schema.number_blocks).T.contiguous() if schema.number_blocks else none


def _codes(schema: Schema, batch: Batch) -> Tensor:
    """(variables with levels, n)."""
    parts = [batch.values[block.name].T.long() for block in schema.blocks if block.family in DISCRETE]
    return torch.cat(parts) if parts else batch.mask.new_zeros(0, batch.rows).long()


def _binned(schema: Schema, batch: Batch, edges: Tensor) -> Tensor:
    numbers, codes = _numbers(schema, batch), _codes(schema, batch)
    place = torch.searchsorted(edges.to(numbers.device), numbers) if len(edges) else numbers.long()
    shown = batch.mask[:, [i for block in _blocks(schema) for i in block.attributes]].T
    return torch.where(shown, torch.cat([place, codes.clamp_max(_BINS - 2)]) + 1, 0)


def _edges(x: Tensor, seen: Tensor) -> Tensor:
    """Of columns (numbers, n), between the values of several cells each: between all of them, or quantiles where these
    are many; ∞ to spare."""
    out = torch.full((len(x), _BINS - 2), torch.inf, device=x.device)
    level = torch.arange(1, _BINS - 1, device=x.device) / (_BINS - 1)
    for edges, column in zip(out, (values[shown] for values, shown in zip(x, seen, strict=True)), strict=True):
        column = torch.from_numpy(microaggregated(column.double().cpu().numpy())).to(x)
        values = column.unique()
        if len(values) > _BINS - 1:
            values = torch.quantile(column.double(), level.double()).unique().to(x)
            edges[: len(values)] = values
        elif len(values) > 1:
            edges[: len(values) - 1] = (values[1:] + values[:-1]) / 2
    return out


def _remasked(bins: Tensor, rng: torch.Generator) -> Tensor:
    """What is hardly ever missing where some other variable is seen may be missing where that is missing, and trees
    that never met this would say anything. So such variables are read as if they were missing in some rows."""
    seen = (bins > 0).float()
    rarely = seen @ (1 - seen).T < _RARE * seen.sum(1, keepdim=True)  # (predicted, asked about)
    rarely.fill_diagonal_(False)
    hidden = torch.rand(bins.shape, generator=rng) < _SHARE_HIDDEN
    hidden[:, torch.arange(bins.shape[1]) % _ROWS_REMASKED != 0] = False
    return torch.where(hidden.to(bins.device) & rarely.any(0)[:, None], 0, bins)


class _Growth:
    """The moving parts of boosting: scores (O, n), to which every tree adds."""

    def __init__(self, schema: Schema, data: Batch, rng: torch.Generator, only: Collection[str] | None) -> None:
        self.schema, self.rng, device = schema, rng, data.mask.device
        variables = [v for block in _blocks(schema) for v in block.variables]
        attributes = torch.tensor([i for block in _blocks(schema) for i in block.attributes], device=device)
        sizes = torch.tensor(_sizes(variables), device=device)
        self.owner = torch.repeat_interleave(sizes)  # variable of each output
        self.seen = data.usable[:, attributes].T.contiguous()  # (F, n)
        numbers = _numbers(schema, data)
        self.edges = _edges(numbers, self.seen[: len(numbers)])
        self.bins = _remasked(_binned(schema, data.with_mask(data.usable), self.edges), rng)
        self.width = int(self.bins.max()) + 1
        codes = _codes(schema, data)
        one_hot = [
            row == torch.arange(size, device=device)[:, None]
            for size, row in zip(_sizes(variables)[len(numbers) :], codes, strict=True)
        ]
        self.target = torch.cat([numbers, *(part.float() for part in one_hot)])  # (O, n)
        self.is_level = torch.tensor([v.family in DISCRETE for v in variables], device=device)
        self.level_outputs = self.is_level[self.owner]
        self.curvature = (sizes / (sizes - 1).clamp_min(1))[self.owner]
        self.start = self._start(sizes)
        self.scores = self.start[:, None].repeat(1, data.rows)
        wanted = [only is None or v.name in only for v in variables]
        self.wanted = torch.tensor(wanted, device=device) & (sizes > 0)
        self.predicted = self._predictions()
        kinds = torch.zeros(len(variables), self.width, 3, dtype=torch.bool, device=device)
        kinds[~self.is_level, :, :_IS] = True
        kinds[~self.is_level, 0, _IS] = True
        kinds[self.is_level, :, _IS] = True
        self.kinds, self.attributes = kinds, attributes
        self.asked = self._asked()

    def _start(self, sizes: Tensor) -> Tensor:
        """Means of numbers, log frequencies of levels."""
        seen = self.seen[self.owner].float()
        added = 0.5 * self.level_outputs
        mean = ((self.target * seen).sum(1) + added) / (seen.sum(1) + added * sizes[self.owner]).clamp_min(0.5)
        return torch.where(self.level_outputs, mean.clamp_min(1e-9).log(), mean)

    def grown(self, most: int) -> BoostedTrees:
        variables = len(self.wanted)
        questions = torch.zeros(3, variables, most, _LEAVES - 1, dtype=torch.int16)
        values = torch.zeros(len(self.owner), most, _LEAVES)
        gained = torch.zeros(variables, device=self.scores.device)
        best, count = gained.clone(), torch.zeros_like(self.wanted, dtype=torch.long)
        for step in range(most):
            growing = (self.wanted & (step - count < _PATIENCE)).nonzero()[:, 0]
            if not len(growing):
                break
            asked, outputs, leaves, gain = self._tree(growing)
            questions[:, growing.cpu(), step] = torch.stack(list(asked)).to(torch.int16).cpu()
            values[outputs.cpu(), step] = leaves.cpu()
            gained = gained + gain
            count = torch.where(gained > best, step + 1, count)
            best = torch.maximum(gained, best)
        kept = int(count.max()) if variables else 0
        return BoostedTrees(
            self.schema, self.edges.cpu(), self.start.cpu(), count.cpu(),
            questions[:, :, :kept].contiguous(), values[:, :kept].contiguous(),
        )  # fmt: skip

    def _predictions(self) -> Tensor:
        """Numbers, and probabilities of levels; (O, n)."""
        odds = torch.exp(self.scores) * self.level_outputs[:, None]
        total = self._by_variable(odds)[self.owner]
        return torch.where(self.level_outputs[:, None], odds / total.clamp_min(1e-30), self.scores)

    def _by_variable(self, x: Tensor) -> Tensor:
        """Sums of the outputs of each variable, (F, …)."""
        return x.new_zeros(len(self.wanted), *x.shape[1:]).index_add_(0, self.owner, x)

    def _tree(self, growing: Tensor) -> tuple[Questions, Tensor, Tensor, Tensor]:
        """One more for each of some variables: its questions, their outputs, the values of these in its leaves; and by
        how much the squared error falls in rows that it did not grow on, (F,)."""
        predicted, residual = self.predicted, self.target - self.predicted
        rows = self._sample(_SHARE_OF_ROWS, _MOST_ROWS_OF_A_TREE)
        questions = self._questions(growing, self._pulls(residual[:, rows]), rows)
        place = torch.full_like(self.wanted, -1, dtype=torch.long)
        place[growing] = torch.arange(len(growing), device=place.device)
        outputs = (place[self.owner] >= 0).nonzero()[:, 0]
        owner = self.owner[outputs]
        leaf = questions.leaf(self.bins)[place[owner]]  # (outputs, n)
        weight = self.seen[owner][:, rows].float()
        share = predicted[outputs][:, rows]
        bend = torch.where(self.is_level[owner][:, None], share * (1 - share), 1.0) * self.curvature[outputs][:, None]
        total = weight.new_zeros(len(outputs), _LEAVES)
        pull = total.scatter_add(1, leaf[:, rows], residual[outputs][:, rows] * weight)
        values = pull / (total.scatter_add(1, leaf[:, rows], bend * weight) + _LEANING)
        values = _RATE * values.clamp(-_STEEPEST, _STEEPEST)
        self.scores[outputs] += values.gather(1, leaf)
        self.predicted = self._predictions()
        fresh = self.seen.clone()
        fresh[:, rows] = False
        fall = self._by_variable(residual**2 - (self.target - self.predicted) ** 2)
        return questions, outputs, values, (fall * fresh).sum(1)

    def _sample(self, share: float, most: int) -> Tensor:
        rows = self.scores.shape[1]
        return torch.randperm(rows, generator=self.rng)[: min(int(share * rows) + 1, most)].to(self.scores.device)

    def _pulls(self, residual: Tensor) -> Tensor:
        """One number a cell for a tree to follow, (F, rows): of levels, the residuals in a random direction."""
        direction = torch.randn(len(self.owner), generator=self.rng).to(residual.device)
        return self._by_variable(residual * torch.where(self.level_outputs, direction, 1.0)[:, None])

    def _asked(self) -> Tensor:
        """The variables that each may be asked about, (F, K)."""
        variables = len(self.wanted)
        every = torch.arange(variables, device=self.scores.device).expand(variables, -1)
        if variables <= _MOST_ASKED:
            return every
        rows = self._sample(1.0, _ROWS_TO_CHOOSE_BY)
        pulls = self._pulls((self.target - self.predicted)[:, rows])
        self.asked, parts = every, []
        for some in every[0].split(max(1, _AT_ONCE // (variables * self.width * 3))):
            cells = self._cells(some, pulls, rows)
            parts.append(self._gains(some, cells, 1).amax((1, 3, 4)).topk(_MOST_ASKED, dim=1).indices)
        return torch.cat(parts)

    def _questions(self, growing: Tensor, pulls: Tensor, rows: Tensor) -> Questions:
        """For each of some variables those that tell most, one after the other."""
        at_once = max(1, _AT_ONCE // (_LEAVES // 2 * self.asked.shape[1] * self.width))
        parts = [self._questions_of(some, pulls, rows) for some in growing.split(at_once)]
        return Questions(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _questions_of(self, some: Tensor, pulls: Tensor, rows: Tensor) -> Questions:
        cells, found = self._cells(some, pulls, rows), []
        for depth in range(DEPTH):
            gains = self._gains(some, cells, 2**depth).flatten(2)  # (variables, leaves, questions)
            most, best = gains.max(-1)
            best = torch.where(most > 0, best, 3 * (self.width - 1))  # to which all say yes
            slot, bin_, kind = best // (3 * self.width), best // 3 % self.width, best % 3
            found.append(Questions(self.asked[some].gather(1, slot), bin_, kind))
            node = cells.owner, cells.leaf
            mine = cells.bins.gather(1, slot[node][:, None])[:, 0]
            cells = cells._replace(leaf=2 * cells.leaf + _denied(mine, bin_[node], kind[node]))
        return Questions(*(torch.cat(part, dim=-1) for part in zip(*found, strict=True)))

    def _cells(self, some: Tensor, pulls: Tensor, rows: Tensor) -> _Cells:
        seen = self.seen[some][:, rows]
        owner, row = seen.nonzero(as_tuple=True)
        bins = self.bins[:, rows][self.asked[some][owner], row[:, None]]
        return _Cells(owner, bins, pulls[some][seen], torch.zeros_like(owner))

    def _gains(self, some: Tensor, cells: _Cells, leaves: int) -> Tensor:
        """Of all questions, in each leaf so far; (variables, leaves, K, bins, kinds)."""
        asked = self.asked[some]
        shape = (len(some), leaves, asked.shape[1], self.width)
        first = (cells.owner * leaves + cells.leaf) * shape[2]
        index = (first[:, None] + torch.arange(shape[2], device=first.device)) * self.width + cells.bins
        index, size = index.flatten(), len(some) * leaves * shape[2] * self.width
        pull = torch.bincount(index, cells.pull.repeat_interleave(shape[2]), size).view(shape)
        cell = torch.bincount(index, minlength=size).view(shape).to(pull)
        total, cells_total = pull.sum(-1, keepdim=True), cell.sum(-1, keepdim=True)
        before = total**2 / (cells_total + _LEANING)

        def gain(yes: Tensor, cells_yes: Tensor) -> Tensor:
            no, cells_no = total - yes, cells_total - cells_yes
            gained = yes**2 / (cells_yes + _LEANING) + no**2 / (cells_no + _LEANING) - before
            return torch.where((cells_yes >= _FEWEST_CELLS) & (cells_no >= _FEWEST_CELLS), gained, 0.0)

        below, cells_below = pull.cumsum(-1), cell.cumsum(-1)
        gains = torch.stack(
            [gain(below, cells_below), gain(below - pull[..., :1], cells_below - cell[..., :1]), gain(pull, cell)], -1
        )
        foreign = self.attributes[asked] != self.attributes[some][:, None]
        allowed = self.kinds[asked] & foreign[..., None, None]
        return gains * allowed[:, None]


class _Cells(NamedTuple):
    """Those that a tree grows on, variable by variable."""

    owner: Tensor  # (cells,)
    bins: Tensor  # (cells, K): of what may be asked about
    pull: Tensor  # (cells,)
    leaf: Tensor  # (cells,)
