"""What the rows of draws and of pooled regressions say: verdicts and tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.calibration.jobs import DRAWS, METHODS, PEERS_DRAWS
from benchmarks.calibration.rubin import BETA, ROWS, Validity
from benchmarks.calibration.rubin import METHODS as WAYS
from benchmarks.markup import all_values, count_of, listed, markdown, mask_name, paragraph
from benchmarks.peers.cells import SETTINGS
from benchmarks.peers.readings import Mask, Measure, Pick, Readings, Verdict, with_place
from benchmarks.store import Row

OURS = ("vsae-fast", "vsae", "vsae-best")
DEFAULT = "vsae"
PEERS = ("midas2", "miceforest")
SHOWN = tuple(method for method in METHODS if method not in OURS) + OURS
COVERAGE = (0.87, 0.93)  # of 90 % intervals, asked for
MOST_ECE = 0.03
RUBIN_COVERAGE = (0.92, 0.98)  # of 95 % intervals, asked for
RUBIN_OURS = "vsae-fast"


def score(setting: str, *parts: str) -> Pick:
    """A number of the first of the parts that a row has: `"stated|draws", "ece"`."""
    kinds, name = parts

    def pick(row: Row) -> float | None:
        found = next((row[setting][kind] for kind in kinds.split("|") if kind in row[setting]), None)
        return None if found is None else float(found[name])

    return pick


def _nearest_to(goal: float) -> Callable[..., float]:
    return lambda values: min(values, key=lambda value: abs(value - goal))


def measures(setting: str) -> dict[str, Measure]:
    """By a short name, of the rows a method was fitted on or of new ones."""
    return {
        "coverage90": Measure(
            "Coverage of 90 % intervals",
            score(setting, "numbers", "coverage90"),
            _nearest_to(0.9),
            f"Share of hidden numbers between the 5 % and the 95 % quantile of their draws ({DRAWS} of `vsae`,",
            f"{PEERS_DRAWS} of the others; the quantiles are those between which a further draw falls nine times in",
            "ten, however many there are). Nearest to .9 is best.",
        ),
        "coverage50": Measure("Coverage of 50 % intervals", score(setting, "numbers", "coverage50"), _nearest_to(0.5)),
        "crps": Measure(
            "CRPS of numbers",
            score(setting, "numbers", "crps"),
            min,
            "E|X - x| - ½ E|X - X'| over the std of the column, mean over cells, then columns; of 20 draws of every",
            "method, by the estimator that does not depend on their number. It rewards draws that are near, and honest",
            "about how near.",
        ),
        "ece": Measure(
            "Calibration error of levels",
            score(setting, "stated|draws", "ece"),
            min,
            "How far the share of cells whose likeliest level is right is from how likely that level was said to be,",
            "over 15 bins of equally many cells, all columns together. `vsae` states probabilities; those of others",
            'are shares of 20 draws, which are coarse. "by chance" is what `vsae` would be off if its probabilities',
            "were the truth.",
            references={"by chance": score(setting, "stated", "ece_by_chance")},
        ),
        "ece draws": Measure("Of levels, from 20 draws", score(setting, "draws", "ece"), min),
        "classwise": Measure("Of levels, classwise", score(setting, "stated|draws", "classwise"), min),
        "log loss": Measure("Log loss, from 20 draws", score(setting, "draws", "log_loss"), min),
    }


DETAILED = ("coverage90", "crps", "ece")


# --- verdicts


def verdicts(readings: Readings, repeats: Sequence[Row]) -> list[Verdict]:
    low, high = COVERAGE
    return [
        _averages(
            readings, f"90 % intervals cover {low:.0%} to {high:.0%} on average, every effort, MCAR and MAR",
            ("numbers", "coverage90"), lambda value: low <= value <= high,
        ),
        _averages(
            readings, f"calibration error of levels ≤ {MOST_ECE} on average, every effort, MCAR and MAR",
            ("stated", "ece"), lambda value: value <= MOST_ECE, by_chance="ece_by_chance",
        ),
        *_crps(readings),
        _pooled(repeats),
    ]  # fmt: skip


def _averages(
    readings: Readings, asked: str, parts: tuple[str, str], enough: Callable[[float], bool], by_chance: str = ""
) -> Verdict:
    """Over tables, for each effort, mask and setting."""
    found, outside = [], []
    for method, mask, setting in itertools.product(OURS, readings.masks, SETTINGS):
        value = _average(readings, method, mask, score(setting, *parts))
        if value is None:
            continue
        found.append(value)
        if not enough(value):
            chance = _average(readings, method, mask, score(setting, parts[0], by_chance)) if by_chance else None
            words = "" if chance is None else f" (by chance {chance:.3f})"
            outside.append(f"{method} {mask.mechanism.upper()} {SETTINGS[setting]} {value:.3f}{words}")
    if not found:
        return Verdict(asked, "not run", None)
    span = f"from {min(found):.3f} to {max(found):.3f}"
    return Verdict(asked, f"{span}; outside: {', '.join(outside)}" if outside else span, not outside)


def _average(readings: Readings, method: str, mask: Mask, pick: Pick) -> float | None:
    values = readings.all_of(readings.places(mask), [method], pick)
    return float(np.mean(list(values.values()))) if values else None


def _crps(readings: Readings) -> list[Verdict]:
    """Against the better of the others, on average and table by table."""
    names = listed(PEERS)
    found: list[tuple[float, str]] = []
    for setting in SETTINGS:
        pick = score(setting, "numbers", "crps")
        for place in readings.places():
            ours, peer = readings.of(place, DEFAULT, pick), readings.best(place, PEERS, pick)
            if ours is not None and peer is not None:
                found.append((ours / peer, with_place(ours / peer, place)))
    asked = [f"CRPS of `{DEFAULT}` below that of {names} {where}" for where in ("on average", "on every table")]
    if not found:
        return [Verdict(words, "not run", None) for words in asked]
    mean = float(np.exp(np.mean(np.log([ratio for ratio, _ in found]))))
    lower, worst = sum(ratio < 1 for ratio, _ in found), max(found)
    return [
        Verdict(asked[0], f"× {mean:.3f} (geometric mean) of the better one's", mean < 1),
        Verdict(asked[1], f"{lower} of {len(found)}; at most × {worst[1]}", lower == len(found)),
    ]


def _pooled(repeats: Sequence[Row]) -> Verdict:
    low, high = RUBIN_COVERAGE
    asked = f"95 % interval of a regression, pooled over draws, covers {low:.0%} to {high:.0%} of the time"
    ours = [row for row in repeats if row["method"] == RUBIN_OURS and row["status"] == "ok"]
    if not ours:
        return Verdict(asked, "not run", None)
    found = Validity.of(ours)
    return Verdict(asked, f"{found.coverage:.1%} of {found.repeats} (`{RUBIN_OURS}`)", low <= found.coverage <= high)


# --- sections


def section(readings: Readings) -> str:
    parts = [_what_was_run(readings)]
    for mask in readings.masks:
        for setting, name in SETTINGS.items():
            averages = readings.averages(mask, SHOWN, list(measures(setting).values()), (*PEERS, *OURS))
            parts += [f"### {mask_name(*mask)}, {name}, on average", averages]
    parts.append(
        paragraph(
            "Means over the tables. Coverage, CRPS and the calibration error are explained below, where they are given",
            'table by table. "From 20 draws": with shares of 20 draws for all methods, half a draw added to each',
            'level. "Classwise": how far the share of cells that have a level is from how likely it was said to be,',
            "over 15 bins; mean over levels, then columns. Log loss: -log of the share of draws with the true level.",
        )
    )
    for which in DETAILED:
        parts.append(f"### {measures('in_sample')[which].title}")
        for mask in readings.masks:
            for setting, name in SETTINGS.items():
                table = readings.table(mask, SHOWN, measures(setting)[which], (*PEERS, *OURS))
                parts += [f"{mask_name(*mask)}, {name}:", table]
        parts.append(measures("in_sample")[which].words)
    return "\n\n".join(parts)


def _what_was_run(readings: Readings) -> str:
    rows = readings.rows
    lines = [
        [m, ", ".join(all_values(runs, "version")) or "–", ", ".join(all_values(runs, "draws")) or "–",
         *(sum(r["status"] == status for r in runs) for status in ("ok", "timed out", "failed"))]
        for m in SHOWN if (runs := [r for r in rows if r["method"] == m])
    ]  # fmt: skip
    return "\n\n".join(
        (
            paragraph(
                "The tables and splits of [the benchmark](benchmark.md), with draws in the place of one best filling.",
                f"Missing cells: {listed(mask_name(*m) for m in readings.masks)};",
                f"seeds {listed(all_values(rows, 'seed'))}.",
                '"marginal" draws any observed value of the column, whatever else the row says: calibrated where cells',
                "are missing at random, and uninformed. The best is bold, the marginal aside.",
            ),
            markdown(["method", "version", "draws", "ended", "timed out", "failed"], lines),
        )
    )


def pooled_section(repeats: Sequence[Row]) -> str:
    rows_of = {m: [row for row in repeats if row["method"] == m and row["status"] == "ok"] for m in WAYS}
    headings = ["method", "repeats", "coverage β₁", "bias β₁", "RMSE β₁", "width β₁", "coverage β₂", "bias β₂"]
    lines = [[method, *_validity(rows)] for method, rows in rows_of.items() if rows]
    number = max((Validity.of(rows).repeats for rows in rows_of.values() if rows), default=1)
    by_chance = 1.96 * np.sqrt(0.95 * 0.05 / number)
    return "\n\n".join(
        (
            paragraph(
                f"y = {BETA[0]:g} + {BETA[1]:g} x₁ + {BETA[2]:g} x₂ + e, {ROWS} rows, x₁ and x₂ correlated; a third of",
                "x₁ is missing, the more likely the higher x₂ and y, which is missing at random. Each method's 20",
                "completed tables are analysed by least squares and pooled by Rubin's rules, with Barnard and Rubin's",
                'degrees of freedom. "nothing missing" is the same regression on the rows as they are.',
            ),
            markdown([*headings, "seconds"], lines),
            paragraph(
                "Coverage: how often the 95 % interval holds the true coefficient; in",
                f"{count_of(number, 'repeat')} it is within {by_chance:.1%} of 95 % by chance. Width: of the interval.",
                "Seconds: CPU seconds a repeat.",
            ),
        )
    )


def _validity(rows: Sequence[Row]) -> list[object]:
    first, second = Validity.of(rows), Validity.of(rows, coefficient=2)
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    return [
        first.repeats, f"{first.coverage:.1%}", f"{first.bias:+.3f}", f"{first.error:.3f}", f"{first.width:.3f}",
        f"{second.coverage:.1%}", f"{second.bias:+.3f}", f"{sum(seconds) / first.repeats:.1f}" if seconds else "–",
    ]  # fmt: skip
