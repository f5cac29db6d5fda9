"""Boosted trees beside the model: grown on what it was trained on, and weighted by the cells that both did not see."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE
from vsae.fitting.steps import FitData
from vsae.imputation import held_out
from vsae.imputation.blend import Blend, Trees, fit_weights, in_natural_units
from vsae.imputation.imputer import Imputer
from vsae.model.trees import fit_trees

_MOST_VARIABLES = 200  # beyond, trees would take longer than the networks


def blend_with_trees(imputer: Imputer[Any], data: FitData, training: Batch, seed: int) -> Blend | None:
    """None where no cell was withheld, or no tree predicts any."""
    schema, most = data.schema, imputer.model.config.trees
    variables = [v for v in schema.variables if not v.event]
    if not most or training.withheld is None or not 2 <= len(variables) <= _MOST_VARIABLES:
        return None
    trees = fit_trees(schema, training, most, seed)
    withheld = training.withheld.cpu().numpy()
    rows = np.flatnonzero(withheld.any(axis=1))
    wanted = [v.name for v, count in zip(trees.variables, trees.count.tolist(), strict=True) if count]
    if not len(rows) or not wanted:
        return None
    (columns, mask), hidden = data.rows(rows), withheld[rows]
    found = held_out.withheld_estimates(imputer, columns, mask, hidden).estimates
    shown = training.take(torch.from_numpy(rows).to(training.mask.device))
    said = trees.predict(shown.with_mask(shown.usable), wanted)
    std = _errors(data, shown, said)
    cells = {}
    for name, means in in_natural_units(data.encoding, said, std).items():
        at, x = hidden[:, schema.attribute_of[name]], np.asarray(columns[name])
        truth = np.eye(means.shape[1])[x.astype(int)] if means.ndim == 2 else x
        size = max(float(np.std(x[at])), 1e-300) if means.ndim == 1 and at.any() else 1.0
        cells[name] = (truth[at] / size, found[name][at] / size, means[at] / size)
    weight = fit_weights({name: parts for name, parts in cells.items() if parts[0].ndim == 1})
    weight |= fit_weights({name: parts for name, parts in cells.items() if parts[0].ndim == 2})
    return Blend(trees, weight, {name: x for name, x in std.items() if name in weight}) if weight else None


def refit_trees(blend: Blend | None, data: FitData, most: int, seed: int) -> Blend | None:
    """With the withheld cells, too."""
    if blend is None:
        return None
    return blend.with_trees(fit_trees(data.schema, data.batch, most, seed, blend.weight))


def _errors(data: FitData, shown: Batch, said: Trees) -> dict[str, float]:
    """Root mean square on the withheld cells of numbers, in standard units."""
    assert shown.withheld is not None
    out = {}
    for block in data.schema.blocks:
        if block.family in DISCRETE or block.event:
            continue
        for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
            at = shown.withheld[:, i]
            if variable.name in said and bool(at.any()):
                off = said[variable.name][at] - shown.numbers([block])[at, j]
                out[variable.name] = float(off.double().square().mean().sqrt())
    return out
