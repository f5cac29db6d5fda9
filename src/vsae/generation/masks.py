"""P(missing | row): what the mask network makes of a row."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.randomness import private_rng
from vsae.data.remasking import remask
from vsae.imputation.imputer import Imputer
from vsae.model.vsae import VSAE

_REMASKS = 32  # ways to hide cells of a row when asking for its mask: each is one more pass


def refuse_without_mask_model(model: VSAE) -> None:
    if not model.config.mask_modelling:
        raise ValueError("this model was fitted with mask_modelling=False, so it knows nothing of masks")


@torch.no_grad()
def missing_probability(imputer: Imputer[VSAE], columns: Columns, mask: Mask, *, draws: int = 2) -> NDArray[np.float64]:
    """P(m_i = 0 | z) averaged over z given the row, (n, M).

    The row's own mask is part of what z is inferred from, so this leans towards it: it says how plausible the mask
    network finds each missing cell, not how often such a row would miss it. The network learned to answer for rows of
    which some cells were hidden, so it is asked the same way, averaged over several ways to hide some.
    """
    model, device = imputer.model, imputer.device
    refuse_without_mask_model(model)
    parts, noise = [], imputer.shared_noise(draws)
    with private_rng(0, device):  # the same for every row
        everything = torch.ones(1, _REMASKS, len(imputer.schema), dtype=torch.bool, device=device)
        ways = remask(everything, *model.config.remask, model.remask_weights)
    for _, batch in imputer.chunks(columns, mask, noise.samples):
        seen = torch.zeros(batch.mask.shape[1:], dtype=torch.float64, device=device)
        for way in ways[0]:
            with private_rng(0, device):
                decoded, _, _ = model.decode_draws(batch.with_mask(batch.mask & way), noise)
            seen += decoded.mask.mean.unflatten(1, (noise.samples, -1)).mean(dim=(0, 1)) / _REMASKS
        parts.append(1.0 - seen.cpu().numpy())
    return np.concatenate(parts)
