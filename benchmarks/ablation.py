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

from benchmarks import data
from vsae.data.missingness import by_name
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for
from vsae.model.config import NetShape
from vsae.storage.atomic import write_text

TABLES = ("breast_cancer", "concrete", "whitewine", "german_credit", "mushroom")
SEEDS = (21, 22)  # of masks and of members: two masks, four members each
WHOLE = "the default"

_PLAIN = {"collective": NetShape(96, 2), "data_net": NetShape(96, 2)}
VARIANTS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "no re-masking": {"remask": (0.0, 0.0)},
    "KL weight 1": {"kl_visible": 1.0, "kl_hidden": 1.0},
    "E step of the paper, 20 samples": {"e_step_samples": 20, "e_step_warmup": 5},
    "no linear guess": {"gaussian": False},
    "no matching of the proposals": {"match": 0.0},
    "no mask model": {"mask_modelling": False},
    "the mask counts as the paper has it": {"mask_weight": 1.0},
    "collective proposal for every attribute": {"proposal": "collective"},
    "one σ a cell in all members": {"variance": "cell"},
    "one σ a column in all members": {"variance": "column"},
    "plain number features": {"features": "plain"},
    "plain networks": _PLAIN,
    "two residual blocks": {"collective": NetShape(96, 2, residual=True)},
    "attributive networks with a hidden layer": {"attributive": NetShape(32, 1)},
    "proposals start at σ = 1": {"start_scale": 1.0},
    "every attribute hidden alike": {"remask_rates": "alike"},
    "latents of 8": {"latent_dim": 8},
    "no refit": {"refit": 0.0},
    "estimates trusted as they are": {"shrinkage": False},
    "nothing held out": {"validation_share": 0.0},
    "half the steps": {"steps_share": 0.5},
}


def run_one(
    table: str, variant: str, mechanism: str, rate: float, seed: int, device: str | None, whole: bool
) -> dict[str, Any]:
    rows = data.load(table, None) if whole else data.load(table)
    mask = rows.hide(by_name(mechanism, rate), np.random.default_rng(seed))
    changes = dict(VARIANTS[variant])
    config = config_for(rows.schema, len(rows))
    share = changes.pop("steps_share", 1.0)
    config = config.replace(steps=int(share * (config.steps or 1)), **changes)
    began = time.perf_counter()
    fitted = fit(rows.schema, rows.columns, mask, config, seed=seed, device=device)
    seconds = time.perf_counter() - began
    singles = (
        FittedVSAE(fitted.model.select_members([e]), fitted.encoding, trust=fitted.trust) for e in range(config.members)
    )
    alone = [data.errors(rows, mask, member.impute(rows.columns, mask)) for member in singles]
    together = data.errors(rows, mask, fitted.impute(rows.columns, mask))
    return {
        "table": table, "variant": variant, "mechanism": mechanism, "rate": rate, "seed": seed, "seconds": seconds,
        "machine": f"torch {torch.__version__}, {fitted.device.type}, python {platform.python_version()}",
        "rows": len(rows), "config": config.to_json(), "best_step": fitted.history.best_step,
        "alone": alone, "together": together,
    }  # fmt: skip


def run(
    out: Path, tables: Iterable[str], variants: Iterable[str], seeds: Iterable[int], mechanism: str, rate: float,
    device: str | None, whole: bool, jobs: int, report: Callable[[str], None],
) -> None:  # fmt: skip
    """Every combination that has no row yet, `jobs` processes at a time."""
    out.mkdir(parents=True, exist_ok=True)

    def one(job: tuple[str, str, int]) -> str:
        table, variant, seed = job
        path = out / f"{table}-{mechanism}{rate}-{variant.replace(' ', '_')}-seed{seed}.json"
        if path.exists():
            return f"{path.name}: there"
        command = [sys.executable, "-m", "benchmarks.ablation", table, variant, mechanism, str(rate), str(seed)]
        done = subprocess.run([*command, device or "", "whole" if whole else ""], capture_output=True, text=True)
        if done.returncode:
            return f"{path.name}: FAILED: {done.stderr.strip().splitlines()[-1]}"
        write_text(path, done.stdout)
        row = json.loads(done.stdout)
        return f"{path.name}: {row['together']} in {row['seconds']:.0f} s"

    with ThreadPoolExecutor(jobs) as pool:
        for line in pool.map(one, itertools.product(tables, variants, seeds)):
            report(line)


def folder(whole: bool) -> Path:
    return Path("results/whole" if whole else "results/ablation")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablation", description=__doc__)
    parser.add_argument("--out", type=Path, help="results/ablation, or results/whole")
    parser.add_argument("--whole", action="store_true", help="whole tables, not cut to 3,000 rows")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=data.NAMES)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--mechanism", default="mcar")
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--device")
    parser.add_argument("--jobs", type=int, default=1)
    o = parser.parse_args(arguments)
    report = lambda line: print(line, flush=True)  # noqa: E731
    run(o.out or folder(o.whole), o.tables, o.variants, o.seeds, o.mechanism, o.rate, o.device, o.whole, o.jobs, report)


if __name__ == "__main__":  # one run, in a process of its own
    torch.set_num_threads(1)
    table, variant, mechanism, rate, seed, device, whole = sys.argv[1:]
    row = run_one(table, variant, mechanism, float(rate), int(seed), device or None, whole == "whole")
    print(json.dumps(row, indent=1))
