"""The baselines, fitted as VSAE is: same split, same trainer, same way to impute."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from vsae.baselines import Baseline, learn
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import private_rng
from vsae.data.schema import Schema
from vsae.fitting.blending import Fold
from vsae.fitting.fitted import FittedModel
from vsae.fitting.steps import FitData, assess, calibrate, kept_if_diverged, refit, split
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel
from vsae.model.vsae import VSAE
from vsae.training.history import Callback
from vsae.training.loop import train


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
) -> FittedModel[Baseline]:
    """Fit one of `vsae.baselines.BASELINES`. It has no joint prior."""
    config = config or baseline_config(kind, schema)
    data = FitData.of(schema, columns, mask, config, device)
    model, parts = split(kind, data, config, seed)
    fitted: FittedModel[Baseline] = FittedModel(model, data.encoding)
    with kept_if_diverged(fitted):
        fitted.history = train(model, parts.training, parts.held_out, learn=learn, seed=parts.seed, callback=callback)
        assessed = assess(fitted, parts, [Fold()], seed)
        fitted.history = refit(model, data, parts, fitted.history, learn, callback)
    fitted.calibration = calibrate(fitted, data, assessed, [Fold()], seed)
    return fitted


def baseline_config(kind: type[Baseline], schema: Schema, config: VSAEConfig | None = None) -> VSAEConfig:
    """The `paper` preset with the baseline's own settings, its networks widened until it has VSAE's size or more."""
    base = (config or VSAEConfig.paper()).replace(**kind.settings)
    with private_rng(0, torch.device("cpu")):
        wanted = parameters(VSAE(schema, base.replace(members=1)))
        for factor in itertools.count(1.0, 0.125):
            encoder, decoder = (replace(n, width=round(factor * n.width)) for n in (base.collective, base.data_net))
            grown = base.replace(collective=encoder, data_net=decoder)
            if parameters(kind(schema, grown.replace(members=1))) >= wanted:
                return grown
    raise AssertionError("unreachable: widths grow without end")


def parameters(model: LatentModel) -> int:
    return sum(p.numel() for p in model.parameters())
