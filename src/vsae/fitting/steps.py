"""The steps of a fit: split, (train,) assess, refit, calibrate, fit the prior. Each takes values and returns a value.

What is withheld by the first is known, and yet hidden from training: early stopping, shrinkage and the width of draws
go by it. Then it is given back, and training goes on for a little.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Kind, Schema
from vsae.fitting.fitted import FittedModel
from vsae.generation.marginals import MarginalMap
from vsae.generation.rows import RowGenerator, generating_members
from vsae.imputation import calibration, point
from vsae.imputation.imputer import Imputer
from vsae.imputation.residual_quantiles import ResidualQuantiles
from vsae.imputation.shrinkage import Shrinkage
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel, ModelT, resolve_device
from vsae.model.vsae import VSAE
from vsae.training.history import Callback, History, Progress, TrainingDiverged
from vsae.training.loop import Learn, train
from vsae.training.validation import HeldOut

_MOST_VALIDATION_ROWS = 2000  # more would cost time and hardly sharpen the score
_FEWEST_ROWS_TO_SPLIT = 50  # below that no row can be spared: cells of training rows are scored instead
_SHRINKAGE_DRAWS = 4  # of z: point estimates are level with those of ten
_REFIT_RATE = 0.3  # of the peak learning rate: to take the new cells in, not to start over
_MOST_CALIBRATION_ROWS = 2000  # likewise
_CALIBRATION_NUMBERS = 2**21  # cells of all members; a dozen floats are kept of each: 100 MB
_MOST_PRIOR_ROWS = 4000  # enough for 128 directions of dependence
_FEWEST_PRIOR_ROWS = 500  # where complete rows are wanted; if these are fewer, the next best come to them
_ROWS_LOOKED_AT = 100_000  # for them
_NUMBERS_AT_ONCE = 2**27  # floats: half a gigabyte


class FitData(NamedTuple):
    """A table as it was given, and as the model reads it."""

    columns: Columns
    mask: Mask
    encoding: Encoding
    batch: Batch  # (n, …), on the device of the fit

    @classmethod
    def of(
        cls, schema: Schema, columns: Columns, mask: Mask, config: VSAEConfig, device: torch.device | str | None
    ) -> FitData:
        device = resolve_device(device)
        encoding = Encoding.fit(schema, columns, mask, config.scaling)
        return cls(columns, mask, encoding, encoding.encode(columns, mask).to(device))

    @property
    def schema(self) -> Schema:
        return self.encoding.schema

    def rows(self, index: Any) -> tuple[dict[str, Any], Mask]:
        """Some rows of the columns and of the mask."""
        return {name: np.asarray(x)[index] for name, x in self.columns.items()}, self.mask[index]


class Split(NamedTuple):
    """What to train on, what to validate with, and the seed of the training."""

    training: Batch
    held_out: HeldOut | None
    seed: int


class TrainingStates(NamedTuple):
    """Where the two trainings keep their state; both files go when the fit is done."""

    training: Path | None
    refit: Path | None

    @classmethod
    def beside(cls, path: str | os.PathLike[str] | None) -> TrainingStates:
        return cls(None, None) if path is None else cls(Path(path), Path(f"{os.fspath(path)}.refit"))

    def remove(self) -> None:
        for path in self:
            if path is not None:
                path.unlink(missing_ok=True)


@contextmanager
def kept_if_diverged(fitted: FittedModel[Any]) -> Iterator[None]:
    """A training that diverges leaves the last good weights: the error carries the model that has them."""
    try:
        yield
    except TrainingDiverged as error:
        error.fitted = fitted
        raise


# --- split


def split(
    build: Callable[[Schema, VSAEConfig], ModelT], data: FitData, config: VSAEConfig, seed: int
) -> tuple[ModelT, Split]:
    """A model that has seen what it may see before training, and the cells it trains on and is judged by."""
    device = data.batch.mask.device
    with private_rng(seed, device):
        model = build(data.schema, config).to(device)
        training, held_out = withhold(data.schema, data.batch, config)
        model.fit_statistics(training)
        return model, Split(training, held_out, int(torch.randint(2**31, (1,))))


def withhold(schema: Schema, data: Batch, config: VSAEConfig) -> tuple[Batch, HeldOut | None]:
    """What to train on, and what to validate with: cells of any row, or whole rows some of whose cells are hidden.

    Cells are the better use of a small table: every row is trained on, and many more cells are scored.
    """
    order = torch.randperm(data.rows, device=data.mask.device)
    most = _affordable_rows(schema, config, _MOST_VALIDATION_ROWS)
    if config.validation == "cells" or data.rows < _FEWEST_ROWS_TO_SPLIT:
        scored = torch.zeros_like(data.mask)
        scored[order[:most]] = True
        withheld = data.mask & scored & ~remask(data.mask, config.validation_share, config.validation_share)
        training = Batch(data.values, data.mask, withheld)
        return training, HeldOut.of(schema, training.take(order[:most]))
    held = max(1, min(int(data.rows * config.validation_share), most))
    rows = data.take(order[:held])
    withheld = rows.mask & ~remask(rows.mask, config.validation_remask, config.validation_remask)
    return data.take(order[held:]), HeldOut.of(schema, Batch(rows.values, rows.mask, withheld))


# --- assess: what the withheld cells say, while they still are withheld


def assess(
    imputer: Imputer[VSAE], data: FitData, parts: Split, seed: int
) -> tuple[Shrinkage | None, calibration.Withheld | None]:
    """How far estimates are to shrink, and what is known of errors on cells that training has not seen."""
    withheld = None
    if _has_scale(imputer.model):
        batches = _batches_to_calibrate_by(imputer.model, parts.training, seed)
        withheld = calibration.assess_withheld(imputer.model, batches, seed)
    return fit_shrinkage(imputer, data, parts.training), withheld


def fit_shrinkage(imputer: Imputer[Any], data: FitData, training: Batch) -> Shrinkage | None:
    """By the withheld cells; None where there are none, or where it is not wanted."""
    if not imputer.model.config.shrinkage or training.withheld is None:
        return None
    withheld = training.withheld.cpu().numpy()
    rows = withheld.any(axis=1)
    if not rows.any():
        return None
    (columns, mask), withheld = data.rows(rows), withheld[rows]
    estimates = point.estimates(imputer, columns, mask & ~withheld, draws=_SHRINKAGE_DRAWS)
    return Shrinkage.fit(imputer.schema, columns, mask, withheld, estimates)


# --- refit


def refit(
    model: LatentModel,
    data: FitData,
    parts: Split,
    history: History,
    learn: Learn,
    callback: Callback | None = None,
    checkpoint_path: Path | None = None,
) -> History:
    """Go on from the best weights, with the withheld cells: they are known, and no longer needed to judge by."""
    config = model.config
    if config.refit <= 0 or parts.training.withheld is None:
        return history
    before = history.records[-1]["step"]
    steps = max(1, int(config.refit * before))
    gentle = config.replace(
        steps=steps, epochs=None, learning_rate=config.learning_rate * _REFIT_RATE, evaluate_every=steps
    )

    def further(progress: Progress) -> None:
        if callback is not None:
            seconds = history.seconds + progress.seconds
            callback(replace(progress, step=before + progress.step, steps=before + steps, seconds=seconds))

    more = train(
        model,
        data.batch,
        learn=learn,
        seed=parts.seed + 1,
        config=gentle,
        callback=further,
        checkpoint_path=checkpoint_path,
    )
    return replace(history, seconds=history.seconds + more.seconds)


# --- calibrate


def calibrate(
    model: VSAE, data: FitData, withheld: calibration.Withheld | None, seed: int
) -> dict[str, ResidualQuantiles]:
    """Set σ to the errors that are made; gives how they are distributed, by block of numbers."""
    if not _has_scale(model):
        return {}
    return calibration.calibrate(model, _batches_to_calibrate_by(model, data.batch, seed), withheld, seed)


def _has_scale(model: VSAE) -> bool:
    """Whether there is a σ to set right."""
    return model.config.variance != "fixed" and bool(model.schema.standardised_blocks)


def _batches_to_calibrate_by(model: VSAE, data: Batch, seed: int) -> list[Batch]:
    """Of some rows, if possible such as have withheld cells."""
    schema, config = model.schema, model.config
    with private_rng(seed, data.mask.device):
        rows = torch.randperm(data.rows, device=data.mask.device)
    if data.withheld is not None:
        rows = rows[data.withheld[rows].any(1).sort(descending=True, stable=True).indices]
    numbers = sum(variable.entries for block in schema.standardised_blocks for variable in block.variables)
    most = min(_MOST_CALIBRATION_ROWS, max(64, _CALIBRATION_NUMBERS // (config.members * numbers)))
    at_once = _affordable_rows(schema, config, most) // 8 + 1  # each has many ways and draws
    return [data.take(some).for_members() for some in rows[:most].split(at_once)]


# --- fit the prior


def fit_prior(model: VSAE, data: FitData, seed: int) -> MarginalMap | None:
    """p(z) to the latents of the training rows; gives what brings generated rows to the marginals of the data.

    None where the prior is N(0, I), or where there is nothing but images and vectors, which come as they are decoded.
    """
    if model.config.prior != "fitted":
        return None
    _fit_latent_prior(model, data.batch, seed)
    if all(variable.event for variable in data.schema.variables):
        return None
    generating = generating_members(model)
    most = min(len(data.mask), _affordable_rows(data.schema, model.config, _MOST_PRIOR_ROWS // 2))
    order, members = np.random.default_rng(seed).permutation(len(data.mask)), generating.config.members
    rows = np.resize(order, max(members, most - most % members))  # each member must have the same share of them
    return RowGenerator(generating, data.encoding).with_marginals(*data.rows(rows), seed).marginal_map


@torch.no_grad()
def _fit_latent_prior(model: VSAE, data: Batch, seed: int) -> None:
    """To the latents of the training rows, or of a sample of them."""
    with private_rng(seed, data.mask.device):
        most = _MOST_PRIOR_ROWS * (2 if model.config.prior_covariance == "own" else 1)
        latents_of_row = model.config.members * len(model.schema) * model.config.latent_dim
        most = max(64, min(most, _NUMBERS_AT_ONCE // (8 * latents_of_row)))
        at_once = _affordable_rows(model.schema, model.config, most)
        rows = torch.randperm(data.rows, device=data.mask.device)
        if model.config.prior_rows == "complete":
            rows = rows[: max(most, _ROWS_LOOKED_AT)]
            seen = data.mask[rows].sum(1)
            complete = max(int((seen == len(model.schema)).sum()), _FEWEST_PRIOR_ROWS)
            rows = rows[seen.argsort(descending=True, stable=True)][:complete]
        parts = [model.propose(data.take(some).for_members()).selective for some in rows[:most].split(at_once)]
        model.prior.fit(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))
        if model.config.mask_modelling:
            z = model.prior.sample(at_once)
            model.prior.calibrate_mask(model.mask_network(model.aggregate(z)).logits, data.mask.float().mean(0))


def _affordable_rows(schema: Schema, config: VSAEConfig, wanted: int) -> int:
    """As many of the wanted rows as go through the networks at once in bounded memory, however wide the table is."""
    per_row = config.members * len(schema) * (2 * config.attributive.width + 4 * config.latent_dim)
    per_row += config.members * config.channels * sum(v.entries for v in schema.variables if v.kind is Kind.IMAGE)
    return max(64, min(wanted, _NUMBERS_AT_ONCE // per_row))
