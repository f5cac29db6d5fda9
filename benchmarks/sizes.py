"""`vsae bench sizes`: the default on small, wide and long tables, each fitted without a setting of its own.

Rows are simulated: a few factors behind all columns, numbers and levels in turn. Each table is fitted and filled in
a process of its own, on one thread. One table becomes one JSON row.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from benchmarks import data
from benchmarks.scaling import peak_bytes
from vsae.data.missingness import MCAR
from vsae.data.schema import Schema, categorical, real
from vsae.fitting.fit import fit
from vsae.fitting.presets import Effort, config_for
from vsae.storage.atomic import write_text

Shape = tuple[int, int]  # rows, columns

SHAPES: tuple[Shape, ...] = ((50, 10), (100, 1000), (5000, 15), (100_000, 30), (1_000_000, 10))
OUT = Path("results/sizes")
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


def run_one(rows: int, columns: int, effort: Effort) -> dict[str, Any]:
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


def run(out: Path, shapes: Iterable[Shape], effort: str, force: bool, report: Callable[[str], None]) -> None:
    """Every table that has no row yet, one after the other: its seconds are its own."""
    for rows, columns in shapes:
        path = out / f"{rows}x{columns}-{effort}.json"
        if force or not path.exists():
            command = [sys.executable, "-m", "benchmarks.sizes", str(rows), str(columns), effort]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{rows} × {columns} failed: {done.stderr.strip().splitlines()[-1]}")
            out.mkdir(parents=True, exist_ok=True)
            write_text(path, done.stdout)
        report(line(json.loads(path.read_text())))


def line(row: dict[str, Any]) -> str:
    errors = ", ".join(
        f"{m.upper()} {row['errors'][m]:.3f} ({row['errors'][m + '_trivial']:.3f})" for m in measures(row)
    )
    return (
        f"{row['rows']:,} × {row['columns']:,}, {row['effort']}: {errors}; fitted in {row['fit_seconds']:.0f} s "
        f"({row['members']} members, {row['steps']} steps), filled in {row['impute_seconds']:.1f} s, "
        f"{row['memory_mb']:.0f} MB"
    )


def measures(row: dict[str, Any]) -> list[str]:
    return [m for m in ("nrmse", "pfc") if m in row["errors"]]


def shape_of(text: str) -> Shape:
    """
    >>> shape_of("100x1000")
    (100, 1000)
    """
    rows, _, columns = text.partition("x")
    if not (rows.isdigit() and columns.isdigit()):
        raise ValueError(f"a shape is ROWSxCOLUMNS, such as 100x1000, not {text!r}")
    return int(rows), int(columns)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sizes", description=__doc__)
    parser.add_argument("--shapes", nargs="+", type=shape_of, default=SHAPES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--effort", default="default", choices=get_args(Effort))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--force", action="store_true", help="run again what is there")
    o = parser.parse_args(arguments)
    run(o.out, o.shapes, o.effort, o.force, lambda text: print(text, flush=True))


if __name__ == "__main__":  # one table, in a process of its own
    torch.set_num_threads(1)
    print(json.dumps(run_one(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]), indent=1))  # type: ignore[arg-type]
