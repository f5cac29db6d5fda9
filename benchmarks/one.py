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

ROW, PICTURES = "row.json", "pictures.npz"


def run(module: str, folder: Path, job: dict[str, Any]) -> None:
    row = import_module(module).measured(**job)
    pictures = row.pop("pictures", None)
    if pictures is not None:
        np.savez(folder / PICTURES, **pictures)
    (folder / ROW).write_text(json.dumps(row))


def left_in(folder: Path) -> dict[str, Any]:
    """The row of a run that is over."""
    row: dict[str, Any] = json.loads((folder / ROW).read_text())
    if (folder / PICTURES).exists():
        with np.load(folder / PICTURES) as file:
            row["pictures"] = dict(file)
    return row


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
