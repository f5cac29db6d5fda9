"""`vsae bench peers`: every method on every task, one process a run, under a time limit.

One run becomes one JSON row: errors in sample and on new rows, seconds, peak memory. A row that is there is not
computed again; one that failed is, if asked for.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.peers.adapters.task import checked
from benchmarks.peers.grid import GRIDS, Grid, Task, TaskData, mechanism_and_rate
from benchmarks.peers.processes import ENVIRONMENTS, Method, Processes, machine, one_line
from vsae.storage.atomic import write_text

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
    "vsae": Method(None, "vsae_imputer.py"),
    "missforest": Method(None, "chains.py", ("missforest",)),
    "mostlyai": Method("mostlyai", "mostlyai_.py"),
    "hyperimpute": Method("hyperimpute", "hyperimpute_.py"),
    "vsae-best": Method(None, "vsae_imputer.py", ("--effort", "best")),
    "forest-diffusion": Method("forest-diffusion", "forest_diffusion_.py"),
}


@dataclass(frozen=True)
class Runner:
    """Where rows go and under which conditions they come about."""

    out: Path = Path("results/peers")
    limit: float = 300.0
    threads: int = 1
    environments: Path = ENVIRONMENTS
    again: bool = False  # run once more what failed
    assume_timeouts: bool = False  # too slow for one mask of a table is too slow for its others

    @property
    def processes(self) -> Processes:
        return Processes(self.limit, self.threads, self.environments)

    def path(self, task: Task, method: str) -> Path:
        return self.out / f"{task.name}-{method.replace('/', '-')}.json"

    def one(self, task: Task, method: str) -> str:
        """One run, unless its row is there; a line about it."""
        path = self.path(task, method)
        if path.exists():
            row = json.loads(path.read_text())
            if row["status"] != "failed" or not self.again:
                return f"{line(row)} (there)"
        if not self.processes.python(METHODS[method].environment).exists():
            return f"{label(task, method)} no environment; run `make peers`"
        row = self.measured(task, method)
        write_text(path, json.dumps(row, indent=1) + "\n")
        return line(row)

    def measured(self, task: Task, method: str) -> dict[str, Any]:
        rows = task.make()
        row: dict[str, Any] = {
            **asdict(task), "method": method, "status": "ok", "error": None, "in_sample": None, "new_rows": None,
            "seconds": None, "seconds_new": None, "memory_mb": None,
            "rows": len(rows.train) + len(rows.new), "columns": len(rows.train.schema.variables), "version": None,
            "threads": self.threads, "limit": self.limit, "machine": machine(),
        }  # fmt: skip
        if self.assume_timeouts and self.timed_out_before(task, method):
            return row | {"status": "timed out", "assumed": True}
        with tempfile.TemporaryDirectory() as folder:
            rows.given().write(folder)
            row |= self.processes.call(METHODS[method], folder)
            if row["status"] != "ok":
                return row
            try:
                return row | scored(rows, Path(folder))
            except (OSError, KeyError, ValueError) as error:
                return row | {"status": "failed", "error": one_line(f"{type(error).__name__}: {error}")}

    def timed_out_before(self, task: Task, method: str) -> bool:
        name = method.replace("/", "-")
        others = (json.loads(path.read_text()) for path in self.out.glob(f"{task.table}-*-seed*-{name}.json"))
        return any(row["status"] == "timed out" and row["limit"] >= self.limit for row in others)


def scored(rows: TaskData, folder: Path) -> dict[str, Any]:
    """What an answer adds to a row; an answer that is none raises."""
    row: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    given = rows.given()
    with np.load(folder / "answer.npz") as file:
        row["in_sample"] = rows.errors(checked(given, "train", file["train"]))
        if "new" in file.files:
            row["new_rows"] = rows.errors_new(checked(given, "new", file["new"]))
    return row


def run(
    runner: Runner, grid: Grid, methods: Iterable[str] = tuple(METHODS), jobs: int = 1,
    report: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Every task by every method, `jobs` at a time: seed by seed, mechanism by mechanism, cheap methods first."""
    wanted = set(methods)
    if unknown := wanted - set(METHODS):
        raise ValueError(f"there is no method {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    runner.out.mkdir(parents=True, exist_ok=True)
    batches: dict[tuple[int, str, float], list[Task]] = {}
    for task in grid.tasks():
        batches.setdefault((task.seed, task.mechanism, task.rate), []).append(task)
    plan = [(task, method) for tasks in batches.values() for method in METHODS if method in wanted for task in tasks]
    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(lambda job: report(runner.one(*job)), plan):
            pass


# --- lines


def label(task: Task, method: str) -> str:
    return f"{task.table:<14} {task.mechanism + str(task.rate):<8} seed {task.seed} {method:<16}"


def line(row: dict[str, Any]) -> str:
    begin = label(Task(row["table"], row["mechanism"], row["rate"], row["seed"]), row["method"])
    if row["status"] == "timed out":
        return f"{begin} {'assumed' if row.get('assumed') else 'timed'} out at {row['limit']:.0f} s"
    if row["status"] == "failed":
        return f"{begin} failed: {row['error']}"
    parts = [f"{name} {errors_in_words(row[key])}" for key, name in NAMES_OF_ERRORS.items() if row[key]]
    return f"{begin} {'; '.join(parts)}; {row['seconds']:.1f} s, {row['memory_mb']:.0f} MB"


NAMES_OF_ERRORS = {"in_sample": "in sample", "new_rows": "new rows"}


def errors_in_words(errors: dict[str, float]) -> str:
    """
    >>> errors_in_words({"nrmse": 0.91, "nrmse_trivial": 1.002})
    'NRMSE 0.910 (mean 1.002)'
    """
    trivial = {"nrmse": "mean", "pfc": "mode"}
    return ", ".join(
        f"{name.upper()} {errors[name]:.3f} ({trivial[name]} {errors[name + '_trivial']:.3f})"
        for name in trivial
        if name in errors
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("--out", type=Path, default=Runner.out)
    parser.add_argument("--grid", choices=list(GRIDS), default="core", help="what is not given below is taken from it")
    parser.add_argument("--tables", nargs="+", choices=[*data.NAMES, data.LONG])
    parser.add_argument("--mechanisms", nargs="+", metavar="NAME+RATE", help="mcar0.5 mar0.3 nmar0.3 self0.3 …")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--limit", type=float, default=Runner.limit, help="seconds a run may take")
    parser.add_argument("--threads", type=int, default=Runner.threads, help="of each run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where `make peers` put them")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument(
        "--assume-timeouts", action="store_true", help="do not try the other masks of a table a method was too slow for"
    )
    o = parser.parse_args(arguments)
    runner = Runner(o.out, o.limit, o.threads, o.environments, o.again, o.assume_timeouts)
    run(runner, grid_of(o.grid, o.tables, o.mechanisms, o.seeds), o.methods, o.jobs, lambda x: print(x, flush=True))


def grid_of(
    name: str, tables: Iterable[str] | None, mechanisms: Iterable[str] | None, seeds: Iterable[int] | None
) -> Grid:
    """A grid of `GRIDS`, with what is given in the place of its own."""
    if name not in GRIDS:
        raise ValueError(f"there is no grid {name!r}; there are {', '.join(GRIDS)}")
    grid = GRIDS[name]
    return Grid(
        tuple(tables or grid.tables),
        tuple(map(mechanism_and_rate, mechanisms)) if mechanisms else grid.mechanisms,
        tuple(seeds or grid.seeds),
    )
