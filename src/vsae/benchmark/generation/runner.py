"""`vsae bench generation`: generators fitted on the same incomplete rows, their rows judged by real ones.

One run becomes one JSON row. A row that is there is not computed again unless forced; one that failed is, if asked for.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.atomic import write_text
from vsae.benchmark.generation.tasks import GRID, TARGETS, Reality, checked
from vsae.benchmark.generation.trivial import independent, real_rows
from vsae.benchmark.peers.grid import Grid, Task, mechanism_and_rate
from vsae.benchmark.peers.processes import ENVIRONMENTS, Method, Processes, machine, one_line

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


@dataclass(frozen=True)
class Runner:
    """Where rows go and under which conditions they come about."""

    out: Path = Path("results/generation")
    processes: Processes = field(default_factory=lambda: Processes(limit=600.0))
    again: bool = False  # run once more what failed
    force: bool = False  # run once more what is there

    def path(self, task: Task, method: str) -> Path:
        return self.out / f"{task.name}-{method.replace(' ', '-')}.json"

    def one(self, task: Task, method: str) -> str:
        """One run, unless its row is there; a line about it."""
        path = self.path(task, method)
        if path.exists() and not self.force:
            row = json.loads(path.read_text())
            if row["status"] != "failed" or not self.again:
                return f"{line(row)} (there)"
        generator = METHODS[method]
        if isinstance(generator, Method) and not self.processes.python(generator.environment).exists():
            return f"{label(task.name, method)} no environment; run `make peers`"
        row = self.measured(task, method)
        write_text(path, json.dumps(row, indent=1) + "\n")
        return line(row)

    def measured(self, task: Task, method: str) -> dict[str, Any]:
        real, generator = Reality.of(task), METHODS[method]
        row: dict[str, Any] = {
            **asdict(task), "method": method, "status": "ok", "error": None, "scores": None, "seconds": None,
            "seconds_rows": None, "memory_mb": None, "rows": len(real.train), "columns": len(real.given.names),
            "target": str(real.given.names[real.target]), "version": None, "threads": self.processes.threads,
            "limit": self.processes.limit, "machine": machine(),
        }  # fmt: skip
        if not isinstance(generator, Method):
            made = generator(real, TRIVIAL_ROWS, np.random.default_rng(task.seed))
            return row | {"scores": real.scores(*made)}
        with tempfile.TemporaryDirectory() as folder:
            real.given.write(folder)
            row |= self.processes.call(generator, folder)
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
        with_holes = checked(real.given, file["with_holes"], holes=True)
        complete = checked(real.given, file["complete"], holes=False) if "complete" in file.files else None
    return row | {"scores": real.scores(with_holes, complete)}


def run(
    runner: Runner, grid: Grid = GRID, methods: Iterable[str] = tuple(METHODS), report: Callable[[str], None] = print
) -> None:
    """Every task by every method: mechanism by mechanism, cheap methods first."""
    wanted = list(methods)
    if unknown := set(wanted) - set(METHODS):
        raise ValueError(f"there is no method {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    runner.out.mkdir(parents=True, exist_ok=True)
    batches: dict[tuple[int, str], list[Task]] = {}
    for task in grid.tasks():
        batches.setdefault((task.seed, task.mechanism), []).append(task)
    for tasks in batches.values():
        for method in METHODS:
            for task in tasks if method in wanted else ():
                report(runner.one(task, method))


def grid_of(
    tables: Iterable[str] | None = None, mechanisms: Iterable[str] | None = None, seeds: Iterable[int] | None = None
) -> Grid:
    """`GRID`, with what is given in the place of its own."""
    tables = tuple(tables or GRID.tables)
    if unknown := set(tables) - set(TARGETS):
        raise ValueError(f"there is no table {', '.join(sorted(unknown))} here; there are {', '.join(TARGETS)}")
    masks = tuple(map(mechanism_and_rate, mechanisms)) if mechanisms else GRID.mechanisms
    return Grid(tables, masks, tuple(seeds or GRID.seeds))


# --- lines


def label(task: str, method: str) -> str:
    return f"{task:<30} {method:<12}"


def line(row: dict[str, Any]) -> str:
    begin = label(Task(row["table"], row["mechanism"], row["rate"], row["seed"]).name, row["method"])
    if row["status"] == "timed out":
        return f"{begin} timed out at {row['limit']:.0f} s"
    if row["status"] == "failed":
        return f"{begin} failed: {row['error']}"
    s = row["scores"]
    utility = " / ".join(f"{s['utility'][k]:.3f}" for k in ("holes", "complete", "real") if k in s["utility"])
    return (
        f"{begin} association {s['association']['mean']:.3f}, marginal {s['marginal']['mean']:.3f}, AUC "
        f"{' / '.join(f'{x:.3f}' for x in s['auc'].values())}, {s['utility']['measure']} {utility}, nulls "
        f"{s['nulls']['worst']:.3f}, nearness {s['nearness']['ratio']:.2f}, {row['seconds'] or 0:.0f} s"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m vsae.benchmark generation", description=__doc__)
    parser.add_argument("--out", type=Path, default=Runner.out)
    parser.add_argument("--tables", nargs="+", choices=list(TARGETS))
    parser.add_argument("--mechanisms", nargs="+", metavar="NAME+RATE", help="mcar0.3 mar0.3 …")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a run may take")
    parser.add_argument("--threads", type=int, default=Processes.threads, help="of each run")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where `make peers` put them")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    o = parser.parse_args(arguments)
    runner = Runner(o.out, Processes(o.limit, o.threads, o.environments), o.again, o.force)
    run(runner, grid_of(o.tables, o.mechanisms, o.seeds), o.methods, lambda text: print(text, flush=True))
