"""Randomness that is asked for and nobody else's: the caller's global state is left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
    if device.type == "cuda":
        torch.cuda.set_rng_state(state.cpu(), device)
    else:
        torch.set_rng_state(state.cpu())


def generator(seed: int, stream: int, device: torch.device) -> torch.Generator:
    """A generator of its own for one piece of work; pieces with other `stream` numbers are independent."""
    mixed = (seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**63
    return torch.Generator(device).manual_seed(mixed)
