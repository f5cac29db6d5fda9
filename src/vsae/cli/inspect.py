"""`vsae inspect` and `vsae mechanism`: what a table is like, before or after a fit."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from vsae.cli.messages import one_line_errors, printable
from vsae.cli.options import ColumnOptions, Format, Input, TextOptions, with_options
from vsae.cli.steps import read


@with_options
def inspect(
    path: Annotated[str, typer.Argument(metavar="IN|MODEL", help="A table or a fitted model.")],
    *,
    columns: ColumnOptions,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Show the kinds of a table's columns and which cells are missing; or show what a model was fitted on."""
    with one_line_errors():
        from vsae.cli.console import show_model, show_table
        from vsae.cli.relations import relations_of
        from vsae.estimator import load
        from vsae.table import Table

        if path != "-" and is_model(path):
            show_model(path, load(path))
            return
        source = read(path, format, text, quiet=False, columns=columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table that is shown says the same
            table = Table.fit(
                source.data,
                schema=columns.specs(),
                missing_values=columns.missing_codes(),
                structural=columns.conditions(),
                constraints=columns.constraint or (),
            )
            encoded = table.encode(source.data)
        show_table(path, table, table.without_inapplicable(encoded), relations_of(table, encoded))


@with_options
def mechanism(
    table: Input,
    *,
    columns: ColumnOptions,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Say what the missing cells of each column go with: other columns, other missing cells, their own value."""
    with one_line_errors():
        from vsae.data.encoding import Encoding
        from vsae.mechanism.report import mechanism_report
        from vsae.table import Table

        source = read(table, format, text, quiet=False, columns=columns)
        plans = Table.fit(
            source.data,
            schema=columns.specs(),
            missing_values=columns.missing_codes(),
            structural=columns.conditions(),
        )
        cells, mask, _ = plans.without_inapplicable(plans.encode(source.data))
        levels = {plan.name: plan.levels for plan in plans.modelled if plan.levels}
        typer.echo(printable(mechanism_report(Encoding.fit(plans.schema, cells, mask), cells, mask, levels=levels)))


def is_model(path: str) -> bool:
    """A safetensors file begins with the length of its header, and the header is JSON."""
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return False
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") < 2**40
