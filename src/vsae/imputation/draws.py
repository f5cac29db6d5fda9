"""Draws from p(x_u | x_o, m), the missing cells of a row together; and quantiles of single cells.

p(x_1, x_2, … | x_o) = p(x_1 | x_o) p(x_2 | x_1, x_o) …: attributes are drawn one turn after the other, each given what
was observed and what has been drawn, which the model can, as re-masking has taught it every subset. Without this, cells
that are missing together would be drawn as if they had nothing to do with one another: the proposals are narrow, so
nearly all that varies is each cell's own noise (docs/decisions/0010).

Every random number is keyed by the seed, the draw, the row and the variable, so a row's draws do not depend on the rows
beside it, nor on the chunk it comes in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.randomness import keyed_uniform
from vsae.data.schema import DISCRETE, Block, Family
from vsae.imputation.image_draws import can_draw_images, draw_images
from vsae.imputation.imputer import Imputer
from vsae.imputation.latent_draws import draw_by_latents
from vsae.imputation.parameter_uncertainty import ParameterUncertainty
from vsae.imputation.point import estimates, impute
from vsae.imputation.predictive import LATENT_DRAWS, Predictive, predict

_TABLE = -1  # in the place of a row number: what a drawn table has in common
_VALUE, _PLACE = 0, 1  # streams of random numbers: the rank of a value, and which distribution it is the rank of


def draw(
    imputer: Imputer[Any],
    columns: Columns,
    mask: Mask,
    n: int,
    *,
    seed: int = 0,
    row_ids: NDArray[np.int64] | None = None,
    images: bool = True,
) -> list[dict[str, NDArray[Any]]]:
    """`n` completed tables; rows are told apart by their ids, their numbers if none are given. Images take long, and
    may be left as they come."""
    if n < 1:
        raise ValueError(f"asked for {n} draws; ask for at least 1")
    row_ids = np.arange(len(mask)) if row_ids is None else row_ids
    if not imputer.knows_every_subset:
        stacked = draw_by_latents(imputer, columns, mask, n, seed)
        tables = [
            imputer.fill(columns, mask, imputer.encoding.decode({name: x[i] for name, x in stacked.items()}))
            for i in range(n)
        ]
    else:
        tables = _draw_in_turns(imputer, columns, mask, n, seed, row_ids)
    if images and can_draw_images(imputer.model):
        for i, table in enumerate(tables):
            draw_images(imputer, table, mask, i, seed, row_ids)
    return tables


def quantiles(
    imputer: Imputer[Any], columns: Columns, mask: Mask, levels: Sequence[float], *, draws: int = 200, seed: int = 0
) -> list[dict[str, NDArray[Any]]]:
    """For each level a table whose missing numbers are that quantile of theirs; levels are the likeliest.

    Where the distribution of a cell is not known, they are quantiles of so many draws.
    """
    if imputer.knows_every_subset:
        cuts = _predicted_quantiles(imputer, columns, mask, levels)
    else:
        numbers = {block.name for block in imputer.schema.standardised_blocks}
        drawn = draw_by_latents(imputer, columns, mask, draws, seed)
        cuts = {name: np.quantile(x, levels, axis=0) for name, x in drawn.items() if name in numbers}
    return _at(imputer, columns, mask, levels, cuts)


def _at(
    imputer: Imputer[Any], columns: Columns, mask: Mask, levels: Sequence[float], cuts: Mapping[str, NDArray[Any]]
) -> list[dict[str, NDArray[Any]]]:
    """Tables of quantiles (levels, rows, …) by block, in standard units."""
    middle = impute(imputer, columns, mask)
    tables = []
    for i in range(len(levels)):  # units are monotone, so a quantile may be taken before them
        natural = imputer.encoding.decode({name: x[i] for name, x in cuts.items()})
        if imputer.relations is not None and imputer.knows_every_subset:
            ranks = {name: np.full(len(mask), levels[i]) for name in imputer.relations.names}
            natural = imputer.relations.quantiles(columns, mask, ranks, natural)
        tables.append(imputer.fill(columns, mask, {**middle, **natural}))
    return tables


def median(imputer: Imputer[Any], columns: Columns, mask: Mask) -> dict[str, NDArray[Any]]:
    """Every missing cell filled with its median (numbers, ordered levels) or mode (other levels).

    The median of a number is that of trees where they tell it better; then it need not be the quantile of .5, whose
    distribution is of errors around the estimate. Of a column that masks itself it is never that of trees, who know
    observed cells alone. The median of a number that only has a few values is one of these.
    """
    by_trees = [] if imputer.blend is None else [n for n in imputer.blend.medians if not imputer.tilts.moves(n)]
    if by_trees:
        cuts = _predicted_quantiles(imputer, columns, mask, [0.5], by_trees)
        filled = _at(imputer, columns, mask, [0.5], cuts)[0]
    else:
        filled = quantiles(imputer, columns, mask, [0.5])[0]
    filled = imputer.fill(columns, mask, {**filled, **imputer.encoding.nearest_settings(filled)})
    ordered = [v.name for v in imputer.schema.variables if v.family is Family.CUMULATIVE]
    if ordered:
        shares = estimates(imputer, columns, mask)
        middle = {name: (shares[name].cumsum(axis=1) < 0.5).sum(axis=1) for name in ordered}
        filled = imputer.fill(columns, mask, {**filled, **middle})
    return filled


def _predicted_quantiles(
    imputer: Imputer[Any], columns: Columns, mask: Mask, levels: Sequence[float], by_trees: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """(levels, rows, …) per block of numbers or vectors, in standard units; of some variables, the median of trees."""
    blocks = imputer.schema.standardised_blocks
    parts: dict[str, list[NDArray[Any]]] = {block.name: [] for block in blocks}
    for _, batch in imputer.chunks(columns, mask, LATENT_DRAWS):
        known = predict(imputer, batch, [block.name for block in blocks], medians=by_trees)
        for block in blocks:
            estimate = known.numbers[block.name].estimate
            ranks, every = (torch.full_like(estimate, level) for level in levels), range(len(block))
            cuts = torch.stack([known.quantile(block.name, every, rank) for rank in ranks])
            if by_trees and block in imputer.schema.number_blocks:
                median = known.medians_of_trees(block).to(cuts)
                cuts = torch.where(median.isnan(), cuts, median)
            parts[block.name].append(cuts.cpu().numpy())
    return {name: np.concatenate(part, axis=1) for name, part in parts.items()}


def _draw_in_turns(
    imputer: Imputer[Any], columns: Columns, mask: Mask, n: int, seed: int, row_ids: NDArray[np.int64]
) -> list[dict[str, NDArray[Any]]]:
    tables: list[dict[str, NDArray[Any]]] = [
        {name: np.asarray(x).copy() for name, x in columns.items()} for _ in range(n)
    ]
    gaussian = imputer.model.linear_imputation()
    common = None
    if gaussian is not None and len(gaussian.moments):
        common = ParameterUncertainty(imputer.model, gaussian, n, seed)
    incomplete = np.flatnonzero(~mask.all(axis=1))
    for start, length in imputer.ranges(len(incomplete), n * LATENT_DRAWS):
        rows = incomplete[start : start + length]
        some = {name: np.asarray(x)[rows] for name, x in columns.items()}
        sequence = _Sequence.begin(imputer, some, mask[rows], n, seed, row_ids[rows], common)
        for attributes in attributes_by_turn(imputer):
            sequence.take_turn(attributes)
        for i, table in enumerate(tables):
            part = {name: x[i * length : (i + 1) * length] for name, x in sequence.columns.items()}
            filled = imputer.fill(some, mask[rows], part)
            for name, x in filled.items():
                table[name][rows] = x
    return tables


def attributes_by_turn(imputer: Imputer[Any]) -> Iterator[list[int]]:
    """The attributes of each turn; none of the context, which stays as it is."""
    turns = np.arange(len(imputer.schema)) if imputer.turns is None else imputer.turns.copy()
    turns[imputer.schema.context] = -1
    for turn in range(int(turns.max()) + 1):
        if (turns == turn).any():
            yield np.flatnonzero(turns == turn).tolist()


@dataclass
class _Sequence:
    """Rows, each as often as there are draws (draw-major), that are filled one turn after the other."""

    imputer: Imputer[Any]
    columns: dict[str, NDArray[Any]]  # natural units, filled so far
    batch: Batch  # the same in standard units, with what is known so far as its mask
    missing: Mask  # what was missing at the beginning
    draw: Tensor
    row: Tensor
    seed: int
    common: ParameterUncertainty | None

    @classmethod
    def begin(
        cls,
        imputer: Imputer[Any],
        columns: Columns,
        mask: Mask,
        n: int,
        seed: int,
        row_ids: NDArray[np.int64],
        common: ParameterUncertainty | None,
    ) -> _Sequence:
        every = {name: np.tile(x, (n, *[1] * (x.ndim - 1))) for name, x in columns.items()}
        known = np.tile(mask, (n, 1))
        batch = imputer.encoding.encode(every, known).to(imputer.device)
        floats = {
            v.name: every[v.name].astype(np.float64)
            for block in imputer.schema.standardised_blocks
            for v in block.variables
        }
        draw, row = (torch.from_numpy(x) for x in (np.repeat(np.arange(n), len(mask)), np.tile(row_ids, n)))
        return cls(
            imputer, every | floats, batch, ~known, draw.to(imputer.device), row.to(imputer.device), seed, common
        )

    @torch.no_grad()
    def take_turn(self, attributes: list[int]) -> None:
        """Draw some attributes, in the rows that miss one of them."""
        rows = np.flatnonzero(self.missing[:, attributes].any(axis=1))
        blocks = [
            block
            for block in self.imputer.schema.blocks
            if block.family is not Family.IMAGE and set(block.attributes) & set(attributes)
        ]
        if not len(rows) or not blocks:
            return
        at = torch.from_numpy(rows).to(self.imputer.device)
        known = self.batch.take(at).for_members()
        predicted = predict(self.imputer, known, [block.name for block in blocks], attributes=attributes)
        slopes = {name: self._slopes(name, at) for name in predicted.slopes}
        predicted = replace(predicted, slopes=slopes)
        for block in blocks:
            variables = [j for j, i in enumerate(block.attributes) if i in attributes]
            if block.family in DISCRETE:
                rank = self._uniform(at, block, variables).cpu().numpy()
                names = [block.variables[j].name for j in variables]
                codes = [predicted.level(name, u) for name, u in zip(names, rank.T, strict=True)]
                self._set(block, variables, rows, np.stack(codes, axis=1))
            else:
                self._set(block, variables, rows, self._numbers(predicted, known, at, block, variables))
        missing = torch.from_numpy(self.missing[rows][:, attributes]).to(self.imputer.device)
        self.batch.mask[at[:, None], torch.tensor(attributes, device=at.device)] |= missing

    def _slopes(self, name: str, at: Tensor) -> Tensor:
        """(rows, variables): of the tilts of a block, which differ from drawn table to drawn table, as they are not
        known for certain."""
        names = [variable.name for variable in self.imputer.schema.block[name].variables]
        every = [variable.name for variable in self.imputer.schema.variables]
        keys = torch.tensor([2 * every.index(n) for n in names], device=at.device)
        table = torch.full_like(self.draw[at, None], _TABLE)
        deviate = torch.special.ndtri(keyed_uniform(self.seed, self.draw[at, None], table, keys))
        slopes = self.imputer.tilts.slopes(names, deviate)
        assert slopes is not None
        return slopes

    def _uniform(self, at: Tensor, block: Block, variables: list[int], stream: int = _VALUE) -> Tensor:
        """(rows, variables[, d]): keyed by draw, row and variable."""
        names = [variable.name for variable in self.imputer.schema.variables]
        keys = torch.tensor([2 * names.index(block.variables[j].name) + stream for j in variables], device=at.device)
        draw, row = self.draw[at, None], self.row[at, None]
        if block.family is not Family.VECTOR:
            return keyed_uniform(self.seed, draw, row, keys)
        return keyed_uniform(
            self.seed, draw[..., None], row[..., None], keys[:, None], torch.arange(block.width, device=at.device)
        )

    def _numbers(
        self, predicted: Predictive, known: Batch, at: Tensor, block: Block, variables: list[int]
    ) -> NDArray[np.float64]:
        """(rows, variables[, d]) in natural units."""
        rank, chance = self._uniform(at, block, variables), None
        if block.family is not Family.VECTOR:
            chance = self._uniform(at, block, variables, _PLACE)
            if self.common is not None:
                deviate = self.common.shared(torch.special.ndtri(rank), known, self.draw[at], block, variables)
                rank = torch.special.ndtr(deviate)
        y = np.zeros((len(at), len(block), *block.event))
        y[:, variables] = predicted.quantile(block.name, variables, rank, chance).cpu().numpy()
        natural = self.imputer.encoding.decode({block.name: y})
        names = [block.variables[j].name for j in variables]
        if self.imputer.relations is not None and block.family is not Family.VECTOR:
            shown, rows = known.mask[0].cpu().numpy(), at.cpu().numpy()
            columns = {name: self.columns[name][rows] for name in self.imputer.relations.names}
            ranks = dict(zip(names, rank.cpu().numpy().T, strict=True))
            natural = self.imputer.relations.quantiles(columns, shown, ranks, natural)
        return np.stack([natural[name] for name in names], axis=1).astype(np.float64)

    def _set(self, block: Block, variables: list[int], rows: NDArray[np.intp], values: NDArray[Any]) -> None:
        """Where they were missing, in both units."""
        if block.family in DISCRETE:
            encoded = torch.from_numpy(values)
        else:
            every = np.full((len(values), len(block), *block.event), np.nan)
            every[:, variables] = values
            encoded = self.imputer.encoding.encode_numbers(block, every)[:, variables]
        target = self.batch.values[block.name]
        for k, j in enumerate(variables):
            missing = self.missing[rows, block.attributes[j]]
            self.columns[block.variables[j].name][rows[missing]] = values[missing, k]
            target[torch.from_numpy(rows[missing]).to(target.device), j] = encoded[missing, k].to(target)
