"""`vsae bench ablation`: the default recipe with one ingredient changed at a time, on several tables.

One run trains an ensemble as one computation; its row holds the error of every member alone (members are seeds) and of
their average. A row that is there is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsae.atomic import write_text
from vsae.benchmark import data
from vsae.config import VSAEConfig
from vsae.fitting import fit
from vsae.imputation import FittedVSAE
from vsae.missingness import by_name
from vsae.nets import NetShape

TABLES = ("breast_cancer", "whitewine", "yeast", "concrete", "mushroom", "phishing", "german_credit", "adult")
MEMBERS = 4

BASE = VSAEConfig(variance="cell", select=False, refit=0.0)
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "no matching": {"match": 0.0},
    "matching 1": {"match": 1.0},
    "variance per column": {"variance": "column"},
    "variance mixed": {"variance": "mixed"},
    "plain features": {"features": "plain"},
    "mixed": {"variance": "mixed"},
    "mixed, select": {"variance": "mixed", "select": True},
    "mixed, select, refit": {"variance": "mixed", "select": True, "refit": 0.2},
    "mixed, select, refit half": {"variance": "mixed", "select": True, "refit": 0.5},
    "mixed, refit": {"variance": "mixed", "refit": 0.2},
    "mixed, select, refit, patience 20": {"variance": "mixed", "select": True, "refit": 0.2, "patience": 20},
    "mixed, select, refit, 3000 steps": {
        "variance": "mixed",
        "select": True,
        "refit": 0.2,
        "patience": 20,
        "steps": 3000,
    },
    "8 mixed, select, refit": {"variance": "mixed", "select": True, "refit": 0.2, "members": 8},
    "no re-masking": {"remask": (0.0, 0.0)},
    "re-mask .3": {"remask": (0.3, 0.3)},
    "re-mask 0-.8": {"remask": (0.0, 0.8)},
    "re-mask half the rows": {"remask_rows": 0.5},
    "KL .1": {"kl_visible": 0.1, "kl_hidden": 0.1},
    "KL .005": {"kl_visible": 0.005, "kl_hidden": 0.005},
    "KL 1": {"kl_visible": 1.0, "kl_hidden": 1.0},
    "no mask model": {"mask_modelling": False},
    "given mask into the decoders": {"decoder_mask": "given", "imputation_mask": "given"},
    "no dropout": {"collective": NetShape(256, 2, True, 0.0)},
    "dropout .2": {"collective": NetShape(256, 2, True, 0.2)},
    "plain networks": {"collective": NetShape(256, 2), "data_net": NetShape(256, 2)},
    "half width": {"collective": NetShape(128, 2, True, 0.1), "data_net": NetShape(128, 1, True)},
    "double width": {"collective": NetShape(512, 2, True, 0.1), "data_net": NetShape(512, 1, True)},
    "latent 4": {"latent_dim": 4},
    "latent 16": {"latent_dim": 16},
    "weight decay .01": {"weight_decay": 0.01},
    "learning rate 1e-3": {"learning_rate": 1e-3},
    "learning rate 4e-3": {"learning_rate": 4e-3},
    "3000 steps": {"steps": 3000, "patience": 20},
    "held-out rows": {"validation": "rows"},
    "no early stopping": {"validation_share": 0.0},
    "no early stopping, mixed": {"validation_share": 0.0, "variance": "mixed"},
    "no early stopping, 3000 steps": {"validation_share": 0.0, "steps": 3000},
    "no early stopping, 800 steps": {"validation_share": 0.0, "steps": 800},
    "no early stopping, mixed, latent 4, half width, 800 steps": {
        "validation_share": 0.0,
        "variance": "mixed",
        "latent_dim": 4,
        "collective": NetShape(128, 2, True, 0.1),
        "data_net": NetShape(128, 1, True),
        "steps": 800,
    },
    "no early stopping, mixed, matching .1": {"validation_share": 0.0, "variance": "mixed", "match": 0.1},
    "no early stopping, mixed, batch 256": {"validation_share": 0.0, "variance": "mixed", "batch_size": 256},
    "no early stopping, mixed, dropout .2": {
        "validation_share": 0.0,
        "variance": "mixed",
        "collective": NetShape(256, 2, True, 0.2),
        "data_net": NetShape(256, 1, True, 0.1),
    },
    "no early stopping, mixed, hidden mask loss": {
        "validation_share": 0.0,
        "variance": "mixed",
        "decoder_mask": "given",
        "imputation_mask": "given",
    },
    "E step": {"e_step_samples": 20, "e_step_warmup": 5},
}


def run_one(table: str, variant: str, mechanism: str, rate: float, seed: int, device: str | None) -> dict[str, Any]:
    rows = data.load(table)
    mask = rows.hide(by_name(mechanism, rate), np.random.default_rng(seed))
    config = BASE.replace(**{"members": MEMBERS, **VARIANTS[variant]})
    began = time.perf_counter()
    fitted = fit(rows.schema, rows.columns, mask, config, seed=seed, device=device)
    seconds = time.perf_counter() - began
    singles = (FittedVSAE(fitted.model.take_members([e]), fitted.encoding) for e in range(fitted.model.config.members))
    alone = [data.errors(rows, mask, member.impute(rows.columns, mask)) for member in singles]
    together = data.errors(rows, mask, fitted.impute(rows.columns, mask))
    return {
        "table": table, "variant": variant, "mechanism": mechanism, "rate": rate, "seed": seed, "seconds": seconds,
        "machine": f"torch {torch.__version__}, {fitted.device.type}, python {platform.python_version()}",
        "config": config.to_json(), "best_step": fitted.history.best_step, "alone": alone, "together": together,
    }  # fmt: skip


def run(
    out: Path, tables: Iterable[str], variants: Iterable[str], seeds: Iterable[int], mechanism: str, rate: float,
    device: str | None, jobs: int, report: Callable[[str], None],
) -> None:  # fmt: skip
    """Every combination that has no row yet, `jobs` processes at a time."""
    out.mkdir(parents=True, exist_ok=True)

    def one(job: tuple[str, str, int]) -> str:
        table, variant, seed = job
        path = out / f"{table}-{mechanism}{rate}-{variant.replace(' ', '_')}-seed{seed}.json"
        if path.exists():
            return f"{path.name}: there"
        command = [sys.executable, "-m", "vsae.benchmark.ablation", table, variant, mechanism, str(rate), str(seed)]
        done = subprocess.run([*command, device or ""], capture_output=True, text=True)
        if done.returncode:
            return f"{path.name}: FAILED: {done.stderr.strip().splitlines()[-1]}"
        write_text(path, done.stdout)
        row = json.loads(done.stdout)
        return f"{path.name}: {row['together']} in {row['seconds']:.0f} s"

    with ThreadPoolExecutor(jobs) as pool:
        for line in pool.map(one, itertools.product(tables, variants, seeds)):
            report(line)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m vsae.benchmark ablation", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/ablation"))
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=data.NAMES)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=(0,))
    parser.add_argument("--mechanism", default="mcar")
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--device")
    parser.add_argument("--jobs", type=int, default=1)
    o = parser.parse_args(arguments)
    report = lambda line: print(line, flush=True)  # noqa: E731
    run(o.out, o.tables, o.variants, o.seeds, o.mechanism, o.rate, o.device, o.jobs, report)


if __name__ == "__main__":  # one run, in a process of its own
    torch.set_num_threads(1)
    table, variant, mechanism, rate, seed, device = sys.argv[1:]
    print(json.dumps(run_one(table, variant, mechanism, float(rate), int(seed), device or None), indent=1))
