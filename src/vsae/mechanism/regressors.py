"""What a mask may depend on, as numbers: the values of all attributes, filled where missing, and the masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

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
_LEAST_STD = 1e-6
_RIDGE = 0.01  # of a variance: columns that tell the same twice


class Source(NamedTuple):
    """What a regressor is: a number, a level of a variable, or the mask of an attribute."""

    name: str
    level: int | None = None  # its code
    mask: bool = False


@dataclass(frozen=True)
class Regressors:
    """Of n rows. `others` gives what the mask of one attribute may depend on; `targets`, what its own cells hold."""

    numbers: _Numbers
    levels: Mapping[int, NDArray[np.float64]]  # by attribute, (n, K): indicators, filled with frequencies
    sources_of_levels: Mapping[int, list[Source]]
    names: list[str]  # of the attributes
    masks: NDArray[np.float64]  # (n, M): 1 where missing
    targets: Mapping[int, NDArray[np.float64]]  # by attribute, (n, K): numbers and indicators; 0 where missing

    @classmethod
    def of(cls, encoding: Encoding, columns: Columns, mask: Mask) -> Regressors:
        numbers = _Numbers.of(encoding, columns, mask)
        levels: dict[int, list[NDArray[np.float64]]] = {}
        sources: dict[int, list[Source]] = {}
        targets: dict[int, list[NDArray[np.float64]]] = {}
        for k, i in enumerate(numbers.attributes):
            targets.setdefault(i, []).append(numbers.x[:, [k]].numpy())
        for variable in encoding.schema.variables:
            if variable.family in DISCRETE:
                i = encoding.schema.attribute_of[variable.name]
                codes, seen = np.asarray(columns[variable.name]), mask[:, i]
                kept = frequent_levels(variable, codes[seen])
                filled, own = _indicators(codes, seen, kept)
                levels.setdefault(i, []).append(filled)
                sources.setdefault(i, []).extend(Source(variable.name, k) for k in kept)
                targets.setdefault(i, []).append(own)
        return cls(
            numbers,
            {i: np.concatenate(parts, axis=1) for i, parts in levels.items()},
            sources,
            encoding.schema.names,
            (~mask).astype(np.float64),
            {i: np.concatenate(parts, axis=1) for i, parts in targets.items()},
        )

    def others(self, attribute: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values and masks of all other attributes that vary; standardised. The attribute itself, which is only known
        where it is not missing, has no part in how the others are filled."""
        return standardised(self._values(attribute)), standardised(np.delete(self.masks, attribute, axis=1))

    def described_others(self, attribute: int) -> tuple[NDArray[np.float64], list[Source]]:
        """The same side by side, as they are, and what each is; those that vary."""
        x = np.concatenate([self._values(attribute), np.delete(self.masks, attribute, axis=1)], axis=1)
        numbers = zip(self.numbers.attributes, self.numbers.names, strict=True)
        sources = [Source(name) for i, name in numbers if i != attribute]
        sources += [source for i, some in self.sources_of_levels.items() if i != attribute for source in some]
        sources += [Source(name, mask=True) for i, name in enumerate(self.names) if i != attribute]
        varied = x.std(axis=0) > _LEAST_STD
        return x[:, varied], [source for source, kept in zip(sources, varied, strict=True) if kept]

    def _values(self, attribute: int) -> NDArray[np.float64]:
        levels = [x for i, x in self.levels.items() if i != attribute]
        return np.concatenate([self.numbers.without(attribute), *levels], axis=1)


def standardised(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns that vary, with mean 0 and std 1."""
    x = x - x.mean(axis=0)
    std = np.sqrt((x**2).mean(axis=0))
    return np.asarray(x[:, std > _LEAST_STD] / std[std > _LEAST_STD], dtype=np.float64)


@dataclass(frozen=True)
class _Numbers:
    """Columns of numbers in units of their std, 0 where missing, and a Gaussian that fills them."""

    attributes: tuple[int, ...]
    names: tuple[str, ...]
    x: Tensor  # (n, K)
    seen: Tensor
    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, encoding: Encoding, columns: Columns, mask: Mask) -> _Numbers:
        blocks = encoding.schema.number_blocks
        attributes = tuple(i for block in blocks for i in block.attributes)
        names = tuple(variable.name for block in blocks for variable in block.variables)
        if not attributes:
            none = torch.zeros(len(mask), 0, dtype=torch.float64)
            return cls((), (), none, none, none[0], torch.zeros(0, 0, dtype=torch.float64))
        x = encoding.encode(columns, mask).numbers(blocks).double().clamp(-_FARTHEST, _FARTHEST)
        seen = torch.from_numpy(mask[:, list(attributes)].astype(np.float64))
        count = seen.sum(0).clamp_min(1)
        x = (x - (x * seen).sum(0) / count) * seen
        x = x / (x.square().sum(0) / count).sqrt().clamp_min(1e-6)
        mean, covariance = torch.zeros_like(x[0]), torch.eye(len(attributes), dtype=x.dtype)
        if 1 < len(attributes) <= _MOST_NUMBERS:
            mean, covariance = expectation_maximisation(x, seen)
            covariance.diagonal().add_(_RIDGE)
        return cls(attributes, names, x, seen, mean, covariance)

    def without(self, attribute: int) -> NDArray[np.float64]:
        """The columns of other attributes, filled with what they say of each other."""
        kept = [k for k, i in enumerate(self.attributes) if i != attribute]
        if len(self.attributes) > _MOST_NUMBERS or not kept:
            return self.x[:, kept].numpy()
        parts = self.mean[kept], self.covariance[kept][:, kept], self.x[:, kept], self.seen[:, kept]
        return given_seen(*parts)[0].numpy()


def frequent_levels(variable: Variable, codes: NDArray[np.int64]) -> list[int]:
    """The most frequent ones, by their codes; the others have no indicator."""
    share = np.bincount(codes.astype(int), minlength=variable.size) / max(1, len(codes))
    return [int(k) for k in np.argsort(-share, kind="stable")[:_MOST_LEVELS] if share[k] >= _RAREST]


def _indicators(
    codes: NDArray[np.int64], seen: NDArray[np.bool_], kept: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of some levels; their frequencies where the cell is missing."""
    codes = np.where(seen, codes, 0).astype(int)
    own = (codes[:, None] == np.array(kept, dtype=int)) * seen[:, None].astype(np.float64)
    return np.where(seen[:, None], own, own.sum(axis=0) / max(1, int(seen.sum()))), own
