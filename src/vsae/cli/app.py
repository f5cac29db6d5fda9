"""The command line: arguments in, files and tables out. Heavy imports wait until a command runs.

Data goes to stdout or a file, everything else to stderr. Exit code 0: done; 1: the input is bad, in one line; 2: usage.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vsae import __version__
from vsae.cli.messages import fail, note, one_line_errors
from vsae.cli.options import (
    ColumnOptions,
    Format,
    Input,
    Quiet,
    Seed,
    TextOptions,
    TrainingOptions,
    with_options,
)

if TYPE_CHECKING:
    from benchmarks.peers.bench import Bench, Kept
    from benchmarks.peers.processes import Processes
    from vsae.estimator import VSAEImputer
    from vsae.files import FileTable
    from vsae.generation.privacy import DistanceToClosest

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
    model: Annotated[Path | None, typer.Option(help="A fitted model. Default: one is fitted to IN.")] = None,
    columns: ColumnOptions,
    training: TrainingOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Impute the missing values of a table. Every other character of a text file stays as it is."""
    with one_line_errors(quiet):
        from vsae.estimator import load
        from vsae.files import check_target

        if draws and out == "-":
            raise typer.BadParameter("several tables need a file name: give -o", param_hint="--draws")
        if model and (columns.schema or columns.missing or training != TrainingOptions()):
            raise typer.BadParameter(
                "a fitted model takes no --schema, --missing, --effort or --steps", param_hint="--model"
            )
        targets = [numbered(out, i + 1) for i in range(draws)] if draws else [out]
        check_target(out, format=format)
        source = read(table, format, text, quiet)
        imputer = load(model) if model else fitted(source, columns, training, seed, quiet)
        tables = imputer.draw(source.data, draws, random_state=seed) if draws else [imputer.transform(source.data)]
        for target, filled in zip(targets, tables, strict=True):
            source.write(target, filled, format=format)
            note(f"wrote {target}", quiet or target == "-")


@app.command()
@with_options
def fit(
    table: Input,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write the model to.")],
    columns: ColumnOptions,
    training: TrainingOptions,
    seed: Seed = 0,
    quiet: Quiet = False,
    format: Format = None,
    text: TextOptions,
) -> None:
    """Fit a model to a table and save it. A fit that was interrupted continues when the command is run again."""
    with one_line_errors(quiet):
        if not out.parent.is_dir():
            fail(f"{out}: there is no folder {out.parent}; create it first")
        if out.is_dir() or (table != "-" and out.exists() and out.samefile(table)):
            fail(
                f"{out}: this is {'a folder' if out.is_dir() else 'the table itself'}; name another file for the model"
            )
        source = read(table, format, text, quiet)
        state = out.with_name(f".{out.name}.training")
        fitted(source, columns, training, seed, quiet, state).save(out)
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
        typer.Option(help="A condition: sex=F, or income= for a missing income. May be repeated."),
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
    with one_line_errors(quiet):
        from vsae.estimator import load
        from vsae.files import check_target, write_table

        check_target(out, format=format)
        imputer = load(model)
        real = None if against is None else read(against, None, text, quiet)
        drawn = imputer.sample(
            rows, with_missing=with_missing, given=conditions(imputer, given), random_state=seed, container="dict"
        )
        write_table(out, {str(name): column for name, column in drawn.items()}, format=format)
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
    with one_line_errors(quiet=False):
        from vsae.cli.console import show_model, show_table
        from vsae.estimator import load
        from vsae.table import Table

        if path != "-" and is_model(path):
            show_model(path, load(path))
            return
        source = read(path, format, text, quiet=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table that is shown says the same
            table = Table.fit(source.data, schema=columns.specs(), missing_values=columns.missing_codes())
            encoded = table.encode(source.data)
        show_table(path, table, encoded)


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


def read(path: str, format: str | None, text: TextOptions, quiet: bool) -> FileTable:
    from vsae.files import read_table

    source = read_table(path, format=format, delimiter=text.delimiter, encoding=text.encoding, na=text.missing_texts)
    for message in source.notes:
        note(message, quiet)
    return source


def fitted(
    source: FileTable,
    columns: ColumnOptions,
    training: TrainingOptions,
    seed: int,
    quiet: bool,
    state: Path | None = None,
) -> VSAEImputer:
    from vsae.estimator import VSAEImputer
    from vsae.fitting.presets import EFFORTS
    from vsae.table import Image
    from vsae.training.history import OtherTraining

    if training.effort not in EFFORTS:
        raise typer.BadParameter(f"must be one of {', '.join(EFFORTS)}, not {training.effort!r}", param_hint="--effort")
    specs = columns.specs()
    for name, spec in (specs or {}).items():
        if isinstance(spec, Image):
            raise ValueError(f"column {name!r}: images cannot be written back to a file; use VSAEImputer in Python")
    imputer = VSAEImputer(
        schema=specs,
        missing_values=columns.missing_codes(),
        effort=training.effort,  # type: ignore[arg-type]
        config={"steps": training.steps} if training.steps else None,
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
        given[labels[name].label] = labels[name].parse(value) if value else MISSING
    return given


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
    app()


# --- benchmarks

bench = typer.Typer(help="Measurements that stay in the project.", no_args_is_help=True)
app.add_typer(bench, name="bench")

Tables = Annotated[list[str] | None, typer.Option(help="Tables; repeatable.")]
Masks = Annotated[list[str] | None, typer.Option("--mechanisms", help="Such as mcar0.5 or mar0.3; repeatable.")]
Methods = Annotated[list[str] | None, typer.Option(help="Methods; repeatable.")]
Seeds = Annotated[list[int] | None, typer.Option(help="Of splits and masks; repeatable.")]
RowsFolder = Annotated[
    Path | None, typer.Option("--out", help="Folder for the JSON rows; those that are there are not run again.")
]
Limit = Annotated[float | None, typer.Option(min=0, help="Seconds a run may take.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of each run.")]
Environments = Annotated[Path | None, typer.Option(help="Where `make peers` put them; .peers if not given.")]
Again = Annotated[bool, typer.Option("--again", help="Run again what failed.")]
Force = Annotated[bool, typer.Option("--force", help="Run again what is there.")]


@bench.command()
def scaling(
    out: Annotated[str | None, typer.Option(help="Write the rows here as JSON.")] = None,
    sizes: Annotated[list[int] | None, typer.Option(help="Numbers of attributes; repeatable.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Time and peak memory of a training step as attributes grow, against a plain loop over them."""
    from benchmarks import scaling as module

    rows = module.run(sizes or module.SIZES, device=device, progress=lambda line: typer.echo(line, err=True))
    typer.echo(module.report(rows))
    if out:
        module.save(rows, out)


@bench.command()
def sizes(
    shapes: Annotated[list[str] | None, typer.Option(help="Such as 100x1000, rows by columns; repeatable.")] = None,
    effort: Annotated[str, typer.Option(help="fast, default or best.")] = "default",
    out: Annotated[Path, typer.Option(help="Folder for the JSON rows; those that are there are not run again.")] = Path(
        "results/sizes"
    ),
    force: Annotated[bool, typer.Option("--force", help="Run again what is there.")] = False,
) -> None:
    """Small, wide and long tables: what is spent on them, and what comes of it."""
    from benchmarks import sizes as module

    with one_line_errors(quiet=False):
        chosen = [module.shape_of(text) for text in shapes] if shapes else module.SHAPES
        module.run(out, chosen, effort, force, typer.echo)


@bench.command()
def paper(
    table: Annotated[
        list[str], typer.Option(help="Of the paper: mcar, nonmcar, ablation, ratios, masks or multimodal; repeatable.")
    ] = ["mcar"],  # noqa: B006 - typer wants a list
    methods: Annotated[list[str] | None, typer.Option(help="Such as VAE or 'VSAE paper'; repeatable.")] = None,
    data: Annotated[list[str] | None, typer.Option(help="Data sets; repeatable.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Of splits and masks; repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the JSON rows; those that are there are not run again.")] = Path(
        "results/paper"
    ),
    device: Annotated[str | None, typer.Option(help="cpu or cuda; found out if not given.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Run again what is there.")] = False,
) -> None:
    """The paper's tables: its baselines, its recipe, ours and trivial predictors, on its data sets."""
    from benchmarks.paper import runner as module

    with one_line_errors(quiet=False):
        plan = module.plan_of(table, methods, data)
        module.run(module.Runner(out, device, force), plan, seeds or module.SEEDS, jobs, typer.echo)


@bench.command()
def ablation(
    out: Annotated[Path | None, typer.Option(help="Folder for the JSON rows; what is there is not run again.")] = None,
    tables: Annotated[list[str] | None, typer.Option(help="Tables; repeatable.")] = None,
    variants: Annotated[list[str] | None, typer.Option(help="Changes from the default; repeatable.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; found out if not given.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Whole tables, not cut to 3,000 rows.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
) -> None:
    """The default recipe with one ingredient changed at a time."""
    from benchmarks import ablation as module

    module.run(
        out or module.folder(whole),
        tables or module.TABLES,
        variants or list(module.VARIANTS),
        module.SEEDS,
        "mcar",
        0.5,
        device,
        whole,
        jobs,
        typer.echo,
    )


@bench.command()
def peers(
    out: Annotated[Path, typer.Option(help="Folder for the JSON rows; those that are there are not run again.")] = Path(
        "results/peers"
    ),
    grid: Annotated[str, typer.Option(help="core or full: what is taken where nothing is given below.")] = "core",
    tables: Annotated[list[str] | None, typer.Option(help="Tables; repeatable.")] = None,
    mechanisms: Annotated[list[str] | None, typer.Option(help="Such as mcar0.5 or nmar0.3; repeatable.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Methods; repeatable.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Seeds; repeatable.")] = None,
    limit: Annotated[float, typer.Option(min=0, help="Seconds a run may take.")] = 300,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each run.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    environments: Annotated[Path | None, typer.Option(help="Where `make peers` put them; .peers if not given.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run again what failed.")] = False,
    assume_timeouts: Annotated[
        bool, typer.Option("--assume-timeouts", help="Too slow for one mask of a table is too slow for its others.")
    ] = False,
) -> None:
    """Other imputers and ours on the same holes: errors in sample and on new rows, seconds, memory."""
    from benchmarks.peers import runner as module
    from benchmarks.peers.processes import ENVIRONMENTS

    with one_line_errors(quiet=False):
        module.run(
            module.Runner(out, limit, threads, environments or ENVIRONMENTS, again, assume_timeouts),
            module.grid_of(grid, tables, mechanisms, seeds),
            methods or list(module.METHODS),
            jobs,
            typer.echo,
        )


@bench.command()
def generation(
    tables: Tables = None,
    mechanisms: Masks = None,
    methods: Methods = None,
    seeds: Seeds = None,
    out: RowsFolder = None,
    limit: Limit = None,
    threads: Threads = 1,
    environments: Environments = None,
    again: Again = False,
    force: Force = False,
) -> None:
    """Rows generated by ours and by other generators, all fitted on the same incomplete rows, against real ones."""
    from benchmarks.generation.runner import BENCH

    with one_line_errors(quiet=False):
        how = run_conditions(out or BENCH.out, limit or BENCH.limit, threads, environments, again, force)
        run_bench(BENCH, tables, mechanisms, seeds, methods, *how)


@bench.command()
def calibration(
    tables: Tables = None,
    mechanisms: Masks = None,
    methods: Methods = None,
    seeds: Seeds = None,
    out: RowsFolder = None,
    limit: Limit = None,
    threads: Threads = 1,
    environments: Environments = None,
    again: Again = False,
    force: Force = False,
) -> None:
    """Draws for the same holes by our efforts and by other multiple imputation: coverage, CRPS, calibration."""
    from benchmarks.calibration.runner import BENCH

    with one_line_errors(quiet=False):
        how = run_conditions(out or BENCH.out, limit or BENCH.limit, threads, environments, again, force)
        run_bench(BENCH, tables, mechanisms, seeds, methods, *how)


@bench.command()
def rubin(
    methods: Methods = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Simulated tables.")] = None,
    out: RowsFolder = None,
    limit: Limit = None,
    threads: Threads = 1,
    environments: Environments = None,
    again: Again = False,
    force: Force = False,
) -> None:
    """Coverage of a regression's 95 % intervals, pooled over draws, in repeated simulation."""
    from benchmarks.calibration import rubin as module

    with one_line_errors(quiet=False):
        conditions = run_conditions(out or module.OUT, limit or module.LIMIT, threads, environments, again, force)
        module.run(*conditions, methods or list(module.METHODS), repeats or module.REPEATS, typer.echo)


@bench.command("conditions")
def bench_conditions(
    seeds: Annotated[list[int] | None, typer.Option(help="Of tables and fits; repeatable.")] = None,
    out: RowsFolder = None,
    force: Force = False,
) -> None:
    """Rows generated under conditions, against the exact conditional distributions of a simulator."""
    from benchmarks.generation import conditions as module
    from benchmarks.peers.bench import Kept

    with one_line_errors(quiet=False):
        module.run(Kept(out or module.OUT, force=force), seeds or module.SEEDS, typer.echo)


@bench.command("tables")
def bench_tables(
    results: Annotated[Path, typer.Option(help="The folder of committed rows.")] = Path("results"),
    docs: Annotated[Path, typer.Option(help="The folder to write pages to.")] = Path("docs"),
) -> None:
    """Make the pages of docs/ that hold numbers, from the rows under results/."""
    from benchmarks.tables import write_pages

    for path in write_pages(results, docs):
        typer.echo(f"wrote {path}")


def run_bench(
    asked: Bench, tables: Tables, mechanisms: Masks, seeds: Seeds, methods: Methods, kept: Kept, processes: Processes
) -> None:
    grid = asked.grid_of(tables, mechanisms, seeds)
    asked.run(kept, processes, grid, methods or list(asked.methods), typer.echo)


def run_conditions(
    out: Path, limit: float, threads: int, environments: Path | None, again: bool, force: bool
) -> tuple[Kept, Processes]:
    from benchmarks.peers.bench import Kept
    from benchmarks.peers.processes import ENVIRONMENTS, Processes

    return Kept(out, again, force), Processes(limit, threads, environments or ENVIRONMENTS)
