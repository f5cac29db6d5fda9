"""Are generated rows copies? How near each is to the nearest row of a table, and how near those rows are to each other.

The distance of two rows is the mean over the cells both have: 0 or 1 for levels, the difference of ranks (0 to 1) for
numbers, so that no unit counts more than another. A generator that has learned the table and not its rows makes rows as
near to the table's as these are among themselves; one that copies makes them nearer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.schema import DISCRETE, Family, Schema, Variable

Points = NDArray[np.float64]  # (n, variables), NaN for what is not known
Own = NDArray[np.int64]  # (n,): which of the points a row is itself

_MOST_ROWS = 2000  # of each side whose nearest neighbour is looked for
_MOST_NEIGHBOURS = 20_000  # among which
_CELLS_AT_ONCE = 2**24  # of all pairs of rows that are compared: 128 MB
_ERRORS = 3  # standard errors are no chance
_CLOSE = 0.05  # quantile of the distances among real rows
_FEWEST_SHARED = 0.5  # of the columns: rows that have fewer cells in common are not compared


@dataclass(frozen=True)
class DistanceToClosest:
    """Distances to the nearest real row: of generated rows, and of real rows themselves."""

    generated: NDArray[np.float64]
    real: NDArray[np.float64]

    @property
    def copies(self) -> float:
        """Share of generated rows that agree with a real one in all that both have."""
        return float((self.generated == 0).mean())

    @property
    def real_copies(self) -> float:
        return float((self.real == 0).mean())

    @property
    def too_close(self) -> float:
        """Share of generated rows nearer to a real one than 95 % of real rows are to each other; .05 is chance."""
        return float((self.generated < np.quantile(self.real, _CLOSE)).mean())

    @property
    def copying(self) -> bool:
        """Whether there are more copies among generated rows than among real ones, by three standard errors: what the
        share of copies may be is told by as many rows as are the fewer. Conditions make no difference: rows like a few
        real ones are copies of them where a model knows these by heart."""
        share = (self.real_copies * len(self.real) + 1) / (len(self.real) + 2)  # Laplace's: never none
        error = np.sqrt(share * (1 - share) * (1 / len(self.generated) + 1 / len(self.real)))
        return bool(self.copies > self.real_copies + _ERRORS * error)

    @property
    def suspicious(self) -> bool:
        return self.copying or bool(self.too_close > 2 * _CLOSE + _ERRORS * np.sqrt(0.25 / len(self.generated)))

    def __str__(self) -> str:
        return (
            f"the median distance to the closest real row is {np.median(self.generated):.3f} for generated rows and "
            f"{np.median(self.real):.3f} for real rows; {self.copies:.1%} of the generated rows and "
            f"{self.real_copies:.1%} of the real rows are copies of another"
        )


def distance_to_closest(
    schema: Schema, generated: tuple[Columns, Mask], real: tuple[Columns, Mask], seed: int = 0
) -> DistanceToClosest | None:
    """Of some of the generated rows to the real ones; None if no two rows can be compared."""
    rng = np.random.default_rng(seed)
    variables = [v for v in schema.variables if v.family not in (Family.VECTOR, Family.IMAGE)]
    if not variables:
        return None
    points, new = (_ranked(schema, variables, *table, real) for table in (real, generated))
    points = points[rng.permutation(len(points))[:_MOST_NEIGHBOURS]]
    new = new[rng.permutation(len(new))[:_MOST_ROWS]]
    levels = np.array([v.family in DISCRETE for v in variables])
    to_real = nearest(new, points, levels)
    own = np.arange(min(len(points), _MOST_ROWS))
    # a new number may lie anywhere between two real ones, but the ranks of these are a whole one apart
    halves = np.where(levels, 0.0, 0.5 / np.maximum((~np.isnan(points)).sum(axis=0), 1))
    between = nearest(points[own], points, levels, own, halves)
    to_real, between = to_real[np.isfinite(to_real)], between[np.isfinite(between)]
    return DistanceToClosest(to_real, between) if len(to_real) and len(between) else None


def nearest(
    rows: Points,
    points: Points,
    levels: NDArray[np.bool_],
    own: Own | None = None,
    less: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """Distance of each row to the nearest point that is not its own, (n,); infinite where there is none.

    `less` (variables,) is taken off the differences of numbers.

    >>> points = np.array([[0.0, 1.0], [3.0, 2.0]])
    >>> nearest(np.array([[1.0, 1.0], [3.0, np.nan]]), points, levels=np.array([False, True]))
    array([0.5, 0. ])
    """
    out = np.full(len(rows), np.inf)
    size = max(1, _CELLS_AT_ONCE // max(points.size, 1))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        apart = np.abs(rows[part, None] - points)  # (rows, points, variables)
        shared = ~np.isnan(apart)
        apart = np.where(shared, np.where(levels, apart > 0, np.maximum(apart - less, 0.0)), 0.0)
        count = shared.sum(axis=2)
        distance = apart.sum(axis=2) / np.maximum(count, 1)
        distance[count < max(1, _FEWEST_SHARED * points.shape[1])] = np.inf
        if own is not None:
            distance[np.arange(len(distance)), own[part]] = np.inf
        out[part] = distance.min(axis=1, initial=np.inf)
    return out


def _ranked(
    schema: Schema, variables: Iterable[Variable], columns: Columns, mask: Mask, real: tuple[Columns, Mask]
) -> Points:
    """Codes of levels and ranks of numbers among the real ones."""
    values = []
    for v in variables:
        i, x = schema.attribute_of[v.name], np.asarray(columns[v.name], dtype=np.float64)
        if v.family not in DISCRETE:
            seen = np.sort(np.asarray(real[0][v.name], dtype=np.float64)[real[1][:, i]])
            below, above = (np.searchsorted(seen, x, side) for side in ("left", "right"))  # type: ignore[call-overload]
            x = (below + above) / 2 / max(len(seen), 1)
        values.append(np.where(mask[:, i], x, np.nan))
    return np.stack(values, axis=1)
