"""Generated numbers with the distribution of the data's, column by column.

A decoder's Gaussian does not know that a column has zeros in nine rows of ten, ends at 40 or comes in halves. So a
generated number keeps its rank and takes the value of that rank in the data: the dependence between columns is the
model's, each column's own distribution is the data's. `Marginals` holds some hundred quantiles of each column, not its
cells.

What is observed need not be distributed as what is missing: high incomes hide, old patients skip a test. So the data's
distribution is that of the observed cells and of draws for the missing ones, the draws first mapped by rank to values,
as known cells that were hidden for the purpose have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsae.encoding import Columns, Mask, numeric_blocks
from vsae.schema import Block, Family, Schema

_KNOTS = 512
_FEW_VALUES = 64  # a column with no more distinct values has nothing between them
_MOST_DECIMALS = 6
_FEWEST_CELLS = 20  # to learn from what draws for missing cells are worth
_P = np.concatenate([[0.0], (np.arange(_KNOTS - 2) + 0.5) / (_KNOTS - 2), [1.0]])

Blocks = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Marginals:
    """Per block of numbers: quantiles, (knots, variables), of generated numbers in standard units, and of the data's in
    natural units; (variables,) each, whether values lie between the quantiles, and how many decimals they have.
    """

    generated: Blocks
    observed: Blocks
    between: Mapping[str, NDArray[np.bool_]]
    decimals: Mapping[str, NDArray[np.int64]]  # -1: as they come

    @classmethod
    def fit(
        cls, schema: Schema, columns: Columns, mask: Mask, hidden: Mask, drawn: Blocks, generated: Blocks
    ) -> Marginals:
        """From some rows (n, M), of whose observed cells some were `hidden`, and draws for all that was not seen;
        and from generated rows. Both in standard units, block by block.
        """
        ours: dict[str, NDArray[np.float64]] = {}
        theirs: dict[str, NDArray[np.float64]] = {}
        between: dict[str, NDArray[np.bool_]] = {}
        decimals: dict[str, NDArray[np.int64]] = {}
        for block in _number_blocks(schema):
            values = []
            for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
                x, draws = np.asarray(columns[variable.name], dtype=np.float64), drawn[block.name][:, j]
                values.append(_data_of(x, mask[:, i], hidden[:, i], draws))
            ours[block.name] = np.quantile(generated[block.name].astype(np.float64), _P, axis=0)
            theirs[block.name] = np.stack([_quantiles(x) for x in values], axis=1)
            between[block.name] = np.array([len(np.unique(x)) > _FEW_VALUES for x in values])
            decimals[block.name] = np.array([_decimals(x) for x in values])
        return cls(ours, theirs, between, decimals)

    def __call__(self, schema: Schema, values: Blocks) -> dict[str, NDArray[np.float64]]:
        """Generated numbers in standard units, block by block → variable → natural units."""
        out: dict[str, NDArray[np.float64]] = {}
        for block in _number_blocks(schema):
            for j, variable in enumerate(block.variables):
                observed = self.observed[block.name][:, j]
                if np.isnan(observed).any():  # never observed
                    continue
                rank = np.interp(values[block.name][:, j], self.generated[block.name][:, j], _P)
                if self.between[block.name][j]:
                    x = np.interp(rank, _P, observed)
                    digits = int(self.decimals[block.name][j])
                    out[variable.name] = np.round(x, digits) if digits >= 0 else x
                else:
                    out[variable.name] = observed[np.clip(np.searchsorted(_P, rank), 0, _KNOTS - 1)]
        return out


def _number_blocks(schema: Schema) -> list[Block]:
    return [block for block in numeric_blocks(schema) if block.family is not Family.VECTOR]


def _data_of(
    x: NDArray[np.float64], observed: NDArray[np.bool_], hidden: NDArray[np.bool_], draws: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The observed values of a column, and one for each missing cell."""
    seen, known = x[observed], x[hidden]
    if len(known) < _FEWEST_CELLS or observed.all():
        return seen
    rank = np.interp(draws[~observed], np.quantile(draws[hidden], _P), _P)
    return np.concatenate([seen, np.quantile(known, rank, method="inverted_cdf")])


def _quantiles(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.quantile(x, _P, method="inverted_cdf") if len(x) else np.full(_KNOTS, np.nan)


def _decimals(x: NDArray[np.float64]) -> int:
    """The fewest decimals that all numbers have, or -1 if they are many.

    >>> _decimals(np.array([1.5, 2.25])), _decimals(np.array([3.0])), _decimals(np.array([1 / 3]))
    (2, 0, -1)
    """
    for digits in range(_MOST_DECIMALS + 1):
        if np.array_equal(np.round(x, digits), x):
            return digits
    return -1
