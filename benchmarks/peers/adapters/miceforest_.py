"""miceforest: chained random forests of LightGBM, 5 iterations, categories as such; new rows go through its models.

Its data sets differ by chance, so we take 5 and give the mean of numbers and the most frequent level of categories.
They hold the forests' predictions, not values matched to these (`mean_match_candidates=0`): one best answer is asked
for, not a draw, and these come nearer; matching on log odds also fails where a forest is sure. All else is default.
Release 6.0.5 does not count the iterations of new rows and gives their random starting values back; we count them.
"""

from __future__ import annotations

import os
from typing import Any

import miceforest
import numpy as np
from draws import pooled
from miceforest import imputation_kernel
from task import Answer, Task, run, timed, widened_answer

DRAWS, ITERATIONS = 5, 5


class Counted(miceforest.ImputedData):
    """New rows that know how many iterations they have been through."""

    def __setitem__(self, key: tuple[str, int, int], values: Any) -> None:
        super().__setitem__(key, values)
        variable, iteration, dataset = key
        self.iteration_tab[variable, dataset] = iteration


imputation_kernel.ImputedData = Counted


def impute(task: Task) -> Answer:
    part = task.varying()
    train, new = part.frames()  # LightGBM refuses some characters in names, and must see each class it is told of

    def filled(data: Any) -> np.ndarray:
        draws = [data.complete_data(i).set_axis(part.names, axis=1) for i in range(DRAWS)]
        return pooled([part.array(draw) for draw in draws], part.levels)

    def fit() -> tuple[Any, np.ndarray]:
        kernel = miceforest.ImputationKernel(
            train,
            num_datasets=DRAWS,
            mean_match_candidates=0,
            random_state=task.seed,
        )
        kernel.mice(ITERATIONS, num_threads=int(os.environ.get("OMP_NUM_THREADS", "1")))
        return kernel, filled(kernel)

    (kernel, first), seconds = timed(fit)
    second, seconds_new = timed(lambda: filled(kernel.impute_new_data(new)))
    return widened_answer(task, "miceforest", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
