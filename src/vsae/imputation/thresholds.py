"""Thresholds: what a missing cell holds where all values beyond some value are missing.

No observed cell is like those that are hidden, so there is nothing to tilt: the column goes on beyond the cut. Numbers
are taken for jointly normal, and of a hidden cell of a column that is cut off it is known on which side it lies:

    x_j | the rest of the row, missing ~ N(μ_j, σ_j²), given x_j > c_j

where μ_j and σ_j allow for all other cells that are known to lie beyond their thresholds: expectation propagation, in
which each of these is stood for by a normal factor, in turn until they agree. How it is fitted:
`mechanism/censored.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vsae.imputation.linear_relations import given_seen, pieces

_SWEEPS = 5
_LEAST = 1e-12
_LEAST_RANK = 1e-300
_NARROWEST = 0.01  # of a variance, is what a cut leaves of it


class Threshold(NamedTuple):
    """Of one column: with sign 1, what lies above the value is missing, with -1 what lies below it."""

    sign: float
    value: float  # in standard units


class Beyond(NamedTuple):
    """The missing cells of one column: normal, given that they lie beyond its threshold.

    >>> cells = Beyond(Threshold(1.0, 0.0), torch.zeros(1), torch.ones(1))
    >>> cells.quantile(torch.tensor([0.5])).float().round(decimals=2)  # the median of a standard normal's upper half
    tensor([0.6700])
    """

    threshold: Threshold
    mean: Tensor  # (B,), and before the cut, as σ is
    std: Tensor

    def quantile(self, rank: Tensor) -> Tensor:
        """Values at ranks (…, B)."""
        sign, cut = self.threshold
        rank = rank.double() if sign > 0 else 1 - rank.double()
        mean = sign * self.mean.double()
        share = torch.special.ndtr((mean - sign * cut) / self.std)
        deviate = -torch.special.ndtri(((1 - rank) * share).clamp_min(_LEAST_RANK))
        return sign * (mean + self.std * deviate).clamp_min(sign * cut)

    @classmethod
    def joined(cls, parts: Sequence[Beyond]) -> Beyond:
        return cls(
            parts[0].threshold, torch.cat([part.mean for part in parts]), torch.cat([part.std for part in parts])
        )

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance, (B,)."""
        sign, cut = self.threshold
        mean = sign * self.mean
        deviate = (sign * cut - mean) / self.std
        ratio = torch.exp(-0.5 * deviate**2 - 0.9189385332 - torch.special.log_ndtr(-deviate))  # Mills', inverted
        variance = self.std**2 * (1 + deviate * ratio - ratio**2).clamp(_NARROWEST, 1.0)
        return sign * (mean + self.std * ratio).clamp_min(sign * cut), variance


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Of the columns that are cut off, in a joint normal of these and other numbers; in standard units."""

    of: Mapping[str, Threshold]
    names: tuple[str, ...]  # of the K numbers
    mean: Tensor  # (K,)
    covariance: Tensor  # (K, K)

    def beyond(self, x: Tensor, shown: Tensor, wanted: Sequence[str]) -> dict[str, Beyond]:
        """Of rows (B, K), where `shown` is true: the cells of the columns wanted, as they are if they are missing."""
        parts = [self._beyond(x[some], shown[some]) for some in pieces(len(x), len(self.names))]
        return {name: Beyond.joined([part[name] for part in parts]) for name in wanted}

    def _beyond(self, x: Tensor, shown: Tensor) -> dict[str, Beyond]:
        cut = [j for j, name in enumerate(self.names) if name in self.of]
        mean, covariance = given_seen(self.mean.to(x.device), self.covariance.to(x.device), x.double(), shown.double())
        mean, covariance, hidden = mean[:, cut], covariance[:, cut][:, :, cut], ~shown[:, cut]
        precision, shift = torch.zeros_like(mean), torch.zeros_like(mean)  # of the factors
        out: dict[str, Beyond] = {}
        for j in [*range(len(cut))] * _SWEEPS:
            name, variance = self.names[cut[j]], covariance[:, j, j].clamp_min(_LEAST)
            without = 1 / (1 / variance - precision[:, j]).clamp_min(_LEAST)  # its own factor
            out[name] = cells = Beyond(
                self.of[name], without * (mean[:, j] / variance - shift[:, j]), without.clamp_min(_NARROWEST**2).sqrt()
            )
            centre, left = cells.moments()
            more = torch.where(hidden[:, j], (1 / left - 1 / without).clamp_min(0.0) - precision[:, j], 0.0)
            towards = torch.where(hidden[:, j], centre / left - cells.mean / without - shift[:, j], 0.0)
            precision[:, j], shift[:, j] = precision[:, j] + more, shift[:, j] + towards
            row = covariance[:, j] / (1 + more * covariance[:, j, j])[:, None]
            mean = mean + row * (towards - more * mean[:, j])[:, None]
            covariance = covariance - (more[:, None] * row)[:, :, None] * covariance[:, j][:, None, :]
        return out

    def to_json(self) -> dict[str, Any]:
        of = {name: list(threshold) for name, threshold in self.of.items()}
        return {
            "of": of, "names": list(self.names), "mean": self.mean.tolist(), "covariance": self.covariance.tolist(),
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Thresholds:
        of = {name: Threshold(*map(float, x)) for name, x in data["of"].items()}
        mean, covariance = (torch.tensor(data[part], dtype=torch.float64) for part in ("mean", "covariance"))
        return cls(of, tuple(data["names"]), mean, covariance)
