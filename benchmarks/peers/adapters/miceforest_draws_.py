"""miceforest as multiple imputation, 5 iterations: numbers by mean matching as is its default, levels drawn from their
predicted probabilities (its "fast" strategy), as matching on log odds fails where a forest is sure.

Its data sets are independent chains. They are made a few at a time: a model of each iteration is kept for each of
them, and twenty at once take more memory than most machines have.
"""

from __future__ import annotations

import os

import miceforest
import numpy as np
from drawn import Drawn, run
from miceforest_ import ITERATIONS  # importing it also mends how new rows are imputed
from task import Task, timed

AT_ONCE = 5


def draw(task: Task, number: int) -> Drawn:
    part = task.varying()
    train, new = part.frames()
    strategy = {
        name: "fast" if discrete else "normal" for name, discrete in zip(train.columns, part.discrete, strict=True)
    }

    def chains(first: int) -> dict[str, list[np.ndarray]]:
        several = min(AT_ONCE, number - first)
        kernel = miceforest.ImputationKernel(
            train,
            num_datasets=several,
            mean_match_strategy=strategy,
            random_state=task.seed + first,
        )
        kernel.mice(ITERATIONS, num_threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
        out = {"train": completed(kernel, "train", several)}
        return out | ({"new": completed(kernel.impute_new_data(new), "new", several)} if len(new) else {})

    def completed(data: miceforest.ImputedData, which: str, several: int) -> list[np.ndarray]:
        tables = [data.complete_data(i).set_axis(part.names, axis=1) for i in range(several)]
        return [task.widened(which, part.array(table)) for table in tables]

    several, seconds = timed(lambda: [chains(first) for first in range(0, number, AT_ONCE)])
    parts = {part: np.concatenate([tables[part] for tables in several]) for part in several[0]}
    return Drawn(f"miceforest {miceforest.__version__}", seconds, parts["train"], parts.get("new"))


if __name__ == "__main__":
    run(draw)
