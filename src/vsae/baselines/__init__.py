"""What the paper compares VSAE with, one file a paper, on the same networks, likelihoods and trainer."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch

from vsae.baselines.autoencoder import Autoencoder
from vsae.baselines.base import Baseline, learn
from vsae.baselines.cvae import CVAE
from vsae.baselines.hivae import HIVAE
from vsae.baselines.miwae import MIWAE
from vsae.baselines.mvae import MVAE
from vsae.baselines.vae import VAE
from vsae.data.randomness import private_rng
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE

BASELINES: dict[str, type[Baseline]] = {
    "AE": Autoencoder,
    "VAE": VAE,
    "CVAE": CVAE,
    "MVAE": MVAE,
    "HI-VAE": HIVAE,
    "MIWAE": MIWAE,
}

__all__ = ["BASELINES", "Baseline", "baseline_config", "learn", "parameters"]


def baseline_config(kind: type[Baseline], schema: Schema, config: VSAEConfig | None = None) -> VSAEConfig:
    """The `paper` preset with the baseline's own settings, its networks widened until it has VSAE's size or more."""
    base = (config or VSAEConfig.paper()).replace(**kind.settings)
    with private_rng(0, torch.device("cpu")):
        wanted = parameters(VSAE(schema, base.replace(members=1)))
        for factor in itertools.count(1.0, 0.125):
            encoder, decoder = (replace(n, width=round(factor * n.width)) for n in (base.collective, base.data_net))
            grown = base.replace(collective=encoder, data_net=decoder)
            if parameters(kind(schema, grown.replace(members=1))) >= wanted:
                return grown
    raise AssertionError("unreachable: widths grow without end")


def parameters(model: VSAE | Baseline) -> int:
    return sum(p.numel() for p in model.parameters())
