"""New rows from a fitted model: z → m → x.

z is drawn from p(z), a mask from p(m | z), values from p(x | m, z); then each column is brought to its distribution in
the data (marginals.py). The `paper` preset does without the last: its p(z) is N(0, I), its rows are as decoded.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.encoding import Columns, Encoding, Mask
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE, Schema
from vsae.generation.marginals import Drawn, Marginals, Steering
from vsae.imputation.imputer import per_variable
from vsae.model.generative import DataDistribution
from vsae.model.latent_model import Noise
from vsae.model.likelihoods import Bernoulli, Gaussian, Vector
from vsae.model.vsae import VSAE

_FEW_EFFECTIVE = 100
_OWN_NOISE = 0.7  # of σ, which is set to what a hole is off: a generated latent knows more of its cell than that


@dataclass(frozen=True)
class Condition:
    """What generated rows must have: values of some variables, in natural units, and attributes that are missing."""

    given: Mapping[str, float] = field(default_factory=dict)
    known: tuple[int, ...] = ()  # attributes of the given variables
    gone: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known or self.gone)

    def on_columns(self, columns: Columns) -> dict[str, NDArray[Any]]:
        return {n: np.full_like(x, self.given[n]) if n in self.given else x for n, x in columns.items()}

    def on_mask(self, mask: Mask) -> Mask:
        mask = mask.copy()
        mask[:, list(self.known)] = True
        mask[:, list(self.gone)] = False
        return mask


@dataclass(frozen=True)
class RowGenerator:
    """Rows from some members of a model, in equal parts: (E · each) rows, those of a member one after the other."""

    model: VSAE
    encoding: Encoding
    steering: Steering | None = None  # None: values are as they are decoded

    @torch.no_grad()
    def steered(self, columns: Columns, mask: Mask, hidden: Mask, rng: torch.Generator, copies: int) -> RowGenerator:
        """To the marginals of some rows (E · each, M), which the model was fitted to; the rest as in marginals.py."""
        drawn = self._redrawn(columns, mask & ~hidden, rng)
        marginals = Marginals.of(self.schema, columns, mask, hidden, drawn, copies)
        decoded, _ = self._decoded(self._latents(len(mask) // self.model.config.members, rng), rng)
        return replace(self, steering=Steering.of(self.schema, marginals, self._drawn(decoded, rng, _OWN_NOISE)))

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
        drawn = self._drawn(decoded, rng, 1.0 if self.steering is None else _OWN_NOISE)
        columns = self._natural(drawn, rng, evenly=not condition)
        return condition.on_columns(columns), condition.on_mask(mask)

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
        return Drawn(numbers, levels)

    def _natural(self, drawn: Drawn, rng: torch.Generator, evenly: bool) -> dict[str, NDArray[Any]]:
        numbers = np.random.default_rng(int(torch.randint(2**62, (1,), generator=rng, device=self.device)))
        columns = self.encoding.decode(drawn.numbers)
        columns |= self.steering(self.encoding, drawn, numbers, evenly) if self.steering else drawn.plain_codes(numbers)
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
