"""KNN, MICE, missForest and boosted chains, as a user of scikit-learn or R gets them; categories stay categories.

A chain begins with means and modes and then visits the columns, from the fewest missing cells to the most: a model of
the column given all others, fitted where it is observed, fills it where it is not; and again. It gives point estimates,
so there is nothing random in it but the learners.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import KNNImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression
from task import Answer, Task, run, timed


class Columns:
    """Standardised numbers and codes (n, p) ⇄ what learners read; means, scales and modes are of the training rows."""

    def __init__(self, task: Task) -> None:
        self.levels = task.levels
        numbers = self.levels == 0
        self.mean = np.where(numbers, np.nanmean(task.train, axis=0), 0.0)
        self.scale = np.where(numbers, np.nanstd(task.train, axis=0), 1.0)
        self.start = np.array([0.0 if not k else _mode(x) for x, k in zip(task.train.T, self.levels, strict=True)])

    def standard(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) / self.scale

    def natural(self, x: np.ndarray) -> np.ndarray:
        return x * self.scale + self.mean

    def one_hot(self, x: np.ndarray) -> list[np.ndarray]:
        """For each column (n, 1) numbers or (n, levels) zeros and ones; NaN all along where the code is."""
        return [
            np.where(np.isnan(column[:, None]), np.nan, column[:, None] == np.arange(levels))
            if levels
            else column[:, None]
            for column, levels in zip(x.T, self.levels, strict=True)
        ]


def _mode(x: np.ndarray) -> float:
    return float(np.bincount(x[~np.isnan(x)].astype(int)).argmax())


# --- KNN


class KNN:
    """scikit-learn's `KNNImputer` at its default k = 5; the level is the one most of the neighbours have.

    Two different levels are as far apart as two random standardised numbers are on average: both squares are 2.
    """

    def __init__(self, task: Task) -> None:
        self.columns = Columns(task)
        self.imputer = KNNImputer(weights="distance").fit(self._wide(task.train))

    def fill(self, x: np.ndarray) -> np.ndarray:
        levels = self.columns.levels
        parts = np.split(self.imputer.transform(self._wide(x)), np.cumsum(np.maximum(levels, 1))[:-1], axis=1)
        return self.columns.natural(
            np.stack([p.argmax(axis=1) if k else p[:, 0] for p, k in zip(parts, levels, strict=True)], axis=1)
        )

    def _wide(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate(self.columns.one_hot(self.columns.standard(x)), axis=1)


# --- chains


@dataclass(frozen=True)
class Change:
    """How much a sweep changed what it filled: squares of numbers over their squares, and the share of levels."""

    numbers: float
    levels: float


Stop = Callable[[Change, Change], bool]  # the last but one and the last → is it enough?


@dataclass(frozen=True)
class Learners:
    number: Callable[[int, Any], Any]  # seed and which features are categories → a regressor
    level: Callable[[int, Any], Any]
    sweeps: int
    one_hot: bool
    enough: Stop
    step_back: bool = False  # is the sweep that was one too many undone?


class Chain:
    """The models of every sweep, a model a column; new rows go through the same sweeps from means and modes.

    Every sweep, because the last one's models alone, applied again and again, are not what filled the training rows:
    they were fitted to values that earlier models had made, and ridge regressions so iterated can run away.
    """

    def __init__(self, task: Task, learners: Learners) -> None:
        self.columns, self.learners = Columns(task), learners
        self.random = np.random.default_rng(task.seed)
        given = self.columns.standard(task.train)
        missing = np.isnan(given)
        counts = missing.sum(axis=0)
        self.order = [int(j) for j in np.argsort(counts, kind="stable")] if len(counts) > 1 else []
        visited = [j for j in self.order if counts[j]]
        x = np.where(missing, self.columns.start, given)
        self.sweeps: list[dict[int, Any]] = []
        change = Change(np.inf, np.inf)
        for _ in range(learners.sweeps if visited else 0):
            swept = x.copy()
            models = {j: self._visit(swept, missing, j) for j in visited}
            before, change = change, self._change(x, swept, missing)
            enough = learners.enough(before, change)
            if enough and learners.step_back:
                break
            self.sweeps.append(models)
            x = swept
            if enough:
                break
        self.filled = self.columns.natural(x)
        complete = {j: self._fitted(x, ~missing[:, j], j) for j in self.order if not counts[j]}  # not so in new rows?
        self.sweeps = [complete | models for models in self.sweeps or [{}]]

    def fill(self, x: np.ndarray) -> np.ndarray:
        """Rows that the chain was not fitted on."""
        given = self.columns.standard(x)
        missing = np.isnan(given)
        out = np.where(missing, self.columns.start, given)
        for models in self.sweeps:
            for j in self.order:
                self._predict(models[j], out, missing[:, j], j)
        return self.columns.natural(out)

    def _visit(self, x: np.ndarray, missing: np.ndarray, j: int) -> Any:
        model = self._fitted(x, ~missing[:, j], j)
        self._predict(model, x, missing[:, j], j)
        return model

    def _fitted(self, x: np.ndarray, rows: np.ndarray, j: int) -> Any:
        others = np.delete(self.columns.levels, j)
        categories = np.flatnonzero((others > 0) & (others <= 255))  # more than boosting can take are numbers to it
        make = self.learners.level if self.columns.levels[j] else self.learners.number
        return make(int(self.random.integers(2**31)), categories).fit(self._features(x[rows], j), x[rows, j])

    def _predict(self, model: Any, x: np.ndarray, rows: np.ndarray, j: int) -> None:
        if rows.any():
            x[rows, j] = model.predict(self._features(x[rows], j))

    def _features(self, x: np.ndarray, j: int) -> np.ndarray:
        if not self.learners.one_hot:
            return np.delete(x, j, axis=1)
        return np.concatenate([part for i, part in enumerate(self.columns.one_hot(x)) if i != j], axis=1)

    def _change(self, old: np.ndarray, new: np.ndarray, missing: np.ndarray) -> Change:
        levels = self.columns.levels > 0
        numbers = ((new - old) ** 2)[:, ~levels].sum() / max((new**2)[:, ~levels].sum(), 1e-12)
        share = (new != old)[:, levels].sum() / max(missing[:, levels].sum(), 1)
        return Change(float(numbers), float(share))


def _never(before: Change, now: Change) -> bool:
    return False


def _rises(before: Change, now: Change) -> bool:
    """missForest's criterion: both kinds change more than the sweep before. A kind that is absent changes by 0."""
    risen = [b < n for b, n in ((before.numbers, now.numbers), (before.levels, now.levels)) if b or n]
    return all(risen)


def _settled(before: Change, now: Change) -> bool:
    return max(now.numbers, now.levels) < 0.01


THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
FOREST: dict[str, Any] = {"n_estimators": 100, "max_features": "sqrt", "n_jobs": THREADS}
METHODS: dict[str, Learners] = {
    "mice": Learners(
        lambda seed, at: BayesianRidge(),
        lambda seed, at: LogisticRegression(max_iter=500),
        sweeps=10,
        one_hot=True,
        enough=_never,
    ),
    # as in R: √p candidates a split, leaves of one for levels, and no split of five or fewer for numbers
    "missforest": Learners(
        lambda seed, at: RandomForestRegressor(**FOREST, min_samples_split=6, random_state=seed),
        lambda seed, at: RandomForestClassifier(**FOREST, random_state=seed),
        sweeps=10,
        one_hot=True,
        enough=_rises,
        step_back=True,
    ),
    "boosting": Learners(
        lambda seed, at: HistGradientBoostingRegressor(categorical_features=at, random_state=seed),
        lambda seed, at: HistGradientBoostingClassifier(categorical_features=at, random_state=seed),
        sweeps=5,
        one_hot=False,
        enough=_settled,
    ),
}


def impute(task: Task, method: str) -> Answer:
    part = task.varying()

    def fit() -> tuple[KNN | Chain, np.ndarray]:
        if method == "knn":
            knn = KNN(part)
            return knn, knn.fill(part.train)
        chain = Chain(part, METHODS[method])
        return chain, chain.filled

    (model, train), seconds = timed(fit)
    new, seconds_new = timed(model.fill, part.new)
    version = f"scikit-learn {sklearn.__version__}"
    return Answer(version, seconds, task.widened("train", train), seconds_new, task.widened("new", new))


if __name__ == "__main__":
    run(lambda task: impute(task, sys.argv[1]))
