"""The baselines, fitted as VSAE is: same split, same trainer, same way to impute."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

import torch

from vsae.baselines import name_of
from vsae.baselines.base import Baseline, learn
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import private_rng
from vsae.data.schema import Schema
from vsae.fitting.blending import Fold
from vsae.fitting.fitted_baseline import FittedBaseline, NotOfMethod
from vsae.fitting.presets import Effort, check_effort
from vsae.fitting.rounds import TrainingStates, kept_if_diverged, refit, train_in_rounds
from vsae.fitting.steps import FitData, assess, calibrate, split
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel
from vsae.model.vsae import VSAE
from vsae.training.history import Callback


def fit_baseline(
    kind: type[Baseline],
    schema: Schema,
    columns: Columns,
    mask: Mask,
    config: VSAEConfig | None = None,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    callback: Callback | None = None,
    checkpoint_path: str | os.PathLike[str] | None = None,
) -> FittedBaseline:
    """Fit one of `vsae.baselines.BASELINES`. It has no joint prior."""
    refuse_images(kind, schema)
    config = config or baseline_config(kind, schema)
    states = TrainingStates.beside(checkpoint_path)
    data = FitData.of(schema, columns, mask, config, device)
    model, parts = split(kind, data, config, seed)
    encoding = data.encoding.reaching_beyond() if kind.reaches_beyond else data.encoding
    fitted = FittedBaseline(model, encoding)
    with kept_if_diverged(fitted):
        fitted.history = train_in_rounds(model, parts, learn, callback, states)
        assessed = assess(fitted, parts, [Fold()], seed)
        fitted.history = refit(model, data, parts, fitted.history, learn, callback, states.refit)
    fitted.calibration = calibrate(fitted, data, assessed, [Fold()], seed)
    states.remove()
    return fitted


def refuse_images(kind: type[Baseline], schema: Schema) -> None:
    if schema.image_blocks and not kind.takes_images:
        column = schema.image_blocks[0].variables[0].name
        raise NotOfMethod(f"column {column!r} holds images, which method={name_of(kind)!r} does not take; leave it out")


def baseline_config(kind: type[Baseline], schema: Schema, config: VSAEConfig | None = None) -> VSAEConfig:
    """The `paper` preset with the baseline's own settings, its networks widened until it has VSAE's size or more."""
    base = (config or VSAEConfig.paper()).replace(**kind.settings)
    if not kind.grows:
        return base
    with private_rng(0, torch.device("cpu")):
        wanted = parameters(VSAE(schema, base.replace(members=1)))
        for factor in itertools.count(1.0, 0.125):
            encoder, decoder = (replace(n, width=round(factor * n.width)) for n in (base.collective, base.data_net))
            grown = base.replace(collective=encoder, data_net=decoder)
            if parameters(kind(schema, grown.replace(members=1))) >= wanted:
                return grown
    raise AssertionError("unreachable: widths grow without end")


def draws_by_row(kind: type[Baseline]) -> bool:
    """Whether draws of a fit with the settings of its paper are keyed by rows (`Imputer.knows_every_subset`)."""
    return VSAEConfig.paper().replace(**kind.settings).remask[1] > 0 and not kind.importance_samples


_LONGER = {"fast": 0.1, "default": 1.0, "best": 3.0}


def config_by_effort(kind: type[Baseline], schema: Schema, effort: Effort = "default") -> VSAEConfig:
    """`baseline_config`, with more or fewer epochs and steps; most models stop earlier."""
    check_effort(effort)
    found, times = baseline_config(kind, schema), _LONGER[effort]
    limits = {name: int(times * most) for name in ("epochs", "steps") if (most := getattr(found, name)) is not None}
    return found.replace(**limits, patience=max(5, int(times * found.patience)))


def parameters(model: LatentModel) -> int:
    return sum(p.numel() for p in model.parameters())
