"""From columns and a mask to a fitted model: the core's front door, on plain arrays."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.schema import Schema
from vsae.fitting.blending import blend_with_trees, choose_medians, refit_trees
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for
from vsae.fitting.rounds import TrainingStates, kept_if_diverged, refit, train_in_rounds
from vsae.fitting.start import Start
from vsae.fitting.steps import (
    Context,
    FitData,
    assess,
    calibrate,
    find_relations,
    fit_prior,
    split,
)
from vsae.generation.rare_levels import common_levels
from vsae.imputation.turns import turns_of
from vsae.mechanism.choice import Mechanism, check_mechanism, tilts_of
from vsae.mechanism.mask_regressions import fit_mask_regressions
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import resolve_device
from vsae.model.vsae import VSAE
from vsae.training.em import learn
from vsae.training.history import Callback


def fit(
    schema: Schema,
    columns: Columns,
    mask: Mask,
    config: VSAEConfig | None = None,
    *,
    mechanism: Mechanism = "auto",
    weight: NDArray[np.float64] | None = None,
    context: Context | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    callback: Callback | None = None,
    checkpoint_path: str | os.PathLike[str] | None = None,
    start: Start | None = None,
) -> FittedVSAE:
    """Fit a VSAE to a table with missing cells, which may hide by their own value as the mechanism says.

    With a `start`, from where another fit of the same columns stands.
    `weight` (n,), above 0: how much each row counts. `context` makes anew those columns that follow from others, such
    as what a row's group says of it, where some cells of these are withheld: see data/context.py.

    >>> import numpy as np
    >>> from vsae.data.schema import real
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200); columns = {"a": a, "b": 2 * a + 1}
    >>> mask = rng.random((200, 2)) < 0.8
    >>> fitted = fit(Schema([real("a"), real("b")]), columns, mask, VSAEConfig(steps=50))
    >>> filled = fitted.impute(columns, mask)
    >>> bool((filled["b"][mask[:, 1]] == columns["b"][mask[:, 1]]).all())
    True
    """
    check_mechanism(mechanism, {variable.name: variable for variable in schema.variables})  # before a long training
    config = config or config_for(schema, len(mask), gpu=resolve_device(device).type == "cuda")
    if start is not None:
        config = start.config(config)
    data = FitData.of(schema, columns, mask, config, device, weight, context, start)
    states = TrainingStates.beside(checkpoint_path)
    model, parts = split(VSAE if start is None else start.model, data, config, seed, start)
    fitted = FittedVSAE(model, data.encoding, turns=turns_of(schema, data.batch))
    with kept_if_diverged(fitted):
        gentle = None if start is None else start.gentle(config)
        fitted.history = train_in_rounds(
            model, parts, learn, callback, states, config=gentle, goes_on=start is not None
        )
        fitted.blend, folds, _ = blend_with_trees(fitted, parts.training, seed)
        assessed = assess(fitted, parts, folds, seed)
        fitted.relations = find_relations(fitted, parts, assessed)
        fitted.history = refit(model, data, parts, fitted.history, learn, callback, states.refit)
        fitted.blend, folds, known = refit_trees(fitted, data.batch, seed)
    fitted.calibration = calibrate(fitted, data, replace(assessed, by_trees=known), folds, seed)
    fitted.blend = choose_medians(fitted, assessed.withheld)
    rows = data.representative()
    fitted.tilts = tilts_of(fitted, *rows, mechanism, seed)
    fitted.mask_regressions = fit_mask_regressions(fitted, *rows, seed)
    fitted.common = common_levels(schema, columns, mask)
    fitted.marginal_map = fit_prior(model, data, fitted.common, seed)
    states.remove()
    return fitted
