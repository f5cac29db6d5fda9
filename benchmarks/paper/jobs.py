"""The tables and figures of the paper, run by run.

A run is one table, one mechanism, one method, one seed: rows are split 4 : 1, fitted on the first part, and scored on
the hidden cells of the other (and in sample). Splits and masks vary with the seed. Multi-modal sets come with their own
split, and have rows of another form: see multimodal.py.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks import data, options
from benchmarks.paper import multimodal
from benchmarks.paper.digits import digit_classifier
from benchmarks.paper.methods import ABLATIONS, CHAINS, DEFAULT, METHODS, PAPER, run_method
from benchmarks.peers.grid import KEY, TaskData
from benchmarks.runs import Benchmark, Job, in_process, known
from benchmarks.store import Row
from vsae import __version__
from vsae.baselines import METHODS as REGISTRY

UNIQUE = "phishing_unique"  # nearly half of the rows of phishing are copies of others: here, each stands once
TABLES = ("phishing", "mushroom", "yeast", "whitewine", "heart")
NUMERIC = ("yeast", "whitewine")
DATA_SETS = (*TABLES, UNIQUE, *multimodal.SETS)
ALL_METHODS = tuple(dict.fromkeys((*METHODS, *ABLATIONS, *multimodal.METHODS)))
EVERY = "all"
NAMES = {name: method.label for name, method in REGISTRY.items()} | {"vsae": DEFAULT}  # as `method=` has them
SEEDS = (0, 1, 2)
RATES = (0.3, 0.5, 0.7)
MECHANISMS = (("paper-mar", 0.0), ("paper-nmar", 0.0), ("mar", 0.5), ("nmar", 0.5))  # the paper's, and strong ones


@dataclass(frozen=True)
class Experiment:
    table: str
    mechanism: str
    rate: float  # 0 for the paper's mechanisms, whose rate follows from the data

    def task(self, seed: int) -> TaskData:
        return TaskData.of(load(self.table), self.mechanism, self.rate, seed)


def mechanism_name(mechanism: str, rate: float) -> str:
    """
    >>> mechanism_name("paper-mar", 0.0), mechanism_name("mcar", 0.5)
    ('paper-mar', 'mcar0.5')
    """
    return f"{mechanism}{rate or ''}"


def load(table: str) -> data.Rows:
    """A whole table."""
    if table != UNIQUE:
        return data.load(table, None)
    rows = data.load("phishing", None)
    _, first = np.unique(rows.matrix(), axis=0, return_index=True)
    rows = rows.take(np.sort(first))
    return data.Rows(UNIQUE, rows.schema, rows.columns, rows.known)


Plan = list[tuple[Experiment, str]]
_MCAR = [Experiment(table, "mcar", 0.5) for table in (*TABLES, UNIQUE)]
_OTHERS = [Experiment(table, *how) for table in NUMERIC for how in MECHANISMS]
PLANS: dict[str, Plan] = {
    "mcar": [(e, method) for e in _MCAR for method in METHODS],
    "nonmcar": [(e, method) for e in _OTHERS for method in METHODS],
    "ratios": [(Experiment(t, "mcar", rate), method) for t in TABLES for rate in RATES for method in METHODS],
    "masks": [(e, PAPER) for e in [Experiment(t, "mcar", r) for t in TABLES for r in RATES] + _OTHERS]
    + [(e, DEFAULT) for e in [Experiment(t, "mcar", r) for t in TABLES for r in RATES] + _OTHERS],
    "ablation": [
        (Experiment(t, *how), method)
        for t in NUMERIC
        for how in (("mcar", 0.5), *MECHANISMS[:2])
        for method in (PAPER, DEFAULT, *ABLATIONS)
    ],
    "multimodal": [
        (Experiment(name, "mcar", rate), method)
        for name, rate in [
            ("mnist+mnist", 0.5),
            ("fashion", 0.5),
            ("mosi", 0.5),
            ("mnist+mnist", 0.3),
            ("mnist+mnist", 0.7),
        ]
        for method in multimodal.METHODS[::-1]  # the longest first
        if multimodal.means_something(method, name)
    ],
}


def measured(
    table: str, mechanism: str, rate: float, method: str, seed: int, device: str | None = None, **changes: Any
) -> Row:
    """The row of one run; `changes` to the settings of the method are for quick tests."""
    experiment = Experiment(table, mechanism, rate)
    if table in multimodal.SETS:
        task = multimodal.Task.of(table, rate, seed)
        outcome, rows = multimodal.run_method(method, task, device, changes), len(task.train) + len(task.test)
    else:
        split = experiment.task(seed)
        outcome, rows = run_method(method, split, device, changes), len(split.train) + len(split.new)
    return {
        **asdict(experiment), "method": method, "seed": seed, "rows": rows,
        "machine": _machine("cpu" if method in CHAINS else device), "version": __version__, **outcome,
    }  # fmt: skip


def _machine(device: str | None) -> str:
    return f"torch {torch.__version__}, {_found(device)}, python {platform.python_version()}, {os.cpu_count()} cores"


def _found(device: str | None) -> str:
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def in_words(row: Row) -> str:
    errors = ", ".join(
        f"{name.upper()} {row['new_rows'][name]:.4f} (trivial {row['new_rows'][name + '_trivial']:.4f})"
        for name in ("nrmse", "pfc")
        if name in row["new_rows"]
    )
    return f"{errors}; {row['seconds']:.0f} s"


BENCHMARK = Benchmark("paper", KEY, in_process(__name__), in_words, split="table")
MULTIMODAL = replace(BENCHMARK, name="multimodal", in_words=multimodal.in_words, split=None)


def plan_of(wanted: Sequence[str], methods: Sequence[str] | None = None, tables: Sequence[str] | None = None) -> Plan:
    """What some tables of the paper take, narrowed to some methods and data sets; nothing twice."""
    known(wanted, PLANS, "table of the paper")
    known(methods or (), ALL_METHODS, "method")
    known(tables or (), DATA_SETS, "data set")
    plan = dict.fromkeys(job for table in wanted for job in PLANS[table])
    return [
        (experiment, method)
        for experiment, method in plan
        if (not methods or method in methods) and (not tables or experiment.table in tables)
    ]


def labels(methods: Sequence[str] | None) -> list[str] | None:
    """
    >>> labels(["miwae", "VSAE"]), labels(["all"])
    (['MIWAE', 'VSAE'], None)
    """
    return None if not methods or EVERY in methods else [NAMES.get(name, name) for name in methods]


def jobs_of(plan: Plan, seeds: Sequence[int], device: str | None = None) -> list[Job]:
    return [{**asdict(e), "method": method, "seed": seed, "device": device} for e, method in plan for seed in seeds]


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("paper", __doc__)
    options.several(parser, "--table", "The tables of the paper. Default: mcar.", PLANS)
    options.several(parser, "--methods", "The methods. Default: all.", (EVERY, *ALL_METHODS, *NAMES))
    options.several(parser, "--data", "The data sets. Default: all that a table has.", DATA_SETS)
    options.several(parser, "--seeds", "The seeds of splits and masks. Default: 0 1 2.", type=int, metavar="SEED")
    options.add_device(parser)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    jobs = jobs_of(plan_of(o.table or ["mcar"], labels(o.methods), o.data), o.seeds or SEEDS, o.device)
    print("methods:", ", ".join(dict.fromkeys(job["method"] for job in jobs)), flush=True)
    of_modalities = [job for job in jobs if job["table"] in multimodal.SETS]
    if any(job["table"] == "mnist+mnist" for job in of_modalities):  # the judge, before many would train one each
        _, accuracy = digit_classifier(_found(o.device))
        print(f"digit classifier: right on {accuracy:.2%} of the test images", flush=True)
    options.run_with(o, BENCHMARK, [job for job in jobs if job["table"] not in multimodal.SETS])
    if of_modalities:
        o.out = MULTIMODAL.store(o.out.parent).path
        options.run_with(o, MULTIMODAL, of_modalities)
