"""ReMasker (Du, Melis and Wang 2024): a masked autoencoder whose tokens are cells, trained by hiding more of them.

Of the observed cells, half are hidden anew in each step ("re-masked"). An encoder, a transformer, reads the visible
cells alone, one token each. A decoder, another one, gets the encoded tokens, and in place of all others one learned
token with the attribute's position; both the hidden and the visible cells are to come back.

DIFF(ReMasker): positions are learned with each attribute's first layer and its mask token, not sines, as columns have
no order; the paper's squared error is a likelihood a kind, whose σ is learned, so that cells can be drawn, in turn
(any subset was trained on). A token is an attribute, of whatever kind. Half as many blocks, each half as wide inside,
for time. Hidden tokens are kept out of the attention, not out of the tensors, as a batch's rows show different cells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.baselines.base import OWN_CHOICES, Baseline, loss_of
from vsae.baselines.own_heads import OwnHeads
from vsae.data.batch import Batch
from vsae.data.remasking import remask
from vsae.data.schema import Schema
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.generative import DataDistribution
from vsae.model.inputs import SeparateInput
from vsae.model.latent_model import Draws, Noise
from vsae.model.nets import GroupedLayerNorm, GroupedLinear
from vsae.training.objective import Elbo

_HEADS = 4
_WIDER = 2  # the inside of a block, than its ends


class TransformerBlock(nn.Module):
    """h + attention(norm(h)), then h + W₂ gelu(W₁ norm(h)); rows' tokens one after the other, (E, B·T, width)."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.inner = _HEADS * max(1, width // _HEADS)
        self.norms = nn.ModuleList(GroupedLayerNorm((members,), width) for _ in range(2))
        self.queries_keys_values = GroupedLinear((members,), width, 3 * self.inner)
        self.mixed = GroupedLinear((members,), self.inner, width)
        self.first = GroupedLinear((members,), width, _WIDER * width)
        self.second = GroupedLinear((members,), _WIDER * width, width)

    def forward(self, h: Tensor, shown: Tensor) -> Tensor:
        """`shown` (E or 1, B, T): the tokens that others may read."""
        h = h + self.mixed(self._attend(self.queries_keys_values(self.norms[0](h)), shown))
        inside: Tensor = self.second(F.gelu(self.first(self.norms[1](h))))
        return h + inside

    def _attend(self, qkv: Tensor, shown: Tensor) -> Tensor:
        tokens = shown.shape[-1]
        parts = qkv.unflatten(1, (-1, tokens)).unflatten(-1, (3, _HEADS, -1))  # (E, B, T, 3, heads, d)
        query, key, value = parts.permute(3, 0, 1, 4, 2, 5)  # (E, B, heads, T, d) each
        read = F.scaled_dot_product_attention(query, key, value, attn_mask=shown[:, :, None, None])
        return read.transpose(2, 3).flatten(-2).flatten(1, 2)


class ReMasker(Baseline):
    """`config.collective` shapes the encoder, `config.data_net.depth` counts the decoder's blocks."""

    settings: ClassVar[Mapping[str, Any]] = {
        **OWN_CHOICES,
        "remask": (0.5, 0.5),
        "collective": NetShape(width=32, depth=3),
        "data_net": NetShape(width=32, depth=2),
        "patience": 20,  # of its many, costly epochs
    }
    grows = False  # its weights are those of all columns: a table's width does not ask for more

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__(schema, config)
        members, width = config.members, config.collective.width
        self.input = SeparateInput(schema, width, self.input_settings(), fills_missing=False)
        self.row_token = nn.Parameter(0.02 * torch.randn(members, 1, 1, width))  # there even if no cell is
        self.mask_token = nn.Parameter(0.02 * torch.randn(members, 1, len(schema), width))
        self.encoder, self.decoder = (
            nn.ModuleList(TransformerBlock(members, width) for _ in range(depth))
            for depth in (config.collective.depth, config.data_net.depth)
        )
        self.between = GroupedLayerNorm((members,), width)
        self.last = GroupedLayerNorm((members,), width)
        self.own = OwnHeads(schema, self.make_heads(), members, width)

    def encode(self, visible: Batch) -> Tensor:
        """Of each row the row's own token, then its attributes', (E, B, 1 + M, width): zeros where they are hidden."""
        batch = self.encode_images(visible)
        batch = replace(batch, readings=self.input.read(batch, self.number_features(batch)))
        cells = self.input(batch).transpose(1, 2)  # (E, B, M, width)
        shown = F.pad(batch.mask, (1, 0), value=True)
        h = torch.cat([self.row_token.expand(-1, cells.shape[1], -1, -1), cells], dim=2) * shown[..., None]
        tokens = self.between(_through(self.encoder, h, shown)).unflatten(1, (-1, shown.shape[-1]))
        return tokens * shown[..., None]

    def decode(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """What the last layers read of each attribute, (E, B, M, width)."""
        cells = torch.where(mask[..., None], tokens[:, :, 1:], self.mask_token)
        h = torch.cat([tokens[:, :, :1], cells], dim=2)
        every = torch.ones(1, *h.shape[1:3], dtype=torch.bool, device=h.device)
        decoded: Tensor = self.last(_through(self.decoder, h, every)).unflatten(1, (-1, h.shape[2]))
        return decoded[:, :, 1:]

    def bound(self, batch: Batch, epoch: int) -> tuple[Elbo, Tensor]:
        """The log-likelihood of all observed cells, visible and hidden; there is no KL."""
        visible = batch.with_mask(remask(batch.usable, *self.config.remask))
        log_x = self.log_likelihood(self.reconstruct(visible), batch) * batch.usable
        terms = self.terms(log_x, torch.zeros_like(log_x[..., 0]))
        return terms, loss_of(terms)

    @property
    def numbers_per_row(self) -> int:
        tokens, width = 1 + len(self.schema), self.config.collective.width
        return tokens * (8 * width + _HEADS * tokens) + self.own.numbers_per_row

    def reconstruct(self, batch: Batch) -> DataDistribution:
        return self.said(self.decode(self.encode(batch), batch.mask))

    def said(self, decoded: Tensor) -> DataDistribution:
        distributions: DataDistribution = self.own(decoded.transpose(1, 2))
        return distributions

    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        """All alike: one distribution a cell, as nothing is latent."""
        if weighted:
            raise ValueError("ReMasker has no latent draws to weight; leave weighted out")
        decoded = self.decode(self.encode(batch), batch.mask)  # once: the transformers are what takes time
        return Draws(self.said(decoded.repeat(1, noise.samples, 1, 1)))


def _through(blocks: nn.ModuleList, h: Tensor, shown: Tensor) -> Tensor:
    """(E, B, T, width) → (E, B·T, width)"""
    h = h.flatten(1, 2)
    for block in blocks:
        h = block(h, shown)
    return h
