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


class Network:
    """Its model of the training rows, in which numbers are standardized."""

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.task, self.model = task, MIDAS(device="cpu")
        self.train, self.new = task.frames()  # it makes names of columns and levels, which must not collide
        self.numbers = numbers = list(self.train.columns[~task.discrete])
        self.centre, self.scale = self.train[numbers].mean(), self.train[numbers].std(ddof=0)
        for frame in (self.train, self.new):
            frame[numbers] = (frame[numbers] - self.centre) / self.scale

    def fit(self) -> None:
        self.model.fit(self.train, seed=self.task.seed, verbose=False)

    def draws(self, which: str, number: int) -> list[np.ndarray]:
        out = []
        frame = None if which == "train" else self.new
        for draw in self.model.transform(frame, m=number, format_X=frame is not None):
            draw[self.numbers] = draw[self.numbers].astype(float) * self.scale + self.centre
            out.append(self.task.array(draw.set_axis(self.task.names, axis=1)))
        return out


def impute(task: Task) -> Answer:
    part = task.varying()
    network = Network(part)

    def fill(which: str) -> np.ndarray:
        return pooled(network.draws(which, DRAWS), part.levels)

    def fit() -> np.ndarray:
        network.fit()
        return fill("train")

    first, seconds = timed(fit)
    second, seconds_new = timed(fill, "new")
    return widened_answer(task, "midasverse-midas", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
