"""gcimpute: a Gaussian copula fitted by EM, at its defaults; it tells ordinal from continuous numbers itself.

It knows ordered levels but no unordered ones. Each level but the most frequent becomes a column of 0 and 1, declared
ordinal (with all of them the correlations are singular and its EM fails); the level answered is the most frequent
one in 20 draws of the fitted model. Should its EM still fail, levels go in as mere codes in a row, which is worse.
New rows go through the same model. Release 0.0.4 refuses the columns that it takes for truncated: these too are
declared ordinal.
"""

from __future__ import annotations

import contextlib
import io
import os

import numpy as np
from gcimpute.gaussian_copula import GaussianCopula
from indicators import Indicators
from task import Answer, Task, run, timed, widened_answer

DRAWS = 20


class Copula:
    """A copula fitted to the training rows, with levels as indicators or as codes."""

    def __init__(self, task: Task, indicators: Indicators | None) -> None:
        self.task, self.indicators = task, indicators
        self.model = GaussianCopula(random_state=task.seed, n_jobs=int(os.environ.get("OMP_NUM_THREADS", "1")))
        x = self.rows("train")
        truncated = np.char.endswith(self.model.get_vartype_indices(x).astype(str), "truncated")
        levels = indicators.at_levels if indicators else np.flatnonzero(task.discrete)
        self.model.fit(x, ordinal=sorted({*levels, *np.flatnonzero(truncated)}) or None)

    def rows(self, part: str) -> np.ndarray:
        return self.indicators.of(part) if self.indicators else self.task.part(part).copy()

    def fill(self, part: str) -> np.ndarray:
        x = self.rows(part)
        filled = self.model.transform(x)
        if not self.indicators:
            return filled
        if at := self.indicators.at_levels:
            filled[:, at] = self.model.sample_imputation(x, num=DRAWS)[:, at].mean(axis=2)
        return self.indicators.back(filled)


def impute(task: Task) -> Answer:
    part = task.varying()

    def fit() -> tuple[Copula, np.ndarray]:
        try:
            copula = Copula(part, Indicators(part))
            return copula, copula.fill("train")
        except (AssertionError, ValueError, np.linalg.LinAlgError):
            copula = Copula(part, None)
            return copula, copula.fill("train")

    with contextlib.redirect_stdout(io.StringIO()):
        (copula, first), seconds = timed(fit)
        second, seconds_new = timed(copula.fill, "new")
    return widened_answer(task, "gcimpute", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
