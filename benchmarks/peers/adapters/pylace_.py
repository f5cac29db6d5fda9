"""pylace: Bayesian cross-categorization; 8 chains of 2,000 steps, else its defaults, categories as text.

Its answer for a cell is the most likely value. That is what we give for categories. For numbers we give the median of
100 draws from the same distribution, which comes nearer; their mean suffers from draws far out. New rows are not
added to its table: each missing cell is predicted given the observed cells of its row.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from lace import Engine
from task import Answer, Task, run, timed, widened_answer

STEPS, DRAWS = 2000, 100


def written(task: Task, j: int, value: float) -> str | float:
    return f"level {value:.0f}" if task.discrete[j] else float(value)


def read(task: Task, j: int, value: str | float) -> float:
    return float(value.removeprefix("level ")) if task.discrete[j] else float(value)


def table(task: Task) -> pl.DataFrame:
    columns = {"index": [f"row {i}" for i in range(len(task.train))]}
    kinds = {}
    for j, x in enumerate(task.train.T):
        columns[f"x{j}"] = [None if np.isnan(value) else written(task, j, value) for value in x]
        kinds[f"x{j}"] = pl.String if task.discrete[j] else pl.Float64
    return pl.DataFrame(columns, schema_overrides=kinds)


def filled_train(task: Task, engine: Engine) -> np.ndarray:
    out = task.train.copy()
    for j in range(out.shape[1]):
        rows = np.flatnonzero(np.isnan(out[:, j]))
        if task.discrete[j] and len(rows):
            values = engine.impute(f"x{j}", rows=rows.tolist(), with_uncertainty=False)[f"x{j}"]
            out[rows, j] = [read(task, j, value) for value in values]
        elif len(rows):
            out[rows, j] = [np.median(engine.draw(int(i), f"x{j}", n=DRAWS).to_numpy()) for i in rows]
    return out


def filled_new(task: Task, engine: Engine) -> np.ndarray:
    out = task.new.copy()
    seen = [set(x[~np.isnan(x)]) if discrete else None for x, discrete in zip(task.train.T, task.discrete, strict=True)]
    for row in out:
        missing = np.flatnonzero(np.isnan(row))
        known = [j for j in np.flatnonzero(~np.isnan(row)) if seen[j] is None or row[j] in seen[j]]
        given = {f"x{j}": written(task, j, row[j]) for j in known}
        numbers = [f"x{j}" for j in missing if not task.discrete[j]]
        medians = engine.simulate(numbers, given=given, n=DRAWS).median() if numbers else None
        for j in missing:
            row[j] = (
                read(task, j, engine.predict(f"x{j}", given=given, with_uncertainty=False))
                if task.discrete[j]
                else medians[f"x{j}"][0]
            )
    return out


def impute(task: Task) -> Answer:
    part = task.varying()

    def fit() -> tuple[Engine, np.ndarray]:
        engine = Engine.from_df(table(part), rng_seed=task.seed)
        engine.update(STEPS, quiet=True)
        return engine, filled_train(part, engine)

    (engine, first), seconds = timed(fit)
    second, seconds_new = timed(filled_new, part, engine)
    return widened_answer(task, "pylace", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
