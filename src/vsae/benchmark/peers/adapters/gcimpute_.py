"""gcimpute: a Gaussian copula fitted by EM, at its defaults; it tells ordinal from continuous numbers itself.

It knows ordered levels but no unordered ones. Each level but the most frequent becomes a column of 0 and 1, declared
ordinal (with all of them the correlations are singular and its EM fails); the level answered is the most frequent
one in 20 draws of the fitted model. As mere codes in a row, levels come out worse. New rows go through the same model.
Release 0.0.4 refuses the columns that it takes for truncated: these too are declared ordinal.
"""

from __future__ import annotations

import contextlib
import io
import os
from importlib.metadata import version

import numpy as np
from gcimpute.gaussian_copula import GaussianCopula
from task import Answer, Task, run, timed

DRAWS = 20


class Indicators:
    """Rows with a column for each number and for each level but the most frequent of each category."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.levels: list[np.ndarray] = []  # per column, the most frequent first; empty for numbers
        for x, discrete in zip(task.train.T, task.discrete, strict=True):
            levels, counts = np.unique(x[~np.isnan(x)], return_counts=True)
            self.levels.append(levels[np.argsort(-counts, kind="stable")] if discrete else levels[:0])
        widths = [max(len(levels) - 1, 1) for levels in self.levels]
        ends = np.cumsum(widths)
        self.at = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        self.at_levels = [i for j in np.flatnonzero(task.discrete) for i in range(ends[j])[self.at[j]]]

    def of(self, part: str) -> np.ndarray:
        columns = []
        for x, levels in zip(self.task.part(part).T, self.levels, strict=True):
            if not len(levels):
                columns.append(x[:, None])
                continue
            known = np.isin(x, levels)  # a level never seen before is a hole
            columns.append(np.where(known[:, None], x[:, None] == levels[1:], np.nan))
        return np.concatenate(columns, axis=1)

    def back(self, filled: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
        """Numbers from `filled`; levels by the `shares` of their 1s among draws."""
        out = np.empty((len(filled), len(self.levels)))
        for j, (levels, at) in enumerate(zip(self.levels, self.at, strict=True)):
            if not len(levels):
                out[:, j] = filled[:, at.start]
                continue
            others = shares[:, at]
            out[:, j] = levels[np.column_stack([1 - others.sum(axis=1), others]).argmax(axis=1)]
        return out


def impute(task: Task) -> Answer:
    part = task.varying()
    indicators = Indicators(part)
    train = indicators.of("train")
    model = GaussianCopula(random_state=task.seed, n_jobs=int(os.environ.get("OMP_NUM_THREADS", "1")))

    def fit() -> np.ndarray:
        kinds = model.get_vartype_indices(train)
        ordinal = {*indicators.at_levels, *np.flatnonzero(np.char.endswith(kinds.astype(str), "truncated"))}
        model.fit(train, ordinal=sorted(ordinal) or None)
        return fill("train")

    def fill(part: str) -> np.ndarray:
        x = indicators.of(part)
        shares = model.sample_imputation(x, num=DRAWS).mean(axis=2) if indicators.at_levels else None
        return indicators.back(model.transform(x), shares)

    with contextlib.redirect_stdout(io.StringIO()):
        first, seconds = timed(fit)
        second, seconds_new = timed(fill, "new")
    return Answer(
        f"gcimpute {version('gcimpute')}",
        seconds,
        task.widened("train", first),
        seconds_new,
        task.widened("new", second),
    )


if __name__ == "__main__":
    run(impute)
