"""p(m | x) of complete rows: logistic regressions of masks, one attribute after the other.

    p(m | x) = Π_j p(m_j | x, m_1, …, m_{j-1})

They are fitted to drawn tables, whose missing cells hold what the model believes of them. Where a column masks itself,
its draws are tilted, and the regression on its own value finds the slope of the tilt again; where it does not, its
draws follow from the rest of the row, and its own value adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.data.schema import DISCRETE
from vsae.imputation.draws import draw
from vsae.imputation.imputer import Imputer
from vsae.mechanism.logistic import fit_logistic
from vsae.mechanism.regressors import frequent_levels

_FEWEST_CELLS = 10  # missing, and observed: with fewer, a mask depends on nothing
_MOST_REGRESSORS = 60
_LEAST_RIDGE = 3.0  # log odds per standard deviation
_LEAST_EXCESS = 1e-3  # over what chance explains: with so little, a mask depends on nothing
_FARTHEST = 4.0  # standard deviations
_MOST_ROWS, _FEWEST_ROWS, _MOST_CELLS = 2000, 500, 150_000  # that are drawn to fit them: bounds the time
_MOST_DRAWS = 5  # of few rows
_WIDE, _TURNS_OF_WIDE = 256, 8  # columns, of which more are drawn together: a regression has few of them
_AT_ONCE = 64  # attributes whose scores are one product
_LEAST_STD = 1e-6
_LEAST = 1e-300  # probability
_NEVER = 30.0  # log odds of a column that never misses a cell are as far below 0


@dataclass(frozen=True)
class MaskRegressions:
    """Log odds that a cell is missing: intercept + values · x + masks · (1 - m), x in standard units and indicators."""

    levels: Mapping[str, Sequence[int]]  # that have an indicator, by variable
    intercept: NDArray[np.float64]  # (M,)
    values: NDArray[np.float64]  # (M, P)
    masks: NDArray[np.float64]  # (M, M), of the attributes before: below the diagonal

    @classmethod
    def fit(cls, encoding: Encoding, tables: Sequence[Columns], mask: Mask) -> MaskRegressions:
        """From completed tables and the mask they had; each stands for its share of the rows."""
        schema = encoding.schema
        discrete = [v for v in schema.variables if v.family in DISCRETE]
        levels = {v.name: frequent_levels(v, np.concatenate([table[v.name] for table in tables])) for v in discrete}
        x = np.concatenate([_features(encoding, table, levels) for table in tables])
        missing = np.tile((~mask).astype(np.float64), (len(tables), 1))
        every = np.concatenate([x, missing], axis=1)
        mean, std = every.mean(axis=0), np.maximum(every.std(axis=0), _LEAST_STD)
        z = (every - mean) / std
        count, overlap = (~mask).sum(axis=0), _overlap(z[: len(mask)])
        found = cls(levels, np.zeros(len(schema)), np.zeros((len(schema), x.shape[1])), np.zeros((len(schema),) * 2))
        for i, (y, score) in enumerate(zip(missing.T, _scores(missing, z), strict=True)):
            if not _FEWEST_CELLS <= count[i] <= len(mask) - _FEWEST_CELLS:
                with np.errstate(divide="ignore"):
                    found.intercept[i] = np.clip(np.log(count[i]) - np.log(len(mask) - count[i]), -_NEVER, _NEVER)
                continue
            score = score[: x.shape[1] + i] / len(tables)
            kept = _largest(np.abs(score), _MOST_REGRESSORS)
            ridge = _ridge(score, len(mask) * y.mean() * (1 - y.mean()), overlap)
            beta = fit_logistic(z[:, kept], y, ridge * len(tables))
            slope = np.zeros(z.shape[1])
            slope[kept] = beta[1:] / std[kept]
            found.intercept[i] = beta[0] - slope @ mean
            found.values[i], found.masks[i] = np.split(slope, [x.shape[1]])
        return found

    def log_likelihood(self, encoding: Encoding, columns: Columns, mask: Mask) -> NDArray[np.float64]:
        """log p(m | x) of rows (n,) whose cells are all known."""
        missing = (~mask).astype(np.float64)
        odds = _features(encoding, columns, self.levels) @ self.values.T + self.intercept + missing @ self.masks.T
        odds = np.clip(odds, -_NEVER, _NEVER)
        return np.asarray((missing * odds - np.logaddexp(0.0, odds)).sum(axis=1), dtype=np.float64)

    def sample(
        self, encoding: Encoding, columns: Columns, mask: Mask, uniform: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """A mask for each row, whose cells are all known, from numbers (n, M) between 0 and 1. What `mask` hides is
        hidden."""
        return self._hidden(encoding, columns, uniform, lambda i, odds: ~mask[:, i] | (odds > 0))

    def deal(self, encoding: Encoding, columns: Columns, mask: Mask, uniform: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The same, but of each column as many cells are hidden as `mask` hides: masks change places among the rows."""
        counts = (~mask).sum(axis=0)
        return self._hidden(
            encoding, columns, uniform, lambda i, odds: odds.argsort().argsort() >= len(mask) - counts[i]
        )

    def _hidden(
        self, encoding: Encoding, columns: Columns, uniform: NDArray[np.float64],
        hides: Callable[[int, NDArray[np.float64]], NDArray[np.bool_]],
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Attribute by attribute, by log odds to which logistic noise was added: they are above 0 in p of the cases."""
        odds = _features(encoding, columns, self.levels) @ self.values.T + self.intercept
        noise = np.log(np.maximum(1 - uniform, _LEAST)) - np.log(np.maximum(uniform, _LEAST))
        found = np.ones(odds.shape, dtype=bool)
        for i in range(odds.shape[1]):
            found[:, i] = ~hides(i, np.clip(odds[:, i], -_NEVER, _NEVER) + noise[:, i])
            odds[:, i + 1 :] += np.outer(~found[:, i], self.masks[i + 1 :, i])
        return found

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """All but the levels."""
        return {"intercept": self.intercept, "values": self.values, "masks": self.masks}


def _scores(y: NDArray[np.float64], z: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Of slopes at 0, in a regression of each y (n, M) on all z (n, p): (p,) each, many of them as one product."""
    for start in range(0, y.shape[1], _AT_ONCE):
        some = y[:, start : start + _AT_ONCE]
        yield from (some - some.mean(axis=0)).T @ z


def _largest(x: NDArray[np.float64], number: int) -> NDArray[np.int64]:
    """Where the largest numbers are, in order; of equal ones the first, on whatever processor.

    >>> _largest(np.array([0.2, 0.9, 0.1, 0.5, 0.5]), 2)
    array([1, 3])
    """
    if len(x) <= number:
        return np.arange(len(x))
    least = np.partition(x, -number)[-number]
    above, equal = np.flatnonzero(x > least), np.flatnonzero(x == least)
    return np.sort(np.concatenate([above, equal[: number - len(above)]]))


def _ridge(score: NDArray[np.float64], information: float, overlap: float = 1.0) -> float:
    """As strong as chance could explain the scores of slopes at 0, whose variance is `information` by chance alone.

    If slopes had a variance of τ², the squares of their scores would have the mean i + i² τ² · overlap, since each
    has part in the slopes of all regressors that go with its own. The ridge is 1 / τ².

    >>> rng = np.random.default_rng(0)
    >>> by_chance, strong = (_ridge(deviation * rng.normal(size=1000), 100.0) for deviation in (10, 30))
    >>> by_chance > 1000, 10 < strong < 15
    (True, True)
    """
    if not len(score):
        return _LEAST_RIDGE
    excess = (score**2).mean() / information - 1
    return float(max(_LEAST_RIDGE, information * overlap / max(excess, _LEAST_EXCESS)))


def _overlap(z: NDArray[np.float64]) -> float:
    """The sum of squared correlations of a standardised column (n, p) with all, its own included; mean over columns.

    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> round(_overlap((x / x.std()).repeat(5, axis=1)), 1)
    5.0
    """
    n, p = z.shape
    product = z.T @ z if p <= n else z @ z.T  # the same sum of squares
    return float((product**2).sum() / (n**2 * p))


def fit_mask_regressions(imputer: Imputer[Any], columns: Columns, mask: Mask, seed: int = 0) -> MaskRegressions:
    """From draws of a table, or of a sample of its rows."""
    most = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_CELLS // mask.shape[1]))
    rows = np.sort(np.random.default_rng(seed).permutation(len(mask))[:most])
    some = {name: np.asarray(x)[rows] for name, x in columns.items()}
    n = max(1, min(_MOST_DRAWS, most // len(rows), _MOST_CELLS // mask[rows].size))
    if imputer.turns is not None and mask.shape[1] > _WIDE:
        imputer = replace(imputer, turns=imputer.turns * _TURNS_OF_WIDE // (imputer.turns.max() + 1))
    tables = draw(imputer, some, mask[rows], n, seed=seed, images=False)
    return MaskRegressions.fit(imputer.encoding, tables, mask[rows])


def _features(encoding: Encoding, columns: Columns, levels: Mapping[str, Sequence[int]]) -> NDArray[np.float64]:
    """(n, P): numbers in standard units, and indicators of levels."""
    blocks, n = encoding.schema.number_blocks, len(next(iter(columns.values())))
    parts: list[NDArray[Any]] = [np.zeros((n, 0))]
    for block in blocks:
        x = np.stack([np.asarray(columns[v.name], dtype=np.float64) for v in block.variables], axis=1)
        y = encoding.encode_numbers(block, x)
        parts.append((y if y.dim() == 2 else y[..., 0]).clamp(-_FARTHEST, _FARTHEST).numpy())
    for name, kept in levels.items():
        parts.append(np.asarray(columns[name]).astype(int)[:, None] == np.array(kept, dtype=int))
    return np.concatenate(parts, axis=1).astype(np.float64)
