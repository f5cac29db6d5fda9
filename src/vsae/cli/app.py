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
    from benchmarks.peers.bench import Bench, Kept
    from benchmarks.peers.processes import Processes
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
bench = typer.Typer(help="Measurements that stay in the project.", no_args_is_help=True)
app.add_typer(bench, name="bench")

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


# --- what the commands share


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
