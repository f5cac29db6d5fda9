"""A sweep puts values where the rest of a row wants them, and makes no new ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vsae.data.schema import Schema, categorical, real
from vsae.fitting.fit import fit
from vsae.generation.conditions import Condition
from vsae.generation.sweeps import sweep
from vsae.imputation.tilts import Tilts
from vsae.model.config import VSAEConfig

SCHEMA = Schema([real("x"), real("y"), categorical("sign", 2), real("z")])
COMPLETE = np.ones((1000, 4), dtype=bool)


@pytest.fixture(scope="module")
def fitted():
    """y is all but x, `sign` says whether x is above 0, and z hides where it is."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=600)
    columns = {"x": x, "y": x + 0.1 * rng.normal(size=600), "sign": (x > 0).astype(int)}
    columns["z"] = 0.5 * x + rng.normal(size=600)
    shown = np.stack([*np.full((3, 600), 0.85), np.where(x > 0, 0.4, 0.9)], axis=1)
    return fit(SCHEMA, columns, rng.random((600, 4)) < shown, VSAEConfig(members=2, steps=200))


def agreement(rows) -> float:
    return float(((rows["x"] > 0) == rows["sign"]).mean())


def correlation(rows) -> float:
    return float(np.corrcoef(rows["x"], rows["y"])[0, 1])


def test_columns_that_say_the_same_agree_in_generated_rows(fitted):
    rows, _ = fitted.generate(2000, seed=1)
    assert agreement(rows) >= 0.95
    assert correlation(rows) >= 0.98


def test_a_sweep_mends_rows_that_are_torn_apart(fitted):
    """The columns of real-looking rows, each shuffled by itself, hang together again."""
    rng = np.random.default_rng(0)
    rows, _ = fitted.generate(1000, seed=1)
    torn = {name: rng.permutation(x) for name, x in rows.items()}
    mended = sweep(fitted, torn, COMPLETE, (), rng)
    assert abs(correlation(torn)) < 0.1
    assert agreement(torn) < 0.6
    assert correlation(mended) > 0.95
    assert agreement(mended) > 0.9


def test_values_change_places_among_cells_with_like_masks(fitted):
    before, mask = fitted.row_generator.rows(2000, 0, 1, Condition())
    after = sweep(fitted, before, mask, (), np.random.default_rng(0))
    for i, name in enumerate(SCHEMA.names):
        assert not np.array_equal(after[name], before[name])
        for cells in (mask[:, i], ~mask[:, i]):
            if name == "sign":
                counts = [np.bincount(x[name][cells], minlength=2) for x in (before, after)]
                assert np.abs(counts[0] - counts[1]).max() <= 0.02 * cells.sum() + 2
            else:
                assert np.array_equal(np.sort(after[name][cells]), np.sort(before[name][cells]))


def test_hidden_cells_of_a_column_that_masks_itself_are_tilted(fitted):
    """A normal of variance v that is tilted by a moves by a v; here v is 1 / 1.25, in standard units."""
    before, mask = fitted.row_generator.rows(4000, 0, 1, Condition())
    tilted = replace(fitted, tilts=Tilts({"z": 0.5}, {"sign": np.log([1.0, 50.0])}))
    plain, after = (sweep(model, before, mask, (), np.random.default_rng(0)) for model in (fitted, tilted))
    seen, scale = mask[:, 3], fitted.encoding.scale[SCHEMA.blocks[0].name][2]
    assert np.array_equal(plain["z"][seen], after["z"][seen])
    moved = (after["z"][~seen].mean() - plain["z"][~seen].mean()) / scale
    assert moved == pytest.approx(0.5 / 1.25, abs=0.15)
    assert after["sign"][~mask[:, 2]].mean() > plain["sign"][~mask[:, 2]].mean() + 0.01
    assert np.array_equal(plain["sign"][mask[:, 2]], after["sign"][mask[:, 2]])


def test_what_hides_where_still_depends_on_the_row(fitted):
    rows, mask = fitted.generate(4000, seed=2)
    low, high = (mask[rows["sign"] == sign, 3].mean() for sign in (0, 1))  # .9 and .4 in the data
    assert low - high > 0.25


def test_given_cells_stay_and_the_others_follow_them(fitted):
    rows, _ = fitted.generate(600, seed=1, given={"sign": 1})
    assert (rows["sign"] == 1).all()
    assert agreement(rows) > 0.9
    before, _ = fitted.generate(1000, seed=1)
    after = sweep(fitted, before, COMPLETE, (0, 2), np.random.default_rng(0))
    assert all(np.array_equal(after[name], before[name]) for name in ("x", "sign"))
    assert not np.array_equal(after["z"], before["z"])


def test_a_seed_repeats_and_few_rows_are_as_good_as_many(fitted):
    one, two = (fitted.generate(20, seed=3) for _ in range(2))
    assert all(np.array_equal(one[0][name], two[0][name]) for name in one[0])
    assert np.array_equal(one[1], fitted.generate_masks(20, seed=3))
    assert np.mean([agreement(fitted.generate(5, seed=seed)[0]) for seed in range(20)]) > 0.9


def test_models_that_do_not_know_every_subset_keep_the_rows_of_the_prior():
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=100) for name in "xyz"} | {"sign": rng.integers(0, 2, 100)}
    plain = fit(SCHEMA, columns, COMPLETE[:100], VSAEConfig.paper(epochs=1))
    rows, _ = plain.generate(30, seed=1)
    before, _ = plain.row_generator.rows(30, 0, 1, Condition())
    assert all(np.array_equal(rows[name], before[name]) for name in rows)
