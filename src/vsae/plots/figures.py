"""Figures of matplotlib: what the other files of this room compute, drawn. None is shown or kept by pyplot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from vsae.analysis.draws import Draws
from vsae.evaluation.report import Evaluation
from vsae.mechanism.report import MechanismReport
from vsae.mechanism.sensitivity import Sensitivity
from vsae.plots import cells, curves
from vsae.plots.missingness import Missingness, apart, grouped
from vsae.table.errors import TableError
from vsae.table.plan import ColumnPlan

MISSING, OBSERVED, IMPUTED = "#2b76b5", "#8a96a8", "#c8500a"  # told apart by people who see few colours
_LONGEST = 24  # characters of a name
_MOST = 12  # panels, unless columns are named


def missing_matrix(X: Any) -> Figure:
    """Which cells are missing, a line a column: those that miss together stand together."""
    found = Missingness.of(X)
    order = found.clustered
    figure, axes = _figure(8, 0.24 * max(2, len(order)) + 1)
    if len(order):
        axes.imshow(found.matrix(), aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(order)), [f"{_name(found.labels[j])}  {found.share[j]:.0%}" for j in order])
    axes.set_xticks([])
    axes.set_xlabel(f"rows, 1 to {len(found.missing):,}")
    axes.set_title("Missing cells", loc="left")
    return figure


def patterns(X: Any, most: int = 20) -> Figure:
    """The commonest sets of columns that miss together, and in how many rows (an UpSet figure)."""
    labels, found = Missingness.of(X), Missingness.of(X).patterns(most)
    names = [_name(labels.labels[j]) for j in found.columns]
    figure = Figure(figsize=(2 + 0.28 * max(4, len(found.rows)), 2 + 0.25 * max(2, len(names))), layout="constrained")
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, max(1, 0.3 * len(names))])
    at = np.arange(len(found.rows))
    top.bar(at, found.rows, color=MISSING, width=0.6)
    top.set_ylabel("rows")
    top.set_title(f"Missing together; {found.complete:,} rows miss nothing", loc="left")
    for j, line in enumerate(found.cells):
        where = np.flatnonzero(line)
        below.plot([j] * len(names), range(len(names)), "o", color="#8884", markersize=4)
        below.plot([j] * len(where), where, "o-", color=MISSING, markersize=6)
    below.set_yticks(range(len(names)), names)
    below.set_xticks([])
    below.invert_yaxis()
    for axes in (top, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def missing_by(X: Any, by: Any) -> Figure:
    """The share missing of each column in the groups that a column names."""
    labels = Missingness.of(X)
    groups, codes = grouped(X, by)
    found = labels.by_group(by, groups, codes)
    columns = [j for j in labels.incomplete if not np.isnan(found.share[j]).all()]
    figure, axes = _figure(3 + 0.7 * len(groups), 1.2 + 0.28 * max(2, len(columns)))
    if columns:
        axes.imshow(found.share[columns], aspect="auto", cmap="Blues", vmin=0, vmax=1)
    for i, j in enumerate(columns):
        for k, share in enumerate(found.share[j]):
            axes.text(
                k, i, f"{share:.0%}", ha="center", va="center", color="white" if share > 0.55 else "black", size=8
            )
    axes.set_yticks(range(len(columns)), [_name(labels.labels[j]) for j in columns])
    axes.set_xticks(range(len(groups)), [f"{_name(g)}\n{n:,}" for g, n in zip(groups, found.rows, strict=True)])
    axes.set_title(f"Share missing by {_name(by)}", loc="left")
    return figure


def mechanism(report: MechanismReport, most: int = 20) -> Figure:
    """What goes with a missing cell: the strongest effects of other columns, with 95 % intervals."""
    found = [(column.name, effect) for column in report.columns for effect in column.effects if effect.clear]
    found = sorted(found, key=lambda each: -abs(each[1].log_odds))[:most]
    figure, axes = _figure(7.5, 1.2 + 0.27 * max(2, len(found)))
    for i, (_, e) in enumerate(found):
        axes.plot([e.low, e.high], [i, i], color=OBSERVED)
        axes.plot([e.log_odds], [i], "o", color=MISSING)
    said = {True: " is missing", False: ""}
    names = [
        f"{_name(name)} ← {_name(e.name)}{said[e.mask]}{'' if e.level is None else f' is {_name(e.level)}'}"
        for name, e in found
    ]
    axes.set_yticks(range(len(found)), names)
    axes.invert_yaxis()
    axes.axvline(0, color="#8886", linewidth=1)
    axes.set_xlabel("log odds of being missing")
    axes.set_title("What missing cells go with", loc="left")
    return figure


def flux(X: Any) -> Figure:
    """Which columns others can help (influx), and which can help others (outflux)."""
    labels = Missingness.of(X)
    found = labels.flux()
    figure, axes = _figure(6, 4.5)
    axes.scatter(found.outflux, found.influx, color=MISSING)
    top = max(0.05, float(found.influx.max(initial=0)))
    for j in apart(found.outflux, found.influx / top, 0.15, 0.04, 40):
        axes.annotate(
            _name(labels.labels[j]), (found.outflux[j], found.influx[j]), (4, 3), textcoords="offset points", size=8
        )
    axes.set_xlabel("outflux: knows where others are missing")
    axes.set_ylabel("influx: others know where it is missing")
    axes.set_title("Who helps whom", loc="left")
    return figure


def distributions(draws: Draws, columns: Sequence[Any] | None = None) -> Figure:
    """What is observed of each column, and what was drawn for its missing cells. A difference is no error: cells that
    are missing for a reason hold other values."""
    completed = cells.Completed.of(draws)
    chosen = _chosen(completed, columns)

    def panel(axes: Axes, plan: ColumnPlan) -> None:
        found = cells.distribution(completed, plan)
        if found.edges is None:
            at = np.arange(len(found.levels))
            axes.barh(at - 0.2, found.observed, 0.38, color=OBSERVED, alpha=0.6, label="observed")
            axes.barh(at + 0.2, found.drawn, 0.38, color=IMPUTED, label="drawn")
            axes.set_yticks(at, [_name(level) for level in found.levels])
            axes.invert_yaxis()
        else:
            axes.stairs(found.observed, found.edges, fill=True, color=OBSERVED, alpha=0.45, label="observed")
            axes.stairs(found.drawn, found.edges, color=IMPUTED, linewidth=1.8, label="drawn")
            axes.set_yticks([])
            _label_values(axes, plan)
        axes.set_title(_name(plan.label), loc="left")

    return _panels(panel, chosen, legend=True)


def pairs(draws: Draws, columns: Sequence[tuple[Any, Any]] | None = None) -> Figure:
    """Pairs of columns, those that depend on one another most or those that are named; drawn cells are orange."""
    completed = cells.Completed.of(draws)
    if columns is None:
        found = cells.strongest_pairs(completed)
    else:
        plans = [_chosen(completed, list(two), any_column=True) for two in columns]
        found = [cells.pair(completed, x, y) for x, y in plans]
    rng = np.random.default_rng(0)

    def panel(axes: Axes, pair: cells.Pair) -> None:
        for points, colour, said in ((pair.observed, OBSERVED, "observed"), (pair.drawn, IMPUTED, "drawn")):
            x, y = (
                points[:, k] + (rng.uniform(-0.3, 0.3, len(points)) if plan.levels else 0)
                for k, plan in enumerate((pair.x, pair.y))
            )
            axes.plot(x, y, ".", color=colour, alpha=0.6, markersize=4, label=said)
        for plan, along in ((pair.x, axes.xaxis), (pair.y, axes.yaxis)):
            if plan.levels:
                along.set_ticks(range(len(plan.levels)), [_name(level) for level in plan.levels])
            elif plan.unit:
                along.set_major_formatter(_shown_by(plan))
        axes.set_xlabel(_name(pair.x.label))
        axes.set_ylabel(_name(pair.y.label))

    return _panels(panel, found, legend=True)


def hidden_cells(evaluation: Evaluation, columns: Sequence[Any] | None = None) -> Figure:
    """Known numbers that were hidden again: what they are, and the 90 % interval that was said of them."""
    known = {c.column: c for c in evaluation.columns if c.coverage is not None and c.column in evaluation.cells}
    for label in columns or ():
        if label not in known:
            raise TableError(
                f"column {label!r} in columns has no hidden numbers; these have: {', '.join(map(str, known))}"
            )

    def panel(axes: Axes, label: Any) -> None:
        found, coverage = evaluation.cells[label], known[label].coverage or {}
        inside = (found.low <= found.truth) & (found.truth <= found.high)
        for where, colour in ((inside, OBSERVED), (~inside, IMPUTED)):
            axes.vlines(found.truth[where], found.low[where], found.high[where], color=colour, linewidth=0.8, alpha=0.6)
            axes.plot(found.truth[where], found.filled[where], "o", color=colour, markersize=3)
        axes.axline((float(found.truth[0]), float(found.truth[0])), slope=1, color="#8888", linestyle=":")
        axes.set_title(f"{_name(label)}: {coverage[0.9]:.0%} in 90% intervals", loc="left")
        axes.set_xlabel("what the cell holds")

    return _panels(panel, list(columns or list(known)[:_MOST]))


def uncertainty(draws: Draws) -> Figure:
    """How sure draws are of the missing cells of each column: 0 is sure, 1 is little more than nothing."""
    found = cells.drawn_uncertainty(cells.Completed.of(draws))
    found = sorted(found, key=lambda each: float(np.median(each.relative)))
    figure, axes = _figure(6.5, 1 + 0.27 * max(2, len(found)))
    for i, each in enumerate(found):
        low, middle, high = np.quantile(each.relative, (0.1, 0.5, 0.9))
        axes.plot([low, high], [i, i], color=OBSERVED)
        axes.plot([middle], [i], "o", color=IMPUTED)
    axes.set_yticks(range(len(found)), [_name(each.plan.label) for each in found])
    axes.axvline(1, color="#8886", linewidth=1)
    axes.set_xlabel("relative uncertainty: median, 10th to 90th percentile")
    axes.set_title("How sure it is", loc="left")
    return figure


def training(imputer: Any) -> Figure:
    """The error on held-out cells over the training of a fitted imputer, a line a member."""
    history = imputer.fitted_.history
    found = curves.training(history.records, history.best_step)
    figure, axes = _figure(6.5, 3.6)
    for k, line in enumerate(found.score.T):
        axes.plot(found.step, line, color=MISSING, alpha=0.8)
        at = found.step == (found.best[k] if k < len(found.best) else -1)
        axes.plot(found.step[at], line[at], "o", color=MISSING, markerfacecolor="white")
    axes.set_xlabel("step")
    axes.set_ylabel("error on held-out cells")
    axes.set_title("Training", loc="left")
    return figure


def sensitivity(found: Sensitivity) -> Figure:
    """An answer, with its interval, over changes of the missing cells; the tipping point is marked."""
    by_scale = len({point.delta for point in found.points}) == 1
    points = sorted(found.points, key=lambda point: point.scale if by_scale else point.delta)
    x = [point.scale if by_scale else point.delta for point in points]
    figure, axes = _figure(6.5, 3.8)
    axes.fill_between(x, [p.low for p in points], [p.high for p in points], color=MISSING, alpha=0.18, linewidth=0)
    axes.plot(x, [point.estimate for point in points], "o-", color=MISSING, markersize=4)
    axes.axhline(found.null, color="#8888", linestyle=":")
    tipping = found.tipping_point
    if tipping is not None:
        axes.axvline(tipping.scale if by_scale else tipping.delta, color=IMPUTED, label=f"p crosses {found.alpha:g}")
        axes.legend(frameon=False)
    axes.set_xlabel("missing cells are multiplied by" if by_scale else "change of the missing cells")
    axes.set_ylabel(f"estimate and {1 - found.alpha:.0%} interval")
    axes.set_title("Sensitivity to what missing cells hold", loc="left")
    return figure


def tipping_map(found: Sensitivity) -> Figure:
    """Where on a grid of delta and scale the answer turns: the line is p = alpha."""
    grid = curves.tipping_map(found)
    figure, axes = _figure(6.5, 4.6)
    shown = axes.pcolormesh(grid.delta, grid.scale, grid.estimate, cmap="RdBu_r", shading="nearest")
    figure.colorbar(shown, ax=axes, label="estimate")
    known = grid.p[np.isfinite(grid.p)]
    if not np.isnan(grid.p).any() and known.min() < found.alpha < known.max():
        axes.contour(grid.delta, grid.scale, grid.p, levels=[found.alpha], colors="black")
    axes.plot([0], [1], "o", color="black", markerfacecolor="white")
    axes.set_xlabel("delta")
    axes.set_ylabel("scale")
    axes.set_title(f"Estimate over changes of the missing cells; line: p = {found.alpha:g}", loc="left")
    return figure


# --- what figures share


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _panels(panel: Callable[[Axes, Any], None], shown: Sequence[Any], *, legend: bool = False) -> Figure:
    if not shown:
        raise TableError("there is nothing to show: no column has both missing and observed cells")
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = Figure(figsize=(3.4 * across, 2.6 * down), layout="constrained")
    grid: NDArray[Any] = figure.subplots(down, across, squeeze=False).ravel()
    for axes, each in zip(grid, shown, strict=False):
        axes.spines[["top", "right"]].set_visible(False)
        panel(axes, each)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    if legend:
        grid[0].legend(frameon=False, fontsize=8)
    return figure


def _chosen(completed: cells.Completed, columns: Sequence[Any] | None, any_column: bool = False) -> list[ColumnPlan]:
    among = {plan.label: plan for plan in (completed.plans if any_column else completed.filled)}
    for label in columns or ():
        if label not in among:
            known = ", ".join(map(str, list(among)[:10]))
            raise TableError(f"column {label!r} in columns has no drawn cells to show; these have: {known}")
    return [among[label] for label in (list(among)[:_MOST] if columns is None else columns)]


def _label_values(axes: Axes, plan: ColumnPlan) -> None:
    if plan.unit:
        axes.xaxis.set_major_formatter(_shown_by(plan))
        axes.xaxis.set_major_locator(MaxNLocator(3))


def _shown_by(plan: ColumnPlan) -> Callable[[float, Any], str]:
    return lambda v, _: plan.show(float(np.rint(v)))[:10]


def _name(label: Any) -> str:
    """A name as it is: a $ is no formula."""
    text = str(label)
    return (text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…").replace("$", r"\$")
