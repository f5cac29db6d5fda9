"""Draws for blocks of columns that are missing together, against the rows as they were, beside other packages.

Rows hold the error of associations, the energy distance of rows, and how often columns that determine each other agree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.joint.blocks import RELATIONS, Blocks, exact_draws, loadings
from benchmarks.joint.scores import scores
from benchmarks.peers.adapters import task as exchange
from benchmarks.peers.grid import CORE, KEY, Grid, run_grid, unanswered
from benchmarks.processes import Method, Processes, r_with_mice
from benchmarks.runs import Benchmark, Job
from benchmarks.store import Row

GRID = Grid((*CORE.tables, "gaussian", "mixed"), (("mcar", 0.3), ("mar", 0.3)), (11, 12))
DRAWS = 5
INDEPENDENT = "independent"  # any observed value of the column, whatever the row says
R = "mice_r_draws.py"

#: Roughly from the cheapest to the dearest, the order in which they run; None needs no process.
METHODS: dict[str, Method | None] = {
    INDEPENDENT: None,
    "vsae-fast": Method(None, "vsae_draws.py", ("fast", str(DRAWS))),
    "mice-pmm": Method(None, R, ("pmm", str(DRAWS)), r_with_mice),
    "vsae": Method(None, "vsae_draws.py", ("default", str(DRAWS))),
    "midas2": Method("midas2", "midas2_draws_.py", (str(DRAWS),)),
    "iterative": Method(None, "iterative_draws.py", (str(DRAWS),)),
    "mice-rf": Method(None, R, ("rf", str(DRAWS)), r_with_mice),
    "miceforest": Method("miceforest", "miceforest_draws_.py", (str(DRAWS),)),
    "utrees": Method("utrees", "utrees_draws_.py", (str(DRAWS),)),
}


def measured(job: Job, processes: Processes) -> Row:
    blocks, adapter = Blocks.of(job), METHODS[job["method"]]
    row = unanswered(job, processes, "scores", "draws", "seconds", "memory_mb") | {
        "rows": len(blocks.rows), "columns": len(blocks.rows.schema.variables), "hidden": float(blocks.hidden.mean()),
    }  # fmt: skip
    if adapter is None:
        return row | trivial(job, blocks)
    return processes.answered(adapter, row, [blocks.given()], lambda folder: read(job, blocks, folder))


def read(job: Job, blocks: Blocks, folder: Path) -> Row:
    """What an adapter left, scored."""
    said: Row = json.loads((folder / "drawn.json").read_text())
    with np.load(folder / "drawn.npz") as file:
        return said | scored(job, blocks, file["train"].astype(float))


def scored(job: Job, blocks: Blocks, draws: NDArray[np.float64]) -> Row:
    return {"draws": len(draws), "scores": scores(blocks, RELATIONS.get(job["table"], ()), draws)}


def trivial(job: Job, blocks: Blocks) -> Row:
    """The scores of independent draws; where the distribution of rows is known, those of draws from it beside them."""
    found = scored(job, blocks, independent_draws(blocks.given()))
    if job["table"] == "gaussian":
        draws = exact_draws(blocks.given(), loadings() @ loadings().T, DRAWS)
        found["scores"]["exact"] = scored(job, blocks, draws)["scores"]
    return found


def independent_draws(given: exchange.Task) -> NDArray[np.float64]:
    """(draws, n, p): each missing cell gets an observed value of its column."""
    rng = np.random.default_rng(given.seed)
    observed = [x[~np.isnan(x)] for x in given.train.T]
    values = np.stack([rng.choice(x, (DRAWS, len(given.train))) for x in observed], axis=2)
    return np.where(np.isnan(given.train), values, given.train)


def in_words(row: Row) -> str:
    found = row["scores"]
    relations = [f"{name} {min(said.values()):.3f}" for name, said in found["relations"].items()]
    words = [f"association {found['association']['mean']:.3f}", f"energy {found['energy']:.3f}", *relations]
    return f"{', '.join(words)}; {row['seconds'] or 0:.0f} s"


BENCHMARK = Benchmark("joint", KEY, measured, in_words, limit=600.0)


def main(arguments: Sequence[str]) -> None:
    run_grid(arguments, BENCHMARK, __doc__, GRID, METHODS)
