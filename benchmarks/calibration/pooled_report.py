"""What the rows of pooled inference say: verdicts and tables."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.calibration.pooled import ANALYSES, MECHANISMS, METHODS, PEERS, Validities
from benchmarks.markup import count_of, listed, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.store import Row

OURS = ("vsae-fast", "vsae")
COVERAGE = (0.92, 0.98)  # of 95 % intervals, asked for
MOST_BIAS = 0.2  # standard errors
MOST_WIDTH = 1.15  # times that of the best peer whose intervals cover

TITLES = {"slope": "The slope of y on x", "five": "A regression on four numbers and a level"}

Setting = tuple[str, str]  # analysis, mechanism


def _found(rows: Sequence[Row]) -> dict[Setting, dict[str, Validities]]:
    """By setting and method, where there are rows."""
    out: dict[Setting, dict[str, Validities]] = {}
    for analysis, mechanism, method in itertools.product(ANALYSES, MECHANISMS, METHODS):
        name = {"analysis": analysis, "mechanism": mechanism, "method": method, "status": "ok"}
        if some := [row for row in rows if all(row[key] == value for key, value in name.items())]:
            out.setdefault((analysis, mechanism), {})[method] = Validities.of(some)
    return out


def _covers(found: Validities) -> bool:
    return COVERAGE[0] <= found.coverage <= COVERAGE[1]


def _best_width(methods: Mapping[str, Validities]) -> float | None:
    """Of the peers whose intervals cover, the least."""
    return min((methods[peer].width for peer in PEERS if peer in methods and _covers(methods[peer])), default=None)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Every effort of ours, in every setting."""
    found = _found(rows)
    ours = [
        (f"{method}, {analysis} {mechanism.upper()}", methods[method], _best_width(methods))
        for (analysis, mechanism), methods in found.items()
        for method in OURS
        if method in methods
    ]
    asked = [
        f"outcome and covariates missing together: pooled 95 % intervals cover {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}",
        f"… bias at most {MOST_BIAS:g} of a standard error",
        f"… width at most {MOST_WIDTH:g} × that of the best peer that covers",
    ]
    if not ours:
        return [Verdict(words, "not run", None) for words in asked]
    lowest, highest = (pick(ours, key=lambda one: one[1].coverage) for pick in (min, max))
    biased = max(ours, key=lambda one: abs(one[1].bias))
    ratios = [(place, one.width / best) for place, one, best in ours if best is not None]
    coverage = f"from {lowest[1].coverage:.1%} ({lowest[0]}) to {highest[1].coverage:.1%}"
    bias = f"at most {abs(biased[1].bias):.2f} ({biased[0]})"
    widest = max(ratios, key=lambda one: one[1], default=None)
    return [
        Verdict(asked[0], coverage, all(_covers(one) for _, one, _ in ours)),
        Verdict(asked[1], bias, abs(biased[1].bias) <= MOST_BIAS),
        Verdict(asked[2], "no peer covers", None)
        if widest is None
        else Verdict(asked[2], f"at most × {widest[1]:.2f} ({widest[0]})", widest[1] <= MOST_WIDTH),
    ]


def section(rows: Sequence[Row]) -> str:
    found = _found(rows)
    number = max((one.repeats for methods in found.values() for one in methods.values()), default=1)
    by_chance = 1.96 * np.sqrt(0.95 * 0.05 / number)
    slope, five = ANALYSES["slope"], ANALYSES["five"]
    parts = [
        paragraph(
            f"Two analyses of simulated rows. The slope of y on x, {slope.rows} rows: x and y are missing together in",
            "a quarter of the rows, one of them in a further fifth, and z, which is always seen and tells of both, is",
            f"no part of the regression. And a regression of y on four numbers and a binary level, {five.rows} rows:",
            "x₁ and y are missing together, and x₂ and the level. MAR: the more likely the higher, or lower, a column",
            "that is always seen. Tables and rules as above. `mice` is R's with its defaults, `mice-norm` with the",
            "regressions that the rows were simulated by.",
        )
    ]
    for (analysis, mechanism), methods in found.items():
        best = _best_width(methods)
        lines = [
            [method, one.repeats, f"{one.coverage:.1%}", f"{one.lowest:.1%}", f"{one.bias:+.2f}", f"{one.width:.3f}",
             "–" if best is None else f"{one.width / best:.2f}"]
            for method, one in methods.items()
        ]  # fmt: skip
        headings = ["method", "repeats", "coverage", "least of a slope", "bias / se", "width", "× best covering peer"]
        parts += [f"### {TITLES[analysis]}, {mechanism.upper()}", markdown(headings, lines)]
    parts.append(
        paragraph(
            "Coverage and width: means over the slopes; bias: of the slope that is farthest off, in units of its",
            f"stated standard error. In {count_of(number, 'repeat')} the coverage of one slope is within",
            f"{by_chance:.1%} of 95 % by chance, and its bias within {1.96 / np.sqrt(number):.2f} of 0.",
            f"Peers: {listed(PEERS)}.",
        )
    )
    return "\n\n".join(parts)
