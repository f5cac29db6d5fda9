"""What the rows of the benchmark of generators say: verdicts and tables."""

from __future__ import annotations

from typing import Any

from benchmarks.generation.jobs import METHODS
from benchmarks.markup import all_values, listed, markdown, mask_name, paragraph
from benchmarks.peers.readings import Mask, Measure, Pick, Place, Readings, Verdict, with_place
from benchmarks.peers.seconds import mean_seconds
from benchmarks.store import Row

OURS = "vsae"
BY_CHANCE = "by chance"  # what real rows, as many drawn with replacement, are off
TRIVIAL = ("independent", "real rows")
PEERS = tuple(method for method in METHODS if method not in (OURS, *TRIVIAL))
GENERATORS = (*PEERS, OURS)
SHOWN = (*TRIVIAL, *GENERATORS)

MOST_ASSOCIATION_ERROR = 0.10
SHARE_OF_TABLES = 0.70
POINTS_BEHIND = 0.02
MOST_NULL_RATE_ERROR = 0.02
MOST_AUC_COMPLETE = 0.57


def score(*path: str) -> Pick:
    """The number at the end of a path into a row's scores."""

    def pick(row: Row) -> float | None:
        found: Any = row["scores"]
        for name in path:
            found = found.get(name) if found is not None else None
        return found

    return pick


def utility(row: Row) -> float | None:
    """Learned from complete rows, where the method makes them: that is what a user would take."""
    found = row["scores"]["utility"]
    return float(found.get("complete", found["incomplete"]))


MEASURES = (
    Measure(
        "Association error",
        score("association", "mean"),
        min,
        "Mean |difference| over all pairs of columns between the real training rows, complete, and generated ones:",
        "Pearson's r of two numbers, Cramér's V of two categories, the correlation ratio of a number in the groups of",
        "a category, the last two corrected for the association that chance alone shows. 0 is best.",
        references={BY_CHANCE: score("association", "by_chance")},
    ),
    Measure(
        "Distance of columns",
        score("marginal", "mean"),
        min,
        "Kolmogorov and Smirnov's distance of a number, total variation of a category, between the real training rows,",
        "complete, and generated ones; mean over columns. 0 is best.",
        references={BY_CHANCE: score("marginal", "by_chance")},
    ),
    Measure(
        "Real or generated, with missing cells",
        score("auc", "incomplete"),
        min,
        "Area under the curve of boosted trees that tell test rows with missing cells from as many generated ones,",
        "in 5-fold cross-validation, mean of three; a value below ½ counts as as much above it. ½: nobody can tell.",
    ),
    Measure(
        "Real or generated, complete",
        score("auc", "complete"),
        min,
        "The same for complete test rows and complete generated rows, of methods that make such. Columns that",
        "hang together too little are easier to see here.",
    ),
    Measure(
        "Train on generated, test on real",
        utility,
        max,
        "Boosted trees learn the table's label from generated rows, complete where the method makes such; their",
        "accuracy (R² for concrete and whitewine) on complete real test rows. Below it what the real training rows",
        "teach.",
        references={
            "real, with missing cells": score("utility", "real_incomplete"),
            "real, complete": score("utility", "real"),
        },
    ),
    Measure(
        "Shares of missing cells",
        score("nulls", "worst"),
        min,
        "By how much the share of missing cells in 10,000 generated rows differs from that in the training rows, in",
        "the column where it differs most.",
    ),
    Measure(
        "Nearness to training rows",
        score("nearness", "ratio"),
        None,
        "Mean distance of generated rows to the nearest training row / that of real test rows. About 1: as new as",
        "real ones; near 0: copies; far above 1: where no real row is.",
    ),
)


# --- verdicts


def verdicts(readings: Readings) -> list[Verdict]:
    at_most = f"at or below the best peer on ≥ {SHARE_OF_TABLES:.0%} of the tables"
    return [
        _largest(
            readings, f"association error ≤ {MOST_ASSOCIATION_ERROR} on every table", score("association", "mean"),
            MOST_ASSOCIATION_ERROR,
        ),
        _against_best_peer(readings, f"distance of columns {at_most}", score("marginal", "mean")),
        _against_best_peer(
            readings, f"real-or-generated AUC, with missing cells, {at_most}", score("auc", "incomplete")
        ),
        *(_told_on_average(readings, mask) for mask in readings.masks),
        _useful(readings),
        _largest(
            readings, f"shares of missing cells within {MOST_NULL_RATE_ERROR} in every column", score("nulls", "worst"),
            MOST_NULL_RATE_ERROR,
        ),
    ]  # fmt: skip


def _largest(readings: Readings, asked: str, pick: Pick, limit: float) -> Verdict:
    found = readings.all_of(readings.places(), [OURS], pick)
    if not found:
        return Verdict(asked, "not run", None)
    (place, _), value = max(found.items(), key=lambda item: item[1])
    return Verdict(asked, f"at most {with_place(value, place)}", value <= limit)


def _told_on_average(readings: Readings, mask: Mask) -> Verdict:
    asked = f"real-or-generated AUC of complete rows ≤ {MOST_AUC_COMPLETE} on average, {mask_name(*mask)}"
    found = readings.all_of(readings.places(mask), [OURS], score("auc", "complete"))
    if not found:
        return Verdict(asked, "not run", None)
    mean = sum(found.values()) / len(found)
    return Verdict(asked, f"{mean:.3f} over {len(found)} tables", mean <= MOST_AUC_COMPLETE)


def compared(readings: Readings, pick: Pick) -> list[Place]:
    """The places where ours and a peer have a number."""
    return [p for p in readings.places() if readings.all_of([p], [OURS], pick) and readings.all_of([p], PEERS, pick)]


def _against_best_peer(readings: Readings, asked: str, pick: Pick) -> Verdict:
    places = compared(readings, pick)
    if not places:
        return Verdict(asked, "not run", None)
    won = [p for p in places if (readings.of(p, OURS, pick) or 0) <= (readings.best(p, PEERS, pick) or 0)]
    lost = [f"{p.table} {p.mask.mechanism.upper()}" for p in places if p not in won]
    where = f"; above it on {listed(lost)}" if lost else ""
    return Verdict(asked, f"{len(won)} of {len(places)}{where}", len(won) >= SHARE_OF_TABLES * len(places))


def _useful(readings: Readings) -> Verdict:
    asked = f"trained on generated rows, within {POINTS_BEHIND} of the best generator on every table"
    places = compared(readings, utility)
    if not places:
        return Verdict(asked, "not run", None)
    behind = {
        p: (readings.best(p, GENERATORS, utility, max) or 0) - (readings.of(p, OURS, utility) or 0) for p in places
    }
    far = [p for p in places if behind[p] > POINTS_BEHIND]
    worst = max(places, key=lambda p: behind[p])
    return Verdict(
        asked, f"{len(places) - len(far)} of {len(places)}; most behind {with_place(behind[worst], worst)}", not far
    )


# --- sections


def section(readings: Readings) -> str:
    parts = [_what_was_run(readings)]
    for mask in readings.masks:
        parts += [f"### {mask_name(*mask)}, on average", readings.averages(mask, SHOWN, MEASURES, GENERATORS)]
    parts.append("Means over the tables; each measure is explained where it is given table by table.")
    for measure in MEASURES:
        parts.append(f"### {measure.title}")
        for mask in readings.masks:
            parts += [f"{mask_name(*mask)}:", readings.table(mask, SHOWN, measure, GENERATORS)]
        parts.append(measure.words)
    return "\n\n".join([*parts, "### Seconds", _seconds(readings), _weakest(readings)])


def _what_was_run(readings: Readings) -> str:
    rows = readings.rows
    ended = {m: sum(r["status"] == "ok" for r in rows if r["method"] == m) for m in SHOWN}
    runs = {m: [r for r in rows if r["method"] == m] for m in SHOWN}
    lines = [
        [m, ", ".join(all_values(runs[m], "version")) or "–", ended[m],
         *(sum(r["status"] == status for r in runs[m]) for status in ("timed out", "failed"))]
        for m in SHOWN if runs[m]
    ]  # fmt: skip
    return "\n\n".join(
        (
            paragraph(
                "Four fifths of each table, its label among the columns, lose cells and are given to every generator;",
                "a fifth is kept to judge by.",
                f"Missing cells: {listed(mask_name(*m) for m in readings.masks)};",
                f"seeds {listed(all_values(rows, 'seed'))}.",
                "Generated rows are judged by as many as were given, 1,000 at least.",
                f"Every run is a process of its own; threads: {listed(all_values(rows, 'threads'))}, limit in seconds:",
                f"{listed(all_values(rows, 'limit'))}. Machine: {'; '.join(all_values(rows, 'machine'))}.",
            ),
            markdown(["method", "version", "ended", "timed out", "failed"], lines),
            paragraph(
                '"independent" draws every column by itself from its observed cells, missing at its rate: what a',
                'generator must beat. "real rows" are the training rows themselves, and their hidden cells: what none',
                "can beat, and what a copying generator would score. `copula`, `tvae` and `ctgan` are SDV's at their",
                "defaults; these fill missing numbers with the mean before they fit, and make cells missing at random.",
                '"by chance" is what as many real rows, drawn with replacement, are off.',
                "The best is bold, the two trivial ones aside. t/o: timed out; –: not offered; n/r: not run.",
            ),
        )
    )


def _seconds(readings: Readings) -> str:
    places = list(dict.fromkeys(p.table for p in readings.places()))
    lines = []
    for method in GENERATORS:
        runs = {t: [r for r in readings.rows if (r["table"], r["method"]) == (t, method)] for t in places}
        if any(runs.values()):
            lines.append([method, *(_mean_seconds(runs[t]) for t in places)])
    words = "Mean CPU seconds to fit and to make 10,000 incomplete rows, without imports; > where a run timed out."
    return f"{markdown(['method', *places], lines)}\n\n{words}"


def _mean_seconds(runs: list[Row]) -> str:
    """To fit and to make rows."""
    known = [row for row in runs if row["status"] != "failed"]
    return mean_seconds([{**row, "seconds": (row["seconds"] or 0) + (row["seconds_rows"] or 0)} for row in known])


def _weakest(readings: Readings) -> str:
    """Where ours is farthest off, by name."""
    ours = [row for row in readings.rows if row["method"] == OURS and row["status"] == "ok"]
    lines = [
        [row["table"], mask_name(row["mechanism"], row["rate"]), _worst(row, "association", "worst_pair"),
         _worst(row, "marginal", "worst_column"), _worst(row, "nulls", "worst_column")]
        for row in ours
    ]  # fmt: skip
    if not lines:
        return ""
    heading = "### Where `vsae` is farthest off"
    words = (
        "In each run the pair, the column and the share of missing cells that differ most from those of the real rows."
    )
    table = markdown(["table", "mechanism", "association", "column", "share missing"], lines)
    return "\n\n".join([heading, table, words])


def _worst(row: Row, what: str, name: str) -> str:
    found = row["scores"][what]
    where = found[name] if isinstance(found[name], str) else " × ".join(found[name])
    return f"{found['worst']:.3f} {where}"
