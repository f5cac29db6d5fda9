"""The exchange for generation: task.npz in, whose `new` is empty, and generated.npz out. Needs numpy only.

An adapter is a script beside this file:

    from generated import MANY_ROWS, Generated, run
    from task import Task, timed

    def generate(task: Task) -> Generated:
        model, seconds = timed(Peer(seed=task.seed).fit, task.frame("train"))
        rows, seconds_rows = timed(model.sample, MANY_ROWS)
        return Generated("peer 1.0", seconds, seconds_rows, task.array(rows))

    if __name__ == "__main__":
        run(generate)
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from task import read

MANY_ROWS = 10_000  # so many that a column's share of missing cells is known to half a percent


@dataclass(frozen=True)
class Generated:
    """`MANY_ROWS` new rows, (n, p): incomplete where the method makes them so, and complete if it can do that too."""

    version: str
    seconds: float  # CPU seconds to fit
    seconds_rows: float  # and to make the incomplete rows
    incomplete: np.ndarray
    complete: np.ndarray | None = None


def run(generate: Any) -> None:
    """What an adapter does when called as a script: `generate(task) -> Generated`, for the folder named last."""
    folder = Path(sys.argv[-1])
    done = generate(read(folder))
    arrays = {"incomplete": done.incomplete} | ({} if done.complete is None else {"complete": done.complete})
    np.savez(folder / "generated.npz", **arrays)
    content = {"version": done.version, "seconds": done.seconds, "seconds_rows": done.seconds_rows}
    (folder / "generated.json").write_text(json.dumps(content))
