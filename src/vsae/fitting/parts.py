"""What all fitted models keep in a file, and how they come back from it: safetensors and JSON, never code."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.encoding import Encoding
from vsae.data.randomness import private_rng
from vsae.data.schema import Schema
from vsae.imputation.calibration import Calibration
from vsae.imputation.imputer import Imputer
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import ModelT, resolve_device
from vsae.storage import checkpoint
from vsae.storage.typed import typed
from vsae.training.history import History

_BY_BLOCK = ("loc", "scale", "low", "high", "decimals", "point_mass")  # of an encoding, for every block of numbers
# Parts that may be NaN, for a column that has none of it, and those that may be infinite, where there is no end
_MAY_BE_NAN = ("encoding.point_mass.", "encoding.settings.", "marginals.")
_MAY_BE_INFINITE = ("relations.low", "relations.high")
_WIDEST = 30.0  # of the logarithm of what a width is multiplied by
Parts = tuple[dict[str, Tensor], dict[str, Any]]
KeptT = TypeVar("KeptT", bound="Kept")


class Shared(NamedTuple, Generic[ModelT]):
    """What every fitted model has: its network, its units, its calibration, and how training went."""

    model: ModelT
    encoding: Encoding
    calibration: Calibration
    history: History

    @classmethod
    def of(
        cls,
        build: Callable[[Schema, VSAEConfig], ModelT],
        tensors: Mapping[str, Tensor],
        content: Mapping[str, Any],
        device: torch.device | str,
    ) -> Shared[ModelT]:
        """From the parts that `shared_parts` made."""
        schema, config = Schema.from_json(content["schema"]), VSAEConfig.from_json(content["config"])
        with private_rng(0, torch.device("cpu")), checkpoint.NoLarger(tensors):
            model = build(schema, config)
        weights, own = checkpoint.part(tensors, "model"), model.state_dict()
        if {name: x.shape for name, x in weights.items()} != {name: x.shape for name, x in own.items()}:
            raise ValueError("its weights are not those of its settings")
        model.load_state_dict(weights)
        blocks = [block.name for block in schema.standardised_blocks]
        parts = {part: {name: tensors[f"encoding.{part}.{name}"].numpy() for name in blocks} for part in _BY_BLOCK}
        parts["settings"] = {name: x.numpy() for name, x in checkpoint.part(tensors, "encoding.settings").items()}
        return cls(
            model.to(device).eval(),
            Encoding(schema, **parts, scaling=content["scaling"]),
            Calibration.from_parts(schema, checkpoint.part(tensors, "calibration"), content["calibration"]),
            typed(History(**content["history"])),
        )


def shared_parts(fitted: Imputer[Any], history: History) -> tuple[dict[str, Mapping[str, Tensor]], dict[str, Any]]:
    """Groups of tensors, and JSON."""
    groups: dict[str, Mapping[str, Tensor]] = {"model": fitted.model.state_dict()}
    for part in (*_BY_BLOCK, "settings"):
        blocks = getattr(fitted.encoding, part)
        groups[f"encoding.{part}"] = {name: torch.from_numpy(x) for name, x in blocks.items()}
    groups["calibration"], calibration = fitted.calibration.to_parts()
    content = {
        "schema": fitted.schema.to_json(),
        "config": fitted.model.config.to_json(),
        "scaling": fitted.encoding.scaling,
        "history": history.__dict__,
        "calibration": calibration,
    }
    return groups, content


def refuse_damaged(tensors: Mapping[str, Tensor], calibration: Calibration) -> None:
    """Of a file that anyone may have written, it is not enough that its parts have the right types and sizes."""
    for name, x in tensors.items():
        nan = torch.isnan(x) if not name.startswith(_MAY_BE_NAN) else torch.zeros_like(x, dtype=torch.bool)
        infinite = torch.isinf(x) if not name.startswith(_MAY_BE_INFINITE) else torch.zeros_like(nan)
        if bool((nan | infinite).any()):
            raise ValueError(f"not all of {name} is finite")
    if any(not bool((part.log_width.abs() < _WIDEST).all()) for part in calibration.residuals.values()):
        raise ValueError("an interval is wider than numbers are")


class Kept:
    """A fitted model that is kept in files, pickled and copied by its parts."""

    device: torch.device

    @abstractmethod
    def to_parts(self) -> Parts:
        """Tensors and JSON that `from_parts` makes a model of again."""

    @classmethod
    @abstractmethod
    def from_parts(
        cls: type[KeptT], tensors: Mapping[str, Tensor], content: Mapping[str, Any], device: torch.device | str = "cpu"
    ) -> KeptT: ...

    @abstractmethod
    def try_out(self) -> dict[str, NDArray[Any]]:
        """Two rows through all that a model does, one of them missing; the first of what it does that fails, raises."""

    def save(self, path: str | os.PathLike[str]) -> None:
        checkpoint.write(path, "model", *self.to_parts())

    @classmethod
    def load(cls: type[KeptT], path: str | os.PathLike[str], device: torch.device | str = "cpu") -> KeptT:
        device = resolve_device(device)
        parts = checkpoint.read(path, "model")
        with checkpoint.parts_of(path):
            fitted = cls.from_parts(*parts, device)
            fitted.try_out()
        return fitted

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and deep copies are made of the parts of a saved file: parameters may be views of one storage, which
        torch would write whole for each of them."""
        tensors, content = self.to_parts()
        arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
        return type(self)._from_arrays, (arrays, content, self.device.type)

    @classmethod
    def _from_arrays(
        cls: type[KeptT], arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any], device: str
    ) -> KeptT:
        """On the device it was on, or on the CPU where there is no such device."""
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return cls.from_parts(tensors, content, device if device != "cuda" or torch.cuda.is_available() else "cpu")


def blank_rows(schema: Schema) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """Two rows in which nothing is observed, to try a model out."""
    return {v.name: np.zeros((2, *v.event)) for v in schema.variables}, np.zeros((2, len(schema)), np.bool_)
