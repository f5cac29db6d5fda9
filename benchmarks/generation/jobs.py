"""Generators are fitted to the same incomplete rows, and the rows that they make are judged by real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.generation.tasks import GRID, Reality, checked
from benchmarks.generation.trivial import independent, real_rows
from benchmarks.peers.grid import KEY, Task, run_grid, unanswered
from benchmarks.processes import Method, Processes
from benchmarks.runs import Benchmark, Job
from benchmarks.store import Row

Rows = NDArray[np.float64]
Trivial = Callable[[Reality, int, np.random.Generator], tuple[Rows, Rows]]
TRIVIAL_ROWS = 10_000  # as many as the others make: adapters/generated.py

#: Roughly from the cheapest to the dearest, the order in which they run.
METHODS: dict[str, Method | Trivial] = {
    "independent": independent,
    "real rows": real_rows,
    "copula": Method("sdv", "sdv_.py", ("copula",)),
    "vsae": Method(None, "vsae_rows.py"),
    "mostlyai": Method("mostlyai", "mostlyai_rows_.py"),
    "tvae": Method("sdv", "sdv_.py", ("tvae",)),
    "ctgan": Method("sdv", "sdv_.py", ("ctgan",)),
}


def measured(job: Job, processes: Processes) -> Row:
    real, generator = Reality.of(Task.of(job)), METHODS[job["method"]]
    row = unanswered(job, processes, "scores", "seconds", "seconds_rows", "memory_mb") | {
        "rows": len(real.train), "columns": len(real.given.names), "target": str(real.given.names[real.target]),
    }  # fmt: skip
    if not isinstance(generator, Method):
        made = generator(real, TRIVIAL_ROWS, np.random.default_rng(job["seed"]))
        return row | {"scores": real.scores(*made)}
    return processes.answered(generator, row, [real.given], lambda folder: judged(real, folder))


def judged(real: Reality, folder: Path) -> Row:
    """What generated rows add to a row; such that are none raise."""
    row: Row = json.loads((folder / "generated.json").read_text())
    with np.load(folder / "generated.npz") as file:
        incomplete = checked(real.given, file["incomplete"], missing=True)
        complete = checked(real.given, file["complete"], missing=False) if "complete" in file.files else None
    return row | {"scores": real.scores(incomplete, complete)}


def in_words(row: Row) -> str:
    s = row["scores"]
    areas = " / ".join(f"{area:.3f}" for area in s["auc"].values())
    utility = " / ".join(f"{s['utility'][k]:.3f}" for k in ("incomplete", "complete", "real") if k in s["utility"])
    return (
        f"association {s['association']['mean']:.3f}, marginal {s['marginal']['mean']:.3f}, AUC {areas}, "
        f"{s['utility']['measure']} {utility}, nulls {s['nulls']['worst']:.3f}, "
        f"nearness {s['nearness']['ratio']:.2f}, {row['seconds'] or 0:.0f} s"
    )


BENCHMARK = Benchmark("generation", KEY, measured, in_words, limit=600.0)


def main(arguments: Sequence[str]) -> None:
    run_grid(arguments, BENCHMARK, __doc__, GRID, METHODS)
