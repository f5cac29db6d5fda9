"""`Evaluation`: what hiding known cells says of a model, as a table, in words, and as a notebook shows it."""

from __future__ import annotations

import html
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TRIVIAL = "mean/mode"
_MOST_NAMED = 20  # columns in a sentence
_WIDTH = 110  # of a line of words


@dataclass(frozen=True)
class ColumnEvaluation:
    """Errors on the hidden cells of one column; `None` where a figure is of the other kind of column."""

    column: Any
    kind: str
    measure: str  # NRMSE: root mean squared error / standard deviation of the known cells; or share wrong
    cells: int  # that were hidden and scored
    errors: Mapping[str, float]  # by method, ours first
    se: float  # standard error of ours: so far it would vary with other cells
    mae: float | None  # mean absolute error of ours, in units of the column
    coverage: Mapping[float, float] | None  # level of an interval → share of the hidden numbers inside
    confidence: float | None  # mean probability of the level that is filled in; well calibrated, it is the share right
    predictable: bool  # better than mean, mode or frequencies, beyond chance


class Right(NamedTuple):
    """How often levels are right, and how often they are said to be."""

    share: float
    said: float


class HiddenCells(NamedTuple):
    """Some hidden cells of one column, (h,) each: numbers in units of the column, or codes of levels."""

    truth: NDArray[np.float64]
    filled: NDArray[np.float64]
    low: NDArray[np.float64]  # ends of the 90 % interval of a number
    high: NDArray[np.float64]
    confidence: NDArray[np.float64]  # probability of the level that is filled in; NaN for numbers


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on a table: errors on known cells that were hidden, and that it was not fitted on.

    `print` it for a table and sentences. `.table` is a pandas frame, or a dict of columns where there is no pandas.
    """

    columns: tuple[ColumnEvaluation, ...]
    left_out: Mapping[Any, str]  # columns that were not scored, and why
    seconds: Mapping[str, float]  # of all fits and predictions, by method, ours first
    repeats: int
    holdout: float  # share of the known cells hidden in each
    cells: Mapping[Any, HiddenCells] = field(default_factory=dict, repr=False, compare=False)  # to look at, by column

    def __getitem__(self, column: Any) -> ColumnEvaluation:
        for found in self.columns:
            if found.column == column:
                return found
        raise KeyError(f"column {column!r} was not scored: {self.left_out.get(column, 'the table does not have it')}")

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns of equal length, one line a column of the table; NaN where a figure does not apply."""
        methods = list(self.seconds)
        levels = sorted({level for found in self.columns for level in found.coverage or ()})
        lines = [
            {
                "column": found.column, "kind": found.kind, "measure": found.measure, "cells": found.cells,
                **{method: found.errors[method] for method in methods},
                "se": found.se, "mae": _or_nan(found.mae),
                **{f"coverage_{100 * level:g}": (found.coverage or {}).get(level, math.nan) for level in levels},
                "confidence": _or_nan(found.confidence), "predictable": found.predictable,
            }
            for found in self.columns
        ]  # fmt: skip
        return {name: [line[name] for line in lines] for name in lines[0]}

    @property
    def table(self) -> Any:
        columns = self.to_dict()
        try:
            import pandas as pd
        except ImportError:
            return columns
        return pd.DataFrame(columns)

    def relative(self, method: str) -> float:
        """Errors of all columns / those of mean and mode, geometric mean; columns that either never mistakes are left
        out."""
        pairs = [(found.errors[method], found.errors[TRIVIAL]) for found in self.columns]
        logs = [math.log(error / trivial) for error, trivial in pairs if error > 0 and trivial > 0]
        return math.exp(float(np.mean(logs))) if logs else math.nan

    # --- in words

    def __str__(self) -> str:
        headings, lines = self._shown()
        widths = [max(map(len, cells)) for cells in zip(headings, *lines, strict=True)]
        text = ["  ".join([line[0].ljust(widths[0]), line[1].ljust(widths[1]), *map(str.rjust, line[2:], widths[2:])])
                for line in (headings, *lines)]  # fmt: skip
        return "\n".join([*map(str.rstrip, text), "", *(textwrap.fill(said, _WIDTH) for said in self.sentences())])

    def _repr_html_(self) -> str:
        headings, lines = self._shown()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in headings)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
        words = "<br>".join(html.escape(sentence) for sentence in self.sentences())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{words}</p>"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Headings and lines of the table for people."""
        methods = list(self.seconds)
        headings = ["column", "measure", "cells", methods[0], "±", *methods[1:], "MAE", "in 90 %", "sure"]
        lines = []
        for found in self.columns:
            errors = [f"{found.errors[method]:.3f}" for method in methods]
            covered = "" if found.coverage is None else f"{found.coverage[0.9]:.0%}"
            sure = "" if found.confidence is None else f"{found.confidence:.0%}"
            mae = "" if found.mae is None else f"{found.mae:.3g}"
            lines.append(
                [str(found.column), found.measure, str(found.cells), errors[0], f"{found.se:.3f}", *errors[1:], mae,
                 covered, sure]
            )  # fmt: skip
        return headings, lines

    def sentences(self) -> list[str]:
        share, times = (
            f"{self.holdout:.0%} of the known cells",
            "once" if self.repeats == 1 else f"{self.repeats} times",
        )
        said = (
            f"Errors on {share} that were hidden {times}, as the table hides cells, each time from a new fit.",
            "NRMSE: root mean squared error / standard deviation. ±: standard error of ours.",
            "In 90 %: share of the numbers that lie in their 90 % interval.",
            "Sure: mean probability of the levels that are filled in, to compare with 1 - share wrong.",
        )
        lines = [" ".join(said), *self._compared(), *self._calibration()]
        if hopeless := [found.column for found in self.columns if not found.predictable]:
            lines.append(f"No better than mean or mode, as far as these cells tell: {_named(hopeless)}.")
        if self.left_out:
            lines.append(f"Not scored: {_named(f'{column} ({why})' for column, why in self.left_out.items())}.")
        lines.append(f"Seconds: {', '.join(f'{method} {seconds:.1f}' for method, seconds in self.seconds.items())}.")
        lines.append("Cells that are missing because of their own value may be further off than known ones.")
        return lines

    def _compared(self) -> list[str]:
        methods = list(self.seconds)
        best = Counter(min(methods, key=lambda method: found.errors[method]) for found in self.columns)
        wins = ", ".join(f"{method} in {number}" for method, number in best.most_common())
        lines = [f"Lowest error: {wins} of {len(self.columns)} columns."]
        if TRIVIAL in methods:
            ratios = ", ".join(f"{method} {self.relative(method):.2f}" for method in methods if method != TRIVIAL)
            lines.append(f"All columns together, error / that of mean and mode: {ratios}.")
        return lines

    @property
    def coverage(self) -> dict[float, float]:
        """Of the hidden numbers of all columns, the share inside intervals of a level; empty if there are none."""
        numbers = [(found.cells, found.coverage) for found in self.columns if found.coverage is not None]
        cells = sum(count for count, _ in numbers)
        levels = numbers[0][1] if numbers else ()
        return {level: sum(count * covered[level] for count, covered in numbers) / cells for level in levels}

    @property
    def right(self) -> Right | None:
        """Of the hidden levels of all columns; None if there are none."""
        ours = next(iter(self.seconds))
        levels = [(f.cells, f.confidence, 1 - f.errors[ours]) for f in self.columns if f.confidence is not None]
        cells = sum(count for count, *_ in levels)
        if not levels:
            return None
        said, share = (sum(line[0] * line[i] for line in levels) / cells for i in (1, 2))
        return Right(share, said)

    def _calibration(self) -> list[str]:
        lines = []
        if shares := self.coverage:
            shown = " and ".join(f"{share:.0%} in {level:.0%} intervals" for level, share in shares.items())
            lines.append(f"Of the hidden numbers, {shown} of theirs.")
        if self.right:
            lines.append(
                f"Levels are right in {self.right.share:.0%} of the cells, and are said to be in {self.right.said:.0%}."
            )
        return lines


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _named(columns: Iterable[Any]) -> str:
    names: Sequence[str] = [str(column) for column in columns]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
