"""A forest beside the model: grown on what that was trained on, and weighed by the cells that both did not see."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE, Schema
from vsae.fitting.growth import FOLDS, Grown, Known, grow
from vsae.imputation.blend import USUAL_OF_LEVELS, Blend, Cells, Said, ask, fit_weights
from vsae.imputation.imputer import Imputer
from vsae.imputation.predictive import LATENT_DRAWS, Predictive, fill_of, predict
from vsae.imputation.residual_quantiles import Moments, Predictions
from vsae.model.forest import Fill

_MOST_VARIABLES = 200  # beyond, trees would take longer than the networks
_ENOUGH_TO_WEIGH = 20  # trees; more are wanted of the forest that is kept
_LEANING_OF_MEDIANS = 30.0  # cells
_WORST_RATIO = 4.0  # that a column adds to what is common: one that is all but known would decide for all


class Fold(NamedTuple):
    """Some rows, and trees that did not grow on them; or all rows, and the model's word alone."""

    rows: Tensor | None = None
    blend: Blend | None = None


class Blended(NamedTuple):
    """A blend, and the rows by trees that do not know them: a tree knows a cell that it grew on far better than others,
    so errors on known cells are those of other trees."""

    blend: Blend | None = None
    folds: tuple[Fold, ...] = (Fold(),)
    known: Mapping[str, Known] = {}

    @classmethod
    def of(cls, blend: Blend, grown: Grown) -> Blended:
        folds = [Fold(rows, blend.with_forest(grown.fresh(fold))) for fold, rows in enumerate(grown.folds)]
        return cls(blend.with_forest(grown.forest), tuple(folds), grown.known)


def blend_with_trees(imputer: Imputer[Any], training: Batch, seed: int) -> Blended:
    """No blend where no cell was withheld, or no tree predicts any better."""
    schema, trees = imputer.schema, imputer.model.config.trees
    variables = [v for v in schema.variables if not v.event]
    if not trees or training.withheld is None or not 2 <= len(variables) <= _MOST_VARIABLES:
        return Blended()
    asked = [variable.name for attribute in schema if not attribute.context for variable in attribute.variables]
    grown = _grow(imputer, training, min(trees, _ENOUGH_TO_WEIGH), seed, asked)
    shown = training.take(training.in_proportion(training.withheld.any(1).nonzero()[:, 0]))
    if grown is None or not shown.rows:
        return Blended()
    visible, forest = shown.with_mask(shown.usable), grown.forest
    said = ask(forest, visible, _filling(imputer, visible), [v.name for v in forest.found])
    numbers, levels = _withheld_cells(schema, shown, said, predict(imputer, visible.for_members()))
    weight = fit_weights(numbers) | fit_weights(levels, USUAL_OF_LEVELS)
    if not weight:
        return Blended()
    std = {name: float(np.sqrt(((x - by_trees) ** 2).mean())) for name, (x, _, by_trees) in numbers.items() if len(x)}
    return Blended.of(Blend(forest, weight, {name: x for name, x in std.items() if name in weight}), grown)


def refit_trees(imputer: Imputer[Any], data: Batch, seed: int) -> Blended:
    """With the withheld cells, too."""
    if imputer.blend is None:
        return Blended()
    grown = _grow(imputer, data, imputer.model.config.trees, seed, imputer.blend.weight)
    return Blended() if grown is None else Blended.of(imputer.blend, grown)


def choose_medians(imputer: Imputer[Any], withheld: Mapping[str, Predictions]) -> Blend | None:
    """With the numbers of whose withheld cells the median of trees is nearer to the truth than that of errors around
    the blend's estimate. A mean lies between exact settings that rows share; the median of trees is one of them."""
    if imputer.blend is None:
        return None
    errors: dict[str, tuple[float, float, int]] = {}
    for block in imputer.schema.number_blocks:
        cells = withheld.get(block.name)
        if cells is not None and cells.by_trees is not None:
            middle = torch.full_like(cells.estimate, 0.5)
            moments = Moments(cells.estimate, cells.std, cells.scale)
            usual = imputer.calibration.quantile(block.name, range(len(block)), moments, middle)
            for j, variable in enumerate(block.variables):
                at = cells.cells[:, j] & cells.by_trees[:, j].isfinite()
                chosen, others = (float((x - cells.x)[at, j].abs().sum()) for x in (cells.by_trees, usual))
                errors[variable.name] = chosen, others, int(at.sum())
    return replace(imputer.blend, medians=better(errors))


def better(errors: Mapping[str, tuple[float, float, int]]) -> list[str]:
    """Names with sums of errors, one to be chosen and the usual one, of so many cells: of those with less of the first,
    as if some more cells had been seen that are like those of all names.

    >>> better({"a": (1.0, 9.0, 10), "b": (10.5, 10.0, 10), "c": (90.0, 10.0, 10)})
    []
    >>> better({"a": (1.0, 9.0, 100), "b": (10.5, 10.0, 10), "c": (9.0, 10.0, 10)})
    ['a', 'b', 'c']
    >>> better({"a": (1.0, 9.0, 1000), "all but known": (1.0, 1e-9, 10)})
    ['a']
    """
    seen = {name: sums for name, sums in errors.items() if sums[1] > 0}
    if not seen:
        return []
    cells = sum(n for _, _, n in seen.values())
    common = sum(n * min(chosen / usual, _WORST_RATIO) for chosen, usual, n in seen.values()) / cells
    return [
        name
        for name, (chosen, usual, n) in seen.items()
        if chosen / usual * n + common * _LEANING_OF_MEDIANS < n + _LEANING_OF_MEDIANS
    ]


def _grow(imputer: Imputer[Any], data: Batch, trees: int, seed: int, only: Collection[str]) -> Grown | None:
    """Of at least a tree for each fold."""
    return grow(imputer.schema, data, lambda rows: _filling(imputer, rows), max(trees, FOLDS), seed, only)


@torch.no_grad()
def _filling(imputer: Imputer[Any], rows: Batch) -> Fill:
    """What the model expects in rows (n, …)."""
    noise, parts = imputer.shared_noise(LATENT_DRAWS), []
    for piece in imputer.pieces_of(rows, noise.samples):
        with private_rng(0, imputer.device):
            draws = imputer.model.draws(piece, noise)
        parts.append(fill_of(imputer.schema, draws, noise.samples))
    names = parts[0].levels
    levels = {name: torch.cat([part.levels[name] for part in parts]) for name in names}
    return Fill(torch.cat([part.numbers for part in parts]), levels)


def _withheld_cells(schema: Schema, shown: Batch, said: Mapping[str, Said], found: Predictive) -> tuple[Cells, Cells]:
    """Of numbers, in standard units, and of levels: the truth, what the model says, what trees say."""
    assert shown.withheld is not None
    numbers: Cells = {}
    levels: Cells = {}
    for block in schema.blocks:
        for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
            if variable.name not in said:
                continue
            rows, value = said[variable.name]
            withheld = shown.withheld[rows, i]
            at, by_trees = rows[withheld], _array(value[withheld])
            if block.family in DISCRETE:
                truth = np.eye(variable.size)[_array(shown.values[block.name][at, j]).astype(int)]
                levels[variable.name] = truth, found.levels[variable.name][at.cpu().numpy()], by_trees
            else:
                truth, by_model = shown.numbers([block])[at, j], found.numbers[block.name].estimate[at, j]
                numbers[variable.name] = _array(truth), _array(by_model), by_trees
    return numbers, levels


def _array(x: Tensor) -> Any:
    return x.double().cpu().numpy()
