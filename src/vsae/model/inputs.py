"""The first layer of each proposal network: a linear map of what a row shows.

What a layer reads of a batch is put together by its `read`, which knows no weights and so can run ahead of training
steps, and kept in `batch.readings`. Numbers come as features (`features.py`), images as vectors (`images.py`), both
computed once for both proposals; levels are one-hot. A linear map of a one-hot vector is a row of its weight matrix, so
levels, and numbers that recur (`recurring.py`), go through one embedding table, whatever their number. `SeparateInput`
keeps attributes apart, `JointInput` adds them up.

Where missing cells are filled with noise, each row has its own in training, and all rows have the same in eval mode, so
that a row's result depends on nothing but the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Block, Family, Schema
from vsae.model.config import Fill
from vsae.model.nets import GroupedLinear

# An embedding of a value moves only where a row shows it, and AdamW moves every weight at one rate: at 1, half of what
# these embeddings are worth is not learned by the end (docs/decisions/0019)
_PACE = 4.0


class InputSettings(NamedTuple):
    """What both first layers have in common."""

    members: int
    fill: Fill
    n_features: int  # of a number
    image_widths: Mapping[str, int]  # block of images → features of an image
    recurring: int = 0  # values of numbers that have embeddings


class _Input(nn.Module):
    """What both first layers share: the blocks by what they hold, and the embedding table's offsets."""

    code_offsets: Tensor
    table_offsets: Tensor
    number_attributes: Tensor
    code_attributes: Tensor
    level_owner: Tensor
    level_attributes: Tensor

    def __init__(self, schema: Schema, width: int, settings: InputSettings, recurring: int = 0) -> None:
        super().__init__()
        self.recurring = recurring  # rows of the table that follow those of the levels
        self.members, self.width, self.noise = settings.members, width, settings.fill == "noise"
        self.number_blocks = schema.number_blocks
        self.code_blocks = [b for b in schema.blocks if b.family in DISCRETE]
        self.vector_blocks = [b for b in schema.blocks if b.family in (Family.VECTOR, Family.IMAGE)]
        self.vector_widths = [settings.image_widths.get(b.name, b.width) for b in self.vector_blocks]
        sizes = [size for block in self.code_blocks for size in block.sizes]
        self.n_levels = sum(sizes)
        self.register_buffer("code_offsets", torch.tensor([0, *sizes]).cumsum(0)[:-1], persistent=False)
        self.register_buffer(
            "table_offsets", (self.n_levels + recurring) * torch.arange(self.members)[:, None, None], persistent=False
        )
        self.register_buffer("number_attributes", _attributes(self.number_blocks), persistent=False)
        self.register_buffer("code_attributes", _attributes(self.code_blocks), persistent=False)
        owner = torch.repeat_interleave(torch.tensor(sizes, dtype=torch.long))
        self.register_buffer("level_owner", owner, persistent=False)  # variable of each level
        self.register_buffer("level_attributes", self.code_attributes[owner], persistent=False)

    def levels(self, batch: Batch) -> dict[str, Tensor]:
        """Each code as a row of the members' embedding tables, one table below the other, (E, B, codes)."""
        if not self.code_blocks:
            return {}
        codes = torch.cat([batch.values[b.name] for b in self.code_blocks], dim=-1)
        return {"levels": codes + self.code_offsets + self.table_offsets}

    def filled(self, x: Tensor, mask: Tensor) -> Tensor:
        """x where observed; in missing cells nothing of x, but zeros or N(0, 1)."""
        return torch.where(mask, x, self.normal(x) if self.noise else x.new_zeros(()))

    def level_noise(self, mask: Tensor, table: Tensor) -> Tensor:
        """N(0, 1) on every level of an unobserved variable, 0 on the others; (E or 1, B, levels)"""
        missing = (~mask[..., self.level_attributes]).to(table.dtype).contiguous()
        return self.normal(missing) * missing

    def normal(self, x: Tensor) -> Tensor:
        """N(0, 1) as large as x, (E, B, …); in eval mode one row of it, (E, 1, …)."""
        if self.training:
            return torch.randn_like(x)
        return torch.randn(x.shape[0], 1, *x.shape[2:], device=x.device, dtype=x.dtype)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """Parts that members share, (1, B, …), beside those they do not, (E, B, …)."""
    # not torch.broadcast_shapes, which imports torch's compiler
    leading = [max(sizes) for sizes in zip(*(part.shape[:-1] for part in parts), strict=True)]
    return torch.cat([part.expand(*leading, -1) for part in parts], dim=-1)


def _attributes(blocks: list[Block]) -> Tensor:
    return torch.tensor([i for block in blocks for i in block.attributes], dtype=torch.long)


def _table(members: int, levels: int, width: int, fan_in: int) -> nn.Parameter:
    bound = 1.0 / math.sqrt(max(fan_in, 1))
    return nn.Parameter(torch.empty(members, levels, width).uniform_(-bound, bound))


class SeparateInput(_Input):
    """A linear layer per attribute, attributes kept apart: Batch, features of its numbers → (E, M, B, width).

    An attribute of several variables gets the sum of their maps: a linear map of their concatenation. What it gives
    for a missing attribute is not used by the selective proposal, so missing cells are filled only on request.
    """

    order: Tensor

    def __init__(self, schema: Schema, width: int, settings: InputSettings, fills_missing: bool) -> None:
        super().__init__(schema, width, settings)
        self.fills_missing = fills_missing
        self.attributes = len(schema)
        members, count = settings.members, len(self.number_attributes)
        self.number_map = GroupedLinear((members, count), settings.n_features, width) if count else None
        self.table = _table(members, self.n_levels, width, fan_in=1) if self.n_levels else None
        self.vector_maps = nn.ModuleList(
            GroupedLinear((members, len(block)), entries, width)
            for block, entries in zip(self.vector_blocks, self.vector_widths, strict=True)
        )
        blocks = [*self.number_blocks, *self.code_blocks, *self.vector_blocks]
        owner = _attributes(blocks)  # attribute of each variable, in the order the maps give them
        self.grouped = len(owner) > self.attributes
        self.in_order = bool((owner == torch.arange(len(owner))).all())
        self.register_buffer("order", owner if self.grouped else owner.argsort(), persistent=False)

    def read(self, batch: Batch, features: Tensor | None, others: Sequence[Tensor] = ()) -> dict[str, Tensor]:
        """`others`: features of other numbers for the same rows, (…, B, numbers, n) each, which are mapped as well."""
        found = self.levels(batch)
        if features is not None:
            if self.fills_missing:
                features = self.filled(features, batch.mask[..., self.number_attributes, None])
            found["numbers"] = torch.cat([x.transpose(-2, -3) for x in (features, *others)], dim=-2)
        return found

    def forward(self, batch: Batch) -> Tensor:
        parts = []
        if self.number_map is not None:
            parts.append(self.number_map(batch.readings["numbers"]))
        if self.table is not None:
            parts.append(self._levels(batch, self.table))
        for block, linear in zip(self.vector_blocks, self.vector_maps, strict=True):
            vectors = batch.values[block.name]
            if self.fills_missing:
                vectors = self.filled(vectors, batch.mask[..., list(block.attributes), None])
            parts.append(linear(vectors.transpose(-2, -3)))
        times = parts[0].shape[-2] // batch.rows  # that each row is mapped: see `read`
        parts = [part if part.shape[-2] > batch.rows else part.repeat(1, 1, times, 1) for part in parts]
        h = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]  # (E, variables, B, width)
        if self.grouped:
            return h.new_zeros(h.shape[0], self.attributes, *h.shape[2:]).index_add(1, self.order, h)
        return h if self.in_order else h.index_select(1, self.order)

    def _levels(self, batch: Batch, table: Tensor) -> Tensor:
        rows = batch.readings["levels"].transpose(-1, -2)  # (E, codes, B)
        h = table.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, rows.shape)  # (E, codes, B, width)
        if not self.fills_missing:
            return h
        h = h * batch.mask[..., self.code_attributes].transpose(-1, -2)[..., None]
        if not self.noise:
            return h
        noise = self.level_noise(batch.mask, table).transpose(-1, -2)[..., None]  # (E or 1, levels, B, 1)
        return h.index_add(1, self.level_owner, noise * table[:, :, None, :])


class JointInput(_Input):
    """A linear layer on [x_o, m, estimate], missing cells filled with zeros or noise → (E, B, width).

    `estimate` is the Gaussian imputation of the row (`gaussian.py`), where there is one. Without `reads_mask`
    (baselines that know nothing of masks), the layer reads no m.
    """

    vector_attributes: Tensor

    def __init__(
        self,
        schema: Schema,
        width: int,
        settings: InputSettings,
        n_estimates: int = 0,
        reads_mask: bool = True,
    ) -> None:
        super().__init__(schema, width, settings, settings.recurring if schema.number_blocks else 0)
        self.reads_mask, members = reads_mask, settings.members
        widths = zip(self.vector_blocks, self.vector_widths, strict=True)
        owner = torch.tensor(
            [i for b, entries in widths for i in b.attributes for _ in range(entries)], dtype=torch.long
        )
        self.register_buffer("vector_attributes", owner, persistent=False)  # per vector entry
        numbers = len(self.number_attributes) * settings.n_features
        dense = numbers + len(owner) + len(schema) * reads_mask + n_estimates
        self.dense = GroupedLinear((members,), dense, width)
        self.table = None
        if self.n_levels or self.recurring:
            of_levels = _table(members, self.n_levels, width, dense + len(self.code_attributes))
            # a value that recurs is, to begin with, like its neighbours
            self.table = nn.Parameter(torch.cat([of_levels, torch.zeros(members, self.recurring, width)], dim=1))

    def read(
        self, batch: Batch, features: Tensor | None, estimate: Tensor | None = None, places: Tensor | None = None
    ) -> dict[str, Tensor]:
        """`places`: of the numbers among the values that recur, (…, numbers); `recurring` for none."""
        mask = batch.mask
        parts = [mask.float()] if self.reads_mask else [mask[..., :0].float()]
        if features is not None:
            parts.append(self.filled(features, mask[..., self.number_attributes, None]).flatten(-2))
        if self.vector_blocks:
            entries = _side_by_side([batch.values[b.name].flatten(-2) for b in self.vector_blocks])
            parts.append(self.filled(entries, mask[..., self.vector_attributes]))
        if estimate is not None:
            parts.append(estimate)
        return self._codes(batch, places) | {"row": _side_by_side(parts)}

    def _codes(self, batch: Batch, places: Tensor | None) -> dict[str, Tensor]:
        """Rows of the table, (E, B, codes), and how much each counts: nothing what is not shown or does not recur."""
        rows, shown = list(self.levels(batch).values()), [batch.mask[..., self.code_attributes].float()]
        if self.recurring and places is not None:
            rows.append(places.clamp_max(self.recurring - 1) + self.n_levels + self.table_offsets)
            shown.append(_PACE * (batch.mask[..., self.number_attributes] & (places < self.recurring)))
        return {"codes": torch.cat(rows, dim=-1), "shown": _side_by_side(shown)} if rows else {}

    def forward(self, batch: Batch) -> Tensor:
        h: Tensor = self.dense(batch.readings["row"])
        return h if self.table is None else h + self._embedded(batch, self.table)

    def _embedded(self, batch: Batch, table: Tensor) -> Tensor:
        """Sum over the observed variables of the rows their values pick; with noise, N(0, 1) on the others' levels."""
        rows = batch.readings["codes"]
        weight = batch.readings["shown"].to(table.dtype).expand(rows.shape)  # (E, B, codes)
        picked = F.embedding_bag(
            rows.flatten(0, 1), table.flatten(0, 1), mode="sum", per_sample_weights=weight.flatten(0, 1)
        ).unflatten(0, rows.shape[:2])
        return picked + self.level_noise(batch.mask, table) @ table[:, : self.n_levels] if self.noise else picked
