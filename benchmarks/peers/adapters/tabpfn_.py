"""TabPFN's own `simple_impute`, pretrained, at its defaults: each column given all others, missing cells and all,
categories as such, where they have no more levels than it can tell apart. It cannot fill other rows than those given.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from task import Answer, Task, run, timed, widened_answer
from weights import weights

os.environ["TABPFN_DISABLE_TELEMETRY"] = "1"  # read when it is imported
WEIGHTS = "VSAE_TABPFN"


def impute(task: Task) -> Answer:
    from tabpfn import TabPFNClassifier, TabPFNRegressor
    from tabpfn_extensions.unsupervised import simple_impute

    part = task.varying()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    common = {"device": "cpu", "random_state": task.seed, "ignore_pretraining_limits": True}
    classifier = TabPFNClassifier(model_path=weights(WEIGHTS, "classifier"), **common)
    regressor = TabPFNRegressor(model_path=weights(WEIGHTS, "regressor"), **common)
    categories = [int(j) for j in np.flatnonzero(part.discrete)]
    filled, seconds = timed(simple_impute, part.train, classifier, regressor, categories)
    return widened_answer(task, "tabpfn", seconds, filled)


if __name__ == "__main__":
    run(impute)
