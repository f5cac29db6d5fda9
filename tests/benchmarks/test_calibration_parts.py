"""The calibration without one of its parts: every part is in one variant, and the page says what the rows say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import data
from benchmarks.calibration import parts
from vsae.data.schema import Schema, categorical, real

NUMBERS = {
    "numbers do not shrink", "one width a column", "width goes with σ", "normal residuals",
    "residuals alike at all estimates", "no point masses", "no surplus",
}  # fmt: skip
LEVELS = {"levels do not shrink", "no Platt scaling"}


def tiny(name: str) -> data.Rows:
    """Noise that grows with x, a column that is mostly zero, and a level that nothing explains."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 400))
    columns = {"x": x, "y": x + np.exp(x) * rng.exponential(size=400), "zero": np.where(noise > 0, 0.0, 5 + x)}
    columns |= {"coin": (rng.random(400) < 0.3).astype(int), "third": np.digitize(x + 0.5 * noise, [-0.5, 0.5])}
    kinds = [real("x"), real("y"), real("zero"), categorical("coin", 2), categorical("third", 3)]
    return data.Rows(name, Schema(kinds), columns, np.ones((400, 5), bool))


@pytest.fixture(scope="module")
def row() -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load", tiny)
        return parts.measured("tiny", "mcar", 0.3, 11)


def test_a_part_changes_what_it_is_for_and_nothing_else(row):
    found = row["parts"]
    assert set(found) == {parts.WHOLE, parts.NONE} | NUMBERS | LEVELS
    whole = found[parts.WHOLE]["in_sample"]
    for name in NUMBERS | LEVELS:
        scores = found[name]["in_sample"]
        changed = {measure for measure in scores if scores[measure] != whole[measure]}
        if name == "numbers do not shrink":
            assert changed <= {"nrmse"}
        elif name in NUMBERS:
            assert "crps" in changed or name == "no surplus"
            assert changed <= {"crps", "coverage90"}
        else:
            assert changed <= {"pfc", "ece", "log_loss"}


def test_without_its_calibration_a_model_is_worse(row):
    whole, nothing = (row["parts"][name]["new_rows"] for name in (parts.WHOLE, parts.NONE))
    assert whole["crps"] < 1.01 * nothing["crps"]
    assert abs(whole["coverage90"] - 0.9) < min(0.08, abs(nothing["coverage90"] - 0.9))


def test_the_section_gives_changes_and_their_errors(tmp_path):
    assert parts.section(tmp_path) == ""

    def made(seed: int, crps: float) -> dict:
        whole = {"crps": 0.5, "coverage90": 0.9}
        without = {"crps": crps, "coverage90": 0.88}
        scored = {parts.WHOLE: whole, "no surplus": without}
        return {
            "table": "tiny", "mechanism": "mcar", "rate": 0.3, "seed": seed, "machine": "a machine",
            "parts": {name: {"in_sample": found, "new_rows": found} for name, found in scored.items()},
        }  # fmt: skip

    parts.BENCHMARK.store(tmp_path).add(made(11, 0.51), made(12, 0.53))
    text = parts.section(tmp_path)
    assert text.count("| the whole | – | – | 0.500 | 0.900 | – | – |") == 2
    assert "| no surplus | – | – | +4.0% ± 2.0% | -0.020 ± 0.000 | – | – |" in text
    assert "MCAR 0.3, in sample:" in text
