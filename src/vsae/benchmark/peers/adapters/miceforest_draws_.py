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
    levels = {name: "fast" for name, discrete in zip(train.columns, part.discrete, strict=True) if discrete}
    strategy = {name: "normal" for name in train.columns} | levels

    def chains(first: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        several = min(AT_ONCE, number - first)
        kernel = miceforest.ImputationKernel(
            train,
            num_datasets=several,
            mean_match_strategy=strategy,
            random_state=task.seed + first,
        )
        kernel.mice(ITERATIONS, num_threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
        return completed(kernel, "train", several), completed(kernel.impute_new_data(new), "new", several)

    def completed(data: miceforest.ImputedData, which: str, several: int) -> list[np.ndarray]:
        tables = [data.complete_data(i).set_axis(part.names, axis=1) for i in range(several)]
        return [task.widened(which, part.array(table)) for table in tables]

    pairs, seconds = timed(lambda: [chains(first) for first in range(0, number, AT_ONCE)])
    rows, others = (np.stack([table for pair in pairs for table in pair[side]]) for side in (0, 1))
    return Drawn(f"miceforest {miceforest.__version__}", seconds, rows, others)


if __name__ == "__main__":
    run(draw)
