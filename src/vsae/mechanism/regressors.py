"""What a mask may depend on, as numbers: the values of all attributes, filled where missing, and the masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.data.schema import DISCRETE, Variable
from vsae.imputation.linear_relations import expectation_maximisation, given_seen

_FARTHEST = 4.0  # standard deviations: an outlier must not rule a regression
_MOST_NUMBERS = 32  # that are filled given each other; beyond, with their means
_MOST_LEVELS, _RAREST = 8, 0.02  # that have an indicator each
_RIDGE = 0.01  # of a variance: columns that tell the same twice


@dataclass(frozen=True)
class Regressors:
    """Of n rows. `others` gives what the mask of one attribute may depend on; `targets`, what its own cells hold."""

    numbers: _Numbers
    levels: Mapping[int, NDArray[np.float64]]  # by attribute, (n, K): indicators, filled with frequencies
    masks: NDArray[np.float64]  # (n, M): 1 where missing
    targets: Mapping[int, NDArray[np.float64]]  # by attribute, (n, K): numbers and indicators; 0 where missing

    @classmethod
    def of(cls, encoding: Encoding, columns: Columns, mask: Mask) -> Regressors:
        numbers = _Numbers.of(encoding, columns, mask)
        levels: dict[int, list[NDArray[np.float64]]] = {}
        targets: dict[int, list[NDArray[np.float64]]] = {}
        for k, i in enumerate(numbers.attributes):
            targets.setdefault(i, []).append(numbers.x[:, [k]].numpy())
        for variable in encoding.schema.variables:
            if variable.family in DISCRETE:
                i = encoding.schema.attribute_of[variable.name]
                filled, own = _indicators(variable, np.asarray(columns[variable.name]), mask[:, i])
                levels.setdefault(i, []).append(filled)
                targets.setdefault(i, []).append(own)
        return cls(
            numbers,
            {i: np.concatenate(parts, axis=1) for i, parts in levels.items()},
            (~mask).astype(np.float64),
            {i: np.concatenate(parts, axis=1) for i, parts in targets.items()},
        )

    def others(self, attribute: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and masks of all other attributes that vary; standardised. The attribute itself, which is only known
        where it is not missing, has no part in how the others are filled."""
        levels = [x for i, x in self.levels.items() if i != attribute]
        values = np.concatenate([self.numbers.without(attribute), *levels], axis=1)
        return standardised(values), standardised(np.delete(self.masks, attribute, axis=1))


def standardised(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns that vary, with mean 0 and std 1."""
    x = x - x.mean(axis=0)
    std = np.sqrt((x**2).mean(axis=0))
    return np.asarray(x[:, std > 1e-6] / std[std > 1e-6], dtype=np.float64)


@dataclass(frozen=True)
class _Numbers:
    """Columns of numbers in units of their std, 0 where missing, and a Gaussian that fills them."""

    attributes: tuple[int, ...]
    x: Tensor  # (n, K)
    seen: Tensor
    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, encoding: Encoding, columns: Columns, mask: Mask) -> _Numbers:
        blocks = encoding.schema.number_blocks
        attributes = tuple(i for block in blocks for i in block.attributes)
        if not attributes:
            none = torch.zeros(len(mask), 0, dtype=torch.float64)
            return cls((), none, none, none[0], torch.zeros(0, 0, dtype=torch.float64))
        x = encoding.encode(columns, mask).numbers(blocks).double().clamp(-_FARTHEST, _FARTHEST)
        seen = torch.from_numpy(mask[:, list(attributes)].astype(np.float64))
        count = seen.sum(0).clamp_min(1)
        x = (x - (x * seen).sum(0) / count) * seen
        x = x / (x.square().sum(0) / count).sqrt().clamp_min(1e-6)
        mean, covariance = torch.zeros_like(x[0]), torch.eye(len(attributes), dtype=x.dtype)
        if 1 < len(attributes) <= _MOST_NUMBERS:
            mean, covariance = expectation_maximisation(x, seen)
            covariance.diagonal().add_(_RIDGE)
        return cls(attributes, x, seen, mean, covariance)

    def without(self, attribute: int) -> NDArray[np.float64]:
        """The columns of other attributes, filled with what they say of each other."""
        kept = [k for k, i in enumerate(self.attributes) if i != attribute]
        if len(self.attributes) > _MOST_NUMBERS or not kept:
            return self.x[:, kept].numpy()
        parts = self.mean[kept], self.covariance[kept][:, kept], self.x[:, kept], self.seen[:, kept]
        return given_seen(*parts)[0].numpy()


def _indicators(
    variable: Variable, codes: NDArray[np.int64], seen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the most frequent levels; their frequencies where the cell is missing."""
    codes = np.where(seen, codes, 0).astype(int)
    share = np.bincount(codes[seen], minlength=variable.size) / max(1, int(seen.sum()))
    kept = [k for k in np.argsort(-share, kind="stable")[:_MOST_LEVELS] if share[k] >= _RAREST]
    own = (codes[:, None] == np.array(kept, dtype=int)) * seen[:, None].astype(np.float64)
    return np.where(seen[:, None], own, share[kept]), own
