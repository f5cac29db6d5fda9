"""TabICL's own imputer (`TabICLUnsupervised`), pretrained, at its defaults: medians and most probable levels, in two
rounds over the columns, categories as such; new rows are imputed with the training rows as context.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from tabicl import TabICLClassifier, TabICLUnsupervised
from task import Answer, Task, run, timed, widened_answer
from weights import weights

WEIGHTS = "VSAE_TABICL"


class Imputer(TabICLUnsupervised):
    """It asks for one file of weights, but has two networks."""

    def _load_shared_model(self, estimator_cls: type) -> Any:
        kind = "classifier" if estimator_cls is TabICLClassifier else "regressor"
        self.estimator_params = {"model_path": weights(WEIGHTS, kind), "allow_auto_download": False}
        return super()._load_shared_model(estimator_cls)


def impute(task: Task) -> Answer:
    part = task.varying()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    categories = [int(j) for j in np.flatnonzero(part.discrete)]
    imputer = Imputer(categorical_features=categories, random_state=task.seed, device="cpu")
    first, seconds = timed(lambda: imputer.fit(part.train).impute(part.train))
    second, seconds_new = timed(imputer.impute, part.new)
    return widened_answer(task, "tabicl", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
