"""The command line: arguments in, files and tables out. Heavy imports wait until a command runs.

Data goes to stdout or a file, everything else to stderr. Exit code 0: done; 1: the input is bad, in one line; 2: usage.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vsae import __version__
from vsae.files import DEFAULT_NA

if TYPE_CHECKING:
    from vsae.estimator import VSAEImputer
    from vsae.files import FileTable
    from vsae.generation.privacy import Closeness

app = typer.Typer(
    name="vsae",
    help="Fill the holes of a table, or make new rows like it: one generative model of data and of what is missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Input = Annotated[
    str, typer.Argument(metavar="IN", help="A table: .csv .tsv .parquet .feather .jsonl, .gz .zst; - is stdin.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="A JSON file with kinds that are not to be inferred: "
        '{"zip": "categorical", "age": {"kind": "count", "min": 0, "max": 120}, "note": "keep"}; '
        "kinds are real, positive, count, binary, categorical, ordinal, keep.",
    ),
]
Missing = Annotated[
    list[str] | None, typer.Option("--missing", help="Codes that stand for a hole: age=-1,999; repeatable.")
]
Effort = Annotated[str, typer.Option(help="fast, default or best: time for quality.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Train at most this many steps, whatever the effort.")]
Format = Annotated[str | None, typer.Option(help="csv, tsv, jsonl, parquet, feather; if the name does not say.")]
Delimiter = Annotated[str | None, typer.Option(help="Between the cells of a delimited file; found out if not given.")]
Holes = Annotated[
    str | None,
    typer.Option(
        "--na",
        help=f"Texts read as holes, with commas between; else {', '.join(DEFAULT_NA[1:])}; empty cells always are.",
    ),
]
Encoding = Annotated[str | None, typer.Option(help="Of a text file; found out if not given.")]


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if show:
        typer.echo(f"vsae {__version__}")
        raise typer.Exit


@app.command()
def impute(
    table: Input,
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write; - is stdout.")] = "-",
    draws: Annotated[
        int, typer.Option(min=0, help="Write so many tables of draws, out.1.csv and on, not one of guesses.")
    ] = 0,
    model: Annotated[Path | None, typer.Option(help="A fitted model; without it, one is fitted to IN.")] = None,
    schema: SchemaFile = None,
    missing: Missing = None,
    effort: Effort = "default",
    steps: Steps = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    na: Holes = None,
) -> None:
    """Fill the holes of a table; every other character of a text file stays as it is."""
    with one_line_errors(quiet):
        from vsae.files import check_target

        if draws and out == "-":
            raise typer.BadParameter("several tables need a file name: give -o", param_hint="--draws")
        if model and (schema or missing or steps or effort != "default"):
            raise typer.BadParameter(
                "a fitted model takes no --schema, --missing, --effort or --steps", param_hint="--model"
            )
        targets = [numbered(out, i + 1) for i in range(draws)] if draws else [out]
        check_target(out, format=format)
        source = read(table, format, delimiter, encoding, na, quiet)
        imputer = loaded(model) if model else fitted(source, schema, missing, effort, steps, seed, quiet)
        tables = imputer.draw(source.data, draws, random_state=seed) if draws else [imputer.transform(source.data)]
        for target, filled in zip(targets, tables, strict=True):
            source.write(target, filled, format=format)
            if target != "-" and not quiet:
                print(f"vsae: wrote {target}", file=sys.stderr)


@app.command()
def fit(
    table: Input,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    schema: SchemaFile = None,
    missing: Missing = None,
    effort: Effort = "default",
    steps: Steps = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    na: Holes = None,
) -> None:
    """Fit a model to a table and keep it. Killed and started again, it goes on where it was."""
    with one_line_errors(quiet):
        if not out.parent.is_dir():
            fail(f"{out}: there is no folder {out.parent}; create it first")
        if out.is_dir() or (table != "-" and out.exists() and out.samefile(table)):
            fail(f"{out}: is {'a folder' if out.is_dir() else 'the table itself'}; name another file for the model")
        source = read(table, format, delimiter, encoding, na, quiet)
        state = out.with_name(f".{out.name}.training")
        fitted(source, schema, missing, effort, steps, seed, quiet, state).save(out)
        if not quiet:
            print(f"vsae: wrote {out}", file=sys.stderr)


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model from `vsae fit`.")],
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows to make.")] = 1000,
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write; - is stdout, as CSV.")] = "-",
    with_missing: Annotated[bool, typer.Option("--with-missing", help="With holes where they would be.")] = False,
    given: Annotated[
        list[str] | None, typer.Option(help="A condition: sex=F, or income= for a missing income; repeatable.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="TABLE", help="The table fitted on: says whether new rows are copies of its.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    delimiter: Annotated[str | None, typer.Option(help="Of the table --against.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of the table --against.")] = None,
    na: Annotated[str | None, typer.Option(help="What counts as empty in the table --against, by commas.")] = None,
) -> None:
    """Make new rows like those a model was fitted on."""
    with one_line_errors(quiet):
        from vsae.files import check_target, write_table

        check_target(out, format=format)
        imputer = loaded(model)
        real = None if against is None else read(against, None, delimiter, encoding, na, quiet)
        drawn = imputer.sample(
            rows, with_missing=with_missing, given=conditions(imputer, given), random_state=seed, container="dict"
        )
        write_table(out, {str(name): column for name, column in drawn.items()}, format=format)
        if real is not None:
            report_closeness(imputer.closeness(drawn, real.data))
        elif not quiet:
            print("vsae: give --against the table fitted on to see whether rows are copies of its", file=sys.stderr)


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(metavar="IN|MODEL", help="A table or a fitted model.")],
    schema: SchemaFile = None,
    missing: Missing = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    na: Holes = None,
) -> None:
    """What the columns of a table would be taken for and where its holes are; or what a model was fitted on."""
    with one_line_errors(quiet=False):
        from vsae.cli.console import show_model, show_table
        from vsae.table import Table

        if path != "-" and is_model(path):
            show_model(path, loaded(Path(path)))
            return
        source = read(path, format, delimiter, encoding, na, quiet=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table that is shown says the same
            table = Table.fit(source.data, schema=read_schema(schema), missing_values=missing_codes(missing))
            encoded = table.encode(source.data)
        show_table(path, table, encoded)


@app.command()
def demo(
    rows: Annotated[int, typer.Option("--rows", "-n", min=50, help="Rows of the synthetic clinic table.")] = 2000,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fit the built-in clinic table, fill its holes, and generate rows and masks."""
    from vsae.cli.console import show_demo
    from vsae.cli.demo import run

    show_demo(run(rows, seed, verbose=not quiet))


# --- what the commands share


@contextmanager
def one_line_errors(quiet: bool) -> Iterator[None]:
    """What is wrong with the input ends the program with one line and code 1; warnings are one line each."""
    from vsae.storage.checkpoint import FileFormatError
    from vsae.training.history import TrainingDiverged

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not quiet:
            print(f"vsae: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except (ValueError, FileFormatError, TrainingDiverged, OSError) as error:
            fail(" ".join(str(error).split()))


def fail(message: str) -> NoReturn:
    print(f"vsae: {message}", file=sys.stderr)
    raise typer.Exit(1)


def read(
    path: str, format: str | None, delimiter: str | None, encoding: str | None, na: str | None, quiet: bool
) -> FileTable:
    from vsae.files import read_table

    holes = DEFAULT_NA if na is None else tuple(na.split(","))
    source = read_table(path, format=format, delimiter=delimiter, encoding=encoding, na=holes)
    for note in source.notes if not quiet else ():
        print(f"vsae: {note}", file=sys.stderr)
    return source


def fitted(
    source: FileTable,
    schema: Path | None,
    missing: list[str] | None,
    effort: str,
    steps: int | None,
    seed: int,
    quiet: bool,
    state: Path | None = None,
) -> VSAEImputer:
    from vsae.estimator import VSAEImputer
    from vsae.fitting.presets import EFFORTS
    from vsae.table import Image
    from vsae.training.history import OtherTraining

    if effort not in EFFORTS:
        raise typer.BadParameter(f"must be one of {', '.join(EFFORTS)}, not {effort!r}", param_hint="--effort")
    specs = read_schema(schema)
    for name, spec in (specs or {}).items():
        if isinstance(spec, Image):
            raise ValueError(f"column {name!r}: pictures can not be written back to a file; use VSAEImputer in Python")
    imputer = VSAEImputer(
        schema=specs,
        missing_values=missing_codes(missing),
        effort=effort,  # type: ignore[arg-type]
        config={"steps": steps} if steps else None,
        random_state=seed,
        verbose=not quiet,
        checkpoint_path=state,
    )
    try:
        return imputer.fit(source.data)
    except OtherTraining:  # left by a fit of another table or with other settings
        assert state is not None
        for left in (state, state.with_name(f"{state.name}.refit")):
            left.unlink(missing_ok=True)
        return imputer.fit(source.data)


def loaded(path: Path) -> VSAEImputer:
    from vsae.estimator import load

    return load(path)


def is_model(path: str) -> bool:
    """A safetensors file begins with the length of its header, and the header is JSON."""
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError:
        return False
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") < 2**40


def numbered(path: str, i: int) -> str:
    """The i-th of several outputs.

    >>> numbered("out/filled.csv.gz", 3)
    'out/filled.3.csv.gz'
    """
    target = Path(path)
    stem, dot, rest = target.name.partition(".")
    return str(target.with_name(f"{stem}.{i}{dot}{rest}"))


def read_schema(path: Path | None) -> dict[str, Any] | None:
    """A JSON object: a kind's name for each column, or {"kind": "count", "min": 0, "max": 120}."""
    if path is None:
        return None
    from vsae.table import spec_from_json

    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: the schema can not be read ({error.strerror}); give a JSON file") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: line {error.lineno} is not JSON: {error.msg}") from None
    if not isinstance(content, dict):
        raise ValueError(f'{path}: must be a JSON object such as {{"zip": "categorical"}}')
    return {name: spec_from_json(name, value) for name, value in content.items()}


def missing_codes(options: list[str] | None) -> dict[str, list[Any]] | None:
    """
    >>> missing_codes(["age=-1,999", "town=unknown"])
    {'age': [-1, 999], 'town': ['unknown']}
    """
    if not options:
        return None
    codes: dict[str, list[Any]] = {}
    for option in options:
        name, equals, values = option.partition("=")
        if not equals:
            raise ValueError(f"--missing {option}: write it as column=code,code")
        codes.setdefault(name, []).extend(literal(value) for value in values.split(","))
    return codes


def report_closeness(found: Closeness | None) -> None:
    if found is None:
        print("vsae: no row has enough cells in common with another to tell copies by", file=sys.stderr)
        return
    print(f"vsae: {found}", file=sys.stderr)
    if found.suspicious:
        print(
            "vsae: warning: rows lie nearer to those fitted on than these to each other: they may give some of them "
            "away; fit with less effort or on more rows",
            file=sys.stderr,
        )


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
            raise ValueError(f"--given {option}: there is no column {name!r}; there are {', '.join(labels)}")
        given[labels[name].label] = labels[name].parse(value) if value else MISSING
    return given


def literal(text: str) -> Any:
    """A number where it reads as one.

    >>> literal("-1"), literal("2.5"), literal("none")
    (-1, 2.5, 'none')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def main() -> None:
    app()
