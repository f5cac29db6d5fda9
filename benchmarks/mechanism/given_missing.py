"""Rows generated given that a column is missing, against the simulator's own: the hidden value, and all others.

Four correlated normals, of which one hides its high values, and the clinic, of whose columns three mask themselves. The
simulator knows the answer: of very many complete rows with masks, those that miss the column. A row is one fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.generation.fidelity import distance
from benchmarks.markup import all_values, listed, markdown, paragraph
from benchmarks.mechanism.coverage import CORRELATION, EFFORTS, INTERCEPT, SLOPE
from benchmarks.peers.readings import Verdict
from benchmarks.processes import machine
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae import FittedVSAE, Schema, fit
from vsae.data.schema import DISCRETE, real
from vsae.datasets import make_clinic
from vsae.fitting.presets import Effort, config_for
from vsae.mechanism.choice import Mechanism, tilts_of
from vsae.mechanism.mask_regressions import fit_mask_regressions

ROWS, SIMULATED, GENERATED, SEEDS = 2000, 300_000, 5000, (0, 1)
#: Table → attributes that are asked to be missing; and what a user may say of those that mask themselves.
MISSING: dict[str, tuple[str, ...]] = {"gaussian": ("x0",), "clinic": ("income", "smoker", "pain", "pressure")}
SAID: dict[str, Mechanism] = {"gaussian": {"x0": "+"}, "clinic": {"income": "+", "pain": "+"}}
ANSWERS = ("ignorable", "auto", "given")
TOLERANCE = 0.1  # asked
PARTS = {"pressure": ("systolic", "diastolic")}  # attributes of several variables


class Table(NamedTuple):
    schema: Schema
    columns: dict[str, NDArray[Any]]  # complete
    mask: NDArray[np.bool_]


def simulate(table: str, n: int, seed: int) -> Table:
    if table == "clinic":
        clinic = make_clinic(n, seed)
        return Table(clinic.schema, dict(clinic.truth), clinic.mask)
    rng = np.random.default_rng([181, seed])
    x = np.sqrt(CORRELATION) * rng.normal(size=(n, 1)) + np.sqrt(1 - CORRELATION) * rng.normal(size=(n, 4))
    mask = np.ones(x.shape, dtype=bool)
    mask[:, 0] = rng.random(n) >= 1 / (1 + np.exp(-INTERCEPT - SLOPE * x[:, 0]))
    columns = {f"x{j}": x[:, j] for j in range(4)}
    return Table(Schema([real(name) for name in columns]), columns, mask)


def measured(table: str, effort: Effort, seed: int) -> Row:
    """One fit, whose mechanism is changed; what is not observed is not read."""
    rows, truth = simulate(table, ROWS, seed), simulate(table, SIMULATED, 1000 + seed)
    config = config_for(rows.schema, ROWS, effort)
    fitted = fit(rows.schema, rows.columns, rows.mask, config, mechanism="ignorable", seed=seed)
    said: dict[str, Mechanism] = {"ignorable": "ignorable", "auto": "auto", "given": SAID[table]}
    answers = {}
    for answer in ANSWERS:
        fitted.tilts = tilts_of(fitted, rows.columns, rows.mask, said[answer], seed)
        fitted.mask_regressions = fit_mask_regressions(fitted, rows.columns, rows.mask, seed)
        answers[answer] = {name: _distances(fitted, truth, name, seed) for name in MISSING[table]}
    return {"table": table, "effort": effort, "seed": seed, "machine": machine(), "answers": answers}


def _distances(fitted: FittedVSAE, truth: Table, missing: str, seed: int) -> dict[str, list[float]]:
    """By variable: of generated rows to those of the simulator that miss the attribute, and of all of the simulator's
    to these."""
    met = ~truth.mask[:, truth.schema.names.index(missing)]
    rows, _ = fitted.generate(GENERATED, seed=seed, missing=[missing])
    out = {}
    for variable in truth.schema.variables:
        x = np.asarray(truth.columns[variable.name], dtype=np.float64)
        levels = variable.size if variable.family in DISCRETE else 0
        found = distance(x[met], np.asarray(rows[variable.name], dtype=np.float64), levels)
        out[variable.name] = [found, distance(x[met], x, levels)]
    return out


def in_words(row: Row) -> str:
    lines = []
    for missing in MISSING[row["table"]]:
        found = (f"{answer} {_worst([row], row['table'], answer, missing).found:.3f}" for answer in ANSWERS)
        lines.append(f"{missing} {', '.join(found)}")
    return "; ".join(lines)


BENCHMARK = Benchmark("given-missing", ("table", "effort", "seed"), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of(BENCHMARK.name, __doc__)
    options.several(parser, "--tables", "Default: all.", MISSING)
    options.several(parser, "--efforts", "Default: all.", EFFORTS)
    options.several(parser, "--seeds", f"Default: {' '.join(map(str, SEEDS))}.", type=int, metavar="SEED")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    parts = o.seeds or SEEDS, o.efforts or EFFORTS, o.tables or MISSING
    options.run_with(o, BENCHMARK, [{"table": t, "effort": e, "seed": s} for s, e, t in itertools.product(*parts)])


# --- its part of docs/mechanism.md


class Distance(NamedTuple):
    """Mean over seeds, of one column; `without`: of the simulator's rows without the condition."""

    column: str
    found: float
    without: float


def _columns(rows: Iterable[Row], table: str, answer: str, missing: str) -> Iterator[Distance]:
    found = [row["answers"][answer][missing] for row in rows if row["table"] == table]
    for column in found[0] if found else ():
        yield Distance(column, *(float(x) for x in np.mean([one[column] for one in found], axis=0)))


def _worst(rows: Iterable[Row], table: str, answer: str, missing: str) -> Distance:
    return max(_columns(rows, table, answer, missing), key=lambda d: d.found)


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## Given that a column is missing\n\nNot run."
    lines = []
    for (table, columns), effort in itertools.product(MISSING.items(), EFFORTS):
        runs = [row for row in rows if (row["table"], row["effort"]) == (table, effort)]
        for missing, answer in itertools.product(columns if runs else (), ANSWERS):
            own, others = _split(runs, table, answer, missing)
            worst = max(others, key=lambda d: d.found)
            lines.append(
                [f"{table}, {missing} missing, {EFFORTS[effort]}, {answer}", _text(own),
                 f"{np.mean([d.found for d in others]):.3f}", f"{_text([worst])} ({worst.column})"]
            )  # fmt: skip
    return "\n\n".join(
        (
            "## Given that a column is missing",
            paragraph(
                f"`sample(given={{column: MISSING}})` after a fit to {ROWS:,} rows with missing cells, {GENERATED:,}",
                "rows each, against the simulator's rows that miss the column, with what hides there: Kolmogorov and",
                "Smirnov's distance of numbers, total variation of levels. After the stroke what the simulator's rows",
                f"without the condition are off. Mean over the seeds {listed(all_values(rows, 'seed'))}. The normals",
                "are distributed as in the section on means; of the clinic's columns all but pressure mask themselves.",
                "`given`: the model is told that high values hide. Pressure is two numbers: the larger one counts.",
            ),
            markdown(["", "the column itself", "the others, mean", "the others, at most"], lines),
        )
    )


def _split(rows: list[Row], table: str, answer: str, missing: str) -> tuple[list[Distance], list[Distance]]:
    """The variables of the attribute that is missing, and the others."""
    own = PARTS.get(missing, (missing,))
    found = list(_columns(rows, table, answer, missing))
    return [d for d in found if d.column in own], [d for d in found if d.column not in own]


def _text(distances: list[Distance]) -> str:
    worst = max(distances, key=lambda d: d.found)
    return f"{worst.found:.3f} / {worst.without:.3f}"


def verdicts(results: Path) -> list[Verdict]:
    rows, out = [row for row in BENCHMARK.rows(results) if row["effort"] == "default"], []
    for table, answer in itertools.product(MISSING, ("auto", "given")):
        if not any(row["table"] == table for row in rows):
            continue
        found = {missing: _worst(rows, table, answer, missing) for missing in MISSING[table]}
        missing = max(found, key=lambda name: found[name].found)
        worst = found[missing]
        out.append(
            Verdict(
                f"{table}, {answer}: rows that miss a column, every distribution within {TOLERANCE} of the simulator's",
                f"at most {worst.found:.3f} ({worst.column} where {missing} is missing)",
                worst.found <= TOLERANCE,
            )
        )
    return out
