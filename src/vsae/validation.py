"""Held-out cells: known values that are hidden from the model and asked back, the only honest score it has.

The error of a variable is relative to what its mean (or its level frequencies) would score on the same cells, so that 1
means "no better than trivial" for every kind, and variables can be averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vsae.batch import Batch
from vsae.model import VSAE
from vsae.objective import remask
from vsae.schema import DISCRETE, Block, Family, Schema


@dataclass(frozen=True)
class HeldOut:
    """Rows, what of them the model may see, and the trivial predictor's error per variable."""

    batch: Batch  # (1, B, …) with the true mask
    visible: Tensor  # (1, B, M), a part of it
    trivial: dict[str, Tensor]  # block → (variables,), mean squared error or Brier score; 0 where it can't be scored

    @classmethod
    def hide(cls, schema: Schema, rows: Batch, share: float) -> HeldOut | None:
        """Hide `share` of the observed cells of some rows (n, …); None if that leaves nothing to score."""
        batch = rows.for_members()
        visible = remask(batch.mask, share, share)
        hidden = batch.mask & ~visible
        trivial = {
            block.name: _trivial_error(block, batch.values[block.name][0], hidden[0][:, list(block.attributes)])
            for block in schema.blocks
        }
        if not any(bool((error > 0).any()) for error in trivial.values()):
            return None
        return cls(batch, visible, trivial)

    @torch.no_grad()
    def score(self, model: VSAE) -> Tensor:
        """Mean over variables of sqrt(error / trivial error) on the hidden cells, per member; (E,) float64."""
        config = model.config
        z = model.propose(self.batch.with_mask(self.visible)).selective.loc
        given = config.imputation_mask == "given" or not config.mask_modelling
        data = model.decode(z, self.visible if given else None).data
        hidden = self.batch.mask & ~self.visible
        ratios = []
        for block in model.schema.blocks:
            trivial = self.trivial[block.name]
            cells = hidden[..., list(block.attributes)].double()  # (1, B, variables)
            error = data[block.name].error(self.batch.values[block.name]).double()
            mean = (error * cells).sum(1) / cells.sum(1).clamp_min(1)  # (E, variables)
            ratios.append((mean / trivial).sqrt()[:, trivial > 0])
        return torch.cat(ratios, dim=1).mean(1).cpu()


def _trivial_error(block: Block, values: Tensor, hidden: Tensor) -> Tensor:
    """Variance of the hidden values (Brier score of their frequencies), (variables,) float64."""
    weight = hidden.double()
    total = weight.sum(0).clamp_min(1)
    if block.family in DISCRETE:
        counts = torch.zeros(len(block), max(block.sizes), dtype=torch.float64, device=values.device)
        counts.scatter_add_(1, values.T, weight.T)
        share = counts / total[:, None]
        return torch.where(hidden.any(0), 1 - (share**2).sum(1), 0.0)
    x = values.double()
    if block.family is Family.INTERVAL:
        x = x[..., 0]
    if block.family is Family.VECTOR:
        weight, total = weight[..., None], total[:, None]
    mean = (x * weight).sum(0) / total
    variance = ((x - mean) ** 2 * weight).sum(0) / total
    return variance.mean(-1) if block.family is Family.VECTOR else variance
