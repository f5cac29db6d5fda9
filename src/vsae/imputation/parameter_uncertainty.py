"""Parameter uncertainty: what is wrong in all rows of a drawn table alike.

All rows are imputed by the same fit, and where it is off for one it is off for those like it. Noise that is drawn cell
by cell averages out over the rows, and a regression fitted to the draws would seem more exact than it is. Draws are
proper, in Rubin's sense, if the fit varies between them as it would between samples of the data.

A network's errors have no formula, but those of a linear regression do: between rows i and k they covary as
σ² φᵢᵀ A⁻¹ φₖ, with φ = (1, the other columns) and A = Σ φφᵀ over the rows that show the number in question. The
Gaussian imputation (`gaussian.py`) keeps A, and fills what is missing in φ. So each drawn table has slopes of its own,
normal with covariance A⁻¹ and half as much again, as a network is more flexible than a line. Its errors covary like
this: little in the midst of the rows that were seen, much far from them, where cells lie that are missing because of
other columns.

The width of a cell's distribution is set by errors that were made (`calibration.py`), which have this one in them. It
is therefore not added: it takes its share of the noise, and each cell by itself is distributed as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.randomness import generator
from vsae.data.schema import Block
from vsae.model.gaussian import GaussianImputation
from vsae.model.latent_model import LatentModel

_RIDGE = 1e-3  # of a column's own square sum, added to it: columns that tell the same twice
_LEFT_OUT = 1e6  # likewise: nothing is told by the number itself
_FLEXIBLE = 1.5  # times the variance of a line's slopes: on simulated rows, that of pooled slopes is what it should be
_STREAM = -1000  # of random numbers, and on down: one a table


class ParameterUncertainty:
    """The slopes of some drawn tables."""

    def __init__(self, model: LatentModel, gaussian: GaussianImputation, tables: int, seed: int) -> None:
        self.model, self.gaussian, moments = model, gaussian, gaussian.moments.double()
        rows = moments[:, 0, 0].clamp_min(1.0)  # that show a number
        squares = _RIDGE * moments.diagonal(dim1=1, dim2=2).clamp_min(1.0)
        squares[:, 1:].diagonal().copy_(_LEFT_OUT * rows)
        squares[:, 0] = rows - moments[:, 0, 0]
        precision = (moments + torch.diag_embed(squares)) / _FLEXIBLE  # (numbers, 1 + D, 1 + D)
        self.root = torch.linalg.cholesky(precision).float()
        shape = (*self.root.shape[:2], 1)
        noise = torch.stack(
            [
                torch.randn(shape, generator=generator(seed, _STREAM - i, moments.device), device=moments.device)
                for i in range(tables)
            ]
        )
        self.slopes = torch.linalg.solve_triangular(self.root.mT, noise, upper=True)[..., 0]  # (tables, numbers, 1 + D)

    def shared(self, own: Tensor, batch: Batch, table: Tensor, block: Block, variables: Sequence[int]) -> Tensor:
        """Standard normal noise (B, variables) of some numbers, made alike in like rows (1, B, …) of a drawn table."""
        numbers = [v.name for b in self.model.schema.number_blocks for v in b.variables]
        at = [numbers.index(block.variables[j].name) for j in variables]
        estimate = self.gaussian(batch, self.model.number_features(batch))[0]  # (B, D)
        row = torch.cat([torch.ones_like(estimate[:, :1]), estimate], dim=1)
        slopes = self.slopes[table[:, None], torch.tensor(at, device=table.device)]  # (B, variables, 1 + D)
        common = torch.einsum("bd,bkd->bk", row, slopes)
        share = (torch.linalg.solve_triangular(self.root[at], row.T, upper=False) ** 2).sum(1).T  # beside 1
        return (own + common) / (1 + share).sqrt()
