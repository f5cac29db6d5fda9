"""The paper's multi-modal experiments on small sets made here: what a row holds, and what the page makes of rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.paper import multimodal, multimodal_page, tuned_ridge
from benchmarks.paper.digits import DigitClassifier
from benchmarks.paper.jobs import MULTIMODAL, PLANS, measured, plan_of
from benchmarks.paper.methods import DEFAULT, PAPER
from benchmarks.paper.multimodal import FLAT, METHODS, ORACLE, RIVALS, SETS, TRIVIAL, TUNED, Task
from benchmarks.paper.png import as_bytes, grid, png
from vsae.data.schema import Schema, categorical, image, vector
from vsae.datasets import Modalities
from vsae.model.config import NetShape

SMALL = NetShape(8, 1)
QUICK = {
    "epochs": 2, "steps": 8, "latent_dim": 4, "collective": SMALL, "data_net": SMALL, "mask_net": SMALL,
    "channels": 2, "image_features": 8, "e_step_samples": 0, "latent_draws": 4,
    "validation_share": 0.4,
}  # fmt: skip


def small_set(name: str, part: str, *, seed: int = 0) -> Modalities:
    """A bright half of an image tells the class, as in the sets themselves."""
    rng = np.random.default_rng([seed, part == "test"])
    n = 120
    classes = rng.integers(5, size=n)
    images = rng.integers(20, size=(2, n, 1, 28, 28)).astype(np.uint8)
    for row, k in enumerate(classes):
        images[0, row, 0, 5 * k : 5 * k + 6] = 200
        images[1, row, 0, :, 5 * k : 5 * k + 6] = 200
    if name == "mnist+mnist":
        columns = {"digit1": images[0], "digit2": images[1]}
        return Modalities(name, Schema([image("digit1"), image("digit2")]), columns, classes)
    if name == "fashion":
        schema = Schema([image("image"), categorical("label", 10)])
        return Modalities(name, schema, {"image": images[0], "label": classes}, classes)
    columns = {v: classes[:, None] + rng.normal(size=(n, 20)) for v in ("text", "audio", "vision")}
    return Modalities(name, Schema(vector(v, 20) for v in columns), columns)


@pytest.fixture(autouse=True)
def small_sets(monkeypatch):
    monkeypatch.setattr(multimodal, "load_modalities", small_set)
    monkeypatch.setattr(multimodal, "digit_classifier", lambda device: (DigitClassifier(), 0.5))
    monkeypatch.setattr(multimodal, "GENERATED", 20)


def test_every_set_and_method_is_planned():
    plan = plan_of(["multimodal"])
    assert {e.table for e, _ in plan} == set(SETS)
    assert {m for _, m in plan} == set(METHODS) == {TRIVIAL, ORACLE, TUNED, *RIVALS, PAPER, FLAT, DEFAULT}
    assert {e.rate for e, _ in plan if e.table == "mnist+mnist"} == {0.3, 0.5, 0.7}
    assert {e.table for e, m in plan if m == TUNED} == {"mosi"}
    assert plan == PLANS["multimodal"]
    assert MULTIMODAL.store().path.name == "multimodal.jsonl"


@pytest.mark.parametrize("table", SETS)
@pytest.mark.parametrize("method", [TRIVIAL, "AE", "VAE", "CVAE", "MVAE", "HI-VAE", PAPER, FLAT, DEFAULT])
def test_a_run_gives_a_row_a_seed(table, method):
    changes = {} if method == TRIVIAL else QUICK
    rows = [measured(table, "mcar", 0.5, method, seed, "cpu", **changes) for seed in (0, 1)]
    assert [row["seed"] for row in rows] == [0, 1]
    assert "images" not in rows[1]
    assert ("images" in rows[0]) == (table != "mosi" and method in (PAPER, DEFAULT))
    for row in rows:
        row = {name: value for name, value in row.items() if name != "images"}
        assert set(row["errors"]) == set(small_set(table, "test").columns)
        assert all(np.isfinite([e["all"], e["given"]]).all() for e in row["errors"].values())
        assert json.dumps(row)
        assert multimodal.in_words(row)
        if table == "mnist+mnist" and method != TRIVIAL:
            assert (row["coherence"]["pairs"] is None) == (method == "AE")


def test_the_oracle_knows_the_class_where_something_is_given():
    task = Task.of("mnist+mnist", 0.5, 0)
    oracle, mean = (multimodal.run_method(method, task)["errors"] for method in (ORACLE, TRIVIAL))
    for name in ("digit1", "digit2"):
        assert oracle[name]["given"] < 2e-3  # here a class has next to no style
        assert oracle[name]["given"] < oracle[name]["all"] < mean[name]["all"]
    labels = multimodal.run_method(ORACLE, Task.of("fashion", 0.5, 0))
    assert set(labels["errors"]) == {"image"}


def test_a_ridge_that_test_cells_choose_is_at_or_below_the_mean_and_any_other_penalty():
    task = Task.of("mosi", 0.5, 0)
    tuned, mean = (measured("mosi", "mcar", 0.5, m, 0, "cpu")["errors"] for m in (TUNED, TRIVIAL))
    assert all(tuned[name]["given"] < mean[name]["given"] for name in tuned)  # the class ties the three together
    parts = task.train.columns, task.test.columns, task.train_mask, task.test_mask
    few = {p: task.errors(tuned_ridge.filled(*parts, penalties=[p])) for p in tuned_ridge.PENALTIES}
    for name, error in tuned.items():
        assert error["all"] == pytest.approx(min(found[name]["all"] for found in few.values()))


def test_errors_are_those_of_hidden_cells():
    task = Task.of("fashion", 0.5, 0)
    truth = dict(task.test.columns)
    assert all(e["all"] == 0 for e in task.errors(truth).values())
    wrong = {"image": np.where(task.test_mask[:, 0, None, None, None], truth["image"], 255 - truth["image"])}
    wrong["label"] = np.where(task.test_mask[:, 1], truth["label"] + 1, truth["label"])
    errors = task.errors(wrong)
    assert errors["label"]["all"] == 0  # what is seen is not scored
    dark, lit = 55 / 255, 1.0
    assert dark**2 * 0.1 < errors["image"]["given"] <= lit


def test_masks_are_the_same_for_every_method_and_vary_with_the_seed():
    one, again, other = (Task.of("fashion", 0.5, seed) for seed in (0, 0, 1))
    assert np.array_equal(one.test_mask, again.test_mask)
    assert not np.array_equal(one.test_mask, other.test_mask)


def test_the_page_is_made_of_rows(tmp_path):
    assert multimodal_page.page(tmp_path) is None
    for table in ("mnist+mnist", "fashion"):
        for method in (TRIVIAL, ORACLE, PAPER, DEFAULT):
            changes = {} if method in (TRIVIAL, ORACLE) else QUICK
            rows = [measured(table, "mcar", 0.5, method, seed, "cpu", **changes) for seed in (0, 1)]
            MULTIMODAL.store(tmp_path).add(*rows)
            given = rows[0].get("images", {})
            kept = next(row for row in MULTIMODAL.rows(tmp_path) if (row["table"], row["method"]) == (table, method))
            assert list(kept.get("images", {})) == list(given)
            assert all(np.array_equal(kept["images"][name], x) for name, x in given.items())
    text = multimodal_page.page(tmp_path)
    assert "| class mean |" in text
    assert "wanted: +3 %" in text
    assert "(0.0712)" in text
    drawn = multimodal_page.figures(tmp_path)
    for name, content in drawn.items():
        assert content.startswith(b"\x89PNG")
        assert f"figures/{name}" in text
    assert "multimodal-fashion-default-image.png" in drawn
    assert "multimodal-mnist-paper-generated.png" in drawn


def test_images_stay_as_they_are_as_bytes_and_stand_side_by_side():
    images = np.random.default_rng(0).integers(256, size=(2, 3, 5, 4)).astype(np.uint8)
    assert np.array_equal(as_bytes(images), images)
    assert np.array_equal(as_bytes(images / 255), images)
    pixels = grid([images, images[:, :1]], scale=1)
    assert np.array_equal(255 - pixels[:5, :4], images[0, 0])
    assert png(pixels).endswith(b"IEND\xaeB`\x82")
