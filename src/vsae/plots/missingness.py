"""What is missing in a table: which columns, in which rows, together with which others, in which groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from vsae.table.cells import scalars
from vsae.table.containers import view_of
from vsae.table.errors import TableError
from vsae.table.roles import column_of

Bools = NDArray[np.bool_]
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
_CLUSTERED_ROWS = 20_000  # distances of masks are as well known from these
_MOST_LEVELS = 12  # of a column that rows are grouped by


class Patterns(NamedTuple):
    """Sets of columns that are missing together, the commonest first."""

    columns: Integers  # (K,) of the table: those that are missing in any of these patterns, those that miss most first
    cells: Bools  # (P, K), True = missing
    rows: Integers  # (P,) how many have exactly this pattern
    others: int  # patterns that are not among these
    complete: int  # rows without a missing cell


class Flux(NamedTuple):
    """How much the other columns know where one is missing, and how much it knows where they are; (M,) each."""

    influx: Numbers
    outflux: Numbers


class Shares(NamedTuple):
    """The share missing of each column in each group, (columns, groups)."""

    by: Any
    groups: list[Any]
    rows: Integers  # (groups,)
    share: Numbers
    spread: float  # how far apart groups are: see `by_group`


@dataclass(frozen=True)
class Missingness:
    """Which cells of a table are missing, (n, M): True = missing.

    >>> found = Missingness.of({"a": np.array([1.0, np.nan, np.nan]), "b": np.array([1.0, np.nan, 3.0])})
    >>> found.share.round(2)
    array([0.67, 0.33])
    >>> found.patterns().rows, found.patterns().cells.tolist()
    (array([1, 1]), [[True, True], [True, False]])
    """

    labels: tuple[Any, ...]
    missing: Bools

    @classmethod
    def of(cls, X: Any) -> Missingness:
        """Null cells of any table that the imputer takes."""
        view = view_of(X)
        if not view.n or not view.columns:
            raise TableError("the table has no cells; there is nothing to show")
        nulls = [np.asarray(view.backend.nulls(column), dtype=np.bool_) for column in view.columns.values()]
        return cls(tuple(view.columns), np.stack(nulls, axis=1))

    @cached_property
    def share(self) -> Numbers:
        """Of the cells of each column, (M,)."""
        return self.missing.mean(axis=0)

    @cached_property
    def incomplete(self) -> Integers:
        """The columns with missing cells."""
        return np.flatnonzero(self.missing.any(axis=0))

    @cached_property
    def clustered(self) -> Integers:
        """The columns with missing cells, in an order in which those that miss together stand together.

        Average linkage of 1 - |correlation of the masks|, leaves in the best order.
        """
        columns = self.incomplete
        if len(columns) < 3:
            return columns
        step = max(1, len(self.missing) // _CLUSTERED_ROWS)
        masks = self.missing[::step, columns].astype(np.float32)
        masks -= masks.mean(axis=0)
        norm = np.sqrt((masks**2).sum(axis=0))
        alike = np.abs(masks.T @ masks) / np.maximum(np.outer(norm, norm), 1e-12)
        distance = np.clip(1 - alike, 0, 1).astype(np.float64)
        distance = (distance + distance.T) / 2
        np.fill_diagonal(distance, 0)
        return columns[leaves_list(linkage(squareform(distance, checks=False), "average", optimal_ordering=True))]

    def matrix(self, most: int = 240) -> Numbers:
        """The share missing of the clustered columns in at most `most` stretches of rows, (columns, stretches)."""
        cuts = np.linspace(0, len(self.missing), min(most, len(self.missing)) + 1).astype(np.int64)
        sums = np.add.reduceat(self.missing[:, self.clustered].astype(np.int64), cuts[:-1], axis=0)
        return (sums / np.diff(cuts)[:, None]).T

    def patterns(self, most: int = 20) -> Patterns:
        packed = np.packbits(self.missing, axis=1)
        codes, first, counts = np.unique(packed, axis=0, return_index=True, return_counts=True)
        some = np.asarray((codes > 0).any(axis=1))
        order = [i for i in np.lexsort((first, -counts)).tolist() if some[i]]
        rows = first[order[:most]]
        columns = np.flatnonzero(self.missing[rows].any(axis=0))
        columns = columns[np.argsort(-self.share[columns], kind="stable")]
        complete = int(counts[~some].sum())
        return Patterns(
            columns, self.missing[np.ix_(rows, columns)], counts[order[:most]], max(0, len(order) - most), complete
        )

    def flux(self) -> Flux:
        """Influx: pairs (j missing, k observed) / observed cells; outflux: pairs (j observed, k missing) / missing
        cells (van Buuren, Flexible Imputation of Missing Data, 4.1)."""
        m = self.missing.astype(np.float32)
        missing = m.sum(axis=1, dtype=np.float64)  # (n,)
        observed = self.missing.shape[1] - missing
        influx = (m.T @ observed.astype(np.float32)).astype(np.float64) / max(1.0, observed.sum())
        outflux = (missing.sum() - (m.T @ missing.astype(np.float32)).astype(np.float64)) / max(1.0, missing.sum())
        return Flux(influx, outflux)

    def by_group(self, by: Any, groups: Sequence[Any], codes: Integers) -> Shares:
        """Shares of the columns with missing cells; `codes` (n,) are those of `groups`, -1 where none is known.

        The spread is the mean over columns of the standard deviation of the share between groups.
        """
        columns = self.incomplete[[str(self.labels[j]) != str(by) for j in self.incomplete]]
        known = codes >= 0
        rows = np.bincount(codes[known], minlength=len(groups))
        member = (codes[known, None] == np.arange(len(groups))).astype(np.float32)
        sums = (member.T @ self.missing[np.ix_(known, columns)].astype(np.float32)).astype(np.float64)
        share = sums / np.maximum(rows, 1)[:, None]
        weight = rows / max(1, rows.sum())
        spread = np.sqrt((weight[:, None] * (share - weight @ share) ** 2).sum(axis=0))
        full = np.full((len(self.labels), len(groups)), np.nan)
        full[columns] = share.T
        return Shares(by, list(groups), rows, full, float(spread.mean()) if len(columns) else 0.0)


def grouped(X: Any, by: Any) -> tuple[list[Any], Integers]:
    """The groups that a column names, the largest first, and the code of each row, -1 for those without or beyond."""
    view = view_of(X)
    cells = view.backend.cells(column_of(view, by, "by"), ())
    if cells.why:
        raise TableError(f"column {by!r} in by holds {cells.why}; give numbers, dates or texts of one type")
    values, inverse, counts = np.unique(cells.values, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_LEVELS]
    place = np.full(len(values), -1, dtype=np.int64)
    place[np.sort(order)] = np.arange(len(order))
    codes = np.full(view.n, -1, dtype=np.int64)
    codes[cells.observed] = place[inverse]
    return scalars(values[np.sort(order)]), codes


def apart(x: Numbers, y: Numbers, width: float, height: float, most: int) -> list[int]:
    """Points whose labels, of that size, do not lie on one another; those at the top first.

    >>> apart(np.array([0.0, 0.1, 0.9]), np.array([1.0, 0.99, 0.98]), 0.3, 0.05, 10)
    [0, 2]
    """
    kept: list[int] = []
    for j in np.argsort(-y, kind="stable").tolist():
        if len(kept) < most and all(abs(x[j] - x[k]) > width or abs(y[j] - y[k]) > height for k in kept):
            kept.append(j)
    return kept
