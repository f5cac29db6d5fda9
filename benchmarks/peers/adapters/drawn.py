"""The exchange for multiple imputation: task.npz in, drawn.npz out, for one folder or for several. Needs numpy only.

An adapter is a script beside this file:

    from drawn import Drawn, run
    from task import Task, timed

    def draw(task: Task, number: int) -> Drawn:
        model, seconds = timed(Peer(seed=task.seed).fit, task.frame("train"))
        return Drawn("peer 1.0", seconds, np.stack([task.array(x) for x in model.draw(number)]))

    if __name__ == "__main__":
        run(draw)       # peer_draws_.py NUMBER FOLDER …
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from task import Task, checked, read


@dataclass(frozen=True)
class Drawn:
    """Completed rows, `train` (draws, n, p) and `new` (draws, m, p).

    `train_probabilities` and `new_probabilities` hold, for each level of each discrete column, its probability in each
    row, (rows, levels of all columns side by side), where a method states them; else shares of the draws must do.
    """

    version: str
    seconds: float  # CPU seconds to fit and draw
    train: np.ndarray
    new: np.ndarray | None = None
    train_probabilities: np.ndarray | None = None
    new_probabilities: np.ndarray | None = None


def run(draw: Any, arguments: Sequence[str] | None = None) -> None:
    """What an adapter does when called as a script with NUMBER FOLDER …: `draw(task, number) -> Drawn` for each."""
    number, *folders = sys.argv[1:] if arguments is None else arguments
    for folder in map(Path, folders):
        task = read(folder)
        _write(folder, task, draw(task, int(number)))


def run_together(draw: Any, arguments: Sequence[str]) -> None:
    """Likewise, for a `draw(tasks, number) -> list[Drawn]` that takes all tasks at once."""
    number, *names = arguments
    tasks = [read(name) for name in names]
    for name, task, done in zip(names, tasks, draw(tasks, int(number)), strict=True):
        _write(Path(name), task, done)


def _write(folder: Path, task: Task, done: Drawn) -> None:
    arrays = {}
    for part in ("train", "new"):
        draws, probabilities = getattr(done, part), getattr(done, f"{part}_probabilities")
        if draws is not None and len(task.part(part)):
            arrays[part] = np.stack([checked(task, part, x) for x in draws]).astype(np.float32)
        if probabilities is not None:
            arrays[f"{part}_probabilities"] = probabilities.astype(np.float32)
    np.savez(folder / "drawn.npz", **arrays)
    (folder / "drawn.json").write_text(json.dumps({"version": done.version, "seconds": done.seconds}))
