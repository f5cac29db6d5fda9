"""Attack the library, and count what came of it: damaged and forged models, kills, full disks, pipes, odd input.

Every part is seeded, and runs in a process of its own with bounds on time and memory.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import options
from benchmarks.attack.outcomes import Outcomes
from benchmarks.processes import machine
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row

MOST_MB = 1024  # of memory, all attacks of a part in one process
_MOST_ADDRESSES = 2**36  # bytes: pyarrow takes tens of gigabytes that it does not use


class Part(NamedTuple):
    function: str  # module and name, imported when it runs: some parts need pandas or the command line
    attacks: int  # of each command, in kills, blocks and disks
    what: str
    promise: str

    @property
    def attack(self) -> Callable[[int, int, Path], Outcomes]:
        module, name = self.function.split(":")
        found: Callable[[int, int, Path], Outcomes] = getattr(import_module(f"benchmarks.attack.{module}"), name)
        return found


PARTS = {
    "models": Part("models:attack", 2000, "model files, half damaged, half forged with a right checksum",
                   "refused in one line, or all methods work"),
    "kills": Part("whole:kills", 50, "kill -9 of fit, impute, draws, evaluate and in-place, at all moments",
                  "every file is the old or the new one"),
    "blocks": Part("blocks:attack", 20, "kill -9 of streamed fits and imputations; damaged row groups, lost columns, "
                   "no room", "one line; the same command again gives the bytes of an undisturbed run"),
    "disks": Part("whole:disks", 20, "disks on which there is no room for the result, or hardly any",
                  "one line and the old files, or the new files"),
    "pipes": Part("streams:attack", 100, "closed, full and slow streams, buffered and not",
                  "all of the output, or one line and exit code 1"),
    "tables": Part("tables:attack", 5000, "tables of odd values",
                   "filled, observed cells as they were, every empty cell reported; or one line"),
    "files": Part("files:files", 20_000, "damaged files of every format", "read, or refused in one line"),
    "options": Part("files:options", 300, "odd options of the command line", "done, or refused in one line"),
    "pictures": Part("pictures:attack", 60, "hostile pictures", "read, or refused in one line"),
}  # fmt: skip


def measured(part: str, count: int, seed: int) -> Row:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, _MOST_ADDRESSES))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = PARTS[part].attack(count, seed, Path(folder))
    row: dict[str, Any] = {"part": part, "seed": seed, **found.row()}
    return {**row, "seconds": round(time.monotonic() - began), "machine": machine()}


def failed(row: Row) -> int:
    """Attacks that did harm; all of them together count for one more if they took more memory than is promised."""
    return sum(row["counts"].get(name, 0) for name in ("failed", "hung")) + (row["memory_mb"] > MOST_MB)


def in_words(row: Row) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in row["counts"].items())
    lines = "".join(f"\n  {line}" for line in row["failures"])
    return f"{counts}; at most {row['longest']:.1f} s and {row['memory_mb']} MB; {row['seconds']} s in all{lines}"


BENCHMARK = Benchmark("attack", ("part", "seed"), in_process("benchmarks.attack.jobs"), in_words, limit=7200.0)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("attack", __doc__)
    options.several(parser, "--part", "Which. Default: all.", PARTS)
    parser.add_argument(
        "--count",
        type=options.at_least_one,
        help="How many attacks; of each command in kills, blocks and disks. Default: all.",
    )
    options.several(parser, "--seeds", "Default: 0.", type=int, metavar="SEED")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    jobs = [
        {"part": part, "count": o.count or PARTS[part].attacks, "seed": seed}
        for part in o.part or PARTS
        for seed in o.seeds or [0]
    ]
    rows = options.run_with(o, BENCHMARK, jobs)
    bad = sum(map(failed, rows))
    if bad:
        raise ValueError(f"{bad} attacks did harm, as said above")
