"""What the paper says, and what the rows say to it."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.board import NAMES, TABLE1, TRIVIAL, Board, Column, best_of
from benchmarks.paper.jobs import NUMERIC, RATES, UNIQUE
from benchmarks.paper.methods import DEFAULT, PAPER, PAPERS


def claims(board: Board) -> str:
    """What the paper says and what the rows say to it; a claim whose rows are missing is left out."""
    lines = [
        text
        for text in (_lowest(board), _spread(board), _flat(board), _hivae(board), _proposals(board))
        if text is not None
    ]
    return "\n".join(lines)


def _lowest(board: Board) -> str | None:
    columns = [c for c in TABLE1 if c[0] != UNIQUE]
    rivals = [m for m in PAPERS if m != "MIWAE"]
    if not board.complete(columns, [PAPER, *rivals]):
        return None
    lowest = [c for c in columns if (b := best_of(board, c, [PAPER, *rivals])) and b[0] == PAPER]
    below = [c for c in columns if _mean(board, c, PAPER) < 0.99 * _mean(board, c, TRIVIAL)]
    return (
        f"- *VSAE has the lowest error in every column of Table 1.* Its literal recipe has it in {len(lowest)} of "
        f"{len(columns)}; it is better than the mean or mode by more than 1 % in {len(below)}."
    )


def _mean(board: Board, column: Column, method: str) -> float:
    errors = board.errors(column, method)
    return errors.mean if errors else float("nan")


def _spread(board: Board) -> str | None:
    columns = [c for c in TABLE1 if c[0] != UNIQUE]
    rivals = [m for m in PAPERS if m != "MIWAE"]
    if not board.complete(columns, [PAPER, *rivals]):
        return None
    ours = np.mean([e.std for c in columns if (e := board.errors(c, PAPER))])
    theirs = np.mean([e.std for c in columns for m in rivals if (e := board.errors(c, m))])
    trivial = np.mean([e.std for c in columns if (e := board.errors(c, TRIVIAL))])
    return (
        f"- *Its spread over seeds is lower.* Mean standard deviation {ours:.3f}, the baselines' {theirs:.3f}; the "
        f"mean and mode themselves vary by {trivial:.3f} from split to split."
    )


def _flat(board: Board) -> str | None:
    parts = []
    for method in (PAPER, DEFAULT):
        changes = []
        for table, measure in (("phishing", "pfc"), ("mushroom", "pfc"), ("yeast", "nrmse"), ("whitewine", "nrmse")):
            low, high = (_mean(board, (table, f"mcar{rate}", measure), method) for rate in (RATES[0], RATES[-1]))
            if np.isfinite(low) and np.isfinite(high):
                changes.append(f"{NAMES[table]} {low:.3f} → {high:.3f}")
        if changes:
            parts.append(f"{method}: {', '.join(changes)}")
    if not parts:
        return None
    return (
        f"- *Its error stays flat over missing ratios ({RATES[0]:g} to {RATES[-1]:g}).* {'; '.join(parts)}. Flat is "
        "what the mean and the mode are; a model that uses what it sees gets worse when it sees less."
    )


def _hivae(board: Board) -> str | None:
    low, high = (_mean(board, ("phishing", f"mcar{rate}", "pfc"), "HI-VAE") for rate in (0.3, 0.5))
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    verdict = "So it is here" if high < low else "Not here"
    return f"- *HI-VAE on Phishing is better at .5 missing than at .3.* {verdict}: {low:.3f} at .3, {high:.3f} at .5."


def _proposals(board: Board) -> str | None:
    parts = []
    for name in (PAPER, DEFAULT):
        for table in NUMERIC:
            column = (table, "mcar0.5", "nrmse")
            both = [_mean(board, column, f"{name}: {which} only") for which in ("collective", "attributive")]
            if np.isfinite(both).all():
                parts.append(f"{name}, {NAMES[table]}: {both[0]:.3f} and {both[1]:.3f}")
    if not parts:
        return None
    return (
        "- *The collective proposal alone beats the attributive alone on Yeast, whose columns depend on each other, "
        f"and loses on white wine.* Collective and attributive: {'; '.join(parts)}."
    )
