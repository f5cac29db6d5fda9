"""SDV's synthesizers at their defaults: the Gaussian copula, CTGAN and TVAE (300 epochs each).

Missing cells go in as they are. Columns are declared numbers or categories. Numbers are made missing at random, at the
rate the column had; in categories a missing cell is one more level. So there are no complete rows to be had.
"""

from __future__ import annotations

import os
import sys
import warnings

import numpy as np
import pandas as pd
import sdv
import torch
from generated import MANY_ROWS, Generated, run
from sdv.metadata import Metadata
from sdv.single_table import CTGANSynthesizer, GaussianCopulaSynthesizer, TVAESynthesizer
from task import Task, timed

TABLE = "table"
ON_CPU = {"enable_gpu": False}
SYNTHESIZERS = {
    "copula": (GaussianCopulaSynthesizer, {}),
    "ctgan": (CTGANSynthesizer, ON_CPU),
    "tvae": (TVAESynthesizer, ON_CPU),
}


def generate(task: Task, name: str) -> Generated:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(task.seed)
    np.random.seed(task.seed)  # noqa: NPY002 - what it draws from
    warnings.simplefilter("ignore")
    frame = pd.DataFrame({f"x{j}": _column(task, j) for j in range(len(task.names))})
    kinds = {f"x{j}": {"sdtype": "categorical" if task.discrete[j] else "numerical"} for j in range(len(task.names))}
    metadata = Metadata.load_from_dict({"tables": {TABLE: {"columns": kinds}}})
    make, options = SYNTHESIZERS[name]
    model = make(metadata, **options)
    _, seconds = timed(model.fit, {TABLE: frame})
    rows, seconds_rows = timed(model.sample, MANY_ROWS)
    return Generated(f"sdv {sdv.__version__}", seconds, seconds_rows, _array(task, rows[TABLE]))


def _column(task: Task, j: int) -> pd.Series:
    x = task.train[:, j]
    if not task.discrete[j]:
        return pd.Series(x)
    return pd.Series([None if np.isnan(value) else f"level {value:.0f}" for value in x], dtype=object)


def _array(task: Task, rows: pd.DataFrame) -> np.ndarray:
    columns = []
    for j, discrete in enumerate(task.discrete):
        x = rows[f"x{j}"].astype(object)
        columns.append(pd.to_numeric(x.str.removeprefix("level ") if discrete else x, errors="coerce"))
    return np.column_stack(columns).astype(float)


if __name__ == "__main__":
    run(lambda task: generate(task, sys.argv[1]))
