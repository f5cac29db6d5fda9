"""What a learner makes of generated rows: can it tell them from real ones, and does it learn the task from them?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

Rows = NDArray[np.float64]
FOLDS = 5
REPEATS = 3  # other generated rows and other folds, since some tables have a hundred test rows only


def real_or_synthetic(real: Rows, synthetic: Rows, discrete: NDArray[np.bool_], seed: int) -> float:
    """Area under the curve of boosted trees that tell `real` rows from as many `synthetic` ones, cross-validated.

    1/2: they cannot be told apart; 1: every row can. Below 1/2 is chance too, and counts as as much above it.
    """
    rng = np.random.default_rng(seed)
    areas = [_area(real, synthetic, discrete, rng) for _ in range(REPEATS)]
    return float(max(np.mean(areas), 1 - np.mean(areas)))


def _area(real: Rows, synthetic: Rows, discrete: NDArray[np.bool_], rng: np.random.Generator) -> float:
    number = min(len(real), len(synthetic))
    parts = [x[rng.choice(len(x), number, replace=False)] for x in (real, synthetic)]
    state = int(rng.integers(2**31))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=state)
    judge = HistGradientBoostingClassifier(categorical_features=discrete, random_state=state)
    areas = cross_val_score(judge, np.concatenate(parts), np.repeat([0, 1], number), cv=folds, scoring="roc_auc")
    return float(areas.mean())


class Lesson(NamedTuple):
    """A column to predict from the others: by its accuracy if it is a category, by R² if it is a number."""

    target: int
    discrete: NDArray[np.bool_]  # (p,)

    @property
    def measure(self) -> str:
        return "accuracy" if self.discrete[self.target] else "r2"

    def score(self, rows: Rows, test: Rows, seed: int) -> float:
        """Of boosted trees that learned from `rows`, those without the target left out, on `test`."""
        rows = rows[~np.isnan(rows[:, self.target])]
        test = test[~np.isnan(test[:, self.target])]
        truth = test[:, self.target]
        if not self.discrete[self.target]:
            return float(r2_score(truth, self._predicted(HistGradientBoostingRegressor, rows, test, seed)))
        if len(np.unique(rows[:, self.target])) < 2:  # a classifier wants two classes
            return float((truth == rows[0, self.target]).mean()) if len(rows) else 0.0
        return float((truth == self._predicted(HistGradientBoostingClassifier, rows, test, seed)).mean())

    def _predicted(self, learner: Any, rows: Rows, test: Rows, seed: int) -> NDArray[Any]:
        features, goal = self._split(rows)
        at = np.delete(self.discrete, self.target)
        return learner(categorical_features=at, random_state=seed).fit(features, goal).predict(self._split(test)[0])

    def _split(self, rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
        return np.delete(rows, self.target, axis=1), rows[:, self.target]
