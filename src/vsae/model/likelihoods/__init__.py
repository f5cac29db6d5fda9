"""p(x_i | m, z): one likelihood per family of variables, computed for a whole block at once."""

from __future__ import annotations

from vsae.data.schema import Block, Family
from vsae.model.config import Variance
from vsae.model.likelihoods.base import Distribution, Head
from vsae.model.likelihoods.gaussian import (
    CensoredGaussian,
    Gaussian,
    GaussianHead,
    IntervalHead,
    ScaledHead,
    Vector,
    VectorHead,
)
from vsae.model.likelihoods.images import ImageHead
from vsae.model.likelihoods.levels import (
    Bernoulli,
    BernoulliHead,
    CategoricalHead,
    CumulativeHead,
)

__all__ = [
    "Bernoulli",
    "CensoredGaussian",
    "Distribution",
    "Gaussian",
    "GaussianHead",
    "Head",
    "ImageHead",
    "ScaledHead",
    "Vector",
    "head_for",
]

_HEADS: dict[Family, type[Head]] = {
    Family.GAUSSIAN: GaussianHead,
    Family.INTERVAL: IntervalHead,
    Family.BERNOULLI: BernoulliHead,
    Family.CATEGORICAL: CategoricalHead,
    Family.CUMULATIVE: CumulativeHead,
    Family.VECTOR: VectorHead,
}


def head_for(block: Block, members: int, variance: Variance, pixel_variance: float | None = None) -> Head:
    """The one place where a family becomes a likelihood."""
    if block.family is Family.IMAGE:
        return ImageHead(block, members, pixel_variance)
    head: Head = _HEADS[block.family](block, members, variance)  # type: ignore[call-arg]
    return head
