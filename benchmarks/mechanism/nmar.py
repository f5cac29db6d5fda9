"""Imputation with and without the evidence of self-masking, on the tables of the peers' benchmark.

One fit, two answers: `auto`, and `ignorable`, for which the tilts of the same fit are taken away. NMAR 0.3 is the very
task that the peers have.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import data, options
from benchmarks.markup import all_values, listed, markdown, paragraph
from benchmarks.mechanism import masks
from benchmarks.peers import jobs as peers
from benchmarks.peers.cells import OURS, SETTINGS, Board, board, geometric_mean, in_place, ratio
from benchmarks.peers.grid import CORE, TaskData, unanswered
from benchmarks.peers.readings import Verdict
from benchmarks.processes import Method, Processes
from benchmarks.runs import Benchmark, Job, errors_in_words
from benchmarks.store import Row

EFFORTS = {"fast": "vsae-fast", "default": "vsae"}  # and the names that these have among the peers
DEFAULT = "default"
ANSWERS = ("auto", "ignorable")
COMPARED = ("nmar", 0.3)  # what the peers have
COSTS = (("mcar", 0.3), ("mar", 0.3))
OTHERS = tuple(itertools.product(("nmar-1", "nmar-4", "nmar-tail", "nmar-low", masks.HALF), (0.1, 0.5)))
MASKS = (COMPARED, *COSTS, ("nmar", 0.1), ("nmar", 0.5), *OTHERS)
MOST_TO_PEER, LEAST_LOWEST = 0.90, 0.7  # asked
MOST_COST, MOST_COST_OF_TABLE = 0.005, 0.02


def measured(job: Job, processes: Processes) -> Row:
    rows = data.load(job["table"])
    made = masks.mechanism_of(job["mechanism"], job["rate"], rows, job["seed"])
    task = TaskData.hidden_by(rows, made, job["seed"])
    row = unanswered(job, processes, *ANSWERS, "on", "seconds", "memory_mb")
    row |= {"rows": len(rows), "columns": len(rows.schema)}
    method = Method(None, "vsae_mechanisms.py", ("--effort", job["effort"]))
    return processes.answered(method, row, [task.given()], lambda folder: scored(task, folder))


def scored(task: TaskData, folder: Path) -> Row:
    row: Row = json.loads((folder / "answers.json").read_text())
    with np.load(folder / "answers.npz") as file:
        for name in ANSWERS:
            errors, errors_new = task.errors(file[f"{name}_train"]), task.errors_new(file[f"{name}_new"])
            row[name] = {"in_sample": errors, "new_rows": errors_new}
    return row


def in_words(row: Row) -> str:
    both = [f"{name} {errors_in_words(row[name]['in_sample'])}" for name in ANSWERS]
    return f"{'; '.join(both)}; {row['on']} of {row['columns']} on, {row['seconds']:.1f} s"


BENCHMARK = Benchmark("nmar", ("table", "mechanism", "rate", "seed", "effort"), measured, in_words, limit=600.0)


def mask_of(text: str) -> tuple[str, float]:
    """
    >>> mask_of("nmar-4:0.1")
    ('nmar-4', 0.1)
    """
    name, _, rate = text.partition(":")
    if name not in masks.MECHANISMS or not rate.replace(".", "", 1).isdigit():
        raise ValueError(
            f"{text!r} is no mechanism with a rate; write one of {', '.join(masks.MECHANISMS)} as nmar:0.3"
        )
    return name, float(rate)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("nmar", __doc__)
    options.several(parser, "--tables", "The tables. Default: all.", CORE.tables)
    options.several(
        parser, "--mechanisms", f"Default: {', '.join(f'{name}:{rate}' for name, rate in MASKS)}.",
        type=options.usage(mask_of), metavar="NAME:RATE",
    )  # fmt: skip
    options.several(parser, "--seeds", f"Default: {listed(map(str, CORE.seeds))}.", type=int, metavar="SEED")
    options.several(parser, "--efforts", "Default: all.", EFFORTS)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    parts = o.mechanisms or MASKS, o.efforts or EFFORTS, o.seeds or CORE.seeds, o.tables or CORE.tables
    options.run_with(
        o,
        BENCHMARK,
        [
            {"table": table, "mechanism": mechanism, "rate": rate, "seed": seed, "effort": effort}
            for (mechanism, rate), effort, seed, table in itertools.product(*parts)
        ],
    )


# --- its part of docs/mechanism.md


class Cell(NamedTuple):
    table: str
    setting: str
    measure: str


def ratios(rows: Iterable[Row]) -> dict[Cell, float]:
    """Error of auto / error of ignorable, each the mean over the seeds."""
    errors: dict[Cell, dict[str, list[float]]] = {}
    for row in rows:
        for answer, setting in itertools.product(ANSWERS, SETTINGS):
            for measure in ("nrmse", "pfc"):
                if measure in row[answer][setting]:
                    cell = errors.setdefault(Cell(row["table"], setting, measure), {name: [] for name in ANSWERS})
                    cell[answer].append(row[answer][setting][measure])
    return {cell: ratio(*(float(np.mean(values[name])) for name in ANSWERS)) for cell, values in errors.items()}


def by_table(found: dict[Cell, float]) -> dict[str, float]:
    """Geometric means over a table's settings and measures."""
    tables = dict.fromkeys(cell.table for cell in found)
    return {table: geometric_mean(r for cell, r in found.items() if cell.table == table) for table in tables}


def picked(rows: Iterable[Row], mechanism: str, rate: float, effort: str) -> list[Row]:
    wanted = (mechanism, rate, effort)
    return [r for r in rows if r["status"] == "ok" and (r["mechanism"], r["rate"], r["effort"]) == wanted]


def beside_peers(rows: Iterable[Row], answer: str, effort: str, results: Path) -> Board:
    """NMAR 0.3: the rows of the peers, and in the place of ours those of one answer, with the seeds that ours have."""
    ours = [{**row, **row[answer], "method": EFFORTS[effort]} for row in picked(rows, *COMPARED, effort)]
    seeds = {row["seed"] for row in ours}
    theirs = [
        row
        for row in peers.BENCHMARK.rows(results)
        if (row["mechanism"], row["rate"]) == COMPARED
        and row["method"] in peers.METHODS
        and row["method"] not in OURS
        and row["seed"] in seeds
    ]
    return board(in_place([*theirs, *ours]))


class BesidePeers(NamedTuple):
    cells: int
    to_best_peer: float
    lowest: int

    @classmethod
    def of(cls, rows: Iterable[Row], answer: str, effort: str, results: Path) -> BesidePeers | None:
        found, method = beside_peers(rows, answer, effort, results), EFFORTS[effort]
        cells = found.compared(method, found.cells(ignorable=False))
        if not cells:
            return None
        to_best = [found.to_best_peer(method, cell) for cell in cells]
        return cls(len(cells), geometric_mean(to_best), sum(r < 1 for r in to_best))


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## Errors\n\nNot run."
    failed = sorted({f"{r['table']} {r['mechanism']}: {r['error']}" for r in rows if r["status"] != "ok"})
    return "\n\n".join(
        (
            "## Errors",
            paragraph(
                f"The tables of the peers' benchmark, seeds {listed(all_values(rows, 'seed'))}, errors as there; a",
                "cell is one table, setting (in sample or new rows) and measure (NRMSE or PFC). `auto` and `ignorable`",
                "are answers of the same fit. Machine:",
                f"{'; '.join(all_values(rows, 'machine'))}.",
                f"Failed: {'; '.join(failed)}." if failed else "",
            ),
            "NMAR 0.3 beside the peers:",
            _beside_peers_table(rows, results),
            "All mechanisms; error of `auto` / error of `ignorable`, geometric means over cells:",
            _ratios_table(rows),
            "Cells of NMAR 0.3:",
            _cells(rows, results),
        )
    )


def _beside_peers_table(rows: list[Row], results: Path) -> str:
    lines = []
    for effort, answer in itertools.product(EFFORTS, ("ignorable", "auto")):
        found = BesidePeers.of(rows, answer, effort, results)
        if found is not None:
            lowest = f"{found.lowest} ({found.lowest / found.cells:.0%})"
            lines.append([f"{EFFORTS[effort]}, {answer}", found.cells, f"{found.to_best_peer:.3f}", lowest])
    return markdown(["answer", "cells", "error / best peer", "below every peer"], lines)


def _ratios_table(rows: list[Row]) -> str:
    lines = []
    for (mechanism, rate), effort in itertools.product(MASKS, EFFORTS):
        runs = picked(rows, mechanism, rate, effort)
        if runs:
            tables = by_table(found := ratios(runs))
            best, worst = min(tables, key=tables.__getitem__), max(tables, key=tables.__getitem__)
            on = float(np.mean([run["on"] / run["columns"] for run in runs]))
            lines.append(
                [f"{masks.MECHANISMS[mechanism]}, {rate:g} missing", EFFORTS[effort],
                 f"{geometric_mean(found.values()):.3f}", f"{tables[best]:.3f} ({best})",
                 f"{tables[worst]:.3f} ({worst})", f"{on:.2f}"]
            )  # fmt: skip
    head = ["missing", "method", "auto / ignorable", "best table", "worst table", "columns switched on"]
    return markdown(head, lines)


def _cells(rows: list[Row], results: Path) -> str:
    """Each cell of NMAR 0.3: the best peer, and ours."""
    shown = {
        (effort, answer): beside_peers(rows, answer, effort, results)
        for effort, answer in itertools.product(EFFORTS, ("ignorable", "auto"))
        if picked(rows, *COMPARED, effort)
    }
    boards = list(shown.values())
    lines = []
    for cell in boards[-1].cells(ignorable=False) if boards else ():
        peer = boards[-1].best_peer(cell)
        theirs = f"{peer} {boards[-1].text(cell, peer)}" if peer else "–"
        ours = [b.text(cell, EFFORTS[e]) if cell in b.errors else "n/r" for (e, _), b in shown.items()]
        lines.append([f"{cell.table} {cell.measure.upper()}, {SETTINGS[cell.setting]}", theirs, *ours])
    heads = [f"{EFFORTS[effort]}, {answer}" for effort, answer in shown]
    return markdown(["cell", "best peer", *heads], lines)


def verdicts(results: Path) -> list[Verdict]:
    rows = BENCHMARK.rows(results)
    out: list[Verdict] = []
    found = BesidePeers.of(rows, "auto", DEFAULT, results)
    if found is not None:
        before = BesidePeers.of(rows, "ignorable", DEFAULT, results)
        assert before is not None, "both answers are of the same rows"
        out.append(
            Verdict(
                f"NMAR 0.3: error / best peer ≤ {MOST_TO_PEER:.2f}",
                f"{found.to_best_peer:.3f} in {found.cells} cells (ignorable {before.to_best_peer:.3f})",
                found.to_best_peer <= MOST_TO_PEER,
            )
        )
        out.append(
            Verdict(
                f"NMAR 0.3: below every peer in ≥ {LEAST_LOWEST:.0%} of the cells",
                f"{found.lowest} of {found.cells} (ignorable {before.lowest})",
                found.lowest >= LEAST_LOWEST * found.cells,
            )
        )
    return out + [verdict for mask in COSTS for verdict in _costs(rows, *mask)]


def _costs(rows: list[Row], mechanism: str, rate: float) -> list[Verdict]:
    found = ratios(picked(rows, mechanism, rate, DEFAULT))
    if not found:
        return []
    mean, tables = geometric_mean(found.values()) - 1, by_table(found)
    worst = max(tables, key=tables.__getitem__)
    name = f"{mechanism.upper()} {rate:g}"
    return [
        Verdict(f"{name}: at most {MOST_COST:.1%} worse than ignorable", f"{mean:+.2%}", mean <= MOST_COST),
        Verdict(
            f"{name}: on every table at most {MOST_COST_OF_TABLE:.0%} worse",
            f"at most {tables[worst] - 1:+.2%} ({worst})",
            tables[worst] - 1 <= MOST_COST_OF_TABLE,
        ),
    ]
