"""The default recipe with one ingredient changed at a time, on several tables.

One run trains an ensemble as one computation; its row holds the error of every member alone (members are seeds) and of
their average.
"""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks import data, options
from benchmarks.runs import Benchmark, errors_in_words, in_process
from benchmarks.sharp import tables as sharp
from benchmarks.store import Row
from vsae import FittedVSAE, VSAEConfig, fit
from vsae.data.missingness import by_name
from vsae.fitting.presets import config_for

TABLES = ("breast_cancer", "concrete", "whitewine", "german_credit", "mushroom")
SHARP = ("regions-2000", "labels-2000", "integers-2000", "recipes-2000", "banknote")  # `--tables` of their section
SEEDS = (21, 22)  # of masks and of members: two masks, four members each
WHOLE = "the default"

_NETWORK = VSAEConfig().collective
_PLAIN = replace(_NETWORK, width=96, depth=2, residual=False)
VARIANTS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "no re-masking": {"remask": (0.0, 0.0)},
    "KL weight 1": {"kl_visible": 1.0, "kl_hidden": 1.0},
    "E step of the paper, 20 samples": {"e_step_samples": 20, "e_step_warmup": 5},
    "no Gaussian imputation": {"gaussian": False},
    "no matching of the proposals": {"match": 0.0},
    "no mask model": {"mask_modelling": False},
    "the mask counts as the paper has it": {"mask_weight": 1.0},
    "collective proposal for every attribute": {"proposal": "collective"},
    "one σ a cell in all members": {"variance": "cell"},
    "one σ a column in all members": {"variance": "column"},
    "plain number features": {"features": "plain"},
    "no embeddings of numbers that recur": {"recurring": 0},
    "plain networks": {"collective": _PLAIN, "data_net": _PLAIN},
    "two residual blocks": {"collective": replace(_PLAIN, residual=True)},
    "attributive networks with a hidden layer": {"attributive": replace(_PLAIN, width=32, depth=1)},
    "proposals start at σ = 1": {"start_scale": 1.0},
    "every attribute hidden alike": {"remask_rates": "alike"},
    "latents of 8": {"latent_dim": 8},
    "no forest": {"trees": 0},
    "no refit": {"refit": 0.0},
    "no shrinkage": {"shrinkage": False},
    "nothing held out": {"validation_share": 0.0},
    "half the steps": {"steps_share": 0.5},
}


def measured(table: str, variant: str, mechanism: str, rate: float, seed: int, device: str | None, whole: bool) -> Row:
    rows = sharp.load(table) if table in SHARP else data.load(table, None if whole else data.MOST_ROWS)
    mask = rows.hide(by_name(mechanism, rate), np.random.default_rng(seed))
    changes = dict(VARIANTS[variant])
    config = config_for(rows.schema, len(rows))
    share = changes.pop("steps_share", 1.0)
    config = config.replace(steps=int(share * (config.steps or 1)), **changes)
    began = time.perf_counter()
    fitted = fit(rows.schema, rows.columns, mask, config, seed=seed, device=device)
    seconds = time.perf_counter() - began
    singles = (
        FittedVSAE(fitted.model.select_members([e]), fitted.encoding, fitted.calibration) for e in range(config.members)
    )
    alone = [data.errors(rows, mask, member.impute(rows.columns, mask)) for member in singles]
    together = data.errors(rows, mask, fitted.impute(rows.columns, mask))
    return {
        "table": table, "variant": variant, "mechanism": mechanism, "rate": rate, "seed": seed, "seconds": seconds,
        "machine": f"torch {torch.__version__}, {fitted.device.type}, python {platform.python_version()}",
        "rows": len(rows), "settings": config.to_json(), "best_step": fitted.history.best_step,
        "alone": alone, "together": together,
    }  # fmt: skip


def in_words(row: Row) -> str:
    return f"{errors_in_words(row['together'])} in {row['seconds']:.0f} s"


BENCHMARK = Benchmark("ablation", ("table", "mechanism", "rate", "variant", "seed"), in_process(__name__), in_words)
WHOLE_TABLES = replace(BENCHMARK, name="whole")


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("ablation", __doc__)
    sentence = f"The tables to fit. Default: {', '.join(TABLES)}."
    options.several(parser, "--tables", sentence, (*data.NAMES, *SHARP))
    options.several(parser, "--variants", "The changes from the default. Default: all.", VARIANTS)
    options.several(parser, "--seeds", "The seeds of masks and members. Default: 21 22.", type=int, metavar="SEED")
    parser.add_argument("--mechanism", default="mcar", metavar="NAME", help="How cells go missing. Default: mcar.")
    parser.add_argument("--rate", type=float, default=0.5, help="The share of cells that go missing. Default: 0.5.")
    whole = f"Take whole tables, not cut to {data.MOST_ROWS:,} rows; the rows go to {WHOLE_TABLES.store().path}."
    parser.add_argument("--whole", action="store_true", help=whole)
    options.add_device(parser)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    benchmark = WHOLE_TABLES if o.whole else BENCHMARK
    if o.whole and o.out == BENCHMARK.store().path:
        o.out = benchmark.store().path
    shared = {"mechanism": o.mechanism, "rate": o.rate, "device": o.device, "whole": o.whole}
    chosen = itertools.product(o.tables or TABLES, o.variants or VARIANTS, o.seeds or SEEDS)
    jobs = [{"table": table, "variant": variant, "seed": seed, **shared} for table, variant, seed in chosen]
    options.run_with(o, benchmark, jobs)
