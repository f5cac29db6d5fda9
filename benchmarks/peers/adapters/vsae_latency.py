"""Ours, called as a user would, and then saved, loaded, and asked for one row again and again."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

from task import answer, read
from vsae_imputer import asked_effort, impute

from vsae import VSAEImputer, load

CALLS = 50


def row_ms(imputer: VSAEImputer, row: object, folder: Path) -> float:
    """Median milliseconds that a loaded model takes to fill one row; of the processor, on one thread."""
    imputer.save(folder / "model")
    loaded, times = load(folder / "model"), []
    clock = time.process_time if os.environ.get("OMP_NUM_THREADS", "1") == "1" else time.perf_counter
    for _ in range(CALLS):
        began = clock()
        loaded.transform(row)
        times.append(clock() - began)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    effort, folder = asked_effort(__doc__), Path(sys.argv[-1])
    task = read(folder)
    imputer, done = impute(task, effort)
    answer(folder, done.version, done.seconds, done.train, done.seconds_new, done.new)
    said = json.loads((folder / "answer.json").read_text())
    said["row_ms"] = row_ms(imputer, task.frame("new").iloc[:1], folder)
    (folder / "answer.json").write_text(json.dumps(said))
