"""What a fit gives: a model that imputes, draws, generates, embeds and is kept in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.columns import Columns, Mask
from vsae.data.randomness import keyed_uniform, private_rng
from vsae.data.schema import DISCRETE
from vsae.fitting.parts import Kept, Parts, Shared, blank_rows, refuse_damaged, shared_parts
from vsae.generation import density, masks
from vsae.generation.conditions import Condition
from vsae.generation.marginals import MarginalMap
from vsae.generation.rare_levels import Common, refuse_rare, ungenerated
from vsae.generation.rows import RowGenerator, generating_members
from vsae.generation.sweeps import FEWEST_ROWS, sweep
from vsae.imputation import draws as drawing
from vsae.imputation import point
from vsae.imputation.blend import Blend
from vsae.imputation.imputer import Imputer, finite
from vsae.imputation.linear_relations import LinearRelations
from vsae.imputation.predictive import LATENT_DRAWS
from vsae.imputation.tilts import Tilts
from vsae.mechanism.mask_regressions import MaskRegressions
from vsae.model.forest import Forest
from vsae.model.latent_model import ModelT
from vsae.model.vsae import VSAE
from vsae.storage import checkpoint
from vsae.storage.typed import typed
from vsae.training.history import History

Generated = tuple[dict[str, NDArray[Any]], Mask]


@dataclass
class FittedModel(Imputer[ModelT]):
    """Any fitted model, VSAE or baseline. All methods take and give natural units.

    `weighted` draws are importance samples: they are weighted by how well they explain what is observed, so a few
    hundred are wanted. None: as the model does it by itself.
    """

    history: History = field(default_factory=History)

    def impute(
        self, columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
    ) -> dict[str, NDArray[Any]]:
        """Every missing cell filled with its mean (numbers) or mode (levels): see point.py."""
        return point.impute(self, columns, mask, draws=draws, weighted=weighted)

    def estimates(
        self, columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
    ) -> dict[str, NDArray[Any]]:
        """Per variable: means of numbers (n,) and vectors (n, d), probabilities of levels (n, levels)."""
        return point.estimates(self, columns, mask, draws=draws, weighted=weighted)

    def probabilities(
        self, columns: Columns, mask: Mask, *, draws: int | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """P(level | x_o, m) of every discrete variable, (n, levels); observed cells come from their own latent."""
        levels = {v.name for v in self.schema.variables if v.family in DISCRETE}
        return {n: x for n, x in self.estimates(columns, mask, draws=draws).items() if n in levels}

    def draw(
        self, columns: Columns, mask: Mask, n: int, *, seed: int = 0, row_ids: NDArray[np.int64] | None = None
    ) -> list[dict[str, NDArray[Any]]]:
        """`n` completed tables, the missing cells of a row drawn together from p(x_u | x_o, m): see draws.py."""
        return drawing.draw(self, columns, mask, n, seed=seed, row_ids=row_ids)

    def median(self, columns: Columns, mask: Mask) -> dict[str, NDArray[Any]]:
        """Every missing cell filled with its median (numbers, ordered levels) or mode (other levels).

        Where trees tell a number better, it is their median, which need not be the quantile of .5.
        """
        return drawing.median(self, columns, mask)

    def quantiles(
        self, columns: Columns, mask: Mask, levels: Sequence[float], *, draws: int = 200, seed: int = 0
    ) -> list[dict[str, NDArray[Any]]]:
        """For each level a table whose missing numbers are that quantile of theirs; levels are the likeliest."""
        return drawing.quantiles(self, columns, mask, levels, draws=draws, seed=seed)


@dataclass
class FittedVSAE(Kept, FittedModel[VSAE]):
    """A fitted model that also generates, embeds and is kept in files."""

    marginal_map: MarginalMap | None = None  # of generated rows; None: they are as they are decoded
    mask_regressions: MaskRegressions | None = None  # p(m | x) of complete rows
    common: Common = field(default_factory=dict)  # levels that are generated

    # --- rows and their masks

    def missing_probability(self, columns: Columns, mask: Mask, *, draws: int = 2) -> NDArray[np.float64]:
        """How plausible the mask network finds each cell to be missing, (n, M): see masks.py."""
        return masks.missing_probability(self, columns, mask, draws=draws)

    def mask_log_likelihood(
        self, columns: Columns, mask: Mask, *, draws: int = 5, seed: int = 0
    ) -> NDArray[np.float64]:
        """log p(m | x) of each row, (n,), averaged over draws of its missing cells: see mask_regressions.py."""
        found = self._known_mask_regressions()
        tables = drawing.draw(self, columns, mask, draws, seed=seed, images=False)
        return np.mean([found.log_likelihood(self.encoding, table, mask) for table in tables], axis=0)

    def ampute(self, columns: Columns, mask: Mask, *, seed: int = 0) -> Mask:
        """A mask from p(m | x) for each row, (n, M); what is missing already stays so, and is drawn to know x."""
        table = drawing.draw(self, columns, mask, 1, seed=seed, images=False)[0]
        row, attribute = torch.arange(len(mask))[:, None], torch.arange(mask.shape[1])
        uniform = keyed_uniform(seed, row, attribute).numpy()
        return self._known_mask_regressions().sample(self.encoding, table, mask, uniform)

    def _known_mask_regressions(self) -> MaskRegressions:
        if self.mask_regressions is None:
            raise ValueError("this model knows nothing of masks given rows; fit it with vsae.fit")
        return self.mask_regressions

    @torch.no_grad()
    def embed(self, columns: Columns, mask: Mask) -> NDArray[np.float32]:
        """Latent means of the selective proposal, (n, M, L); those of the first member, for an ensemble."""
        parts = []
        for _, batch in self.chunks(columns, mask, 1):
            with private_rng(0, self.device):
                parts.append(self.model.propose(batch).selective.loc[0].cpu().numpy())
        return np.concatenate(parts)

    def score_samples(self, columns: Columns, mask: Mask, *, draws: int = 8, seed: int = 0) -> NDArray[np.float64]:
        """log p(m) + log p(x_o | m) of each row, (n,): see density.py."""
        return density.score_samples(self, self.row_generator, columns, mask, draws=draws, seed=seed)

    # --- generation

    @cached_property
    def generating(self) -> VSAE:
        """The members that generated rows come from."""
        return generating_members(self.model)

    @property
    def row_generator(self) -> RowGenerator:
        return RowGenerator(self.generating, self.encoding, self.marginal_map, self.common)

    def generate(
        self, n: int, *, seed: int = 0, given: Mapping[str, float] | None = None, missing: Sequence[str] = ()
    ) -> tuple[dict[str, NDArray[Any]], Mask]:
        """`n` complete rows, and for each a mask that the mechanism might have given it.

        z → m → x (rows.py), then one Gibbs sweep over x (sweeps.py) and m (mask_regressions.py). Data alone, masks
        alone, and data with missing cells are parts of this one draw. `given` (variable → value in natural units) and
        `missing` (attributes that must be missing) condition it. Rare levels are not generated (rare_levels.py), and
        can not be given.
        """
        if n < 1:
            raise ValueError(f"asked for {n} rows; ask for at least 1")
        if missing:
            masks.refuse_without_mask_model(self.model)
        refuse_rare(given or {}, self.common)
        condition = Condition.of(self.schema, given or {}, missing)
        pieces = [self._rows(rows, start, seed, condition) for start, rows in self.ranges(n, LATENT_DRAWS)]
        columns = {name: finite(name, np.concatenate([x[name] for x, _ in pieces])) for name in pieces[0][0]}
        columns |= {name: np.zeros_like(columns[name]) for name, kept in self.common.items() if not kept.any()}
        made = np.array([name not in self.ungenerated for name in self.schema.names])
        return columns, np.concatenate([mask for _, mask in pieces]) & made

    @property
    def ungenerated(self) -> list[str]:
        """Attributes that are missing in every generated row, as all their levels are rare."""
        return ungenerated(self.schema, self.common)

    def generate_masks(self, n: int, *, seed: int = 0) -> Mask:
        """`n` masks from the learned mechanism, (n, M), True = observed: those of `generate`."""
        masks.refuse_without_mask_model(self.model)
        return self.generate(n, seed=seed)[1]

    @property
    def _sweeps(self) -> bool:
        """Not where values are as decoded, nor with vectors or images: they have no ranks, and a turn is dear there."""
        numbers_and_levels = not any(variable.event for variable in self.schema.variables)
        return self.marginal_map is not None and self.knows_every_subset and numbers_and_levels

    def _rows(self, n: int, start: int, seed: int, condition: Condition) -> Generated:
        """`n` rows from row number `start` on."""
        columns, mask = self._prior_rows(n, start, seed, condition)
        if self._sweeps:
            rng = np.random.default_rng([seed % 2**62, start])
            columns = sweep(self, columns, mask, condition.known, rng, self.common)
            if self.mask_regressions is not None:
                mask = self.mask_regressions.deal(self.encoding, columns, mask, rng.random(mask.shape))
        return {name: x[:n] for name, x in columns.items()}, mask[:n]

    def _prior_rows(self, n: int, start: int, seed: int, condition: Condition) -> Generated:
        """`n` rows at least, as many as a sweep wants."""
        return self.row_generator.rows(max(n, FEWEST_ROWS) if self._sweeps else n, start, seed, condition)

    # --- files

    def try_out(self) -> dict[str, NDArray[Any]]:
        refuse_damaged(self.to_parts()[0], self.calibration)
        if self.turns is not None and (self.turns.shape != (len(self.schema),) or not self.turns.min() >= 0):
            raise ValueError("its turns are not those of its attributes")
        blank, mask = blank_rows(self.schema)
        columns = self.impute(blank, mask)
        mask[1] = True
        generated = self.row_generator.rows(2, 0, 0, Condition.of(self.schema, {}, ()))[0]
        for table in (columns, self.median(columns, mask), *self.draw(columns, mask, 1), generated):
            self.encoding.encode(table, np.ones_like(mask))  # which refuses what is not finite, or no level
        scores: list[Any] = [self.score_samples(columns, mask), self.embed(columns, mask)]
        if self.mask_regressions is not None:
            scores.append(self.mask_regressions.log_likelihood(self.encoding, columns, mask))
        if not all(np.isfinite(score).all() for score in scores):
            raise ValueError("a score is not finite")
        return columns

    def to_parts(self) -> Parts:
        groups, content = shared_parts(self, self.history)
        if self.relations is not None:
            groups["relations"] = self.relations.to_tensors()
        if self.blend is not None:
            groups["forest"] = self.blend.forest.to_tensors()
        if self.mask_regressions is not None:
            found = self.mask_regressions.to_arrays()
            groups["mask_regressions"] = {name: torch.from_numpy(x) for name, x in found.items()}
        arrays = {} if self.marginal_map is None else self.marginal_map.to_arrays()
        groups["marginals"] = {name: torch.from_numpy(x) for name, x in arrays.items()}
        content |= {
            "turns": None if self.turns is None else self.turns.tolist(),
            "tilts": self.tilts.to_json(),
            "blend": None if self.blend is None else self.blend.to_json(),
            "common": {name: np.flatnonzero(kept).tolist() for name, kept in self.common.items()},
            "levels_of_masks": None if self.mask_regressions is None else dict(self.mask_regressions.levels),
            "relations": None if self.relations is None else list(self.relations.names),
        }
        return checkpoint.joined(groups), content

    @classmethod
    def from_parts(
        cls, tensors: Mapping[str, Tensor], content: Mapping[str, Any], device: torch.device | str = "cpu"
    ) -> FittedVSAE:
        model, encoding, calibration, history = Shared.of(VSAE, tensors, content, device)
        schema, common = encoding.schema, content["common"]
        marginals = {name: x.numpy() for name, x in checkpoint.part(tensors, "marginals").items()}
        regressions = {name: x.numpy() for name, x in checkpoint.part(tensors, "mask_regressions").items()}
        return cls(
            model,
            encoding,
            calibration,
            None
            if content["relations"] is None
            else LinearRelations.from_tensors(schema, content["relations"], checkpoint.part(tensors, "relations")),
            Tilts.from_json(content["tilts"]),
            None
            if content["blend"] is None
            else typed(Blend(Forest.from_tensors(schema, checkpoint.part(tensors, "forest")), **content["blend"])),
            None if content["turns"] is None else np.asarray(content["turns"], dtype=np.int64),
            history,
            MarginalMap.from_arrays(marginals) if marginals else None,
            MaskRegressions(content["levels_of_masks"], **regressions) if regressions else None,
            {v.name: np.isin(np.arange(v.size), common[v.name]) for v in schema.variables if v.name in common},
        )
