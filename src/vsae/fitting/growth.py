"""How a forest grows: scikit-learn's randomised trees, one variable after the other, on rows that the model has filled.

A tree of a variable must not ask what the model made of that variable. So the rows it grows on are filled as if all of
the variable were missing: a few variables at a time. What tends to be missing beside them is hidden in some rows, too,
or else no tree would ever have met a row like those that it is asked about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.microaggregation import microaggregated
from vsae.data.schema import DISCRETE, Schema, Variable
from vsae.model.forest import MOST_LEVELS, Fill, Forest, Inputs

FOLDS = 5  # of rows; a tree grows on all but one of them
_MOST_ROWS, _MOST_ROWS_OF_A_TREE = 4096, 2048
_MOST_FILLINGS = 8  # of all rows by the model
_MOST_COLUMNS = 64  # that a node chooses among
_MOST_LEAVES = 2**20  # of the forest
_FEWEST_CELLS = 10
_OF_A_LEAF = {True: 2, False: 1}  # cells of levels, and of numbers, whose values are those of several rows
_MOST_HIDDEN = 0.2  # of rows: drawn cells of a row are shown in turn, so trees must know rows that show them, too
_CHANCE = 3.0  # standard errors

Filling = Callable[[Batch], Fill]  # of rows (n, …), what the model expects in cells that they do not show


#: Cells, and what trees say that did not grow on their rows; which, of a number, may yet have had a share in the mean
#: of its group.
Known = tuple[NDArray[Any], NDArray[np.float64]]


class Grown(NamedTuple):
    """A forest, and the rows it grew on in as many folds: tree t did not grow on fold t modulo their number."""

    forest: Forest
    folds: list[Tensor]
    known: Mapping[str, Known]  # by variable, in standard units

    def fresh(self, fold: int) -> Forest:
        """The trees that did not grow on a fold."""
        return self.forest.part(slice(fold, None, FOLDS))


def grow(
    schema: Schema, data: Batch, filling: Filling, trees: int, seed: int, only: Collection[str] | None = None
) -> Grown | None:
    """On the usable cells of a data set (n, …), for all variables or some; None if there is nothing to grow on."""
    rng = np.random.default_rng([seed, 14])
    rows = torch.from_numpy(rng.permutation(data.rows)[:_MOST_ROWS]).to(data.mask.device)
    data, inputs = data.take(rows), Inputs(schema)
    wanted = [
        variable
        for variable in schema.variables
        if not variable.event
        and (only is None or variable.name in only)
        and (variable.family not in DISCRETE or variable.size <= MOST_LEVELS)
    ]
    targets = {variable.name: _cells(schema, data, variable) for variable in wanted}
    wanted = [v for v in wanted if len(targets[v.name].row) >= _FEWEST_CELLS and np.ptp(targets[v.name].value) > 0]
    if not wanted or not len(inputs.attribute) or trees < 1:
        return None
    fold, mask = np.arange(data.rows) % FOLDS, data.mask.cpu().numpy()
    most_leaves = max(_MOST_LEAVES // (len(wanted) * trees), 64)
    attributes = list(dict.fromkeys(schema.attribute_of[v.name] for v in wanted))
    found: dict[str, tuple[list[_Tree], Known]] = {}
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # scikit-learn does not hold threads up
        for hidden in np.array_split(rng.permutation(attributes), min(_MOST_FILLINGS, len(attributes))):
            shown = data.usable.clone()
            shown[:, hidden.tolist()] = False
            shown &= torch.from_numpy(rng.random(shown.shape) >= missing_beside(mask, hidden)).to(shown.device)
            batch = data.with_mask(shown)
            x = inputs(batch, filling(batch)).cpu().numpy()
            for variable in (v for v in wanted if schema.attribute_of[v.name] in hidden):
                own, cells = inputs.attribute.numpy() == schema.attribute_of[variable.name], targets[variable.name]
                mine = x[cells.row]
                mine[:, own] = 0.0
                found[variable.name] = _trees(variable, mine, cells, fold[cells.row], trees, most_leaves, seed, pool)
    places = [i for i, v in enumerate(schema.variables) if v.name in found]
    forest = _joined(schema, places, [found[schema.variables[i].name][0] for i in places])
    folds = [rows[torch.from_numpy(fold == k).to(rows.device)] for k in range(FOLDS)]
    return Grown(forest, folds, {name: known for name, (_, known) in found.items()})


def missing_beside(mask: NDArray[np.bool_], hidden: NDArray[np.int64]) -> NDArray[np.float64]:
    """(M,): in which share of the rows that show an attribute it must be hidden, so that it is missing as often beside
    known cells of some others as it is beside missing ones; the mean over these, as far as it is no chance.

    >>> rng = np.random.default_rng(0)
    >>> mask = rng.random((1000, 3)) < 0.7
    >>> missing_beside(mask[:, [0, 0, 1, 2]], np.array([0])).round(2)
    array([0. , 0.2, 0. , 0. ])
    """
    known = mask[:, hidden].astype(np.float64)  # (n, hidden)
    count, gone = known.sum(0)[:, None], len(mask) - known.sum(0)[:, None]
    beside_known = known.T @ ~mask / np.maximum(count, 1)  # (hidden, M) shares of missing cells
    beside_missing = (1 - known).T @ ~mask / np.maximum(gone, 1)
    share = (~mask).mean(0)
    chance = np.sqrt(share * (1 - share) * (1 / np.maximum(count, 1) + 1 / np.maximum(gone, 1)))
    more = beside_missing - beside_known
    more = np.where(more > _CHANCE * chance, more / np.maximum(1 - beside_known, 1e-9), 0.0)
    more[:, hidden] = 0.0  # these are hidden anyway
    return np.clip(more, 0.0, _MOST_HIDDEN).mean(0)


class _Cells(NamedTuple):
    row: NDArray[np.int64]
    value: NDArray[Any]
    weight: NDArray[np.float64] | None  # of the row


def _cells(schema: Schema, data: Batch, variable: Variable) -> _Cells:
    """That may be learned from."""
    block = next(block for block in schema.blocks if variable in block.variables)
    j, at = block.variables.index(variable), data.usable[:, schema.attribute_of[variable.name]]
    values = data.values[block.name][:, j] if block.family in DISCRETE else data.numbers([block])[:, j]
    weight = None if data.weight is None else data.weight[at].double().cpu().numpy()
    return _Cells(at.nonzero()[:, 0].cpu().numpy(), values[at].double().cpu().numpy(), weight)


class _Tree(NamedTuple):
    """As in a Forest; nodes count from this tree's first."""

    column: NDArray[Any]
    threshold: NDArray[Any]
    next: NDArray[Any]
    values: NDArray[Any]  # (leaves, 1 or levels)


def _trees(
    variable: Variable,
    x: NDArray[np.float32],
    cells: _Cells,
    fold: NDArray[Any],
    trees: int,
    leaves: int,
    seed: int,
    pool: ThreadPoolExecutor,
) -> tuple[list[_Tree], Known]:
    """Of the inputs of a variable's cells, (n, columns), and the folds of these; with what the trees say of cells that
    they did not grow on."""
    width = variable.size if variable.family in DISCRETE else 1
    said = np.zeros((len(cells.row), width))
    shown = cells if variable.family in DISCRETE else cells._replace(value=microaggregated(cells.value))
    grown = list(pool.map(lambda t: _tree(variable, x, shown, fold == t % FOLDS, leaves, [seed, t]), range(trees)))
    for t, (tree, leaf) in enumerate(grown):
        said[fold == t % FOLDS] += tree.values[leaf] / len(range(t % FOLDS, trees, FOLDS))
    return [tree for tree, _ in grown], (cells.value, said if variable.family in DISCRETE else said[:, 0])


def _tree(
    variable: Variable, x: NDArray[np.float32], cells: _Cells, others: NDArray[np.bool_], leaves: int, seed: list[int]
) -> tuple[_Tree, NDArray[Any]]:
    """A tree that grows on all but the others, and in which of its leaves these are."""
    from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor  # takes a second, and imputing needs none of it

    rng = np.random.default_rng([*seed, len(cells.row)])
    mine = np.flatnonzero(~others)
    mine = mine if len(mine) else np.arange(len(cells.row))
    if len(mine) > _MOST_ROWS_OF_A_TREE:
        mine = rng.choice(mine, _MOST_ROWS_OF_A_TREE, replace=False)
    is_level = variable.family in DISCRETE
    made = (ExtraTreeClassifier if is_level else ExtraTreeRegressor)(
        min_samples_leaf=max(_OF_A_LEAF[is_level], math.ceil(len(mine) / leaves)),
        max_features=min(_MOST_COLUMNS, x.shape[1]),
        random_state=int(rng.integers(2**31)),
    )
    weight = None if cells.weight is None else cells.weight[mine]
    tree = made.fit(x[mine], cells.value[mine], weight, check_input=False).tree_
    splits = np.flatnonzero(tree.children_left >= 0)
    place = np.zeros(tree.node_count, dtype=np.int64)  # in our list: both nodes of the k-th question side by side
    place[tree.children_left[splits]] = 2 * np.arange(len(splits)) + 1
    place[tree.children_right[splits]] = 2 * np.arange(len(splits)) + 2
    leaf = np.flatnonzero(tree.children_left < 0)
    column, threshold = np.zeros(tree.node_count, np.int16), np.zeros(tree.node_count, np.float32)
    next_, values = np.zeros(tree.node_count, np.int32), tree.value[leaf, 0]
    column[place[splits]], threshold[place[splits]] = tree.feature[splits], tree.threshold[splits]
    next_[place[splits]], next_[place[leaf]] = place[tree.children_left[splits]], -1 - np.arange(len(leaf))
    if is_level:
        shares = np.zeros((len(leaf), variable.size))
        shares[:, made.classes_.astype(int)] = values / values.sum(axis=1, keepdims=True)
        values = shares
    grown = _Tree(column, threshold, next_, values.astype(np.float32))
    return grown, np.searchsorted(leaf, tree.apply(x[others]))


def _joined(schema: Schema, places: Sequence[int], trees: Sequence[Sequence[_Tree]]) -> Forest:
    every = [tree for of_variable in trees for tree in of_variable]
    nodes = np.cumsum([0, *(len(tree.column) for tree in every)])
    next_: list[NDArray[Any]] = []
    for of_variable in trees:
        leaves = 0
        for tree in of_variable:
            first = nodes[len(next_)]
            next_.append(np.where(tree.next >= 0, tree.next + first, tree.next - leaves))
            leaves += len(tree.values)
    sizes = [sum(tree.values.size for tree in of_variable) for of_variable in trees]
    return Forest(
        schema,
        torch.tensor(places),
        torch.from_numpy(nodes[:-1].reshape(len(places), -1)).int(),
        torch.from_numpy(np.concatenate([tree.column for tree in every])),
        torch.from_numpy(np.concatenate([tree.threshold for tree in every])),
        torch.from_numpy(np.concatenate(next_)).int(),
        torch.from_numpy(np.concatenate([tree.values.ravel() for tree in every])),
        torch.tensor([0, *np.cumsum(sizes)]),
    )
