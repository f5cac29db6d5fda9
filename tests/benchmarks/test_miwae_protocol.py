"""MIWAE's protocol: errors in units of the columns' spread, and the page's part made of rows alone."""

from __future__ import annotations

import json

import pytest

from benchmarks.paper import miwae


def test_the_mean_errs_by_the_variance_of_standardised_columns():
    row = miwae.measured("breast_cancer", "mean", 0)
    assert row["mse"] == pytest.approx(1.0, abs=0.05)
    assert row["rows"] == 569


def test_the_page_has_a_line_a_method_beside_what_is_printed(tmp_path):
    assert miwae.section(tmp_path) == ""
    rows = [
        {"table": table, "method": method, "seed": seed, "mse": value + seed / 10, "seconds": 1.0}
        for table, method, value in (("yeast", "mean", 1.0), ("yeast", "miwae", 0.9), ("concrete", "miwae", 0.7))
        for seed in (0, 1)
    ]
    (tmp_path / "miwae.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = miwae.section(tmp_path)
    assert "| mean | n/r | n/r | n/r | 1.050 ± 0.071 [2] (1.06) |" in text
    assert "| MIWAE | n/r | 0.750 ± 0.071 [2] (0.501) | n/r | 0.950 ± 0.071 [2] (0.964) |" in text
    assert "concrete +50%, yeast -1%; 1 of 2 within 10%" in " ".join(text.split())
