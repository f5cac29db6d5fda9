"""The figures of docs/paper.md as SVG. Only drawing needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.peers.figures import BLUE, GREY, LIGHT, STYLE, THIN, svg_of


class Lines(NamedTuple):
    title: str
    methods: Mapping[str, Sequence[tuple[float, float, float]]]  # x, mean, std


class Dots(NamedTuple):
    title: str
    dots: Mapping[str, tuple[float, float]]  # mean, std
    trivial: float


ORANGE = "#D55E00"
_MARKS = ("s", "^", "v", "D", "P", "X", "<", ">")


def lines_svg(panels: Sequence[Lines], x_label: str, highlight: str, second: str) -> str:
    """A panel a data set, error bars of one standard deviation; a legend for all below."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(panels) // columns)
    names = list(dict.fromkeys(name for panel in panels for name in panel.methods))
    marks = {name: _MARKS[i % len(_MARKS)] for i, name in enumerate(names)}
    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, 2.35 * rows + 0.6), facecolor="white", layout="constrained")
        handles: dict[str, Any] = {}
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, i + 1)
            axes.set_title(panel.title, fontsize=9, color=GREY)
            for j, (name, points) in enumerate(panel.methods.items()):
                x, mean, std = zip(*points, strict=True)
                nudged = [at + 0.004 * (j - len(panel.methods) / 2) for at in x]
                style: dict[str, Any] = {
                    "color": THIN,
                    "lw": 0.8,
                    "marker": marks[name],
                    "ms": 3.5,
                    "mfc": "white",
                    "zorder": 2,
                }
                if name == "mean/mode":
                    style |= {"color": GREY, "ls": (0, (4, 3)), "marker": "", "lw": 1}
                if name in (highlight, second):
                    colour = BLUE if name == highlight else ORANGE
                    style |= {"color": colour, "lw": 1.8, "marker": "o", "mfc": colour, "ms": 4.5, "zorder": 4}
                handles[name] = axes.errorbar(nudged, mean, yerr=std, elinewidth=0.8, capsize=1.5, **style)
            axes.set_xticks([x for x, _, _ in next(iter(panel.methods.values()))])
            axes.set_xlabel(x_label if i >= len(panels) - columns else "")
            axes.spines[["top", "right"]].set_visible(False)
        below: dict[str, Any] = {"loc": "outside lower center", "ncols": 6, "frameon": False, "fontsize": 8}
        figure.legend(list(handles.values()), list(handles), **below)
        return svg_of(figure)


def dots_svg(panels: Sequence[Dots], x_label: str) -> str:
    """Dots with a standard deviation either side, two panels a row; the dashed line is the trivial error."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = -(-len(panels) // 2)
    most = max(len(panel.dots) for panel in panels)
    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, (0.2 * most + 0.55) * rows), facecolor="white", layout="constrained")
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(rows, 2, i + 1)
            axes.set_title(panel.title, fontsize=9, color=GREY)
            axes.axvline(panel.trivial, color=GREY, lw=0.9, ls=(0, (4, 3)))
            for place, (mean, std) in enumerate(panel.dots.values()):
                colour = BLUE if place == 0 else GREY
                axes.errorbar(mean, place, xerr=std, fmt="o", color=colour, ms=4.5, elinewidth=0.9, capsize=1.5)
            labels = list(panel.dots) if i % 2 == 0 else [""] * len(panel.dots)
            axes.set_yticks(range(len(labels)), labels, fontsize=8)
            axes.set_ylim(len(labels) - 0.4, -0.6)
            axes.grid(axis="y", color=LIGHT, lw=0.5)
            axes.set_axisbelow(True)
            axes.set_xlabel(x_label if i >= len(panels) - 2 else "")
            axes.spines[["top", "right"]].set_visible(False)
        return svg_of(figure)
