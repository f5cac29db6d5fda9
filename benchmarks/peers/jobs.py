"""Every imputer on every task: one process a run, under a time limit.

A row holds the errors in sample and on new rows, seconds and peak memory, or how the run failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import data, options
from benchmarks.peers.adapters.task import checked
from benchmarks.peers.grid import GRIDS, KEY, Task, TaskData, add_grid_options, grid_of, plan, unanswered
from benchmarks.processes import Method, Processes, r_with_mice, weights
from benchmarks.runs import Benchmark, Job, errors_in_words
from benchmarks.store import Row, Store
from vsae.baselines import METHODS as MODELS

#: Roughly from the cheapest to the dearest, the order in which they run.
METHODS: dict[str, Method] = {
    "mean/mode": Method(None, "naive.py"),
    "knn": Method(None, "chains.py", ("knn",)),
    "mice": Method(None, "chains.py", ("mice",)),
    "gcimpute": Method("gcimpute", "gcimpute_.py"),
    "boosting": Method(None, "chains.py", ("boosting",)),
    "vsae-fast": Method(None, "vsae_imputer.py", ("--effort", "fast")),
    "miceforest": Method("miceforest", "miceforest_.py"),
    "pylace": Method("pylace", "pylace_.py"),
    "midas2": Method("midas2", "midas2_.py"),
    "mice-pmm": Method(None, "mice_r.py", ("pmm",), r_with_mice),
    "vsae": Method(None, "vsae_imputer.py"),
    "missforest": Method(None, "chains.py", ("missforest",)),
    "mostlyai": Method("mostlyai", "mostlyai_.py"),
    "hyperimpute": Method("hyperimpute", "hyperimpute_.py"),
    "vsae-best": Method(None, "vsae_imputer.py", ("--effort", "best")),
    "mice-rf": Method(None, "mice_r.py", ("rf",), r_with_mice),
    "utrees": Method("utrees", "utrees_.py"),
    "forest-diffusion": Method("forest-diffusion", "forest_diffusion_.py"),
    "tabicl": Method("tabicl", "tabicl_.py", need=weights("VSAE_TABICL")),
    "tabpfn": Method("tabpfn", "tabpfn_.py", need=weights("VSAE_TABPFN")),
}

#: The other models of this library, by the names that `method=` has for them; they run where they are asked for.
FAMILY: dict[str, Method] = {name: Method(None, "vsae_imputer.py", ("--method", name)) for name in MODELS}
EVERY = METHODS | FAMILY

PRETRAINED = ("tabicl", "tabpfn")  # they run only where their weights are given


def measured(job: Job, processes: Processes) -> Row:
    rows = Task.of(job).make()
    return processes.answered(
        EVERY[job["method"]], blank(job, rows, processes), [rows.given()], lambda folder: scored(rows, folder)
    )


def blank(job: Job, rows: TaskData, processes: Processes) -> Row:
    """A row without an answer."""
    return unanswered(job, processes, "in_sample", "new_rows", "seconds", "seconds_new", "memory_mb") | {
        "rows": len(rows.train) + len(rows.new),
        "columns": len(rows.train.schema.variables),
    }


def scored(rows: TaskData, folder: Path) -> Row:
    """What an answer adds to a row; an answer that is none raises."""
    row: Row = json.loads((folder / "answer.json").read_text())
    given = rows.given()
    with np.load(folder / "answer.npz") as file:
        row["in_sample"] = rows.errors(checked(given, "train", file["train"]))
        if "new" in file.files:
            row["new_rows"] = rows.errors_new(checked(given, "new", file["new"]))
    return row


def in_words(row: Row) -> str:
    names = {"in_sample": "in sample", "new_rows": "new rows"}
    parts = [f"{name} {errors_in_words(row[key])}" for key, name in names.items() if row[key]]
    return f"{'; '.join(parts)}; {row['seconds']:.1f} s, {row['memory_mb']:.0f} MB"


BENCHMARK = Benchmark("peers", KEY, measured, in_words, limit=300.0)
LONG = replace(BENCHMARK, name="long")  # a longer table, which the core grid has not


def assuming_timeouts(store: Store) -> Callable[[Job, Processes], Row]:
    """A method that was too slow for one mask of a table is taken to be too slow for its others."""

    def assumed(job: Job, processes: Processes) -> Row:
        if timed_out_before(store.rows(), job, processes.limit):
            return blank(job, Task.of(job).make(), processes) | {"status": "timed out", "assumed": True}
        return measured(job, processes)

    return assumed


def timed_out_before(rows: Iterable[Row], job: Job, limit: float) -> bool:
    others = (row for row in rows if (row["table"], row["method"]) == (job["table"], job["method"]))
    return any(row["status"] == "timed out" and row["limit"] >= limit for row in others)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("peers", __doc__)
    sentence = "The tables, mechanisms and seeds to take where the options below do not say. Default: core."
    parser.add_argument("--grid", choices=list(GRIDS), default="core", help=sentence)
    others = f"all but the other models of this library, {' '.join(FAMILY)}"
    add_grid_options(parser, [*data.NAMES, data.LONG], EVERY, run_by_default=others)
    parser.add_argument(
        "--assume-timeouts", action="store_true",
        help="If a method was too slow for one mask of a table, do not try it on the others.",
    )  # fmt: skip
    options.add_run_options(parser, BENCHMARK, peers=True)
    o = parser.parse_args(arguments)
    benchmark = BENCHMARK
    if o.assume_timeouts:
        benchmark = replace(BENCHMARK, measured=assuming_timeouts(BENCHMARK.kept_in(o.out)))
    options.run_with(o, benchmark, plan(grid_of(GRIDS[o.grid], o), EVERY, o.methods or METHODS))
