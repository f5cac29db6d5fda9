"""Tables of any size whose columns depend on each other: straight, bent, and by regions; numbers and levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from vsae import Schema
from vsae.data.schema import categorical, real

_FACTORS, _NOISE = 3, 0.25


def made(rows: int, columns: int, seed: int = 0) -> data.Rows:
    """Three factors behind all columns, in turn: a sum of them, a sum cut in three, a wave of a sum, and a quarter.

    >>> [variable.size for variable in made(100, 4).schema.variables]
    [1, 3, 1, 4]
    """
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(rows, _FACTORS))
    table, attributes = {}, []
    for j in range(columns):
        name = f"x{j}"
        first, second = _sums(factors, rng)
        match j % 4:
            case 0:
                table[name] = first
            case 1:
                table[name] = np.searchsorted(np.quantile(first, [1 / 3, 2 / 3]), first)
            case 2:
                table[name] = np.sin(2 * first) + second**2
            case 3:
                table[name] = 2 * (first > 0) + (second > 0)
        attributes.append(real(name) if table[name].dtype.kind == "f" else categorical(name, 3 + j % 4 // 3))
    return data.Rows(f"{rows}x{columns}", Schema(attributes), table, np.ones((rows, columns), dtype=bool))


def _sums(factors: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(2, n) weighted sums of the factors, with noise, of variance about one."""
    weights = rng.normal(size=(2, _FACTORS)) / _FACTORS**0.5
    return weights @ factors.T + _NOISE * rng.normal(size=(2, len(factors)))
