"""The page docs/generation.md and its figures, from the rows of five benchmarks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.calibration import jobs as draws_jobs
from benchmarks.calibration import pooled, pooled_report, rubin
from benchmarks.calibration import report as calibration
from benchmarks.generation import conditions
from benchmarks.generation import jobs as rows_jobs
from benchmarks.generation import report as generation
from benchmarks.generation.figures import Mark, dots_svg
from benchmarks.markup import MADE, listed, markdown, mask_name
from benchmarks.peers.cells import SETTINGS
from benchmarks.peers.readings import Readings

BENCHMARKS = (rows_jobs.BENCHMARK, draws_jobs.BENCHMARK, rubin.BENCHMARK, pooled.BENCHMARK, conditions.BENCHMARK)
AUC, COVERAGE, POOLED = "generation-auc.svg", "calibration-coverage.svg", "pooled-coverage.svg"


def page(results: Path) -> str | None:
    """The page, or None while there is not a row of each benchmark."""
    rows, draws, repeats, together, asked = _all_readings(results)
    if not (rows.rows and draws.rows and repeats.rows and together.rows and asked.rows):
        return None
    verdicts = [
        *generation.verdicts(rows),
        *calibration.verdicts(draws, repeats.rows),
        *pooled_report.verdicts(together.rows),
        conditions.verdict(asked.rows),
    ]
    met = [verdict.met for verdict in verdicts]
    return f"""{MADE.format(source="results/" + listed(f"{benchmark.name}.jsonl" for benchmark in BENCHMARKS))}
# Draws one can believe

Generated rows against real ones, draws for missing cells against what was hidden, and a regression pooled over draws.
Of {len(verdicts)} figures asked for, {met.count(True)} are met, {met.count(False)} not.

{markdown(["asked", "found", "met"], [verdict.line() for verdict in verdicts])}

## Generated rows

![Real or generated?](figures/{AUC})

{generation.section(rows)}

## Rows under a condition

{conditions.section(asked.rows)}

## Draws for missing cells

![Coverage of 90 % intervals](figures/{COVERAGE})

{calibration.section(draws)}

## A regression on incomplete rows

![Coverage of pooled 95 % intervals](figures/{POOLED})

{calibration.pooled_section(repeats.rows)}

## Outcome and covariates missing together

{pooled_report.section(together.rows)}

## To repeat it

```sh
make peers                       # the environments of the peers
python -m benchmarks generation  # the runs; those that are there are not run again
python -m benchmarks calibration
python -m benchmarks rubin
python -m benchmarks pooled
python -m benchmarks conditions
python -m benchmarks tables      # this page
```

`--methods vsae --force` runs one method again.
"""


def _all_readings(results: Path) -> list[Readings]:
    return [Readings(tuple(benchmark.rows(results))) for benchmark in BENCHMARKS]


def figures(results: Path) -> dict[str, str]:
    """Name → SVG. Needs matplotlib if there are rows."""
    if page(results) is None:
        return {}
    rows, draws, repeats = _all_readings(results)[:3]
    return {AUC: _auc(rows), COVERAGE: _coverage(draws), POOLED: _pooled(repeats)}


def _auc(rows: Readings) -> str:
    panels = {
        mask_name(*mask): [
            Mark(place.table, method, value)
            for (place, method), value in rows.all_of(
                rows.places(mask), generation.SHOWN, generation.score("auc", "incomplete")
            ).items()
        ]
        for mask in rows.masks
    }
    words = "area under the curve of a classifier: ½ is as good as real, 1 is told at once"
    return dots_svg(panels, list(dict.fromkeys(p.table for p in rows.places())), words, legend=True)


def _coverage(draws: Readings) -> str:
    panels = {
        f"{mask_name(*mask)}, {name}": [
            Mark(method, method, value)
            for (_, method), value in draws.all_of(
                draws.places(mask), calibration.SHOWN, calibration.score(setting, "numbers", "coverage90")
            ).items()
        ]
        for mask in draws.masks
        for setting, name in SETTINGS.items()
    }
    methods = [m for m in calibration.SHOWN if any(mark.row == m for marks in panels.values() for mark in marks)]
    words = "share of hidden numbers inside their 90 % interval, a mark a table; shaded: 87 to 93 %"
    return dots_svg(panels, methods, words, band=calibration.COVERAGE)


def _pooled(repeats: Readings) -> str:
    marks = []
    for method in rubin.METHODS:
        if rows := [row for row in repeats.rows if row["method"] == method and row["status"] == "ok"]:
            marks.append(Mark(method, method, rubin.Validity.of(rows).coverage))
    words = "share of 95 % intervals that hold β₁; shaded: 92 to 98 %"
    return dots_svg({"": marks}, [mark.row for mark in marks], words, band=calibration.RUBIN_COVERAGE)
