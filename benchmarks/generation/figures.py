"""The figures of docs/generation.md as SVG: marks in rows. Only drawing needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.peers.figures import BLUE, GREY, LIGHT, STYLE, THIN, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = {"copula": "s", "mostlyai": "D", "tvae": "^", "ctgan": "v", "independent": "x", "real rows": "+"}


class Mark(NamedTuple):
    row: str
    method: str
    value: float


def dots_svg(
    panels: Mapping[str, Sequence[Mark]],
    rows: Sequence[str],
    x_label: str,
    *,
    band: tuple[float, float] | None = None,
    legend: bool = False,
) -> str:
    """A panel beside the other, each with a line a row and a mark a value; ours blue, and a band that was asked for."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    with rc_context(STYLE):
        height = lines * (0.24 * len(rows) + 0.45) + 0.35 + 0.3 * legend
        figure = Figure(figsize=(7.5, height), facecolor="white", layout="constrained")
        axes_of = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for axes, (title, marks) in zip(axes_of, panels.items(), strict=False):
            axes.set_title(title, fontsize=9, color=GREY)
            if band is not None:
                axes.axvspan(*band, color=LIGHT, alpha=0.45, lw=0)
            handles |= _draw(axes, marks, rows)
            axes.set_yticks(range(len(rows)), rows)
            axes.set_ylim(len(rows) - 0.4, -0.6)
            axes.grid(axis="y", color=LIGHT, lw=0.5)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        figure.supxlabel(x_label, fontsize=9)
        if legend:
            above: dict[str, Any] = {"loc": "outside upper center", "ncols": 7, "frameon": False, "fontsize": 8}
            figure.legend(list(handles.values()), list(handles), **above)
        return svg_of(figure)


def _draw(axes: Axes, marks: Sequence[Mark], rows: Sequence[str]) -> dict[str, Any]:
    """Method → what stands for it in a legend."""
    handles: dict[str, Any] = {}
    for mark in sorted(marks, key=lambda mark: mark.method.startswith("vsae")):  # ours on top
        style = _style(mark.method)
        (handles[mark.method],) = axes.plot(mark.value, rows.index(mark.row), ls="", **style)
    return handles


def _style(method: str) -> dict[str, Any]:
    if method.startswith("vsae"):
        return {"marker": "o", "color": BLUE, "ms": 6.5, "alpha": 0.85, "mew": 0, "zorder": 4}
    return {"marker": MARKS.get(method, "s"), "color": THIN, "ms": 5, "mfc": "white", "mec": GREY, "mew": 0.9}
