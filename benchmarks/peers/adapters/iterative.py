"""scikit-learn's IterativeImputer at its defaults, numbers standardised, levels as indicators; the largest is taken."""

from __future__ import annotations

import warnings

import numpy as np
import sklearn
from indicators import Indicators
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from task import Answer, Task, run, timed


def impute(task: Task) -> Answer:
    part = task.varying()
    indicators = Indicators(part)
    scale = np.nanstd(indicators.of("train"), axis=0)
    imputer = IterativeImputer(random_state=task.seed)

    def fit() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return indicators.back(imputer.fit_transform(indicators.of("train") / scale) * scale)

    first, seconds = timed(fit)
    second, seconds_new = timed(lambda: indicators.back(imputer.transform(indicators.of("new") / scale) * scale))
    version = f"scikit-learn {sklearn.__version__}"
    return Answer(version, seconds, task.widened("train", first), seconds_new, task.widened("new", second))


if __name__ == "__main__":
    run(impute)
