"""`vsae bench generation`: generators fitted on the same incomplete rows, their rows judged by real ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.generation.tasks import GRID, Reality, checked
from benchmarks.generation.trivial import independent, real_rows
from benchmarks.peers.bench import Bench, Row
from benchmarks.peers.grid import Task
from benchmarks.peers.processes import Method, Processes, machine, one_line

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


def measured(task: Task, method: str, processes: Processes) -> Row:
    real, generator = Reality.of(task), METHODS[method]
    row: Row = {
        **asdict(task), "method": method, "status": "ok", "error": None, "scores": None, "seconds": None,
        "seconds_rows": None, "memory_mb": None, "rows": len(real.train), "columns": len(real.given.names),
        "target": str(real.given.names[real.target]), "version": None, "threads": processes.threads,
        "limit": processes.limit, "machine": machine(),
    }  # fmt: skip
    if not isinstance(generator, Method):
        made = generator(real, TRIVIAL_ROWS, np.random.default_rng(task.seed))
        return row | {"scores": real.scores(*made)}
    with tempfile.TemporaryDirectory() as folder:
        real.given.write(folder)
        row |= processes.call(generator, folder)
        if row["status"] != "ok":
            return row
        try:
            return row | judged(real, Path(folder))
        except (OSError, KeyError, ValueError) as error:
            return row | {"status": "failed", "error": one_line(f"{type(error).__name__}: {error}")}


def judged(real: Reality, folder: Path) -> dict[str, Any]:
    """What generated rows add to a row; such that are none raise."""
    row: dict[str, Any] = json.loads((folder / "generated.json").read_text())
    with np.load(folder / "generated.npz") as file:
        with_holes = checked(real.given, file["with_holes"], fill=True)
        complete = checked(real.given, file["complete"], fill=False) if "complete" in file.files else None
    return row | {"scores": real.scores(with_holes, complete)}


def in_words(row: Row) -> str:
    s = row["scores"]
    areas = " / ".join(f"{area:.3f}" for area in s["auc"].values())
    utility = " / ".join(f"{s['utility'][k]:.3f}" for k in ("holes", "complete", "real") if k in s["utility"])
    return (
        f"association {s['association']['mean']:.3f}, marginal {s['marginal']['mean']:.3f}, AUC {areas}, "
        f"{s['utility']['measure']} {utility}, nulls {s['nulls']['worst']:.3f}, "
        f"nearness {s['nearness']['ratio']:.2f}, {row['seconds'] or 0:.0f} s"
    )


BENCH = Bench("generation", GRID, METHODS, measured, in_words, limit=600.0)
