"""A benchmark of methods on tasks that keeps one JSON row a run: which runs are due, in what order, under what options.

A row that is there is not computed again unless forced; one that failed is, if asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.grid import Grid, Task, mechanism_and_rate
from benchmarks.peers.processes import ENVIRONMENTS, Method, Processes
from vsae.storage.atomic import write_text

Row = dict[str, Any]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Kept:
    """Rows in a folder, one file a run."""

    out: Path
    again: bool = False  # run once more what failed
    force: bool = False  # run once more what is there

    def row(self, name: str) -> Row | None:
        """The row of that run, unless it is to be run again."""
        path = self.path(name)
        if self.force or not path.exists():
            return None
        row: Row = json.loads(path.read_text())
        return None if self.again and row["status"] == "failed" else row

    def keep(self, name: str, row: Row) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.path(name), json.dumps(row, indent=1) + "\n")

    def path(self, name: str) -> Path:
        return self.out / f"{name.replace(' ', '-')}.json"


@dataclass(frozen=True)
class Bench:
    """`methods` that are a `Method` run in processes of their own; `measured` makes the row of a task and a method."""

    name: str
    grid: Grid
    methods: Mapping[str, Any]
    measured: Callable[[Task, str, Processes], Row]
    in_words: Callable[[Row], str]  # what a row that came to its end says
    limit: float  # seconds a run may take

    @property
    def out(self) -> Path:
        return Path("results") / self.name

    def run(self, kept: Kept, processes: Processes, grid: Grid, methods: Iterable[str], report: Report = print) -> None:
        """Every task by every method: mask by mask, cheap methods first."""
        wanted = known(methods, self.methods)
        tasks = list(grid.tasks())
        for mask in dict.fromkeys((task.seed, task.mechanism, task.rate) for task in tasks):
            for method in self.methods:
                for task in tasks:
                    if method in wanted and (task.seed, task.mechanism, task.rate) == mask:
                        report(self.one(kept, processes, task, method))

    def one(self, kept: Kept, processes: Processes, task: Task, method: str) -> str:
        """One run, unless its row is there; a line about it."""
        name = f"{task.name}-{method}"
        begin = f"{task.name:<30} {method:<12}"
        if (there := kept.row(name)) is not None:
            return f"{begin} {outcome(there, self.in_words)} (there)"
        if not ready(self.methods[method], processes):
            return f"{begin} no environment; run `make peers`"
        row = self.measured(task, method, processes)
        kept.keep(name, row)
        return f"{begin} {outcome(row, self.in_words)}"

    def grid_of(
        self, tables: Iterable[str] | None, mechanisms: Iterable[str] | None, seeds: Iterable[int] | None
    ) -> Grid:
        """The benchmark's own grid, with what is given in the place of its own."""
        names = known(tables or self.grid.tables, dict.fromkeys(self.grid.tables))
        masks = tuple(map(mechanism_and_rate, mechanisms)) if mechanisms else self.grid.mechanisms
        return Grid(tuple(names), masks, tuple(seeds or self.grid.seeds))

    def main(self, arguments: list[str]) -> None:
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {self.name}")
        parser.add_argument("--tables", nargs="+", choices=list(self.grid.tables))
        parser.add_argument("--mechanisms", nargs="+", metavar="NAME+RATE", help="mcar0.5 mar0.3 …")
        parser.add_argument("--seeds", type=int, nargs="+")
        o, kept, processes = with_options(parser, arguments, self.out, self.methods, self.limit)
        grid = self.grid_of(o.tables, o.mechanisms, o.seeds)
        self.run(kept, processes, grid, o.methods, lambda text: print(text, flush=True))


def with_options(
    parser: argparse.ArgumentParser, arguments: list[str], out: Path, methods: Mapping[str, Any], limit: float
) -> tuple[argparse.Namespace, Kept, Processes]:
    """The options that all these benchmarks have, beside the parser's own."""
    parser.add_argument("--out", type=Path, default=out)
    parser.add_argument("--methods", nargs="+", default=list(methods), choices=list(methods))
    parser.add_argument("--limit", type=float, default=limit, help="seconds a run may take")
    parser.add_argument("--threads", type=int, default=Processes.threads, help="of each run")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where `make peers` put them")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    o = parser.parse_args(arguments)
    return o, Kept(o.out, o.again, o.force), Processes(o.limit, o.threads, o.environments)


def known(names: Iterable[str], among: Mapping[str, Any]) -> list[str]:
    """
    >>> known(["b", "c"], {"a": 1, "b": 2})
    Traceback (most recent call last):
    ValueError: there is no c; there are a, b
    """
    names = list(names)
    if strange := [name for name in names if name not in among]:
        raise ValueError(f"there is no {', '.join(strange)}; there are {', '.join(among)}")
    return names


def ready(method: Any, processes: Processes) -> bool:
    return not isinstance(method, Method) or processes.python(method.environment).exists()


def outcome(row: Row, in_words: Callable[[Row], str]) -> str:
    if row["status"] == "timed out":
        return f"timed out at {row['limit']:.0f} s"
    return f"failed: {row['error']}" if row["status"] == "failed" else in_words(row)
