"""How much to spend on a table: one recipe in three sizes, fitted to the table's rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from vsae.data.schema import Kind, Schema
from vsae.model.config import NetShape, VSAEConfig

Effort = Literal["fast", "default", "best"]
EFFORTS: tuple[str, ...] = get_args(Effort)


@dataclass(frozen=True)
class _Size:
    members: int
    width: int
    steps: float  # per square root of the rows: a table twice as long wants to be read longer, but not twice as long
    most_steps: int
    batch_size: int
    trees: int
    rounds: int = 1  # at most


_SIZES = {
    "fast": _Size(members=2, width=96, steps=6.0, most_steps=350, batch_size=128, trees=25),
    "default": _Size(members=4, width=96, steps=11.0, most_steps=2000, batch_size=128, trees=30, rounds=2),
    "best": _Size(members=12, width=96, steps=16.0, most_steps=4000, batch_size=256, trees=100, rounds=2),
}
# On a GPU members, width and batch cost next to nothing, so they are spent there.
_SIZES_ON_GPU = {
    "fast": _Size(members=8, width=128, steps=11.0, most_steps=1000, batch_size=256, trees=25),
    "default": _Size(members=16, width=256, steps=44.0, most_steps=2000, batch_size=512, trees=50),
    "best": _Size(members=24, width=256, steps=88.0, most_steps=6000, batch_size=512, trees=100, rounds=2),
}
_FEW_ROWS_FOR_GPU = 1000  # which a wider network would learn by heart; they have the sizes of the next effort
_FEWEST_STEPS = 150  # a table of 50 rows still needs the learning rate to rise and fall
_MOST_CELLS, _FEWEST_IN_BATCH = 2**16, 32  # of a batch: a wide row teaches much, and takes long
_LONG = 4000  # rows; what is longer has more to tell than a few passes bring out, and is given steps in proportion


def config_for(
    schema: Schema, rows: int, effort: Effort = "default", *, gpu: bool = False, **changes: Any
) -> VSAEConfig:
    """The settings for a table of that shape; `changes` go over them.

    >>> from vsae.data.schema import real
    >>> schema = Schema(real(f"x{j}") for j in range(10))
    >>> [config_for(schema, rows).steps for rows in (50, 1000, 1_000_000)]
    [150, 347, 2000]
    """
    check_effort(effort)
    if is_multimodal(schema):
        return VSAEConfig(**{**_multimodal(schema, rows, effort), **changes})
    size = _SIZES[effort]
    if gpu:
        size = _SIZES_ON_GPU[effort] if rows >= _FEW_ROWS_FOR_GPU else _SIZES["default" if effort == "fast" else "best"]
    steps = int(size.steps * math.sqrt(rows) * max(1.0, rows / _LONG))
    steps = min(max(steps, _FEWEST_STEPS), size.most_steps)
    settings: dict[str, Any] = {
        "members": size.members,
        "steps": steps,
        "rounds": size.rounds,
        "batch_size": min(size.batch_size, max(_FEWEST_IN_BATCH, _MOST_CELLS // len(schema))),
        "evaluate_every": max(10, steps // 16),
        "collective": NetShape(size.width, 1, residual=True),
        "data_net": NetShape(size.width, 1, residual=True),
        "mask_net": NetShape(size.width // 2, 1),
        "trees": size.trees,
    }
    return VSAEConfig(**{**settings, **changes})


def check_effort(effort: Any) -> None:
    if effort not in EFFORTS:
        raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, not {effort!r}")


_WIDE_VECTOR = 16  # entries: from here on a vector is a modality of its own
_FEW_ROWS = 10_000  # below that, rows are too few to spare some for validation
_LONGER = {"fast": 0.3, "default": 1.0, "best": 3.0}  # relative to `default`


def is_multimodal(schema: Schema) -> bool:
    """Whether there are images, or vectors wide enough to be what images are: few attributes with much in each."""
    return any(v.kind is Kind.IMAGE or v.entries >= _WIDE_VECTOR for v in schema.variables)


def _multimodal(schema: Schema, rows: int, effort: Effort) -> dict[str, Any]:
    """Much is hidden, as there is much to learn from each modality that is known; see docs/decisions/0009."""
    steps = int(_LONGER[effort] * min(max(8 * rows**0.65, 300), 10_000))
    settings: dict[str, Any] = {
        "steps": steps,
        "evaluate_every": max(10, steps // 16),
        "learning_rate": 2e-3,
        "mask_net": NetShape(64, 1),
        "variance": "column",
        "remask": (0.3, 0.7),
        "remask_rates": "alike",
        "mask_weight": 0.1,
        "trees": 0,
        "prior_rows": "complete",
        "prior_covariance": "own",
        "latent_draws": 50,
    }
    if any(v.kind is Kind.IMAGE for v in schema.variables):
        settings |= {
            "members": 1,
            "latent_dim": 16,
            "channels": 16 if rows < _FEW_ROWS else 32,
            "collective": NetShape(512, 1, residual=True),
            "data_net": NetShape(512, 1, residual=True),
            "kl_visible": 0.004,
            "kl_hidden": 0.004,
            "match": 0.01,
            "weight_decay": 0.01,
        }
    else:
        settings |= {"members": 8, "latent_dim": 16, "kl_visible": 0.02, "kl_hidden": 0.006, "match": 0.05}
    if rows < _FEW_ROWS:  # held-out cells, which go back into training; else rows, as there are enough
        return settings | {"refit": 0.3}
    return settings | {"validation": "rows", "validation_share": 0.05, "refit": 0.0, "shrinkage": False}
