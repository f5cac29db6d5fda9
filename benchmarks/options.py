"""The options that the benchmarks share. Lists are repeatable: `--seeds 1 2` and `--seeds 1 --seeds 2` say the same."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import ENVIRONMENTS, Processes
from benchmarks.runs import DAY, Benchmark, Job, Mode, Report, known, run, say
from benchmarks.store import Row


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    paragraphs = (description or "").split("\n\n")
    return argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=" ".join(paragraphs[0].split()))


def several(
    parser: argparse.ArgumentParser,
    flag: str,
    sentence: str,
    among: Iterable[str] | None = None,
    *,
    type: Callable[[str], Any] = str,
    metavar: str = "NAME",
) -> None:
    """An option with one value or more; None if it is not given."""
    if among is not None:
        names = list(among)
        sentence = f"{sentence} One or more of {', '.join(map(shlex.quote, names))}."
        type = usage(lambda text: known([text], names)[0])
    # argparse reads % as a format
    parser.add_argument(flag, nargs="+", action="extend", type=type, metavar=metavar, help=sentence.replace("%", "%%"))


def usage(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A conversion whose complaint is shown as it is."""

    def checked(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def add_run_options(parser: argparse.ArgumentParser, benchmark: Benchmark, peers: bool = False) -> None:
    store = benchmark.store()
    parts = f" The rows of each {benchmark.split} are in a file of their own beside it." if benchmark.split else ""
    parser.add_argument(
        "--out", type=Path, default=store.path, metavar="FILE",
        help=f"The file of the rows; a row that is there is not computed again. Default: {store.path}.{parts}",
    )  # fmt: skip
    limit = "a day" if benchmark.limit == DAY else f"{benchmark.limit:.0f}"
    parser.add_argument(
        "--limit", type=float, default=benchmark.limit, metavar="SECONDS",
        help=f"How long one run may take. Default: {limit}.",
    )  # fmt: skip
    parser.set_defaults(again=False, environments=ENVIRONMENTS)
    parser.add_argument("--threads", type=at_least_one, default=1, help="The threads of each run. Default: 1.")
    parser.add_argument("--jobs", type=at_least_one, default=1, help="How many runs go on at a time. Default: 1.")
    parser.add_argument("--force", action="store_true", help="Repeat the runs whose rows are there.")
    if peers:  # a peer that failed has a row that says so; a run of ours that failed has none
        parser.add_argument("--again", action="store_true", help="Repeat the runs that failed.")
        parser.add_argument(
            "--environments", type=Path, default=ENVIRONMENTS, metavar="FOLDER",
            help=f"The folder in which `make peers` has installed the other methods. Default: {ENVIRONMENTS}.",
        )  # fmt: skip


def add_repeats(parser: argparse.ArgumentParser, repeats: int) -> None:
    parser.add_argument(
        "--repeats", type=at_least_one, default=repeats,
        help=f"How many tables to simulate of each kind. Default: {repeats}.",
    )  # fmt: skip


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="cpu or cuda. Default: cuda if there is one, else cpu.")


def run_with(o: argparse.Namespace, benchmark: Benchmark, jobs: Iterable[Job], report: Report = say) -> list[Row]:
    """Run the jobs as the options say."""
    processes = Processes(o.limit, o.threads, o.environments)
    return run(benchmark, jobs, benchmark.kept_in(o.out), processes, Mode(o.jobs, o.again, o.force), report=report)


def run_methods(
    arguments: Sequence[str],
    benchmark: Benchmark,
    description: str | None,
    methods: Sequence[str],
    seeds: Sequence[int],
) -> None:
    """The command of a benchmark whose runs are methods and seeds, and nothing else."""
    parser = parser_of(benchmark.name, description)
    several(parser, "--methods", "Which methods. Default: all.", methods)
    several(parser, "--seeds", f"Default: {seeds[0]} to {seeds[-1]}.", type=int, metavar="SEED")
    add_run_options(parser, benchmark)
    o = parser.parse_args(arguments)
    run_with(o, benchmark, [{"method": m, "seed": seed} for m in o.methods or methods for seed in o.seeds or seeds])
