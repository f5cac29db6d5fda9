"""What is compared on what: a task is a table, a way to lose cells, and a seed; all methods get the same task."""

from __future__ import annotations

import argparse
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, options
from benchmarks.peers.adapters import task as exchange
from benchmarks.processes import Processes, machine
from benchmarks.runs import Benchmark, Job, known
from benchmarks.store import Row
from vsae import Schema
from vsae.data.missingness import Mechanism, SelfMasking, by_name
from vsae.data.schema import DISCRETE
from vsae.evaluation.metrics import mean_mode

NEW_SHARE = 0.2  # of the rows, which no method sees before it is fitted


@dataclass(frozen=True)
class Task:
    """One mask of one table. The rate of `self` only names the task: its own follows from the data."""

    table: str
    mechanism: str
    rate: float
    seed: int

    @classmethod
    def of(cls, job: Job) -> Task:
        return cls(job["table"], job["mechanism"], job["rate"], job["seed"])

    def make(self) -> TaskData:
        return TaskData.of(data.load(self.table), mechanism=self.mechanism, rate=self.rate, seed=self.seed)


@dataclass(frozen=True)
class TaskData:
    """The truth of a task and its masks, True = observed, (n, attributes)."""

    seed: int
    train: data.Rows
    train_mask: NDArray[np.bool_]
    new: data.Rows
    new_mask: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: data.Rows, mechanism: str, rate: float, seed: int) -> TaskData:
        return cls.hidden_by(rows, mechanism_of(mechanism, rate, rows.schema), seed)

    @classmethod
    def hidden_by(cls, rows: data.Rows, mechanism: Mechanism, seed: int) -> TaskData:
        """Rows shuffled and split, masks drawn for all of them; all from the seed and the name of the table."""
        rng = np.random.default_rng([seed, zlib.crc32(rows.name.encode())])
        order = rng.permutation(len(rows))
        mask = rows.hide(mechanism, rng)
        train, new = np.split(order, [len(rows) - round(NEW_SHARE * len(rows))])
        return cls(seed, rows.take(train), mask[train], rows.take(new), mask[new])

    def given(self) -> exchange.Task:
        """What a method is told: no value of a hidden cell, and no more of a column than its levels."""
        variables = self.train.schema.variables
        discrete = np.array([v.family in DISCRETE for v in variables])
        return exchange.Task(
            train=_incomplete(self.train, self.train_mask),
            new=_incomplete(self.new, self.new_mask),
            discrete=discrete,
            levels=np.where(discrete, [v.size for v in variables], 0),
            names=np.array([v.name for v in variables]),
            seed=self.seed,
        )

    def errors(self, train: NDArray[np.float64]) -> dict[str, float]:
        """In sample: the hidden cells of the rows a method was fitted on."""
        return _finite(data.errors(self.train, self.train_mask, _columns(self.train, train)))

    def errors_new(self, new: NDArray[np.float64]) -> dict[str, float]:
        """On new rows; mean and mode, too, are those of the training rows."""
        discrete = np.array([v.family in DISCRETE for v in self.train.schema.variables])
        centre = mean_mode(self.train.matrix(), _of_variables(self.train.schema, self.train_mask), discrete)
        return _finite(data.errors(self.new, self.new_mask, _columns(self.new, new), centre))


@dataclass(frozen=True)
class Grid:
    tables: tuple[str, ...]
    mechanisms: tuple[tuple[str, float], ...]
    seeds: tuple[int, ...]

    def tasks(self) -> Iterator[Task]:
        """Seed by seed and mechanism by mechanism, so that a run cut short is a smaller benchmark, not half of one."""
        for seed, (mechanism, rate), table in itertools.product(self.seeds, self.mechanisms, self.tables):
            if mechanism != "self" or _numbers(data.load(table).schema):
                yield Task(table, mechanism, rate, seed)


CORE = Grid(
    ("breast_cancer", "whitewine", "yeast", "concrete", "mushroom", "phishing", "german_credit", "adult"),
    (("mcar", 0.5), ("mar", 0.3), ("nmar", 0.3)),
    (11, 12),
)
FULL = Grid(
    data.NAMES,
    (("mcar", 0.3), ("mcar", 0.5), ("mcar", 0.7), ("mar", 0.3), ("nmar", 0.3), ("self", 0.3)),
    (11, 12, 13),
)
GRIDS = {"core": CORE, "full": FULL}
KEY = ("table", "mechanism", "rate", "seed", "method")


def plan(grid: Grid, methods: Mapping[str, Any], wanted: Iterable[str] | None = None) -> list[Job]:
    """Every task by every method that is wanted: mask by mask, and in the order of the methods."""
    names = known(wanted or methods, methods, "method")
    batches: dict[tuple[int, str, float], list[Task]] = {}
    for task in grid.tasks():
        batches.setdefault((task.seed, task.mechanism, task.rate), []).append(task)
    return [
        {**asdict(task), "method": method}
        for tasks in batches.values()
        for method in methods
        if method in names
        for task in tasks
    ]


def unanswered(job: Job, processes: Processes, *fields: str) -> Row:
    """The row of a job before its run: how it is run, and None for what it may say."""
    return {
        **job, "status": "ok", "error": None, **dict.fromkeys(fields), "version": None, "threads": processes.threads,
        "limit": processes.limit, "machine": machine(),
    }  # fmt: skip


def add_grid_options(
    parser: argparse.ArgumentParser, tables: Iterable[str], methods: Iterable[str] | None, grid: Grid | None = None,
    run_by_default: str = "all",
) -> None:  # fmt: skip
    """`grid` is the one that is taken where the options do not say, if there is no choice of grids."""
    defaults = ["Default: those of the grid."] * 3
    if grid is not None:
        masks = " ".join(f"{mechanism}{rate}" for mechanism, rate in grid.mechanisms)
        defaults = [f"Default: {value}." for value in ("all", masks, " ".join(map(str, grid.seeds)))]
    how = f"How cells go missing, and at what rate, such as nmar0.3 or self0.3. {defaults[1]}"
    options.several(parser, "--tables", f"The tables. {defaults[0]}", tables)
    options.several(parser, "--mechanisms", how, type=options.usage(mechanism_and_rate), metavar="NAME+RATE")
    options.several(parser, "--seeds", f"The seeds of splits and masks. {defaults[2]}", type=int, metavar="SEED")
    if methods is not None:
        options.several(parser, "--methods", f"The methods. Default: {run_by_default}.", methods)


def run_grid(
    arguments: Sequence[str], benchmark: Benchmark, description: str | None, grid: Grid, methods: Mapping[str, Any]
) -> None:
    """What a benchmark does that has one grid and no options of its own."""
    parser = options.parser_of(benchmark.name, description)
    add_grid_options(parser, grid.tables, methods, grid)
    options.add_run_options(parser, benchmark, peers=True)
    o = parser.parse_args(arguments)
    options.run_with(o, benchmark, plan(grid_of(grid, o), methods, o.methods))


def grid_of(grid: Grid, o: argparse.Namespace) -> Grid:
    """A grid, with the options that are given in the place of its own values."""
    return Grid(tuple(o.tables or grid.tables), tuple(o.mechanisms or grid.mechanisms), tuple(o.seeds or grid.seeds))


def mechanism_and_rate(text: str) -> tuple[str, float]:
    """
    >>> mechanism_and_rate("mcar0.5")
    ('mcar', 0.5)
    """
    match = re.fullmatch(r"([a-z-]+?)(\d*\.?\d+)", text)
    if match is None:
        raise ValueError(f"{text!r} is no mechanism with a rate; write mcar0.5, mar0.3, nmar0.3 or self0.3")
    by_name(match[1], float(match[2]))
    return match[1], float(match[2])


def mechanism_of(name: str, rate: float, schema: Schema) -> Mechanism:
    """Self-masking is of numbers: above the mean says nothing of a code. The first half of them hide, one at least."""
    if name != "self":
        return by_name(name, rate)
    numbers = _numbers(schema)
    return SelfMasking(tuple(numbers[: max(1, len(numbers) // 2)]))


def _numbers(schema: Schema) -> list[int]:
    """The variables that are numbers; of an attribute with several variables, the first speaks for it."""
    first = {schema.attribute_of[v.name]: j for j, v in reversed(list(enumerate(schema.variables)))}
    return [j for j in sorted(first.values()) if schema.variables[j].family not in DISCRETE]


def _of_variables(schema: Schema, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return mask[:, [schema.attribute_of[v.name] for v in schema.variables]]


def _incomplete(rows: data.Rows, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(_of_variables(rows.schema, mask), rows.matrix(), np.nan)


def _columns(rows: data.Rows, x: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    return {v.name: x[:, j] for j, v in enumerate(rows.schema.variables)}


def _finite(errors: dict[str, float]) -> dict[str, float]:
    """Without what could not be scored, such as PFC where only numbers hide."""
    return {name: value for name, value in errors.items() if np.isfinite(value)}
