"""What trees say beside the model: weighed by withheld cells, in estimates, draws, intervals and files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vsae.data.schema import Schema, binary, positive, real
from vsae.fitting.blending import choose_medians
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.imputation.blend import fit_weights
from vsae.imputation.residual_quantiles import Predictions
from vsae.imputation.tilts import Tilts
from vsae.model.config import VSAEConfig


@pytest.fixture(scope="module")
def checkerboard() -> tuple[Schema, dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 3, (2, 1200))
    field = ((np.floor(a) + np.floor(b)) % 2).astype(int)
    fee = np.exp(1.0 + field + 0.1 * rng.normal(size=1200))
    columns = {"a": a, "b": b, "field": field, "fee": fee}
    mask = rng.random((1200, 4)) < 0.8
    mask[:, :2] = True
    return Schema([real("a"), real("b"), binary("field"), positive("fee")]), columns, mask


@pytest.fixture(scope="module")
def fitted(checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray]) -> FittedVSAE:
    return fit(*checkerboard, VSAEConfig(steps=60, members=2), mechanism="ignorable")


def test_trees_see_what_the_networks_have_not_learned(
    checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray], fitted: FittedVSAE
) -> None:
    _, columns, mask = checkerboard
    assert fitted.blend is not None
    assert fitted.blend.weight["field"] > 0.5
    both = ~mask[:, 2] & ~mask[:, 3]  # nothing but the region tells
    wrong = (fitted.impute(columns, mask)["field"] != columns["field"])[both].mean()
    draws = np.mean([(d["field"] != columns["field"])[both].mean() for d in fitted.draw(columns, mask, 5)])
    blend, fitted.blend = fitted.blend, None
    wrong_alone = (fitted.impute(columns, mask)["field"] != columns["field"])[both].mean()
    fitted.blend = blend
    assert wrong < 0.3 < wrong_alone
    assert draws < 0.42


def test_numbers_in_natural_units_and_their_intervals(
    checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray], fitted: FittedVSAE
) -> None:
    _, columns, mask = checkerboard
    missing = ~mask[:, 3]
    estimate = fitted.impute(columns, mask)["fee"][missing]
    low, high = (table["fee"][missing] for table in fitted.quantiles(columns, mask, (0.05, 0.95)))
    truth = columns["fee"][missing]
    assert np.corrcoef(estimate, truth)[0, 1] > 0.8
    assert 0.8 < ((low <= truth) & (truth <= high)).mean() <= 1.0


def test_a_median_may_be_one_that_trees_say(
    checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray], fitted: FittedVSAE
) -> None:
    schema, columns, mask = checkerboard
    assert fitted.blend is not None
    forest, missing = fitted.blend.forest, ~mask[:, 3]
    f = [v.name for v in forest.found].index("fee")
    said = forest.values[slice(*forest.starts[f : f + 2].tolist())].numpy()
    shares = []
    for medians in ([], ["fee"]):
        table = replace(fitted, blend=replace(fitted.blend, medians=medians)).median(columns, mask)
        x = fitted.encoding.encode(table, np.ones_like(mask)).numbers(schema.number_blocks)[:, 2].numpy()
        shares.append(np.isclose(x[missing, None], said, atol=1e-5).any(axis=1).mean())
    assert shares[0] < 0.9
    assert shares[1] == 1.0


def test_the_median_of_a_column_that_masks_itself_is_not_that_of_trees(
    checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray], fitted: FittedVSAE
) -> None:
    _, columns, mask = checkerboard
    assert fitted.blend is not None
    found = []
    for medians in ([], ["fee"]):
        told = replace(fitted, blend=replace(fitted.blend, medians=medians), tilts=Tilts({"fee": 1.0}))
        found.append(told.median(columns, mask)["fee"])
    assert np.array_equal(*found)
    assert not np.array_equal(found[0], fitted.median(columns, mask)["fee"])


def test_a_median_is_that_of_trees_where_withheld_cells_speak_for_it(fitted: FittedVSAE) -> None:
    block = next(b for b in fitted.schema.number_blocks if "fee" in [v.name for v in b.variables])
    x, one = torch.linspace(-1, 1, 100)[:, None].repeat(1, len(block)), torch.ones(100, len(block))
    for off, chosen in ((0.0, {v.name for v in block.variables}), (5.0, set())):
        withheld = {block.name: Predictions(x + 1, one, one, x, one.bool(), x + off)}
        blend = choose_medians(fitted, withheld)
        assert blend is not None
        assert set(blend.medians) == chosen


def test_it_is_kept_in_files(
    checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray], fitted: FittedVSAE, tmp_path: object
) -> None:
    _, columns, mask = checkerboard
    path = f"{tmp_path}/model.vsae"
    assert fitted.blend is not None
    replace(fitted, blend=replace(fitted.blend, medians=["fee"])).save(path)
    again = FittedVSAE.load(path)
    assert again.blend is not None
    assert list(again.blend.medians) == ["fee"]
    for name, x in fitted.impute(columns, mask).items():
        assert np.array_equal(again.impute(columns, mask)[name], x)


def test_no_trees_where_none_are_wanted(checkerboard: tuple[Schema, dict[str, np.ndarray], np.ndarray]) -> None:
    schema, columns, mask = checkerboard
    assert fit(schema, columns, mask, VSAEConfig(steps=5, members=1, trees=0)).blend is None


def test_weights_lean_to_what_all_columns_say_and_to_a_half_where_little_is_known() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=2000)
    better, noise = x + 0.1 * rng.normal(size=2000), rng.normal(size=(2, 2000))
    assert fit_weights({"x": (x, 0.0 * x, better)})["x"] > 0.9
    assert "x" not in fit_weights({"x": (x, x, better)})
    few = fit_weights({"y": (noise[0, :5], 0.0 * x[:5], noise[1, :5])})
    assert few["y"] == pytest.approx(0.5, abs=0.1)
    beside = fit_weights({"x": (x, 0.0 * x, better), "y": (noise[0, :5], 0.0 * x[:5], noise[1, :5])})
    assert beside["y"] > 0.8  # as of all the others
    assert fit_weights({"x": (x, x, x)}) == {}
