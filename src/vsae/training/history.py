"""What a training tells: its progress while it runs, its record afterwards, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vsae.storage.checkpoint import FileFormatError


class TrainingDiverged(RuntimeError):
    """The loss or its gradient stopped being finite; the model holds the last good weights.

    Raised by `fit`, it carries that model as `fitted`.
    """

    fitted: Any = None


class OtherTraining(FileFormatError):
    """The checkpoint was written by a training with other settings or other data."""


@dataclass(frozen=True)
class Progress:
    """Handed to the callback after every step; `record` is set when the model was just evaluated."""

    step: int
    steps: int
    epoch: float
    seconds: float
    record: dict[str, Any] | None


Callback = Callable[[Progress], None]


@dataclass
class History:
    """One record an evaluation: step, epoch, learning_rate, the four terms and the score, each a list over members."""

    records: list[dict[str, Any]] = field(default_factory=list)
    best_step: list[int] = field(default_factory=list)  # per member
    stopped: str = ""  # why training ended
    seconds: float = 0.0
