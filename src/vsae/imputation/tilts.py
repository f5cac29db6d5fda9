"""Tilts: what a missing cell holds where its own value made it missing.

If the log odds that a cell is missing rise by a with its value, P(missing | x) = logistic(a x + b), then

    p(x | the rest of the row, missing) ∝ p(x | the rest of the row, observed) · exp(a x)

exactly: Bayes' rule, with the odds P(missing | x) / P(observed | x) = exp(a x + b). What the model learned from
observed cells is tilted, and stays a distribution with the same quantiles, differently weighted: a tilt is a map of
ranks. Levels have a factor exp(a_k) each. How a is found: `mechanism/self_masking.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.imputation.residual_quantiles import interpolated
from vsae.imputation.thresholds import Threshold, Thresholds

# The bins of ranks in which a distribution is weighed: even in a normal's deviates, as a tilt weighs the tails most.
_DEVIATES = torch.linspace(-3.25, 3.25, 27, dtype=torch.float64)
_EDGES = torch.cat([torch.zeros(1), torch.special.ndtr(_DEVIATES), torch.ones(1)]).double()
RANKS = torch.special.ndtr(torch.cat([_DEVIATES[:1] - 0.3, (_DEVIATES[1:] + _DEVIATES[:-1]) / 2, _DEVIATES[-1:] + 0.3]))
MASSES = _EDGES.diff()


@dataclass(frozen=True)
class Tilts:
    """Change of the log odds of being missing, by variable: per standard unit of a number, and for each level.

    >>> Tilts(levels={"smoker": np.log([1.0, 3.0])}).of_levels({"smoker": np.array([[0.5, 0.5]])})
    {'smoker': array([[0.25, 0.75]])}
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    cut_off: Thresholds | None = None  # numbers that have a threshold instead
    errors: Mapping[str, float] = field(
        default_factory=dict
    )  # standard errors of the numbers' slopes: draws vary by them

    def moves(self, name: str) -> bool:
        """Whether missing cells of a column of numbers are other than observed ones in like rows."""
        return name in self.numbers or name in self.thresholds

    @property
    def thresholds(self) -> Mapping[str, Threshold]:
        return {} if self.cut_off is None else self.cut_off.of

    def __len__(self) -> int:
        """How many variables are taken to mask themselves."""
        return len(self.numbers) + len(self.levels) + len(self.thresholds)

    def of_levels(self, shares: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        """Probabilities (n, levels) by variable, as they are where a cell is missing."""
        return {name: tilted_shares(x, self.levels[name]) if name in self.levels else x for name, x in shares.items()}

    def only(self, names: Collection[str]) -> Tilts:
        numbers = {name: x for name, x in self.numbers.items() if name in names}
        levels = {name: x for name, x in self.levels.items() if name in names}
        cut_off = {name: x for name, x in self.thresholds.items() if name in names}
        joint = replace(self.cut_off, of=cut_off) if self.cut_off is not None and cut_off else None
        return Tilts(numbers, levels, joint, {name: x for name, x in self.errors.items() if name in names})

    def to_json(self) -> dict[str, Any]:
        levels = {name: x.tolist() for name, x in self.levels.items()}
        cut_off = None if self.cut_off is None else self.cut_off.to_json()
        return {"numbers": dict(self.numbers), "levels": levels, "cut_off": cut_off, "errors": dict(self.errors)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tilts:
        levels = {name: np.asarray(x, dtype=np.float64) for name, x in data["levels"].items()}
        cut_off = None if data["cut_off"] is None else Thresholds.from_json(data["cut_off"])
        numbers, errors = ({name: float(x) for name, x in data[part].items()} for part in ("numbers", "errors"))
        return cls(numbers, levels, cut_off, errors)

    def slopes(self, names: Sequence[str], deviate: Tensor | None = None) -> Tensor | None:
        """(variables,), or None where none is tilted; with normal deviates (…, variables), as uncertain as they are."""
        found = torch.tensor([self.numbers.get(name, 0.0) for name in names])
        if not bool(found.any()):
            return None
        if deviate is None:
            return found
        return found.to(deviate) + torch.tensor([self.errors.get(name, 0.0) for name in names]).to(deviate) * deviate


def tilted_shares(share: NDArray[np.float64], log_factor: NDArray[np.float64]) -> NDArray[np.float64]:
    tilted = share * np.exp(log_factor - log_factor.max())
    return np.asarray(tilted / np.maximum(tilted.sum(axis=1, keepdims=True), 1e-300), dtype=np.float64)


def weights(values: Tensor, slope: Tensor) -> Tensor:
    """Of values (G, B, variables) at `RANKS`, with slopes ([B, ]variables); they add up to 1."""
    return torch.softmax(MASSES.log().to(values)[:, None, None] + slope.to(values) * values, dim=0)


def tilted_ranks(rank: Tensor, slope: Tensor, values_at: Callable[[Tensor], Tensor]) -> Tensor:
    """The ranks (…, B, variables), before the tilt, of values that have these ranks after it."""
    cells = rank.shape[-2:]
    weight = weights(values_at(RANKS.to(rank)[:, None, None].expand(-1, *cells)), slope)
    reached = torch.cat([torch.zeros_like(weight[:1]), weight.cumsum(0)]).movedim(0, -1).contiguous()  # at _EDGES
    at = rank.to(reached).reshape(-1, *cells).movedim(0, -1).contiguous()  # (B, variables, …)
    out = interpolated(reached, _EDGES.to(reached).expand(reached.shape).contiguous(), at)
    return torch.where(slope.to(rank) == 0, rank, out.movedim(-1, 0).reshape(rank.shape).to(rank))
