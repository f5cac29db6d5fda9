"""Generated masks and rows with missing cells against real ones that no method has seen.

Boosted trees try to tell generated masks from real ones, and generated rows with their missing cells from real ones. A
row is one method on one table, mechanism and seed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.generation.judges import real_or_synthetic
from benchmarks.generation.tasks import FEWEST_ROWS, Reality, checked
from benchmarks.generation.trivial import independent, real_rows
from benchmarks.markup import all_values, listed, markdown, mask_name, paragraph
from benchmarks.peers.grid import KEY, Grid, Task, mechanism_of, run_grid, unanswered
from benchmarks.peers.readings import Verdict
from benchmarks.processes import Method, Processes
from benchmarks.runs import Benchmark, Job
from benchmarks.store import Row

Rows = NDArray[np.float64]
GRID = Grid(
    ("whitewine", "concrete", "mushroom", "german_credit", "adult"),
    (("mcar", 0.3), ("mar", 0.3), ("nmar", 0.3)),
    (11,),
)
TRIVIAL = {"real rows": real_rows, "independent": independent}
METHODS: dict[str, Method | None] = {
    **dict.fromkeys(TRIVIAL),
    "copula": Method("sdv", "sdv_.py", ("copula",)),
    "vsae-fast": Method(None, "vsae_rows.py", ("--effort", "fast")),
    "vsae": Method(None, "vsae_rows.py"),
    "pylace": Method("pylace", "pylace_rows_.py"),
}
OURS, PEERS = "vsae", ("copula", "pylace")
MOST_ROWS = 10_000  # of the trivial methods
MOST_OF_MASKS = 0.55  # asked
#: Part of a row's scores → what is judged.
PARTS = {
    "masks": "Masks alone",
    "pairs": "Rows with missing cells, and their masks",
    "beneath": "Rows with what their missing cells hold, and their masks",
}


def measured(job: Job, processes: Processes) -> Row:
    task, method = Task.of(job), METHODS[job["method"]]
    real = Reality.of(task)
    row = unanswered(job, processes, "scores", "seconds", "seconds_rows", "memory_mb") | {"rows": len(real.train)}
    if method is None:
        made = TRIVIAL[job["method"]](real, MOST_ROWS, np.random.default_rng(job["seed"]))
        return row | {"scores": scores(real, fresh_masks(task), *made)}
    return processes.answered(method, row, [real.given], lambda folder: judged(real, fresh_masks(task), folder))


def judged(real: Reality, fresh: NDArray[np.bool_], folder: Path) -> Row:
    row: Row = json.loads((folder / "generated.json").read_text())
    with np.load(folder / "generated.npz") as file:
        incomplete = checked(real.given, file["incomplete"], missing=True)
        complete = checked(real.given, file["complete"], missing=False) if "complete" in file.files else None
    return row | {"scores": scores(real, fresh, incomplete, complete)}


def fresh_masks(task: Task) -> NDArray[np.bool_]:
    """Another mask for every row of a task's table, (n, variables), by the mechanism that made the task's own.

    As there, the first variable of an attribute speaks for it.
    """
    rows = data.load(task.table, label=True)
    rng = np.random.default_rng([task.seed, zlib.crc32(rows.name.encode())])  # as in TaskData.hidden_by
    rng.permutation(len(rows))
    missing = mechanism_of(task.mechanism, task.rate, rows.schema).missing_probability(rows.matrix(), rng)
    rng.random(missing.shape)  # the task's own
    attributes = [rows.schema.attribute_of[v.name] for v in rows.schema.variables]
    first = [attributes.index(i) for i in attributes]
    return (rng.random(missing.shape) >= missing)[:, first] & rows.variables_known()


def scores(real: Reality, fresh: NDArray[np.bool_], incomplete: Rows, complete: Rows | None) -> dict[str, float]:
    """Areas under the curve. `complete` are the same rows as `incomplete`, where a method makes such.

    Cells that the source itself lacks, as adult does, are missing in both halves of a real row.
    """
    test, discrete = real.test_incomplete, real.given.discrete
    flags, most = np.zeros_like(discrete), max(FEWEST_ROWS, len(real.train))
    incomplete, complete = incomplete[:most], None if complete is None else complete[:most]

    def area(ours: Rows, theirs: Rows, levels: NDArray[np.bool_]) -> float:
        return real_or_synthetic(theirs, ours, levels, real.seed)

    def with_mask(rows: Rows, seen: Rows) -> Rows:
        return np.concatenate([rows, np.isnan(seen)], axis=1)

    both = np.concatenate([discrete, flags])
    out = {
        "masks": area(np.isnan(incomplete).astype(float), (~fresh).astype(float), flags),
        "pairs": area(with_mask(incomplete, incomplete), with_mask(test, test), both),
    }
    whole = ~np.isnan(real.test).any(axis=1)
    if complete is not None and whole.all():
        out["beneath"] = area(with_mask(complete, incomplete), with_mask(real.test, test), both)
    return out


def in_words(row: Row) -> str:
    return ", ".join(f"{part} {area:.3f}" for part, area in row["scores"].items())


BENCHMARK = Benchmark("masks", KEY, measured, in_words, limit=600.0)


def main(arguments: Sequence[str]) -> None:
    run_grid(arguments, BENCHMARK, __doc__, GRID, METHODS)


# --- its part of docs/mechanism.md


def area_of(rows: Iterable[Row], part: str, **where: object) -> float:
    """Mean over tables and seeds; NaN where nothing is known."""
    picked = [row for row in rows if row["scores"] and all(row[name] == value for name, value in where.items())]
    areas = [row["scores"][part] for row in picked if part in row["scores"]]
    return float(np.mean(areas)) if areas else float("nan")


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## Masks\n\nNot run."
    parts = [
        "## Masks",
        paragraph(
            "Area under the curve of boosted trees that tell generated from real; 0.5: they cannot. Real rows are a",
            "fifth of the table, which no method has seen; real masks are new ones of all rows, by the same mechanism.",
            "`real rows` are the training rows themselves: what chance reads. `independent`: columns",
            "that know nothing of one another. `copula` is SDV's Gaussian copula;",
            "in `pylace` every column that misses cells is declared missing not at random.",
            f"Seeds {listed(all_values(rows, 'seed'))}.",
        ),
    ]
    for part, title in PARTS.items():
        parts += [f"{title}:", _table(rows, part)]
    return "\n\n".join(parts)


def _table(rows: list[Row], part: str) -> str:
    masks = [mask for mask in GRID.mechanisms if any((row["mechanism"], row["rate"]) == mask for row in rows)]
    tables = [table for table in GRID.tables if any(row["table"] == table for row in rows)]
    lines = []
    for method in METHODS:
        means = [area_of(rows, part, method=method, mechanism=m, rate=rate) for m, rate in masks]
        by_table = [
            [area_of(rows, part, method=method, mechanism=m, rate=rate, table=table) for m, rate in masks]
            for table in tables
        ]
        if not np.isnan(means).all():
            cells = (" / ".join("–" if np.isnan(x) else f"{x:.2f}" for x in line) for line in by_table)
            lines.append([method, *("–" if np.isnan(x) else f"{x:.3f}" for x in means), *cells])
    heads = [mask_name(*mask) for mask in masks]
    return markdown(
        ["method", *heads, *(f"{table}, {' / '.join(m.upper() for m, _ in masks)}" for table in tables)], lines
    )


def verdicts(results: Path) -> list[Verdict]:
    rows, out = BENCHMARK.rows(results), []
    for mechanism, rate in GRID.mechanisms:
        where = {"mechanism": mechanism, "rate": rate}
        ours = {table: area_of(rows, "masks", method=OURS, table=table, **where) for table in GRID.tables}
        mean = area_of(rows, "masks", method=OURS, **where)
        if np.isnan(mean):
            continue
        worst = max((t for t in ours if not np.isnan(ours[t])), key=ours.__getitem__)
        out.append(
            Verdict(
                f"{mask_name(mechanism, rate)}: generated masks against real ones, AUC ≤ {MOST_OF_MASKS:g}",
                f"{mean:.3f}; at most {ours[worst]:.3f} ({worst})",
                mean <= MOST_OF_MASKS,
            )
        )
    for mechanism, rate in GRID.mechanisms:
        where = {"mechanism": mechanism, "rate": rate}
        shared = [row for row in rows if row["table"] in _tables_of_all(rows, where)]
        found = {method: area_of(shared, "pairs", method=method, **where) for method in (OURS, *PEERS)}
        if np.isnan(list(found.values())).any():
            continue
        out.append(
            Verdict(
                f"{mask_name(mechanism, rate)}: generated rows and their masks, AUC at or below {listed(PEERS)}",
                f"{found[OURS]:.3f} ({', '.join(f'{peer} {found[peer]:.3f}' for peer in PEERS)})",
                all(found[OURS] <= found[peer] for peer in PEERS),
            )
        )
    return out


def _tables_of_all(rows: list[Row], where: dict[str, object]) -> set[str]:
    """On which ours and the peers came to an end: a mean over others would compare different tables."""
    ended = [
        {table for table in GRID.tables if not np.isnan(area_of(rows, "pairs", method=method, table=table, **where))}
        for method in (OURS, *PEERS)
    ]
    return set.intersection(*ended)
