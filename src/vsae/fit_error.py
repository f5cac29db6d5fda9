"""What is wrong in all rows of a drawn table alike: the error of the fit.

All rows are imputed by the same fit, and where it is off for one it is off for those like it. Noise that is drawn cell
by cell averages out over the rows, and a regression fitted to the draws would seem more exact than it is. Draws are
proper, in Rubin's sense, if the fit varies between them as it would between samples of the data.

A network's errors have no formula, but those of a linear regression on n rows do: between rows i and k they covary as
σ² (1 + dᵢᵀ Σ⁻¹ dₖ) / n, with d a row's distance from the mean and Σ the covariance. The linear guess (`guess.py`) knows
both, and fills what is hidden in d with its conditional mean. So each drawn table has slopes of its own on the whitened
guess, and its errors covary like this.

The width of a cell's distribution is set by errors that were made (`calibration.py`), which have this one in them. It
is therefore not added: it takes its share of the noise, and each cell by itself is distributed as before.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from vsae.batch import Batch
from vsae.model import VSAE
from vsae.proposals import number_blocks


class FitError:
    """The slopes of some drawn tables, `each` of every member."""

    def __init__(self, model: VSAE, each: int, rng: torch.Generator) -> None:
        self.model, guess = model, model.guess
        self.blocks = number_blocks(model.schema)
        self.rows = guess.rows[: sum(map(len, self.blocks))]  # that show a number
        self.root = torch.linalg.cholesky(guess.covariance)
        shape = model.config.members, each, 1 + guess.width, len(self.rows)
        self.slopes = torch.randn(shape, generator=rng, device=guess.rows.device)  # of 1 and of each whitened entry

    def deviates(self, batch: Batch, rng: torch.Generator) -> Mapping[str, Tensor]:
        """Noise for the blocks of numbers, (E, each·B, variables): standard normal in a cell, alike in like rows."""
        guess = self.model.guess(batch, self.model.number_features(batch))[0]  # (B, D)
        white = torch.linalg.solve_triangular(self.root, guess.T, upper=False).T
        row = torch.cat([torch.ones_like(white[:, :1]), white], dim=1)
        common = row @ self.slopes / self.rows.sqrt()  # (E, each, B, numbers)
        own = torch.randn(common.shape, generator=rng, device=common.device)
        share = (row**2).sum(1, keepdim=True) / self.rows  # of the variance, beside 1
        parts = ((own + common) / (1 + share).sqrt()).flatten(1, 2).split([len(b) for b in self.blocks], dim=-1)
        return {block.name: part for block, part in zip(self.blocks, parts, strict=True)}
