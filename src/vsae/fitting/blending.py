"""Boosted trees beside the model: grown on what it was trained on, and weighed by the cells that both did not see."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Schema
from vsae.imputation.blend import Blend, Cells, Trees, fit_weights
from vsae.imputation.imputer import Imputer
from vsae.imputation.predictive import Predictive, predict
from vsae.model.trees import fit_trees

_MOST_VARIABLES = 200  # beyond, trees would take longer than the networks
_FOLDS = 2  # of rows, each predicted by trees that grew on the others


def blend_with_trees(imputer: Imputer[Any], training: Batch, seed: int) -> Blend | None:
    """None where no cell was withheld, or no tree predicts any."""
    schema, most = imputer.schema, imputer.model.config.trees
    variables = [v for v in schema.variables if not v.event]
    if not most or training.withheld is None or not 2 <= len(variables) <= _MOST_VARIABLES:
        return None
    asked = [variable.name for attribute in schema if not attribute.context for variable in attribute.variables]
    trees = fit_trees(schema, training, most, seed, asked)
    shown = training.take(training.in_proportion(training.withheld.any(1).nonzero()[:, 0]))
    wanted = [v.name for v, count in zip(trees.variables, trees.count.tolist(), strict=True) if count]
    if not shown.rows or not wanted:
        return None
    visible = shown.with_mask(shown.usable)
    said, found = trees.predict(visible, wanted), predict(imputer, visible.for_members())
    numbers, levels = _withheld_cells(schema, shown, said, found)
    weight = fit_weights(numbers) | fit_weights(levels)
    std = {name: float(np.sqrt(((x - by_trees) ** 2).mean())) for name, (x, _, by_trees) in numbers.items() if len(x)}
    return Blend(trees, weight, {name: x for name, x in std.items() if name in weight}) if weight else None


def _withheld_cells(schema: Schema, shown: Batch, said: Trees, found: Predictive) -> tuple[Cells, Cells]:
    """Of numbers, in standard units, and of levels: the truth, what the model says, what trees say."""
    assert shown.withheld is not None
    numbers: Cells = {}
    levels: Cells = {}
    for block in schema.blocks:
        for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
            if variable.name not in said:
                continue
            at = shown.withheld[:, i]
            by_trees = _array(said[variable.name][at])
            if block.family in DISCRETE:
                truth = np.eye(variable.size)[_array(shown.values[block.name][at, j]).astype(int)]
                levels[variable.name] = truth, found.levels[variable.name][at.cpu().numpy()], by_trees
            else:
                truth, by_model = shown.numbers([block])[at, j], found.numbers[block.name].estimate[at, j]
                numbers[variable.name] = _array(truth), _array(by_model), by_trees
    return numbers, levels


def _array(x: Tensor) -> Any:
    return x.double().cpu().numpy()


def refit_trees(blend: Blend | None, data: Batch, most: int, seed: int) -> Blend | None:
    """With the withheld cells, too."""
    if blend is None:
        return None
    return blend.with_trees(fit_trees(blend.trees.schema, data, most, seed, blend.weight))


class Fold(NamedTuple):
    """Some rows, and trees that grew on the others; or all rows, and the model's word alone."""

    rows: Tensor | None = None
    blend: Blend | None = None


def cross_fitted(blend: Blend | None, training: Batch, most: int, seed: int) -> list[Fold]:
    """A tree knows a cell that it grew on far better than others, so errors on known cells are those of trees that did
    not grow on their rows."""
    if blend is None:
        return [Fold()]
    every, folds = torch.arange(training.rows, device=training.mask.device), []
    for fold in range(_FOLDS):
        mine = every % _FOLDS == fold
        trees = fit_trees(blend.trees.schema, training.take(every[~mine]), most, seed + fold, blend.weight)
        folds.append(Fold(every[mine], blend.with_trees(trees)))
    return folds
