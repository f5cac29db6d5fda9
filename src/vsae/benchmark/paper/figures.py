"""The figures of docs/paper.md as SVG. Only drawing needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vsae.benchmark.peers.figures import BLUE, GREY, LIGHT, STYLE, THIN, svg_of


class Lines(NamedTuple):
    title: str
    methods: Mapping[str, Sequence[tuple[float, float, float]]]  # x, mean, std


class Bars(NamedTuple):
    title: str
    bars: Mapping[str, tuple[float, float]]  # mean, std
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
                nudged = [at + 0.006 * (j - len(panel.methods) / 2) for at in x]
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


def bars_svg(panels: Sequence[Bars], x_label: str) -> str:
    """Horizontal bars, two panels a row; the dashed line is the trivial error."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = -(-len(panels) // 2)
    most = max(len(panel.bars) for panel in panels)
    with rc_context(STYLE):
        figure = Figure(figsize=(8.5, (0.23 * most + 0.55) * rows), facecolor="white", layout="constrained")
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(rows, 2, i + 1)
            axes.set_title(panel.title, fontsize=9, color=GREY)
            means, stds = zip(*panel.bars.values(), strict=True)
            colours = [BLUE, *[LIGHT] * (len(means) - 1)]
            places = range(len(means))
            axes.barh(places, means, xerr=stds, color=colours, height=0.7, error_kw={"lw": 0.8, "ecolor": GREY})
            axes.axvline(panel.trivial, color=GREY, lw=0.9, ls=(0, (4, 3)))
            axes.set_yticks(places, list(panel.bars), fontsize=8)
            axes.invert_yaxis()
            spread = max(max(means), panel.trivial) - min(means)
            axes.set_xlim(max(0.0, min(means) - 0.6 * spread - 0.02), max(*means, panel.trivial) + 0.25 * spread + 0.01)
            axes.set_xlabel(x_label if i >= len(panels) - 2 else "")
            axes.spines[["top", "right"]].set_visible(False)
        return svg_of(figure)
