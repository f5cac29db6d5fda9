"""The figures of docs/benchmark.md as SVG: the same numbers give the same bytes. Only drawing needs matplotlib."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.peers.cells import DEFAULT, OURS, cliques

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

BLUE, GREY, THIN, LIGHT = (
    "#0072B2",
    "#404040",
    "#888888",
    "#cccccc",
)  # this blue and grey differ for every eye, and in print
STYLE: dict[Any, Any] = {"font.family": "DejaVu Sans", "font.size": 9, "svg.hashsalt": "vsae", "svg.fonttype": "path"}


class Point(NamedTuple):
    """A method: what it takes and what it gives; `whole` if it has a result in every cell."""

    method: str
    seconds: float
    ratio: float
    whole: bool


def critical_difference_svg(ranks: Mapping[str, float], difference: float) -> str:
    """Mean ranks on an axis, the best at the left; a bar joins methods within the critical difference."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = sorted(ranks, key=lambda m: (ranks[m], m))
    values = [ranks[m] for m in names]
    groups = cliques(values, difference)
    left = (len(names) + 1) // 2
    top, step = 0.32 + 0.16 * len(groups), 0.24  # inches below the axis
    with rc_context(STYLE):
        height = 0.75 + top + step * left
        figure = Figure(figsize=(7.5, height), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        first, last = 1, len(names)
        margin = 0.38 * (last - first)
        axes.set_xlim(first - margin, last + margin)
        axes.set_ylim(top + step * left, -0.75)
        axes.axis("off")

        axes.hlines(0, first, last, color=GREY, lw=1)
        for tick in range(first, last + 1):
            axes.vlines(tick, -0.07, 0, color=GREY, lw=1)
            axes.text(tick, -0.12, str(tick), ha="center", va="bottom", color=GREY)
        axes.text(last + 0.12 * margin, 0, "mean rank", ha="left", va="center", color=GREY)
        _difference_bar(axes, first, difference)
        for i, (a, b) in enumerate(groups):
            overhang = 0.01 * (last - first)
            y = 0.18 + 0.16 * i
            axes.hlines(y, values[a] - overhang, values[b] + overhang, color=GREY, lw=3.5, zorder=3)
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            at_left = i < left
            y = top + step * (i if at_left else len(names) - 1 - i)
            end, towards = (first - 0.12 * margin, -1) if at_left else (last + 0.12 * margin, 1)
            colour, weight = (BLUE, "bold") if name in OURS else (GREY, "normal")
            line, width = (BLUE, 1.8) if name in OURS else (THIN, 0.8)
            axes.plot([value, value, end], [0, y, y], color=line, lw=width)
            label = f"{name}  {value:.1f}" if at_left else f"{value:.1f}  {name}"
            side = "right" if at_left else "left"
            axes.text(end + towards * 0.04 * margin, y, label, ha=side, va="center", color=colour, weight=weight)
        return svg_of(figure)


def _difference_bar(axes: Axes, start: float, difference: float) -> None:
    axes.hlines(-0.45, start, start + difference, color=GREY, lw=1)
    axes.vlines([start, start + difference], -0.49, -0.41, color=GREY, lw=1)
    text = f"critical difference {difference:.2f}"
    axes.text(start + difference / 2, -0.52, text, ha="center", va="bottom", color=GREY)


def error_seconds_svg(points: Sequence[Point]) -> str:
    """Error relative to mean/mode against seconds; our efforts are joined, a hollow mark lacks some results."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, 4.6), facecolor="white", layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.axhline(1, color=GREY, lw=0.9, ls=(0, (4, 3)), zorder=1)
        ours = [p for p in points if p.method in OURS]
        axes.plot([p.seconds for p in ours], [p.ratio for p in ours], color=BLUE, lw=1, alpha=0.6, zorder=2)
        for point in points:
            colour, mark = (BLUE, "o") if point.method in OURS else (GREY, "s")
            axes.plot(
                point.seconds, point.ratio, mark, ms=6.5, color=colour, mfc=colour if point.whole else "white", zorder=3
            )  # fmt: skip
        axes.set_xlabel("median CPU seconds of a run")
        axes.set_ylabel("error / error of mean and mode")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.12, y=0.1)
        axes.grid(color=LIGHT, lw=0.4)
        axes.spines[["top", "right"]].set_visible(False)
        _name_points(figure, axes, points)
        return svg_of(figure)


def _name_points(figure: Figure, axes: Axes, points: Sequence[Point]) -> None:
    """Each name at the place around its point that overlaps least with marks and names that are there."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # settles the axes, so that places in pixels are final
    frame = axes.get_window_extent()
    at = axes.transData.transform([(p.seconds, p.ratio) for p in points])
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in at]
    line = float(axes.transData.transform((1, 1))[1])
    taken.append(Bbox.from_extents(frame.x0, line - 1, frame.x1, line + 1))
    ours = [place for place, p in zip(at, points, strict=True) if p.method in OURS]
    for a, b in itertools.pairwise(ours):
        taken += [Bbox.from_bounds(x - 1, y - 1, 3, 3) for x, y in np.linspace(a, b, 50)]
    place = axes.get_yaxis_transform()
    note = axes.text(0.995, 1.003, "mean/mode", transform=place, ha="right", va="bottom", color=GREY)
    taken.append(note.get_window_extent())
    for point in sorted(points, key=lambda p: (p.method != DEFAULT, p.method not in OURS, p.method)):
        label = axes.annotate(
            point.method, (point.seconds, point.ratio), (0, 0), textcoords="offset points",
            color=BLUE if point.method in OURS else GREY, weight="bold" if point.method in OURS else "normal",
        )  # fmt: skip
        costs = [_cost(_moved(label, place), taken, frame) for place in _places()]
        _moved(label, list(_places())[int(np.argmin(costs))])
        taken.append(label.get_window_extent())


def _places() -> Iterator[tuple[float, float, str, str]]:
    """Offsets in points and alignments, the most pleasing first, then farther and farther away."""
    for far in (7.0, 12.0, 18.0):
        yield from ((far, 0, "left", "center"), (-far, 0, "right", "center"))
        yield from ((0, far, "center", "bottom"), (0, -far, "center", "top"))
        for x, y in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            yield 0.7 * far * x, 0.7 * far * y, "left" if x > 0 else "right", "bottom" if y > 0 else "top"


def _moved(label: Annotation, place: tuple[float, float, str, str]) -> Bbox:
    x, y, horizontal, vertical = place
    label.set_position((x, y))
    label.set(ha=horizontal, va=vertical)
    return label.get_window_extent()


def _cost(box: Bbox, taken: Sequence[Bbox], frame: Bbox) -> float:
    """Pixels of overlap, and of sticking out."""
    overlaps = sum(area for other in taken if (area := _overlap(box, other)))
    return round(overlaps + box.width * box.height - _overlap(box, frame), 3)


def _overlap(a: Bbox, b: Bbox) -> float:
    width = min(a.x1, b.x1) - max(a.x0, b.x0)
    height = min(a.y1, b.y1) - max(a.y0, b.y0)
    return float(width * height) if width > 0 and height > 0 else 0.0


def svg_of(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
