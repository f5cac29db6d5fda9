"""What the command line shows on stdout: tables."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from vsae.datasets import Clinic
from vsae.demo import Demo


def show_demo(console: Console, demo: Demo) -> None:
    clinic, history = demo.clinic, demo.fitted.history
    hidden = 1 - clinic.mask.mean()
    console.print(
        f"\nThe clinic table: {len(clinic.mask)} rows, {hidden:.0%} of the cells hidden, some because of their own "
        f"value.\nFitted in {history.seconds:.0f} s ({history.records[-1]['step']} steps, {history.stopped})."
    )
    console.print(_errors(demo))
    console.print(_generated(demo))


def _errors(demo: Demo) -> Table:
    table = Table(title="\nError on the hidden cells", title_justify="left")
    for heading in ("column", "kind", "measure"):
        table.add_column(heading, no_wrap=True)
    for heading in ("vsae", "mean/mode", "ratio"):
        table.add_column(heading, justify="right")
    for e in demo.errors:
        ratio = e.ours / e.trivial
        colour = "green" if ratio < 1 else "red"
        table.add_row(e.name, e.kind, e.measure, f"{e.ours:.3f}", f"{e.trivial:.3f}", f"[{colour}]{ratio:.2f}[/]")
    return table


def _generated(demo: Demo, n: int = 3) -> Table:
    table = Table(title="\nGenerated: three rows with their holes, and the share missing", title_justify="left")
    table.add_column("column", no_wrap=True)
    for i in range(n):
        table.add_column(f"row {i + 1}", no_wrap=True)
    table.add_column("missing", justify="right")
    table.add_column("in table", justify="right")
    clinic = demo.clinic
    for variable in clinic.schema.variables:
        attribute = clinic.schema.attribute_of[variable.name]
        cells = [
            _text(clinic, variable.name, demo.rows[variable.name][i]) if demo.masks[i, attribute] else "[dim]·[/]"
            for i in range(n)
        ]
        shares = (f"{1 - mask[:, attribute].mean():.2f}" for mask in (demo.masks, clinic.mask))
        table.add_row(variable.name, *cells, *shares)
    return table


def _text(clinic: Clinic, name: str, value: float) -> str:
    if name in clinic.levels:
        return clinic.levels[name][int(value)]
    return str(np.datetime64(int(value), "D")) if name == "visit_date" else f"{value:.6g}"
