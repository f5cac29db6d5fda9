"""What the command line shows on stdout: tables for people."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import numpy as np
from rich import markup
from rich.console import Console
from rich.table import Table as Grid

from vsae.cli.demo import Demo
from vsae.cli.messages import printable
from vsae.estimator import VSAEImputer
from vsae.table import Encoded, Table
from vsae.table.errors import counted

_MOST_PATTERNS = 8  # with the table of columns, a screen
_PIPED_WIDTH = 120  # a pipe has no width of its own; rich would cut at 80
_WIDEST_PATTERN = 60  # columns whose cells are drawn one by one


def escape(text: str) -> str:
    """Neither rich's markup nor the terminal's codes."""
    return markup.escape(printable(text))


def _grid(left: tuple[str, ...], right: tuple[str, ...] = ()) -> Grid:
    grid = Grid()
    for heading in left:
        grid.add_column(heading, overflow="fold", min_width=min(len(heading), 10))
    for heading in right:
        grid.add_column(heading, justify="right")
    return grid


def _show(*parts: object) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=_PIPED_WIDTH)
    for part in parts:
        console.print(part)


# --- inspect


def show_table(path: str, table: Table, encoded: Encoded, relations: list[str]) -> None:
    hidden = 1 - encoded.mask.mean() if encoded.mask.size else 0.0
    size = f"{counted(encoded.n_rows, 'row')}, {counted(len(table.plans), 'column')}"
    title = f"{escape(path)}: {size}, {hidden:.1%} of the modelled cells missing"
    _show(f"\n{title}", _columns(table), *_patterns(encoded), *_relations(relations))


def _columns(table: Table) -> Grid:
    grid = _grid(("column", "kind", "values"), ("missing",))
    for plan in table.plans:
        kind = plan.kind_name if plan.kind else f"[yellow]{plan.kind_name}[/]"
        grid.add_row(escape(str(plan.label)), kind, escape(plan.describe()), f"{plan.missing:.1%}")
    return grid


def _relations(found: list[str]) -> tuple[str, ...]:
    """As options, to copy."""
    if not found:
        return ()
    lines = "\n".join(f"  --constraint {shlex.quote(text)}" for text in found)
    return (f"\nRelations that hold wherever their cells are known; to keep them in filled rows, add\n{escape(lines)}",)


def _patterns(encoded: Encoded) -> tuple[object, ...]:
    """The commonest patterns: a dot for a missing cell, a block for an observed one, in the order of the columns."""
    if not encoded.n_rows:
        return ()
    patterns, counts = np.unique(encoded.mask, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_PATTERNS]
    legend = "█ observed, · missing; columns in the order above"
    title = f"\nThe commonest of {counted(len(patterns), 'pattern')} of missing cells ({legend})"
    drawn = encoded.mask.shape[1] <= _WIDEST_PATTERN
    grid = _grid(("pattern",) if drawn else (), ("missing", "rows", "share"))
    for i in order:
        cells = ["".join("█" if seen else "·" for seen in patterns[i])] if drawn else []
        grid.add_row(*cells, str(int((~patterns[i]).sum())), str(counts[i]), f"{counts[i] / encoded.n_rows:.1%}")
    return title, grid


def show_model(path: str, imputer: VSAEImputer) -> None:
    history, model, facts = imputer.fitted_.history, imputer.fitted_.model, imputer.fitted_on_
    parameters = sum(p.numel() for p in model.parameters())
    title = f"{escape(path)}: {imputer.method}, fitted on {counted(facts['rows'], 'row')}"
    _show(
        f"\n{title}, {facts['missing']:.1%} of the modelled cells missing",
        _columns(imputer.schema_),
        f"\nWritten by vsae {escape(facts['vsae'])}; {parameters:,} parameters, "
        f"{counted(model.config.members, 'member')}, latent dimension {model.config.latent_dim}.\n"
        f"Trained {history.records[-1]['step']} steps{_took(history.seconds)} ({escape(history.stopped)}); "
        f"best at step {', '.join(map(str, history.best_step))}.",
    )


def _took(seconds: float) -> str:
    """Nothing where it is not known: a streamed fit keeps no times."""
    return f" in {seconds:.0f} s" if seconds else ""


# --- demo


def show_demo(demo: Demo) -> None:
    clinic, history = demo.clinic, demo.imputer.fitted_.history
    hidden = 1 - clinic.mask.mean()
    _show(
        f"\nThe clinic table: {len(clinic.mask)} rows, {hidden:.0%} of the cells hidden, some because of their value."
        f"\nFitted in {history.seconds:.0f} s ({history.records[-1]['step']} steps, {history.stopped}).",
        "\nError on the hidden cells",
        _errors(demo),
        "\nGenerated: three rows with missing cells, and the share of missing cells in each column",
        _generated(demo),
    )


def _errors(demo: Demo) -> Grid:
    grid = _grid(("column", "kind", "measure"), ("vsae", "mean/mode", "ratio"))
    for e in demo.errors:
        ratio = e.ours / e.trivial
        colour = "green" if ratio < 1 else "red"
        grid.add_row(e.name, e.kind, e.measure, f"{e.ours:.3f}", f"{e.trivial:.3f}", f"[{colour}]{ratio:.2f}[/]")
    return grid


def _generated(demo: Demo, n: int = 3) -> Grid:
    grid = _grid(("column", *(f"row {i + 1}" for i in range(n))), ("missing", "in table"))
    for variable in demo.clinic.schema.variables:
        attribute = demo.clinic.schema.attribute_of[variable.name]
        column, seen = demo.rows[variable.name], demo.seen[variable.name]
        cells = [_text(column[i]) if seen[i] else "[dim]·[/]" for i in range(n)]
        shares = (1 - seen.mean(), 1 - demo.clinic.mask[:, attribute].mean())
        grid.add_row(variable.name, *cells, *(f"{share:.2f}" for share in shares))
    return grid


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
