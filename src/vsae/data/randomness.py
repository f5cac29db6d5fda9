"""Randomness that is asked for and nobody else's: the caller's global state is left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # of SplitMix64, as signed words
_FINALISER = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


@contextmanager
def private_rng(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, torch's default generators start from `seed`; outside, they are untouched.

    >>> with private_rng(3, torch.device("cpu")):
    ...     first = torch.rand(1)
    >>> with private_rng(3, torch.device("cpu")):
    ...     print(bool(first == torch.rand(1)))
    True
    """
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every other device, too
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def rng_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: torch.device) -> None:
    """Nothing is changed by the state of another kind of device's generator."""
    if len(state) != len(rng_state(device)):
        return
    if device.type == "cuda":
        torch.cuda.set_rng_state(state.cpu(), device)
    else:
        torch.set_rng_state(state.cpu())


def keyed_uniform(seed: int, *keys: torch.Tensor) -> torch.Tensor:
    """Uniform numbers in (0, 1), float64, that depend on nothing but the seed and some keys, which are broadcast.

    The same cell of the same row of the same drawn table gets the same number, in whatever chunk and beside whatever
    rows it comes. Each key is mixed in by the finaliser of SplitMix64 (Steele et al. 2014).

    >>> row, column = torch.arange(2)[:, None], torch.arange(3)
    >>> u = keyed_uniform(0, row, column)
    >>> u.shape, bool((u[1] == keyed_uniform(0, torch.tensor([1])[:, None], column)).all())
    (torch.Size([2, 3]), True)
    """
    state = torch.tensor(seed % 2**62, dtype=torch.int64, device=keys[0].device)
    for key in keys:
        state = _mixed(state ^ _mixed(key.long() + _GOLDEN)) + _GOLDEN
    return ((_mixed(state) & (2**53 - 1)).double() + 0.5) / 2**53


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """A bijection of 64-bit words in which every bit depends on every bit; products wrap around."""
    for shift, factor in _FINALISER:
        x = (x ^ ((x >> shift) & (2 ** (64 - shift) - 1))) * factor
    return x ^ ((x >> 31) & (2**33 - 1))


def generator(seed: int, stream: int, device: torch.device) -> torch.Generator:
    """A generator of its own for one piece of work; pieces with other `stream` numbers are independent."""
    mixed = (seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**63
    return torch.Generator(device).manual_seed(mixed)
