"""Parameter uncertainty: what is wrong in all rows of a drawn table alike.

All rows are imputed by the same fit, and where it is off for one it is off for those like it. Noise that is drawn cell
by cell averages out over the rows, and a regression fitted to the draws would seem more exact than it is. Draws are
proper, in Rubin's sense, if the fit varies between them as it would between samples of the data.

A network's errors have no formula, but those of a linear regression do. So errors on known cells are regressed on
φ = (1, all entries of the Gaussian imputation, estimated where they are missing): in units of a cell's own σ for a
number, by one step of a logistic regression for a binary level. What they leave to be known of the slopes is normal,
with a mean, by which the network was off, and a covariance; and each drawn table has slopes of its own from it. They
matter little in the midst of the rows that were seen, and much far from them, where cells lie that are missing because
of other columns.

The width of a cell's distribution is set by errors that were made (`calibration.py`), which have this one in them. It
is therefore not added: it takes its share of the noise, and each cell by itself is as wide as before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import generator
from vsae.data.schema import Block, Family, Schema
from vsae.model.latent_model import LatentModel

_STREAM = -1000  # of random numbers, and on down: one a table


def blocks_with_slopes(schema: Schema) -> list[Block]:
    """Numbers, then binary levels."""
    return [*schema.number_blocks, *(b for b in schema.blocks if b.family is Family.BERNOULLI)]


def regressors(model: LatentModel, batch: Batch) -> Tensor:
    """φ of rows (1, B, …), (B, 1 + D)."""
    gaussian = model.linear_imputation()
    assert gaussian is not None
    entries = gaussian(batch, model.number_features(batch))[0]
    return torch.cat([torch.ones_like(entries[:, :1]), entries], dim=1)


@dataclass(frozen=True)
class ParameterUncertainty:
    """What known cells say of the slopes of each number and binary level: N(mean, precision⁻¹)."""

    mean: Tensor  # (variables, 1 + D)
    precision: Tensor  # (variables, 1 + D, 1 + D)

    def tables(self, n: int, seed: int, device: torch.device) -> TableSlopes:
        """Slopes of `n` drawn tables."""
        root = torch.linalg.cholesky(self.precision.double()).float().to(device)
        shape = (*root.shape[:2], 1)
        noise = torch.stack(
            [torch.randn(shape, generator=generator(seed, _STREAM - i, device), device=device) for i in range(n)]
        )
        off = torch.linalg.solve_triangular(root.mT, noise, upper=True)[..., 0]  # (tables, variables, 1 + D)
        return TableSlopes(root, self.mean.to(device), off)

    def to_tensors(self) -> dict[str, Tensor]:
        return {"mean": self.mean.cpu(), "precision": self.precision.cpu()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> ParameterUncertainty:
        return cls(tensors["mean"], tensors["precision"])


@dataclass(frozen=True)
class TableSlopes:
    """Of some drawn tables."""

    root: Tensor  # of the precision
    mean: Tensor
    off: Tensor  # (tables, variables, 1 + D): each table's, around the mean

    def deviates(self, own: Tensor, row: Tensor, table: Tensor, variables: Sequence[int]) -> Tensor:
        """Noise of numbers (B, variables) for rows φ, standard normal cell by cell, made alike in like rows of a drawn
        table, and moved by as much as the network was off in such rows."""
        mean, common, share = self._at(row, table, variables)
        return mean + (own + common) / (1 + share).sqrt()

    def log_odds(self, own: Tensor, row: Tensor, table: Tensor, variables: Sequence[int]) -> Tensor:
        """Likewise, of binary levels; steeper, so that probabilities stay what they are on average over tables (MacKay
        1992)."""
        mean, common, share = self._at(row, table, variables)
        return (own + mean) * (1 + math.pi / 8 * share).sqrt() + common

    def _at(self, row: Tensor, table: Tensor, variables: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """What slopes add to a cell, (B, variables) each: on average, in its table besides, and that one.s variance."""
        at = torch.tensor(variables, device=row.device)
        common = torch.einsum("bd,bvd->bv", row, self.off[table[:, None], at])
        share = (torch.linalg.solve_triangular(self.root[at], row.T, upper=False) ** 2).sum(1).T
        return row @ self.mean[at].T, common, share
