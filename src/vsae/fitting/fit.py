"""From columns and a mask to a fitted model: the core's front door, on plain arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vsae.baselines import Baseline, baseline_config
from vsae.baselines import learn as learn_baseline
from vsae.data.batch import Batch
from vsae.data.encoding import Columns, Encoding, Mask, numeric_blocks
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Kind, Schema
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for
from vsae.imputation.calibration import calibrate, expected_errors
from vsae.imputation.imputer import FittedModel
from vsae.imputation.shrinkage import Trust
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel, ModelT, found_device
from vsae.model.vsae import VSAE
from vsae.training.em import learn as learn_by_em
from vsae.training.loop import Callback, History, Learn, Progress, TrainingDiverged, train
from vsae.training.validation import HeldOut

_MOST_VALIDATION_ROWS = 2000  # more would cost time and hardly sharpen the score
_MOST_CALIBRATION_ROWS = 2000
_CALIBRATION_NUMBERS = 2**21  # of all members; a dozen floats are kept of each
_MOST_PRIOR_ROWS = 4000  # enough for 128 directions of dependence
_FEWEST_PRIOR_ROWS = 500  # where complete rows are wanted; if these are fewer, the next best come to them
_ROWS_LOOKED_AT = 100_000  # for them
_NUMBERS_AT_ONCE = 2**27  # floats: half a gigabyte
_TRUST_DRAWS = 4
_REFIT_RATE = 0.3  # of the peak learning rate: to take the new cells in, not to start over
_FEWEST_ROWS_TO_SPLIT = 50  # below that no row can be spared: cells of training rows are scored instead


def fit(
    schema: Schema,
    columns: Columns,
    mask: Mask,
    config: VSAEConfig | None = None,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    callback: Callback | None = None,
    checkpoint_path: str | os.PathLike[str] | None = None,
) -> FittedVSAE:
    """Fit a VSAE to a table with holes.

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
    config = config or config_for(schema, len(mask))
    paths = _Paths.beside(checkpoint_path)
    fitted, data = _fit(VSAE, schema, columns, mask, config, seed, device, callback, paths)
    assert isinstance(fitted, FittedVSAE)
    if config.prior == "fitted":
        _fit_prior(fitted.model, data, seed)
        _steer(fitted, columns, mask, seed)
    paths.remove()
    return fitted


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
    """Fit one of `vsae.baselines.BASELINES`, as VSAE is fitted: same split, same trainer, same way to impute."""
    config = config or baseline_config(kind, schema)
    paths = _Paths.beside(None)
    return _fit(kind, schema, columns, mask, config, seed, device, callback, paths)[0]


def fit_apart(
    build: Callable[[Schema, VSAEConfig], ModelT],
    schema: Schema,
    tables: Sequence[tuple[Columns, Mask]],
    config: VSAEConfig,
    *,
    seed: int = 0,
    device: torch.device | str | None = None,
    callback: Callback | None = None,
) -> list[FittedModel[ModelT]]:
    """Fit one model to each of several tables of one schema and size, all as one computation: a member a table.

    For repetitions of one experiment with other masks and splits; on a GPU, where small networks are bound by the
    number of steps, three cost hardly more than one. What is learned of all rows at once (rich features, the guess)
    would mix the tables, and refitting and trust are left out, so the settings must do without them.
    """
    mixing = {"features": "plain", "guess": False, "refit": 0.0, "trust": False, "hiding": "alike"}
    if others := [name for name, value in mixing.items() if getattr(config, name) != value]:
        raise ValueError(f"fit_apart can not have these settings: {', '.join(others)}; see VSAEConfig.paper()")
    if len({len(mask) for _, mask in tables}) != 1:
        raise ValueError("the tables must have as many rows as one another: members train in step")
    device = found_device(device)
    encodings = [Encoding.fit(schema, columns, mask, config.scaling) for columns, mask in tables]
    parts: list[Batch] = []
    held_out: list[HeldOut] = []
    with private_rng(seed, device):
        model = build(schema, config.replace(members=len(tables))).to(device)
        for i, (encoding, (columns, mask)) in enumerate(zip(encodings, tables, strict=True)):
            training, held = split(schema, encoding.encode(columns, mask).to(device), config)
            if held is None:
                raise ValueError(f"table {i} has no cell to stop training by; give it more observed cells")
            model.begin_at_mean_images(training, slice(i, i + 1))
            parts.append(training)
            held_out.append(held)
        training_seed = int(torch.randint(2**31, (1,)))
    history = train(
        model,
        Batch.joined(parts),
        HeldOut.apart(held_out),
        learn=_learner(model),
        apart=True,
        seed=training_seed,
        callback=callback,
    )
    with private_rng(seed, device):
        members = [model.take_members([e]) for e in range(len(tables))]
    for member, training in zip(members, parts, strict=True):
        if isinstance(member, VSAE) and config.prior == "fitted":
            _fit_prior(member, training, seed)
    return [
        _wrapped(member, encoding, history.of(e, config.patience))
        for e, (member, encoding) in enumerate(zip(members, encodings, strict=True))
    ]


def _learner(model: LatentModel) -> Learn:
    return learn_by_em if isinstance(model, VSAE) else learn_baseline


def _wrapped(model: ModelT, encoding: Encoding, history: History | None = None) -> FittedModel[ModelT]:
    wrap: Any = FittedVSAE if isinstance(model, VSAE) else FittedModel
    fitted: FittedModel[ModelT] = wrap(model, encoding, history or History())
    return fitted


def _fit(
    build: Callable[[Schema, VSAEConfig], ModelT],
    schema: Schema,
    columns: Columns,
    mask: Mask,
    config: VSAEConfig,
    seed: int,
    device: torch.device | str | None,
    callback: Callback | None,
    paths: _Paths,
) -> tuple[FittedModel[ModelT], Batch]:
    """What is the same for every model: encode, hold out, train, judge by what was held out, refit with it."""
    device = found_device(device)
    encoding = Encoding.fit(schema, columns, mask, config.scaling)
    data = encoding.encode(columns, mask).to(device)
    with private_rng(seed, device):
        model = build(schema, config).to(device)
        training, held_out = split(schema, data, config)
        model.look_at(training)
        training_seed = int(torch.randint(2**31, (1,)))
    trainer = partial(train, model, learn=_learner(model))
    fitted = _wrapped(model, encoding)
    try:
        fitted.history = history = trainer(
            training, held_out, seed=training_seed, callback=callback, checkpoint_path=paths.training
        )
        if config.trust:
            fitted.trust = _trust(fitted, columns, mask, training)
        learned = config.variance != "fixed" and bool(numeric_blocks(schema))  # is there a σ to set right?
        to_calibrate = model if isinstance(model, VSAE) and learned else None
        if to_calibrate is not None:
            sizes = expected_errors(to_calibrate, _batches_to_calibrate_by(training, schema, config, seed), seed)
        if config.refit > 0 and training.withheld is not None:
            _refit(trainer, config, data, history, training_seed, callback, paths.refit)
        if to_calibrate is not None:
            fitted.shapes = calibrate(to_calibrate, _batches_to_calibrate_by(data, schema, config, seed), sizes, seed)
    except TrainingDiverged as error:
        error.fitted = fitted
        raise
    return fitted, data


class _Paths(NamedTuple):
    """Where the two trainings keep their state; both files go when the fit is done."""

    training: Path | None
    refit: Path | None

    @classmethod
    def beside(cls, path: str | os.PathLike[str] | None) -> _Paths:
        return cls(None, None) if path is None else cls(Path(path), Path(f"{os.fspath(path)}.refit"))

    def remove(self) -> None:
        for path in self:
            if path is not None:
                path.unlink(missing_ok=True)


def split(schema: Schema, data: Batch, config: VSAEConfig) -> tuple[Batch, HeldOut | None]:
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


def _refit(
    trainer: Callable[..., History],
    config: VSAEConfig,
    data: Batch,
    history: History,
    seed: int,
    callback: Callback | None,
    path: Path | None,
) -> None:
    """Go on from the best weights, with the withheld cells: they are known, and no longer needed to judge by."""
    before = history.records[-1]["step"]
    steps = max(1, int(config.refit * before))
    gentle = config.replace(
        steps=steps, epochs=None, learning_rate=config.learning_rate * _REFIT_RATE, evaluate_every=steps
    )

    def further(progress: Progress) -> None:
        if callback is not None:
            done = {
                "step": before + progress.step,
                "steps": before + steps,
                "seconds": history.seconds + progress.seconds,
            }
            callback(replace(progress, **done))

    history.seconds += trainer(data, seed=seed + 1, config=gentle, callback=further, checkpoint_path=path).seconds


def _trust(fitted: FittedModel[Any], columns: Columns, mask: Mask, training: Batch) -> Trust | None:
    """By the withheld cells, while they still are."""
    if training.withheld is None:
        return None
    withheld = training.withheld.cpu().numpy()
    rows = withheld.any(axis=1)
    if not rows.any():
        return None
    columns, mask, withheld = {n: np.asarray(x)[rows] for n, x in columns.items()}, mask[rows], withheld[rows]
    estimates = fitted.estimates(columns, mask & ~withheld, draws=_TRUST_DRAWS)
    return Trust.fit(fitted.schema, columns, mask, withheld, estimates)


def _batches_to_calibrate_by(data: Batch, schema: Schema, config: VSAEConfig, seed: int) -> list[Batch]:
    """Of some rows, if possible such as have withheld cells."""
    with private_rng(seed, data.mask.device):
        rows = torch.randperm(data.rows, device=data.mask.device)
    if data.withheld is not None:
        rows = rows[data.withheld[rows].any(1).sort(descending=True, stable=True).indices]
    numbers = sum(variable.entries for block in numeric_blocks(schema) for variable in block.variables)
    most = min(_MOST_CALIBRATION_ROWS, max(64, _CALIBRATION_NUMBERS // (config.members * numbers)))
    at_once = _affordable_rows(schema, config, most) // 8 + 1  # each has many ways and draws
    return [data.take(some).for_members() for some in rows[:most].split(at_once)]


@torch.no_grad()
def _fit_prior(model: VSAE, data: Batch, seed: int) -> None:
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


def _steer(fitted: FittedVSAE, columns: Columns, mask: Mask, seed: int) -> None:
    """Generated rows get the marginals of some of the rows, whose number each member must have the same share of."""
    if all(variable.event for variable in fitted.schema.variables):  # images and vectors come as they are decoded
        return
    members = fitted.generating.config.members
    most = min(len(mask), _affordable_rows(fitted.schema, fitted.model.config, _MOST_PRIOR_ROWS // 2))
    order = np.random.default_rng(seed).permutation(len(mask))
    rows = np.resize(order, max(members, most - most % members))
    fitted.steer({name: np.asarray(x)[rows] for name, x in columns.items()}, mask[rows], seed)


def _affordable_rows(schema: Schema, config: VSAEConfig, wanted: int) -> int:
    """As many of the wanted rows as go through the networks at once in bounded memory, however wide the table is."""
    per_row = config.members * len(schema) * (2 * config.attributive.width + 4 * config.latent_dim)
    per_row += config.members * config.channels * sum(v.entries for v in schema.variables if v.kind is Kind.IMAGE)
    return max(64, min(wanted, _NUMBERS_AT_ONCE // per_row))
