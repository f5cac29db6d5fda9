"""A survey whose rows have whole weights: a weighted fit beside one to the same rows, each repeated as often.

Some people were asked too seldom, and nothing in the table tells them from others; what goes with what is not the same
among them. New rows are of the population. Distances are root mean squares between the imputations that two fits give
for the same hidden cells of new rows, in units of the column's standard deviation; the distance between two fits to
repeated rows that differ in the seed alone is what chance makes. With trees, and without: a cell that is withheld from
one copy of a row is known from another, which trees learn by heart; a weighted row is there once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae import VSAEImputer

ROWS, NEW_ROWS, SEEDS = 400, 2000, (1, 2, 3)  # development was done with 901
REPEATED, AGAIN, WEIGHTED, UNWEIGHTED = "repeated", "repeated, another seed", "weighted", "unweighted"
_SELDOM, _WEIGHT, _HIDDEN = 0.25, 4.0, 0.3
Columns = dict[str, NDArray[np.float64]]


def people(rng: np.random.Generator, other: NDArray[np.bool_]) -> Columns:
    """Numbers and levels that hang together in one way, or in another."""
    x, noise = rng.normal(size=len(other)), rng.normal(size=(3, len(other)))
    y = np.where(other, -1.0, 1.0) * x + 0.5 * noise[0]
    return {"x": x, "y": y, "z": 0.7 * x + noise[1], "c": (y + noise[2] > 0).astype(float)}


def holed(table: Columns, rng: np.random.Generator) -> Columns:
    return {name: np.where(rng.random(len(x)) < _HIDDEN, np.nan, x) for name, x in table.items()}


def measured(seed: int, trees: bool) -> Row:
    rng = np.random.default_rng([seed, 22])
    other = rng.random(ROWS) < _SELDOM
    table = holed(people(rng, other), rng)
    weight = np.where(other, _WEIGHT, 1.0)
    share = weight[other].sum() / weight.sum()
    truth = people(rng, rng.random(NEW_ROWS) < share)
    new = holed(truth, rng)
    often = np.repeat(np.arange(ROWS), weight.astype(int))
    repeated = {name: x[often] for name, x in table.items()}
    filled = {
        REPEATED: _filled(repeated, new, seed, trees),
        AGAIN: _filled(repeated, new, seed + 1000, trees),
        WEIGHTED: _filled(table, new, seed, trees, weight),
        UNWEIGHTED: _filled(table, new, seed, trees),
    }
    numbers = ("x", "y", "z")

    def distance(a: Columns, b: Columns) -> float:
        off = [np.sqrt(np.mean((a[n] - b[n])[np.isnan(new[n])] ** 2)) / truth[n].std() for n in numbers]
        return float(np.mean(off))

    apart = {name: distance(filled[name], filled[REPEATED]) for name in (AGAIN, WEIGHTED, UNWEIGHTED)}
    errors = {name: distance(x, truth) for name, x in filled.items()}
    return {"seed": seed, "trees": trees, "distance": apart, "nrmse": errors, "rows": ROWS}


def _filled(table: Columns, new: Columns, seed: int, trees: bool, weight: NDArray[np.float64] | None = None) -> Any:
    config = None if trees else {"trees": 0}
    imputer = VSAEImputer(random_state=seed, effort="fast", schema={"c": "binary"}, config=config)
    return imputer.fit(table, sample_weight=weight).transform(new)


def in_words(row: Row) -> str:
    apart = ", ".join(f"{name} {x:.3f}" for name, x in row["distance"].items())
    errors = ", ".join(f"{name} {x:.3f}" for name, x in row["nrmse"].items())
    return f"distance to repeated rows: {apart}; NRMSE: {errors}"


BENCHMARK = Benchmark("weights", ("trees", "seed"), in_process("benchmarks.groups.weighted"), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("weights", __doc__)
    options.several(parser, "--seeds", f"Default: {SEEDS[0]} to {SEEDS[-1]}.", type=int, metavar="SEED")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(
        o, BENCHMARK, [{"seed": seed, "trees": trees} for seed in o.seeds or SEEDS for trees in (True, False)]
    )
