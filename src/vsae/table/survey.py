"""`Survey`: one pass over a table that comes in batches, in bounded memory.

It keeps a uniform sample of the rows, and of each column what a sample may miss: the share of missing cells, the
smallest and the largest value, all different values while they are few, and one cell for each kind of precision. A
model is planned by all of it and trained on the sample. What is kept is exact; quantiles are those of the sample: of n
rows, the share below any value is off by more than √(ln(2/δ) / 2n) with probability δ at most (Dvoretzky, Kiefer and
Wolfowitz, with Massart's constant); of 200,000 rows, by more than 0.4 % once in a thousand times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.table.backends import Backend, Column
from vsae.table.cells import LABELS, Cells, scalars
from vsae.table.containers import BACKENDS, View, stacked, view_of
from vsae.table.errors import TableError

SAMPLE = 200_000  # rows; ours: a default fit takes 2,000 steps of 128, so that a member sees no more rows than these
MOST_DIFFERENT = 10_001  # values of a column; with more, no column has levels (inference.py)
_FINER = (86_400 * 10**9, 3_600 * 10**9, 60 * 10**9, 10**9, 10**6, 10**3)  # nanoseconds of coarser units of time


class Beyond(NamedTuple):
    """What the sample does not tell of a column."""

    cells: Column  # whose values are not in the sample
    missing: float  # share, of all rows


@dataclass
class _Facts:
    """Of one column, in all rows so far."""

    missing: int = 0
    different: set[Any] | None = field(default_factory=set)  # None: too many
    low: Any = None
    high: Any = None
    finer: set[int] = field(default_factory=set)  # units of time, or 0 for fractions, of which there is a cell
    values: list[Column] = field(default_factory=list)  # the first cells of different values
    bounds: list[Column] = field(default_factory=list)  # of numbers: cells that were the smallest, the largest, finer

    def add(self, column: Column, cells: Cells) -> None:
        self.missing += int((~cells.observed).sum())
        values, places = cells.values, np.flatnonzero(cells.observed)
        if cells.why or not len(values):
            return
        if cells.storage in LABELS or values.dtype == object:
            self._take(column, places, self._new_values(values, range(len(values))), self.values)
            return
        finite = np.flatnonzero(np.isfinite(values)) if values.dtype.kind == "f" else np.arange(len(values))
        if not len(finite):
            return
        different, first = np.unique(values[finite], return_index=True)
        self._take(column, places, self._new_values(different, finite[first].tolist()), self.values)
        bounds = self._extremes(different, finite[first]) + self._precision(values, finite)
        self._take(column, places, bounds, self.bounds)
        if self.different is None:
            self.values.clear()  # so many numbers are no levels

    def merge(self, other: _Facts) -> None:
        """Take in those of other rows."""
        self.missing += other.missing
        self.values += other.values
        self.bounds += other.bounds
        self.finer |= other.finer
        both = None if self.different is None or other.different is None else self.different | other.different
        numbers = self.low is not None or other.low is not None
        self.different = None if both is None or len(both) >= MOST_DIFFERENT else both
        if self.different is None and numbers:
            self.values.clear()
        lows, highs = ([x for x in pair if x is not None] for pair in ((self.low, other.low), (self.high, other.high)))
        self.low, self.high = min(lows, default=None), max(highs, default=None)

    @staticmethod
    def _take(column: Column, places: NDArray[np.int64], found: list[int], into: list[Column]) -> None:
        if found:
            into.append(_taken(column, places[np.array(found)]))

    def _new_values(self, values: NDArray[Any], places: Iterable[int]) -> list[int]:
        if self.different is None:
            return []
        found = []
        for value, place in zip(scalars(values), places, strict=True):
            if value not in self.different:
                self.different.add(value)
                found.append(place)
                if len(self.different) >= MOST_DIFFERENT:
                    self.different = None
                    break
        return found

    def _extremes(self, different: NDArray[Any], first: NDArray[np.int64]) -> list[int]:
        """`different`, in order, with the places at which they stand first."""
        found = []
        if self.low is None or different[0] < self.low:
            self.low = different[0]
            found.append(int(first[0]))
        if self.high is None or different[-1] > self.high:
            self.high = different[-1]
            found.append(int(first[-1]))
        return found

    def _precision(self, values: NDArray[Any], finite: NDArray[np.int64]) -> list[int]:
        """Of numbers, one that is not whole; of times, one for each unit that they do not count in whole numbers."""
        x, found = values[finite], []
        if values.dtype.kind == "f":
            odd = {0: x != np.rint(x)} if 0 not in self.finer else {}
        elif values.dtype.kind in "Mm":
            per_day = {unit for unit in _FINER if unit not in self.finer}
            whole = x.astype(f"{values.dtype.kind}8[ns]").view(np.int64) if per_day else x
            odd = {unit: whole % unit != 0 for unit in per_day}
        else:
            odd = {}
        for unit, cells in odd.items():
            if cells.any():
                self.finer.add(unit)
                found.append(int(finite[cells.argmax()]))
        return found


class _Kept(NamedTuple):
    """Rows that may be among the sample."""

    columns: Mapping[Hashable, Column]
    key: NDArray[np.float64]
    number: NDArray[np.int64]  # in the table

    def take(self, rows: NDArray[np.int64]) -> _Kept:
        columns = {label: _taken(column, rows) for label, column in self.columns.items()}
        return _Kept(columns, self.key[rows], self.number[rows])


def _whole(size: Any) -> int:
    """
    >>> _whole(2.5)
    Traceback (most recent call last):
    ValueError: a sample has a whole number of rows, at least one, not 2.5
    """
    try:
        whole = index(size)
    except TypeError:
        whole = 0
    if whole < 1:
        raise ValueError(f"a sample has a whole number of rows, at least one, not {size!r}")
    return whole


class Survey:
    """
    >>> survey = Survey(size=3, seed=0)
    >>> for start in (0, 4):
    ...     survey.add({"x": np.arange(start, start + 4)})
    >>> survey.rows, survey.sample(), survey.beyond()["x"].cells
    (8, {'x': array([1, 2, 3])}, array([0, 4, 5, 6, 7]))
    """

    def __init__(self, size: int = SAMPLE, seed: int = 0, first_row: int = 0) -> None:
        self.size, self.seed, self.first_row, self.rows = _whole(size), seed, first_row, 0
        self._facts: dict[Hashable, _Facts] = {}
        self._container = ""
        self._kept: list[_Kept] = []
        self._below = np.inf  # no row with a larger key is among the sample

    @classmethod
    def of(cls, batches: Iterable[Any], size: int = SAMPLE, seed: int = 0) -> Survey:
        survey = cls(size, seed)
        for batch in batches:
            survey.add(batch)
        if not survey.rows:
            raise TableError("the batches have no rows; fit needs at least one")
        return survey

    @property
    def is_whole(self) -> bool:
        """Whether the sample has all rows."""
        return self.rows <= self.size

    def add(self, batch: Any) -> None:
        view = view_of(batch)
        if not self._facts:
            self._container, self._facts = view.container, {label: _Facts() for label in view.columns}
        self._check(view)
        if not view.n:
            return
        for label, facts in self._facts.items():
            facts.add(view.columns[label], view.backend.cells(view.columns[label], ()))
        self._keep(view)
        self.rows += view.n

    def merge(self, other: Survey) -> None:
        """Take in what another pass saw of the rows that follow: the sample is that of one pass over all."""
        for label, facts in other._facts.items():
            self._facts[label].merge(facts)
        self._kept += other._kept
        self._below = min(self._below, other._below)
        self.rows += other.rows
        self._prune(BACKENDS[self._container]())

    def _check(self, view: View) -> None:
        for label in self._facts:
            if label not in view.columns:
                raise TableError(f"column {label!r} is missing in the rows from {self.rows:,} on; all batches need it")
        if extra := [label for label in view.columns if label not in self._facts]:
            raise TableError(f"column {extra[0]!r} is in the rows from {self.rows:,} on, and not in those before")
        if view.container != self._container:
            raise TableError(f"batches of {view.container} follow batches of {self._container}; give one kind")

    def _keep(self, view: View) -> None:
        """The rows with the smallest keys; a row's key depends on the seed and its number alone."""
        keys = np.random.Generator(np.random.PCG64(self.seed).advance(self.first_row + self.rows)).random(view.n)
        every = _Kept(view.columns, keys, self.first_row + self.rows + np.arange(view.n))
        self._kept.append(every.take(np.flatnonzero(keys < self._below)))
        if sum(len(kept.key) for kept in self._kept) > 2 * self.size:
            self._prune(view.backend)

    def _prune(self, backend: Backend) -> None:
        kept = self._joined(backend)
        if len(kept.key) > self.size:
            self._below = np.partition(kept.key, self.size)[self.size]
            kept = kept.take(np.flatnonzero(kept.key < self._below))
        self._kept = [kept]

    def _joined(self, backend: Backend) -> _Kept:
        columns = {label: backend.concat([kept.columns[label] for kept in self._kept]) for label in self._facts}
        keys, numbers = (np.concatenate(parts) for parts in zip(*((k.key, k.number) for k in self._kept), strict=True))
        return _Kept(columns, keys, numbers)

    def sample(self) -> Any:
        """A table of the sampled rows, in their order; of all rows where these are no more."""
        columns = self._sampled()
        if self._container == "array":
            return stacked(columns.values())
        return BACKENDS[self._container]().table(columns)

    def row_numbers(self) -> NDArray[np.int64]:
        """Of the sampled rows, in the table."""
        self._prune(BACKENDS[self._container]())
        return self._kept[0].number

    def _sampled(self) -> dict[Hashable, Column]:
        self._prune(BACKENDS[self._container]())
        return dict(self._kept[0].columns)

    def beyond(self) -> dict[Hashable, Beyond]:
        """Of each column, what the sample does not tell."""
        backend, found = BACKENDS[self._container](), {}
        for label, column in self._sampled().items():
            facts = self._facts[label]
            cells = backend.concat([column[:0], *facts.values, *facts.bounds])
            known = set(scalars(backend.cells(column, ()).values))
            rows = []
            for row, value in enumerate(scalars(backend.cells(cells, ()).values)):
                if value not in known:
                    known.add(value)
                    rows.append(row)
            found[label] = Beyond(_taken(cells, np.array(rows, dtype=np.int64)), facts.missing / self.rows)
        return found


def with_cells_beyond(view: View, beyond: Mapping[Hashable, Beyond]) -> View:
    """The columns of a sample, each with the cells beyond it at its end: to plan by, as rows they mean nothing."""
    longer = {label: view.backend.concat([column, beyond[label].cells]) for label, column in view.columns.items()}
    return replace(view, columns=longer)


def _taken(column: Column, rows: NDArray[np.int64]) -> Column:
    return column.iloc[rows] if hasattr(column, "iloc") else column[rows]
