"""`vsae evaluate`: errors on known cells of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from vsae.cli.messages import fail, note, one_line_errors, printable
from vsae.cli.options import (
    Asked,
    ColumnOptions,
    Format,
    Input,
    Quiet,
    RowOptions,
    Seed,
    TextOptions,
    TrainingOptions,
    separated,
    with_options,
)
from vsae.cli.steps import asked_for, is_same, read


@with_options
def evaluate(
    table: Input,
    *,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Write the errors to this file; - is stdout, as CSV and without words."),
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="The share of the known cells that is hidden from each fit, between 0 and 1.")
    ] = 0.1,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="How many fits, each with other cells hidden. Default: what errors need, at most 5."),
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(help="What else to score: mean/mode, linear, trees, with commas between. Default: all."),
    ] = None,
    columns: ColumnOptions,
    rows: RowOptions,
    training: TrainingOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Say how good the imputation of a table is: hide known cells, fit anew, and compare; beside simple methods."""
    with one_line_errors():
        import numpy as np

        from vsae.evaluation.chains import CHAINS
        from vsae.files import check_target, write_table

        if out is not None:
            if is_same(out, table):
                fail(f"{out}: this is the table itself; name another file for the errors")
            check_target(out)
        source = read(table, format, text, quiet, columns)
        imputer = asked_for(source, Asked(columns, rows, training, seed, quiet, format, text))
        methods = separated(compare) or list(CHAINS)
        found = imputer.evaluate(source.data, holdout=holdout, repeats=repeats, compare=methods)
        if out != "-":
            typer.echo(printable(found))
        if out is not None:
            write_table(out, {name: np.array(column) for name, column in found.to_dict().items()})
            note(f"wrote {out}", quiet or out == "-")
