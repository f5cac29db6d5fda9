"""The command line: arguments in, tables and progress out. Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="vsae",
    help="Fill the holes of a table, or make new rows like it: one generative model of data and of what is missing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measurements that stay in the project.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@app.command()
def demo(
    rows: Annotated[int, typer.Option("--rows", "-n", help="Rows of the synthetic clinic table.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the table and of the fit.")] = 0,
) -> None:
    """Fit the built-in clinic table, fill its holes, and generate rows and masks."""
    from rich.console import Console

    from vsae.console import show_demo
    from vsae.demo import run
    from vsae.progress import training_progress

    with training_progress(f"fitting {rows} rows") as callback:
        result = run(rows, seed, callback=callback)
    show_demo(Console(), result)


@bench.command()
def scaling(
    out: Annotated[str | None, typer.Option(help="Write the rows here as JSON.")] = None,
    sizes: Annotated[list[int] | None, typer.Option(help="Numbers of attributes; repeatable.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Time and peak memory of a training step as attributes grow, against a plain loop over them."""
    from vsae.benchmark import scaling as module

    rows = module.run(sizes or module.SIZES, device=device, progress=lambda line: typer.echo(line, err=True))
    typer.echo(module.report(rows))
    if out:
        module.save(rows, out)


@bench.command()
def paper(
    out: Annotated[Path, typer.Option(help="Folder for the JSON rows; those that are there are not run again.")] = Path(
        "results/paper-preset"
    ),
    tables: Annotated[list[str] | None, typer.Option(help="Tables; repeatable.")] = None,
    rates: Annotated[list[float] | None, typer.Option(help="Missing rates; repeatable.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; found out if not given.")] = None,
) -> None:
    """The literal preset on the paper's five tables: errors beside mean/mode, and the masks it generates."""
    from vsae.benchmark import paper as module

    module.run(out, tables or module.TABLES, rates or module.RATES, device=device, report=typer.echo)


@bench.command()
def tables(
    results: Annotated[Path, typer.Option(help="The folder of committed rows.")] = Path("results"),
    docs: Annotated[Path, typer.Option(help="The folder to write pages to.")] = Path("docs"),
) -> None:
    """Make the pages of docs/ that hold numbers, from the rows under results/."""
    from vsae.benchmark.tables import write_pages

    for path in write_pages(results, docs):
        typer.echo(f"wrote {path}")


def main() -> None:
    app()
