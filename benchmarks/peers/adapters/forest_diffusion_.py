"""ForestDiffusion: a diffusion model whose scores are XGBoost regressors, at its defaults for imputation ("vp").

Categories go in as columns of 0 and 1, one for each level but the most frequent, with NaN where they miss: its own
coding turns missing categories into a level. Its fillings are draws; as one answer we give the mean of 5, which for
categories means the level of the highest mean. New rows go through the same model.
"""

from __future__ import annotations

import os

import numpy as np
from ForestDiffusion import ForestDiffusionModel
from indicators import Indicators
from task import Answer, Task, run, timed, widened_answer

DRAWS = 5
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))


def impute(task: Task) -> Answer:
    part = task.varying()
    indicators = Indicators(part)

    def fit() -> tuple[ForestDiffusionModel, np.ndarray]:
        model = ForestDiffusionModel(
            indicators.of("train"), diffusion_type="vp", n_jobs=THREADS, nthread=1, seed=task.seed
        )
        return model, fill(model, "train")

    def fill(model: ForestDiffusionModel, which: str) -> np.ndarray:
        draws = model.impute(k=DRAWS, X=model.scaler.transform(indicators.of(which)))
        return indicators.back(draws.mean(axis=0))

    (model, first), seconds = timed(fit)
    second, seconds_new = timed(fill, model, "new")
    return widened_answer(task, "ForestDiffusion", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
