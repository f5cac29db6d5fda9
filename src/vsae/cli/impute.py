"""`vsae impute`: a table with its missing values filled, or several."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from vsae.cli.fills import report_fills
from vsae.cli.large import impute_in_blocks, in_blocks, refuse_sample
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
    separated,
    with_options,
)
from vsae.cli.steps import fitted, is_same, read

if TYPE_CHECKING:
    from vsae.files import File


@with_options
def impute(
    table: Input,
    *,
    out: Annotated[
        str, typer.Option("--out", "-o", help="The file to write; - is stdout. A folder gets a file for each of IN.")
    ] = "-",
    draws: Annotated[
        int,
        typer.Option(
            min=0, help="Write this many tables, out.1.csv and so on, each with random draws for its missing values."
        ),
    ] = 0,
    long: Annotated[
        bool, typer.Option("--long", help="Write all draws to one file, with columns .imp and .id, in plain notation.")
    ] = False,
    with_original: Annotated[
        bool,
        typer.Option("--with-original", help="In a long file: IN itself, too, as .imp 0, which R's as.mids wants."),
    ] = False,
    stata: Annotated[
        bool, typer.Option("--stata", help="A long file as Stata's mi import flong takes it, with mi_m and mi_id.")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="What a missing cell gets: mean (of a number; the most probable level), median, or draw (of all "
            "missing cells of a row together). Default: mean, or the strategy of the model."
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A fitted model. Default: one is fitted to IN.")] = None,
    flags: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write a table of 0 and 1 here, too: 1 where a cell was filled. Its format follows its name.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns, separated by commas, to fill; the others help, and come back as they are. May be repeated."
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write one HTML file here, too: what was missing, what was filled in, and how sure that is.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="In the report: the groups in which missing cells are compared."),
    ] = None,
    evaluation: Annotated[
        bool | None,
        typer.Option(
            "--evaluation/--no-evaluation",
            help="In the report: whether known cells are hidden and asked for again, which takes one more fit. "
            "Default: if a model is fitted.",
        ),
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Write the filled table over IN.")] = False,
    columns: ColumnOptions,
    rows: RowOptions,
    training: TrainingOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    engine: EngineOptions,
    text: TextOptions,
) -> None:
    """Impute the missing values of a table. Every other character of a text file stays as it is.

    What was filled, and what was left and why, is said on stderr; exit code 1 where nothing could be filled.
    """
    with one_line_errors():
        from vsae.analysis.draws import Draws
        from vsae.estimator import Strategy, load
        from vsae.files import check_target, rendered, write_files
        from vsae.storage.atomic import check_place
        from vsae.table import fills
        from vsae.table.containers import view_of
        from vsae.table.roles import column_of

        long = long or stata
        _check_outputs(out, draws, long, with_original, in_place)
        if report == "-" or (by and not report):
            raise typer.BadParameter("a report is a file: name it with --report FILE", param_hint="--report")
        if report and only:
            raise typer.BadParameter("a report is of all columns: leave --only out", param_hint="--report")
        if strategy not in (None, *get_args(Strategy)):
            raise typer.BadParameter(
                f"must be one of {', '.join(get_args(Strategy))}, not {strategy!r}", param_hint="--strategy"
            )
        if model and (columns, rows, training) != (ColumnOptions(), RowOptions(), TrainingOptions()):
            raise typer.BadParameter(
                "a fitted model takes no options of columns, rows and training, such as --schema, --groups, --method "
                "or --effort",
                param_hint="--model",
            )
        if model:
            refuse_sample(engine, "a fitted model learns no rows; leave it out")
        all_at_once = {"--long": long, "--flags": flags, "--report": report, "--in-place": in_place, "-o -": out == "-"}
        whole = [option for option, given in all_at_once.items() if given]
        asked = Asked(columns, rows, training, seed, quiet, format, text, engine)
        if in_blocks(engine, table, [*whole, *rows.need_all]):
            outs = [numbered(out, i + 1) for i in range(draws)] if draws else [out]
            impute_in_blocks(table, outs, model, asked, strategy, draws, tuple(separated(only)))
            return
        refuse_sample(engine, "a fit in memory learns all rows; give --engine stream, too")
        out = table if in_place and out == "-" else out
        targets = [numbered(out, i + 1) for i in range(draws)] if draws and not long else [out]
        paths = [*targets, *(path for path in (flags, report) if path)]
        if len(set(paths)) < len(paths):
            raise typer.BadParameter("several outputs have one name; give each its own", param_hint="--out")
        for target in paths:
            if is_same(target, table) and not (in_place and target == out):
                fail(f"{target}: this is the table itself; name another file, or pass --in-place to write over it")
        check_target(out, format=format)
        if flags:
            check_target(flags)
        if report:
            check_place(report)
        known = load(model) if model else None
        source = read(table, format, text, quiet, columns, known)
        if by:
            column_of(view_of(source.data), by, "--by")
        imputer = known or fitted(source, asked)
        imputer.set_params(add_indicator=False)  # --flags are a file of their own
        if strategy:
            imputer.set_params(strategy=strategy)
        warnings.filterwarnings("ignore", message="the missing cells of these columns are left")  # it is said below
        drawn = imputer.draw(source.data, draws, random_state=seed) if draws else None
        tables = [imputer.transform(source.data)] if drawn is None else list(drawn)
        tables = [source.only(table, separated(only)) if only else table for table in tables]
        found = fills.fills(imputer.schema_, source.data, tables[0])
        if only:
            others = "not among those of --only"
            found = [f if f.label in separated(only) else f._replace(left=f.left or others) for f in found]
        report_fills(found, fills.absent(imputer.schema_, source.data), quiet)

        page = b""
        if report:
            again = shlex.join(["vsae", *sys.argv[1:]])
            title = None if table == "-" else Path(table).name
            known_cells = known is None if evaluation is None else evaluation
            page = imputer.report(source.data, by=by, evaluation=known_cells, title=title, again=again).html.encode()

        def contents() -> Iterator[File]:
            if drawn is not None and long:
                original = source.only(drawn.original, separated(only)) if only else drawn.original
                together = Draws(tables, original).long(original=with_original, style="stata" if stata else "mice")
                yield rendered(out, together, format=format)
            else:
                for target, filled in zip(targets, tables, strict=True):
                    yield source.rendered(target, filled, format=format)
            if flags:
                yield rendered(flags, {str(fill.label): fill.filled.astype(int) for fill in found})
            if report:
                yield report, page, None

        write_files(contents(), paths)
        for path in paths:
            note(f"wrote {path}", quiet or path == "-")


def _check_outputs(out: str, draws: int, long: bool, with_original: bool, in_place: bool) -> None:
    """Options that do not go together are wrong usage."""
    if long and (not draws or in_place):
        raise typer.BadParameter("one file of several tables needs --draws, and a name of its own", param_hint="--long")
    if with_original and not long:
        raise typer.BadParameter("only a long file has room for it: give --long", param_hint="--with-original")
    if draws and out == "-" and not long:
        raise typer.BadParameter("several tables need a file name: give -o", param_hint="--draws")


def numbered(path: str, i: int) -> str:
    """The i-th of several outputs; the number stands before the extensions of the format.

    >>> numbered("out/filled.csv.gz", 3), numbered("a.0.csv", 1), numbered("v1.2", 1), numbered("out/", 2)
    ('out/filled.3.csv.gz', 'a.0.1.csv', 'v1.2.1', 'out.2/')
    """
    from vsae.files import COMPRESSIONS, FORMATS

    target, kept = Path(path), ""
    stem = target.name
    for known in (COMPRESSIONS, FORMATS):
        root, extension = os.path.splitext(stem)
        if extension.lower() in known:
            stem, kept = root, extension + kept
    return str(target.with_name(f"{stem}.{i}{kept}")) + "/" * path.endswith("/")
