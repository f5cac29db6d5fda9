"""The figures of the report: what `plots` computes, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.evaluation.report import HiddenCells
from vsae.plots.cells import Distribution, Pair
from vsae.plots.curves import Training
from vsae.plots.missingness import Flux, Patterns, apart
from vsae.report.markup import cut, percent
from vsae.report.svg import Plot, short, ticks
from vsae.table.plan import ColumnPlan

_POINTS = 80  # hidden cells of a column that are drawn
_LABELLED = 12  # columns that are named in a scatter


def upset(found: Patterns, labels: Sequence[Any], rows: int, most_columns: int = 30) -> str:
    """Columns below one another, patterns side by side; bars say in how many rows a pattern is."""
    columns = found.columns[:most_columns]
    label, step, line, bars = 118, 17, 18, 84
    width, height = label + step * len(found.rows) + 40, bars + line * len(columns) + 6
    plot = Plot((0, 1), (0, float(found.rows.max(initial=1))), width, height, label, height - bars, 8, 0)
    plot.y_axis(ticks(0, float(found.rows.max(initial=1)), 3))
    for i in range(len(columns)):
        if i % 2 == 0:
            y = bars + 6 + i * line
            plot.add(f'<rect class="stripe" x="0" y="{y}" width="{width}" height="{line}"/>')
        plot.label(label - 8, bars + 6 + (i + 0.5) * line + 4, cut(labels[columns[i]], 17), "end name")
    for j, (cells, count) in enumerate(zip(found.cells[:, : len(columns)], found.rows.tolist(), strict=True)):
        x = label + (j + 0.5) * step
        top = plot.y(count)
        plot.add(f'<rect class="m-fill" x="{x - 5:.1f}" y="{top:.1f}" width="10" height="{bars - top:.1f}"/>')
        at = [bars + 6 + (i + 0.5) * line for i in range(len(columns))]
        missing = [y for y, cell in zip(at, cells, strict=True) if cell]
        plot.add(f'<path class="dots off" d="{"".join(f"M{x:.1f} {y:.1f}h0" for y in at)}"/>')
        if missing:
            plot.add(f'<path class="m-line" d="M{x:.1f} {missing[0]:.1f}V{missing[-1]:.1f}"/>')
            plot.add(f'<path class="dots m big" d="{"".join(f"M{x:.1f} {y:.1f}h0" for y in missing)}"/>')
        names = ", ".join(str(labels[k]) for k, cell in zip(columns, cells, strict=True) if cell)
        plot.hover(x - step / 2, 0, step, height, f"{count:,} rows ({percent(count / rows)}) miss {names}")
    return f'<div class="scroll">{plot.svg("The commonest patterns of missing cells", "fixed")}</div>'


def flux(found: Flux, labels: Sequence[Any], share: NDArray[np.float64]) -> str:
    top = max(0.05, float(found.influx.max(initial=0)))
    plot = Plot((0, 1), (0, top * 1.06), 360, 270, 36, 34, 10, 14)
    plot.y_axis(ticks(0, top, 5), lambda v: f"{v:.2g}")
    plot.x_axis([0, 0.25, 0.5, 0.75, 1], lambda v: f"{v:g}", "outflux: knows where others are missing")
    plot.label(plot.left, 8, "influx: others know where it is missing", "title")
    named = set(apart(found.outflux, found.influx / top, 0.3, 0.055, _LABELLED)) & set(np.flatnonzero(share).tolist())
    for j in range(len(labels)):
        x, y = plot.x(float(found.outflux[j])), plot.y(float(found.influx[j]))
        plot.add(f'<circle class="m-dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        said = f"{labels[j]}: influx {found.influx[j]:.2f}, outflux {found.outflux[j]:.2f}, {percent(share[j])} missing"
        plot.hover(x - 8, y - 8, 16, 16, said)
        if j in named:
            right = x < plot.width * 0.6
            plot.label(x + (8 if right else -8), y + 4, cut(labels[j], 15), "name" if right else "name end")
    return plot.svg("Influx and outflux of the columns", "medium")


def distribution(found: Distribution) -> str:
    return _histogram(found) if found.edges is not None else _levels(found)


def _histogram(found: Distribution) -> str:
    assert found.edges is not None
    edges, top = found.edges, float(max(found.observed.max(), found.drawn.max(), 1e-9))
    plot = Plot((float(edges[0]), float(edges[-1])), (0, top * 1.05), 280, 132, 10, 20)
    observed, drawn = (_steps(edges, x) for x in (found.observed, found.drawn))
    area = "L".join(f"{plot.x(a):.1f} {plot.y(b):.1f}" for a, b in observed)
    plot.add(f'<path class="o-fill" d="M{area}Z"/>')
    plot.line(drawn, "i-line")
    plot.x_axis(value_ticks(found.plan, float(edges[0]), float(edges[-1])), shown_by(found.plan))
    show = found.plan.show
    for a, b, o, d in zip(edges[:-1], edges[1:], found.observed, found.drawn, strict=True):
        left, right = plot.x(float(a)), plot.x(float(b))
        said = f"{_bin(found.plan, float(a), float(b), show)}: observed {percent(o)}, drawn {percent(d)}"
        plot.hover(left, plot.top, right - left, plot.height - plot.top - plot.bottom, said)
    return plot.svg(f"Observed and drawn values of {found.plan.label}")


def _bin(plan: ColumnPlan, low: float, high: float, show: Callable[[float], str]) -> str:
    if plan.whole and not plan.unit:
        first, last = np.ceil(low), np.ceil(high) - 1
        return show(first) if first == last else f"{show(first)} to {show(last)}"
    low, high = (np.rint(x) if plan.unit else float(f"{x:.3g}") for x in (low, high))
    return f"{show(low)} to {show(high)}"


def _steps(edges: NDArray[np.float64], heights: NDArray[np.float64]) -> list[tuple[float, float]]:
    x, y = np.repeat(edges, 2), np.r_[0.0, np.repeat(heights, 2), 0.0]
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _levels(found: Distribution) -> str:
    line, label = 22, 88
    top = float(max(found.observed.max(), found.drawn.max(), 1e-9))
    plot = Plot((0, top), (0, 1), 280, line * len(found.levels) + 4, label, 0, 2, 42)
    for i, (level, o, d) in enumerate(zip(found.levels, found.observed, found.drawn, strict=True)):
        y = 2 + i * line
        plot.label(label - 6, y + 14, cut(level, 13), "end name")
        for share, offset, kind in ((o, 2, "o-bar"), (d, 10, "i-fill")):
            width = max(0.5, plot.x(float(share)) - label)
            plot.add(f'<rect class="{kind}" x="{label}" y="{y + offset}" width="{width:.1f}" height="7"/>')
        plot.label(280, y + 17, percent(float(d)), "end i-text")
        plot.hover(0, y, 280, line, f"{level}: observed {percent(float(o))}, drawn {percent(float(d))}")
    return plot.svg(f"Observed and drawn levels of {found.plan.label}")


def hidden_numbers(found: HiddenCells, plan: ColumnPlan) -> str:
    """What a hidden cell holds, across; what was said of it, with its 90 % interval, up."""
    truth, filled, low, high = (x[:_POINTS] for x in found[:4])
    every = np.concatenate([truth, filled, low, high])
    a, b = (float(q) for q in np.quantile(every, (0.01, 0.99)))
    a, b = (a - 0.5, b + 0.5) if a == b else (a, b)
    truth, filled, low, high = (np.clip(x, a, b) for x in (truth, filled, low, high))
    plot = Plot((a, b), (a, b), 280, 210, 62 if plan.unit else 44, 34)
    at, show = value_ticks(plan, a, b), shown_by(plan)
    plot.y_axis(at, show)
    plot.x_axis(at, show, "what the cell holds")
    plot.line([(a, a), (b, b)], "diagonal")
    inside = (found.low <= found.truth)[:_POINTS] & (found.truth <= found.high)[:_POINTS]
    for where, kind in ((inside, "o"), (~inside, "i")):
        some = np.flatnonzero(where).tolist()
        plot.segments([(truth[k], low[k], truth[k], high[k]) for k in some], f"{kind}-range")
        plot.dots([(truth[k], filled[k]) for k in some], kind)
    return plot.svg(f"Hidden cells of {plan.label}: what they hold and what was said of them")


def reliability(cells: Sequence[HiddenCells]) -> str:
    """Hidden levels: how often the model is right, by how sure it is."""
    sure = np.concatenate([found.confidence for found in cells])
    right = np.concatenate([found.truth == found.filled for found in cells])
    plot = Plot((0, 1), (0, 1), 300, 250, 40, 36, 20)
    quarter = [0, 0.25, 0.5, 0.75, 1]
    plot.y_axis(quarter, percent)
    plot.x_axis(quarter, percent, "probability that the model gives")
    plot.label(plot.left, 7, "share that is right", "title")
    plot.line([(0, 0), (1, 1)], "diagonal")
    bins = np.clip((sure * 10).astype(np.int64), 0, 9)
    points = []
    for k in range(10):
        at = bins == k
        if at.sum() >= 5:
            share, error = float(right[at].mean()), 1.96 * float(np.sqrt(right[at].var() / at.sum()))
            points.append(
                (float(sure[at].mean()), share, max(0.0, share - error), min(1.0, share + error), int(at.sum()))
            )
    plot.segments([(x, low, x, high) for x, _, low, high, _ in points], "o-range wide")
    plot.line([(x, y) for x, y, *_ in points], "i-line")
    for x, y, _, _, count in points:
        plot.add(f'<circle class="i-dot" cx="{plot.x(x):.1f}" cy="{plot.y(y):.1f}" r="4"/>')
        said = f"sure to {percent(x)}: right in {percent(y)} of {count} cells"
        plot.hover(plot.x(x) - 9, plot.y(y) - 9, 18, 18, said)
    return plot.svg("Probabilities of levels against the share that is right", "small")


def pair(found: Pair) -> str:
    rng = np.random.default_rng(0)
    both = np.concatenate([found.observed, found.drawn])
    spans = [_span(plan, both[:, k]) for k, plan in enumerate((found.x, found.y))]
    plot = Plot(spans[0], spans[1], 280, 222, 62 if found.y.unit else 52, 36)
    y_at, x_at = (_axis_ticks(plan, *span) for plan, span in zip((found.y, found.x), spans[::-1], strict=True))
    plot.y_axis(y_at, _axis_shown(found.y, 8))
    plot.x_axis(x_at, _axis_shown(found.x, max(4, 44 // max(1, len(x_at)))), cut(found.x.label, 34))
    for points, kind in ((found.observed, "o"), (found.drawn, "i")):
        jitter = [rng.uniform(-0.3, 0.3, len(points)) if plan.levels else 0.0 for plan in (found.x, found.y)]
        x, y = (np.clip(points[:, k] + jitter[k], *spans[k]) for k in (0, 1))
        plot.dots(list(zip(x.tolist(), y.tolist(), strict=True)), f"{kind} small")
    return plot.svg(f"{found.y.label} against {found.x.label}")


def _span(plan: ColumnPlan, x: NDArray[np.float64]) -> tuple[float, float]:
    if plan.levels:
        return -0.5, len(plan.levels) - 0.5
    low, high = np.quantile(x, (0.005, 0.995)) if len(x) else (0.0, 1.0)
    return (float(low), float(high)) if low < high else (float(low) - 0.5, float(low) + 0.5)


def _axis_ticks(plan: ColumnPlan, low: float, high: float) -> list[float]:
    if plan.levels:
        return [float(i) for i in range(0, len(plan.levels), max(1, len(plan.levels) // 8))]
    return value_ticks(plan, low, high)


def _axis_shown(plan: ColumnPlan, most: int) -> Callable[[float], str]:
    if plan.levels:
        return lambda v: cut(plan.show_value(plan.levels[int(v)]), most)
    return shown_by(plan)


def value_ticks(plan: ColumnPlan, low: float, high: float) -> list[float]:
    """Three of a date, whose texts are long."""
    if plan.unit:
        return [float(np.rint(x)) for x in np.linspace(low, high, 4)[1:3]]
    return ticks(low, high, 5)


def shown_by(plan: ColumnPlan) -> Callable[[float], str]:
    return (lambda v: plan.show(v)[:10]) if plan.unit else short


def scores(found: Training) -> str:
    """Of each member; a ring where its weights were taken."""
    finite = found.score[np.isfinite(found.score)]
    low, high = (float(finite.min()), float(np.quantile(finite, 0.98))) if len(finite) else (0.0, 1.0)
    plot = _over_steps(found, low, high, "error on held-out cells")
    for k, scores_of in enumerate(found.score.T):
        points = [(s, min(v, high)) for s, v in zip(found.step.tolist(), scores_of.tolist(), strict=True) if v == v]
        plot.line(points or [(0, low)], "m-line thin")
        best = found.best[k] if k < len(found.best) else None
        at = [v for s, v in points if s == best]
        if at and best is not None:
            plot.add(f'<circle class="ring" cx="{plot.x(best):.1f}" cy="{plot.y(at[0]):.1f}" r="4.5"/>')
            plot.hover(plot.x(best) - 8, plot.y(at[0]) - 8, 16, 16, f"member {k + 1}: best at step {best}, {at[0]:.4f}")
    return plot.svg("Error on held-out cells over the training", "medium")


def terms(found: Training) -> str:
    values = np.concatenate([x[np.isfinite(x)] for x in found.terms.values()] or [np.zeros(1)])
    low, high = (float(q) for q in np.quantile(values, (0.01, 1)))
    plot = _over_steps(found, low, high, "terms of the bound, nats a row")
    for k, line in enumerate(found.terms.values()):
        points = [
            (s, min(max(v, low), high)) for s, v in zip(found.step.tolist(), line.tolist(), strict=True) if v == v
        ]
        if points:
            plot.line(points, f"t{k} thin")
    return plot.svg("Terms of the bound over the training", "medium")


def _over_steps(found: Training, low: float, high: float, title: str) -> Plot:
    pad = 0.06 * ((high - low) or 1)
    last = float(found.step.max(initial=1))
    plot = Plot((0, last), (low - pad, high + pad), 360, 210, 44, 34, 16, 10)
    plot.y_axis(ticks(low, high, 5))
    plot.x_axis(ticks(0, last, 5), title="step")
    plot.label(2, 9, title, "title")
    return plot
