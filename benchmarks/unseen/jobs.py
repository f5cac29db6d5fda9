"""Ours and other imputers on tables that nothing was chosen on, drawn by lot from those of R's packages."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers import jobs as peers
from benchmarks.peers.grid import KEY, Grid, TaskData, run_grid
from benchmarks.processes import Processes
from benchmarks.runs import Benchmark, Job
from benchmarks.store import Row
from benchmarks.unseen import tables

GRID = Grid(tables.NAMES, (("mcar", 0.5), ("mar", 0.3)), (51,))
#: Without those that take minutes on such tables.
METHODS = {
    name: peers.METHODS[name]
    for name in (
        "mean/mode", "knn", "mice", "gcimpute", "boosting", "vsae-fast", "miceforest", "midas2", "vsae", "missforest",
        "hyperimpute", "vsae-best",
    )
}  # fmt: skip


def measured(job: Job, processes: Processes) -> Row:
    rows = TaskData.of(tables.load(job["table"]), job["mechanism"], job["rate"], job["seed"])
    return processes.answered(
        METHODS[job["method"]],
        peers.blank(job, rows, processes),
        [rows.given()],
        lambda folder: peers.scored(rows, folder),
    )


BENCHMARK = Benchmark("unseen", KEY, measured, peers.in_words, limit=600.0)


def main(arguments: Sequence[str]) -> None:
    run_grid(arguments, BENCHMARK, __doc__, GRID, METHODS)
