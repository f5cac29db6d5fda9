"""MIDAS2 (midasverse-midas): a denoising autoencoder with dropout, at its defaults, categories as such.

Numbers are standardized, which it leaves to its users. Its draws differ by dropout; as one answer we give the mean of
10 for numbers and their most frequent level for categories. New rows go through the same network.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from draws import pooled
from midas2 import MIDAS
from task import Answer, Task, run, timed, widened_answer

DRAWS = 10


def impute(task: Task) -> Answer:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    part = task.varying()
    train, new = part.frames()  # it makes names of columns and levels, which must not collide
    numbers = list(train.columns[~part.discrete])
    centre, scale = train[numbers].mean(), train[numbers].std(ddof=0)
    model = MIDAS(device="cpu")

    def fill(frame: object) -> np.ndarray:
        draws = []
        for draw in model.transform(frame, m=DRAWS, format_X=frame is not None):
            draw[numbers] = draw[numbers].astype(float) * scale + centre
            draws.append(part.array(draw.set_axis(part.names, axis=1)))
        return pooled(draws, part.levels)

    def fit() -> np.ndarray:
        train[numbers] = (train[numbers] - centre) / scale
        model.fit(train, seed=task.seed, verbose=False)
        return fill(None)

    first, seconds = timed(fit)
    new[numbers] = (new[numbers] - centre) / scale
    second, seconds_new = timed(fill, new)
    return widened_answer(task, "midasverse-midas", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
