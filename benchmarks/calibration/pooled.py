"""Inference pooled over draws where the outcome and covariates are missing in the same rows, beside R's mice.

Two analyses, of rows that are simulated again and again: the slope of y on x, where z, which is always seen, tells of
both; and a regression on four numbers and a binary level. Cells are missing completely at random, or more
likely the higher, or lower, a column that is always seen. A row is one batch of repeats by one method.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.calibration.rubin import (
    DRAWS,
    REPEATS,
    Direct,
    Rows,
    Sample,
    Validity,
    analysed,
    complete_rows,
    mean_filled,
    pooled,
    summary,
)
from benchmarks.peers.adapters.task import Task
from benchmarks.peers.grid import unanswered
from benchmarks.processes import Method, Processes, r_with_mice
from benchmarks.runs import Benchmark, Job, known
from benchmarks.store import Row

BATCH = 20  # repeats of a row
MECHANISMS = ("mcar", "mar")
R = "mice_r_draws.py"


class Analysis(NamedTuple):
    """Columns are simulated with the outcome last; the regression is of it on those of `analysed` before it."""

    names: tuple[str, ...]
    binary: tuple[str, ...]
    rows: int
    analysed: tuple[str, ...]
    truth: tuple[float, ...]  # intercept and slopes
    simulate: Callable[[np.random.Generator, int], Rows]
    driver: str  # the column that missingness depends on, always seen
    blocks: tuple[tuple[tuple[str, ...], float, float], ...]  # columns missing together: how often, and how it depends

    def sample(self, mechanism: str, repeat: int) -> Sample:
        rng = np.random.default_rng([21, list(ANALYSES.values()).index(self), MECHANISMS.index(mechanism), repeat])
        whole = self.simulate(rng, self.rows)
        given = whole.copy()
        for columns, rate, slope in self.blocks:
            log_odds = np.log(rate / (1 - rate)) + slope * (mechanism == "mar") * self.column(whole, self.driver)
            missing = rng.random(self.rows) < 1 / (1 + np.exp(-log_odds))
            given[np.ix_(missing, [self.names.index(name) for name in columns])] = np.nan
        return Sample(whole, given)

    def column(self, rows: Rows, name: str) -> NDArray[np.float64]:
        return rows[:, self.names.index(name)]

    def selected(self, rows: Rows) -> Rows:
        return np.stack([self.column(rows, name) for name in self.analysed], axis=1)

    def task(self, sample: Sample, seed: int) -> Task:
        discrete = np.isin(self.names, self.binary)
        return Task(sample.given, sample.given[:0], discrete, np.where(discrete, 2, 0), np.array(self.names), seed)


# --- the two


def _slope_rows(rng: np.random.Generator, n: int) -> Rows:
    z = rng.normal(size=n)
    x = 0.6 * z + 0.8 * rng.normal(size=n)
    return np.stack([z, x, 1 + 0.5 * x + 0.5 * z + rng.normal(size=n)], axis=1)


FIVE = (1.0, 0.5, -0.5, 0.3, 0.3, 0.6)  # intercept, x₁ … x₄, c


def _five_rows(rng: np.random.Generator, n: int) -> Rows:
    x = np.sqrt(0.4) * rng.normal(size=(n, 1)) + np.sqrt(0.6) * rng.normal(size=(n, 4))  # correlated by .4
    c = rng.random(n) < 1 / (1 + np.exp(-(x[:, 0] - 0.7 * x[:, 2])))
    covariates = np.column_stack([x, c])
    return np.column_stack([covariates, FIVE[0] + covariates @ FIVE[1:] + rng.normal(size=n)])


ANALYSES = {
    # without z in the regression, the slope of x stands for its part of z, too: .5 + .5 · cov(x, z) / var(x)
    "slope": Analysis(
        ("z", "x", "y"), (), 300, ("x", "y"), (1.0, 0.8), _slope_rows, "z",
        ((("x", "y"), 0.25, 1.0), (("x",), 0.1, 0.0), (("y",), 0.1, 0.0)),
    ),
    "five": Analysis(
        ("x1", "x2", "x3", "x4", "c", "y"), ("c",), 400, ("x1", "x2", "x3", "x4", "c", "y"), FIVE, _five_rows, "x4",
        ((("x1", "y"), 0.2, 1.0), (("x2", "c"), 0.2, -1.0), (("x3",), 0.1, 0.5)),
    ),
}  # fmt: skip


# --- methods and rows

#: Either the tables to analyse, at once, or the adapter that draws them. Of the others, R's mice with its defaults, and
#: with the regressions that the data were simulated by; levels are drawn by logistic regression in both.
METHODS: dict[str, Method | Direct] = {
    "nothing missing": lambda sample: [sample.whole],
    "complete rows": complete_rows,
    "mean": mean_filled,
    "vsae-fast": Method(None, "vsae_draws.py", ("fast", str(DRAWS))),
    "mice": Method(None, R, ("default", str(DRAWS)), r_with_mice),
    "mice-norm": Method(None, R, ("norm", str(DRAWS)), r_with_mice),
    "iterative": Method(None, "iterative_draws.py", (str(DRAWS),)),
    "vsae": Method(None, "vsae_draws.py", ("default", str(DRAWS))),
}
PEERS = ("mice", "mice-norm", "iterative")


def measured(job: Job, processes: Processes) -> Row:
    row = _measured(job, processes)
    for answer in row["estimates"] or ():
        answer |= {name: [float(f"{x:.4g}") for x in values] for name, values in answer.items()}  # files stay small
    return row


def _measured(job: Job, processes: Processes) -> Row:
    analysis, way = ANALYSES[job["analysis"]], METHODS[job["method"]]
    repeats = range(job["first"], job["first"] + BATCH)
    samples = [analysis.sample(job["mechanism"], repeat) for repeat in repeats]
    row = unanswered(job, processes, "estimates", "seconds", "memory_mb")
    row |= {"rows": analysis.rows, "draws": DRAWS if isinstance(way, Method) else 1}
    if not isinstance(way, Method):
        tables = [[analysis.selected(rows) for rows in way(sample)] for sample in samples]
        return row | {"estimates": [summary(pooled(each)) for each in tables]}
    tasks = [analysis.task(sample, repeat) for sample, repeat in zip(samples, repeats, strict=True)]
    return processes.answered(way, row, tasks, partial(analysed, selected=analysis.selected))


class Validities(NamedTuple):
    """Of the slopes of an analysis by one method."""

    repeats: int
    coverage: float  # mean over slopes
    bias: float  # of the slope that is farthest off, in standard errors
    width: float  # mean over slopes
    lowest: float  # coverage of one slope

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Validities:
        truth = ANALYSES[rows[0]["analysis"]].truth
        found = [Validity.of(rows, coefficient, truth[coefficient]) for coefficient in range(1, len(truth))]
        return cls(
            found[0].repeats,
            float(np.mean([one.coverage for one in found])),
            max((one.bias / one.std_error for one in found), key=abs),
            float(np.mean([one.width for one in found])),
            min(one.coverage for one in found),
        )


def in_words(row: Row) -> str:
    found = Validities.of([row])
    numbers = f"coverage {found.coverage:.3f}, bias {found.bias:+.2f} se, width {found.width:.3f}"
    return f"{numbers}, {row['seconds'] or 0:.0f} s"


BENCHMARK = Benchmark(
    "pooled", ("analysis", "mechanism", "method", "first"), measured, in_words, limit=1800.0, split="analysis"
)


def jobs(methods: Iterable[str] | None = None, repeats: int = REPEATS) -> list[Job]:
    wanted = known(methods or METHODS, METHODS, "method")
    return [
        {"analysis": analysis, "mechanism": mechanism, "method": method, "first": first}
        for method in METHODS
        if method in wanted
        for analysis, mechanism, first in itertools.product(ANALYSES, MECHANISMS, range(0, repeats, BATCH))
    ]


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("pooled", __doc__)
    options.several(parser, "--methods", "The methods. Default: all.", METHODS)
    options.add_repeats(parser, REPEATS)
    options.add_run_options(parser, BENCHMARK, peers=True)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, jobs(o.methods, o.repeats))
