"""The one runner: a benchmark declares its jobs and how one is run, and gets a row for each job.

A job is the values that name its row, and whatever else its run takes. A row that is there is not computed again unless
forced; one that says that its run failed is, if asked for. Rows are kept as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks.processes import NoEnvironment, Processes, RunFailed
from benchmarks.store import RESULTS, Row, Store

Job = dict[str, Any]
Report = Callable[[str], None]
DAY = 86_400.0  # seconds


@dataclass(frozen=True)
class Benchmark:
    """`key` names the fields that tell rows apart; `measured` makes the row of a job; `in_words` sums a row up.

    Where a failed run is a finding, `measured` returns a row with the status "failed"; where it is a mistake of ours,
    it raises `RunFailed`, and there is no row.
    """

    name: str
    key: tuple[str, ...]
    measured: Callable[[Job, Processes], Row]
    in_words: Callable[[Row], str]
    limit: float = DAY  # seconds a run may take, unless another limit is asked for
    split: str | None = None  # the field whose values have files of their own

    def store(self, results: Path = RESULTS) -> Store:
        return self.kept_in(results / f"{self.name}.jsonl")

    def kept_in(self, path: Path) -> Store:
        return Store(path, self.key, self.split)

    def rows(self, results: Path = RESULTS) -> list[Row]:
        return self.store(results).rows()


@dataclass(frozen=True)
class Mode:
    """How many runs at a time, and which of the rows that are there are computed again."""

    jobs: int = 1
    again: bool = False  # those that failed
    force: bool = False  # all

    def is_due(self, row: Row | None) -> bool:
        return row is None or self.force or (self.again and row.get("status") == "failed")


def in_process(module: str) -> Callable[[Job, Processes], Row]:
    """`measured` of a module, each call in a process of its own."""
    return lambda job, processes: processes.ours(module, job)


def say(text: str) -> None:
    print(text, flush=True)


def run(
    benchmark: Benchmark, jobs: Iterable[Job], store: Store, processes: Processes, mode: Mode | None = None, *,
    report: Report = say,
) -> list[Row]:  # fmt: skip
    """Every job that is due, `mode.jobs` at a time, with a line about each; the rows of all jobs that have one."""
    jobs, mode = list(jobs), mode or Mode()
    store.path.parent.mkdir(parents=True, exist_ok=True)  # if it cannot be made, that is better known now
    there = {store.key_of(row): row for row in store.rows()}
    writing, failed = Lock(), []

    def one(job: Job) -> None:
        key = store.key_of(job)
        begin = label(store.key, key)
        row = there.get(key)
        if not mode.is_due(row):
            report(f"{begin}: {outcome(benchmark, there[key])} (there)")
            return
        try:
            row = benchmark.measured(job, processes)
        except NoEnvironment as error:
            report(f"{begin}: {error}")
            return
        except RunFailed as error:
            failed.append(key)
            report(f"{begin}: failed: {error}")
            return
        with writing:
            store.add(row)
            there[key] = row
            report(f"{begin}: {outcome(benchmark, row)}")

    with ThreadPoolExecutor(mode.jobs) as pool:
        for _ in pool.map(one, jobs):
            pass
    if failed:
        raise ValueError(f"{len(failed)} of {len(jobs)} runs failed, as said above; the others have their rows")
    return [there[key] for key in map(store.key_of, jobs) if key in there]


def label(names: Sequence[str], key: Sequence[Any]) -> str:
    """
    >>> label(("table", "seed", "method"), ("yeast", 11, "knn"))
    'yeast seed 11 knn'
    """
    pairs = zip(names, key, strict=True)
    return " ".join(value if isinstance(value, str) else f"{name} {value}" for name, value in pairs)


def outcome(benchmark: Benchmark, row: Row) -> str:
    status = row.get("status", "ok")
    if status == "timed out":
        return f"{'assumed' if row.get('assumed') else 'timed'} out at {row['limit']:.0f} s"
    return f"failed: {row['error']}" if status == "failed" else benchmark.in_words(row)


def known(names: Iterable[str], among: Mapping[str, Any] | Sequence[str], what: str = "") -> list[str]:
    """
    >>> known(["b", "c"], ["a", "b"], "method")
    Traceback (most recent call last):
    ValueError: there is no method c; there are a, b
    """
    names = list(names)
    if strange := [name for name in names if name not in among]:
        raise ValueError(f"there is no {what} {', '.join(strange)}; there are {some(list(among))}".replace("  ", " "))
    return names


def some(names: Sequence[str], most: int = 15) -> str:
    """
    >>> some("abc"), some("abcdef", most=3)
    ('a, b, c', 'a, b, c and 3 more')
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def errors_in_words(errors: Row) -> str:
    """
    >>> errors_in_words({"nrmse": 0.91, "nrmse_trivial": 1.002})
    'NRMSE 0.910 (mean 1.002)'
    """
    trivial = {"nrmse": "mean", "pfc": "mode"}
    return ", ".join(
        f"{name.upper()} {errors[name]:.3f} ({trivial[name]} {errors[name + '_trivial']:.3f})"
        for name in trivial
        if name in errors
    )
