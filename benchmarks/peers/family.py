"""The part of docs/benchmark.md on the other models of this library: `VSAEImputer(method=…)` on the same cells."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.markup import all_values, count_of, listed, markdown, mask_name, paragraph
from benchmarks.peers.cells import DEFAULT, SETTINGS, TRIVIAL, Board, Cell, board, geometric_mean, in_order, ratio
from benchmarks.peers.grid import CORE
from benchmarks.peers.jobs import FAMILY
from benchmarks.peers.seconds import mask_of, mean_seconds, on_same_masks, seconds_of
from benchmarks.store import Row
from vsae.baselines import METHODS as MODELS

SAME = 1e-3  # so near to 1, a ratio of errors is that of the same answer
SHOWN = 10  # cells in which one of them is below ours are named, the widest gap first


def apart(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of everybody else, and those of the family with what our default and mean or mode have on its masks."""
    own = [row for row in rows if row["method"] in FAMILY]
    masks = {mask_of(row) for row in own}
    others = [row for row in rows if row["method"] not in FAMILY]
    return others, [*own, *(row for row in others if row["method"] in (DEFAULT, TRIVIAL) and mask_of(row) in masks)]


def family_section(rows: Sequence[Row]) -> str:
    """Of the family's rows, as `apart` has them; nothing while there are none."""
    cells = board(rows)
    models = [m for m in FAMILY if m in cells.methods]
    if not models or DEFAULT not in cells.methods:
        return ""
    return "\n\n".join(
        (
            "## Other models of this library",
            paragraph(
                '`VSAEImputer(method="gain")` and so on ([models by name](methods.md)), at their default effort, on',
                f"the same cells; mask seeds {listed(all_values(rows, 'seed'))}. They are not peers: nothing above",
                "counts them. Ratios are geometric means over the MCAR and MAR cells that a model has; seconds are CPU",
                f"seconds to fit and to fill the training rows, over those of `{DEFAULT}` on the same masks. Those",
                "that are not named have not been run here; [the paper, run again](paper.md) has more of them.",
            ),
            markdown(
                ["`method=`", "model", "cells", f"error / `{DEFAULT}`'s", f"below `{DEFAULT}` in", "seconds", "ratio"],
                [[f'`"{m}"`', MODELS[m].label, *_summary(rows, cells, m)] for m in models],
            ),
            _lower(cells, models),
            *_errors(cells, [TRIVIAL, *models, DEFAULT]),
            "`python -m benchmarks peers --methods gain vaeac` repeats two of them, and so on.",
        )
    )


def _both(cells: Board, model: str) -> list[Cell]:
    return [c for c in cells.cells() if {model, DEFAULT} <= cells.errors[c].keys()]


def _summary(rows: Sequence[Row], cells: Board, model: str) -> list[object]:
    group = _both(cells, model)
    if not group:
        return [0, "–", "–", "–", "–"]
    ratios = [ratio(cells.errors[c][model], cells.errors[c][DEFAULT]) for c in group]
    own, ours = on_same_masks(rows, model, DEFAULT)
    times = f"{sum(seconds_of(own)) / sum(seconds_of(ours)):.1f}" if own else "–"
    return [len(group), f"{geometric_mean(ratios):.3f}", sum(r < 1 for r in ratios), mean_seconds(own), times]


def _lower(cells: Board, models: Sequence[str]) -> str:
    """Where one of them has a lower error than our default."""
    pairs = [(m, c) for m in models for c in _both(cells, m)]
    gaps = {(m, c): ratio(cells.errors[c][DEFAULT], cells.errors[c][m]) for m, c in pairs}
    lost = sorted((pair for pair, gap in gaps.items() if gap > 1), key=lambda pair: -gaps[pair])
    if not pairs:
        return ""
    if not lost:
        return f"`{DEFAULT}` is below all of them in all {count_of(len(pairs), 'pair')} of a model and a cell."
    named = [
        f"{m} on {c.table}, {mask_name(c.mechanism, c.rate)}, {SETTINGS[c.setting]}"
        f" ({c.measure.upper()} {cells.errors[c][m]:.3f}, `{DEFAULT}` {cells.errors[c][DEFAULT]:.3f})"
        for m, c in lost[:SHOWN]
    ]
    return paragraph(
        f"Of {count_of(len(pairs), 'pair')} of a model and a cell, `{DEFAULT}` has the higher error in {len(lost)}:",
        f"{listed(named)}." if len(lost) <= SHOWN else f"{'; '.join(named)}; and {len(lost) - SHOWN} more.",
        f"In {cautious} of these `{DEFAULT}` gives the mean or mode itself: its held-out cells told of no gain beyond"
        " chance, and there it stays with the trivial estimate."
        if (cautious := sum(abs(cells.to_trivial(DEFAULT, c) - 1) < SAME for _, c in lost))
        else "",
    )


def _errors(cells: Board, methods: Sequence[str]) -> list[str]:
    """A table a mechanism: errors in sample and on new rows, and why there are none."""
    parts = []
    for mask in dict.fromkeys((c.mechanism, c.rate) for c in cells.errors):
        columns = sorted(
            {(c.table, c.measure) for c in cells.errors if (c.mechanism, c.rate) == mask},
            key=lambda column: (in_order(column[0], CORE.tables), column[1]),
        )
        columns = [(table, measure) for table, measure in columns if measure != "nmae"]
        lines = []
        for method in methods:
            found = [[cells.text(Cell(t, *mask, setting, what), method) for setting in SETTINGS] for t, what in columns]
            if any(text != "n/r" for texts in found for text in texts):
                lines.append([method, *(texts[0] if len({*texts}) == 1 else " / ".join(texts) for texts in found)])
        parts += [
            f"{mask_name(*mask)}, in sample / new rows; n/r: not run on all of these seeds.",
            markdown(["method", *(f"{table} {what.upper()}" for table, what in columns)], lines),
        ]
    return parts
