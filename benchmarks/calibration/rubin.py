"""`vsae bench rubin`: does a 95 % interval of a regression, pooled over draws, cover the truth as often as it says?

Rows of y = β₀ + β₁ x₁ + β₂ x₂ + e with correlated x are simulated again and again. Of x₁ about a third goes missing,
the more likely the higher x₂ and y: missing at random, but a regression on the complete rows is biased. One batch of
repeats by one method becomes one JSON row.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.adapters.task import Task
from benchmarks.peers.bench import Kept, Report, Row, known, outcome, ready, with_options
from benchmarks.peers.processes import Method, Processes, machine, one_line
from vsae.evaluation.pooling import Pooled, pool

Rows = NDArray[np.float64]
BETA = (1.0, 0.5, 0.5)  # β₀, β₁, β₂
ROWS, DRAWS, REPEATS, BATCH = 300, 20, 200, 50
OUT, LIMIT = Path("results/rubin"), 1800.0  # seconds a batch may take
CORRELATION = 0.6
HOLES = (-1.08, 0.5, 1.5)  # P(x₁ missing) = sigmoid of these on (1, x₂, y - β₀): 35 % on average


class Sample(NamedTuple):
    """Columns x₁, x₂, y: as they are, and with holes in x₁."""

    whole: Rows
    given: Rows


def simulate(repeat: int) -> Sample:
    rng = np.random.default_rng([20, repeat])
    x2 = rng.normal(size=ROWS)
    x1 = CORRELATION * x2 + np.sqrt(1 - CORRELATION**2) * rng.normal(size=ROWS)
    y = BETA[0] + BETA[1] * x1 + BETA[2] * x2 + rng.normal(size=ROWS)
    logit = HOLES[0] + HOLES[1] * x2 + HOLES[2] * (y - BETA[0])
    whole = np.stack([x1, x2, y], axis=1)
    given = whole.copy()
    given[rng.random(ROWS) < 1 / (1 + np.exp(-logit)), 0] = np.nan
    return Sample(whole, given)


# --- one regression, and several pooled


class Regression(NamedTuple):
    coefficients: NDArray[np.float64]  # (3,)
    variances: NDArray[np.float64]  # (3,)


def regress(rows: Rows) -> Regression:
    """Ordinary least squares of y on x₁ and x₂."""
    design, y = np.column_stack([np.ones(len(rows)), rows[:, :2]]), rows[:, 2]
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ y
    residual = y - design @ coefficients
    return Regression(coefficients, np.diag(inverse) * (residual @ residual) / (len(rows) - 3))


def pooled(tables: Sequence[Rows]) -> Pooled:
    """Rubin's rules; the degrees of freedom are Barnard and Rubin's. A single table is its own answer, twice over."""
    fits = [regress(rows) for rows in (tables if len(tables) > 1 else [*tables, *tables])]
    return pool([f.coefficients for f in fits], [f.variances for f in fits], dfcom=len(tables[0]) - 3)


# --- methods


def complete_rows(sample: Sample) -> list[Rows]:
    return [sample.given[~np.isnan(sample.given).any(axis=1)]]


def mean_filled(sample: Sample) -> list[Rows]:
    return [np.where(np.isnan(sample.given), np.nanmean(sample.given, axis=0), sample.given)]


Direct = Callable[[Sample], list[Rows]]

#: Either the tables to analyse, at once, or the adapter that draws them.
METHODS: dict[str, Method | Direct] = {
    "no holes": lambda sample: [sample.whole],
    "complete rows": complete_rows,
    "mean": mean_filled,
    "vsae-fast": Method(None, "vsae_draws.py", ("fast", str(DRAWS))),
    "miceforest": Method("miceforest", "miceforest_draws_.py", (str(DRAWS),)),
    "vsae": Method(None, "vsae_draws.py", ("default", str(DRAWS))),
}


def one(kept: Kept, processes: Processes, method: str, first: int) -> str:
    """One batch of repeats, unless its row is there; a line about it."""
    name = f"{method}-{first}"
    begin = f"{method:<14} repeats {first} to {first + BATCH - 1}:"
    if (there := kept.row(name)) is not None:
        return f"{begin} {outcome(there, in_words)} (there)"
    if not ready(METHODS[method], processes):
        return f"{begin} no environment; run `make peers`"
    row = measured(method, range(first, first + BATCH), processes)
    kept.keep(name, row)
    return f"{begin} {outcome(row, in_words)}"


def measured(method: str, repeats: range, processes: Processes) -> Row:
    way = METHODS[method]
    row: Row = {
        "method": method, "first": repeats[0], "status": "ok", "error": None, "estimates": None, "seconds": None,
        "memory_mb": None, "rows": ROWS, "draws": DRAWS if isinstance(way, Method) else 1, "version": None,
        "threads": processes.threads, "limit": processes.limit, "machine": machine(),
    }  # fmt: skip
    if not isinstance(way, Method):
        return row | {"estimates": [summary(pooled(way(simulate(repeat)))) for repeat in repeats]}
    with tempfile.TemporaryDirectory() as parent:
        folders = [Path(parent, str(repeat)) for repeat in repeats]
        for folder, repeat in zip(folders, repeats, strict=True):
            folder.mkdir()
            task_of(simulate(repeat), repeat).write(folder)
        row |= processes.call(way, *folders)
        if row["status"] != "ok":
            return row
        try:
            return row | analysed(folders)
        except (OSError, KeyError, ValueError) as error:
            return row | {"status": "failed", "error": one_line(f"{type(error).__name__}: {error}")}


def task_of(sample: Sample, seed: int) -> Task:
    nothing = np.zeros(3, dtype=int)
    return Task(sample.given, sample.given[:0], nothing > 0, nothing, np.array(["x1", "x2", "y"]), seed)


def analysed(folders: Iterable[Path]) -> dict[str, Any]:
    """What the draws in these folders add to a row."""
    estimates, seconds, version = [], 0.0, None
    for folder in folders:
        said = json.loads((folder / "drawn.json").read_text())
        seconds, version = seconds + said["seconds"], said["version"]
        with np.load(folder / "drawn.npz") as file:
            estimates.append(summary(pooled(file["train"].astype(float))))
    return {"estimates": estimates, "seconds": seconds, "version": version}


def summary(answer: Pooled) -> dict[str, list[float]]:
    """For β₀, β₁, β₂ the estimate, its standard error and the 95 % interval."""
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

    @classmethod
    def of(cls, rows: Iterable[Row], coefficient: int = 1) -> Validity:
        answers = [answer for row in rows for answer in row["estimates"] or ()]
        parts = ("estimate", "low", "high")
        estimate, low, high = (np.array([answer[name][coefficient] for answer in answers]) for name in parts)
        truth = BETA[coefficient]
        return cls(
            len(answers),
            float(((low <= truth) & (truth <= high)).mean()),
            float(estimate.mean() - truth),
            float((high - low).mean()),
            float(np.sqrt(((estimate - truth) ** 2).mean())),
        )


def run(
    kept: Kept, processes: Processes, methods: Iterable[str], repeats: int = REPEATS, report: Report = print
) -> None:
    wanted = known(methods, METHODS)
    for method in METHODS:
        for first in range(0, repeats, BATCH) if method in wanted else ():
            report(one(kept, processes, method, first))


def in_words(row: Row) -> str:
    found = Validity.of([row])
    return (
        f"coverage {found.coverage:.3f}, bias {found.bias:+.3f}, width {found.width:.3f}, {row['seconds'] or 0:.0f} s"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rubin", description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    o, kept, processes = with_options(parser, arguments, OUT, METHODS, LIMIT)
    run(kept, processes, o.methods, o.repeats, lambda text: print(text, flush=True))
