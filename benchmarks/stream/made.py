"""Simulated tables of any number of rows, made and written piece by piece: factors behind numbers and levels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Rows
from vsae import Schema
from vsae.data.schema import categorical, real

HIDDEN = 0.3
_FACTORS, _NOISE, _PIECE = 3, 0.5, 100_000
_THIRDS = (-0.4307, 0.4307)  # of a standard normal


def columns_of(rows: int, columns: int, piece: int) -> dict[str, NDArray[np.float64]]:
    """One piece: numbers are sums of factors and noise; every other column has the thirds of such sums as levels."""
    loadings = np.random.default_rng([25, columns]).normal(size=(_FACTORS, columns)) / _FACTORS**0.5
    rng = np.random.default_rng([25, piece])
    x = rng.normal(size=(rows, _FACTORS)) @ loadings + _NOISE * rng.normal(size=(rows, columns))
    x /= np.sqrt((loadings**2).sum(axis=0) + _NOISE**2)
    return {f"x{j}": np.searchsorted(_THIRDS, x[:, j]).astype(float) if j % 2 else x[:, j] for j in range(columns)}


def mask_of(rows: int, columns: int, piece: int) -> NDArray[np.bool_]:
    """(rows, columns), True = observed."""
    return np.random.default_rng([26, piece]).random((rows, columns)) >= HIDDEN


def table(rows: int, columns: int, piece: int = 0) -> Rows:
    """A piece with all its cells, in memory."""
    values = columns_of(rows, columns, piece)
    kinds = [categorical(name, 3) if j % 2 else real(name) for j, name in enumerate(values)]
    cells = {name: x.astype(np.int64) if j % 2 else x for j, (name, x) in enumerate(values.items())}
    return Rows(f"{rows}x{columns}", Schema(kinds), cells, np.ones((rows, columns), dtype=bool))


def write(path: Path, rows: int, columns: int) -> None:
    """A Parquet file; levels are texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for piece, start in enumerate(range(0, rows, _PIECE)):
        n = min(_PIECE, rows - start)
        mask = mask_of(n, columns, piece)
        arrays = {}
        for j, (name, x) in enumerate(columns_of(n, columns, piece).items()):
            values = np.array(list("abc"), dtype=object)[x.astype(int)] if j % 2 else x
            arrays[name] = pa.array(values, mask=~mask[:, j])
        made = pa.table(arrays)
        writer = writer or pq.ParquetWriter(path, made.schema)
        writer.write_table(made)
    assert writer is not None
    writer.close()
