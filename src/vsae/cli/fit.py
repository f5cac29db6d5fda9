"""`vsae fit`: a model of a table, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsae.cli.large import fit_in_blocks, in_blocks, refuse_sample
from vsae.cli.messages import fail, note, one_line_errors
from vsae.cli.options import (
    Asked,
    ColumnOptions,
    EngineOptions,
    Format,
    Input,
    Quiet,
    RowOptions,
    Seed,
    TextOptions,
    TrainingOptions,
    with_options,
)
from vsae.cli.steps import fitted, is_same, read


@with_options
def fit(
    table: Input,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write the model to.")],
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="MODEL", help="A model to go on from: it learns these rows beside those it knows."
        ),
    ] = None,
    columns: ColumnOptions,
    rows: RowOptions,
    training: TrainingOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    engine: EngineOptions,
    text: TextOptions,
) -> None:
    """Fit a model to a table and save it. A fit that was interrupted continues when the command is run again."""
    with one_line_errors():
        from vsae.estimator import load
        from vsae.estimator.methods import VSAE
        from vsae.storage.atomic import check_place, is_special

        check_place(out)
        if is_same(str(out), table):
            fail(f"{out}: this is the table itself; name another file for the model")
        if start and (columns != ColumnOptions() or rows != RowOptions()):
            raise typer.BadParameter(
                "a fitted model takes no options of columns or rows, such as --schema", param_hint="--from"
            )
        state = None if is_special(out) else out.with_name(f".{out.name}.training")
        asked = Asked(columns, rows, training, seed, quiet, format, text, engine)
        if in_blocks(engine, table, [*(["--from"] if start else []), *rows.need_all]):
            fit_in_blocks(table, out, asked, state)
            return
        refuse_sample(engine, "a fit in memory learns all rows; give --engine stream, too")
        known = load(start) if start else None
        if known is not None and known.method != VSAE:
            raise typer.BadParameter(
                f"{start} holds a model of --method {known.method}, which learns no more rows; fit all rows together, "
                "without --from",
                param_hint="--from",
            )
        source = read(table, format, text, quiet, columns, known)
        fitted(source, asked, state, known).save(out)
        note(f"wrote {out}", quiet)
