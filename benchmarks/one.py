"""`python -m benchmarks.one MODULE FOLDER JOB`: a run of ours in a process of its own.

Calls `MODULE.measured` with the fields of JOB, and leaves the row that it returns in FOLDER.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROW, IMAGES = "row.json", "images.npz"


def run(module: str, folder: Path, job: dict[str, Any]) -> None:
    row = import_module(module).measured(**job)
    images = row.pop("images", None)
    if images is not None:
        np.savez(folder / IMAGES, **images)
    (folder / ROW).write_text(json.dumps(row))


def left_in(folder: Path) -> dict[str, Any]:
    """The row of a run that is over."""
    row: dict[str, Any] = json.loads((folder / ROW).read_text())
    if (folder / IMAGES).exists():
        with np.load(folder / IMAGES) as file:
            row["images"] = dict(file)
    return row


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
