"""`vsae bench calibration`: draws for the same holes by every effort of ours and by other multiple imputation.

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
from vsae.benchmark.calibration.scores import scores
from vsae.benchmark.data import Rows
from vsae.benchmark.peers.adapters import task as exchange
from vsae.benchmark.peers.grid import CORE, Grid, Task, TaskData, mechanism_and_rate
from vsae.benchmark.peers.processes import ENVIRONMENTS, Method, Processes, machine, one_line

GRID = Grid(CORE.tables, (("mcar", 0.5), ("mar", 0.3)), (11,))
OURS = {"vsae-fast": "fast", "vsae": "default", "vsae-best": "best"}
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


@dataclass(frozen=True)
class Runner:
    """Where rows go and under which conditions they come about."""

    out: Path = Path("results/calibration")
    processes: Processes = field(default_factory=lambda: Processes(limit=900.0))
    again: bool = False  # run once more what failed
    force: bool = False  # run once more what is there

    def path(self, task: Task, method: str) -> Path:
        return self.out / f"{task.name}-{method}.json"

    def one(self, task: Task, method: str) -> str:
        """One run, unless its row is there; a line about it."""
        path = self.path(task, method)
        if path.exists() and not self.force:
            row = json.loads(path.read_text())
            if row["status"] != "failed" or not self.again:
                return f"{line(row)} (there)"
        adapter = METHODS[method]
        if adapter is not None and not self.processes.python(adapter.environment).exists():
            return f"{task.name:<30} {method:<12} no environment; run `make peers`"
        row = self.measured(task, method)
        write_text(path, json.dumps(row, indent=1) + "\n")
        return line(row)

    def measured(self, task: Task, method: str) -> dict[str, Any]:
        made, adapter = task.make(), METHODS[method]
        row: dict[str, Any] = {
            **asdict(task), "method": method, "status": "ok", "error": None, "in_sample": None, "new_rows": None,
            "draws": None, "seconds": None, "memory_mb": None, "rows": len(made.train) + len(made.new),
            "columns": len(made.train.schema.variables), "version": None, "threads": self.processes.threads,
            "limit": self.processes.limit, "machine": machine(),
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            given = made.given()
            if adapter is None:
                return row | scored(made, marginal_draws(given))
            given.write(folder)
            row |= self.processes.call(adapter, folder)
            if row["status"] != "ok":
                return row
            try:
                said = json.loads((Path(folder) / "drawn.json").read_text())
                with np.load(Path(folder) / "drawn.npz") as file:
                    return row | said | scored(made, dict(file))
            except (OSError, KeyError, ValueError) as error:
                return row | {"status": "failed", "error": one_line(f"{type(error).__name__}: {error}")}


def scored(made: TaskData, drawn: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """What draws add to a row: `train` and `new` (draws, rows, p), and probabilities of levels if they were stated."""
    given = made.given()
    return {
        "draws": len(drawn["train"]),
        "in_sample": _scored(made.train, given, "train", drawn),
        "new_rows": _scored(made.new, given, "new", drawn) if "new" in drawn else None,
    }


def _scored(rows: Rows, given: exchange.Task, part: str, drawn: dict[str, NDArray[Any]]) -> dict[str, Any]:
    truth, hidden = rows.matrix(), np.isnan(given.part(part)) & rows.variables_known()
    stated, rng = drawn.get(f"{part}_probabilities"), np.random.default_rng(given.seed)
    return scores(truth, drawn[part].astype(float), hidden, given.levels, stated, rng)


def marginal_draws(given: exchange.Task) -> dict[str, NDArray[np.float64]]:
    """Each hole filled with any observed value of its column: calibrated if holes are at random, and uninformed."""
    rng = np.random.default_rng(given.seed)
    seen = [x[~np.isnan(x)] for x in given.train.T]
    return {
        part: np.stack([rng.choice(x, (DRAWS, len(given.part(part)))) if len(x) else np.zeros(()) for x in seen], axis=2)
        for part in ("train", "new")
    }


def run(
    runner: Runner, grid: Grid = GRID, methods: Iterable[str] = tuple(METHODS), report: Callable[[str], None] = print
) -> None:
    """Every task by every method: mechanism by mechanism, cheap methods first."""
    wanted = list(methods)
    if unknown := set(wanted) - set(METHODS):
        raise ValueError(f"there is no method {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    runner.out.mkdir(parents=True, exist_ok=True)
    tasks = list(grid.tasks())
    for mask in dict.fromkeys((task.seed, task.mechanism) for task in tasks):
        for method in METHODS:
            for task in tasks:
                if method in wanted and (task.seed, task.mechanism) == mask:
                    report(runner.one(task, method))


def grid_of(
    tables: Iterable[str] | None = None, mechanisms: Iterable[str] | None = None, seeds: Iterable[int] | None = None
) -> Grid:
    """`GRID`, with what is given in the place of its own."""
    masks = tuple(map(mechanism_and_rate, mechanisms)) if mechanisms else GRID.mechanisms
    return Grid(tuple(tables or GRID.tables), masks, tuple(seeds or GRID.seeds))


def line(row: dict[str, Any]) -> str:
    begin = f"{Task(row['table'], row['mechanism'], row['rate'], row['seed']).name:<30} {row['method']:<12}"
    if row["status"] == "timed out":
        return f"{begin} timed out at {row['limit']:.0f} s"
    if row["status"] == "failed":
        return f"{begin} failed: {row['error']}"
    parts = [f"{name.replace('_', ' ')}: {_in_words(row[name])}" for name in ("in_sample", "new_rows") if row[name]]
    return f"{begin} {'; '.join(parts)}; {row['seconds'] or 0:.0f} s"


def _in_words(part: dict[str, Any]) -> str:
    words = []
    if numbers := part.get("numbers"):
        words.append(f"cover {numbers['coverage50']:.3f} {numbers['coverage90']:.3f}, CRPS {numbers['crps']:.3f}")
    if levels := part.get("stated", part.get("draws")):
        words.append(f"ECE {levels['ece']:.3f} {levels['classwise']:.3f}, log loss {levels['log_loss']:.3f}")
    return ", ".join(words)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m vsae.benchmark calibration", description=__doc__)
    parser.add_argument("--out", type=Path, default=Runner.out)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--mechanisms", nargs="+", metavar="NAME+RATE", help="mcar0.5 mar0.3 …")
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a run may take")
    parser.add_argument("--threads", type=int, default=Processes.threads, help="of each run")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where `make peers` put them")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    o = parser.parse_args(arguments)
    runner = Runner(o.out, Processes(o.limit, o.threads, o.environments), o.again, o.force)
    run(runner, grid_of(o.tables, o.mechanisms, o.seeds), o.methods, lambda text: print(text, flush=True))
