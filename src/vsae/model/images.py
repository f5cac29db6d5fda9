"""The two ends of an image: an encoder, from pixels to a vector of features, and a decoder, from a vector to pixels.

Both are batches of networks, one for each member and each image of a block, run as one grouped convolution. An encoder
halves the image until its shorter side has at most 8 pixels, and a decoder goes the same way back.

`image_net="flat"` does without both: the proposals read the pixels as one long vector, and the data network's last
layer gives them back. These are the `paper` preset's MLPs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.batch import Batch
from vsae.data.schema import Block, Schema
from vsae.model.config import ImageNet
from vsae.model.nets import GroupedLinear

_KERNEL, _STRIDE, _PADDING = 4, 2, 1  # halves any even side, and the way back gives no checkerboards
_SMALL = 8  # pixels of the shorter side, where halving ends
_SMALLEST = 4  # … and what is no larger is not halved at all
_MOST_CHANNELS = 128  # bounds the cost of large images


class ImageSettings(NamedTuple):
    """How images are encoded and decoded."""

    members: int
    net: ImageNet
    channels: int  # of the first layer; each further one has twice as many
    width: int  # features that an encoder gives


def stages(shape: Sequence[int], channels: int) -> list[tuple[int, int, int]]:
    """The shape of an image and of what each halving makes of it.

    >>> stages((1, 28, 28), 32)
    [(1, 28, 28), (32, 14, 14), (64, 7, 7)]
    >>> stages((3, 5, 9), 16)
    [(3, 5, 9), (16, 2, 4)]
    """
    _, height, width = shape
    found = [(shape[0], height, width)]
    while min(height, width) > (_SMALL if len(found) > 1 else _SMALLEST):
        height, width = height // 2, width // 2
        found.append((min(channels * 2 ** (len(found) - 1), _MOST_CHANNELS), height, width))
    return found


def _he_bound(fan_in: int) -> float:
    """Weights that keep the size of what passes (He et al. 2015): else five layers shrink an image to nothing, z tells
    none from another beside its noise, and training begins by giving it up."""
    return math.sqrt(6 / fan_in)


class GroupedConv(nn.Module):
    """A convolution of stride 2 for each of G groups: (B, G·n_in, H, W) → (B, G·n_out, H', W').

    It halves an image, or with `target` (H', W') doubles it to that size. Weights have leading dimensions `groups`.
    """

    def __init__(self, groups: Sequence[int], n_in: int, n_out: int, target: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.groups, self.target = math.prod(groups), target
        fan_in = n_in * _KERNEL**2 // (1 if target is None else _STRIDE**2)  # weights that meet in one output pixel
        bound = _he_bound(fan_in)
        ends = (n_out, n_in) if target is None else (n_in, n_out)
        self.weight = nn.Parameter(torch.empty(*groups, *ends, _KERNEL, _KERNEL).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(*groups, n_out))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.flatten(0, -4)  # (G·first end, second end, kernel, kernel)
        bias = self.bias.flatten()
        if self.target is None:
            return F.conv2d(x, weight, bias, _STRIDE, _PADDING, groups=self.groups)
        more = [wanted - 2 * there for wanted, there in zip(self.target, x.shape[-2:], strict=True)]
        return F.conv_transpose2d(x, weight, bias, _STRIDE, _PADDING, more, self.groups)


class ImageEncoder(nn.Module):
    """Images of one block, (E or 1, B, n, C, H, W) → features, (E, B, n, width)."""

    def __init__(self, block: Block, settings: ImageSettings) -> None:
        super().__init__()
        self.members, self.flat = settings.members, settings.net == "flat"
        self.width = block.width if self.flat else settings.width
        if self.flat:
            return
        groups, shapes = (settings.members, len(block)), stages(block.event, settings.channels)
        self.halvings = nn.ModuleList(GroupedConv(groups, wide[0], narrow[0]) for wide, narrow in pairwise(shapes))
        self.last = GroupedLinear(groups, math.prod(shapes[-1]), settings.width)
        with torch.no_grad():
            bound = _he_bound(math.prod(shapes[-1]))
            self.last.weight.uniform_(-bound, bound)
            self.last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.flat:
            return x.flatten(-3)
        x = x.expand(self.members, *x.shape[1:]).transpose(0, 1)  # (B, E, n, C, H, W)
        groups, h = x.shape[1:3], x.flatten(1, 3)
        for halving in self.halvings:
            h = F.relu(halving(h))
        h = h.unflatten(1, (*groups, -1)).flatten(3).permute(1, 2, 0, 3)  # (E, n, B, what is left)
        features: Tensor = F.relu(self.last(h))
        return features.transpose(1, 2)


class ImageEncoders(nn.ModuleDict):
    """A batch with its images encoded: to what comes after, an image is the vector of its features."""

    def __init__(self, schema: Schema, settings: ImageSettings) -> None:
        super().__init__({block.name: ImageEncoder(block, settings) for block in schema.image_blocks})

    @property
    def widths(self) -> dict[str, int]:
        return {name: encoder.width for name, encoder in self.items() if isinstance(encoder, ImageEncoder)}

    def forward(self, batch: Batch) -> Batch:
        if not len(self):
            return batch
        return replace(
            batch, values={**batch.values, **{name: encode(batch.values[name]) for name, encode in self.items()}}
        )


class ImageDecoder(nn.Module):
    """What the data network says of a block's images, (E, B, n·n_in) → what the head takes, (E, B, n·pixels)."""

    def __init__(self, block: Block, settings: ImageSettings) -> None:
        super().__init__()
        groups, shapes = (settings.members, len(block)), stages(block.event, settings.channels)[::-1]
        self.seed = (settings.members, len(block), *shapes[0])
        self.n_in = len(block) * math.prod(shapes[0])
        self.numbers = len(block) * sum(map(math.prod, shapes))  # that a decoded row keeps alive
        self.doublings = nn.ModuleList(
            GroupedConv(groups, narrow[0], wide[0], target=wide[1:]) for narrow, wide in pairwise(shapes)
        )

    def forward(self, raw: Tensor) -> Tensor:
        members, images, *shape = self.seed
        h = raw.unflatten(-1, (images, *shape)).transpose(0, 1).flatten(1, 3)  # (B, E·n·C, H, W)
        for doubling in self.doublings:
            h = doubling(F.relu(h))
        return h.unflatten(1, (members, -1)).flatten(2).transpose(0, 1)
