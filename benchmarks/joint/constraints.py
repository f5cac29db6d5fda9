"""Relations that the user states: do imputed and drawn rows satisfy them, and what do they cost in error?

1,000 rows of 14 columns, of which 30 % of the cells are missing at random: a total of three parts, a stay between two
dates, an area, an upper and a lower pressure. One fit imputes and draws, with the relations and without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.markup import all_values, listed, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row

ROWS, HIDDEN = 1000, 0.3
SEEDS = (1, 2, 3)
METHODS = ("vsae-fast", "vsae")
RELATIONS = (
    "diastolic < systolic",
    "total == a + b + c",
    "end >= start",
    "stay == end - start",
    "area == width * height",
)
MOST_COST = 0.02  # asked: of the error without relations
Table = dict[str, NDArray[Any]]


def simulated(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, ROWS)
    ill = rng.normal(size=ROWS) + age / 40
    systolic = (100 + 0.4 * age + 6 * ill + 8 * rng.normal(size=ROWS)).round()
    a, b, c = (rng.gamma(3, scale * np.exp(0.2 * ill)).round(2) for scale in (5.0, 12.0, 20.0))
    start = np.datetime64("2023-01-01") + rng.integers(0, 700, ROWS).astype("m8[D]")
    stay = rng.poisson(np.exp(0.3 * ill + 0.5))
    width = rng.uniform(1, 9, ROWS).round(1)
    height = (0.5 * width + rng.uniform(1, 5, ROWS)).round(1)
    return {
        "age": age.astype(np.float64),
        "systolic": systolic,
        "diastolic": systolic - rng.gamma(1.5, 12, ROWS).round().clip(1),
        "a": a,
        "b": b,
        "c": c,
        "total": (a + b + c).round(2),
        "start": start,
        "end": start + stay.astype("m8[D]"),
        "stay": stay.astype(np.float64),
        "width": width,
        "height": height,
        "area": (width * height).round(2),
        "ward": np.array(["heart", "bones", "eyes"], dtype=object)[rng.integers(3, size=ROWS)],
    }


def hidden(table: Mapping[str, NDArray[Any]], seed: int) -> dict[str, NDArray[np.bool_]]:
    rng = np.random.default_rng([seed, 1])
    return {name: rng.random(ROWS) < HIDDEN for name in table}


def holds(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]]:
    """Relation → rows in which it holds, worked out apart from the library."""
    days = (table["end"] - table["start"]).astype("m8[D]").astype(np.float64)
    return {
        "diastolic < systolic": table["diastolic"] < table["systolic"],
        "total == a + b + c": np.abs(table["total"] - table["a"] - table["b"] - table["c"]) < 1e-6,
        "end >= start": days >= 0,
        "stay == end - start": table["stay"] == days,
        "area == width * height": np.abs(table["area"] - table["width"] * table["height"]) < 0.00501,
    }


def errors(
    true: Table, missing: Mapping[str, NDArray[np.bool_]], filled: Mapping[str, NDArray[Any]]
) -> dict[str, float]:
    """Root mean squared error of the hidden cells of each number, in its standard deviations."""
    found = {}
    for name, x in true.items():
        if x.dtype.kind != "O":
            y, z = (_numbers(column) for column in (x, filled[name]))
            found[name] = float(np.sqrt(np.mean((y - z)[missing[name]] ** 2)) / y.std())
    return found


def measured(method: str, seed: int) -> Row:
    from vsae import VSAEImputer

    true = simulated(seed)
    missing = hidden(true, seed)
    given = {name: _without(x, missing[name]) for name, x in true.items()}
    effort: Any = "fast" if method == "vsae-fast" else "default"
    imputer = VSAEImputer(effort=effort, constraints=RELATIONS, random_state=seed).fit(given)
    constrained = imputer.schema_
    row: Row = {"method": method, "seed": seed}
    for name, table in (("with", constrained), ("without", replace(constrained, constraints=None))):
        imputer.schema_ = table
        tables = {"imputed": imputer.transform(given), "drawn": imputer.draw(given, 1)[0]}
        row[name] = {
            kind: {
                "holds": {text: float(rows.mean()) for text, rows in holds(filled).items()},
                "errors": errors(true, missing, filled),
            }
            for kind, filled in tables.items()
        }
    return row


def _numbers(x: NDArray[Any]) -> NDArray[np.float64]:
    return x.astype("M8[D]").astype(np.float64) if x.dtype.kind == "M" else x.astype(np.float64)


def _without(x: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    x = x.copy()
    x[missing] = {"M": np.datetime64("NaT"), "O": None}.get(x.dtype.kind, np.nan)
    return x


def cost(row: Row, kind: str) -> float:
    """Of the relations: the mean over columns of the error with them, as a share of that without."""
    ratios = [row["with"][kind]["errors"][name] / error for name, error in row["without"][kind]["errors"].items()]
    return float(np.mean(ratios) - 1)


def in_words(row: Row) -> str:
    held = min(row["with"]["imputed"]["holds"].values())
    return f"relations hold in {held:.1%} at least, error {cost(row, 'imputed'):+.1%}"


BENCHMARK = Benchmark("constraints", ("method", "seed"), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    options.run_methods(arguments, BENCHMARK, __doc__, METHODS, SEEDS)


# --- its part of docs/joint.md


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## Relations that are stated\n\nNot run."
    lines = []
    for method in METHODS:
        for kind in ("imputed", "drawn"):
            runs = [row for row in rows if row["method"] == method]
            for name in ("without", "with") if runs else ():
                held = [np.mean([row[name][kind]["holds"][text] for row in runs]) for text in RELATIONS]
                error = np.mean([np.mean(list(row[name][kind]["errors"].values())) for row in runs])
                lines.append([f"{method}, {kind}, {name}", *(f"{share:.1%}" for share in held), f"{error:.3f}"])
    words = paragraph(
        f"{ROWS:,} rows of {len(simulated(0))} columns, {HIDDEN:.0%} of the cells missing at random; seeds",
        f"{listed(all_values(rows, 'seed'))}. One fit imputes and draws, with `constraints=` and without. In how many",
        "rows a relation holds to the last decimal, and the root mean squared error of numbers and dates in standard",
        "deviations, the mean over columns.",
    )
    return f"## Relations that are stated\n\n{words}\n\n{markdown(['', *RELATIONS, 'error'], lines)}"


def verdicts(results: Path) -> list[Verdict]:
    rows = [row for row in BENCHMARK.rows(results) if row["method"] == "vsae"]
    if not rows:
        return []
    kinds = ("imputed", "drawn")
    held = min(share for row in rows for kind in kinds for share in row["with"][kind]["holds"].values())
    costs = {kind: float(np.mean([cost(row, kind) for row in rows])) for kind in kinds}
    return [
        Verdict("stated relations hold in all imputed and drawn rows", f"{held:.1%}", held == 1.0),
        Verdict(
            f"stated relations cost ≤ {MOST_COST:.0%} in error",
            ", ".join(f"{kind} {share:+.1%}" for kind, share in costs.items()),
            max(costs.values()) <= MOST_COST,
        ),
    ]
