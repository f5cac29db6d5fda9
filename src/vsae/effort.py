"""How much to spend on a table: one recipe in three sizes, fitted to the table's rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from vsae.config import VSAEConfig
from vsae.nets import NetShape
from vsae.schema import Kind, Schema

Effort = Literal["fast", "default", "best"]
EFFORTS: tuple[str, ...] = get_args(Effort)


@dataclass(frozen=True)
class _Size:
    members: int
    width: int
    steps: float  # per square root of the rows: a table twice as long wants to be read longer, but not twice as long
    most_steps: int
    batch_size: int = 128


_SIZES = {
    "fast": _Size(members=2, width=96, steps=6.0, most_steps=350),
    "default": _Size(members=4, width=96, steps=11.0, most_steps=1000),
    "best": _Size(members=12, width=96, steps=16.0, most_steps=2000, batch_size=256),
}
_FEWEST_STEPS = 150


def config_for(schema: Schema, rows: int, effort: Effort = "default", **changes: Any) -> VSAEConfig:
    """The settings for a table of that shape; `changes` go over them.

    >>> from vsae.schema import real
    >>> schema = Schema(real(f"x{j}") for j in range(10))
    >>> [config_for(schema, rows).steps for rows in (50, 1000, 1_000_000)]
    [150, 347, 1000]
    """
    if effort not in EFFORTS:
        raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, not {effort!r}")
    if is_multimodal(schema):
        return VSAEConfig(**{**_multimodal(rows, effort), **changes})
    size = _SIZES[effort]
    steps = min(max(int(size.steps * math.sqrt(rows)), _FEWEST_STEPS), size.most_steps)
    settings: dict[str, Any] = {
        "members": size.members,
        "steps": steps,
        "batch_size": size.batch_size,
        "evaluate_every": max(10, steps // 16),
        "collective": NetShape(size.width, 1, residual=True),
        "data_net": NetShape(size.width, 1, residual=True),
        "mask_net": NetShape(size.width // 2, 1),
    }
    return VSAEConfig(**{**settings, **changes})


_WIDE_VECTOR = 16  # entries: from here on a vector is a modality of its own
_MULTIMODAL_STEPS = {"fast": 0.3, "default": 1.0, "best": 3.0}


def is_multimodal(schema: Schema) -> bool:
    """Whether there are images, or vectors wide enough to ask for what images ask for."""
    return any(v.kind is Kind.IMAGE or v.entries >= _WIDE_VECTOR for v in schema.variables)


def _multimodal(rows: int, effort: Effort) -> dict[str, Any]:
    """Few attributes with much in each: one member, wide networks and latents, and much hidden."""
    steps = int(_MULTIMODAL_STEPS[effort] * min(max(14 * math.sqrt(rows), 300), 3000))
    return {
        "members": 1,
        "latent_dim": 32,
        "collective": NetShape(512, 1, residual=True),
        "data_net": NetShape(512, 1, residual=True),
        "mask_net": NetShape(64, 1),
        "variance": "column",
        "kl_visible": 0.004,
        "kl_hidden": 0.004,
        "remask": (0.3, 0.7),
        "hiding": "alike",
        "match": 0.01,
        "mask_weight": 0.1,
        "steps": steps,
        "batch_size": 128,
        "learning_rate": 2e-3,
        "weight_decay": 0.01,
        "validation": "rows",
        "validation_share": 0.05,
        "evaluate_every": max(10, steps // 16),
        "refit": 0.0,
        "trust": False,
        "prior_rows": "complete",
        "latent_draws": 50,
    }
