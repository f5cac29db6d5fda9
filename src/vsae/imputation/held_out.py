"""Predictions of cells whose value is known, while they are hidden: what a calibration is fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Family
from vsae.imputation import point
from vsae.imputation.calibration import WithheldEstimates
from vsae.imputation.imputer import Imputer
from vsae.imputation.predictive import predict
from vsae.imputation.residual_quantiles import Predictions

USUAL = (0.15, 0.15, 0.15)  # of known cells hidden, so few that the rest of the row is as it was,
SPARSE = (0.5,)  # … and more of them: σ must be right where little is known, too
_DRAWS = 4  # of z: point estimates are level with those of ten


def withheld_estimates(imputer: Imputer[Any], columns: Columns, mask: Mask, withheld: Mask) -> WithheldEstimates:
    """Point estimates of rows of which some cells are withheld."""
    found = point.estimates(imputer, columns, mask & ~withheld, draws=_DRAWS)
    return WithheldEstimates(columns, mask, withheld, found)


def withheld_cells(imputer: Imputer[Any], batches: Sequence[Batch]) -> dict[str, Predictions]:
    """By block of numbers or vectors, of batches (1, B, …) with withheld cells."""
    return joined([_predictions(imputer, batch, batch.usable, batch.mask, medians=True) for batch in batches])


def known_cells(
    imputer: Imputer[Any], batches: Sequence[Batch], shares: Sequence[float], seed: int
) -> dict[str, Predictions]:
    """Likewise of known cells that are hidden for the purpose, such shares of them one after the other."""
    with private_rng(seed, imputer.device):
        shown = [(batch, remask(batch.usable, share, share)) for share in shares for batch in batches]
    context = imputer.schema.context
    for batch, visible in shown:
        visible[..., context] = batch.usable[..., context]
    return joined([_predictions(imputer, batch, visible, batch.usable) for batch, visible in shown])


def _predictions(
    imputer: Imputer[Any], batch: Batch, visible: Tensor, known: Tensor, *, medians: bool = False
) -> dict[str, Predictions]:
    """Of the known cells (1, B, M) that are not visible; vectors have a column an entry."""
    blocks = imputer.schema.standardised_blocks
    wanted = [v.name for block in imputer.schema.number_blocks for v in block.variables] if medians else []
    predicted = predict(imputer, batch.with_mask(visible), [block.name for block in blocks], medians=wanted)
    found = {}
    for block in blocks:
        hidden = (known & ~visible)[0][:, list(block.attributes)]
        x = batch.values[block.name][0]
        x = x[..., 0] if block.family is Family.INTERVAL else x
        estimate, std, scale, x = (part.flatten(1) for part in (*predicted.numbers[block.name], x))
        by_trees = predicted.medians_of_trees(block) if medians and block in imputer.schema.number_blocks else None
        hidden = hidden.repeat_interleave(block.width, dim=1)
        found[block.name] = Predictions(estimate, std, scale, x, hidden, by_trees)
    return found


def joined(parts: Sequence[dict[str, Predictions]]) -> dict[str, Predictions]:
    return {name: Predictions.joined([part[name] for part in parts]) for name in parts[0]}
