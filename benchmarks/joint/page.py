"""The page docs/joint.md, from the rows of draws for columns that are missing together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.joint import constraints, exact, times
from benchmarks.joint.blocks import GROUP, PAIR_CORRELATION, RELATIONS, ROWS, Relation
from benchmarks.joint.jobs import BENCHMARK, DRAWS, INDEPENDENT, METHODS
from benchmarks.markup import MADE, all_values, listed, markdown, mask_name, paragraph
from benchmarks.peers.readings import Mask, Measure, Pick, Place, Readings, Verdict, with_place
from benchmarks.peers.seconds import mean_seconds
from benchmarks.store import Row

OURS = ("vsae-fast", "vsae")
DEFAULT = "vsae"
PEERS = tuple(method for method in METHODS if method not in (*OURS, INDEPENDENT))
SHOWN = (INDEPENDENT, *PEERS, *OURS)
MOST_ASSOCIATION = 0.05
SHARE_OF_TABLES = 0.8
LEAST_AGREEMENT = 0.9
LEAST_CORRELATION = 0.97


def score(*path: str) -> Pick:
    """A number in the scores of a row."""

    def pick(row: Row) -> float | None:
        found = row["scores"]
        for name in path:
            found = found.get(name)
            if found is None:
                return None
        return float(found)

    return pick


ASSOCIATION = Measure(
    "Association error",
    score("association", "mean"),
    min,
    "Of two columns that are missing together, in the rows that miss them: |mean over the draws of the correlation -",
    "that of the hidden values|, mean over all such pairs; nothing is subtracted. Numbers enter by their normal",
    "scores, each level by its indicator; differences of pairs of levels are averaged by how often rows show them, in",
    "the truth or in the draws, whichever makes more of it. 0 is perfect, and 1 is what two columns that determine",
    "each other lose if each is drawn for itself.",
    '"complete rows" is how far the rows that have both columns are off from those that miss them: under MCAR that is',
    "chance alone.",
    '"exact" are draws from the true distribution, which is known for gaussian: what none can beat but by luck.',
    references={"complete rows": score("association", "complete_rows"), "exact": score("exact", "association", "mean")},
)
ENERGY = Measure(
    "Energy distance",
    score("energy"),
    min,
    "√(2 E|X - Y| - E|X - X'| - E|Y - Y'|) of completed rows X and the same rows as they were, Y, among those with a",
    "missing cell, at most 1,000; mean over the draws. Numbers are divided by their standard deviation, and two levels",
    "that differ are 1 apart. 0 is perfect, and out of reach: even draws from the true distribution, which is known",
    'for gaussian ("exact"), differ from what was hidden.',
    references={"exact": score("exact", "energy")},
)
MEASURES = (ASSOCIATION, ENERGY)


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    readings = Readings(tuple(comparable(BENCHMARK.rows(results))))
    if not readings.rows:
        return None
    found = [*verdicts(readings), *exact.verdicts(results), *constraints.verdicts(results), *times.verdicts(results)]
    met = [verdict.met for verdict in found]
    others = "exact.jsonl, constraints.jsonl and draw-times.jsonl"
    return f"""{MADE.format(source=f"results/{BENCHMARK.name}.jsonl, {others}")}
# What is missing together belongs together

Draws for blocks of columns that are missing in the same rows, against the rows as they were.
Of {len(found)} figures asked for, {met.count(True)} are met, {met.count(False)} not.

{markdown(["asked of `vsae`", "found", "met"], [verdict.line() for verdict in found])}

{_what_was_run(readings)}

{_sections(readings)}

{exact.section(results)}

{constraints.section(results)}

{times.section(results)}

## To repeat it

```sh
make peers PEERS="miceforest midas2 utrees"  # their environments; R comes from the system's packages
python -m benchmarks joint                   # the runs; those that are there are not run again
python -m benchmarks exact
python -m benchmarks constraints
python -m benchmarks draw-times
python -m benchmarks tables                  # this page
```
"""


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Without the seeds that only some of the methods have been run with on a table and mask."""
    places: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        places.setdefault((row["table"], row["mechanism"], row["rate"]), []).append(row)
    kept = []
    for some in places.values():
        seeds = [{row["seed"] for row in some if row["method"] == method} for method in {row["method"] for row in some}]
        shared = set.intersection(*seeds)
        kept += [row for row in some if row["seed"] in shared or not shared]
    return kept


# --- verdicts


def verdicts(readings: Readings) -> list[Verdict]:
    pair = RELATIONS["gaussian"][0]
    words = f"correlation of a pair with {PAIR_CORRELATION} (gaussian) ≥ {LEAST_CORRELATION} in every draw"
    education = RELATIONS["adult"][0]
    return [
        *(_association(readings, mask) for mask in readings.masks),
        _energy(readings),
        _lowest(
            readings, f"adult's {education.first} and {education.second} agree in ≥ {LEAST_AGREEMENT:.0%} of the rows",
            Pair("adult", education).pick, LEAST_AGREEMENT,
        ),
        _lowest(readings, words, Pair("gaussian", pair).pick, LEAST_CORRELATION),
    ]  # fmt: skip


def _association(readings: Readings, mask: Mask) -> Verdict:
    asked = f"association error ≤ {MOST_ASSOCIATION} on average, {mask_name(*mask)}"
    values = readings.all_of(readings.places(mask), [DEFAULT], ASSOCIATION.pick)
    if not values:
        return Verdict(asked, "not run", None)
    mean = float(np.mean(list(values.values())))
    others = readings.all_of([place for place, _ in values], [INDEPENDENT], ASSOCIATION.pick)
    beside = f" ({INDEPENDENT} {np.mean(list(others.values())):.3f})" if others else ""
    (place, _), worst = max(values.items(), key=lambda item: item[1])
    return Verdict(asked, f"{mean:.3f}{beside}; at most {with_place(worst, place)}", mean <= MOST_ASSOCIATION)


def _energy(readings: Readings) -> Verdict:
    asked = f"energy distance below every peer's on ≥ {SHARE_OF_TABLES:.0%} of the tables and masks"
    won: list[Place] = []
    lost: list[str] = []
    for place in readings.places():
        ours, peers = readings.of(place, DEFAULT, ENERGY.pick), readings.all_of([place], PEERS, ENERGY.pick)
        if ours is None or not peers:
            continue
        (_, peer), best = min(peers.items(), key=lambda item: item[1])
        if ours < best:
            won.append(place)
        else:
            lost.append(f"{place.table} {place.mask.mechanism.upper()} ({ours:.3f}; {peer} {best:.3f})")
    number = len(won) + len(lost)
    if not number:
        return Verdict(asked, "not run", None)
    where = f"; not on {listed(lost)}" if lost else ""
    return Verdict(asked, f"{len(won)} of {number}{where}", len(won) >= SHARE_OF_TABLES * number)


def _lowest(readings: Readings, asked: str, pick: Pick, limit: float) -> Verdict:
    """Over all runs of ours."""
    runs = [row for row in readings.rows if row["method"] == DEFAULT and row["status"] == "ok"]
    found = [value for row in runs if (value := pick(row)) is not None]
    if not found:
        return Verdict(asked, "not run", None)
    return Verdict(asked, f"at least {min(found):.3f} in {len(found)} runs", min(found) >= limit)


# --- sections


class Pair:
    """A relation of a table, as a column of the page."""

    def __init__(self, table: str, relation: Relation) -> None:
        self.table, self.correlated = table, relation.correlated
        self.name = f"{relation.first} and {relation.second}"

    @property
    def heading(self) -> str:
        return f"{self.table}: {self.name}{', lowest correlation' if self.correlated else ''}"

    def pick(self, row: Row) -> float | None:
        if row["table"] != self.table:
            return None
        return score("relations", self.name, "lowest" if self.correlated else "agree")(row)


PAIRS = [Pair(table, relation) for table, relations in RELATIONS.items() for relation in relations]


def _what_was_run(readings: Readings) -> str:
    rows = readings.rows
    by_method = {m: [r for r in rows if r["method"] == m] for m in SHOWN}
    lines = [
        [m, ", ".join(all_values(runs, "version")) or "–",
         *(sum(r["status"] == status for r in runs) for status in ("ok", "timed out", "failed"))]
        for m, runs in by_method.items() if runs
    ]  # fmt: skip
    absent = [m for m, runs in by_method.items() if not runs]
    complaints = sorted({f"{r['method']} on {r['table']}: {r['error']}" for r in rows if r["status"] == "failed"})
    return "\n\n".join(
        (
            paragraph(
                f"The columns of each table are put into groups of about {GROUP} by chance, columns with a known",
                "relation into one group; one group is never missing, and each other one is missing as a whole,",
                "in its share of the rows: by chance (MCAR), or the more likely the higher a mixture of the columns",
                f"that are never missing (MAR). Missing: {listed(mask_name(*m) for m in readings.masks)}; seeds",
                f"{listed(all_values(rows, 'seed'))}. Every method fits the rows and draws {DRAWS} completed tables of",
                f'them. "gaussian" and "mixed" are made, {ROWS:,} rows each: six normals, of which a and b have a',
                f"correlation of {PAIR_CORRELATION}; numbers and levels, of which each grade has one code and x",
                "decides the band.",
            ),
            markdown(["method", "version", "ended", "timed out", "failed"], lines),
            paragraph(
                f'"{INDEPENDENT}" takes any observed value of the column. "iterative" is scikit-learn\'s',
                "IterativeImputer with draws from the posterior of a Bayesian ridge, levels as indicators. `mice-pmm`",
                "and `mice-rf` are R's mice with predictive mean matching (of codes, too) and with random forests, 10",
                "iterations, twice its default; it is told to use columns that nearly determine each other, and pmm",
                "has a ridge, without which it goes far off where levels are collinear. A chain moves slowly where",
                "such columns are missing together; more iterations may help, at their price.",
                f"Not run: {listed(absent)}." if absent else "",
                f"Failed: {'; '.join(complaints)}." if complaints else "",
                f"Threads: {listed(all_values(rows, 'threads'))}; limits in seconds:",
                f"{listed(all_values(rows, 'limit'))}.",
                f"Machine: {'; '.join(all_values(rows, 'machine'))}.",
                f"The best is bold, {INDEPENDENT} aside. t/o: timed out; n/r: not run.",
            ),
        )
    )


def _sections(readings: Readings) -> str:
    among = (*PEERS, *OURS)
    parts = []
    for measure in MEASURES:
        parts.append(f"## {measure.title}")
        for mask in readings.masks:
            parts += [f"{mask_name(*mask)}:", readings.table(mask, SHOWN, measure, among)]
        parts.append(measure.words)
    parts.append("## Columns that determine each other")
    for mask in readings.masks:
        parts += [f"{mask_name(*mask)}:", _pairs(readings, mask)]
    parts.append(
        paragraph(
            "Share of the rows with both columns drawn in which they go together: as pairs of levels that occur in the",
            "table, or as x and its band; mean over seeds. Of the normals a and b, the correlation in the draw in",
            "which it is the lowest.",
        )
    )
    tables = list(dict.fromkeys(place.table for place in readings.places()))
    lines = []
    for method in (*PEERS, *OURS):
        runs = {t: [r for r in readings.rows if (r["table"], r["method"]) == (t, method)] for t in tables}
        if any(runs.values()):
            ended = {t: [r for r in runs[t] if r["status"] != "failed"] for t in tables}
            lines.append([method, *(mean_seconds(ended[t]) for t in tables)])
    words = f"Mean CPU seconds to fit and to draw {DRAWS} tables, without imports; > where a run timed out."
    return "\n\n".join([*parts, "## Seconds", markdown(["method", *tables], lines), words])


def _pairs(readings: Readings, mask: Mask) -> str:
    there = {place.table for place in readings.places(mask)}
    pairs = [pair for pair in PAIRS if pair.table in there]
    methods = [m for m in SHOWN if any(readings.runs(Place(pair.table, mask), m) for pair in pairs)]
    lines = [[m, *(_agreement(readings, Place(pair.table, mask), m, pair) for pair in pairs)] for m in methods]
    return markdown(["method", *(pair.heading for pair in pairs)], lines)


def _agreement(readings: Readings, place: Place, method: str, pair: Pair) -> str:
    value = readings.of(place, method, pair.pick)
    return readings.why_not(place, method) if value is None else f"{value:.3f}"
