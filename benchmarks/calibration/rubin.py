"""Does a 95 % interval of a regression, pooled over draws, cover the truth as often as it says?

Rows of y = β₀ + β₁ x₁ + β₂ x₂ + e with correlated x are simulated again and again. Of x₁ about a third goes missing,
the more likely the higher x₂ and y: missing at random, but a regression on the complete rows is biased. A row
is one batch of repeats by one method.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.peers.adapters.task import Task
from benchmarks.peers.grid import unanswered
from benchmarks.processes import Method, Processes
from benchmarks.runs import Benchmark, Job, known
from benchmarks.store import Row
from vsae import Pooled, pool

Rows = NDArray[np.float64]
BETA = (1.0, 0.5, 0.5)  # β₀, β₁, β₂
ROWS, DRAWS, REPEATS, BATCH = 300, 20, 200, 50
CORRELATION = 0.6
MISSING = (-1.08, 0.5, 1.5)  # P(x₁ missing) = sigmoid of these on (1, x₂, y - β₀): 35 % on average


class Sample(NamedTuple):
    """Columns x₁, x₂, y: as they are, and with x₁ missing in some rows."""

    whole: Rows
    given: Rows


def simulate(repeat: int) -> Sample:
    rng = np.random.default_rng([20, repeat])
    x2 = rng.normal(size=ROWS)
    x1 = CORRELATION * x2 + np.sqrt(1 - CORRELATION**2) * rng.normal(size=ROWS)
    y = BETA[0] + BETA[1] * x1 + BETA[2] * x2 + rng.normal(size=ROWS)
    logit = MISSING[0] + MISSING[1] * x2 + MISSING[2] * (y - BETA[0])
    whole = np.stack([x1, x2, y], axis=1)
    given = whole.copy()
    given[rng.random(ROWS) < 1 / (1 + np.exp(-logit)), 0] = np.nan
    return Sample(whole, given)


# --- one regression, and several pooled


class Regression(NamedTuple):
    coefficients: NDArray[np.float64]  # the intercept first
    variances: NDArray[np.float64]


def regress(rows: Rows) -> Regression:
    """Ordinary least squares of the last column on the others."""
    design, y = np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1]
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ y
    residual = y - design @ coefficients
    return Regression(coefficients, np.diag(inverse) * (residual @ residual) / (len(rows) - design.shape[1]))


def pooled(tables: Sequence[Rows]) -> Pooled:
    """Rubin's rules; the degrees of freedom are Barnard and Rubin's. A single table is its own answer, twice over."""
    fits = [regress(rows) for rows in (tables if len(tables) > 1 else [*tables, *tables])]
    return pool([f.coefficients for f in fits], [f.variances for f in fits], dfcom=len(tables[0]) - tables[0].shape[1])


# --- methods


def complete_rows(sample: Sample) -> list[Rows]:
    return [sample.given[~np.isnan(sample.given).any(axis=1)]]


def mean_filled(sample: Sample) -> list[Rows]:
    return [np.where(np.isnan(sample.given), np.nanmean(sample.given, axis=0), sample.given)]


Direct = Callable[[Sample], list[Rows]]

#: Either the tables to analyse, at once, or the adapter that draws them.
METHODS: dict[str, Method | Direct] = {
    "nothing missing": lambda sample: [sample.whole],
    "complete rows": complete_rows,
    "mean": mean_filled,
    "vsae-fast": Method(None, "vsae_draws.py", ("fast", str(DRAWS))),
    "miceforest": Method("miceforest", "miceforest_draws_.py", (str(DRAWS),)),
    "vsae": Method(None, "vsae_draws.py", ("default", str(DRAWS))),
}


def measured(job: Job, processes: Processes) -> Row:
    way, repeats = METHODS[job["method"]], range(job["first"], job["first"] + BATCH)
    row = unanswered(job, processes, "estimates", "seconds", "memory_mb")
    row |= {"rows": ROWS, "draws": DRAWS if isinstance(way, Method) else 1}
    if not isinstance(way, Method):
        return row | {"estimates": [summary(pooled(way(simulate(repeat)))) for repeat in repeats]}
    return processes.answered(way, row, [task_of(simulate(repeat), repeat) for repeat in repeats], analysed)


def task_of(sample: Sample, seed: int) -> Task:
    nothing = np.zeros(3, dtype=int)
    return Task(sample.given, sample.given[:0], nothing > 0, nothing, np.array(["x1", "x2", "y"]), seed)


def analysed(*folders: Path, selected: Callable[[Rows], Rows] = lambda rows: rows) -> Row:
    """What the draws in these folders add to a row; some columns may be `selected` for the regression."""
    estimates, seconds, version = [], 0.0, None
    for folder in folders:
        said = json.loads((folder / "drawn.json").read_text())
        seconds, version = seconds + said["seconds"], said["version"]
        with np.load(folder / "drawn.npz") as file:
            estimates.append(summary(pooled([selected(rows) for rows in file["train"].astype(float)])))
    return {"estimates": estimates, "seconds": seconds, "version": version}


def summary(answer: Pooled) -> dict[str, list[float]]:
    """For each coefficient the estimate, its standard error and the 95 % interval."""
    low, high = answer.interval
    parts = {"estimate": answer.estimate, "std_error": answer.std_error, "low": low, "high": high}
    return {name: [float(x) for x in values] for name, values in parts.items()}


class Validity(NamedTuple):
    """Of one coefficient's intervals over all repeats."""

    repeats: int
    coverage: float
    bias: float
    width: float
    error: float  # root mean square
    std_error: float  # mean of those that are stated

    @classmethod
    def of(cls, rows: Iterable[Row], coefficient: int = 1, truth: float | None = None) -> Validity:
        """`truth` is that of this simulation if none is given."""
        answers = [answer for row in rows for answer in row["estimates"] or ()]
        parts = ("estimate", "std_error", "low", "high")
        estimate, std_error, low, high = (np.array([answer[name][coefficient] for answer in answers]) for name in parts)
        truth = BETA[coefficient] if truth is None else truth
        return cls(
            len(answers),
            float(((low <= truth) & (truth <= high)).mean()),
            float(estimate.mean() - truth),
            float((high - low).mean()),
            float(np.sqrt(((estimate - truth) ** 2).mean())),
            float(std_error.mean()),
        )


def in_words(row: Row) -> str:
    found = Validity.of([row])
    return (
        f"coverage {found.coverage:.3f}, bias {found.bias:+.3f}, width {found.width:.3f}, {row['seconds'] or 0:.0f} s"
    )


BENCHMARK = Benchmark("rubin", ("method", "first"), measured, in_words, limit=1800.0)


def jobs(methods: Iterable[str] | None = None, repeats: int = REPEATS) -> list[Job]:
    wanted = known(methods or METHODS, METHODS, "method")
    return [{"method": m, "first": first} for m in METHODS if m in wanted for first in range(0, repeats, BATCH)]


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("rubin", __doc__)
    options.several(parser, "--methods", "The methods. Default: all.", METHODS)
    options.add_repeats(parser, REPEATS)
    options.add_run_options(parser, BENCHMARK, peers=True)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, jobs(o.methods, o.repeats))
