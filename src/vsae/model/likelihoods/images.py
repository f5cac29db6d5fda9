"""Images: pixels that are independent given z."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.schema import Block
from vsae.model.likelihoods.base import PACE, SCALE_RANGE, Head, Scored, normal_log_density
from vsae.model.likelihoods.gaussian import Gaussian, log_normal_mass

_DARKEST = 0.005  # of a mean image: a pixel that was never seen lit can still be

_FIRST_PIXEL_VARIANCE = 0.1  # where it is learned

_FAR = 1e6  # standard deviations: an edge that nothing lies beyond


def _summed(per_pixel: Tensor) -> Tensor:
    """(E, B, images, C, H, W) → (E, B, images)"""
    return per_pixel.flatten(3).sum(-1)


@dataclass(frozen=True)
class ImageDistribution(Scored, ABC):
    """Pixels that are independent given z; their mean is sigmoid(logits), and the log-likelihood the sum over them.

    A draw is the mean: what varies from image to image is z, and noise from pixel to pixel would only hide it.
    """

    logits: Tensor  # (E, B, images, C, H, W)

    @property
    def mean(self) -> Tensor:
        return torch.sigmoid(self.logits)

    @property
    def mode(self) -> Tensor:
        return self.mean

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.mean

    @abstractmethod
    def log_prob(self, values: Tensor) -> Tensor: ...

    @property
    @abstractmethod
    def statistics(self) -> Tensor: ...

    @abstractmethod
    def expected_log_prob(self, statistics: Tensor) -> Tensor: ...

    def error_of_mean(self, mean: Tensor, values: Tensor) -> Tensor:
        return ((values - mean) ** 2).flatten(3).mean(-1)


@dataclass(frozen=True)
class BernoulliImage(ImageDistribution):
    """x log p + (1 - x) log(1 - p), for grey values between 0 and 1 as well."""

    def log_prob(self, values: Tensor) -> Tensor:
        return self.expected_log_prob(values)

    @property
    def statistics(self) -> Tensor:
        return self.mean

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return _summed(statistics * self.logits - F.softplus(self.logits))


@dataclass(frozen=True)
class GaussianImage(ImageDistribution):
    """N(mean, scale²), one scale an image attribute."""

    log_scale: Tensor  # (E, 1, images, 1, 1, 1)

    def log_prob(self, values: Tensor) -> Tensor:
        return _summed(normal_log_density(values - self.mean, self.log_scale))

    @property
    def statistics(self) -> Tensor:
        return torch.stack([self.mean, self.mean**2], dim=-1)

    def expected_log_prob(self, statistics: Tensor) -> Tensor:
        return _summed(Gaussian(self.mean, self.log_scale).expected_log_prob(statistics))


@dataclass(frozen=True)
class DiscretisedImage(GaussianImage):
    """The mass of that Gaussian around each of 256 grey values; black and white own what lies beyond them."""

    def log_prob(self, values: Tensor) -> Tensor:
        inverse, half = torch.exp(-self.log_scale), 0.5 / 255
        lower = torch.where(values <= half, -_FAR, (values - half - self.mean) * inverse)
        upper = torch.where(values >= 1 - half, _FAR, (values + half - self.mean) * inverse)
        width = torch.where(upper - lower < _FAR / 2, 2 * half * inverse, upper - lower)
        return _summed(log_normal_mass(lower, upper, width))


class ImageHead(Head):
    """Logits of pixels; a Gaussian's variance is fixed, or (None) learned, one an image attribute.

    What the networks say is added to the logits of the mean image (`begin_at`): else they would spend their first
    hundreds of steps on decoding that one, with no use for z.
    """

    slow_log_scale: Tensor
    centre: Tensor

    def __init__(self, block: Block, members: int, pixel_variance: float | None) -> None:
        super().__init__()
        self.shape, self.pixels = (len(block), *block.event), block.variables[0].pixels
        self.n_parameters, self.block = math.prod(self.shape), block.name
        self.register_buffer("centre", torch.zeros(members, 1, *self.shape))
        start = 0.5 * math.log(_FIRST_PIXEL_VARIANCE if pixel_variance is None else pixel_variance) / PACE
        scale = torch.full((members, 1, len(block), 1, 1, 1), start)
        if pixel_variance is None and self.pixels != "bernoulli":
            self.slow_log_scale = nn.Parameter(scale)
        else:
            self.register_buffer("slow_log_scale", scale, persistent=False)

    @torch.no_grad()
    def begin_at(self, mean: Tensor) -> None:
        """The mean images, (images, C, H, W), that all members begin at."""
        self.centre[:] = torch.logit(mean.clamp(_DARKEST, 1 - _DARKEST))

    def forward(self, raw: Tensor) -> ImageDistribution:
        logits = raw.unflatten(-1, self.shape) + self.centre
        if self.pixels == "bernoulli":
            return BernoulliImage(logits)
        kind = DiscretisedImage if self.pixels == "discretised" else GaussianImage
        return kind(logits, (self.slow_log_scale * PACE).clamp(*SCALE_RANGE))
