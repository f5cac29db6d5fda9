"""Sensitivity of an answer to what missing cells hold: they are changed, more and more, in the same drawn tables.

The missing cells of the columns named are changed, and no others:

- a number y becomes scale · y + delta, in the units of the column, whole where it counts, and inside its bounds;
- the log odds of a level rise by delta; or, if none is named and levels have an order, by delta a step up.

A cell of levels keeps its rank: it was drawn somewhere inside the share of the level it has, and the tilted shares say
which level lies there now. So delta 0 changes nothing, and more of it moves more cells one way and none back.

What is asked of the tilted shares depends on `redraw`. Without it, the other missing cells of the row stay as drawn,
and levels are tilted given all of them. With it, levels are tilted given the observed cells alone, and then the other
missing cells of the row are drawn again, given the changed ones.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import vsae
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import keyed_uniform
from vsae.data.schema import DISCRETE, Kind, Variable
from vsae.evaluation.pooling import pool
from vsae.imputation.draws import draw
from vsae.imputation.imputer import Imputer
from vsae.imputation.tilts import tilted_shares
from vsae.mechanism.choice import is_ordered
from vsae.mechanism.self_masking import predicted_shares

_STREAM = 2**40  # of random numbers: apart from those of draws, whose keys count variables

Analysis = Callable[[dict[str, NDArray[Any]]], Any]  # of a completed table: an estimate, or (estimate, variance)


class Point(NamedTuple):
    """The pooled answer at one change of the missing cells."""

    delta: float
    scale: float
    estimate: float
    std_error: float
    low: float
    high: float
    df: float
    p: float  # of the hypothesis that the estimand is `null`
    monte_carlo_error: float  # √(B / m): what the estimate would vary by with other draws


@dataclass(frozen=True)
class Audit:
    """What was done."""

    cells: Mapping[str, int]  # changed, by column: its missing cells in rows that are changed at all
    at_bounds: Mapping[str, int]  # of these, over all points and draws, that a bound stopped
    rule: str
    redraw: bool
    draws: int
    seed: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Sensitivity:
    """Points along the grid, and the reference, at which nothing is changed."""

    points: tuple[Point, ...]
    reference: Point
    null: float
    alpha: float
    audit: Audit

    @property
    def tipping_point(self) -> Point | None:
        """The point of the smallest change at which p is on the other side of alpha than at the reference."""
        turned = [point for point in self.points if (point.p < self.alpha) != (self.reference.p < self.alpha)]
        return min(turned, key=lambda point: (abs(point.delta), abs(np.log(point.scale))), default=None)

    def to_dict(self) -> dict[str, list[float]]:
        """The points as columns, for a dataframe."""
        return {name: [getattr(point, name) for point in self.points] for name in Point._fields}

    def __str__(self) -> str:
        lines = ["  ".join(f"{name:>10}" for name in ("delta", "scale", "estimate", "std error", "low", "high", "p"))]
        for x in self.points:
            cells = (x.delta, x.scale, x.estimate, x.std_error, x.low, x.high, x.p)
            lines.append("  ".join(f"{cell:>10.4g}" for cell in cells))
        tipping = self.tipping_point
        which = "none on this grid" if tipping is None else f"delta {tipping.delta:g}, scale {tipping.scale:g}"
        cells_changed = ", ".join(f"{count} of {name}" for name, count in self.audit.cells.items())
        redrawn = "redrawn given them" if self.audit.redraw else "as drawn"
        return "\n".join(
            [
                *lines,
                f"Tipping point at p = {self.alpha:g}: {which}.",
                f"Changed: {cells_changed} missing cells ({self.audit.rule}); the other missing cells are {redrawn}. "
                f"{self.audit.draws} draws, seed {self.audit.seed}.",
            ]
        )


def sensitivity(
    imputer: Imputer[Any],
    columns: Columns,
    mask: Mask,
    analysis: Analysis,
    changed: Mapping[str, int | None],
    *,
    delta: float | Sequence[float] = 0.0,
    scale: float | Sequence[float] = 1.0,
    weight: NDArray[np.float64] | None = None,
    redraw: bool = False,
    n: int = 20,
    null: float = 0.0,
    alpha: float = 0.05,
    dfcom: float | None = None,
    seed: int = 0,
) -> Sensitivity:
    """Of an analysis to changes of the variables named, each with a level's code if it is to rise, or None.

    delta and scale are a grid: both of the same length, or one of them a number. `weight` (n,) says how much of a
    change each row gets.
    """
    if n < 2:
        raise ValueError(f"asked for {n} draws; pooling needs 2 or more")
    deltas, scales = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64).reshape(-1) for x in (delta, scale)))
    if not (np.isfinite(deltas).all() and np.isfinite(scales).all() and (scales > 0).all()):
        raise ValueError("delta and scale must be finite, and scale above 0")
    weight = np.ones(len(mask)) if weight is None else np.asarray(weight, dtype=np.float64)
    if weight.shape != (len(mask),) or not np.isfinite(weight).all():
        raise ValueError(f"by must give a finite number for each of the {len(mask)} rows")
    changes = _Changes(imputer, mask, changed, weight, redraw, seed)
    changes.check()
    tables = [(table, changes.shares(table)) for table in draw(imputer, columns, mask, n, seed=seed)]

    def at(delta: float, scale: float) -> Point:
        completed = (changes.made(i, table, shares, delta, scale) for i, (table, shares) in enumerate(tables))
        estimates, variances = zip(*(_answer(analysis(table)) for table in completed), strict=True)
        pooled = pool(estimates, variances, dfcom=dfcom, level=1 - alpha)
        low, high = pooled.interval
        p, error = pooled.p_value(null), pooled.monte_carlo_error
        return Point(delta, scale, pooled.estimate, pooled.std_error, low, high, pooled.df, p, error)

    grid = [at(float(d), float(c)) for d, c in zip(deltas, scales, strict=True)]
    unchanged = [point for point in grid if point.delta == 0 and point.scale == 1]
    reference = unchanged[0] if unchanged else at(0.0, 1.0)
    versions = {"vsae": vsae.__version__, "numpy": np.__version__, "torch": torch.__version__}
    versions["python"] = platform.python_version()
    cells = {name: len(rows) for name, rows in changes.rows.items()}
    audit = Audit(cells, dict(changes.at_bounds), changes.rule(), redraw, n, seed, versions)
    return Sensitivity(tuple(grid), reference, null, alpha, audit)


@dataclass(frozen=True)
class _Changes:
    """Which cells are changed, and how."""

    imputer: Imputer[Any]
    mask: Mask
    changed: Mapping[str, int | None]
    weight: NDArray[np.float64]
    redraw: bool
    seed: int
    at_bounds: Counter[str] = field(default_factory=Counter)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.imputer.schema.variables}

    @cached_property
    def rows(self) -> dict[str, NDArray[np.intp]]:
        """Whose cell is changed, by variable."""
        at = self.imputer.schema.attribute_of
        return {name: np.flatnonzero(~self.mask[:, at[name]] & (self.weight != 0)) for name in self.changed}

    def check(self) -> None:
        if not self.changed:
            raise ValueError("name a column whose missing cells are to be changed")
        for name, level in self.changed.items():
            if name not in self.variables or self.variables[name].event:
                raise ValueError(f"column {name!r} is not one of numbers or levels that the model imputes")
            levels = self.variables[name].family in DISCRETE
            if level is None and not is_ordered(self.variables[name]):
                raise ValueError(f"column {name!r} has levels without an order; say which is to be more likely")
            if level is not None and not (levels and 0 <= level < self.variables[name].size):
                raise ValueError(f"column {name!r} has no such level; name one of its own, or None for numbers")

    def rule(self) -> str:
        parts = {
            f"log odds of {name} + delta" + (" a step up" if self.changed[name] is None else " for the level named")
            if self.variables[name].family in DISCRETE
            else f"{name} → scale · {name} + delta"
            for name in self.changed
        }
        return "; ".join(sorted(parts))

    def shares(self, table: Columns) -> dict[str, NDArray[np.float64]]:
        """Of the levels of changed cells, by variable, (rows, levels)."""
        schema, found = self.imputer.schema, {}
        for block in schema.blocks:
            for variable in block.variables:
                rows = self.rows.get(variable.name, np.zeros(0, dtype=np.intp))
                if block.family not in DISCRETE or not len(rows):
                    continue
                known = self.mask[rows] if self.redraw else np.ones_like(self.mask[rows])
                known[:, schema.attribute_of[variable.name]] = False
                some = {name: x[rows] for name, x in table.items()}
                found[variable.name] = predicted_shares(self.imputer, some, known, block, variable.name)
        return found

    def made(
        self, i: int, table: Columns, shares: Mapping[str, NDArray[np.float64]], delta: float, scale: float
    ) -> dict[str, NDArray[Any]]:
        """The i-th drawn table, changed."""
        out = dict(table)
        for name, rows in self.rows.items():
            out[name] = table[name].copy()
            if name in shares:
                out[name][rows] = self._tilted(i, name, table[name][rows], shares[name], delta)
            elif len(rows):
                out[name][rows] = self._shifted(name, table[name][rows], delta, scale)
        return self._redrawn(i, out) if self.redraw else out

    def _shifted(self, name: str, y: NDArray[Any], delta: float, scale: float) -> NDArray[np.float64]:
        weight, variable = self.weight[self.rows[name]], self.variables[name]
        x = (1 + (scale - 1) * weight) * y + delta * weight
        if variable.kind is Kind.POSITIVE and (x <= 0).any():
            raise ValueError(f"column {name!r}: delta {delta:g} takes cells to 0 or below; change its scale instead")
        _, low, high = self.imputer.encoding.traits(name)
        x = np.rint(x) if variable.kind is Kind.COUNT else x
        self.at_bounds[name] += int(((x < low) | (x > high)).sum())
        return np.clip(x, low, high)

    def _tilted(
        self, i: int, name: str, code: NDArray[Any], share: NDArray[np.float64], delta: float
    ) -> NDArray[np.int64]:
        """The level at the rank that a cell was drawn at, inside the share of the level it has."""
        code, rows = code.astype(int), self.rows[name]
        key = torch.tensor(_STREAM + list(self.variables).index(name))
        place = keyed_uniform(self.seed, torch.tensor(i), torch.from_numpy(rows), key).numpy()
        share = share / share.sum(axis=1, keepdims=True)
        own = np.take_along_axis(share, code[:, None], axis=1)[:, 0]
        rank = np.take_along_axis(share.cumsum(axis=1), code[:, None], axis=1)[:, 0] - (1 - place) * own
        level = self.changed[name]
        direction = np.arange(share.shape[1]) if level is None else np.arange(share.shape[1]) == level
        log_factor = delta * self.weight[rows][:, None] * direction
        reached = tilted_shares(share, log_factor).cumsum(axis=1)
        moved = np.minimum((reached <= rank[:, None]).sum(axis=1), share.shape[1] - 1)
        return np.where(log_factor.any(axis=1), moved, code)

    def _redrawn(self, i: int, table: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The other missing cells of changed rows, with the same random numbers at every point of the grid."""
        known = self.mask.copy()
        for name, rows in self.rows.items():
            known[rows, self.imputer.schema.attribute_of[name]] = True
        rows = np.flatnonzero((known & ~self.mask).any(axis=1) & ~known.all(axis=1))
        if not len(rows):
            return table
        some = {name: x[rows] for name, x in table.items()}
        drawn = draw(self.imputer, some, known[rows], 1, seed=self.seed + 1 + i, row_ids=rows)[0]
        out = {name: x.copy() for name, x in table.items()}
        for name, x in drawn.items():
            out[name][rows] = x
        return out


def _answer(found: Any) -> tuple[float, float]:
    """An estimate and its variance, 0 if none is given: then only what the missing cells leave uncertain counts."""
    numbers = np.asarray(found, dtype=np.float64).ravel()
    if len(numbers) not in (1, 2):
        raise ValueError(f"the estimand must return a number, or a number and its variance, not {found!r}")
    return float(numbers[0]), float(numbers[1]) if len(numbers) == 2 else 0.0
