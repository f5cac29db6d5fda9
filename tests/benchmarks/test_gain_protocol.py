"""GAIN's protocol: errors in units of the columns' ranges, and the page's part made of rows alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from benchmarks.paper import gain, gain_recipe


def test_the_mean_errs_by_the_spread_of_scaled_columns():
    row = gain.measured(gain.TRIVIAL, 0)
    x = load_breast_cancer().data
    scaled = (x - x.min(axis=0)) / np.ptp(x, axis=0)
    for error in row["rmse"].values():
        assert error == pytest.approx(np.sqrt(scaled.var(axis=0).mean()), rel=0.05)
    assert row["rows"] == len(x)


def test_the_page_has_a_line_a_method_beside_what_is_printed(tmp_path):
    assert gain.section(tmp_path) == ""
    rows = [
        {"method": method, "seed": seed, "rmse": {"new_rows": value + seed / 100, "in_sample": value}}
        for method, value in (("mean", 0.14), ("GAIN", 0.07))
        for seed in (0, 1)
    ]
    (tmp_path / "gain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = gain.section(tmp_path)
    assert "times the printed" not in text  # nothing to hold it against
    with (tmp_path / "gain.jsonl").open("a") as file:
        row = {"method": gain.RECIPE, "seed": 0, "rmse": {"new_rows": 0.08, "in_sample": 0.1}}
        file.write(json.dumps(row) + "\n")
    text = gain.section(tmp_path)
    assert f"{0.07 / gain.PRINTED['GAIN']:.2f} times the printed" in " ".join(text.split())
    assert f"comes to {0.1 / gain.PRINTED['GAIN']:.2f} times" in " ".join(text.split())
    assert "| mean | 2 | 0.1450 ± 0.0071 | 0.1400 ± 0.0000 | – |" in text
    assert f"| GAIN | 2 | 0.0750 ± 0.0071 | 0.0700 ± 0.0000 | {gain.PRINTED['GAIN']:.4f} |" in text


def test_the_recipe_of_gains_code_leaves_observed_cells_and_learns_a_line():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)) * np.linspace(-2, 3, 12) + 5 + 0.05 * rng.normal(size=(200, 12))
    mask = rng.random(x.shape) > 0.2
    parts = np.split(x, [150]), np.split(mask, [150])
    (train, new), (seen, new_seen) = parts
    filled = gain_recipe.filled(train, seen, new, new_seen, seed=0, steps=400)
    for rows, shown, out in zip(*parts, filled, strict=True):
        assert (out[shown] == rows[shown]).all()
        wrong = ((out - rows) / x.std(axis=0))[~shown]
        assert (wrong**2).mean() < 0.5  # of the mean: 1
