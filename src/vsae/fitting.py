"""From columns and a mask to a fitted model: the core's front door, on plain arrays."""

from __future__ import annotations

import os

import torch

from vsae.batch import Batch
from vsae.config import VSAEConfig
from vsae.encoding import Columns, Encoding, Mask
from vsae.imputation import FittedVSAE
from vsae.model import VSAE
from vsae.objective import remask
from vsae.randomness import private_rng
from vsae.schema import Schema
from vsae.training import Callback, History, train
from vsae.validation import HeldOut

_MOST_VALIDATION_ROWS = 2000  # more would cost time and hardly sharpen the score
_MOST_PRIOR_ROWS = 4000  # enough for 128 directions of dependence
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
    config = config or VSAEConfig()
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    encoding = Encoding.fit(schema, columns, mask, config.scaling)
    data = encoding.encode(columns, mask).to(device)
    with private_rng(seed, device):
        model = VSAE(schema, config).to(device)
        model.fit_features(data)
        training, held_out = split(schema, data, config)
        training_seed = int(torch.randint(2**31, (1,)))
    history = train(model, training, held_out, seed=training_seed, callback=callback, checkpoint_path=checkpoint_path)
    history.chosen = list(range(config.members))
    if config.select and config.members > 1 and held_out is not None:
        with private_rng(seed, device):
            history.chosen = held_out.choose(model)
        model = model.take_members(history.chosen)
    if config.refit > 0 and training.withheld is not None:
        _refit(model, data, history, training_seed, checkpoint_path)
    if config.prior == "fitted":
        _fit_prior(model, data, seed)
    return FittedVSAE(model, encoding, history)


def split(schema: Schema, data: Batch, config: VSAEConfig) -> tuple[Batch, HeldOut | None]:
    """What to train on, and what to validate with: cells of any row, or whole rows some of whose cells are hidden.

    Cells are the better use of a small table: every row is trained on, and many more cells are scored.
    """
    order = torch.randperm(data.rows, device=data.mask.device)
    if config.validation == "cells" or data.rows < _FEWEST_ROWS_TO_SPLIT:
        withheld = data.mask & ~remask(data.mask, config.validation_share, config.validation_share)
        training = Batch(data.values, data.mask, withheld)
        return training, HeldOut.of(schema, training.take(order[:_MOST_VALIDATION_ROWS]))
    held = max(1, min(int(data.rows * config.validation_share), _MOST_VALIDATION_ROWS))
    rows = data.take(order[:held])
    withheld = rows.mask & ~remask(rows.mask, config.validation_remask, config.validation_remask)
    return data.take(order[held:]), HeldOut.of(schema, Batch(rows.values, rows.mask, withheld))


def _refit(
    model: VSAE, data: Batch, history: History, seed: int, checkpoint_path: str | os.PathLike[str] | None
) -> None:
    """Go on from the best weights, with the withheld cells: they are known, and no longer needed to judge by."""
    config = model.config
    steps = max(1, int(config.refit * history.records[-1]["step"]))
    gentle = config.replace(
        steps=steps, epochs=None, learning_rate=config.learning_rate * _REFIT_RATE, evaluate_every=steps
    )
    path = None if checkpoint_path is None else f"{os.fspath(checkpoint_path)}.refit"
    again = train(model, data, seed=seed + 1, config=gentle, checkpoint_path=path)
    history.seconds += again.seconds


@torch.no_grad()
def _fit_prior(model: VSAE, data: Batch, seed: int) -> None:
    """To the latents of the training rows, or of a sample of them."""
    with private_rng(seed, data.mask.device):
        rows = torch.randperm(data.rows, device=data.mask.device)[:_MOST_PRIOR_ROWS]
        model.prior.fit(*model.propose(data.take(rows).for_members()).selective)
        if model.config.mask_modelling:
            z = model.prior.sample(_MOST_PRIOR_ROWS)
            model.prior.calibrate_mask(model.mask_network(model.aggregate(z)).logits, data.mask.float().mean(0))
