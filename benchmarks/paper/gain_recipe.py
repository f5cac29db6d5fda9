"""GAIN as its authors' public code trains it, on numbers alone: is a gap to the printed figure ours, or the recipe's?

Columns are scaled to [0, 1] by what is observed; both networks have two layers as wide as a row, relu inside and a
sigmoid at the end; missing cells hold noise from U(0, .01); 90 % of the observed cells are hinted; the discriminator's
loss counts all cells, the generator's has 100 times the squared error of observed ones; 10,000 steps of Adam.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vsae.data.randomness import private_rng

STEPS, BATCH, HINT_RATE, ALPHA, NOISE = 10_000, 128, 0.9, 100.0, 0.01
_TINY = 1e-8

Array = NDArray[np.float64]


def filled(
    x: Array, mask: NDArray[np.bool_], new: Array, new_mask: NDArray[np.bool_], seed: int, steps: int = STEPS
) -> tuple[Array, Array]:
    """The rows that are trained on and new ones, each with the generator's word in the missing cells."""
    seen = np.where(mask, x, np.nan)
    low, span = np.nanmin(seen, axis=0), np.ptp(np.where(mask, x, np.nanmean(seen, axis=0)), axis=0) + _TINY
    parts = [(_tensor(np.where(m, (rows - low) / span, 0)), _tensor(m)) for rows, m in ((x, mask), (new, new_mask))]
    with private_rng(seed, torch.device("cpu")):
        generator = _trained(*parts[0], steps)
        with torch.no_grad():
            said = [low + span * generator(_noisy(*part)).double().numpy() for part in parts]
    return np.where(mask, x, said[0]), np.where(new_mask, new, said[1])


def _trained(x: Tensor, mask: Tensor, steps: int) -> nn.Module:
    generator, discriminator = (_network(x.shape[1]) for _ in range(2))
    movers = [torch.optim.Adam(network.parameters()) for network in (discriminator, generator)]
    for _ in range(steps):
        some = torch.randperm(len(x))[:BATCH]
        m, hinted = mask[some], mask[some] * (torch.rand_like(mask[some]) < HINT_RATE)
        said = generator(read := _noisy(x[some], m))
        rows = read[:, : x.shape[1]]
        judged = discriminator(torch.cat([rows * m + said.detach() * (1 - m), hinted], dim=1))
        right = m * torch.log(judged + _TINY) + (1 - m) * torch.log(1 - judged + _TINY)
        _move(movers[0], -right.mean())
        judged = discriminator(torch.cat([rows * m + said * (1 - m), hinted], dim=1))
        squares = ((m * (rows - said)) ** 2).mean() / m.mean()
        _move(movers[1], ALPHA * squares - ((1 - m) * torch.log(judged + _TINY)).mean())
    return generator


def _network(width: int) -> nn.Sequential:
    layers = [nn.Linear(2 * width, width), nn.Linear(width, width), nn.Linear(width, width)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=(2 / layer.in_features) ** 0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.Sigmoid())


def _noisy(x: Tensor, mask: Tensor) -> Tensor:
    """Rows with noise in the missing cells, and the mask beside them."""
    return torch.cat([mask * x + (1 - mask) * NOISE * torch.rand_like(x), mask], dim=1)


def _move(mover: torch.optim.Optimizer, loss: Tensor) -> None:
    mover.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    mover.step()


def _tensor(x: NDArray[np.generic]) -> Tensor:
    return torch.as_tensor(np.asarray(x, dtype=np.float32))
