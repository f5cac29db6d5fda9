"""What the paper compares VSAE with, one file a paper, on the same networks, likelihoods and trainer.

`vsae.fitting.baseline` fits them.
"""

from __future__ import annotations

from vsae.baselines.autoencoder import Autoencoder
from vsae.baselines.base import Baseline, learn
from vsae.baselines.cvae import CVAE
from vsae.baselines.hivae import HIVAE
from vsae.baselines.miwae import MIWAE
from vsae.baselines.mvae import MVAE
from vsae.baselines.vae import VAE

BASELINES: dict[str, type[Baseline]] = {
    "AE": Autoencoder,
    "VAE": VAE,
    "CVAE": CVAE,
    "MVAE": MVAE,
    "HI-VAE": HIVAE,
    "MIWAE": MIWAE,
}

__all__ = ["BASELINES", "Baseline", "learn"]
