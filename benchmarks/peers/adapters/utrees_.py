"""UnmaskingTrees (utrees): gradient-boosted trees that sample the missing cells of a row one after the other, at its
defaults, categories as such; new rows go through the same trees.

Its fillings are draws; as one answer we give the mean of 5 for numbers and the most frequent level for categories. Its
own `impute` asks its trees cell by cell; we ask them for all rows whose turn it is at once, which gives the same draws
but for the order of random numbers, and sooner.
"""

from __future__ import annotations

import os

import numpy as np
from draws import pooled
from task import Answer, Task, run, timed, widened_answer
from utrees import UnmaskingTrees

DRAWS = 5


def drawn(model: UnmaskingTrees, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`x` (n, p) with its missing cells sampled, those of each row in an order of its own."""
    out, missing = x.copy(), np.isnan(x)
    order = np.where(missing, rng.random(x.shape), np.inf).argsort(axis=1)  # missing columns first
    counts = missing.sum(axis=1)
    for turn in range(counts.max(initial=0)):
        column = np.where(turn < counts, order[:, turn], -1)
        for j in np.unique(column[column >= 0]):
            rows = column == j
            out[rows, j] = sampled(model, int(j), out[rows], rng)
    return out


def sampled(model: UnmaskingTrees, j: int, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(n,) values of a column, given what is known of the others."""
    trees, encoder = model.trees_[j], model.encoders_[j]
    if encoder is None:
        values: np.ndarray = trees.sample(x)
        return values
    cumulative = trees.predict_proba(x).cumsum(axis=1)
    below = cumulative < rng.random((len(x), 1)) * cumulative[:, -1:]
    return np.asarray(encoder.inverse_transform(below.sum(axis=1)))


def impute(task: Task) -> Answer:
    part = task.varying()
    kinds = ["categorical" if discrete else "continuous" for discrete in part.discrete]
    threads = {"nthread": int(os.environ.get("OMP_NUM_THREADS", "1"))}

    rng = np.random.default_rng(task.seed)

    def fill(model: UnmaskingTrees, which: str) -> np.ndarray:
        return pooled([drawn(model, part.part(which), rng) for _ in range(DRAWS)], part.levels)

    def fit() -> tuple[UnmaskingTrees, np.ndarray]:
        model = UnmaskingTrees(xgboost_kwargs=threads, random_state=task.seed)
        model.fit(part.train.copy(), quantize_cols=kinds)
        return model, fill(model, "train")

    np.random.seed(task.seed)  # noqa: NPY002 – its quantiser draws from numpy's own generator
    (model, first), seconds = timed(fit)
    second, seconds_new = timed(fill, model, "new")
    return widened_answer(task, "utrees", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
