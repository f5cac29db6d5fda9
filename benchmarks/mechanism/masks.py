"""The ways in which cells go missing, by name, and tables that are made for the gate."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from benchmarks import data
from vsae import Schema
from vsae.data.missingness import MCAR, LogisticMAR, LogisticNMAR, Mechanism, PartlyNMAR
from vsae.data.schema import categorical, real

HALF = "half"  # of the columns that miss cells mask themselves, the other half is MAR
_SHARE_OF_HALF = 0.375  # of all columns, as a quarter is always observed

_BY_NAME: dict[str, Callable[[float], Mechanism]] = {
    "mcar": MCAR,
    "mar": LogisticMAR,
    "mar-1": lambda rate: LogisticMAR(rate, strength=1.0),
    "nmar": LogisticNMAR,
    "nmar-1": lambda rate: LogisticNMAR(rate, strength=1.0),
    "nmar-4": lambda rate: LogisticNMAR(rate, strength=4.0),
    "nmar-tail": lambda rate: LogisticNMAR(rate, tail=True),
    "nmar-low": lambda rate: LogisticNMAR(rate, low=True),
}
#: Name → in words.
MECHANISMS = {
    "mcar": "MCAR",
    "mar": "MAR, slope 2",
    "mar-1": "MAR, slope 1",
    "nmar": "NMAR, slope 2",
    "nmar-1": "NMAR, slope 1",
    "nmar-4": "NMAR, slope 4",
    "nmar-tail": "NMAR, upper half only",
    "nmar-low": "NMAR, low values hide",
    HALF: "half NMAR, half MAR",
}


def mechanism_of(name: str, rate: float, rows: data.Rows, seed: int) -> Mechanism:
    if name == HALF:
        return PartlyNMAR(rate, self_masking_of(rows, seed))
    return _BY_NAME[name](rate)


def self_masking_of(rows: data.Rows, seed: int) -> tuple[int, ...]:
    """The variables that mask themselves where half of them do: the first one of an attribute speaks for it."""
    rng = np.random.default_rng([seed, zlib.crc32(rows.name.encode()), 1])
    first = {rows.schema.attribute_of[v.name]: j for j, v in reversed(list(enumerate(rows.schema.variables)))}
    chosen = rng.permutation(len(first))[: max(1, round(_SHARE_OF_HALF * len(first)))]
    return tuple(sorted(first[int(i)] for i in chosen))


# --- tables that are made

ROWS = 2000
Made = Callable[[np.random.Generator], np.ndarray]


def _factors(rng: np.random.Generator, number: int, columns: int, noise: float) -> np.ndarray:
    return rng.normal(size=(ROWS, number)) @ rng.normal(size=(number, columns)) + noise * rng.normal(
        size=(ROWS, columns)
    )


def _nonlinear(rng: np.random.Generator) -> np.ndarray:
    a, b = rng.normal(size=(2, ROWS))
    shapes = [a, b, a**2, np.sin(2 * b), a * b, np.abs(a + b), np.tanh(3 * a), np.exp(0.5 * b)]
    return np.stack(shapes, axis=1) + 0.3 * rng.normal(size=(ROWS, len(shapes)))


def _mixed(rng: np.random.Generator) -> np.ndarray:
    """The second half are levels: 2, 3 or 5 of them."""
    x = _factors(rng, 2, 12, 0.7)
    for j in range(6, 12):
        x[:, j] = np.digitize(x[:, j], np.quantile(x[:, j], np.arange(1, LEVELS[j]) / LEVELS[j]))
    return x


LEVELS = {j: (2, 3, 5)[j % 3] for j in range(6, 12)}  # of the table "mixed"
MADE: dict[str, Made] = {
    "factors": lambda rng: _factors(rng, 3, 12, 0.7),
    "one size": lambda rng: _factors(rng, 1, 10, 0.3),
    "independent": lambda rng: rng.normal(size=(ROWS, 10)),
    "mixed": _mixed,
    "skewed": lambda rng: np.exp(_factors(rng, 3, 10, 0.5) / 2),
    "nonlinear": _nonlinear,
}
TABLES = (*data.NAMES, *MADE)


def load(name: str) -> data.Rows:
    if name not in MADE:
        return data.load(name)
    x = MADE[name](np.random.default_rng(zlib.crc32(name.encode())))
    levels = LEVELS if name == "mixed" else {}
    schema = Schema([categorical(f"x{j}", levels[j]) if j in levels else real(f"x{j}") for j in range(x.shape[1])])
    columns = {f"x{j}": x[:, j].astype(np.int64) if j in levels else x[:, j] for j in range(x.shape[1])}
    return data.Rows(name, schema, columns, np.ones(x.shape, dtype=bool))
