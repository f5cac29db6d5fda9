"""New rows from a fitted model: z → m → x.

z is drawn from p(z), a mask from p(m | z), values from p(x | m, z); then each column is brought to its distribution in
the data (marginals.py). The `paper` preset does without the last: its p(z) is N(0, I), its rows are as decoded.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.data.randomness import generator, private_rng
from vsae.data.schema import DISCRETE, Schema
from vsae.generation.conditions import Condition
from vsae.generation.marginals import Drawn, MarginalMap, Marginals
from vsae.generation.rare_levels import Common, without_rare
from vsae.imputation.imputer import finite, per_variable
from vsae.model.generative import DataDistribution
from vsae.model.latent_model import Noise
from vsae.model.likelihoods import Bernoulli, Gaussian, ScaledHead, Vector
from vsae.model.vsae import VSAE

_WAYS_TO_HIDE = 4  # known cells of a row, to learn what draws for missing ones are worth
_HIDDEN = 0.15  # of the known cells, each time: so few that the rest of the row is as it was
_CANDIDATES = 20_000  # latents drawn for a condition, at least: one row in a thousand leaves twenty
_CANDIDATE_NUMBERS = 2**27  # floats of all of them: half a gigabyte
_MARGINALS = -2  # the stream of random numbers of all this
_FEW_EFFECTIVE = 100  # candidates: with fewer, generated rows are visibly alike
_OWN_NOISE = 0.7  # of σ: a generated latent knows more of its cell than that of a missing one (decisions/0010)


def generating_members(model: VSAE) -> VSAE:
    """The members that generated rows come from: those whose σ varies from cell to cell, if any.

    One σ a column is as wide where all is known as where nothing is: two columns that tell the same twice would come
    apart.
    """
    heads = [head for head in model.data_network.heads.values() if isinstance(head, ScaledHead)]
    sharp = heads[0].per_cell.flatten().nonzero().flatten().tolist() if heads else []
    if not sharp or len(sharp) == model.config.members:
        return model
    with private_rng(0, model.device):
        return model.select_members(sharp)


@dataclass(frozen=True)
class RowGenerator:
    """Rows from some members of a model, in equal parts: (E · each) rows, those of a member one after the other."""

    model: VSAE
    encoding: Encoding
    marginal_map: MarginalMap | None = None  # None: values are as they are decoded
    common: Common = field(default_factory=dict)  # levels that are generated; all, where it does not say

    @torch.no_grad()
    def with_marginals(self, columns: Columns, mask: Mask, seed: int) -> RowGenerator:
        """Brought to the marginals of some rows (E · each, M), which the model was fitted to: see marginals.py."""
        columns = {name: np.tile(x, (_WAYS_TO_HIDE, *[1] * (x.ndim - 1))) for name, x in columns.items()}
        mask = np.tile(mask, (_WAYS_TO_HIDE, 1))
        hidden = mask & (np.random.default_rng(seed).random(mask.shape) < _HIDDEN)
        rng = generator(seed, _MARGINALS, self.device)
        drawn = self._redrawn(columns, mask & ~hidden, rng)
        marginals = Marginals.of(self.schema, columns, mask, hidden, drawn, _WAYS_TO_HIDE)
        decoded, _ = self._decoded(self._latents(len(mask) // self.model.config.members, rng), rng)
        return replace(self, marginal_map=MarginalMap.of(self.schema, marginals, self._drawn(decoded, rng, _OWN_NOISE)))

    @property
    def schema(self) -> Schema:
        return self.encoding.schema

    @property
    def device(self) -> torch.device:
        return self.model.device

    @torch.no_grad()
    def __call__(
        self, each: int, rng: torch.Generator, condition: Condition | None = None, candidates: int = 0
    ) -> tuple[dict[str, NDArray[Any]], Mask]:
        """Complete rows, and for each the mask that the mechanism gave it."""
        condition = condition or Condition()
        z, forced = self._latents(max(candidates if condition else 0, each), rng), None
        if condition:
            z, forced = self._chosen(z, condition, each, rng)
        decoded, mask = self._decoded(z, rng, forced)
        drawn = self._drawn(decoded, rng, 1.0 if self.marginal_map is None else _OWN_NOISE)
        columns = self._natural(drawn, rng, evenly=not condition)
        return condition.on_columns(columns), condition.on_mask(mask)

    def rows(self, n: int, start: int, seed: int, condition: Condition) -> tuple[dict[str, NDArray[Any]], Mask]:
        """`n` rows from row number `start` on, one from each member in turn."""
        config = self.model.config
        per_candidate = config.members * len(self.schema) * config.latent_dim
        candidates = min(max(_CANDIDATES, 10 * n), _CANDIDATE_NUMBERS // per_candidate)
        each = -(-n // config.members)
        columns, mask = self(each, generator(seed, start, self.device), condition, candidates)
        order = np.arange(config.members * each).reshape(config.members, each).T.flatten()[:n]
        return {name: x[order] for name, x in columns.items()}, mask[order]

    # --- from latents to rows

    def _latents(self, each: int, rng: torch.Generator) -> Tensor:
        return self.model.prior.sample(each, rng)

    def _decoded(self, z: Tensor, rng: torch.Generator, mask: Tensor | None = None) -> tuple[DataDistribution, Mask]:
        context = self.model.aggregate(z)
        if mask is None:
            mask = _evenly(self.mask_of(context), rng)
        data: DataDistribution = self.model.data_network(context, mask)
        return data, mask.flatten(0, 1).bool().cpu().numpy()

    def mask_of(self, context: Tensor) -> Bernoulli:
        """p(m | z) for latents of the prior; certain to be observed where there is no mask model."""
        m = self.model.mask_network(context)
        shift = self.model.prior.mask_shift if self.model.config.mask_modelling else torch.inf
        return Bernoulli(m.logits + shift)

    def _drawn(self, data: DataDistribution, rng: torch.Generator, noise: float = 1.0) -> Drawn:
        """Numbers with noise of so much of σ."""
        numbers: dict[str, NDArray[np.float64]] = {}
        levels: dict[str, NDArray[np.float64]] = {}
        for block in self.schema.blocks:
            x = data[block.name]
            if block.family in DISCRETE:
                levels |= per_variable(block, x.mean.flatten(0, 1).double().cpu().numpy())
            else:
                if isinstance(x, Gaussian | Vector):
                    sample = x.mean + noise * x.scale * _normal_like(x.mean, rng)
                else:
                    sample = x.sample(rng)
                numbers[block.name] = sample.flatten(0, 1).cpu().numpy()
                for j, variable in enumerate(block.variables):
                    finite(variable.name, numbers[block.name][:, j])  # ranks of NaN would look like any others
        return Drawn(numbers, without_rare(levels, self.common))

    def _natural(self, drawn: Drawn, rng: torch.Generator, evenly: bool) -> dict[str, NDArray[Any]]:
        numbers = np.random.default_rng(int(torch.randint(2**62, (1,), generator=rng, device=self.device)))
        columns = self.encoding.decode(drawn.numbers)
        if self.marginal_map is None:
            columns |= drawn.plain_codes(numbers)
        else:
            columns |= self.marginal_map(self.encoding, drawn, numbers, evenly)
        return {v.name: columns[v.name] for v in self.schema.variables}

    def _redrawn(self, columns: Columns, visible: Mask, rng: torch.Generator) -> Drawn:
        """Every cell of some rows, given those that are visible; with normal noise, as but their ranks count."""
        members = self.model.config.members
        batch = self.encoding.encode(columns, visible).to(self.device).split(members)
        with private_rng(int(torch.randint(2**31, (1,), generator=rng, device=self.device)), self.device):
            draws = self.model.draws(batch, Noise(members, 1, batch.rows, rng))
        return self._drawn(draws.data, rng)

    # --- conditions

    def _chosen(self, z: Tensor, condition: Condition, each: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Importance resampling: (z, m) weighted with p(given | m, z) · p(gone | z), and `each` kept in proportion."""
        target = self._given_row(condition)
        gone = torch.tensor([i in condition.gone for i in range(len(self.schema))], device=self.device)
        context = self.model.aggregate(z)
        m = self.mask_of(context)
        mask = m.sample(rng) * ~gone
        asked = [b for b in self.schema.blocks if any(v.name in condition.given for v in b.variables)]
        data = self.model.data_network(context, mask, [block.name for block in asked])
        log_weight = torch.where(gone, m.log_prob(torch.zeros_like(mask)), 0.0).sum(-1)  # (E, candidates)
        for block in asked:
            named = torch.tensor([v.name in condition.given for v in block.variables], device=self.device)
            log_weight = log_weight + (data[block.name].log_prob(target.values[block.name]) * named).sum(-1)
        weight = torch.softmax(log_weight.double(), dim=1)
        effective = float((1 / (weight**2).sum(1)).sum())
        if effective < min(each * len(z), _FEW_EFFECTIVE):
            carried = f"{effective:.0f} of {weight.numel()} candidate rows carry it"
            warnings.warn(f"the condition is rare: {carried}, so generated rows will be alike; loosen it", stacklevel=5)
        kept = torch.multinomial(weight, each, replacement=True, generator=rng)  # (E, each)
        member = torch.arange(len(z), device=self.device)[:, None]
        return z[member, kept], mask[member, kept]

    def _given_row(self, condition: Condition) -> Batch:
        """As a batch of one row; the variables that are not given hold any value that is allowed."""
        middle = {b.name: np.zeros((1, len(b), *b.event), dtype=int) for b in self.schema.blocks}
        row = self.encoding.decode(middle) | {name: np.asarray([value]) for name, value in condition.given.items()}
        return self.encoding.encode(row, np.ones((1, len(self.schema)), dtype=bool)).to(self.device).for_members()


def _normal_like(x: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(x.shape, generator=rng, device=x.device)


def _evenly(mask: Bernoulli, rng: torch.Generator) -> Tensor:
    """Systematic sampling, as in marginals.py: each attribute is observed as often as its probabilities add up to."""
    seen = mask.mean.flatten(0, 1).double()  # (E · each, M)
    order = torch.rand(seen.shape, generator=rng, device=seen.device).argsort(0)
    start = torch.rand(1, seen.shape[1], generator=rng, device=seen.device)
    edges = torch.floor(torch.cat([start * 0, start + seen.gather(0, order).cumsum(0)]))
    return torch.empty_like(order).scatter(0, order, edges.diff(dim=0).long()).view(mask.logits.shape)
