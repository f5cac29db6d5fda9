"""How much to spend on a table: one recipe in three sizes, fitted to the table's rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from vsae.config import VSAEConfig
from vsae.nets import NetShape
from vsae.schema import Schema

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
