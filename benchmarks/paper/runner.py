"""`vsae bench paper`: the paper's tables and figures, run by run; one JSON row each, under results/paper.

A run is one table, one mechanism, one method, one seed: rows split 4 : 1, fitted on the first part, scored on the
hidden cells of the other (and in sample). Splits and masks vary with the seed. A row that is there is not computed
again. Multi-modal sets come with their own split, and have rows of another form: see multimodal.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import data
from benchmarks.digits import digit_reader
from benchmarks.paper import multimodal
from benchmarks.paper.methods import ABLATIONS, CHAINS, DEFAULT, METHODS, PAPER, run_method
from benchmarks.peers.grid import TaskData
from vsae import __version__
from vsae.storage.atomic import write_text

UNIQUE = "phishing_unique"  # nearly half of the rows of phishing are copies of others: here, each stands once
TABLES = ("phishing", "mushroom", "yeast", "whitewine", "heart")
NUMERIC = ("yeast", "whitewine")
DATA_SETS = (*TABLES, UNIQUE, *multimodal.SETS)
SEEDS = (0, 1, 2)
_FAILED = "FAILED"
RATES = (0.3, 0.5, 0.7)
MECHANISMS = (("paper-mar", 0.0), ("paper-nmar", 0.0), ("mar", 0.5), ("nmar", 0.5))  # the paper's, and strong ones


@dataclass(frozen=True)
class Experiment:
    table: str
    mechanism: str
    rate: float  # 0 for the paper's mechanisms, whose rate follows from the data

    @property
    def name(self) -> str:
        """
        >>> Experiment("yeast", "paper-mar", 0.0).name, Experiment("yeast", "mcar", 0.5).name
        ('yeast-paper-mar', 'yeast-mcar0.5')
        """
        return f"{self.table}-{mechanism_name(self.mechanism, self.rate)}"

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
        if name != "mosi" or method not in multimodal.ONLY_PICTURES
    ],
}


@dataclass(frozen=True)
class Runner:
    out: Path = Path("results/paper")
    device: str | None = None
    again: bool = False

    def path(self, experiment: Experiment, method: str, seed: int) -> Path:
        slug = re.sub(r"[^\w.-]+", "_", method.replace(": ", "--"))
        folder = self.out / "multimodal" if experiment.table in multimodal.SETS else self.out
        return folder / f"{experiment.name}-{slug}-seed{seed}.json"

    def one(self, experiment: Experiment, method: str, seeds: Sequence[int]) -> Iterator[str]:
        """The seeds that have no row yet, in a process of their own; a line about each."""
        wanted = [s for s in seeds if self.again or not self.path(experiment, method, s).exists()]
        if wanted:
            job = json.dumps([asdict(experiment), method, wanted, self.device])
            command = [sys.executable, "-m", "benchmarks.paper.runner", job]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                complaint = (done.stderr.strip().splitlines() or ["?"])[-1]
                yield f"{experiment.name} {method}: {_FAILED}: {complaint}"
                return
            for row in json.loads(done.stdout):
                path = self.path(experiment, method, row["seed"])
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps(row, indent=1) + "\n")
        for seed in seeds:
            row = json.loads(self.path(experiment, method, seed).read_text())
            yield line(row) + ("" if seed in wanted else " (there)")


def rows_of(experiment: Experiment, method: str, seeds: Sequence[int], device: str | None, **changes: Any) -> list[Any]:
    """The JSON rows of one method on the seeds of one experiment."""
    if experiment.table in multimodal.SETS:
        return _multimodal_rows(experiment, method, seeds, device, changes)
    tasks = [experiment.task(seed) for seed in seeds]
    outcomes = run_method(method, tasks, device, changes)
    machine = _machine("cpu" if method in CHAINS else device)
    return [
        {
            **asdict(experiment), "method": method, "seed": seed, "rows": len(task.train) + len(task.new),
            "in_sample": outcome.in_sample, "new_rows": outcome.new_rows, "seconds": outcome.seconds,
            "machine": machine, "version": __version__, **outcome.more,
        }
        for seed, task, outcome in zip(seeds, tasks, outcomes, strict=True)
    ]  # fmt: skip


def _multimodal_rows(
    experiment: Experiment, method: str, seeds: Sequence[int], device: str | None, changes: dict[str, Any]
) -> list[Any]:
    tasks = [multimodal.Task.of(experiment.table, experiment.rate, seed) for seed in seeds]
    outcomes = multimodal.run_method(method, tasks, device, changes)
    return [
        {
            **asdict(experiment), "method": method, "seed": seed, "rows": len(task.train) + len(task.test),
            "errors": outcome.errors, "seconds": outcome.seconds, "machine": _machine(device), "version": __version__,
            **outcome.more,
        }
        for seed, task, outcome in zip(seeds, tasks, outcomes, strict=True)
    ]  # fmt: skip


def _machine(device: str | None) -> str:
    used = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return f"torch {torch.__version__}, {used}, python {platform.python_version()}, {os.cpu_count()} cores"


def line(row: dict[str, Any]) -> str:
    if row["table"] in multimodal.SETS:
        return multimodal.line(row)
    errors = ", ".join(
        f"{name.upper()} {row['new_rows'][name]:.4f} (trivial {row['new_rows'][name + '_trivial']:.4f})"
        for name in ("nrmse", "pfc")
        if name in row["new_rows"]
    )
    mechanism = mechanism_name(row["mechanism"], row["rate"])
    return f"{row['table']:<15} {mechanism:<10} seed {row['seed']} {row['method']:<16} {errors}; {row['seconds']:.0f} s"


def run(
    runner: Runner, plan: Iterable[tuple[Experiment, str]], seeds: Sequence[int], jobs: int = 1,
    report: Callable[[str], None] = print,
) -> None:  # fmt: skip
    plan = list(plan)
    if any(experiment.table == "mnist+mnist" for experiment, _ in plan):  # the judge, before many would train one each
        device = runner.device or ("cuda" if torch.cuda.is_available() else "cpu")
        report(f"digit reader: {digit_reader(device)[1]:.2%} of the test images read right")
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for lines in pool.map(lambda job: list(runner.one(job[0], job[1], seeds)), plan):
            for text in lines:
                report(text)
                failed += _FAILED in text
    if failed:
        raise ValueError(f"{failed} of {len(plan)} runs failed, as said above; the others have their rows")


def _some(names: Sequence[str], most: int = 12) -> str:
    """
    >>> _some("abc"), _some("abcdef", most=3)
    ('a, b, c', 'a, b, c and 3 more')
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def plan_of(wanted: Sequence[str], methods: Sequence[str] | None = None, tables: Sequence[str] | None = None) -> Plan:
    """What some tables of the paper take, narrowed to some methods and data sets; nothing twice."""
    known = tuple(dict.fromkeys((*METHODS, *ABLATIONS, *multimodal.METHODS)))
    for what, names, there in (
        ("table of the paper", wanted, tuple(PLANS)),
        ("method", methods or (), known),
        ("data set", tables or (), DATA_SETS),
    ):
        if unknown := [name for name in names if name not in there]:
            raise ValueError(f"there is no {what} {', '.join(unknown)}; there are {_some(there)}")
    plan = dict.fromkeys(job for table in wanted for job in PLANS[table])
    return [
        (experiment, method)
        for experiment, method in plan
        if (not methods or method in methods) and (not tables or experiment.table in tables)
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks paper", description=__doc__)
    parser.add_argument("--table", nargs="+", default=["mcar"], choices=list(PLANS), help="of the paper")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help=f"of {', '.join((*METHODS, *ABLATIONS))}")
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, help="data sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=Path, default=Runner.out)
    parser.add_argument("--device")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    o = parser.parse_args(arguments)
    plan = plan_of(o.table, o.methods, o.data)
    try:
        run(Runner(o.out, o.device, o.force), plan, o.seeds, o.jobs, lambda text: print(text, flush=True))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":  # one job, in a process of its own
    torch.set_num_threads(1)
    where, name, some_seeds, where_to_run = json.loads(sys.argv[1])
    print(json.dumps(rows_of(Experiment(**where), name, some_seeds, where_to_run)))
