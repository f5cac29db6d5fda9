"""The page docs/benchmark.md and its figures, from the rows under results/peers.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.markup import MADE, all_values, count_of, listed, markdown, mask_name, paragraph
from benchmarks.peers.cells import (
    BEST,
    DEFAULT,
    FAILED,
    NOT_RUN,
    OURS,
    SETTINGS,
    TIMED_OUT,
    Board,
    Cell,
    board,
    critical_difference,
    geometric_mean,
    in_order,
    in_place,
    ratio,
)  # fmt: skip
from benchmarks.peers.family import apart, family_section
from benchmarks.peers.figures import critical_difference_svg, error_seconds_svg
from benchmarks.peers.grid import CORE
from benchmarks.peers.jobs import BENCHMARK, METHODS, PRETRAINED
from benchmarks.peers.readings import Verdict
from benchmarks.peers.seconds import long_table, points_of, time_section
from benchmarks.store import Row
from vsae.evaluation.metrics import NRMSE_DEFINITIONS

MOST_RATIO, LEAST_LOWER = {DEFAULT: 0.95, BEST: 0.93}, 0.9  # asked


def page(results: Path) -> str | None:
    """The page, or None while there is no cell in which ours and a peer's error can be compared."""
    rows, of_family = apart(in_place(BENCHMARK.rows(results)))
    cells = board(rows)
    if not cells.compared(DEFAULT, cells.cells()):
        return None
    family = family_section(of_family)
    return f"""{MADE.format(source="results/peers.jsonl and long.jsonl")}
# Against other imputers

{_verdict(cells)}

{markdown(["asked, MCAR and MAR", "found", "met"], [verdict.line() for verdict in _verdicts(cells)])}

## What was run

{_what_was_run(rows, results)}

## Headline

{_headline(cells)}

## Ranks

{_ranks(cells)}

## Errors

{_errors(cells)}

## Time

{time_section(rows, cells)}

{long_table(results)}

## Reading

{_reading(cells)}
{f"{chr(10)}{family}{chr(10)}" if family else ""}
## To repeat it

```sh
make peers                   # the environments of the peers
python -m benchmarks peers   # the runs; those that are there are not run again
python -m benchmarks tables  # this page
```
"""


def figures(results: Path) -> dict[str, str]:
    """Name → SVG, of those that the rows are enough for. Needs matplotlib if there are rows."""
    rows, _ = apart(in_place(BENCHMARK.rows(results)))
    cells = board(rows)
    if not cells.compared(DEFAULT, cells.cells()):
        return {}
    ranks, points, out = _mean_ranks(cells), points_of(rows, cells), {}
    if ranks:
        out["critical-difference.svg"] = critical_difference_svg(ranks, _difference(cells))
    if points:
        out["error-seconds.svg"] = error_seconds_svg(points)
    return out


# --- what was run


def _what_was_run(rows: list[Row], results: Path) -> str:
    sizes = {row["table"]: (row["rows"], row["columns"]) for row in rows}
    tables = sorted(sizes, key=lambda t: in_order(t, CORE.tables))
    masks = dict.fromkeys((row["mechanism"], row["rate"]) for row in rows)
    wanted = {(task.table, task.mechanism, task.rate, task.seed) for task in CORE.tasks()}
    core = [r for r in rows if (r["table"], r["mechanism"], r["rate"], r["seed"]) in wanted]
    without = [m for m in PRETRAINED if m not in {row["method"] for row in rows}]
    there, whole = len(core), len(wanted) * (len(METHODS) - len(without))
    return "\n\n".join(
        part
        for part in (
            paragraph(
                f"Missing cells: {listed(mask_name(*m) for m in masks)};",
                f"mask seeds {listed(all_values(rows, 'seed'))}.",
                '"In sample" are the hidden cells of the four fifths of the rows a method was fitted on, "new rows"',
                "those of the others, filled without fitting again. Every run is a process of its own; threads:",
                f"{listed(all_values(rows, 'threads'))}, limit in seconds: {listed(all_values(rows, 'limit'))}.",
                f"Machine: {'; '.join(all_values(rows, 'machine'))}.",
            ),
            markdown(["table", "rows", "columns"], [[t, f"{sizes[t][0]:,}", sizes[t][1]] for t in tables]),
            paragraph(
                f"The core grid is {len(CORE.tables)} tables × {len(CORE.mechanisms)} mechanisms × {len(CORE.seeds)}",
                f"seeds: {len(wanted)} runs a method, {whole} in all.",
                "All of them are there."
                if there == whole
                else f"**It is not complete: {there} runs are there**, and what follows is computed from these.",
                f"Not counted, as their weights were not given: {listed(without)}." if without else "",
            ),
            markdown(
                ["method", "version", "ended", "timed out", "failed", "not run", "fills new rows"],
                _census(rows, core, len(wanted)),
            ),
            '"Assumed": too slow for one mask of a table, so not tried on its others.'
            if any(row.get("assumed") for row in core)
            else "",
            _failures(rows),
            _disclosure(),
        )
        if part
    )


def _census(rows: list[Row], core: list[Row], wanted: int) -> Iterable[list[object]]:
    for method in (*(m for m in METHODS if m not in OURS), *OURS):
        ended = [row for row in rows if row["method"] == method and row["status"] == "ok"]
        own = [row for row in core if row["method"] == method]
        status = [row["status"] for row in own]
        assumed = sum(bool(row.get("assumed")) for row in own)
        late = f"{status.count(TIMED_OUT)} ({assumed} assumed)" if assumed else status.count(TIMED_OUT)
        new = ("yes" if any(row["new_rows"] for row in ended) else "no") if ended else "–"
        version = ", ".join(all_values(ended, "version")) or "–"
        yield [method, version, status.count("ok"), late, status.count(FAILED), wanted - len(own), new]


def _failures(rows: list[Row]) -> str:
    tables: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["status"] == FAILED:
            tables.setdefault((row["method"], row["error"] or "no word"), []).append(row["table"])
    lines = [
        f"- {method} on {listed(dict.fromkeys(where))} ({count_of(len(where), 'run')}): `{error}`"
        for (method, error), where in sorted(tables.items())
    ]
    return "\n".join(["What failed, and how:", "", *lines]) if lines else ""


def _disclosure() -> str:
    return paragraph(
        "How the settings of `vsae` were chosen: on tables that are none of these, 22 of R's packages (Boston,",
        "CASchools, College, CPS1985, Hitters, HousePrices, Males, Mroz, OJ, PSID1982, Star, WVS, Wage, attrition,",
        "biopsy, birthwt, colon, credit_data, diamonds, mpg, pbc, wage2), some 1,100 fits of random settings under",
        "MCAR .5 and MAR .3; before and besides, ideas were tried out on other masks of the tables here (adult,",
        "breast_cancer, german_credit and phishing last). Nothing was chosen on cells scored here, but the tables are",
        "not unseen. The rows of `vsae-best` are of a version that trained in one round",
        "([decision 0020](decisions/0020-rounds.md)).",
    )


# --- headline


def _verdict(cells: Board) -> str:
    group = cells.compared(DEFAULT, cells.cells())
    ratios = [cells.to_best_peer(DEFAULT, c) for c in group]
    lower, higher = sum(r < 1 for r in ratios), sum(r > 1 for r in ratios)
    return paragraph(
        f"Over {count_of(len(group), 'MCAR and MAR cell')}, the error of `vsae` is {geometric_mean(ratios):.3f} times",
        "that of the best peer of each cell (geometric mean).",
        f"It is below every peer in {lower}, and above the best one in {higher}.",
    )


def _verdicts(cells: Board) -> list[Verdict]:
    out = []
    for method, most in MOST_RATIO.items():
        ratios = [cells.to_best_peer(method, c) for c in cells.compared(method, cells.cells())]
        if ratios:
            mean, lower = geometric_mean(ratios), float(np.mean([r < 1 for r in ratios]))
            out.append(Verdict(f"error of `{method}` / best peer's ≤ {most:.2f}", f"{mean:.3f}", mean <= most))
            if method == DEFAULT:
                asked = f"`{method}` below every peer in ≥ {LEAST_LOWER:.0%} of the cells"
                out.append(Verdict(asked, f"{lower:.0%}", lower >= LEAST_LOWER))
    return out


def _headline(cells: Board) -> str:
    groups = {
        "MCAR and MAR": cells.cells(),
        "MCAR and MAR, in sample": cells.cells(setting="in_sample"),
        "MCAR and MAR, new rows": cells.cells(setting="new_rows"),
        "NMAR": cells.cells(ignorable=False),
    }
    lines = [line for name, group in groups.items() for m in OURS if (line := _headline_row(cells, name, m, group))]
    thin = sum(NOT_RUN in (cells.reasons[c].get(m) for m in cells.peers) for c in cells.errors)
    return "\n\n".join(
        (
            paragraph(
                "A cell is one table, mechanism, setting (in sample or new rows) and measure (NRMSE or PFC). Its error",
                "is the mean over the mask seeds; a method that lacks, timed out or failed on one of them has no error",
                "there. The best peer is the one with the lowest error in that cell, mean/mode among them: the best",
                "choice in hindsight, which no single method is. Other efforts of `vsae` are not peers.",
                f"In {thin} of {len(cells.errors)} cells some peer has not run on all seeds, and might be better."
                if thin
                else "",
            ),
            markdown(
                ["cells", "method", "number", "error / best peer", "below every peer", "worst error / mean, mode"],
                lines,
            ),
            paragraph(
                f"NRMSE: {NRMSE_DEFINITIONS['column']}.",
                "PFC: share of hidden cells that are wrong; mean over columns.",
            ),
        )
    )


def _headline_row(cells: Board, name: str, method: str, group: Iterable[Cell]) -> list[object]:
    group = cells.compared(method, group)
    if not group:
        return []
    ratios = [cells.to_best_peer(method, c) for c in group]
    lower = sum(r < 1 for r in ratios)
    worst = max(cells.to_trivial(method, c) for c in group)
    share = f"{lower} ({lower / len(group):.0%})"
    return [name, method, len(group), f"{geometric_mean(ratios):.3f}", share, f"{worst:.3f}"]


# --- ranks


def _ranked(cells: Board) -> tuple[list[str], list[Cell]]:
    """The methods that are ranked, one effort of ours among them, and the cells in which all of them ran."""
    group = cells.cells(setting="in_sample")
    methods = cells.taking_part([*cells.peers, DEFAULT], group)
    return methods, cells.shared(methods, group)


def _mean_ranks(cells: Board) -> dict[str, float]:
    """Method → mean rank, the best first; empty if there is nothing to rank."""
    methods, group = _ranked(cells)
    if len(methods) < 2 or not group:
        return {}
    ranks = zip(methods, map(float, cells.mean_ranks(methods, group)), strict=True)
    return dict(sorted(ranks, key=lambda pair: pair[1]))


def _difference(cells: Board) -> float:
    methods, group = _ranked(cells)
    return critical_difference(len(methods), len(group))


def _ranks(cells: Board) -> str:
    ranks, (_, group) = _mean_ranks(cells), _ranked(cells)
    if not ranks:
        return "There is no MCAR or MAR cell yet in which all methods ran."
    left = [m for m in cells.peers if m not in ranks]
    return "\n\n".join(
        (
            paragraph(
                f"Over the {count_of(len(group), 'MCAR and MAR cell')}, in sample, where all {len(ranks)} methods ran.",
                "A method that timed out or failed in a cell gets the last rank there; several share the last ranks.",
                "`vsae` takes part with its default effort only.",
                f"Left out, as they ran in less than half of the cells: {listed(left)}." if left else "",
            ),
            "![Mean ranks and critical difference](figures/critical-difference.svg)",
            paragraph(
                "A bar joins methods whose mean ranks differ by no more than the critical difference,",
                f"{_difference(cells):.2f} (Nemenyi, α = 0.05). The cells of one table are not independent, so a",
                "difference a little above it proves little. The last two columns compare errors over the cells in",
                "which both have one.",
            ),
            markdown(
                ["method", "mean rank", "cells without result", "`vsae` / its error", "`vsae` is lower in"],
                [[m, f"{rank:.2f}", *_against(cells, m, group)] for m, rank in ranks.items()],
            ),
        )
    )


def _against(cells: Board, method: str, group: list[Cell]) -> list[object]:
    """Cells without a result, and how our default compares in the others."""
    without = sum(method not in cells.errors[c] for c in group)
    both = [cells.errors[c] for c in group if {method, DEFAULT} <= cells.errors[c].keys()]
    if method == DEFAULT or not both:
        return [without, "–", "–"]
    ratios = [ratio(errors[DEFAULT], errors[method]) for errors in both]
    return [without, f"{geometric_mean(ratios):.3f}", f"{sum(r < 1 for r in ratios)} of {len(ratios)}"]


# --- errors


def _errors(cells: Board) -> str:
    parts = ["Mean over the mask seeds, the lowest bold. –: not offered; t/o: timed out; n/r: not run on all seeds."]
    for task in dict.fromkeys((c.mechanism, c.rate, c.setting) for c in cells.errors):
        columns = [c for c in cells.errors if (c.mechanism, c.rate, c.setting) == task]
        methods = [m for m in cells.methods if any(cells.reasons[c].get(m) != NOT_RUN for c in columns)]
        parts += [
            f"### {mask_name(*task[:2])}, {SETTINGS[task[2]]}",
            markdown(
                ["method", *(f"{c.table} {c.measure.upper()}" for c in columns)],
                [[m, *(_entry(cells, c, m) for c in columns)] for m in methods],
            ),
        ]
    return "\n\n".join(parts)


def _entry(cells: Board, cell: Cell, method: str) -> str:
    text, lowest = cells.text(cell, method), f"{min(cells.errors[cell].values()):.3f}"
    return f"**{text}**" if text == lowest else text


# --- reading


def _reading(cells: Board) -> str:
    group = cells.compared(DEFAULT, cells.cells())
    unended = [c for c in cells.cells() if cells.reasons[c].get(DEFAULT) in (TIMED_OUT, FAILED)]
    lost = sorted(
        (c for c in group if cells.to_best_peer(DEFAULT, c) > 1), key=lambda c: -cells.to_best_peer(DEFAULT, c)
    )
    worse = [c for c in group if cells.to_trivial(DEFAULT, c) > 1]
    parts = [
        paragraph(
            f"`vsae` has no result in {count_of(len(unended), 'MCAR and MAR cell')}: it timed out or failed."
            if unended
            else "",
            f"`vsae` is above mean or mode in {count_of(len(worse), 'cell')}: {'; '.join(map(_name, worse))}."
            if worse
            else "`vsae` is nowhere above mean or mode.",
            _winners(cells, lost, len(group)),
        )
    ]
    if lost:
        parts.append(
            markdown(
                ["cell", "`vsae`", "lowest peer", "its error", "`vsae` above it by", "peers below `vsae`"],
                [_loss(cells, c) for c in lost],
            )
        )
    return "\n\n".join(parts)


def _winners(cells: Board, lost: list[Cell], number: int) -> str:
    if not lost:
        return f"No peer is below it in any of the {count_of(number, 'MCAR and MAR cell')}."
    best = [cells.best_peer(c) for c in lost]
    counts = sorted(((best.count(m), m) for m in cells.peers if m in best), key=lambda pair: -pair[0])
    by = listed(f"{method} ({count})" for count, method in counts)
    return (
        f"A peer is below it in {len(lost)} of {count_of(number, 'MCAR and MAR cell')}, all listed here, the widest gap"
        f" first. The lowest peer there is {by}."
    )


def _loss(cells: Board, cell: Cell) -> list[object]:
    errors, peer = cells.errors[cell], cells.best_peer(cell)
    assert peer is not None
    below = sum(errors[m] < errors[DEFAULT] for m in cells.peers if m in errors)
    gap = f"{cells.to_best_peer(DEFAULT, cell) - 1:.1%}"
    return [_name(cell), f"{errors[DEFAULT]:.3f}", peer, f"{errors[peer]:.3f}", gap, below]


def _name(cell: Cell) -> str:
    return f"{cell.table} {cell.measure.upper()}, {mask_name(cell.mechanism, cell.rate)}, {SETTINGS[cell.setting]}"
