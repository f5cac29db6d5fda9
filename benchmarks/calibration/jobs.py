"""Draws for the same missing cells, by each effort of ours and by other packages for multiple imputation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibration.scores import scores
from benchmarks.data import Rows
from benchmarks.peers.adapters import task as exchange
from benchmarks.peers.grid import CORE, KEY, Grid, Task, TaskData, run_grid, unanswered
from benchmarks.processes import Method, Processes
from benchmarks.runs import Benchmark, Job
from benchmarks.store import Row

GRID = Grid(CORE.tables, (("mcar", 0.5), ("mar", 0.3)), (11,))
DRAWS, PEERS_DRAWS = 100, 20
MARGINAL = "marginal"  # any observed value of the column, whatever the row says

#: Roughly from the cheapest to the dearest, the order in which they run; None needs no process.
METHODS: dict[str, Method | None] = {
    MARGINAL: None,
    "vsae-fast": Method(None, "vsae_draws.py", ("fast", str(DRAWS))),
    "vsae": Method(None, "vsae_draws.py", ("default", str(DRAWS))),
    "midas2": Method("midas2", "midas2_draws_.py", (str(PEERS_DRAWS),)),
    "vsae-best": Method(None, "vsae_draws.py", ("best", str(DRAWS))),
    "miceforest": Method("miceforest", "miceforest_draws_.py", (str(PEERS_DRAWS),)),
}


def measured(job: Job, processes: Processes) -> Row:
    made, adapter = Task.of(job).make(), METHODS[job["method"]]
    row = unanswered(job, processes, "in_sample", "new_rows", "draws", "seconds", "memory_mb") | {
        "rows": len(made.train) + len(made.new), "columns": len(made.train.schema.variables),
    }  # fmt: skip
    if adapter is None:
        return row | scored(made, marginal_draws(made.given()))
    return processes.answered(adapter, row, [made.given()], lambda folder: read(made, folder))


def read(made: TaskData, folder: Path) -> Row:
    """What an adapter left, scored."""
    said: Row = json.loads((folder / "drawn.json").read_text())
    with np.load(folder / "drawn.npz") as file:
        return said | scored(made, dict(file))


def scored(made: TaskData, drawn: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """What draws add to a row: `train` and `new` (draws, rows, p), and probabilities of levels if they were stated."""
    given = made.given()
    return {
        "draws": len(drawn["train"]),
        "in_sample": _scored(made.train, given, "train", drawn),
        "new_rows": _scored(made.new, given, "new", drawn),
    }


def _scored(rows: Rows, given: exchange.Task, part: str, drawn: dict[str, NDArray[Any]]) -> dict[str, Any]:
    truth, hidden = rows.matrix(), np.isnan(given.part(part)) & rows.variables_known()
    stated, rng = drawn.get(f"{part}_probabilities"), np.random.default_rng(given.seed)
    return scores(truth, drawn[part].astype(float), hidden, given.levels, stated, rng)


def marginal_draws(given: exchange.Task) -> dict[str, NDArray[np.float64]]:
    """Any observed value of its column for each missing cell: calibrated if cells are missing at random."""
    rng = np.random.default_rng(given.seed)
    seen = [x[~np.isnan(x)] for x in given.train.T]
    values = [x if len(x) else np.zeros(1) for x in seen]
    return {
        part: np.stack([rng.choice(x, (DRAWS, len(given.part(part)))) for x in values], axis=2)
        for part in ("train", "new")
    }


def in_words(row: Row) -> str:
    parts = [f"{name.replace('_', ' ')}: {_part_in_words(row[name])}" for name in ("in_sample", "new_rows")]
    return f"{'; '.join(parts)}; {row['seconds'] or 0:.0f} s"


def _part_in_words(part: dict[str, Any]) -> str:
    words = []
    if numbers := part.get("numbers"):
        words.append(f"cover {numbers['coverage50']:.3f} {numbers['coverage90']:.3f}, CRPS {numbers['crps']:.3f}")
    if levels := part.get("stated", part.get("draws")):
        words.append(f"ECE {levels['ece']:.3f} {levels['classwise']:.3f}, log loss {levels['log_loss']:.3f}")
    return ", ".join(words)


BENCHMARK = Benchmark("calibration", KEY, measured, in_words, limit=900.0)


def main(arguments: Sequence[str]) -> None:
    run_grid(arguments, BENCHMARK, __doc__, GRID, METHODS)
