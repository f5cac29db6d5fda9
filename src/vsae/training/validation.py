"""Held-out cells: known values that are hidden from the model and asked back, the only honest score it has.

The error of a variable is relative to what its mean (or its level frequencies) would score on the same cells, so that 1
means "no better than trivial" for every kind, and variables can be averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Block, Family, Schema
from vsae.model.latent_model import LatentModel


@dataclass(frozen=True)
class HeldOut:
    """Rows with withheld cells, and the trivial predictor's error on these, per variable."""

    batch: Batch  # (1, B, …); its withheld cells are scored
    trivial: dict[str, Tensor]  # block → (1, variables), squared error or Brier score; 0 where it can't be scored
    attributes: dict[str, list[int]]  # block → attribute of each variable
    ranges: dict[str, tuple[Tensor, Tensor]]  # block of numbers → least and greatest of each, (1, 1, variables)

    @classmethod
    def of(cls, schema: Schema, rows: Batch) -> HeldOut | None:
        """To score the withheld cells of some rows (n, …); None if there is nothing to score."""
        assert rows.withheld is not None
        weight = rows.cell_weight()
        trivial = {
            block.name: _trivial_error(
                block, rows.values[block.name], rows.withheld[:, list(block.attributes)] * weight
            )[None]
            for block in schema.blocks
        }
        if not any(bool((error > 0).any()) for error in trivial.values()):
            return None
        attributes = {block.name: list(block.attributes) for block in schema.blocks}
        ranges = {
            block.name: _range(rows.numbers([block]), rows.mask[:, list(block.attributes)])
            for block in schema.number_blocks
        }
        return cls(rows.for_members(), trivial, attributes, ranges)

    @torch.no_grad()
    def score(self, model: LatentModel) -> Tensor:
        """Mean over variables of sqrt(error / trivial error) on the withheld cells, per member; (E,) float64."""
        draws = model.validation_draws(self.batch.with_mask(self.batch.usable))
        errors = {
            name: x.error_of_mean(self._clamped(name, draws.mean_of(x)), self.batch.values[name])
            for name, x in draws.data.items()
        }
        return self._score(errors)

    def _clamped(self, name: str, mean: Tensor) -> Tensor:
        """As a user would get it: inside what was seen (`Encoding.expected`)."""
        return mean.clamp(*self.ranges[name]) if name in self.ranges else mean

    def _score(self, errors: Mapping[str, Tensor]) -> Tensor:
        """From errors per cell, (E, B, variables) per block."""
        assert self.batch.withheld is not None
        ratios, weight = [], self.batch.cell_weight()
        for name, trivial in self.trivial.items():
            cells = (self.batch.withheld[..., self.attributes[name]] * weight).double()  # (1, B, variables)
            mean = (errors[name].double() * cells).sum(1) / cells.sum(1).clamp_min(1e-9)  # (E, variables)
            ratios.append(torch.where(trivial > 0, (mean / trivial).sqrt(), torch.nan))
        return torch.cat(ratios, dim=1).nanmean(1).cpu()


def _range(values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """(1, 1, variables) each; 0 where nothing was observed."""
    low = torch.where(observed, values, torch.inf).amin(0)
    high = torch.where(observed, values, -torch.inf).amax(0)
    seen = observed.any(0)
    return torch.where(seen, low, 0.0)[None, None], torch.where(seen, high, 0.0)[None, None]


def _trivial_error(block: Block, values: Tensor, hidden: Tensor) -> Tensor:
    """Variance of the hidden values (Brier score of their frequencies), (variables,) float64; `hidden` has weights."""
    weight = hidden.double()
    total = weight.sum(0).clamp_min(1e-9)
    if block.family in DISCRETE:
        counts = torch.zeros(len(block), max(block.sizes), dtype=torch.float64, device=values.device)
        counts.scatter_add_(1, values.T, weight.T)
        share = counts / total[:, None]
        return torch.where((hidden > 0).any(0), 1 - (share**2).sum(1), 0.0)
    x = values.double()
    if block.family is Family.INTERVAL:
        x = x[..., 0]
    if block.event:
        x, weight, total = x.flatten(2), weight[..., None], total[:, None]
    mean = (x * weight).sum(0) / total
    variance = ((x - mean) ** 2 * weight).sum(0) / total
    return variance.mean(-1) if block.event else variance
