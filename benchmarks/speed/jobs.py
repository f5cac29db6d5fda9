"""Seconds, peak memory and errors of a fit and its imputation, ours beside other imputers, on tables of several sizes.

Every run is a process of its own, all on the same number of threads. Ours is also saved and loaded, and then asked for
one row again and again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import options
from benchmarks.peers.adapters.task import checked
from benchmarks.peers.grid import TaskData, unanswered
from benchmarks.peers.jobs import METHODS as PEERS
from benchmarks.processes import Method, Processes
from benchmarks.runs import Benchmark, Job, errors_in_words
from benchmarks.sizes import Shape, shape_of
from benchmarks.speed.made import made
from benchmarks.store import Row
from vsae.data.missingness import MCAR

SHAPES: tuple[Shape, ...] = ((1000, 10), (5000, 15), (50_000, 15), (100, 2000))
HIDDEN, SEED = 0.3, 41

#: Roughly from the cheapest to the dearest, the order in which they run.
METHODS: dict[str, Method] = {
    "mean/mode": PEERS["mean/mode"],
    "vsae-fast": Method(None, "vsae_latency.py", ("--effort", "fast")),
    "vsae": Method(None, "vsae_latency.py"),
    "iterative": Method(None, "iterative.py"),
    "missforest": PEERS["missforest"],
    "miceforest": PEERS["miceforest"],
    "hyperimpute": PEERS["hyperimpute"],
    "utrees": PEERS["utrees"],
}


def task_of(rows: int, columns: int) -> TaskData:
    """All rows are to fit and to fill; one more is new, as every method is given some."""
    table = made(rows + 1, columns, SEED)
    mask = table.hide(MCAR(HIDDEN), np.random.default_rng(SEED))
    train, new = np.arange(rows), np.array([rows])
    return TaskData(SEED, table.take(train), mask[train], table.take(new), mask[new])


def measured(job: Job, processes: Processes) -> Row:
    task = task_of(job["rows"], job["columns"])
    row = unanswered(job, processes, "errors", "seconds", "seconds_new", "row_ms", "memory_mb")
    return processes.answered(METHODS[job["method"]], row, [task.given()], lambda folder: scored(task, folder))


def scored(task: TaskData, folder: Path) -> Row:
    said: Row = json.loads((folder / "answer.json").read_text())
    with np.load(folder / "answer.npz") as file:
        return said | {"errors": task.errors(checked(task.given(), "train", file["train"]))}


def in_words(row: Row) -> str:
    one = f", one row in {row['row_ms']:.1f} ms" if row["row_ms"] else ""
    return f"{row['seconds']:.1f} s, {row['memory_mb']:.0f} MB, {errors_in_words(row['errors'])}{one}"


BENCHMARK = Benchmark("speed", ("rows", "columns", "method", "threads"), measured, in_words, limit=600.0)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("speed", __doc__)
    default = " ".join(f"{rows}x{columns}" for rows, columns in SHAPES)
    sentence = f"The sizes of the tables. Default: {default}."
    options.several(parser, "--shapes", sentence, type=options.usage(shape_of), metavar="ROWSxCOLUMNS")
    options.several(parser, "--methods", "The methods. Default: all.", METHODS)
    options.add_run_options(parser, BENCHMARK, peers=True)
    o = parser.parse_args(arguments)
    jobs = [
        {"rows": rows, "columns": columns, "method": method, "threads": o.threads}
        for rows, columns in o.shapes or SHAPES
        for method in o.methods or METHODS
    ]
    options.run_with(o, BENCHMARK, jobs)
