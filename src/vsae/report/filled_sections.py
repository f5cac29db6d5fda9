"""The sections on what was put into missing cells, how good and how sure it is, and how it was done."""

from __future__ import annotations

from typing import Any

import numpy as np

from vsae.evaluation.report import OURS, Evaluation
from vsae.plots.cells import Distribution, Uncertainty
from vsae.report import charts
from vsae.report.findings import Findings
from vsae.report.markup import (
    Cell,

    card,
    cards,
    name_cell,
    number_cell,
    paragraph,
    percent,
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
        "Pairs of columns that depend on one another most. In an orange point at least one of the two values was missing "
        "and is drawn; orange points should lie as grey ones do, given what is known of their rows."
    )
    legend = '<p class="legend"><span>both observed</span><span class="i">one or both drawn</span></p>'
    shown = [card(f"{each.y.label} by {each.x.label}", charts.pair(each)) for each in found.pairs]
    return said + legend + cards(shown, len(shown))


def hidden(found: Findings) -> str:
    evaluation = found.evaluation
    if evaluation is None:
        return paragraph(
            "This was not measured: it takes a new fit. `imputer.report(df, evaluation=True)`, or `vsae impute` without "
            "`--no-evaluation`, does it."
        )
    by_label = {label: plan for label, plan in found.plans.items()}
    numbers = [c for c in evaluation.columns if c.coverage is not None and c.column in by_label]
    levels = [evaluation.cells[c.column] for c in evaluation.columns if c.coverage is None and c.column in evaluation.cells]
    times = "once" if evaluation.repeats == 1 else f"{evaluation.repeats} times, each time others"
    said = paragraph(
        f"{percent(evaluation.holdout)} of the known cells were hidden {times}, as the table hides its own, and a new "
        "model that had not seen them was asked for them.",
        *calibration(evaluation),
    )
    aside = paragraph(
        "Cells that are missing because of their own value may be further off than known ones.", kind="aside"
    )
    out = said + aside + _errors(evaluation)
    if numbers:
        legend = (
            '<h3>Numbers: what a hidden cell holds, and the 90% interval that was said of it</h3><p class="legend">'
            '<span>inside its interval</span><span class="i">outside</span></p>'
        )
        shown = [
            card(
                c.column,
                charts.hidden_numbers(evaluation.cells[c.column], by_label[c.column]),
                f"{percent((c.coverage or {})[0.9])} of {c.cells:,} cells lie in their 90% interval",
            )
            for c in numbers
            if c.column in evaluation.cells
        ]
        out += legend + cards(shown, _OPEN)
    if levels:
        out += (
            "<h3>Levels: how sure the model is, and how often it is right</h3>"
            + charts.reliability(levels)
            + paragraph("On the dashed line, probabilities are as often right as they say. Bars are 95% intervals.", kind="legend")
        )
    return out


def _errors(found: Evaluation) -> str:
    methods = list(found.seconds)
    lines: list[tuple[Any, list[Cell]]] = []
    for c in found.columns:
        best = min(c.errors.values())
        errors = [
            number_cell(c.errors[m])._replace(shown=f"{'<b>' if c.errors[m] == best else ''}{c.errors[m]:.3f}{'</b>' if c.errors[m] == best else ''}")
            for m in methods
        ]
        sure = None if c.confidence is None else c.confidence
        covered = None if c.coverage is None else c.coverage[0.9]
        lines.append(
            (
                c.column,
                [name_cell(c.column), Cell(text(c.measure)), number_cell(c.cells), *errors,
                 number_cell(c.se, f"± {c.se:.3f}"), number_cell(covered, percent(covered) if covered is not None else ""),
                 number_cell(sure, percent(sure) if sure is not None else ""),
                 Cell("" if c.predictable else '<span class="dim">no better than the simplest</span>')],
            )
        )  # fmt: skip
    shown = [OURS if m == OURS else m for m in methods]
    headings = ["column", "error", "cells", *shown, "±", "in 90%", "sure", ""]
    note = (
        "NRMSE: root mean squared error / standard deviation, 1 is no better than the mean. ±: standard error of ours. In "
        "90%: numbers inside their interval. Sure: mean probability of the levels filled in. The lowest error is bold."
    )
    return f'<h3>Errors on hidden cells</h3>{table(headings, lines)}{paragraph(note, kind="legend")}'


def unsure(found: Findings) -> str:
    if not found.uncertainty:
        return paragraph("No cell is filled.")
    said = paragraph(
        "Uncertainty is relative, and 0 is sure. Numbers: the width of the 90% interval / that of the observed values, so 1 "
        "is no more than the column tells without the row. Levels: the probability of all levels but the one filled in, "
        "so that 1 is that all are equally likely.",
        f"It was computed for {found.drawn_rows:,} rows." if found.drawn_rows < found.rows else "",
    )
    lines = [
        (each.plan.label, [name_cell(each.plan.label), number_cell(len(each.rows)), _spread(each),
                           number_cell(float(np.median(each.relative)), f"{np.median(each.relative):.2f}")])
        for each in sorted(found.uncertainty, key=lambda each: -float(np.median(each.relative)))
    ]  # fmt: skip
    columns = table(["column", "cells", "10th to 90th percentile", "median"], lines)
    cells = [
        (cell.plan.label, [name_cell(cell.plan.label), Cell(text(cell.row)), Cell(text(cell.filled)), Cell(text(cell.range)),
                           number_cell(cell.relative, f"{cell.relative:.2f}")])
        for cell in found.unsure
    ]  # fmt: skip
    listing = table(["column", "row", "filled with", "interval or probability", "uncertainty"], cells)
    return (
        f'{said}<h3>By column</h3>{columns}<h3>The cells it is least sure of</h3>'
        f"{paragraph('At most five of each column, by row' + (' of the index' if found.named_rows else ', counted from 1') + '.')}"
        f"{listing}"
    )


def _spread(found: Uncertainty) -> Cell:
    low, middle, high = (100 * min(float(q), _SURE_END) / _SURE_END for q in np.quantile(found.relative, (0.1, 0.5, 0.9)))
    line = f'<i style="left:{low:.1f}%;width:{max(0.5, high - low):.1f}%"></i><b style="left:{middle:.1f}%"></b>'
    return Cell(f'<span class="sure">{line}</span>', middle, right=False)


def training(found: Findings) -> str:
    if not len(found.training.step):
        return paragraph("There is no record of the training.")
    said = paragraph(
        "Left, the error on cells that training did not see, a line a member; rings mark the weights that were kept. Right, "
        "the terms of the bound that is maximised."
    )
    terms = "".join(f'<span class="t{k}">{text(name)}</span>' for k, name in enumerate(found.training.terms))
    right = f'<div>{charts.terms(found.training)}<p class="legend">{terms}</p></div>'
    return f'{said}<div class="two">{charts.scores(found.training)}{right}</div>'


def done(found: Findings) -> str:
    story = found.story
    said = "".join(f"<p>{words(sentence)}</p>" for sentence in story.sentences)
    versions, settings = (
        table([what, ""], [("", [Cell(text(name)), Cell(f"<code>{text(value)}</code>")]) for name, value in pairs_of.items()])
        for what, pairs_of in (("version", story.versions), ("setting", story.settings))
    )
    return f'{said}<h3>To repeat it</h3><pre>{text(story.again)}</pre><div class="two">{versions}{settings}</div>'


