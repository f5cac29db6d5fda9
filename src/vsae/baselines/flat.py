"""Rows as plain vectors, for models that read and make nothing else: GAN's critics, diffusions.

numbers, vectors   their entries in standard units
levels             one entry each: 1 for the one that is there, -1 for the others
ordered levels     one number from -1 (the first) to 1 (the last); so are two levels
images             pixels, from -1 (black) to 1 (white)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Block, Family, Schema
from vsae.model.generative import DataDistribution
from vsae.model.likelihoods import Bernoulli, CensoredGaussian, Distribution, Gaussian, Vector
from vsae.model.likelihoods.images import GaussianImage
from vsae.model.likelihoods.levels import Cumulative, SegmentedCategorical, Segments

_LOG_WIDTH = math.log(1e-3)  # of a value that is all but certain, in standard units
_SHARPNESS = 50.0  # of the softmax that takes the level whose entry is the largest
_FAR = 1e4  # beyond all cutpoints
_DARKEST = 1e-4  # of a pixel: its logit is finite


class FlatRows(nn.Module):
    """What a batch holds, (E, B, entries), and back; `owner` has the attribute of each entry.

    >>> from vsae.data.schema import categorical, real
    >>> rows = FlatRows(Schema([real("a"), categorical("b", 3)]))
    >>> flat = rows({"gaussian": torch.tensor([[[0.5]]]), "categorical": torch.tensor([[[2]]])})
    >>> flat, rows.owner
    (tensor([[[ 0.5000, -1.0000, -1.0000,  1.0000]]]), tensor([0, 1, 1, 1]))
    >>> rows.certain(flat)["categorical"].mode
    tensor([[[2]]])
    """

    owner: Tensor

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.blocks = schema.blocks
        self.segments = nn.ModuleDict(
            {b.name: Segments(b.sizes) for b in self.blocks if b.family is Family.CATEGORICAL}
        )
        self.widths = [sum(_entries(block)) for block in self.blocks]
        owner = [i for b in self.blocks for i, n in zip(b.attributes, _entries(b), strict=True) for _ in range(n)]
        self.register_buffer("owner", torch.tensor(owner), persistent=False)

    @property
    def width(self) -> int:
        return len(self.owner)

    def by_entry(self, mask: Tensor) -> Tensor:
        """What is said of attributes, (…, M), of their entries, (…, entries)."""
        return mask.index_select(-1, self.owner)

    def forward(self, values: Mapping[str, Tensor]) -> Tensor:
        """Values as a `Batch` has them."""
        single = {
            b.name: values[b.name][..., 0] if b.family is Family.INTERVAL else values[b.name] for b in self.blocks
        }
        return torch.cat([self._entries_of(block, single[block.name]) for block in self.blocks], dim=-1)

    def visible(self, batch: Batch, fill: Tensor | float = 0.0) -> Tensor:
        """The observed cells of a batch; `fill` elsewhere, which may vary by entry, (…, entries)."""
        shown = self.by_entry(batch.mask)
        return torch.where(shown, self(batch.values), torch.as_tensor(fill, device=shown.device))

    def drawn(self, data: DataDistribution) -> Tensor:
        """Distributions as rows that a gradient passes: means of numbers, and levels that are drawn.

        The gradient of a drawn level is that of its probabilities (straight-through): a critic that saw these
        themselves would tell made rows from real ones by their not being certain.
        """
        expected = torch.cat([self._expected(block, data[block.name]) for block in self.blocks], dim=-1)
        with torch.no_grad():
            chosen = [
                self._entries_of(b, data[b.name].sample() if b.family in DISCRETE else data[b.name].mean)
                for b in self.blocks
            ]
        # the bracket is exactly 0, so that what is drawn is not rounded
        return torch.cat(chosen, dim=-1) + (expected - expected.detach())

    def certain(self, flat: Tensor) -> DataDistribution:
        """Rows as distributions that say nothing else: of levels, the nearest."""
        parts = zip(self.blocks, flat.split(self.widths, dim=-1), strict=True)
        return {block.name: self._certain(block, x) for block, x in parts}

    def _entries_of(self, block: Block, x: Tensor) -> Tensor:
        """Values of a block, single numbers for intervals, (…, variables[, …]) → (…, entries)."""
        if block.family is Family.CATEGORICAL:
            segments = self._segments(block)
            ones = x.new_zeros(*x.shape[:-1], segments.total, dtype=torch.float32)
            return 2 * ones.scatter(-1, x + segments.offsets, 1.0) - 1
        if block.family in DISCRETE:
            return 2 * x.float() / _last_level(block, x.device) - 1
        if block.family is Family.IMAGE:
            return 2 * x.flatten(-4) - 1
        return x.flatten(-2) if block.family is Family.VECTOR else x

    def _expected(self, block: Block, distribution: Distribution) -> Tensor:
        mean = distribution.mean
        if block.family is Family.CUMULATIVE:
            level = (mean * torch.arange(mean.shape[-1], device=mean.device)).sum(-1)
            return 2 * level / _last_level(block, mean.device) - 1
        if block.family in DISCRETE:
            return 2 * mean - 1
        return self._entries_of(block, mean)

    def _certain(self, block: Block, x: Tensor) -> Distribution:
        width = x.new_full((), _LOG_WIDTH)
        if block.family is Family.GAUSSIAN:
            return Gaussian(x, width)
        if block.family is Family.INTERVAL:
            return CensoredGaussian(x, width)
        if block.family is Family.VECTOR:
            return Vector(Gaussian(x.unflatten(-1, (len(block), block.width)), width))
        if block.family is Family.BERNOULLI:
            return Bernoulli(_SHARPNESS * x)
        if block.family is Family.CATEGORICAL:
            return SegmentedCategorical(_SHARPNESS * x, self._segments(block))
        if block.family is Family.CUMULATIVE:
            level = (x + 1) / 2 * _last_level(block, x.device)
            return Cumulative(level, width.expand_as(level), _between_levels(block, x.device))
        pixels = ((x + 1) / 2).clamp(_DARKEST, 1 - _DARKEST)
        return GaussianImage(torch.logit(pixels).unflatten(-1, (len(block), *block.event)), width)

    def _segments(self, block: Block) -> Segments:
        segments = self.segments[block.name]
        assert isinstance(segments, Segments)
        return segments


def _entries(block: Block) -> list[int]:
    """Of each variable."""
    return list(block.sizes) if block.family is Family.CATEGORICAL else [block.width] * len(block)


def _last_level(block: Block, device: torch.device) -> Tensor:
    """The code of the last level of each variable, (variables,); 1 where there is but one level."""
    return torch.tensor([max(size - 1, 1) for size in block.sizes], device=device, dtype=torch.float32)


def _between_levels(block: Block, device: torch.device) -> Tensor:
    """Half-way between codes, as `Cumulative` wants cutpoints, (1, 1, variables, most levels + 1)."""
    most = max(block.sizes)
    sizes = torch.tensor(block.sizes, device=device)[:, None]
    code = torch.arange(most, device=device)
    upper = torch.where(code < sizes - 1, code + 0.5, _FAR)
    return F.pad(upper, (1, 0), value=-_FAR)[None, None]
