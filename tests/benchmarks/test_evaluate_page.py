"""Does `evaluate` predict errors? Rows that say so, and what the page makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import data
from benchmarks.evaluate import jobs
from benchmarks.evaluate.page import page
from vsae import Schema
from vsae.data.schema import categorical, real


@pytest.fixture
def rows() -> data.Rows:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    columns = {"few": np.rint(2 * x), "like": x + 0.2 * rng.normal(size=300), "level": (x > 0).astype(int)}
    known = np.ones((300, 3), dtype=bool)
    known[:50, 1] = False  # never known: neither given nor scored
    return data.Rows("made", Schema([real("few"), real("like"), categorical("level", 2)]), columns, known)


def test_a_user_is_given_what_is_left_and_numbers_stay_numbers(rows):
    mask = rows.known & (np.random.default_rng(1).random((300, 3)) < 0.7)
    given = jobs.incomplete(rows, mask)
    np.testing.assert_array_equal(np.isnan(given["like"]), ~mask[:, 1])
    np.testing.assert_array_equal([cell is None for cell in given["level"]], ~mask[:, 2])
    assert set(given["level"][mask[:, 2]]) == {"0", "1"}
    assert "level" not in jobs.kinds(rows, given)


def test_errors_are_those_of_hidden_cells_whose_value_is_known(rows):
    mask = rows.known & (np.random.default_rng(1).random((300, 3)) < 0.7)
    ours = {name: x.copy() for name, x in rows.columns.items()}
    ours["like"] = ours["like"] + 1.0
    found = jobs.misses(rows, mask, ours, seed=0)
    miss, scale = found["like"]
    assert len(miss["vsae"]) == (~mask & rows.known)[:, 1].sum()
    assert jobs.error(miss["vsae"], scale) == pytest.approx(1 / rows.columns["like"][50:].std())
    assert jobs.standard_error(miss["vsae"], scale) == pytest.approx(0.0, abs=1e-9)
    assert jobs.error(miss["linear"], scale) < 0.8 * jobs.error(miss["mean/mode"], scale)
    levels, none = found["level"]
    assert none is None
    assert jobs.error(levels["vsae"], none) == 0.0
    assert jobs.standard_error(np.array([1.0, 0.0] * 50), None) == pytest.approx(0.05)


def column(predicted: float, actual: float, other: float = 0.9) -> dict:
    errors = ({"vsae": error, "mean/mode": 1.0, "linear": other} for error in (predicted, actual))
    said, found = errors
    return {
        "column": "x", "measure": "NRMSE", "cells": 100, "predicted": said, "se": 0.05, "hidden": 90,
        "predictable": True, "actual": found, "actual_se": 0.05,
    }  # fmt: skip


def row(table: str, *columns: dict) -> dict:
    return {
        "table": table, "seed": 1, "rows": 300, "effort": "fast", "repeats": 5, "holdout": 0.1, "seconds": 9.0,
        "columns": list(columns), "machine": "a machine",
    }  # fmt: skip


def test_the_page_judges_by_the_rows(tmp_path):
    assert page(tmp_path) is None
    good = row("good", *[column(0.54, 0.5)] * 4)
    bad = row("bad", column(0.95, 0.8))
    store = jobs.BENCHMARK.store(tmp_path)
    store.add(good, bad)
    text = page(tmp_path)
    assert "| 4 of 5, 80% | yes |" in text
    assert "| on 1 of 2 tables; 5 of 6 pairs of methods | **no** |" in text  # ours and linear change places on bad
    assert "| good | 300 | 4 | 100 | 90 | 100% | 52% | +8.0% | 9 |" in text
    assert "| bad | vsae 0.950 / 0.800, linear 0.900 / 0.900 | **no** |" in text
    assert "Not run: breast_cancer, whitewine" in text
    store.add(row("good", *[column(0.56, 0.5)] * 4))
    assert "| 0 of 5, 0% | **no** |" in page(tmp_path)
