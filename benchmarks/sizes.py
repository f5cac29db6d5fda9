"""The default on small, wide and long tables, each fitted without a setting of its own.

Rows are simulated: a few factors behind all columns, numbers and levels in turn. Each table is fitted and filled in
a process of its own, on one thread.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from typing import get_args

import numpy as np
import torch

from benchmarks import data, options
from benchmarks.runs import Benchmark, errors_in_words, in_process
from benchmarks.scaling import peak_bytes
from benchmarks.store import Row
from vsae import Schema, fit
from vsae.data.missingness import MCAR
from vsae.data.schema import categorical, real
from vsae.fitting.presets import Effort, config_for

Shape = tuple[int, int]  # rows, columns

SHAPES: tuple[Shape, ...] = ((50, 10), (100, 1000), (5000, 15), (100_000, 30), (1_000_000, 10))
_FACTORS, _NOISE, _LEVELS = 3, 0.5, 3
HIDDEN = 0.3


def simulated(rows: int, columns: int, seed: int = 0) -> data.Rows:
    """Numbers are sums of the factors and noise; levels are thirds of such sums."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(rows, _FACTORS)).astype(np.float32)
    table, attributes = {}, []
    for j in range(columns):
        x = factors @ rng.normal(size=_FACTORS).astype(np.float32) / _FACTORS**0.5 + _NOISE * rng.normal(size=rows)
        name = f"x{j}"
        if j % 2:
            table[name] = np.searchsorted(np.quantile(x, [1 / 3, 2 / 3]), x)
            attributes.append(categorical(name, _LEVELS))
        else:
            table[name] = x
            attributes.append(real(name))
    return data.Rows(f"{rows}x{columns}", Schema(attributes), table, np.ones((rows, columns), dtype=bool))


def measured(rows: int, columns: int, effort: Effort) -> Row:
    table = simulated(rows, columns)
    mask = table.hide(MCAR(HIDDEN), np.random.default_rng(1))
    config = config_for(table.schema, rows, effort)
    began = time.perf_counter()
    fitted = fit(table.schema, table.columns, mask, config)
    fitted_at = time.perf_counter()
    filled = fitted.impute(table.columns, mask)
    return {
        "rows": rows, "columns": columns, "effort": effort, "members": config.members, "steps": config.steps,
        "best_step": fitted.history.best_step, "fit_seconds": fitted_at - began,
        "impute_seconds": time.perf_counter() - fitted_at, "memory_mb": peak_bytes("cpu") / 2**20,
        "errors": data.errors(table, mask, filled),
        "machine": f"torch {torch.__version__}, {platform.machine()}, 1 thread, python {platform.python_version()}",
    }  # fmt: skip


def in_words(row: Row) -> str:
    return (
        f"{errors_in_words(row['errors'])}; fitted in {row['fit_seconds']:.0f} s ({row['members']} members, "
        f"{row['steps']} steps), filled in {row['impute_seconds']:.1f} s, {row['memory_mb']:.0f} MB"
    )


BENCHMARK = Benchmark("sizes", ("rows", "columns", "effort"), in_process(__name__), in_words)


def shape_of(text: str) -> Shape:
    """
    >>> shape_of("100x1000")
    (100, 1000)
    """
    rows, _, columns = text.partition("x")
    if not (rows.isdigit() and columns.isdigit()):
        raise ValueError(f"a shape is ROWSxCOLUMNS, such as 100x1000, not {text!r}")
    return int(rows), int(columns)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("sizes", __doc__)
    default = " ".join(f"{rows}x{columns}" for rows, columns in SHAPES)
    sentence = f"The sizes of the tables. Default: {default}."
    options.several(parser, "--shapes", sentence, type=options.usage(shape_of), metavar="ROWSxCOLUMNS")
    parser.add_argument("--effort", default="default", choices=get_args(Effort), help="The effort of the fit.")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    jobs = [{"rows": rows, "columns": columns, "effort": o.effort} for rows, columns in o.shapes or SHAPES]
    options.run_with(o, BENCHMARK, jobs)
