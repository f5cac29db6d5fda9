"""`vsae bench paper`: the literal preset on the paper's five tables, to the end of its training.

One run is one table, one missing rate, one seed: fit on 4/5 of the rows, score on the hidden cells of the others, and
sample masks from the prior. Each run becomes one JSON row; a row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vsae.atomic import write_text
from vsae.config import VSAEConfig
from vsae.datasets import UCITable, load_table
from vsae.fitting import fit
from vsae.metrics import mean_mode, nrmse, pfc
from vsae.missingness import MCAR
from vsae.schema import DISCRETE

TABLES = ("whitewine", "yeast", "heart", "mushroom", "phishing")
RATES = (0.3, 0.5, 0.7)
SAMPLED_MASKS = 10_000


def run_one(table: str, rate: float, seed: int, device: str | None = None, **changes: Any) -> dict[str, Any]:
    """Fit, impute the held-out rows, sample masks; everything worth keeping of one run."""
    config = VSAEConfig.paper(**changes)
    data = load_table(table)
    rng = np.random.default_rng(seed)
    mask = data.mask & MCAR(rate).sample(np.zeros(data.mask.shape), rng)
    order = rng.permutation(len(mask))
    test, train = np.split(order, [len(order) // 5])
    fit_columns, test_columns = ({name: x[rows] for name, x in data.columns.items()} for rows in (train, test))
    began = time.perf_counter()
    fitted = fit(data.schema, fit_columns, mask[train], config, seed=seed, device=device)
    seconds = time.perf_counter() - began
    filled = fitted.impute(test_columns, mask[test])
    sampled = fitted.generate_masks(SAMPLED_MASKS, seed=seed)
    records = fitted.history.records
    terms = ("x_observed", "x_unobserved", "mask", "kl")
    return {
        "table": table,
        "rate": rate,
        "seed": seed,
        "config": config.to_json(),
        "seconds": seconds,
        "machine": f"torch {torch.__version__}, {fitted.device.type}, python {platform.python_version()}",
        "epochs": records[-1]["epoch"],
        "stopped": fitted.history.stopped,
        "finite": bool(np.isfinite([record[term] for record in records for term in terms]).all()),
        "last_terms": {term: records[-1][term][0] for term in terms},
        "missing": float(1 - mask.mean()),
        "missing_sampled": float(1 - sampled.mean()),
    } | _errors(data, train, test, mask, filled)


def _errors(
    data: UCITable, train: NDArray[Any], test: NDArray[Any], mask: NDArray[np.bool_], filled: dict[str, NDArray[Any]]
) -> dict[str, float]:
    """NRMSE of the numbers and PFC of the levels on the test rows' hidden cells, and the mean's and mode's."""
    out = {}
    for measure, wanted, score in (("nrmse", False, nrmse), ("pfc", True, pfc)):
        names = [v.name for v in data.schema.variables if (v.family in DISCRETE) == wanted]
        if not names:
            continue
        at = [data.schema.attribute_of[name] for name in names]
        x = np.stack([data.columns[name] for name in names], axis=1).astype(float)
        ours = np.stack([filled[name] for name in names], axis=1).astype(float)
        known = data.mask[test][:, at]  # a cell that was never known cannot be scored
        hidden = mask[test][:, at] | ~known
        centre = mean_mode(np.nan_to_num(x[train]), mask[train][:, at], np.full(len(names), wanted))
        truth = np.where(known, x[test], 0.0)
        out[measure] = float(score(truth, np.where(hidden, truth, ours), hidden))
        out[f"{measure}_trivial"] = float(score(truth, np.where(hidden, truth, centre), hidden))
    return out


def run(
    out: Path,
    tables: Iterable[str] = TABLES,
    rates: Iterable[float] = RATES,
    seeds: Iterable[int] = (0,),
    device: str | None = None,
    report: Callable[[str], None] = print,
    **changes: Any,
) -> list[dict[str, Any]]:
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for table, rate, seed in itertools.product(tables, rates, seeds):
        path = out / f"{table}-mcar{rate}-seed{seed}.json"
        if not path.exists():
            write_text(path, json.dumps(run_one(table, rate, seed, device, **changes), indent=1) + "\n")
        rows.append(json.loads(path.read_text()))
        report(line(rows[-1]))
    return rows


def line(row: dict[str, Any]) -> str:
    errors = ", ".join(
        f"{name.upper()} {row[name]:.3f} (trivial {row[name + '_trivial']:.3f})"
        for name in ("nrmse", "pfc")
        if name in row
    )
    return (
        f"{row['table']:<10} MCAR {row['rate']}: {row['epochs']:.0f} epochs in {row['seconds']:.0f} s, "
        f"{row['stopped']}, terms {'finite' if row['finite'] else 'NOT FINITE'}; missing {row['missing']:.3f}, "
        f"in {SAMPLED_MASKS} sampled masks {row['missing_sampled']:.3f}; {errors}"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m vsae.benchmark paper", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/paper-preset"))
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0,))
    parser.add_argument("--device")
    options = parser.parse_args(arguments)
    run(options.out, options.tables, options.rates, options.seeds, options.device, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
