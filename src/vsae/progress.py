"""Progress of a training on stderr: a bar in a terminal, a line now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from vsae.training.history import Callback, Progress

_SECONDS_BETWEEN_LINES = 10.0  # a log of an hour stays short, and still shows that it moves


@contextmanager
def training_progress(title: str, quiet: bool = False, also: Callback | None = None) -> Iterator[Callback]:
    """A callback for `fit` that shows rate and remaining time, and tells a user's own of every step."""
    with _shown(title, quiet) as show:

        def told(step: Progress) -> None:
            show(step)
            if also is not None:
                also(step)

        yield told


@contextmanager
def _shown(title: str, quiet: bool) -> Iterator[Callback]:
    if quiet:
        yield lambda step: None
    elif sys.stderr.isatty():
        with _bar(title) as callback:
            yield callback
    else:
        yield _PlainLines(title)


@contextmanager
def _bar(title: str) -> Iterator[Callback]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, rate="")

        def advance(step: Progress) -> None:
            rate = f"{step.step / max(step.seconds, 1e-9):.0f} steps/s"
            bar.update(task, completed=step.step, total=step.steps, rate=rate)

        yield advance


class _PlainLines:
    """One line at the start, then one every few seconds."""

    def __init__(self, title: str) -> None:
        self.title, self.last = title, time.monotonic()
        print(f"{title} …", file=sys.stderr, flush=True)

    def __call__(self, step: Progress) -> None:
        now = time.monotonic()
        if now - self.last > _SECONDS_BETWEEN_LINES:
            self.last = now
            left = step.seconds / step.step * (step.steps - step.step)
            print(
                f"{self.title}: step {step.step}/{step.steps}, at most {left:.0f} s left", file=sys.stderr, flush=True
            )


class RowProgress:
    """A line every few seconds on how many rows are done, and how long the others take.

    The clock begins at the first rows that are done: before them, workers start and load the model.
    """

    def __init__(self, title: str, quiet: bool = False) -> None:
        self.title, self.quiet, self.before = title, quiet, 0  # rows that were done as the clock began
        self.began = self.last = 0.0

    def __call__(self, rows: int, of: int) -> None:
        now = time.monotonic()
        if not self.before:
            self.before, self.began, self.last = rows, now, now
        if self.quiet or now - self.last <= _SECONDS_BETWEEN_LINES or rows >= of:
            return
        self.last = now
        rate = (rows - self.before) / (now - self.began)
        line = f"{self.title}: {rows:,} of {of:,} rows, {rate:,.0f} a second, {(of - rows) / rate:,.0f} s left"
        print(line, file=sys.stderr, flush=True)
