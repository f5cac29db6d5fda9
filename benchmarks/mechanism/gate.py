"""Which columns are taken to mask themselves, where they do and where they do not; without a fit.

A row is one table at one size and seed, with all mechanisms and rates: how many of the columns that miss cells are
switched on by the evidence in their masks.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data, options
from benchmarks.markup import all_values, count_of, listed, markdown, paragraph
from benchmarks.mechanism import masks
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae.data.encoding import Encoding
from vsae.mechanism.evidence import evidence

SIZES = (250, 500, 1000, 2000)
RATES = (0.1, 0.3, 0.5)
SEEDS = (1, 2, 3)
IGNORABLE = ("mcar", "mar-1", "mar")
NMAR = ("nmar-1", "nmar", "nmar-4")
MECHANISMS = (*IGNORABLE, *NMAR, masks.HALF)
MOST_ON, FEWEST_TABLES = 0.05, 12  # asked


def measured(table: str, size: int, seed: int) -> Row:
    whole = masks.load(table)
    rng = np.random.default_rng([seed, zlib.crc32(table.encode())])
    rows = whole.take(np.sort(rng.permutation(len(whole))[:size]))
    found = [counts(rows, mechanism, rate, seed) for mechanism, rate in itertools.product(MECHANISMS, RATES)]
    return {"table": table, "size": size, "seed": seed, "rows": len(rows), "found": found}


def counts(rows: data.Rows, mechanism: str, rate: float, seed: int) -> dict[str, Any]:
    """Of the columns that miss cells, how many are switched on: of those that mask themselves, and of the others."""
    made = masks.mechanism_of(mechanism, rate, rows, seed)
    hidden = rows.known & ~rows.hide(made, np.random.default_rng(seed))
    mask = rows.known & ~hidden
    decided = evidence(Encoding.fit(rows.schema, rows.columns, mask), rows.columns, mask, seed)
    lossy = {i for i in range(len(rows.schema)) if hidden[:, i].any()}
    own = lossy & self_masking(rows, mechanism, seed)
    on = {i for i in lossy if i in decided and decided[i].probability > 0.5}
    return {
        "mechanism": mechanism, "rate": rate, "self_masking": len(own), "found": len(on & own),
        "others": len(lossy - own), "mistaken": len(on - own),
    }  # fmt: skip


def self_masking(rows: data.Rows, mechanism: str, seed: int) -> set[int]:
    """Attributes."""
    if mechanism == masks.HALF:
        variables = rows.schema.variables
        return {rows.schema.attribute_of[variables[j].name] for j in masks.self_masking_of(rows, seed)}
    return set(range(len(rows.schema))) if mechanism in NMAR else set()


def in_words(row: Row) -> str:
    shares = [f"{name_of(m, kind)} {share([row], m, kind):.2f}" for m, kind in PAIRS]
    return f"switched on: {'; '.join(shares)}"


BENCHMARK = Benchmark("gate", ("table", "size", "seed"), in_process(__name__), in_words)


def jobs(tables: Iterable[str], sizes: Iterable[int], seeds: Iterable[int]) -> list[dict[str, Any]]:
    """A size that a table does not reach is taken once, as all of its rows."""
    lengths = {table: len(masks.load(table)) for table in tables}
    return [
        {"table": table, "size": size, "seed": seed}
        for seed, size, table in itertools.product(seeds, sizes, lengths)
        if size <= lengths[table] or not any(s >= lengths[table] for s in sizes if s < size)
    ]


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("gate", __doc__)
    options.several(parser, "--tables", "The tables. Default: all.", masks.TABLES)
    options.several(
        parser, "--sizes", f"Rows, at most. Default: {', '.join(map(str, SIZES))}.",
        type=options.at_least_one, metavar="ROWS",
    )  # fmt: skip
    options.several(parser, "--seeds", f"Default: {SEEDS[0]} to {SEEDS[-1]}.", type=int, metavar="SEED")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, jobs(o.tables or masks.TABLES, o.sizes or SIZES, o.seeds or SEEDS))


# --- its part of docs/mechanism.md

#: Kind of column → its number, and how many of them are switched on.
KINDS = {"NMAR": ("self_masking", "found"), "MAR": ("others", "mistaken")}
#: Mechanisms, and the kinds of columns that they make.
PAIRS = [(m, kind) for m in MECHANISMS for kind in KINDS if m == masks.HALF or (m in NMAR) == (kind == "NMAR")]


def name_of(mechanism: str, kind: str) -> str:
    name = masks.MECHANISMS[mechanism]
    return f"{name}: the {kind} columns" if mechanism == masks.HALF else name


def share(rows: Iterable[Row], mechanism: str, kind: str, rate: float | None = None) -> float:
    """Of the columns of that kind that are switched on, mean over tables: none counts more for having more columns."""
    number, on = KINDS[kind]
    by_table: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        for found in row["found"]:
            if found["mechanism"] == mechanism and rate in (None, found["rate"]) and found[number]:
                by_table.setdefault(row["table"], []).append((found[on], found[number]))
    shares = [sum(on for on, _ in pairs) / sum(number for _, number in pairs) for pairs in by_table.values()]
    return float(np.mean(shares)) if shares else float("nan")


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## The gate\n\nNot run."
    tables = [table for table in masks.TABLES if table in {row["table"] for row in rows}]
    made = [table for table in tables if table in masks.MADE]
    sizes = sorted({row["size"] for row in rows})
    rates = sorted({found["rate"] for row in rows for found in row["found"]})
    of_size = {size: [row for row in rows if row["size"] == size] for size in sizes}
    of_table = {table: [row for row in rows if row["table"] == table] for table in tables}
    lines: list[list[object]] = [
        [name_of(m, kind), *(_text(share(some, m, kind)) for some in of_size.values()),
         *(_text(share(rows, m, kind, rate)) for rate in rates)]
        for m, kind in PAIRS
    ]  # fmt: skip
    lengths = [len({row["table"] for row in some}) for some in of_size.values()]
    lines.append(["*tables*", *lengths, *[len(tables)] * len(rates)])
    heads = [*(f"{size:,} rows" for size in sizes), *(f"{rate:g} missing" for rate in rates)]
    by_table = [[table, *(_text(share(some, *pair)) for pair in PAIRS)] for table, some in of_table.items()]
    return "\n\n".join(
        (
            "## The gate",
            paragraph(
                "Share of the columns that miss cells which are switched on, mean over tables; those that are always",
                f"observed do not count. {count_of(len(tables), 'table')}, seeds {listed(all_values(rows, 'seed'))}; a",
                "table with fewer rows than are asked for enters with all it has, once.",
                f"Made for it: {listed(made)}." if made else "",
            ),
            markdown(["", *heads], lines),
            "By table, all sizes and rates:",
            markdown(["table", *(name_of(m, kind) for m, kind in PAIRS)], by_table),
        )
    )


def _text(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}"


def verdicts(results: Path) -> list[Verdict]:
    rows = BENCHMARK.rows(results)
    if not rows:
        return []
    tables = {row["table"] for row in rows}
    out = []
    for name, mechanisms in (("MCAR", ("mcar",)), ("MAR", ("mar-1", "mar"))):
        mean = float(np.mean([share(rows, m, "MAR") for m in mechanisms]))
        by_table = {
            t: float(np.mean([share([r for r in rows if r["table"] == t], m, "MAR") for m in mechanisms]))
            for t in sorted(tables)
        }
        worst = max(by_table, key=by_table.__getitem__)
        out.append(
            Verdict(
                f"columns switched on under {name} ≤ {MOST_ON:g}, on ≥ {FEWEST_TABLES} tables",
                f"{mean:.3f} on {len(tables)} tables; at most {by_table[worst]:.2f} ({worst})",
                mean <= MOST_ON and len(tables) >= FEWEST_TABLES,
            )
        )
    return out
