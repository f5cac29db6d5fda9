"""The steps of a fit: split, (train,) assess, (refit,) calibrate, fit the prior. Each takes values and returns a value.

What is withheld by the first is known, and yet hidden from training: early stopping, shrinkage and the width of draws
go by it. Then it is given back, and training goes on for a little. How long one trains is in `rounds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Kind, Schema
from vsae.fitting.blending import Fold
from vsae.fitting.start import Start
from vsae.generation.marginals import MarginalMap
from vsae.generation.rare_levels import Common
from vsae.generation.rows import RowGenerator, generating_members
from vsae.imputation import held_out
from vsae.imputation.calibration import Blocks, Calibration, HeldOutPredictions
from vsae.imputation.imputer import Imputer
from vsae.imputation.linear_relations import LinearRelations
from vsae.imputation.predictive import LATENT_DRAWS
from vsae.imputation.shrinkage import trivial_estimates
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import ModelT, resolve_device
from vsae.model.recurring import cells_to_embed, recurring_values
from vsae.model.vsae import VSAE
from vsae.training.validation import HeldOut

_MOST_VALIDATION_ROWS = 2000  # more would cost time and hardly sharpen the score
_FEWEST_ROWS_TO_SPLIT = 50  # below that no row can be spared: cells of training rows are scored instead
_MOST_CALIBRATION_ROWS = 2000  # likewise
_CALIBRATION_NUMBERS = 2**21  # cells of all members; a dozen floats are kept of each: 100 MB
_MOST_PRIOR_ROWS = 4000  # enough for 128 directions of dependence
_FEWEST_PRIOR_ROWS = 500  # where complete rows are wanted; if these are fewer, the next best come to them
_ROWS_LOOKED_AT = 100_000  # for them
_NUMBERS_AT_ONCE = 2**27  # floats: half a gigabyte


#: Columns and their mask → the same with the context that follows from them: see data/context.py
Context = Callable[[Columns, Mask], tuple[Columns, Mask]]


class FitData(NamedTuple):
    """A table as it was given, and as the model reads it."""

    columns: Columns
    mask: Mask
    encoding: Encoding
    batch: Batch  # (n, …), on the device of the fit
    context: Context | None = None

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Columns,
        mask: Mask,
        config: VSAEConfig,
        device: torch.device | str | None,
        weight: NDArray[np.float64] | None = None,
        context: Context | None = None,
        start: Start | None = None,
    ) -> FitData:
        device = resolve_device(device)
        if start is None:
            encoding = Encoding.fit(schema, columns, mask, config.scaling, weight)
        else:
            encoding = start.fitted.encoding.widened(columns, mask)
        batch = encoding.encode(columns, mask)
        if weight is not None:
            batch = replace(batch, weight=torch.from_numpy(weight / weight.mean()).float())
        return cls(columns, mask, encoding, batch.to(device), context)

    def withholding(self, withheld: Tensor) -> FitData:
        """The same rows, in whose context the withheld cells (n, M) take no part."""
        if self.context is None:
            return self._replace(batch=replace(self.batch, withheld=withheld))
        columns, mask = self.context(self.columns, self.mask & ~withheld.cpu().numpy())
        mask = np.where(self.predicted, self.mask, mask)
        batch = replace(self.encoding.encode(columns, mask).to(withheld.device), withheld=withheld)
        return self._replace(columns=columns, mask=mask, batch=replace(batch, weight=self.batch.weight))

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """(M,): attributes that are no context."""
        return np.array([not attribute.context for attribute in self.schema])

    @property
    def schema(self) -> Schema:
        return self.encoding.schema

    def representative(self) -> tuple[Columns, Mask]:
        """Columns and mask of all rows, or of some, each as often as its weight says."""
        if self.batch.weight is None:
            return self.columns, self.mask
        return self.rows(self.batch.in_proportion(torch.arange(self.batch.rows, device=self.batch.mask.device)))

    def rows(self, index: Any) -> tuple[dict[str, Any], Mask]:
        """Some rows of the columns and of the mask."""
        index = index.cpu().numpy() if isinstance(index, Tensor) else index
        return {name: np.asarray(x)[index] for name, x in self.columns.items()}, self.mask[index]


class Split(NamedTuple):
    """What to train on, what to validate with, and the seed of the training."""

    data: FitData  # as it is while cells are withheld
    training: Batch
    held_out: HeldOut | None
    seed: int


# --- split


def split(
    build: Callable[[Schema, VSAEConfig], ModelT],
    data: FitData,
    config: VSAEConfig,
    seed: int,
    start: Start | None = None,
) -> tuple[ModelT, Split]:
    """A model that has seen what it may see before training, and the cells it trains on and is judged by."""
    device = data.batch.mask.device
    recurring = None
    if start is None and config.recurring and data.schema.number_blocks:
        numbers, cells = data.batch.numbers(data.schema.number_blocks), cells_to_embed(data.schema, data.batch)
        recurring = recurring_values(numbers, cells, config.recurring)
        config = config.replace(recurring=len(recurring))
    with private_rng(seed, device):
        model = build(data.schema, config).to(device)
        withheld, rows = withhold(data.schema, data.batch, config)
        shown = data.withholding(withheld)
        training, held_out = divide(data.schema, shown.batch, rows, config)
        training_seed = int(torch.randint(2**31, (1,)))  # before anything is drawn on the device
        if start is None:
            model.fit_statistics(training)
            if recurring is not None and isinstance(model, VSAE):
                model.recurring.keys.copy_(recurring)
        else:
            model.update_statistics(training, start.share(training.rows))
        return model, Split(shown, training, held_out, training_seed)


def withhold(schema: Schema, data: Batch, config: VSAEConfig) -> tuple[Tensor, Tensor]:
    """The cells to validate with, (n, M), and the rows they are in: cells of any row, or whole rows some of whose cells
    are hidden.

    Cells are the better use of a small table: every row is trained on, and many more cells are scored.
    """
    order, mask = torch.randperm(data.rows), data.mask.cpu()  # the same cells on every device
    rows, withheld = order[: _affordable_rows(schema, config, _MOST_VALIDATION_ROWS)], torch.zeros_like(mask)
    if _withholds_cells(data, config):
        withheld[rows] = (mask & ~remask(mask, config.validation_share, config.validation_share))[rows]
    else:
        rows = rows[: max(1, int(data.rows * config.validation_share))]
        withheld[rows] = mask[rows] & ~remask(mask[rows], config.validation_remask, config.validation_remask)
    withheld[:, schema.context] = False
    return withheld.to(data.mask.device), rows.to(data.mask.device)


def divide(schema: Schema, data: Batch, rows: Tensor, config: VSAEConfig) -> tuple[Batch, HeldOut | None]:
    """What to train on, and what to validate with, of data with withheld cells, which are in these rows."""
    held_out = HeldOut.of(schema, data.take(rows))
    if _withholds_cells(data, config):
        return data, held_out
    others = torch.ones(data.rows, dtype=torch.bool, device=rows.device).index_fill_(0, rows, False)
    return replace(data, withheld=None).take(others.nonzero()[:, 0]), held_out


def _withholds_cells(data: Batch, config: VSAEConfig) -> bool:
    return config.validation == "cells" or data.rows < _FEWEST_ROWS_TO_SPLIT


# --- assess: what the model says of the withheld cells, while they still are withheld


def assess(imputer: Imputer[Any], parts: Split, folds: Sequence[Fold], seed: int) -> HeldOutPredictions:
    """Of withheld cells, and of cells that were trained on, to compare with; of none where none were withheld."""
    training, found = parts.training, HeldOutPredictions()
    if training.withheld is None or not training.withheld.any():
        return found
    if imputer.model.config.shrinkage:
        rows = training.in_proportion(training.withheld.any(1).nonzero()[:, 0])
        withheld = training.withheld[rows].cpu().numpy()
        estimates = held_out.withheld_estimates(imputer, *parts.data.rows(rows), withheld)
        every = training.in_proportion(torch.arange(training.rows, device=training.mask.device))
        columns, mask = parts.data.rows(every)
        shown = mask & ~training.withheld[every].cpu().numpy()
        found = replace(found, estimates=estimates, trivial=trivial_estimates(imputer.schema, columns, shown))
    if not _has_widths(imputer):
        return found
    batches = _calibration_batches(imputer, training, seed)
    trained = _known_cells(imputer, folds, training, held_out.USUAL, seed)
    return replace(found, withheld=held_out.withheld_cells(imputer, batches), trained=trained)


def find_relations(imputer: Imputer[VSAE], parts: Split, assessed: HeldOutPredictions) -> LinearRelations | None:
    """That hold among the cells trained on, and are borne out by the withheld ones."""
    training = parts.training
    if imputer.model.linear_imputation() is None or training.withheld is None or assessed.estimates is None:
        return None
    rows = training.in_proportion(torch.arange(training.rows, device=training.mask.device))
    columns, mask = parts.data.rows(rows)
    relations = LinearRelations.fit(parts.data.encoding, columns, mask & ~training.withheld[rows].cpu().numpy())
    return None if relations is None else relations.borne_out(*assessed.estimates)


# --- calibrate


def calibrate(
    imputer: Imputer[Any], data: FitData, assessed: HeldOutPredictions, folds: Sequence[Fold], seed: int
) -> Calibration:
    """By what was assessed before the refit, and by known cells that are hidden for the purpose after it; means and
    frequencies are those of all known cells."""
    held = with_known(imputer, data, assessed, folds, seed)
    found = Calibration.fit(imputer.schema, held, data.encoding.has_point_mass)
    if not found.shrinkage.weight:
        return found
    trivial = trivial_estimates(imputer.schema, *data.representative())
    return replace(found, shrinkage=replace(found.shrinkage, trivial=trivial))


def with_known(
    imputer: Imputer[Any], data: FitData, assessed: HeldOutPredictions, folds: Sequence[Fold], seed: int
) -> HeldOutPredictions:
    if not _has_widths(imputer):
        return assessed
    usual, sparse = (_known_cells(imputer, folds, data.batch, w, seed) for w in (held_out.USUAL, held_out.SPARSE))
    return replace(assessed, usual=usual, sparse=sparse)


def _known_cells(
    imputer: Imputer[Any], folds: Sequence[Fold], data: Batch, shares: Sequence[float], seed: int
) -> Blocks:
    """Of all folds, in each by trees that grew on the others."""
    parts = []
    for rows, blend in folds:
        some = data if rows is None else data.take(rows)
        batches = _calibration_batches(imputer, some, seed, len(folds))
        parts.append(held_out.known_cells(replace(imputer, blend=blend), batches, shares, seed))
    return held_out.joined(parts)


def _has_widths(imputer: Imputer[Any]) -> bool:
    """Whether cells are drawn from a distribution of their own that could be too narrow or too wide."""
    return imputer.knows_every_subset and bool(imputer.schema.standardised_blocks)


def _calibration_batches(imputer: Imputer[Any], data: Batch, seed: int, folds: int = 1) -> list[Batch]:
    """Of some rows, if possible such as have withheld cells; of one of so many folds."""
    schema, config = imputer.schema, imputer.model.config
    with private_rng(seed, data.mask.device):
        rows = data.in_proportion(torch.randperm(data.rows, device=data.mask.device))
    if data.withheld is not None:
        rows = rows[data.withheld[rows].any(1).sort(descending=True, stable=True).indices]
    numbers = sum(variable.entries for block in schema.standardised_blocks for variable in block.variables)
    most = min(_MOST_CALIBRATION_ROWS, max(64, _CALIBRATION_NUMBERS // (config.members * numbers))) // folds + 1
    return list(imputer.pieces_of(data.take(rows[:most]), LATENT_DRAWS))


# --- fit the prior


def fit_prior(model: VSAE, data: FitData, common: Common, seed: int) -> MarginalMap | None:
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
    order = data.batch.in_proportion(torch.from_numpy(order).to(data.batch.mask.device)).cpu().numpy()
    rows = np.resize(order, max(members, most - most % members))  # each member must have the same share of them
    return RowGenerator(generating, data.encoding, common=common).with_marginals(*data.rows(rows), seed).marginal_map


@torch.no_grad()
def _fit_latent_prior(model: VSAE, data: Batch, seed: int) -> None:
    """To the latents of the training rows, or of a sample of them."""
    with private_rng(seed, data.mask.device):
        most = _MOST_PRIOR_ROWS * (2 if model.config.prior_covariance == "own" else 1)
        latents_of_row = model.config.members * len(model.schema) * model.config.latent_dim
        most = max(64, min(most, _NUMBERS_AT_ONCE // (8 * latents_of_row)))
        at_once = _affordable_rows(model.schema, model.config, most)
        rows = data.in_proportion(torch.randperm(data.rows, device=data.mask.device))
        if model.config.prior_rows == "complete":
            rows = rows[: max(most, _ROWS_LOOKED_AT)]
            seen = data.mask[rows].sum(1)
            complete = max(int((seen == len(model.schema)).sum()), _FEWEST_PRIOR_ROWS)
            rows = rows[seen.argsort(descending=True, stable=True)][:complete]
        parts = [model.propose(data.take(some).for_members()).selective for some in rows[:most].split(at_once)]
        model.prior.fit(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))
        if model.config.mask_modelling:
            z = model.prior.sample(at_once)
            model.prior.calibrate_mask(
                model.mask_network(model.aggregate(z)).logits, (data.mask * data.cell_weight()).float().mean(0)
            )


def _affordable_rows(schema: Schema, config: VSAEConfig, wanted: int) -> int:
    """As many of the wanted rows as go through the networks at once in bounded memory, however wide the table is."""
    per_row = config.members * len(schema) * (2 * config.attributive.width + 4 * config.latent_dim)
    per_row += config.members * config.channels * sum(v.entries for v in schema.variables if v.kind is Kind.IMAGE)
    return max(64, min(wanted, _NUMBERS_AT_ONCE // per_row))
