"""mostlyai-engine: TabularARGN, an autoregressive network over columns in any order, trained for two minutes at most.

Categories are declared, and its protection of rare values, which is for privacy, is off; all else is default. Its
fillings are draws; as one answer we give the mean of 20 for numbers and their most frequent level for categories.
New rows go through the same network.
"""

from __future__ import annotations

import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", DO_NOT_TRACK="1")

import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from draws import pooled
from mostlyai.engine import TabularARGN
from task import Answer, Task, run, timed, widened_answer

MINUTES, DRAWS = 2, 20


def frame(task: Task, part: str) -> pd.DataFrame:
    columns = {}
    for j, x in enumerate(task.part(part).T):
        known = np.isin(x, task.train[:, j])  # a level never seen is a missing cell
        text = [f"level {value:.0f}" if at else None for value, at in zip(x, known, strict=True)]
        columns[f"x{j}"] = pd.Series(text, dtype=object) if task.discrete[j] else x
    return pd.DataFrame(columns)


def array(task: Task, filled: pd.DataFrame) -> np.ndarray:
    columns = []
    for j, discrete in enumerate(task.discrete):
        x = filled[f"x{j}"]
        columns.append(pd.to_numeric(x.str.removeprefix("level ") if discrete else x, errors="coerce"))
    return np.column_stack(columns).astype(float)


def model_of(task: Task) -> TabularARGN:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    logging.disable()
    warnings.simplefilter("ignore")
    kinds = ["TABULAR_CATEGORICAL" if discrete else "TABULAR_NUMERIC_AUTO" for discrete in task.discrete]
    return TabularARGN(
        max_training_time=MINUTES,
        tgt_encoding_types={f"x{j}": kind for j, kind in enumerate(kinds)},
        value_protection=False,
        device="cpu",
        workspace_dir=Path(sys.argv[-1]) / "workspace",
        random_state=task.seed,
    )


def impute(task: Task) -> Answer:
    part = task.varying()
    model = model_of(part)

    def fill(which: str) -> np.ndarray:
        rows = pd.concat([frame(part, which)] * DRAWS, ignore_index=True)  # its time goes by missing patterns
        return pooled(np.split(array(part, model.impute(rows)), DRAWS), part.levels)

    def fit() -> np.ndarray:
        model.fit(frame(part, "train"))
        return fill("train")

    first, seconds = timed(fit)
    second, seconds_new = timed(fill, "new")
    return widened_answer(task, "mostlyai-engine", seconds, first, seconds_new, second)


if __name__ == "__main__":
    run(impute)
