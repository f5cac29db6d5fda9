"""VAE (Kingma and Welling 2014): a Gaussian latent a row, the bound of the observed cells, noise in the others."""

from __future__ import annotations

from vsae.baselines.base import RowAutoencoder


class VAE(RowAutoencoder):
    """q(z | x_o) and p(x | z); neither is told the mask."""
