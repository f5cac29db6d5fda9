"""One Gibbs sweep over rows drawn from p(z): each value is dealt anew, given what the rest of its row says.

z → m → x gives every cell noise of its own, so two columns that say the same thing come apart. Re-masking has taught
the model each cell given any others, and these conditionals, by which missing cells are drawn, are sharp. First the
observed cells of a row are drawn again, one turn after the other, each given the other observed ones; then those that
its mask hides, given all that stands there by then. So a cell is asked for as it was in training, and what a mask says
of its row is not lost.

Conditionals that are a little off would make columns drift. So a sweep makes no new values: those that a column has in
observed cells change places among these, those it has in hidden cells among these, and the draws say where to. Only
where a column masks itself are the hidden cells the draws themselves, which are tilted (tilts.py): p(z) has learned
from observed cells what a column holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.schema import DISCRETE, Block
from vsae.generation.marginals import draw_codes, shift_to_shares
from vsae.generation.rare_levels import Common, without_rare
from vsae.imputation.draws import attributes_by_turn
from vsae.imputation.imputer import Imputer
from vsae.imputation.predictive import Predictive, predict
from vsae.model.vsae import VSAE

FEWEST_ROWS = 500  # among which values change places: with fewer, a draw would hardly find the value it asks for


@torch.no_grad()
def sweep(
    imputer: Imputer[VSAE],
    columns: Columns,
    mask: Mask,
    fixed: tuple[int, ...],
    rng: np.random.Generator,
    common: Common | None = None,
) -> dict[str, NDArray[Any]]:
    """Complete rows of numbers and levels, and their masks (n, M) → the rows; `fixed` attributes stay as they were, and
    levels that are not `common` come up nowhere."""
    rows = _Rows.of(imputer, columns, mask, rng, common or {})
    free = [kept for turn in attributes_by_turn(imputer) if (kept := [i for i in turn if i not in fixed])]
    for attributes in free:
        rows.show(attributes, np.zeros_like(mask))
        rows.deal(attributes, mask, missing=False)
        rows.show(attributes, mask)
    for attributes in free:
        rows.deal(attributes, ~mask, missing=True)
        rows.show(attributes, np.ones_like(mask))
    return rows.columns


@dataclass(frozen=True)
class _Rows:
    """Generated rows during a sweep; what they hold changes in place."""

    imputer: Imputer[VSAE]
    columns: dict[str, NDArray[Any]]  # natural units
    batch: Batch  # the same in standard units; its mask: what the model is shown
    rng: np.random.Generator
    common: Common

    @classmethod
    def of(
        cls, imputer: Imputer[VSAE], columns: Columns, mask: Mask, rng: np.random.Generator, common: Common
    ) -> _Rows:
        batch = imputer.encoding.encode(columns, np.ones_like(mask)).to(imputer.device)
        shown = torch.from_numpy(mask.copy()).to(imputer.device)
        return cls(imputer, {name: np.array(x) for name, x in columns.items()}, Batch(batch.values, shown), rng, common)

    def show(self, attributes: list[int], shown: Mask) -> None:
        self.batch.mask[:, attributes] = torch.from_numpy(shown[:, attributes]).to(self.batch.mask.device)

    def deal(self, attributes: list[int], cells: Mask, missing: bool) -> None:
        """Some attributes, in the rows where `cells` (n, M) says so: the values of these cells change places, or are as
        drawn."""
        rows = np.flatnonzero(cells[:, attributes].any(axis=1))
        blocks = [block for block in self.imputer.schema.blocks if set(block.attributes) & set(attributes)]
        if not len(rows):
            return
        tilts = self.imputer.tilts
        tilted = {*tilts.numbers, *tilts.levels, *tilts.thresholds} if missing else set()
        shown = self.batch.take(torch.from_numpy(rows).to(self.imputer.device)).for_members()
        predicted = predict(
            self.imputer, shown, [block.name for block in blocks], attributes=attributes, missing=missing
        )
        levels = without_rare(predicted.levels, self.common)
        for block in blocks:
            variables = [j for j, i in enumerate(block.attributes) if i in attributes]
            names = [block.variables[j].name for j in variables]
            chosen = [cells[rows, block.attributes[j]] for j in variables]
            if block.family in DISCRETE:
                for j, name, at in zip(variables, names, chosen, strict=True):
                    self._deal_levels(block, j, rows[at], levels[name][at], name in tilted)
                continue
            drawn = self._numbers(predicted, block, variables, len(rows))
            natural, standard = self._as_cells(block, variables, drawn)
            for k, (j, name, at) in enumerate(zip(variables, names, chosen, strict=True)):
                if name in tilted:
                    self._set(block, j, rows[at], natural[at, k], standard[at, k])
                else:
                    self._deal_numbers(block, j, rows[at], drawn[at, k])

    def _set(self, block: Block, j: int, rows: NDArray[np.intp], natural: NDArray[Any], standard: Tensor) -> None:
        """A variable in some rows, in both units."""
        self.columns[block.variables[j].name][rows] = natural
        values = self.batch.values[block.name]
        values[torch.from_numpy(rows).to(values.device), j] = standard.to(values)

    def _numbers(self, predicted: Predictive, block: Block, variables: list[int], n: int) -> NDArray[np.float64]:
        """(n, variables) in standard units."""
        rank, chance = torch.from_numpy(self.rng.random((2, n, len(variables)))).to(self.imputer.device)
        return predicted.quantile(block.name, variables, rank, chance).double().cpu().numpy()

    def _as_cells(
        self, block: Block, variables: list[int], drawn: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], Tensor]:
        """(n, variables) in natural units, with the decimals and bounds of the columns, and in standard ones."""
        y = np.zeros((len(drawn), len(block)))
        y[:, variables] = drawn
        decoded = self.imputer.encoding.decode({block.name: y})
        natural = np.stack([decoded[variable.name] for variable in block.variables], axis=1)
        return natural[:, variables], self.imputer.encoding.encode_numbers(block, natural)[:, variables]

    def _deal_numbers(self, block: Block, j: int, rows: NDArray[np.intp], drawn: NDArray[np.float64]) -> None:
        """The row with the lowest draw gets the lowest value, and so on; ties at random."""
        column, values = self.columns[block.variables[j].name], self.batch.values[block.name]
        source = np.empty_like(rows)
        source[np.lexsort((self.rng.random(len(rows)), drawn))] = rows[column[rows].argsort(kind="stable")]
        self._set(block, j, rows, column[source], values[torch.from_numpy(source).to(values.device), j])

    def _deal_levels(
        self, block: Block, j: int, rows: NDArray[np.intp], share: NDArray[np.float64], tilted: bool
    ) -> None:
        """Each level as often as it was, but for what chance rounds; or, if it is tilted, as often as drawn."""
        if not len(rows):
            return
        if not tilted:
            codes = self.columns[block.variables[j].name][rows].astype(int)
            share = share * np.exp(shift_to_shares(share, np.bincount(codes, minlength=share.shape[1]) / len(rows)))
        drawn = draw_codes(share, self.rng)
        self._set(block, j, rows, drawn, torch.from_numpy(drawn))
