"""The command line: arguments in, files and tables out. Heavy imports wait until a command runs.

Data goes to stdout or a file, everything else to stderr. Exit code 0: done; 1: the input is bad, in one line; 2: usage.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from vsae import __version__
from vsae.cli.evaluate import evaluate
from vsae.cli.fit import fit
from vsae.cli.impute import impute
from vsae.cli.inspect import inspect, mechanism
from vsae.cli.messages import whole_output
from vsae.cli.options import Quiet, Seed
from vsae.cli.sample import sample

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


for command in (impute, fit, sample, inspect, evaluate, mechanism):  # in the order of the help
    app.command()(command)


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


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that half-written files are removed
    with whole_output():
        app()
