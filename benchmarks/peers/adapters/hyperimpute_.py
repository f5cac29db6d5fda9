"""HyperImpute: chained equations whose models are chosen per column, its flagship at its defaults.

It takes a column for a category by the number of its values (fewer than 5); we tell it the categories instead, as
codes. Numbers are scaled to [0, 1], as in its own benchmarks; unscaled, its logistic regressions hardly end.
It fits anew for each table it fills, so it has no answer for new rows. It hands fitted models on from column to
column, on which XGBoost fails when a column of many levels is followed by one of two; we reset what it remembers.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import warnings
from functools import partial

import catboost
import numpy as np
import pandas as pd
import xgboost
from task import Answer, Task, run, timed, widened_answer

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))


class FreshClassifier(xgboost.XGBClassifier):
    def fit(self, *arguments: object, **options: object) -> FreshClassifier:
        self.objective = "binary:logistic"  # it takes another one by itself for more levels
        return super().fit(*arguments, **options)


def plugin(seed: int, categories: set[str]) -> object:
    """Its imputer, told the categories; it asks the machine for cores and writes over our thread counts otherwise."""
    os.environ["LOKY_MAX_CPU_COUNT"] = str(THREADS)
    multiprocessing.cpu_count = lambda: THREADS
    catboost.CatBoostClassifier = partial(catboost.CatBoostClassifier, thread_count=THREADS)
    catboost.CatBoostRegressor = partial(catboost.CatBoostRegressor, thread_count=THREADS)
    xgboost.XGBClassifier = FreshClassifier
    import hyperimpute.logger
    import torch
    from hyperimpute.plugins.imputers import Imputers

    hyperimpute.logger.remove()
    logging.disable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    imputer = Imputers().get("hyperimpute", random_state=seed)
    imputer.model._is_categorical = lambda X, column: column in categories
    return imputer


def impute(task: Task) -> Answer:
    part = task.varying()
    low, high = np.nanmin(part.train, axis=0), np.nanmax(part.train, axis=0)
    low[part.discrete], high[part.discrete] = 0, 1  # codes stay codes
    imputer = plugin(task.seed, set(part.names[part.discrete]))

    def fit() -> np.ndarray:
        frame = pd.DataFrame((part.train - low) / (high - low), columns=part.names)
        return np.asarray(imputer.fit_transform(frame), dtype=float) * (high - low) + low

    filled, seconds = timed(fit)
    return widened_answer(task, "hyperimpute", seconds, filled)


if __name__ == "__main__":
    run(impute)
