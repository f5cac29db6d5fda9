"""From columns and a mask to a fitted model: the core's front door, on plain arrays."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vsae.batch import Batch
from vsae.config import VSAEConfig
from vsae.effort import config_for
from vsae.encoding import Columns, Encoding, Mask, numeric_blocks
from vsae.imputation import FittedVSAE
from vsae.likelihoods import ScaledHead
from vsae.model import VSAE
from vsae.randomness import private_rng
from vsae.remasking import remask
from vsae.schema import Family, Schema
from vsae.training import Callback, History, Progress, TrainingDiverged, train
from vsae.trust import Trust
from vsae.validation import HeldOut

_MOST_VALIDATION_ROWS = 2000  # more would cost time and hardly sharpen the score
_MOST_PRIOR_ROWS = 4000  # enough for 128 directions of dependence
_NUMBERS_AT_ONCE = 2**27  # floats: half a gigabyte
_CALIBRATION_DRAWS = 8
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
    >>> from vsae.schema import real
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=200); columns = {"a": a, "b": 2 * a + 1}
    >>> mask = rng.random((200, 2)) < 0.8
    >>> fitted = fit(Schema([real("a"), real("b")]), columns, mask, VSAEConfig(steps=50))
    >>> filled = fitted.impute(columns, mask)
    >>> bool((filled["b"][mask[:, 1]] == columns["b"][mask[:, 1]]).all())
    True
    """
    config = config or config_for(schema, len(mask))
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    encoding = Encoding.fit(schema, columns, mask, config.scaling)
    data = encoding.encode(columns, mask).to(device)
    with private_rng(seed, device):
        model = VSAE(schema, config).to(device)
        training, held_out = split(schema, data, config)
        model.look_at(training)
        training_seed = int(torch.randint(2**31, (1,)))
    paths = _Paths.beside(checkpoint_path)
    try:
        history = train(
            model, training, held_out, seed=training_seed, callback=callback, checkpoint_path=paths.training
        )
        trust = _trust(FittedVSAE(model, encoding), columns, mask, training) if config.trust else None
        if config.refit > 0 and training.withheld is not None:
            _refit(model, data, history, training_seed, callback, paths.refit)
    except TrainingDiverged as error:
        error.fitted = FittedVSAE(model, encoding)
        raise
    if config.prior == "fitted":
        _fit_prior(model, data, seed)
    if config.variance != "fixed":
        _calibrate_spread(model, data, seed)
    paths.remove()
    return FittedVSAE(model, encoding, history, trust)


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


def _refit(model: VSAE, data: Batch, history: History, seed: int, callback: Callback | None, path: Path | None) -> None:
    """Go on from the best weights, with the withheld cells: they are known, and no longer needed to judge by."""
    config, before = model.config, history.records[-1]["step"]
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

    history.seconds += train(model, data, seed=seed + 1, config=gentle, callback=further, checkpoint_path=path).seconds


def _trust(fitted: FittedVSAE, columns: Columns, mask: Mask, training: Batch) -> Trust | None:
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


@torch.no_grad()
def _fit_prior(model: VSAE, data: Batch, seed: int) -> None:
    """To the latents of the training rows, or of a sample of them."""
    with private_rng(seed, data.mask.device):
        most = _affordable_rows(model.schema, model.config, _MOST_PRIOR_ROWS)
        rows = torch.randperm(data.rows, device=data.mask.device)[:most]
        model.prior.fit(*model.propose(data.take(rows).for_members()).selective)
        if model.config.mask_modelling:
            z = model.prior.sample(most)
            model.prior.calibrate_mask(model.mask_network(model.aggregate(z)).logits, data.mask.float().mean(0))


def _affordable_rows(schema: Schema, config: VSAEConfig, wanted: int) -> int:
    """As many of the wanted rows as go through the networks at once in bounded memory, however wide the table is."""
    per_row = config.members * len(schema) * (2 * config.attributive.width + 4 * config.latent_dim)
    return max(64, min(wanted, _NUMBERS_AT_ONCE // per_row))


@torch.no_grad()
def _calibrate_spread(model: VSAE, data: Batch, seed: int) -> None:
    """Match the spread of draws to the errors on known cells that are hidden for the purpose."""
    with private_rng(seed, data.mask.device):
        most = _affordable_rows(model.schema, model.config, _MOST_VALIDATION_ROWS) // _CALIBRATION_DRAWS + 1
        batch = data.take(torch.randperm(data.rows, device=data.mask.device)[:most]).for_members()
        visible = remask(batch.mask, 0.15, 0.15)
        q = model.propose(batch.with_mask(visible)).selective
        given = model.config.imputation_mask == "given" or not model.config.mask_modelling
        draws = [model.decode(q.rsample(), visible if given else None).data for _ in range(_CALIBRATION_DRAWS)]
    for block in numeric_blocks(model.schema):
        head = model.data_network.heads[block.name]
        assert isinstance(head, ScaledHead)
        loc, scale = (torch.stack([getattr(d[block.name], part) for d in draws]) for part in ("mean", "scale"))
        x = batch.values[block.name]
        x = x[..., 0] if block.family is Family.INTERVAL else x
        hidden = (batch.mask & ~visible)[..., list(block.attributes)]  # (1, B, variables)
        cells = hidden if block.family is not Family.VECTOR else hidden[..., None]

        def total(numbers: Tensor, cells: Tensor = cells) -> Tensor:
            return (numbers * cells).sum(1).flatten(1)  # (E, columns)

        error, variance = (x - loc.mean(0)) ** 2, (scale**2).mean(0)
        head.calibrate(total(error), total(loc.var(0)), total(variance))
