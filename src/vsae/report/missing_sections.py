"""The sections on the table and on what is missing in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vsae.evaluation.report import Evaluation
from vsae.mechanism.report import ColumnMechanism, Effect
from vsae.plots.missingness import Shares
from vsae.report import charts
from vsae.report.findings import Findings
from vsae.report.markup import (
    Cell,
    attribute,
    bar_cell,
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
from vsae.report.story import reason
from vsae.report.svg import shaded_png

_OPEN = 12  # columns whose figures are seen at once
_WIDEST = 4.0  # log odds, at the ends of an effect's line
_NAMED = 8  # columns in a sentence


def glance(found: Findings) -> str:
    incomplete = len(found.missingness.incomplete)
    columns = len(found.fills)
    tiles = [
        (f"{found.rows:,}", "rows"),
        (f"{columns:,}", "columns"),
        (percent(found.missing / max(1, found.cells)), "of the cells missing"),
        (f"{found.missing:,}", f"missing cells, in {incomplete} columns"),
        (f"{found.filled:,}", "cells filled"),
        (f"{found.left:,}", "cells left empty"),
    ]
    shown = "".join(f"<div><b>{text(value)}</b><span>{text(said)}</span></div>" for value, said in tiles)
    points = "".join(f"<li>{words(sentence)}</li>" for sentence in _in_short(found))
    return f'<div class="tiles">{shown}</div><ul class="short">{points}</ul>{_columns(found)}'


def _in_short(found: Findings) -> list[str]:
    said = []
    if not found.missing:
        return ["No cell of this table is missing."]
    worst = sorted(found.missingness.incomplete, key=lambda j: -found.missingness.share[j])[:3]
    named = ", ".join(f"`{found.missingness.labels[j]}` ({percent(found.missingness.share[j])})" for j in worst)
    complete = int((~found.missingness.missing.any(axis=1)).sum())
    said.append(f"Most is missing of {named}; {complete:,} of {found.rows:,} rows miss nothing.")
    left = [fill for fill in found.fills if fill.left and fill.size]
    if left:
        said.append(f"Left empty: {listed([f'{fill.label}' for fill in left])}; the table below says why.")
    own = [c.name for c in found.mechanism.columns if (c.self_masking or 0) > 0.5 and (c.own_gain or 0) > 2]
    if own:
        said.append(f"Their own value is likely to play a part in what is missing of {listed(own)}.")
    return said + _trust(found.evaluation)


def _trust(found: Evaluation | None) -> list[str]:
    if found is None:
        return ["How good the filled values are was not measured on known cells; see “Known cells, hidden”."]
    said = calibration(found)
    hopeless = [str(column.column) for column in found.columns if not column.predictable]
    if hopeless:
        said.append(f"No better than mean or mode, as far as hidden cells tell: {listed(hopeless)}.")
    return said


def calibration(found: Evaluation) -> list[str]:
    """Whether intervals and probabilities are what they say, over all hidden cells."""
    covered, right = found.coverage, found.right
    said = []
    if covered:
        said.append(
            f"Of the known numbers that were hidden again, {percent(covered[0.9])} lie in their 90% interval, and "
            f"{percent(covered[0.5])} in their 50% interval."
        )
    if right:
        said.append(
            f"Of the known levels that were hidden again, {percent(right.share)} are right; the model says "
            f"{percent(right.said)}."
        )
    return said


def listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMED]) + more


def _columns(found: Findings) -> str:
    lines: list[tuple[Any, list[Cell]]] = []
    for fill, share in zip(found.fills, found.missingness.share.tolist(), strict=True):
        plan = found.plans.get(fill.label)
        if plan is None:
            kind, why, values = "not known", fill.left, ""
        else:
            kind, why = plan.kind_name, reason(plan, fill.label in found.asked)
            values = plan.describe() if plan.kind is not None else ""
        what = "" if not fill.size else "left empty" if fill.left else "filled"
        lines.append(
            (
                fill.label,
                [
                    name_cell(fill.label), Cell(text(kind)), bar_cell(share), number_cell(fill.size), Cell(text(what)),
                    Cell(f'<span class="dim">{text(values)}</span>'), Cell(f'<span class="dim">{text(why)}</span>'),
                ],
            )
        )  # fmt: skip
    headings = ["column", "taken for", "missing", "cells", "became", "values", "because"]
    return f"<h3>Columns</h3>{table(headings, lines)}"


def matrix(found: Findings) -> str:
    missingness = found.missingness
    order = missingness.clustered
    if not len(order):
        return paragraph("No cell is missing.")
    complete = len(missingness.labels) - len(order)
    spans, bins = len(order), missingness.matrix()
    labels = "".join(
        f'<span class="label"{attribute("title", missingness.labels[j])} style="grid-row:{i + 1}">'
        f"{text(missingness.labels[j])}</span>"
        f'<span class="share" style="grid-row:{i + 1}">{percent(missingness.share[j])}</span>'
        for i, j in enumerate(order.tolist())
    )
    image = f'<img alt="Missing cells" src="{shaded_png(bins)}" style="grid-row:1 / span {spans}">'
    ends = f'<span class="ends" style="grid-row:{spans + 1}"><i>row 1</i><i>row {found.rows:,}</i></span>'
    rows = found.rows / bins.shape[1]
    said = paragraph(
        "Each line is a column, from the first row of the table to the last; blue is missing.",
        "Columns that miss together stand together.",
        f"A point stands for {rows:,.0f} rows, the darker the more of them miss the cell." if rows >= 2 else "",
        f"{complete} columns without a missing cell are left out." if complete else "",
    )
    return f'{said}<div class="matrix">{image}{labels}{ends}</div>'


def patterns(found: Findings) -> str:
    shown = found.missingness.patterns()
    if not len(shown.rows):
        return paragraph("No cell is missing.")
    rest = f"{shown.others:,} rarer patterns are not shown." if shown.others else ""
    single = int((shown.cells.sum(axis=1) == 1).sum())
    said = paragraph(
        "Each pattern is the set of columns that a row misses.",
        f"{shown.complete:,} of {found.rows:,} rows miss nothing.",
        f"Of the {len(shown.rows)} commonest patterns, {single} miss one column only.",
        rest,
    )
    return said + charts.upset(shown, found.missingness.labels, found.rows)


def groups(found: Findings) -> str:
    if not len(found.missingness.incomplete):
        return paragraph("No cell is missing.")
    if not found.groups:
        return paragraph("There is no column of two to twelve levels to group rows by; name one with `by`.")
    options = "".join(f'<option value="{i}">{text(shares.by)}</option>' for i, shares in enumerate(found.groups))
    pick = f'<label class="pick" hidden>Rows by <select id="by">{options}</select></label>'
    parts = "".join(
        f'<div data-by="{i}"><h3>By {text(shares.by)}</h3>{_group_table(found, shares)}</div>'
        for i, shares in enumerate(found.groups)
    )
    said = paragraph(
        "The share missing of each column, group by group, and in brackets how many rows a group has. A column whose "
        "cells miss by chance alone has about the same share everywhere."
    )
    return said + pick + parts


def _group_table(found: Findings, shares: Shares) -> str:
    labels = found.missingness.labels
    columns = [j for j in found.missingness.incomplete.tolist() if not np.isnan(shares.share[j]).all()]
    lines = [
        (labels[j], [name_cell(labels[j]), *(Cell(percent(s), s, shaded=True) for s in shares.share[j].tolist())])
        for j in sorted(columns, key=lambda j: -float(np.ptp(shares.share[j])))
    ]
    rows = zip(shares.groups, shares.rows.tolist(), strict=True)
    return table(["column", *(f"{group} ({count:,})" for group, count in rows)], lines, kind="heat")


def mechanism(found: Findings) -> str:
    report = found.mechanism
    if not report.columns:
        return paragraph("No cell is missing.")
    order = sorted(report.columns, key=lambda column: -(column.others_gain or 0))
    said = paragraph(
        "What goes with a missing cell, at equal others: the change of the log odds of being missing, per standard "
        "deviation of a number, for a level against the rest, or where another cell is missing, with 95% intervals. "
        "Blue effects stay clear of 0 when allowing for all that were tried. An effect is no cause."
    )
    little = "" if report.little is None else report.little_in_words()
    shown = [card(column.name, _effects(column), _column_words(column)) for column in order]
    return said + paragraph(little) + f'<div class="wide">{cards(shown, _OPEN)}</div>'


def _column_words(column: ColumnMechanism) -> str:
    """Without the effects, which are drawn."""
    sentence = str(column)
    _, _, rest = sentence.partition(", more often ")
    if not rest:
        return words(sentence)
    own = f"{column.own_in_words()}{column.tilt_in_words()}"
    return words(f"Missing in {percent(column.missing)} of the rows. {own}")


def _effects(column: ColumnMechanism) -> str:
    if not column.effects or not (column.others_gain or 0) > 0:
        return ""
    return f'<div class="effects">{"".join(map(_effect, column.effects))}</div>'


def _effect(effect: Effect) -> str:
    name = f"<b>{text(effect.name)}</b>"
    what = " is missing" if effect.mask else "" if effect.level is None else f" is {text(effect.level)}"
    unit = "" if effect.mask or effect.level is not None else " is high"
    ends = (effect.low, effect.log_odds, effect.high)
    low, at, high = (50 * (1 + max(-_WIDEST, min(_WIDEST, x)) / _WIDEST) for x in ends)
    said = f"{signed(effect.log_odds)}, 95% interval {signed(effect.low)} to {signed(effect.high)}"
    clear = " clear" if effect.clear else ""
    return (
        f'<div class="effect{clear}"{attribute("data-t", said)}><span>{name}{what}{unit}</span>'
        f'<span class="ci"><i style="left:{low:.1f}%;width:{max(0.0, high - low):.1f}%"></i>'
        f'<b style="left:{at:.1f}%"></b></span><span class="v">{signed(effect.log_odds)}</span></div>'
    )


def signed(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")


def flux(found: Findings) -> str:
    missingness = found.missingness
    if not len(missingness.incomplete):
        return paragraph("No cell is missing.")
    shown = missingness.flux()
    said = paragraph(
        "A column with high influx is missing where others are observed: these can help to fill it. One with high "
        "outflux is observed where others are missing: it can help to fill them. Columns at the bottom left do neither."
    )
    labels, share = missingness.labels, missingness.share
    lines = []
    for j in np.argsort(-shown.influx, kind="stable").tolist():
        both = (number_cell(float(x[j]), f"{x[j]:.2f}") for x in shown)
        lines.append((labels[j], [name_cell(labels[j]), bar_cell(float(share[j])), *both]))
    listing = table(["column", "missing", "influx", "outflux"], lines)
    return f'{said}<div class="two"><div>{charts.flux(shown, labels, share)}</div>{listing}</div>'
