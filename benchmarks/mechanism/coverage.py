"""Does a 95 % interval of the mean of a column that masks itself cover the truth, pooled over draws?

Tables are simulated again and again: four correlated normals, of which one hides its high values, and the clinic with
its incomes. A row is one batch of repeats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.markup import markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.processes import machine
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae import Schema, fit, pool
from vsae.data.schema import real
from vsae.datasets import make_clinic
from vsae.fitting.presets import Effort, config_for
from vsae.mechanism.choice import Mechanism, tilts_of

DRAWS, REPEATS, BATCH = 20, 100, 4
ROWS = {"gaussian": 500, "clinic": 1000}
CORRELATION, SLOPE, INTERCEPT = 0.6, 1.5, -0.6  # of the normals; log odds that the first is missing: 38 % are
MANY = 500_000  # rows from which the truth of the clinic is computed
EFFORTS: dict[Effort, str] = {"fast": "vsae-fast", "default": "vsae"}
DEFAULT = "default"
WHOLE, OBSERVED = "nothing missing", "observed cells"
ANSWERS = ("ignorable", "auto", "given")
IN_WORDS = {"auto": "by itself", "given": "direction given"}
SHOWN = (WHOLE, OBSERVED, *ANSWERS)
LEAST_COVERED, MOST_OF_IGNORABLE = 0.9, 0.2  # asked


class Sample(NamedTuple):
    """A table with missing cells, the column whose mean is asked for, and all of its values."""

    schema: Schema
    columns: dict[str, NDArray[Any]]
    mask: NDArray[np.bool_]
    column: str
    whole: NDArray[np.float64]


def simulate(table: str, repeat: int) -> Sample:
    if table == "clinic":
        clinic = make_clinic(ROWS[table], seed=1000 + repeat)
        return Sample(clinic.schema, dict(clinic.incomplete), clinic.mask, "income", clinic.truth["income"])
    rng = np.random.default_rng([18, repeat])
    shape = ROWS[table], 4
    x = np.sqrt(CORRELATION) * rng.normal(size=(shape[0], 1)) + np.sqrt(1 - CORRELATION) * rng.normal(size=shape)
    mask = np.ones(shape, dtype=bool)
    mask[:, 0] = rng.random(shape[0]) >= 1 / (1 + np.exp(-INTERCEPT - SLOPE * x[:, 0]))
    columns = {f"x{j}": np.where(mask[:, j], x[:, j], np.nan) for j in range(4)}
    return Sample(Schema([real(name) for name in columns]), columns, mask, "x0", x[:, 0])


def truth_of(table: str) -> float:
    return float(make_clinic(MANY, seed=1).truth["income"].mean()) if table == "clinic" else 0.0


class Answer(NamedTuple):
    estimate: float
    low: float
    high: float


def pooled_mean(tables: Sequence[NDArray[np.float64]]) -> Answer:
    """By Rubin's rules; a single table is its own answer, twice over."""
    tables = tables if len(tables) > 1 else [*tables, *tables]
    n = len(tables[0])
    answer = pool([x.mean() for x in tables], [x.var(ddof=1) / n for x in tables], dfcom=n - 1)
    return Answer(float(answer.estimate), *map(float, answer.interval))


def answers_to(sample: Sample, effort: Effort, seed: int) -> tuple[dict[str, Answer], bool]:
    """By way of answering; and whether `auto` takes the column for self-masking."""
    schema, columns, mask, column, whole = sample
    config = config_for(schema, len(mask), effort)
    fitted = fit(schema, columns, mask, config, mechanism="ignorable", seed=seed)
    seen = mask[:, schema.attribute_of[column]]
    out, on = {WHOLE: pooled_mean([whole]), OBSERVED: pooled_mean([whole[seen]])}, False
    said: dict[str, Mechanism] = {"ignorable": "ignorable", "auto": "auto", "given": {column: "+"}}
    for answer in ANSWERS:
        fitted.tilts = tilts_of(fitted, columns, mask, said[answer], seed)
        out[answer] = pooled_mean([np.asarray(drawn[column]) for drawn in fitted.draw(columns, mask, DRAWS, seed=seed)])
        on = column in {*fitted.tilts.numbers, *fitted.tilts.thresholds} if answer == "auto" else on
    return out, on


def measured(table: str, effort: Effort, first: int) -> Row:
    found = [answers_to(simulate(table, repeat), effort, repeat) for repeat in range(first, first + BATCH)]
    return {
        "table": table, "effort": effort, "first": first, "truth": truth_of(table),
        "on": [on for _, on in found], "machine": machine(),
        "answers": {name: [list(answers[name]) for answers, _ in found] for name in SHOWN},
    }  # fmt: skip


class Validity(NamedTuple):
    """Of the intervals of one way of answering, over all repeats."""

    repeats: int
    coverage: float
    bias: float
    width: float

    @classmethod
    def of(cls, rows: Iterable[Row], answer: str) -> Validity | None:
        answers = np.array([(*one, row["truth"]) for row in rows for one in row["answers"][answer]], dtype=float)
        if not len(answers):
            return None
        estimate, low, high, truth = answers.T
        covered = (low <= truth) & (truth <= high)
        return cls(len(answers), float(covered.mean()), float((estimate - truth).mean()), float((high - low).mean()))


def in_words(row: Row) -> str:
    found = {name: Validity.of([row], name) for name in SHOWN}
    return "covered " + ", ".join(f"{name} {one.coverage:.2f}" for name, one in found.items() if one)


BENCHMARK = Benchmark("self-masked-mean", ("table", "effort", "first"), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of(BENCHMARK.name, __doc__)
    options.several(parser, "--tables", "Default: all.", ROWS)
    options.several(parser, "--efforts", "Default: all.", EFFORTS)
    parser.add_argument(
        "--repeats", type=options.at_least_one, default=REPEATS,
        help=f"How many tables to simulate. Default: {REPEATS}.",
    )  # fmt: skip
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    parts = o.efforts or EFFORTS, range(0, o.repeats, BATCH), o.tables or ROWS
    options.run_with(
        o, BENCHMARK, [{"table": t, "effort": e, "first": first} for e, first, t in itertools.product(*parts)]
    )


# --- its part of docs/mechanism.md


def picked(rows: Iterable[Row], table: str, effort: str) -> list[Row]:
    return [row for row in rows if (row["table"], row["effort"]) == (table, effort)]


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## The mean of a column that masks itself\n\nNot run."
    lines = []
    for table, effort in itertools.product(ROWS, EFFORTS):
        runs = picked(rows, table, effort)
        on = [one for row in runs for one in row["on"]]
        for answer in SHOWN:
            found = Validity.of(runs, answer)
            if found is not None:
                switched = f"{np.mean(on):.2f}" if answer == "auto" else "–"
                lines.append(
                    [f"{table}, {EFFORTS[effort]}, {answer}", found.repeats, f"{found.coverage:.2f}",
                     f"{found.bias:+.4g}", f"{found.width:.4g}", switched]
                )  # fmt: skip
    return "\n\n".join(
        (
            "## The mean of a column that masks itself",
            paragraph(
                f"95 % intervals, pooled over {DRAWS} draws. gaussian: {ROWS['gaussian']} rows of four normals with",
                f"correlations of {CORRELATION}; the first is missing with log odds {INTERCEPT} + {SLOPE} x. clinic:",
                f"{ROWS['clinic']:,} rows, and its income; the truth is the mean of {MANY:,} simulated rows.",
                "`given`: the model is told that high values of the column hide.",
            ),
            markdown(["table, method, answer", "repeats", "covered", "bias", "width", "switched on"], lines),
        )
    )


def verdicts(results: Path) -> list[Verdict]:
    rows = BENCHMARK.rows(results)
    out = []
    for table, answer in itertools.product(ROWS, ("auto", "given")):
        runs = picked(rows, table, DEFAULT)
        ours, ignorable = Validity.of(runs, answer), Validity.of(runs, "ignorable")
        if ours is None or ignorable is None:
            continue
        out.append(
            Verdict(
                f"{table}, {IN_WORDS[answer]}: the mean is covered in ≥ {LEAST_COVERED:.0%} of the repeats, "
                f"by ignorable in < {MOST_OF_IGNORABLE:.0%}",
                f"{ours.coverage:.0%} of {ours.repeats}, ignorable {ignorable.coverage:.0%}",
                ours.coverage >= LEAST_COVERED and ignorable.coverage < MOST_OF_IGNORABLE,
            )
        )
    return out
