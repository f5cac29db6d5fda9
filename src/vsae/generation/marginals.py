"""Generated rows with the distributions of the data's columns, one by one.

A decoder's Gaussian does not know that a column has zeros in nine rows of ten, ends at 40 or comes in halves, and small
errors in the probabilities of levels add up. So a generated number keeps its rank and takes the value of that rank in
the data, and the probabilities of levels are shifted until their mean is the share in the data: the dependence between
columns is the model's, each column's own distribution is the data's.

What is observed need not be distributed as what is missing: high incomes go unsaid, old patients skip a test. So the
data's distribution is that of the observed cells and of draws for the missing ones, the draws first set right by what
known cells that were hidden for the purpose have to say about draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.data.microaggregation import FEWEST, ends, quantiles, representatives
from vsae.data.schema import DISCRETE, Kind, Schema, Variable

_KNOTS = 512  # quantiles of a column: told from 4,000 rows at most, so finer ones would be chance
_REPEATED = 0.5  # of its cells have values that several rows have: then a column has nothing between its values
_FEWEST_CELLS = 20  # to learn from what draws for missing cells are worth
_SHIFTS = 20  # rounds until the mean of shifted probabilities is the share wanted
_LEAST = 1e-6  # share of a level
_ENOUGH_ROWS = 200  # for a row's rank among them to say as much as its value does
_PARTS = ("quantiles", "between", "shares")
_P = np.concatenate([[0.0], (np.arange(_KNOTS - 2) + 0.5) / (_KNOTS - 2), [1.0]])

Arrays = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Drawn:
    """Draws before anything is set right: numbers in standard units, (n, variables) per block; probabilities of levels,
    (n, levels) per variable.
    """

    numbers: Arrays
    levels: Arrays

    def plain_codes(self, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        return {name: draw_codes(share, rng) for name, share in self.levels.items()}


@dataclass(frozen=True)
class Marginals:
    """Each column's distribution in the data: quantiles in natural units, none of them the value of a single row
    (microaggregation.py); shares of levels, 0 for those that are not generated.

    Per block of numbers quantiles, (knots, variables), and (variables,) whether values lie between them; per variable
    with levels the shares of these.
    """

    quantiles: Arrays
    between: Mapping[str, NDArray[np.bool_]]
    shares: Arrays

    @classmethod
    def of(cls, schema: Schema, columns: Columns, mask: Mask, hidden: Mask, drawn: Drawn, copies: int = 1) -> Marginals:
        """From some rows (n, M), of whose observed cells some were `hidden`, and draws for all that was not seen, in
        which rare levels have no share.

        All rows may stand there several times, one time after the other, `copies` in all, with other cells hidden.
        """
        knots: dict[str, NDArray[np.float64]] = {}
        between: dict[str, NDArray[np.bool_]] = {}
        for block in schema.number_blocks:
            values, varies = [], []
            for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
                x, draws = np.asarray(columns[variable.name], dtype=np.float64), drawn.numbers[block.name][:, j]
                seen = x[: len(mask) // copies][mask[: len(mask) // copies, i]]  # each row once
                varies.append(_varies(seen))
                whole = _numbers_of(x, mask[:, i], hidden[:, i], draws)
                values.append(_quantiles(variable, whole, seen, varies[-1]))
            knots[block.name], between[block.name] = np.stack(values, axis=1), np.array(varies)
        shares = {}
        for variable in schema.variables:
            if variable.family in DISCRETE:
                i, x = schema.attribute_of[variable.name], np.asarray(columns[variable.name])
                share = drawn.levels[variable.name]
                told = (share > 0).any(axis=0)  # levels that are not rare
                told = np.asarray(told)[np.where(mask[:, i], x, 0).astype(int)]
                shares[variable.name] = _shares_of(x, mask[:, i] & told, hidden[:, i] & told, share)
        return cls(knots, between, shares)


@dataclass(frozen=True)
class MarginalMap:
    """What brings generated draws to the marginals of the data."""

    marginals: Marginals
    quantiles: Arrays  # of draws, block by block
    shifts: Arrays  # of the log probabilities of levels, per variable

    @classmethod
    def of(cls, schema: Schema, marginals: Marginals, drawn: Drawn) -> MarginalMap:
        """From draws like those to come."""
        quantiles = {block.name: np.quantile(drawn.numbers[block.name], _P, axis=0) for block in schema.number_blocks}
        shifts = {name: shift_to_shares(share, marginals.shares[name]) for name, share in drawn.levels.items()}
        return cls(marginals, quantiles, shifts)

    def __call__(
        self, encoding: Encoding, drawn: Drawn, rng: np.random.Generator, evenly: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Variable → values in natural units, or codes; what never was observed is left out.

        `evenly`: the rows are a sample of the whole, so their ranks are spread over the whole, too.
        """
        out: dict[str, NDArray[Any]] = {}
        for block in encoding.schema.number_blocks:
            x = drawn.numbers[block.name].astype(np.float64)
            observed, between = self.marginals.quantiles[block.name], self.marginals.between[block.name]
            for j in range(len(block)):
                rank = np.interp(x[:, j], self.quantiles[block.name][:, j], _P)
                if evenly and len(rank) >= _ENOUGH_ROWS:
                    rank = (rank.argsort(kind="stable").argsort() + rng.random(len(rank))) / len(rank)
                if between[j]:
                    x[:, j] = np.interp(rank, _P, observed[:, j])
                else:
                    x[:, j] = observed[np.clip(np.searchsorted(_P, rank), 0, _KNOTS - 1), j]
            x = encoding.rounded(block, x)
            seen = ~np.isnan(observed[0])
            out |= {variable.name: x[:, j] for j, variable in enumerate(block.variables) if seen[j]}
        return out | {name: draw_codes(x * np.exp(self.shifts[name]), rng) for name, x in drawn.levels.items()}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        parts = {f"data/{part}": getattr(self.marginals, part) for part in _PARTS}
        parts |= {"draws/quantiles": self.quantiles, "draws/shifts": self.shifts}
        return {f"{part}/{name}": x for part, arrays in parts.items() for name, x in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MarginalMap:
        def part(prefix: str) -> dict[str, NDArray[Any]]:
            return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}

        marginals = Marginals(*(part(f"data/{name}/") for name in _PARTS))
        return cls(marginals, part("draws/quantiles/"), part("draws/shifts/"))


def draw_codes(weight: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A level for each row, in proportion to its weights, (n, levels): systematic sampling, one level after the other.

    The rows are put in a random order, and a level comes up each time its probabilities have added up to one more.
    Each row has its own probabilities, and each level as many rows as they add up to.
    """
    some = np.flatnonzero(weight.any(axis=0))  # the last one gets all rows that are left
    if len(some) < weight.shape[1]:
        return some[draw_codes(weight[:, some], rng)]
    n, levels = weight.shape
    code = np.full(n, levels - 1)
    rows, rest = rng.permutation(n), weight.sum(axis=1)
    for k in range(levels - 1):
        share = weight[rows, k] / np.maximum(rest[rows], 1e-300)
        edges = np.floor(rng.random() + np.cumsum(np.minimum(share, 1.0)))
        hit = np.diff(edges, prepend=0.0) > 0
        code[rows[hit]] = k
        rest[rows] -= weight[rows, k]
        rows = rng.permutation(rows[~hit])
    return code


def _numbers_of(
    x: NDArray[np.float64], observed: NDArray[np.bool_], hidden: NDArray[np.bool_], draws: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The observed values of a column, and one for each missing cell."""
    seen, known = x[observed], x[hidden]
    if len(known) < _FEWEST_CELLS or observed.all():
        return seen
    rank = np.interp(draws[~observed], np.quantile(draws[hidden], _P), _P)
    return np.concatenate([seen, np.quantile(known, rank, method="inverted_cdf")])


def _shares_of(
    x: NDArray[Any], observed: NDArray[np.bool_], hidden: NDArray[np.bool_], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of the levels of a column, from its observed codes and the probabilities, (n, levels), of the missing ones."""
    levels = share.shape[1]
    counts = np.bincount(x[observed].astype(int), minlength=levels).astype(np.float64)
    if hidden.sum() >= _FEWEST_CELLS and not observed.all():
        known = np.bincount(x[hidden].astype(int), minlength=levels) / hidden.sum()
        weight = share[~observed] * np.exp(shift_to_shares(share[hidden], known))
        counts += (weight / weight.sum(axis=1, keepdims=True)).sum(axis=0)
    told = share.any(axis=0)
    return np.maximum(counts / max(counts.sum(), 1.0), _LEAST) * told if counts.any() else told / told.sum()


def shift_to_shares(share: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """What to add to log probabilities, (n, levels), for their mean to be as wanted; (levels,).

    >>> share = np.array([[0.9, 0.1], [0.5, 0.5]])
    >>> shifted = share * np.exp(shift_to_shares(share, np.array([0.5, 0.5])))
    >>> (shifted / shifted.sum(1, keepdims=True)).mean(0).round(3)
    array([0.5, 0.5])
    """
    shift = np.zeros(share.shape[1])
    for _ in range(_SHIFTS if len(share) else 0):
        weight = share * np.exp(shift)
        mean = (weight / weight.sum(axis=1, keepdims=True)).mean(axis=0)
        shift += np.log(np.maximum(wanted, _LEAST) / np.maximum(mean, _LEAST))
    return shift


def _varies(seen: NDArray[np.float64]) -> bool:
    """Whether values lie between those seen.

    >>> [_varies(x) for x in (np.arange(10.0), np.repeat([0.0, 2.5], 5))]
    [True, False]
    """
    count = np.unique(seen, return_counts=True)[1]
    return bool(count[count >= FEWEST].sum() <= _REPEATED * len(seen))


def on_grid(x: NDArray[np.float64], common: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values at a whole number of the least steps that the common ones, rising, are apart; these stay as they are.

    >>> on_grid(np.array([1.0, 1.5, 4.1]), np.array([1.0, 1.5, 3.0]))
    array([1. , 1.5, 4. ])
    """
    if len(common) < 2:
        return x
    step = np.diff(common).min()
    return np.where(np.isin(x, common), x, common[0] + np.rint((x - common[0]) / step) * step)


def _quantiles(
    variable: Variable, x: NDArray[np.float64], seen: NDArray[np.float64], between: bool
) -> NDArray[np.float64]:
    """Of a column whose cells are `x`, of them `seen`: values of several rows, or between them."""
    if not len(x):
        return np.full(_KNOTS, np.nan)
    if not between:
        values, count = np.unique(seen, return_counts=True)
        kept = on_grid(representatives(values, count), values[count >= FEWEST])
        return np.quantile(kept[np.searchsorted(values, x)], _P, method="inverted_cdf")
    if variable.kind is Kind.POSITIVE:
        low, high = np.exp(ends(np.log(seen)))
    else:
        least, most = (default if x is None else x for x, default in ((variable.min, -np.inf), (variable.max, np.inf)))
        low, high = np.clip(ends(seen), least, most)
    return quantiles(x, _P, seen, (low, high))
