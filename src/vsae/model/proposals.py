"""q(z | x, m): the attributive, the collective and the selective proposal.

    attributive  q_φ(z_i | x_i)        one small network an attribute, all run as one
    collective   q_ψ(z_i | x_o, m)     one network that reads every observed attribute and the mask
    selective    Eq. 6: the first where m_i = 1, the second where m_i = 0

Both networks begin with a linear map of the same features: those of numbers (`features.py`) and of images
(`images.py`, a vector like any other), computed once for both, levels one-hot, vectors as they are.
The first keeps attributes apart (`SeparateInput`), the second adds them up (`JointInput`). A linear map of a one-hot
vector is a row of its weight matrix, so levels go through one embedding table, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Block, Family, Schema
from vsae.model.nets import GroupedLinear, Hidden, NetShape

Holes = Literal["zero", "noise"]  # what a network reads where nothing was observed

_LOG_SCALE_RANGE = (-7.0, 5.0)


class DiagonalNormal(NamedTuple):
    """N(loc, diag(exp(log_scale))²), batch (E, B, M), event (L,)."""

    loc: Tensor
    log_scale: Tensor

    def rsample(self, noise: Tensor | None = None) -> Tensor:
        """A reparameterised draw; `noise` (broadcastable, standard normal) makes it a chosen one."""
        if noise is None:
            noise = torch.randn_like(self.loc)
        return self.loc + self.log_scale.exp() * noise

    def draws(self, noise: Tensor) -> Tensor:
        """A draw for each noise of (E, samples, B or 1, …): (E, samples, B, …)."""
        return self.loc[:, None] + self.log_scale.exp()[:, None] * noise

    def prior_ratio(self, draws: Tensor) -> Tensor:
        """log N(z; 0, I) - log q(z) of such draws, summed over the event: (E, samples, B) or (E, samples, B, M)."""
        standard = (draws - self.loc[:, None]) * torch.exp(-self.log_scale)[:, None]
        return (0.5 * (standard**2 - draws**2) + self.log_scale[:, None]).sum(-1)

    def kl_to_prior(self) -> Tensor:
        """KL(q ‖ N(0, I)), (E, B, M)."""
        return 0.5 * (self.loc**2 + torch.exp(2 * self.log_scale) - 1 - 2 * self.log_scale).sum(-1)

    def kl_to(self, other: DiagonalNormal) -> Tensor:
        """KL(self ‖ other), (E, B, M)."""
        log_ratio = 2 * (self.log_scale - other.log_scale)
        shift = ((self.loc - other.loc) * torch.exp(-other.log_scale)) ** 2
        return 0.5 * (torch.exp(log_ratio) + shift - 1 - log_ratio).sum(-1)

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z_i), (E, B, M)."""
        standard = (z - self.loc) * torch.exp(-self.log_scale)
        return (-0.5 * standard**2 - self.log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)


class ProposalSettings(NamedTuple):
    """What both proposals have in common."""

    members: int
    latent_dim: int
    start_scale: float  # σ of both before training
    holes: Holes
    n_features: int  # of a number
    image_widths: Mapping[str, int]  # block of images → features of an image

    def as_normal(self, loc: Tensor, log_scale: Tensor) -> DiagonalNormal:
        """From what a network gives, which is near 0 before training."""
        return DiagonalNormal(loc, (log_scale + math.log(self.start_scale)).clamp(*_LOG_SCALE_RANGE))


def select(mask: Tensor, attributive: DiagonalNormal, collective: DiagonalNormal) -> DiagonalNormal:
    """Eq. 6."""
    chosen = mask[..., None]  # (E, B, M, 1)
    return DiagonalNormal(
        torch.where(chosen, attributive.loc, collective.loc),
        torch.where(chosen, attributive.log_scale, collective.log_scale),
    )


class _Input(nn.Module):
    """What both first layers share: the blocks by what they hold, and the embedding table's offsets."""

    code_offsets: Tensor
    number_attributes: Tensor
    code_attributes: Tensor
    level_owner: Tensor
    level_attributes: Tensor

    def __init__(self, schema: Schema, width: int, settings: ProposalSettings) -> None:
        super().__init__()
        self.members, self.width, self.noise = settings.members, width, settings.holes == "noise"
        self.number_blocks = number_blocks(schema)
        self.code_blocks = [b for b in schema.blocks if b.family in DISCRETE]
        self.vector_blocks = [b for b in schema.blocks if b.family in (Family.VECTOR, Family.IMAGE)]
        self.vector_widths = [settings.image_widths.get(b.name, b.width) for b in self.vector_blocks]
        sizes = [size for block in self.code_blocks for size in block.sizes]
        self.levels = sum(sizes)
        self.register_buffer("code_offsets", torch.tensor([0, *sizes]).cumsum(0)[:-1], persistent=False)
        self.register_buffer("number_attributes", _attributes(self.number_blocks), persistent=False)
        self.register_buffer("code_attributes", _attributes(self.code_blocks), persistent=False)
        owner = torch.repeat_interleave(torch.tensor(sizes, dtype=torch.long))
        self.register_buffer("level_owner", owner, persistent=False)  # variable of each level
        self.register_buffer("level_attributes", self.code_attributes[owner], persistent=False)

    def codes(self, batch: Batch) -> Tensor:
        """Rows of the embedding table, (E, B, codes)"""
        return torch.cat([batch.values[b.name] for b in self.code_blocks], dim=-1) + self.code_offsets

    def filled(self, x: Tensor, mask: Tensor) -> Tensor:
        """x where observed; in the holes nothing of x, but zeros or N(0, 1)."""
        return torch.where(mask, x, torch.randn_like(x) if self.noise else x.new_zeros(()))

    def level_noise(self, mask: Tensor, table: Tensor) -> Tensor:
        """N(0, 1) on every level of an unobserved variable, 0 on the others; (E or 1, B, levels)"""
        hole = ~mask[..., self.level_attributes]
        return torch.randn(hole.shape, device=table.device, dtype=table.dtype) * hole

    def table_rows(self, codes: Tensor) -> Tensor:
        """Each member has a table of its own; as rows of all tables stacked."""
        first = torch.arange(self.members, device=codes.device) * self.levels
        return codes + first.view(-1, *[1] * (codes.dim() - 1))


def number_blocks(schema: Schema) -> list[Block]:
    return [block for block in schema.blocks if block.family in (Family.GAUSSIAN, Family.INTERVAL)]


def numbers(blocks: list[Block], batch: Batch) -> Tensor:
    """The values of number blocks side by side, (…, numbers)."""
    parts = [batch.values[b.name][..., 0] if b.family is Family.INTERVAL else batch.values[b.name] for b in blocks]
    return torch.cat(parts, dim=-1)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """Parts that members share, (1, B, …), beside those they do not, (E, B, …)."""
    members = max(part.shape[0] for part in parts)
    return torch.cat([part.expand(members, -1, -1) for part in parts], dim=-1)


def _attributes(blocks: list[Block]) -> Tensor:
    return torch.tensor([i for block in blocks for i in block.attributes], dtype=torch.long)


def _table(members: int, levels: int, width: int, fan_in: int) -> nn.Parameter:
    bound = 1.0 / math.sqrt(max(fan_in, 1))
    return nn.Parameter(torch.empty(members, levels, width).uniform_(-bound, bound))


class SeparateInput(_Input):
    """A linear layer per attribute, attributes kept apart: Batch, features of its numbers → (E, M, B, width).

    An attribute of several variables gets the sum of their maps: a linear map of their concatenation. What it gives
    for an unobserved attribute is not used by the selective proposal, so the holes are filled only on request.
    """

    order: Tensor

    def __init__(self, schema: Schema, width: int, settings: ProposalSettings, fill: bool) -> None:
        super().__init__(schema, width, settings)
        self.fill = fill
        self.attributes = len(schema)
        members, count = settings.members, len(self.number_attributes)
        self.number_map = GroupedLinear((members, count), settings.n_features, width) if count else None
        self.table = _table(members, self.levels, width, fan_in=1) if self.levels else None
        self.vector_maps = nn.ModuleList(
            GroupedLinear((members, len(block)), entries, width)
            for block, entries in zip(self.vector_blocks, self.vector_widths, strict=True)
        )
        blocks = [*self.number_blocks, *self.code_blocks, *self.vector_blocks]
        owner = _attributes(blocks)  # attribute of each variable, in the order the maps give them
        self.grouped = len(owner) > self.attributes
        self.in_order = bool((owner == torch.arange(len(owner))).all())
        self.register_buffer("order", owner if self.grouped else owner.argsort(), persistent=False)

    def forward(self, batch: Batch, features: Tensor | None) -> Tensor:
        parts = []
        if self.number_map is not None and features is not None:
            if self.fill:
                features = self.filled(features, batch.mask[..., self.number_attributes, None])
            parts.append(self.number_map(features.transpose(-2, -3)))
        if self.table is not None:
            parts.append(self._levels(batch, self.table))
        for block, linear in zip(self.vector_blocks, self.vector_maps, strict=True):
            vectors = batch.values[block.name]
            if self.fill:
                vectors = self.filled(vectors, batch.mask[..., list(block.attributes), None])
            parts.append(linear(vectors.transpose(-2, -3)))
        h = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]  # (E, variables, B, width)
        if self.grouped:
            return h.new_zeros(h.shape[0], self.attributes, *h.shape[2:]).index_add(1, self.order, h)
        return h if self.in_order else h.index_select(1, self.order)

    def _levels(self, batch: Batch, table: Tensor) -> Tensor:
        rows = self.table_rows(self.codes(batch).transpose(-1, -2))  # (E, codes, B)
        h = F.embedding(rows, table.flatten(0, 1))  # (E, codes, B, width)
        if not self.fill:
            return h
        h = h * batch.mask[..., self.code_attributes].transpose(-1, -2)[..., None]
        if not self.noise:
            return h
        noise = self.level_noise(batch.mask, table).transpose(-1, -2)[..., None]  # (E or 1, levels, B, 1)
        return h.index_add(1, self.level_owner, noise * table[:, :, None, :])


class JointInput(_Input):
    """A linear layer on [x_o, m, guess], holes filled with zeros or noise: Batch, features, guess → (E, B, width).

    Without `reads_mask` (baselines that know nothing of masks), on [x_o, guess].
    """

    vector_attributes: Tensor

    def __init__(
        self,
        schema: Schema,
        width: int,
        settings: ProposalSettings,
        n_guesses: int = 0,
        reads_mask: bool = True,
    ) -> None:
        super().__init__(schema, width, settings)
        self.reads_mask, members = reads_mask, settings.members
        widths = zip(self.vector_blocks, self.vector_widths, strict=True)
        owner = torch.tensor(
            [i for b, entries in widths for i in b.attributes for _ in range(entries)], dtype=torch.long
        )
        self.register_buffer("vector_attributes", owner, persistent=False)  # per vector entry
        numbers = len(self.number_attributes) * settings.n_features
        dense = numbers + len(owner) + len(schema) * reads_mask + n_guesses
        self.dense = GroupedLinear((members,), dense, width)
        self.table = _table(members, self.levels, width, dense + len(self.code_attributes)) if self.levels else None

    def forward(self, batch: Batch, features: Tensor | None, guess: Tensor | None) -> Tensor:
        mask = batch.mask
        parts = [mask.float()] if self.reads_mask else [mask[..., :0].float()]
        if features is not None:
            parts.append(self.filled(features, mask[..., self.number_attributes, None]).flatten(-2))
        if self.vector_blocks:
            entries = _side_by_side([batch.values[b.name].flatten(-2) for b in self.vector_blocks])
            parts.append(self.filled(entries, mask[..., self.vector_attributes]))
        if guess is not None:
            parts.append(guess)
        h: Tensor = self.dense(_side_by_side(parts))
        return h if self.table is None else h + self._levels(batch, self.table)

    def _levels(self, batch: Batch, table: Tensor) -> Tensor:
        """Sum over the observed variables of the rows their levels pick; with noise, N(0, 1) on the others' rows."""
        weight = batch.mask[..., self.code_attributes].to(table.dtype)  # (E or 1, B, codes)
        rows = self.table_rows(self.codes(batch))
        weight = weight.expand(rows.shape)
        picked = F.embedding_bag(
            rows.flatten(0, 1), table.flatten(0, 1), mode="sum", per_sample_weights=weight.flatten(0, 1)
        ).unflatten(0, rows.shape[:2])
        return picked + self.level_noise(batch.mask, table) @ table if self.noise else picked


class AttributiveProposal(nn.Module):
    """q_φ(z_i | x_i) for every attribute."""

    def __init__(self, schema: Schema, shape: NetShape, settings: ProposalSettings, fill: bool = False) -> None:
        super().__init__()
        self.settings, n_out = settings, 2 * settings.latent_dim
        groups, width = (settings.members, len(schema)), shape.width if shape.depth else n_out
        self.input = SeparateInput(schema, width, settings, fill)
        self.hidden = Hidden(groups, shape) if shape.depth else nn.Identity()
        self.last = GroupedLinear(groups, width, n_out) if shape.depth else nn.Identity()

    def forward(self, batch: Batch, features: Tensor | None) -> DiagonalNormal:
        parameters: Tensor = self.last(self.hidden(self.input(batch, features)))  # (E, M, B, 2L)
        return self.settings.as_normal(*(part.transpose(1, 2).contiguous() for part in parameters.chunk(2, dim=-1)))


class CollectiveProposal(nn.Module):
    """q_ψ(z_i | x_o, m) for every attribute."""

    def __init__(self, schema: Schema, shape: NetShape, settings: ProposalSettings, n_guesses: int = 0) -> None:
        super().__init__()
        self.settings, members, n_out = settings, settings.members, 2 * settings.latent_dim * len(schema)
        self.attributes = len(schema)
        self.input = JointInput(schema, shape.width, settings, n_guesses)
        self.hidden = Hidden((members,), shape)
        self.last = GroupedLinear((members,), shape.width, n_out)

    def forward(self, batch: Batch, features: Tensor | None, guess: Tensor | None = None) -> DiagonalNormal:
        parameters: Tensor = self.last(self.hidden(self.input(batch, features, guess)))  # (E, B, 2·M·L)
        return self.settings.as_normal(
            *(part.unflatten(-1, (self.attributes, -1)) for part in parameters.chunk(2, dim=-1))
        )
