"""A clinic with many visits a patient: imputation that knows of patients, beside one that does not and R's multilevel
ones.

Errors are root mean squares over the hidden cells of a column in units of its standard deviation, the mean over columns
of numbers. A method that gives draws is judged by their mean, less the noise that a mean of so few draws has.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.groups.made import KINDS, LEVELS, NUMBERS, PATIENTS, VISITS, Clinic, clinic
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae import VSAEImputer, __version__

DRAWS = 19  # their range covers the truth with a chance of 18/20
SEEDS = (1, 2, 3)  # development was done with 901
_STANDARDISED = ("age", "visit", *NUMBERS)
SCRIPT = Path(__file__).with_name("multilevel.R")


class Answer(NamedTuple):
    """Of a method: estimates where it gives any, and draws, (draws, n); by column."""

    estimates: dict[str, NDArray[Any]] | None
    draws: list[dict[str, NDArray[Any]]]
    version: str


def ours(given: Clinic, kind: str, seed: int, **settings: Any) -> Answer:
    table = given.incomplete()
    imputer = VSAEImputer(random_state=seed, **settings).fit(table)
    return Answer(imputer.transform(table), list(imputer.draw(table, DRAWS)), f"vsae {__version__}")


def multilevel(given: Clinic, kind: str, seed: int, method: str) -> Answer:
    """Logarithms of what is skewed, and standardised numbers."""
    table = given.incomplete() | {"glucose": np.log(given.incomplete()["glucose"])}
    units = {name: (float(np.nanmean(table[name])), float(np.nanstd(table[name]))) for name in _STANDARDISED}
    table |= {name: (table[name] - mean) / std for name, (mean, std) in units.items()}
    with tempfile.TemporaryDirectory() as folder:
        cells = np.char.replace(np.stack(list(table.values()), axis=1).astype(str), "nan", "NA")
        Path(folder, "given.csv").write_text("\n".join([",".join(table), *map(",".join, cells), ""]))
        slopes = ["slopes"] if KINDS[kind] else []
        command = ["Rscript", "--vanilla", str(SCRIPT), method, str(DRAWS), str(seed), folder, *slopes]
        done = subprocess.run(command, env=os.environ.copy(), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(" ".join(done.stderr.split()[-40:]))
        tables = [_read(Path(folder, f"{i + 1}.csv"), units) for i in range(DRAWS)]
        return Answer(None, tables, Path(folder, "version.txt").read_text().strip())


def _read(path: Path, units: dict[str, tuple[float, float]]) -> dict[str, NDArray[Any]]:
    found = np.genfromtxt(path, delimiter=",", skip_header=1).T
    out = dict(zip((*NUMBERS, *LEVELS), found, strict=True))
    out |= {name: out[name] * units[name][1] + units[name][0] for name in NUMBERS}
    return out | {"glucose": np.exp(out["glucose"])}


IGNORED, GROUPS, ORDERED = "vsae, patients ignored", "vsae, groups", "vsae, groups and order"
METHODS: dict[str, Callable[[Clinic, str, int], Answer]] = {
    IGNORED: lambda given, kind, seed: ours(given, kind, seed, schema={"patient": "keep"}),
    GROUPS: lambda given, kind, seed: ours(given, kind, seed, groups="patient"),
    ORDERED: lambda given, kind, seed: ours(given, kind, seed, groups="patient", order="visit"),
    "mice 2l.pan": lambda given, kind, seed: multilevel(given, kind, seed, "2l.pan"),
    "jomo": lambda given, kind, seed: multilevel(given, kind, seed, "jomo"),
}


def measured(kind: str, method: str, seed: int) -> Row:
    given = clinic(kind, seed)
    began = time.perf_counter(), time.process_time(), _children()
    answer = METHODS[method](given, kind, seed)
    seconds = time.process_time() - began[1] + _children() - began[2]
    row: Row = {"kind": kind, "method": method, "seed": seed, **scores(given, answer)}
    shape = {"patients": PATIENTS, "visits": VISITS, "draws": DRAWS}
    return row | {"cpu_seconds": round(seconds, 1), "version": answer.version, "settings": shape}


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def scores(given: Clinic, answer: Answer) -> Row:
    errors, coverage = [], []
    for name in NUMBERS:
        hidden = ~given.seen[name]
        truth, std = given.columns[name][hidden], given.columns[name].std()
        drawn = np.stack([table[name][hidden] for table in answer.draws])
        if answer.estimates is None:
            square = np.mean((drawn.mean(axis=0) - truth) ** 2) - drawn.var(axis=0, ddof=1).mean() / len(drawn)
        else:
            square = np.mean((answer.estimates[name][hidden] - truth) ** 2)
        errors.append(float(np.sqrt(square) / std))
        coverage.append(float(np.mean((truth >= drawn.min(axis=0)) & (truth <= drawn.max(axis=0)))))
    wrong = []
    for name in LEVELS:
        hidden = ~given.seen[name]
        share = np.mean([table[name][hidden] for table in answer.draws], axis=0)
        level = (share > 0.5) if answer.estimates is None else answer.estimates[name][hidden]
        wrong.append(float(np.mean(level != given.columns[name][hidden])))
    return {"nrmse": float(np.mean(errors)), "pfc": float(np.mean(wrong)), "coverage": float(np.mean(coverage))}


def in_words(row: Row) -> str:
    errors = f"NRMSE {row['nrmse']:.3f}, PFC {row['pfc']:.3f}, 90 % ranges cover {row['coverage']:.3f}"
    return f"{errors}; {row['cpu_seconds']:.0f} s"


BENCHMARK = Benchmark("groups", ("kind", "seed", "method"), in_process("benchmarks.groups.jobs"), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("groups", __doc__)
    options.several(parser, "--kinds", "Which clinics. Default: all.", KINDS)
    options.several(parser, "--methods", "Which methods. Default: all.", METHODS)
    options.several(parser, "--seeds", f"Default: {SEEDS[0]} to {SEEDS[-1]}.", type=int, metavar="SEED")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(
        o,
        BENCHMARK,
        [
            {"kind": kind, "method": method, "seed": seed}
            for seed in o.seeds or SEEDS
            for kind in o.kinds or KINDS
            for method in o.methods or METHODS
        ],
    )
