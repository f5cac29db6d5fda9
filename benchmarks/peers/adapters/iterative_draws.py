"""scikit-learn's IterativeImputer with draws from the posterior of a Bayesian ridge; each draw is a chain of its own.

Levels are indicators, and the largest of their draws is taken.
"""

from __future__ import annotations

import warnings

import numpy as np
import sklearn
from drawn import Drawn, run
from indicators import Indicators
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from task import Task, timed


def draw(task: Task, number: int) -> Drawn:
    part = task.varying()
    indicators = Indicators(part)
    given = indicators.of("train")
    scale = np.nanstd(given, axis=0)

    def chain(seed: int) -> np.ndarray:
        imputer = IterativeImputer(sample_posterior=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # draws never settle
            return indicators.back(imputer.fit_transform(given / scale) * scale)

    tables, seconds = timed(lambda: [task.widened("train", chain(task.seed + 1000 * i)) for i in range(number)])
    return Drawn(f"scikit-learn {sklearn.__version__}", seconds, np.stack(tables))


if __name__ == "__main__":
    run(draw)
