"""The sections on what was put into missing cells, how good and how sure it is, and how it was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vsae.evaluation.report import Evaluation
from vsae.plots.cells import Distribution
from vsae.report import charts
from vsae.report.findings import Findings
from vsae.report.markup import (
    Cell,
    card,
    cards,
    ends_cell,
    name_cell,
    number_cell,
    paragraph,
    percent,
    share_cell,
    table,
    text,
    words,
)
from vsae.report.missing_sections import calibration

_OPEN = 12  # columns whose figures are seen at once
_SURE_END = 1.5  # relative uncertainty at the right end of a line


def distributions(found: Findings) -> str:
    if not found.distributions:
        return paragraph("No cell is filled.")
    said = paragraph(
        f"What is observed of each column, beside {found.draws} draws of its missing cells"
        + (f" in {found.drawn_rows:,} rows that were chosen at random." if found.drawn_rows < found.rows else "."),
    )
    aside = paragraph(
        "A difference is no error: cells that are missing for a reason hold other values than those that are observed, "
        "and drawn values should differ where they do.",
        kind="aside",
    )
    legend = '<p class="legend"><span>observed</span><span class="i line">drawn for missing cells</span></p>'
    order = sorted(found.distributions, key=lambda each: -each.cells[1])
    shown = [card(each.plan.label, charts.distribution(each), _cells(each)) for each in order]
    return said + aside + legend + cards(shown, _OPEN)


def _cells(found: Distribution) -> str:
    observed, missing = found.cells
    return f"{observed:,} observed, {missing:,} missing"


def pairs(found: Findings) -> str:
    if not found.pairs:
        return paragraph("No cell is filled.")
    said = paragraph(
        "Pairs of columns that depend on one another most. In an orange point at least one of the two values was "
        "missing and is drawn; orange points should lie as grey ones do, given what is known of their rows."
    )
    legend = '<p class="legend"><span>both observed</span><span class="i">one or both drawn</span></p>'
    shown = [card(f"{each.y.label} by {each.x.label}", charts.pair(each)) for each in found.pairs]
    return said + legend + cards(shown, len(shown))


def hidden(found: Findings) -> str:
    evaluation = found.evaluation
    if evaluation is None:
        return paragraph(
            f"Known cells were not hidden and asked for again: {found.unmeasured}. `imputer.evaluate(df)`, or "
            "`vsae evaluate` in the shell, says how good the filled values are."
        )
    times = "once" if evaluation.repeats == 1 else f"{evaluation.repeats} times, each time others"
    said = paragraph(
        f"{percent(evaluation.holdout)} of the known cells were hidden {times}, as the table hides its own, and a new "
        "model that had not seen them was asked for them.",
        *calibration(evaluation),
    )
    aside = "Cells that are missing because of their own value may be further off than known ones."
    return (
        said + paragraph(aside, kind="aside") + _errors(evaluation) + _numbers(found, evaluation) + _levels(evaluation)
    )


def _errors(found: Evaluation) -> str:
    methods = list(found.seconds)
    lines: list[tuple[Any, list[Cell]]] = []
    for c in found.columns:
        best = min(c.errors.values())
        errors = [Cell(f"<b>{x:.3f}</b>" if x == best else f"{x:.3f}", x) for x in (c.errors[m] for m in methods)]
        coverage = None if c.coverage is None else c.coverage[0.9]
        weak = "" if c.predictable else '<span class="dim wide">no better than the simplest</span>'
        lines.append(
            (
                c.column,
                [
                    name_cell(c.column), Cell(text(c.measure)), number_cell(c.cells), *errors,
                    number_cell(c.se, f"{c.se:.3f}"), share_cell(coverage), share_cell(c.confidence), Cell(weak),
                ],
            )
        )  # fmt: skip
    headings = ["column", "error", "cells", *methods, "±", "in 90%", "sure", ""]
    note = (
        "NRMSE: root mean squared error / standard deviation, 1 is no better than the mean. ±: standard error of ours. "
        "In 90%: numbers inside their interval. Sure: mean probability of the levels filled in. Lowest errors are bold."
    )
    return f"<h3>Errors on hidden cells</h3>{table(headings, lines)}{paragraph(note, kind='legend')}"


def _numbers(found: Findings, evaluation: Evaluation) -> str:
    shown = [
        card(
            c.column,
            charts.hidden_numbers(evaluation.cells[c.column], found.plans[c.column]),
            f"{percent(c.coverage[0.9])} of {c.cells:,} cells lie in their 90% interval",
        )
        for c in evaluation.columns
        if c.coverage is not None and c.column in found.plans and c.column in evaluation.cells
    ]
    if not shown:
        return ""
    legend = '<p class="legend"><span>inside its interval</span><span class="i">outside</span></p>'
    heading = "<h3>Numbers: what a hidden cell holds, and the 90% interval that was said of it</h3>"
    return heading + legend + cards(shown, _OPEN)


def _levels(evaluation: Evaluation) -> str:
    levels = [c.column for c in evaluation.columns if c.coverage is None and c.column in evaluation.cells]
    if not levels:
        return ""
    note = "On the dashed line, probabilities are as often right as they say. Bars are 95% intervals."
    heading = "<h3>Levels: how sure the model is, and how often it is right</h3>"
    return heading + charts.reliability([evaluation.cells[c] for c in levels]) + paragraph(note, kind="legend")


def unsure(found: Findings) -> str:
    if not found.uncertainty:
        return paragraph("No cell is filled.")
    said = paragraph(
        "Uncertainty is relative, and 0 is sure. Numbers: the width of the 90% interval / that of the observed values, "
        "so 1 is no more than the column tells without the row. Levels: the probability of all levels but the one "
        "filled in, so that 1 is that all are equally likely.",
        f"It was computed for {found.drawn_rows:,} rows." if found.drawn_rows < found.rows else "",
    )
    lines: list[tuple[Any, list[Cell]]] = []
    for each in sorted(found.uncertainty, key=lambda each: -float(np.median(each.relative))):
        low, middle, high = (float(q) for q in np.quantile(each.relative, (0.1, 0.5, 0.9)))
        cells = [
            number_cell(len(each.rows)),
            ends_cell(low, middle, high, _SURE_END),
            number_cell(middle, f"{middle:.2f}"),
        ]
        lines.append((each.plan.label, [name_cell(each.plan.label), *cells]))
    columns = table(["column", "cells", "10th to 90th percentile", "median"], lines)
    single: list[tuple[Any, list[Cell]]] = []
    for cell in found.unsure:
        texts = [Cell(text(shown)) for shown in (cell.row, cell.filled, cell.range)]
        relative = number_cell(cell.relative, f"{cell.relative:.2f}")
        single.append((cell.plan.label, [name_cell(cell.plan.label), *texts, relative]))
    listing = table(["column", "row", "filled with", "interval or probability", "uncertainty"], single)
    rows = "rows are named by the index" if found.named_rows else "rows are counted from 1"
    note = paragraph(f"At most five of each column; {rows}.")
    return f"{said}<h3>By column</h3>{columns}<h3>The cells it is least sure of</h3>{note}{listing}"


def training(found: Findings) -> str:
    if not len(found.training.step):
        return paragraph("There is no record of the training.")
    said = paragraph(
        "First, the error on cells that training did not see, a line a member; rings mark the weights that were kept. "
        "Then, the terms of the bound that is maximised."
    )
    names = "".join(f'<span class="t{k}">{text(name)}</span>' for k, name in enumerate(found.training.terms))
    right = f'<div>{charts.terms(found.training)}<p class="legend">{names}</p></div>'
    return f'{said}<div class="two">{charts.scores(found.training)}{right}</div>'


def done(found: Findings) -> str:
    story = found.story
    said = "".join(f"<p>{words(sentence)}</p>" for sentence in story.sentences)
    again = f"<h3>To repeat it</h3><pre>{text(story.again)}</pre>"
    parts = (_listing("version", story.versions), _listing("setting", story.settings))
    return f'{said}{again}<div class="two">{"".join(parts)}</div>'


def _listing(what: str, named: Mapping[str, str]) -> str:
    lines = [("", [Cell(text(name)), Cell(f"<code>{text(value)}</code>")]) for name, value in named.items()]
    return table([what, ""], lines) if lines else ""
