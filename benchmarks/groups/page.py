"""The page docs/groups.md, from the rows of results/groups.jsonl and weights.jsonl."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.groups import weighted
from benchmarks.groups.jobs import BENCHMARK, DRAWS, GROUPS, IGNORED, METHODS, ORDERED
from benchmarks.groups.made import KINDS, RATE
from benchmarks.markup import MADE, markdown, paragraph
from benchmarks.store import Row

LEAST_GAIN = 0.15  # of the error without groups, asked
MEASURES = ("nrmse", "pfc", "coverage", "cpu_seconds")


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows, weights = BENCHMARK.rows(results), weighted.BENCHMARK.rows(results)
    if not rows or not weights:
        return None
    return f"""{MADE.format(source="results/groups.jsonl and weights.jsonl")}
# Groups and weights, measured

[Survey weights and groups](weights-and-groups.md) shows how both are used, and what they do.

## Groups and their order

{_clinic(rows)}

## Weights

{_weights(weights)}

## To repeat it

```sh
python -m benchmarks groups   # needs R with mice, pan and jomo (Debian: r-cran-mice r-cran-pan r-cran-jomo)
python -m benchmarks weights
python -m benchmarks tables   # this page
```
"""


def _clinic(rows: list[Row]) -> str:
    shape, seeds = rows[0]["settings"], sorted({row["seed"] for row in rows})
    reading = paragraph(
        f"A simulated clinic: {shape['patients']} patients with {shape['visits']} visits each, five numbers and",
        "a binary",
        f"column, of which about {RATE:.0%} is missing, more so for the old. `stable`: patients differ, and",
        "visits differ",
        "by chance; this is the model that `2l.pan` and `jomo` fit. `drifting`: what is unusual at a visit is",
        "mostly still",
        "there at the next one, and patients have trends of their own, which `2l.pan` and `jomo` are told to expect.",
        "NRMSE: root mean square error of hidden numbers / standard deviation, mean over columns; of methods that give",
        f"draws, that of the mean of {DRAWS}, less the noise of so few. PFC: share of wrong levels. Coverage: of",
        "the range",
        f"of {DRAWS} draws, which should be {(DRAWS - 1) / (DRAWS + 1):.0%}. Means over the seeds",
        f"{', '.join(map(str, seeds))}, which are not those of development.",
    )
    lines = []
    for kind in KINDS:
        for method in METHODS:
            found = [row for row in rows if (row["kind"], row["method"]) == (kind, method)]
            if found:
                means = [float(np.mean([row[name] for row in found])) for name in MEASURES]
                lines.append([kind, method, *(f"{x:.3f}" for x in means[:3]), f"{means[3]:.0f}"])
    headings = ["clinic", "method", "NRMSE", "PFC", "coverage", "CPU, s"]
    return "\n\n".join([reading, markdown(headings, lines), markdown(["asked", "found", "met"], _verdicts(rows))])


def _verdicts(rows: list[Row]) -> list[list[str]]:
    """By the errors of numbers, of the seeds that both methods have."""

    def errors(kind: str, method: str) -> dict[int, float]:
        return {row["seed"]: row["nrmse"] for row in rows if (row["kind"], row["method"]) == (kind, method)}

    lines = []
    for kind, ours in (("stable", GROUPS), ("stable", ORDERED), ("drifting", ORDERED)):
        for other in METHODS:
            if other in (GROUPS, ORDERED):
                continue
            mine, its = errors(kind, ours), errors(kind, other)
            seeds = sorted(mine.keys() & its.keys())
            if not seeds:
                continue
            ratio = float(np.mean([mine[seed] for seed in seeds]) / np.mean([its[seed] for seed in seeds]))
            most = 1 - LEAST_GAIN if other == IGNORED else 1.0
            asked = f"{kind}: error of {ours} / that of {other} ≤ {most:g}"
            lines.append([asked, f"{ratio:.3f}", "yes" if ratio <= most else "**no**"])
    return lines


def _weights(rows: list[Row]) -> str:
    reading = paragraph(
        f"A simulated survey of {rows[0]['rows']} rows with weights of 1 and 4, which matter: what goes with",
        "what differs",
        "between the two kinds of people. Distance: root mean square difference of imputed numbers of new rows",
        "from those",
        "of a fit to the same rows, each repeated as often as its weight; NRMSE: against the truth. Two fits",
        "to repeated",
        "rows differ by chance alone. With trees, a repeated row is learned by heart from its copies, which",
        "withheld cells",
        f"cannot tell; a weighted row is there once. Seeds {', '.join(sorted({str(row['seed']) for row in rows}))}.",
    )
    lines = []
    for trees in (False, True):
        found = [row for row in rows if row["trees"] == trees]
        for name in (weighted.REPEATED, weighted.AGAIN, weighted.WEIGHTED, weighted.UNWEIGHTED):
            if found:
                apart = "" if name == weighted.REPEATED else f"{np.mean([row['distance'][name] for row in found]):.3f}"
                error = f"{np.mean([row['nrmse'][name] for row in found]):.3f}"
                lines.append(["with trees" if trees else "without trees", name, apart, error])
    return f"{reading}\n\n{markdown(['', 'fit', 'distance to repeated', 'NRMSE'], lines)}"
