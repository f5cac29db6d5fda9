"""not-MIWAE (Ipsen, Mattei and Frellsen 2021): MIWAE with a model of why cells are missing, p(m | x).

The weights of the samples count how well they explain the mask, too:
w_k = p(x_o | z_k) p(z_k) / q(z_k | x_o) · p(m | x_o, x_u,k) with x_u,k ~ p(x_u | z_k),
and the bound is that of log p(x_o, m). An estimate is the mean of the x_u,k under normalised weights, so that a cell
which is missing because of its value is filled with values that would be missing.

What a mask may depend on is as the paper has it:

    self-masking           logit P(m_i = 1) = b_i - w_i x_i      each attribute by itself
    self-masking, known    the same with w_i > 0                 it is known that high values hide
    linear ("agnostic")    b - W x                               any attribute, linearly
    neural                 a network that reads x; `config.mask_net` shapes it

Self-masking is told from the data by what it rules out. The last two rule out nothing: a mask that depends on the other
attributes alone, beside p(x_i | others) as the observed cells have it, is all but as likely as the truth, so that the
likelihood hardly tells what hides a self-masked attribute. Use them where other attributes are known to hide cells.

DIFF(not-MIWAE): numbers in standard units and entries of levels (`flat.py`); a drawn level passes its gradient to its
probabilities (straight-through; the paper: Gumbel-softmax). w has ten times the learning rate of the other weights:
where cells vanish beyond a threshold it has far to go. Known cells that are withheld are observed in m, and hidden in x
alone. Training is for a number of steps, 100,000 of 16 rows in the paper: observed cells that are hidden would not tell
when to stop, as they say nothing of p(m | x).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.baselines.base import OWN_CHOICES
from vsae.baselines.flat import FlatRows
from vsae.baselines.miwae import MIWAE
from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.generative import DataDistribution
from vsae.model.latent_model import Draws, Noise
from vsae.model.likelihoods import Bernoulli, CensoredGaussian, Distribution, Gaussian, Vector
from vsae.model.likelihoods.levels import Cumulative, SegmentedCategorical
from vsae.model.nets import MLP, GroupedLinear

_PACE = 10.0
_STEPS = 5000
_STEEP = 8.0  # softplus of it is all but itself


class MissingModel(MIWAE):
    """MIWAE with p(m | x), which a subclass says."""

    settings: ClassVar[Mapping[str, Any]] = {**OWN_CHOICES, "validation_share": 0.0, "steps": _STEPS}
    reaches_beyond = True

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.rows = FlatRows(schema)

    @abstractmethod
    def observed(self, rows: Tensor) -> Bernoulli:
        """p(m | x): complete rows, (E, B, entries) → (E, B, M); level 1 = observed."""

    def weighted_draws(self, batch: Batch, noise: Noise) -> Draws:
        return self.sampled(batch, noise)[0]

    def sampled(self, batch: Batch, noise: Noise) -> tuple[Draws, Tensor]:
        """Decoded latents with their weights, and rows in which the missing cells are drawn, (E, S·B, entries)."""
        draws = super().weighted_draws(batch, noise)
        assert draws.log_weight is not None
        repeated = batch.repeated(noise.samples)
        made = self.drawn(draws.data, noise, batch)
        mask = repeated.mask if repeated.withheld is None else repeated.mask | repeated.withheld
        log_m = self.observed(self.rows.visible(repeated, made)).log_prob(mask).sum(-1)
        return Draws(draws.data, draws.log_weight + log_m.unflatten(1, (noise.samples, -1))), made

    def drawn(self, data: DataDistribution, noise: Noise, batch: Batch) -> Tensor:
        """One value of every cell for each latent draw, which a gradient passes."""
        normal = noise((self.rows.width,), batch.mask.device).expand(-1, -1, batch.rows, -1).flatten(1, 2)
        parts = zip(self.rows.blocks, normal.split(self.rows.widths, dim=-1), strict=True)
        values = {block.name: _value(data[block.name], part) for block, part in parts}
        made, through = self.rows(values), self.rows.drawn(data)
        exact = torch.cat([_is_exact(data[b.name], n) for b, n in zip(self.rows.blocks, self.rows.widths, strict=True)])
        return torch.where(exact.to(made.device), made, through + (made - through).detach())

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        draws, made = self.sampled(batch, noise)
        return Draws(self.rows.certain(made), None if weighted is False else draws.log_weight)

    @property
    def numbers_per_row(self) -> int:
        return super().numbers_per_row + 6 * self.rows.width


class NotMIWAE(MissingModel):
    """Self-masking; the direction is learned."""

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.slope = nn.Parameter(torch.zeros(config.members, 1, self.rows.width))
        self.threshold = nn.Parameter(torch.zeros(config.members, 1, len(schema)))

    @property
    def weight(self) -> Tensor:
        """w, (E, 1, entries): how much less likely an entry makes its attribute to be observed."""
        return _PACE * self.slope

    def observed(self, rows: Tensor) -> Bernoulli:
        by_entry = self.weight * rows
        zero = rows.new_zeros(*by_entry.shape[:-1], len(self.schema))
        return Bernoulli(_PACE * self.threshold - zero.index_add(-1, self.rows.owner, by_entry))


class KnownNotMIWAE(NotMIWAE):
    """Self-masking; high values hide.

    DIFF(not-MIWAE): w starts at 8, nearly a threshold. From about 1, as there, what is drawn for missing cells is like
    what is observed before w has grown, and then it never does, above all where a column repeats one value: on
    concrete, its cells above the mean missing, the error was 1.79 after 5,000 steps, and 1.27 from 8.
    """

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        nn.init.constant_(self.slope, _STEEP / _PACE)

    @property
    def weight(self) -> Tensor:
        return F.softplus(_PACE * self.slope)


class LinearNotMIWAE(MissingModel):
    """The paper's "agnostic": a mask depends on all attributes, linearly."""

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.logits = GroupedLinear((config.members,), self.rows.width, len(schema))

    def observed(self, rows: Tensor) -> Bernoulli:
        return Bernoulli(self.logits(rows))


class NeuralNotMIWAE(MissingModel):
    """A mask depends on all attributes, by a network."""

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        self.logits = MLP((config.members,), self.rows.width, config.mask_net, len(schema))

    def observed(self, rows: Tensor) -> Bernoulli:
        return Bernoulli(self.logits(rows))


def _value(distribution: Distribution, normal: Tensor) -> Tensor:
    """A draw by standard normal noise, one an entry, (E, B, entries); as a `Batch` holds it."""
    if isinstance(distribution, Vector):
        return distribution.entries.sample(noise=normal.unflatten(-1, distribution.mean.shape[2:]))
    if isinstance(distribution, Gaussian):
        value = distribution.sample(noise=normal)
        return value[..., None] if isinstance(distribution, CensoredGaussian) else value  # beside edges, if there were
    rank = torch.special.ndtr(normal).clamp(1e-6, 1 - 1e-6)
    if isinstance(distribution, Bernoulli):
        return (rank < distribution.mean).long()
    if isinstance(distribution, SegmentedCategorical):
        return distribution.segments.argmax(distribution.logits - torch.log(-torch.log(rank)))
    if isinstance(distribution, Cumulative):
        return (rank[..., None] > distribution.mean.cumsum(-1)[..., :-1]).sum(-1)
    return distribution.mean  # of images, a draw is the mean


def _is_exact(distribution: Distribution, entries: int) -> Tensor:
    """Whether a draw passes its gradient by itself, (entries,)."""
    discrete = isinstance(distribution, Bernoulli | SegmentedCategorical | Cumulative)
    return torch.full((entries,), not discrete)
