"""CVAE (Sohn et al. 2015), conditioned on the mask: q(z | x_o, m) and p(x | z, m)."""

from __future__ import annotations

from vsae.baselines.base import RowAutoencoder


class CVAE(RowAutoencoder):
    """A VAE whose encoder and decoder both read the mask."""

    reads_mask = True
