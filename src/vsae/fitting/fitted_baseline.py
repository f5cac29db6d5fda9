"""What the fit of a baseline gives: it imputes, draws and is kept in files; what it can not do, it says by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.baselines import method_named, name_of
from vsae.baselines.base import Baseline
from vsae.data.columns import Columns, Mask
from vsae.fitting.fitted import FittedModel
from vsae.fitting.parts import Kept, Parts, Shared, blank_rows, refuse_damaged, shared_parts
from vsae.storage import checkpoint


class NotOfMethod(ValueError):
    """Asked of a method what it can not do."""


def _lacking(what: str) -> Callable[..., NoReturn]:
    """A method of `FittedVSAE` that a baseline has not."""

    def refuse(self: FittedBaseline, *_: Any, **__: Any) -> NoReturn:
        raise NotOfMethod(f"method={self.method!r} {what}; method='vsae' does")

    return refuse


@dataclass
class FittedBaseline(Kept, FittedModel[Baseline]):
    """Any fitted baseline. All methods take and give natural units, as those of `FittedVSAE` do."""

    @property
    def method(self) -> str:
        """Its name in `vsae.baselines.METHODS`."""
        return name_of(type(self.model))

    def draw(
        self, columns: Columns, mask: Mask, n: int, *, seed: int = 0, row_ids: NDArray[np.int64] | None = None
    ) -> list[dict[str, NDArray[Any]]]:
        self._need_draws()
        return super().draw(columns, mask, n, seed=seed, row_ids=row_ids)

    def quantiles(
        self, columns: Columns, mask: Mask, levels: Sequence[float], *, draws: int = 200, seed: int = 0
    ) -> list[dict[str, NDArray[Any]]]:
        self._need_draws()
        return super().quantiles(columns, mask, levels, draws=draws, seed=seed)

    def median(self, columns: Columns, mask: Mask) -> dict[str, NDArray[Any]]:
        self._need_draws()
        return super().median(columns, mask)

    def _need_draws(self) -> None:
        if not self.model.has_draws:
            raise NotOfMethod(f"method={self.method!r} knows estimates, and no draws or intervals; method='vsae' does")

    generate = _lacking("generates no rows")
    common = ungenerated = property(generate)
    generate_masks = missing_probability = mask_log_likelihood = ampute = _lacking("models no masks")
    embed = _lacking("has no latents for each column")
    score_samples = _lacking("scores no rows")

    # --- files

    def to_parts(self) -> Parts:
        groups, content = shared_parts(self, self.history)
        return checkpoint.joined(groups), {"method": self.method, **content}

    @classmethod
    def from_parts(
        cls, tensors: Mapping[str, Tensor], content: Mapping[str, Any], device: torch.device | str = "cpu"
    ) -> FittedBaseline:
        model, encoding, calibration, history = Shared.of(
            method_named(content["method"]).load(), tensors, content, device
        )
        return cls(model, encoding, calibration, history=history)

    def try_out(self) -> dict[str, NDArray[Any]]:
        refuse_damaged(self.to_parts()[0], self.calibration)
        blank, mask = blank_rows(self.schema)
        columns = self.impute(blank, mask)
        mask[1] = True
        drawn = self.draw(columns, mask, 1) if self.model.has_draws else []
        for table in (columns, *drawn):
            self.encoding.encode(table, np.ones_like(mask))  # which refuses what is not finite, or no level
        return columns
