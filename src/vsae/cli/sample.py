"""`vsae sample`: new rows from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsae.cli.given import conditions
from vsae.cli.messages import note, one_line_errors
from vsae.cli.options import Format, Quiet, Seed, TextOptions, with_options
from vsae.cli.steps import read

if TYPE_CHECKING:
    from vsae.generation.privacy import DistanceToClosest


@with_options
def sample(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model from `vsae fit`.")],
    *,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="The number of rows to generate.")] = 1000,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write; - is stdout, as CSV.")] = "-",
    with_missing: Annotated[
        bool, typer.Option("--with-missing", help="Leave cells empty where the model expects missing values.")
    ] = False,
    given: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition: sex=F, age=30..40, reason=heart,back, or income= for a missing income. May be repeated."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE", help="The table that the model was fitted on: report whether generated rows are copies."
        ),
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Generate new rows like those that a model was fitted on. The options of text files are those of TABLE."""
    with one_line_errors():
        from vsae.estimator import load
        from vsae.files import check_target, write_table

        check_target(out, format=format)
        imputer = load(model)
        real = None if against is None else read(against, None, text, quiet, model=imputer)
        drawn = imputer.sample(
            rows, with_missing=with_missing, given=conditions(imputer, given), random_state=seed, container="dict"
        )
        named = {str(name): column for name, column in drawn.items()}
        write_table(out, named, format=format, notations=imputer.notations_)
        if real is not None:
            report_distances(imputer.distance_to_closest(drawn, real.data))
        else:
            note("to see whether generated rows are copies, give the fitted table with --against", quiet)


def report_distances(found: DistanceToClosest | None) -> None:
    if found is None:
        note("no generated row has enough cells in common with a row of the table to tell whether it is a copy")
        return
    note(found)
    if found.suspicious:
        note(
            "warning: the generated rows lie closer to the rows of the table than these lie to each other, so they may "
            "reveal some of them; fit with less effort or to more rows"
        )
