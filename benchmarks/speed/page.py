"""The page docs/speed.md, from the rows of results/speed.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks import step
from benchmarks.markup import MADE, all_values, count_of, listed, markdown, paragraph, short
from benchmarks.peers.cells import DEFAULT, SHORT, TIMED_OUT, TRIVIAL, geometric_mean, ratio
from benchmarks.peers.readings import Verdict
from benchmarks.sizes import Shape
from benchmarks.speed import devices
from benchmarks.speed.jobs import BENCHMARK, HIDDEN, METHODS
from benchmarks.store import Row

FAST, RIVAL = "vsae-fast", "hyperimpute"
OURS = (FAST, DEFAULT)
MEASURES = ("nrmse", "pfc")
LONG, WIDE = (50_000, 15), (100, 2000)  # rows and columns
TIMES_FASTER, MOST_SECONDS, MOST_MS = 5.0, 30.0, 5.0  # asked


class Run(NamedTuple):
    """What a method took for a table: where it ran out of time, `seconds` are the limit, and there is no error."""

    seconds: float
    error: float | None  # geometric mean of error / that of mean and mode
    row_ms: float | None

    @property
    def late(self) -> bool:
        return self.error is None


Tables = dict[Shape, dict[str, Run]]  # by size, then by method


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = BENCHMARK.rows(results)
    sections = [_section(rows, threads) for threads in sorted({row["threads"] for row in rows})]
    sections += filter(None, (step.section(results), devices.section(results)))
    if not sections:
        return None
    parts = "\n\n".join(sections)
    return f"""{MADE.format(source="results/speed.jsonl, step.jsonl and devices.jsonl")}
# How fast, beside others

{parts}

## To repeat it

```sh
make peers                   # the environments of the peers
python -m benchmarks speed   # the runs; those that are there are not run again
python -m benchmarks step
python -m benchmarks devices # where there is a GPU; without, the CPU's part
python -m benchmarks tables  # this page
```
"""


def _section(rows: list[Row], threads: int) -> str:
    """What was asked and what was found, on so many threads."""
    rows = [row for row in rows if row["threads"] == threads]
    found = verdicts(tables_of(rows))
    met = [verdict.met for verdict in found]
    clock = "CPU seconds" if threads == 1 else "seconds of the clock"
    intent = paragraph(
        f"Of {len(found)} figures asked for, {met.count(True)} are met, {met.count(False)} not;",
        "– where there are no runs to judge by.",
    )
    limits = listed(all_values(rows, "limit"))
    reading = paragraph(
        f"Simulated tables of numbers and levels, {HIDDEN:.0%} of their cells hidden. Seconds: {clock} to fit and to",
        f"impute the same rows, without imports; > where a run timed out, at {limits} seconds of the clock. MB: peak",
        "of the process. Errors: NRMSE of numbers,",
        'PFC of levels, as in docs/benchmark.md; "together" is the geometric mean of both / those of mean and mode.',
        "One row: median milliseconds, of the same clock, of `transform` with a model that was saved and loaded.",
        f"Machine: {'; '.join(all_values(rows, 'machine'))}.",
    )
    shapes = sorted({(row["rows"], row["columns"]) for row in rows})
    parts = [f"### {_name(shape)}\n\n{_table(rows, shape)}" for shape in shapes]
    table = markdown(["asked of ours", "found", "met"], [verdict.line() for verdict in found])
    return "\n\n".join([f"## On {count_of(threads, 'thread')}", intent, table, reading, *parts])


def _table(rows: list[Row], shape: Shape) -> str:
    runs = tables_of(rows)[shape]
    lines = []
    for method in METHODS:
        for row in rows:
            if (row["rows"], row["columns"], row["method"]) == (*shape, method):
                lines.append([method, *_cells(row, runs.get(method))])
    return markdown(["method", "version", "seconds", "MB", "NRMSE", "PFC", "together", "one row, ms"], lines)


def _cells(row: Row, run: Run | None) -> list[str]:
    memory = f"{row['memory_mb']:,.0f}" if row["memory_mb"] else "–"
    if run is None or run.late:
        seconds = f"> {row['limit']:.0f}" if row["status"] == TIMED_OUT else SHORT[row["status"]]
        return [row["version"] or "–", seconds, memory, *["–"] * 4]
    errors = [f"{row['errors'][m]:.3f}" if m in row["errors"] else "–" for m in MEASURES]
    one = f"{run.row_ms:.1f}" if run.row_ms is not None else "–"
    return [row["version"], short(run.seconds), memory, *errors, f"{run.error:.3f}", one]


def tables_of(rows: Iterable[Row]) -> Tables:
    """The runs that ended or timed out."""
    found: Tables = {}
    for row in rows:
        runs = found.setdefault((row["rows"], row["columns"]), {})
        if row["status"] == "ok":
            errors = row["errors"]
            error = geometric_mean(ratio(errors[m], errors[f"{m}_trivial"]) for m in MEASURES if m in errors)
            runs[row["method"]] = Run(row["seconds"], error, row["row_ms"])
        elif row["status"] == TIMED_OUT:
            runs[row["method"]] = Run(row["limit"], None, None)
    return found


# --- what was asked


def verdicts(tables: Tables) -> list[Verdict]:
    return [*(_undominated(tables, ours) for ours in OURS), _faster(tables), _long(tables), _wide(tables), _row(tables)]


def _undominated(tables: Tables, ours: str) -> Verdict:
    """Errors are those of numbers and levels together."""
    asked = f"no peer both faster and more accurate than `{ours}` on any"
    compared = {shape: runs for shape, runs in tables.items() if ours in runs and runs.keys() - {*OURS, TRIVIAL}}
    better = [
        f"{method} on {_name(shape)}"
        for shape, runs in compared.items()
        for method, run in runs.items()
        if method not in OURS and _is_better(run, runs[ours])
    ]
    if not compared:
        return Verdict(asked, "–", None)
    return Verdict(asked, listed(better) if better else f"none on {count_of(len(compared), 'table')}", not better)


def _is_better(one: Run, other: Run) -> bool:
    if one.error is None:
        return False
    return other.error is None or (one.seconds < other.seconds and one.error < other.error)


def _faster(tables: Tables) -> Verdict:
    """Of two that both timed out, neither is known to be faster."""
    asked = f"`{DEFAULT}` faster than {RIVAL} on all"
    both = {shape: (runs[DEFAULT], runs[RIVAL]) for shape, runs in tables.items() if {DEFAULT, RIVAL} <= runs.keys()}
    times = {shape: theirs.seconds / ours.seconds for shape, (ours, theirs) in both.items() if not ours.late}
    if not both:
        return Verdict(asked, "–", None)
    found = [f"{_bound(both[shape][1])}{value:.1f} × on {_name(shape)}" for shape, value in times.items()]
    late = [f"timed out on {_name(shape)}" for shape in both if shape not in times]
    return Verdict(
        asked, listed([*found, *late]), len(times) == len(both) and all(value > 1 for value in times.values())
    )


def _long(tables: Tables) -> Verdict:
    asked = f"`{DEFAULT}` at least {TIMES_FASTER:.0f} × faster than {RIVAL} on {_name(LONG)}"
    runs = tables.get(LONG, {})
    if DEFAULT not in runs or RIVAL not in runs or runs[DEFAULT].late:
        return Verdict(asked, "–", None)
    times = runs[RIVAL].seconds / runs[DEFAULT].seconds
    unknown = runs[RIVAL].late and times < TIMES_FASTER  # the limit was too short to say
    return Verdict(asked, f"{_bound(runs[RIVAL])}{times:.1f} ×", None if unknown else times >= TIMES_FASTER)


def _wide(tables: Tables) -> Verdict:
    asked = f"`{FAST}` on {_name(WIDE)} under {MOST_SECONDS:.0f} s"
    run = tables.get(WIDE, {}).get(FAST)
    if run is None:
        return Verdict(asked, "–", None)
    return Verdict(asked, f"{_bound(run)}{run.seconds:.1f} s", run.seconds < MOST_SECONDS)


def _row(tables: Tables) -> Verdict:
    """The slowest of all tables."""
    asked = f"one row under {MOST_MS:.0f} ms after loading"
    times = {
        f"{method} on {_name(shape)}": run.row_ms
        for shape, runs in tables.items()
        for method, run in runs.items()
        if method in OURS and run.row_ms is not None
    }
    if not times:
        return Verdict(asked, "–", None)
    slowest = max(times, key=times.__getitem__)
    return Verdict(asked, f"at most {times[slowest]:.1f} ms ({slowest})", times[slowest] < MOST_MS)


def _bound(run: Run) -> str:
    return "> " if run.late else ""


def _name(shape: Shape) -> str:
    """
    >>> _name((50_000, 15))
    '50,000 × 15'
    """
    return f"{shape[0]:,} × {shape[1]:,}"
