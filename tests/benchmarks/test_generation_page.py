"""The page of generation and calibration says what its rows say; these are made up, so every number is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.calibration import report as calibration
from benchmarks.generation import pages
from benchmarks.generation import report as generation
from benchmarks.generation.conditions import CONDITIONS
from benchmarks.peers.readings import Mask, Place, Readings

MCAR = Mask("mcar", 0.3)
ASSOCIATION = {"vsae": 0.05, "copula": 0.04, "mostlyai": 0.2, "independent": 0.3, "real rows": 0.0}


def generated(table: str, method: str, seed: int = 11, **changes) -> dict:
    ours = method == "vsae"
    scores = {
        "association": {
            "mean": ASSOCIATION[method], "worst": 0.3, "worst_pair": ["a", "b"], "by_chance": 0.01,
        },
        "marginal": {"mean": 0.02 if ours else 0.03, "worst": 0.2, "worst_column": "a", "by_chance": 0.01},
        "auc": {"incomplete": 0.6 if ours or table == "adult" else 0.55} | ({"complete": 0.7} if ours else {}),
        "utility": {"measure": "accuracy", "incomplete": 0.8, "real": 0.9, "real_incomplete": 0.85}
        | ({"complete": 0.75} if ours else {}),
        "nulls": {"mean": 0.01, "worst": 0.015, "worst_column": "a"},
        "nearness": {"ratio": 1.1, "same": 0.0, "same_real": 0.0},
    }  # fmt: skip
    return {
        "table": table, "mechanism": "mcar", "rate": 0.3, "seed": seed, "method": method, "status": "ok", "error": None,
        "scores": scores, "seconds": 3.0, "seconds_rows": 1.0, "memory_mb": 100.0, "rows": 800, "columns": 9,
        "target": "a", "version": f"{method} 1", "threads": 1, "limit": 600.0, "machine": "a machine",
    } | changes  # fmt: skip


def drawn(method: str, coverage: float, crps: float, **changes) -> dict:
    numbers = {"cells": 100.0, "coverage90": coverage, "coverage50": 0.5, "crps": crps}
    levels = {"cells": 100, "ece": 0.02, "ece_by_chance": 0.01, "classwise": 0.03, "log_loss": 0.5}
    part = {"numbers": numbers, "draws": levels} | ({"stated": levels} if method.startswith("vsae") else {})
    return {
        "table": "adult", "mechanism": "mar", "rate": 0.3, "seed": 11, "method": method, "status": "ok", "error": None,
        "in_sample": part, "new_rows": part, "draws": 20, "seconds": 2.0, "version": "1",
    } | changes  # fmt: skip


def repeats(method: str, hits: int) -> dict:
    answers = [
        {
            "estimate": [1, 0.5, 0.5],
            "std_error": [1, 1, 1],
            "low": [0, 0.4, 0],
            "high": [2, 0.6 if i < hits else 0.45, 1],
        }
        for i in range(50)
    ]
    return {"method": method, "first": 0, "status": "ok", "estimates": answers, "seconds": 10.0}


def together(method: str, hits: int, half: float, bias: float = 0.03) -> dict:
    """The slope is .8; the first `hits` of 50 intervals hold it."""
    answers = [
        {"estimate": [1, 0.8 + bias], "std_error": [0.1, 0.1], "low": [0, 0.8 - half if i < hits else 0.81],
         "high": [2, 0.8 + half if i < hits else 0.81 + 2 * half]}
        for i in range(50)
    ]  # fmt: skip
    return {
        "analysis": "slope", "mechanism": "mar", "method": method, "first": 0, "status": "ok", "estimates": answers,
        "seconds": 10.0,
    }  # fmt: skip


def conditional(distance: float) -> dict:
    columns = ("age", "fee", "income")
    distances = [{"column": c, "found": 0.3 if c == "income" else distance, "without": 0.5} for c in columns]
    scores = {c.words: {"distances": [d for d in distances if d["column"] not in c.given]} for c in CONDITIONS}
    return {"seed": 0, "rows": 2000, "generated": 5000, "conditions": scores}


@pytest.fixture
def results(tmp_path):
    """Folder of rows; give it others to add or to put in the place of those, or `without` to leave some out."""
    content = {
        "generation": [generated(t, m) for t in ("yeast", "adult") for m in ASSOCIATION],
        "calibration": [drawn("vsae", 0.9, 0.3), drawn("vsae-fast", 0.8, 0.4), drawn("miceforest", 0.7, 0.35)],
        "rubin": [repeats("nothing missing", 47), repeats("vsae-fast", 40)],
        "pooled": [
            together("nothing missing", 47, 0.1), together("mice", 47, 0.2), together("mice-norm", 40, 0.1),
            together("vsae-fast", 45, 0.25), together("vsae", 48, 0.22),
        ],
        "conditions": [conditional(0.06)],
    }  # fmt: skip

    def write(without=lambda row: False, **more):
        for benchmark in pages.BENCHMARKS:
            rows = [*content[benchmark.name], *more.get(benchmark.name, [])]
            benchmark.store(tmp_path).add(*(row for row in rows if not without(row)))
        return tmp_path

    return write


def readings_of(name: str, folder: Path) -> Readings:
    return Readings(tuple(next(b for b in pages.BENCHMARKS if b.name == name).rows(folder)))


def verdict(text: str, begins: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {begins}"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_verdicts(results):
    text = pages.page(results())
    assert verdict(text, "association error") == ["at most 0.050 (yeast, MCAR)", "yes"]
    assert verdict(text, "distance of columns") == ["2 of 2", "yes"]
    assert verdict(text, "real-or-generated") == ["1 of 2; above it on yeast MCAR", "**no**"]
    assert verdict(text, "real-or-generated AUC of complete rows") == ["0.700 over 2 tables", "**no**"]
    assert verdict(text, "trained on generated") == ["0 of 2; most behind 0.050 (yeast, MCAR)", "**no**"]
    assert verdict(text, "shares of missing cells")[1] == "yes"
    outside = "outside: vsae-fast MAR in sample 0.800, vsae-fast MAR new rows 0.800"
    assert verdict(text, "90 % intervals") == [f"from 0.800 to 0.900; {outside}", "**no**"]
    assert verdict(text, "calibration error") == ["from 0.020 to 0.020", "yes"]
    crps = "CRPS of `vsae` below that of midas2 and miceforest"
    assert verdict(text, f"{crps} on average") == ["× 0.857 (geometric mean) of the better one's", "yes"]
    assert verdict(text, f"{crps} on every table") == ["2 of 2; at most × 0.857 (adult, MAR)", "yes"]
    assert verdict(text, "95 % interval") == ["80.0% of 50 (`vsae-fast`)", "**no**"]
    lowest = "from 90.0% (vsae-fast, slope MAR) to 96.0%"
    assert verdict(text, "outcome and covariates missing together") == [lowest, "**no**"]
    assert verdict(text, "… bias") == ["at most 0.30 (vsae-fast, slope MAR)", "**no**"]
    assert verdict(text, "… width") == ["at most × 1.25 (vsae-fast, slope MAR)", "**no**"]  # mice-norm does not cover
    assert "| vsae | 50 | 96.0% | 96.0% | +0.30 | 0.440 | 1.10 |" in text
    assert verdict(text, "conditional distributions") == ["at most 0.060 (age where sex = female)", "yes"]
    assert "| age = 70 | given | .06 / .50 | .30 / .50 |" in text
    assert "Of 15 figures asked for, 7 are met, 8 not." in text


def test_what_was_not_run_is_not_judged(results):
    text = pages.page(results(without=lambda row: "scores" in row and row["method"] == "vsae"))
    assert verdict(text, "association error") == ["not run", "–"]


def test_there_is_no_page_without_rows(tmp_path):
    assert pages.page(tmp_path) is None
    assert pages.figures(tmp_path) == {}


def test_the_best_generator_is_bold_and_the_trivial_ones_never(results):
    late = generated("yeast", "copula") | {"status": "timed out", "scores": None, "seconds": None}
    readings = readings_of("generation", results(generation=[late]))
    table = readings.table(MCAR, generation.SHOWN, generation.MEASURES[0], generation.GENERATORS)
    lines = dict(line.strip("| ").split(" | ", 1) for line in table.splitlines()[2:])
    assert lines["copula"] == "t/o | **0.040**"
    assert lines["vsae"] == "**0.050** | 0.050"
    assert lines["real rows"] == "0.000 | 0.000"
    assert lines["*by chance*"] == "0.010 | 0.010"
    averages = readings.averages(MCAR, generation.SHOWN, generation.MEASURES[:1], generation.GENERATORS)
    assert "| copula | – |" in averages
    assert "| vsae | **0.050** |" in averages


def test_readings_are_means_over_seeds_and_lacking_where_one_is(results):
    other = generated("yeast", "vsae", seed=12)
    other["scores"]["association"]["mean"] = 0.15
    place, pick = Place("yeast", MCAR), generation.score("association", "mean")
    assert readings_of("generation", results(generation=[other])).of(place, "vsae", pick) == pytest.approx(0.1)
    failed = generated("yeast", "vsae", seed=12) | {"status": "failed", "scores": None}
    readings = readings_of("generation", results(generation=[failed]))
    assert readings.of(place, "vsae", pick) is None
    assert readings.why_not(place, "vsae") == "failed"
    assert readings.why_not(place, "tvae") == "n/r"


def test_coverage_is_best_near_what_was_asked(results):
    readings = readings_of("calibration", results(calibration=[drawn("midas2", 1.0, 0.5)]))
    measure = calibration.measures("new_rows")["coverage90"]
    table = readings.table(Mask("mar", 0.3), calibration.SHOWN, measure, (*calibration.PEERS, *calibration.OURS))
    assert "| vsae | **0.900** |" in table
    assert "| midas2 | 1.000 |" in table


def test_figures_are_the_same_each_time(results):
    pytest.importorskip("matplotlib")
    first, again = pages.figures(results()), pages.figures(results())
    assert first == again
    assert sorted(first) == ["calibration-coverage.svg", "generation-auc.svg", "pooled-coverage.svg"]
