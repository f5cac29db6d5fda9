"""Ours, boosted chains, missForest and mean/mode on tables whose columns hang together by edges.

These tables are for choosing settings. A row holds the errors in sample and on new rows; on designed tables numbers are
imputed by medians and scored by absolute errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.peers import jobs as peers
from benchmarks.peers.adapters import task as exchange
from benchmarks.peers.cells import MEASURES
from benchmarks.peers.grid import KEY, Grid, TaskData, add_grid_options, grid_of, plan
from benchmarks.processes import Processes
from benchmarks.runs import Benchmark, Job
from benchmarks.sharp import tables
from benchmarks.sharp.ratios import errors_of, summary
from benchmarks.store import Row
from vsae.evaluation.metrics import crps

SIZES = (200, 2000)
GRID = Grid(tables.NAMES, (("mcar", 0.3), ("mar", 0.3)), (31,))
METHODS = {
    name: peers.METHODS[name] for name in ("mean/mode", "boosting", "missforest", "vsae-fast", "vsae", "vsae-best")
}
_MEDIAN = ("--strategy", "median")


def measured(job: Job, processes: Processes) -> Row:
    table, method = job["table"], METHODS[job["method"]]
    rows = TaskData.of(tables.load(table), job["mechanism"], job["rate"], job["seed"])
    designed = tables.base(table) in tables.DESIGNED
    if designed and job["method"].startswith("vsae"):
        method = method._replace(arguments=(*method.arguments, *_MEDIAN))
    scored = absolute if designed else peers.scored
    return processes.answered(
        method, peers.blank(job, rows, processes), [rows.given()], lambda folder: scored(rows, folder)
    )


def absolute(rows: TaskData, folder: Path) -> Row:
    """As `peers.scored`, with mean absolute errors of numbers in the place of root mean squares."""
    row, given = peers.scored(rows, folder), rows.given()
    centre = np.nanmedian(given.train, axis=0)
    with np.load(folder / "answer.npz") as file:
        for part, kept in (("train", "in_sample"), ("new", "new_rows")):
            truth = (rows.train if part == "train" else rows.new).matrix()
            filled, trivial = exchange.checked(given, part, file[part]), np.broadcast_to(centre, truth.shape)
            levels = {name: error for name, error in row[kept].items() if name.startswith("pfc")}
            numbers = {"nmae": filled, "nmae_trivial": trivial}
            row[kept] = levels | {name: nmae(given, part, truth, x) for name, x in numbers.items()}
    return row


def nmae(given: exchange.Task, part: str, truth: NDArray[np.float64], filled: NDArray[np.float64]) -> float:
    """Mean absolute error of a column's hidden cells / std of the column; mean over the columns of numbers."""
    at, seen = ~given.discrete, ~np.isnan(given.part(part))
    return float(crps(truth[:, at], filled[None, :, at], seen[:, at]))  # of one draw


def in_words(row: Row) -> str:
    names = [name for name in MEASURES if name in row["in_sample"]]
    errors = (f"{m.upper()} {row['in_sample'][m]:.3f} (trivial {row['in_sample'][m + '_trivial']:.3f})" for m in names)
    return f"{', '.join(errors)}; {row['seconds']:.1f} s"


BENCHMARK = Benchmark("sharp", KEY, measured, in_words, limit=600.0)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("sharp", __doc__)
    add_grid_options(parser, tables.NAMES, METHODS, GRID)
    sizes = f"The rows of tables that are made. Default: {' '.join(map(str, SIZES))}."
    options.several(parser, "--sizes", sizes, type=options.at_least_one, metavar="ROWS")
    options.add_run_options(parser, BENCHMARK, peers=True)
    o = parser.parse_args(arguments)
    grid = grid_of(GRID, o)
    named = tuple(name for table in grid.tables for name in tables.of_sizes(table, o.sizes or SIZES))
    options.run_with(o, BENCHMARK, plan(replace(grid, tables=named), METHODS, o.methods))
    # peers' rows are those that are kept, where others are written elsewhere
    rows = {BENCHMARK.store().key_of(row): row for row in (*BENCHMARK.rows(), *BENCHMARK.kept_in(o.out).rows())}
    print(summary(errors_of(row for row in rows.values() if row["table"] in named)))
