"""A report of a table whose names and levels are markup."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vsae import VSAEImputer
from vsae.datasets import make_clinic
from vsae.report import Report

HOSTILE = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
QUOTE = "\"onmouseover='alert(3)' `code`"


def make_hostile(rows: int) -> dict[str, np.ndarray]:
    clinic = make_clinic(rows).table()
    table = {name: clinic[name] for name in ("visit_date", "age", "income", "education", "insurance", "bmi")}
    level = np.array([HOSTILE, IMAGE, QUOTE, "plain"] * (rows // 4), dtype=object)
    level[::7] = None
    note = np.array([f"{HOSTILE} {i}" for i in range(rows)], dtype=object)
    note[3] = None
    number = np.where(np.arange(rows) % 5 == 0, np.nan, clinic["age"] + 0.5)
    return {**table, HOSTILE: level, IMAGE: number, "note": note}


@pytest.fixture(scope="session")
def hostile_table() -> Callable[[int], dict[str, np.ndarray]]:
    """Of so many rows."""
    return make_hostile


@pytest.fixture(scope="session")
def hostile_report() -> Report:
    table = make_hostile(160)
    imputer = VSAEImputer(
        schema={IMAGE: "real"}, config={"steps": 10, "evaluate_every": 5, "trees": 0}, random_state=0
    ).fit(table)
    return imputer.report(table, by=HOSTILE, title=HOSTILE, again=f"vsae {HOSTILE}")
