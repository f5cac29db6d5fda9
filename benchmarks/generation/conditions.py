"""Rows generated under a condition against the simulator's own, on the clinic table.

The simulator knows the exact conditional distribution: of very many complete rows with masks, those that meet the
condition. A model fitted on 2,000 rows with missing cells is asked for rows under the same condition. A
row is one seed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.generation.fidelity import distance
from benchmarks.markup import all_values, listed, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.processes import machine
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae import FittedVSAE, __version__, fit
from vsae.data.schema import DISCRETE
from vsae.datasets.clinic import Clinic, make_clinic
from vsae.fitting.presets import config_for

ROWS, SIMULATED, GENERATED, SEEDS = 2000, 400_000, 5000, (0, 1, 2)
TOLERANCE = 0.1
SELF_MASKING = ("income", "smoker", "pain")  # whose hidden values look unlike the seen ones: nothing tells a model so


@dataclass(frozen=True)
class Condition:
    """Values (codes of levels) and attributes that are missing."""

    words: str
    given: dict[str, float]
    missing: tuple[str, ...] = ()

    def met_by(self, clinic: Clinic) -> NDArray[np.bool_]:
        met = np.ones(len(clinic.mask), dtype=bool)
        for name, value in self.given.items():
            met &= np.asarray(clinic.truth[name]) == value
        for name in self.missing:
            met &= ~clinic.mask[:, clinic.schema.names.index(name)]
        return met


CONDITIONS = (
    Condition("sex = female", {"sex": 1}),
    Condition("age = 70", {"age": 70}),
    Condition("insurance = private", {"insurance": 1}),
    Condition("age = 40 and sex = male", {"age": 40, "sex": 0}),
    Condition("income missing", {}, ("income",)),
    Condition("pressure missing and sex = female", {"sex": 1}, ("pressure",)),
)


class Distance(NamedTuple):
    """Between generated rows and the simulator's under a condition; beside it, of the simulator's without it."""

    column: str
    found: float
    without: float


def measured(seed: int) -> Row:
    clinic = make_clinic(ROWS, seed)
    began = time.perf_counter()
    fitted = fit(clinic.schema, clinic.truth, clinic.mask, config_for(clinic.schema, ROWS), seed=seed)
    seconds = time.perf_counter() - began
    simulated = make_clinic(SIMULATED, 1000 + seed)
    return {
        "seed": seed, "status": "ok", "rows": ROWS, "generated": GENERATED, "seconds": seconds,
        "version": __version__, "machine": machine(),
        "conditions": {c.words: _scores(c, fitted, simulated, seed) for c in CONDITIONS},
    }  # fmt: skip


def _scores(condition: Condition, fitted: FittedVSAE, simulated: Clinic, seed: int) -> dict[str, Any]:
    met = condition.met_by(simulated)
    rows, mask = fitted.generate(GENERATED, seed=seed, given=condition.given, missing=condition.missing)
    fixed = {simulated.schema.attribute_of[name] for name in condition.given}
    fixed |= {simulated.schema.names.index(name) for name in condition.missing}
    rates = np.abs(mask.mean(axis=0) - simulated.mask[met].mean(axis=0))
    missing = {name: float(rates[i]) for i, name in enumerate(simulated.schema.names) if i not in fixed}
    return {
        "simulated": int(met.sum()),
        "distances": [d._asdict() for d in _distances(condition, rows, simulated, met)],
        "missing": missing,
    }


def _distances(
    condition: Condition, rows: dict[str, NDArray[Any]], simulated: Clinic, met: NDArray[np.bool_]
) -> Iterable[Distance]:
    for variable in simulated.schema.variables:
        if variable.name in condition.given:
            continue
        truth = np.asarray(simulated.truth[variable.name], dtype=np.float64)
        levels = variable.size if variable.family in DISCRETE else 0
        found = distance(truth[met], np.asarray(rows[variable.name], dtype=np.float64), levels)
        yield Distance(variable.name, found, distance(truth[met], truth, levels))


def in_words(row: Row) -> str:
    parts = []
    for words, scores in row["conditions"].items():
        worst = max((d for d in scores["distances"] if d["column"] not in SELF_MASKING), key=lambda d: d["found"])
        parts.append(f"{words} at most {worst['found']:.3f} ({worst['column']})")
    return "; ".join(parts)


BENCHMARK = Benchmark("conditions", ("seed",), in_process(__name__), in_words)


# --- what the rows say


def verdict(rows: Sequence[Row]) -> Verdict:
    asked = f"conditional distributions within {TOLERANCE} of the simulator's, columns that mask themselves aside"
    found = {
        (words, d["column"]): float(np.mean([_distance_of(row, words, d["column"]) for row in rows]))
        for row in rows[:1]
        for words, scores in row["conditions"].items()
        for d in scores["distances"]
        if d["column"] not in SELF_MASKING
    }
    if not found:
        return Verdict(asked, "not run", None)
    (words, column), worst = max(found.items(), key=lambda item: item[1])
    return Verdict(asked, f"at most {worst:.3f} ({column} where {words})", worst <= TOLERANCE)


def _distance_of(row: Row, words: str, column: str, what: str = "found") -> float:
    return float(next(d[what] for d in row["conditions"][words]["distances"] if d["column"] == column))


def section(rows: Sequence[Row]) -> str:
    """Conditions by columns, mean over the seeds: found / without the condition."""
    columns = [d["column"] for d in rows[0]["conditions"][CONDITIONS[-2].words]["distances"]]
    lines = []
    for condition in CONDITIONS:
        cells = []
        for column in columns:
            if column in condition.given:
                cells.append("given")
                continue
            both = (
                np.mean([_distance_of(row, condition.words, column, w) for row in rows]) for w in Distance._fields[1:]
            )
            cells.append(" / ".join(f"{x:.2f}".lstrip("0") for x in both))
        lines.append([condition.words, *cells])
    return "\n\n".join(
        (
            paragraph(
                f"`sample(given=…)` of a model fitted on {rows[0]['rows']:,} rows of the clinic table, with missing",
                f"cells, {rows[0]['generated']:,} rows a condition, against the simulator's own complete rows that",
                "meet it: Kolmogorov and Smirnov's distance of numbers, total variation of categories; mean over the",
                f"seeds {listed(all_values(rows, 'seed'))}. After the stroke what the simulator's rows without the",
                "condition are off: what a generator that ignores it would read.",
            ),
            markdown(["condition", *columns], lines),
            paragraph(
                f"{listed(SELF_MASKING)} hide by their own value, so their distribution cannot be learned from what is",
                "seen; no tolerance is asked of them here.",
            ),
        )
    )


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("conditions", __doc__)
    options.several(parser, "--seeds", "The seeds of tables and fits. Default: 0 1 2.", type=int, metavar="SEED")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, [{"seed": seed} for seed in o.seeds or SEEDS])
