"""The command line: arguments in, files and tables out. Heavy imports wait until a command runs.

Data goes to stdout or a file, everything else to stderr. Exit code 0: done; 1: the input is bad, in one line; 2: usage.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from vsae import __version__
from vsae.cli.messages import fail, note, one_line_errors, printable, warn, whole_output
from vsae.cli.options import (
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
from vsae.table.errors import counted

if TYPE_CHECKING:
    from vsae.estimator import VSAEImputer
    from vsae.files import File, FileTable
    from vsae.generation.privacy import DistanceToClosest
    from vsae.table.fills import Fill
    from vsae.table.plan import ColumnPlan

app = typer.Typer(
    name="vsae",
    help="Impute the missing values of a table, or generate new rows like its own, with one generative model of the "
    "data and of what is missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if show:
        typer.echo(f"vsae {__version__}")
        raise typer.Exit


@app.command()
@with_options
def impute(
    table: Input,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write; - is stdout.")] = "-",
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
    in_place: Annotated[bool, typer.Option("--in-place", help="Write the filled table over IN.")] = False,
    columns: ColumnOptions,
    rows: RowOptions,
    training: TrainingOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Impute the missing values of a table. Every other character of a text file stays as it is.

    What was filled, and what was left and why, is said on stderr; exit code 1 where nothing could be filled.
    """
    with one_line_errors():
        from vsae.analysis.draws import Draws
        from vsae.estimator import Strategy, load
        from vsae.files import check_target, rendered, write_files
        from vsae.table import fills

        long = long or stata
        if long and (not draws or in_place):
            raise typer.BadParameter(
                "one file of several tables needs --draws, and a name of its own", param_hint="--long"
            )
        if with_original and not long:
            raise typer.BadParameter("only a long file has room for it: give --long", param_hint="--with-original")
        if draws and out == "-" and not long:
            raise typer.BadParameter("several tables need a file name: give -o", param_hint="--draws")
        if strategy not in (None, *get_args(Strategy)):
            raise typer.BadParameter(
                f"must be one of {', '.join(get_args(Strategy))}, not {strategy!r}", param_hint="--strategy"
            )
        if model and (columns, rows, training) != (ColumnOptions(), RowOptions(), TrainingOptions()):
            raise typer.BadParameter(
                "a fitted model takes no options of columns, rows and training, such as --schema, --groups or --effort",
                param_hint="--model",
            )
        out = table if in_place and out == "-" else out
        targets = [numbered(out, i + 1) for i in range(draws)] if draws and not long else [out]
        paths = [*targets, *([flags] if flags else [])]
        for target in paths:
            if is_same(target, table) and not (in_place and target == out):
                fail(f"{target}: this is the table itself; name another file, or pass --in-place to write over it")
        check_target(out, format=format)
        if flags:
            check_target(flags)
        known = load(model) if model else None
        source = read(table, format, text, quiet, columns, known)
        imputer = known or fitted(source, columns, rows, training, seed, quiet)
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

        write_files(contents(), paths)
        for path in paths:
            note(f"wrote {path}", quiet or path == "-")


@app.command()
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
    text: TextOptions,
) -> None:
    """Fit a model to a table and save it. A fit that was interrupted continues when the command is run again."""
    with one_line_errors():
        from vsae.estimator import load
        from vsae.storage.atomic import check_place, is_special

        check_place(out)
        if is_same(str(out), table):
            fail(f"{out}: this is the table itself; name another file for the model")
        if start and (columns != ColumnOptions() or rows != RowOptions()):
            raise typer.BadParameter(
                "a fitted model takes no options of columns or rows, such as --schema", param_hint="--from"
            )
        known = load(start) if start else None
        source = read(table, format, text, quiet, columns, known)
        state = None if is_special(out) else out.with_name(f".{out.name}.training")
        fitted(source, columns, rows, training, seed, quiet, state, known).save(out)
        note(f"wrote {out}", quiet)


@app.command()
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


@app.command()
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


@app.command()
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
        imputer = asked_for(source, columns, rows, training, seed, quiet)
        methods = separated(compare) or list(CHAINS)
        found = imputer.evaluate(source.data, holdout=holdout, repeats=repeats, compare=methods)
        if out != "-":
            typer.echo(printable(found))
        if out is not None:
            write_table(out, {name: np.array(column) for name, column in found.to_dict().items()})
            note(f"wrote {out}", quiet or out == "-")


@app.command()
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


@app.command()
def demo(
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=50, help="The number of rows of the synthetic clinic table.")
    ] = 2000,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit a model to the built-in clinic table, impute its missing values, and generate rows and masks."""
    from vsae.cli.console import show_demo
    from vsae.cli.demo import run

    show_demo(run(rows, seed, verbose=not quiet))


# --- the steps of the commands


def read(
    path: str,
    format: str | None,
    text: TextOptions,
    quiet: bool,
    columns: ColumnOptions | None = None,
    model: VSAEImputer | None = None,
) -> FileTable:
    """The table at `path`; what a model knows of its own file settles what this one leaves open."""
    from vsae.files import read_table

    na = text.missing_texts + (columns.missing_texts if columns else ())
    if model is not None:
        codes = [set(plan.missing_codes) for plan in model.schema_.plans]
        na += tuple(code for code in set.intersection(*codes) if isinstance(code, str))
    source = read_table(
        path,
        format=format,
        delimiter=text.delimiter,
        encoding=text.encoding,
        na=na,
        header=text.header,
        sheet=text.sheet,
        max_expanded=text.max_expanded,
        kinds=columns.specs() if columns else None,
        notations=model.notations_ if model else None,
    )
    for message in source.notes:
        note(message, quiet)
    return source


def fitted(
    source: FileTable,
    columns: ColumnOptions,
    rows: RowOptions,
    training: TrainingOptions,
    seed: int,
    quiet: bool,
    state: Path | None = None,
    known: VSAEImputer | None = None,
) -> VSAEImputer:
    """A new model of a table, or a known one that has learned its rows, too."""
    from vsae.fitting.steps import TrainingStates
    from vsae.storage.checkpoint import FileFormatError

    imputer = asked_for(source, columns, rows, training, seed, quiet, state, known)
    learn, states = imputer.fit if known is None else imputer.partial_fit, TrainingStates.beside(state)
    if any(path is not None and path.exists() for path in states):
        note(f"continuing the fit that {state} is the state of", quiet)
    try:
        return learn(source.data)
    except FileFormatError as error:  # damaged, foreign, or left by a fit of another table or with other settings
        warn(f"{error}; this fit starts anew")
        states.remove()
        return learn(source.data)


def asked_for(
    source: FileTable,
    columns: ColumnOptions,
    rows: RowOptions,
    training: TrainingOptions,
    seed: int,
    quiet: bool,
    state: Path | None = None,
    known: VSAEImputer | None = None,
) -> VSAEImputer:
    """An imputer, or the known one, with the settings that the options ask for."""
    from vsae.estimator import VSAEImputer
    from vsae.fitting.presets import EFFORTS
    from vsae.table import Image
    from vsae.table.stamps import NOTATIONS

    if training.effort not in EFFORTS:
        raise typer.BadParameter(f"must be one of {', '.join(EFFORTS)}, not {training.effort!r}", param_hint="--effort")
    specs = columns.specs()
    for name, spec in specs.items():
        if isinstance(spec, Image):
            raise ValueError(f"column {name!r}: images cannot be written back to a file; use VSAEImputer in Python")
    imputer = known
    if imputer is None:
        imputer = VSAEImputer(
            schema=specs or None,
            missing_values=columns.missing_codes(),
            structural=columns.conditions() or None,
            constraints=columns.constraint,
            weights=rows.weights,
            groups=rows.groups,
            order=rows.order,
        )
        imputer.notations_ = {name: n for name, n in source.notations.items() if type(n).__name__ in NOTATIONS}
    if known is None or training.mechanism:
        imputer.set_params(mechanism=training.said_of_mechanism())
    return imputer.set_params(
        effort=training.effort,
        config={"steps": training.steps} if training.steps else None,
        random_state=seed,
        verbose=not quiet,
        checkpoint_path=state,
    )


def report_fills(found: list[Fill], absent: list[Any], quiet: bool) -> None:
    """Say how many cells of each column are filled, and which are left and why; fail where all are left."""
    some = [fill for fill in found if fill.size]
    filled, left = [f for f in some if not f.left], [f for f in some if f.left]
    if absent:
        names = ", ".join(repr(str(label)) for label in absent[:10]) + (", …" if len(absent) > 10 else "")
        warn(f"the model knows columns that the table does not have, and they are not added: {names}")
    for fill in left:
        warn(f"{counted(fill.size, 'missing cell')} of column {str(fill.label)!r} left empty: {fill.left}")
    if left and not filled:
        fail(f"no missing cell could be filled; {counted(sum(f.size for f in left), 'cell')} would be left empty")
    columns = ", ".join(f"{fill.label} {fill.size}" for fill in filled)
    note(f"filled {counted(sum(f.size for f in filled), 'cell')}" + (f": {columns}" if filled else ""), quiet)


def is_same(path: str, other: str) -> bool:
    """Whether two paths are one file."""
    return "-" not in (path, other) and os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def is_model(path: str) -> bool:
    """A safetensors file begins with the length of its header, and the header is JSON."""
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return False
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") < 2**40


def numbered(path: str, i: int) -> str:
    """The i-th of several outputs; the number stands before the extensions of the format.

    >>> numbered("out/filled.csv.gz", 3), numbered("a.0.csv", 1), numbered("v1.2", 1)
    ('out/filled.3.csv.gz', 'a.0.1.csv', 'v1.2.1')
    """
    from vsae.files import COMPRESSIONS, FORMATS

    target, kept = Path(path), ""
    stem = target.name
    for known in (COMPRESSIONS, FORMATS):
        root, extension = os.path.splitext(stem)
        if extension.lower() in known:
            stem, kept = root, extension + kept
    return str(target.with_name(f"{stem}.{i}{kept}"))


def conditions(imputer: VSAEImputer, options: list[str] | None) -> dict[Any, Any]:
    """`sex=F` fixes a value, `income=` asks for a missing one."""
    from vsae.estimator import MISSING

    labels = {str(plan.label): plan for plan in imputer.schema_.modelled}
    given: dict[Any, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise ValueError(f"--given {option}: write it as column=value")
        if name not in labels:
            raise ValueError(f"--given {option}: there is no column {name!r}; the columns are {', '.join(labels)}")
        notation = imputer.notations_.get(name)
        given[labels[name].label] = condition(labels[name], notation, value) if value else MISSING
    return given


def condition(plan: ColumnPlan, notation: Any, text: str) -> Any:
    """A value, a range such as 30..40, or several values with commas between them."""

    def parse(one: str) -> Any:
        if notation is not None and not plan.levels and notation.reads(one):
            return notation.parse([one])[0]  # as the file of the model writes it
        return plan.parse(one)

    if text in map(str, plan.levels):
        return parse(text)
    low, dots, high = text.partition("..")
    if dots:
        return tuple(parse(end) if end else None for end in (low, high))
    return [parse(one) for one in text.split(",")] if "," in text and plan.levels else parse(text)


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


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that half-written files are removed
    with whole_output():
        app()
