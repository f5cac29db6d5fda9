"""Tilts: what they do to a distribution, and that their slope is read off the mask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vsae.data.schema import Schema, categorical, real
from vsae.fitting.fit import fit
from vsae.imputation.tilts import MASSES, RANKS, Tilts, tilted_ranks, tilted_shares, weights
from vsae.mechanism.self_masking import factors_of_levels, slope
from vsae.model.config import VSAEConfig


def normal_at(rank: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtri(rank.clamp(1e-6, 1 - 1e-6))


def test_a_tilted_normal_is_a_shifted_normal() -> None:
    rank = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)[:, None]
    found = normal_at(tilted_ranks(rank, torch.tensor([0.7]), normal_at))
    torch.testing.assert_close(found, normal_at(rank) + 0.7, atol=0.05, rtol=0.0)


def test_without_a_slope_ranks_stay() -> None:
    rank = torch.rand(50, 2, dtype=torch.float64)
    assert torch.equal(tilted_ranks(rank, torch.zeros(2), normal_at), rank)
    assert Tilts({"a": 0.0}).slopes(["a", "b"]) is None


def test_a_column_that_masks_itself_may_have_any_name_and_be_complete() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    columns, mask = {"": x[:, 0], "b": x[:, 0] + x[:, 1]}, rng.random((60, 2)) < 0.8
    fitted = fit(Schema([real(""), real("b")]), columns, mask, VSAEConfig(steps=5, members=1, trees=0))
    mask[:, 0] = True
    plain = fitted.impute(columns, mask)["b"]
    fitted.tilts = Tilts({"": 1.0})
    np.testing.assert_array_equal(fitted.impute(columns, mask)["b"], plain)


def test_weights_add_up_to_one_and_lean_to_high_values() -> None:
    values = normal_at(RANKS)[:, None, None]
    found = weights(values, torch.tensor([1.0]))
    assert float(found.sum()) == pytest.approx(1.0)
    assert float((found * values).sum()) == pytest.approx(1.0, abs=0.02)  # the mean of a normal, tilted by 1


def test_slope_of_values_that_are_known_but_for_noise() -> None:
    rng = np.random.default_rng(0)
    centre, grid = rng.normal(size=3000), normal_at(RANKS).numpy()
    x = centre + 0.5 * rng.normal(size=3000)
    missing = (rng.random(3000) < 1 / (1 + np.exp(1.0 - 1.2 * x))).astype(float)
    assert slope(centre[:, None] + 0.5 * grid, MASSES.numpy(), missing).value == pytest.approx(1.2, abs=0.15)


def test_a_mask_by_chance_has_hardly_a_slope() -> None:
    rng = np.random.default_rng(1)
    assert abs(slope(rng.normal(size=(2000, 1)), np.ones(1), (rng.random(2000) < 0.3).astype(float)).value) < 0.05


def test_a_sign_that_is_given_is_kept_even_where_the_mask_says_nothing() -> None:
    rng = np.random.default_rng(2)
    values, missing = 0.01 * rng.normal(size=(500, 1)), (rng.random(500) < 0.3).astype(float)
    assert slope(values, np.ones(1), missing, sign=1).value > 0.5
    assert slope(values, np.ones(1), missing, sign=-1).value < -0.5
    assert slope(values, np.ones(1), np.ones(500), sign=1).value > 0.5


def test_factors_of_levels_are_found() -> None:
    rng = np.random.default_rng(3)
    share = rng.dirichlet([0.5, 0.5, 0.5], 6000)
    level = (share.cumsum(axis=1) < rng.random((6000, 1))).sum(axis=1)
    odds = np.array([-1.0, 0.0, 1.0])[level] - 0.5
    missing = (rng.random(6000) < 1 / (1 + np.exp(-odds))).astype(float)
    found = factors_of_levels(share, missing)
    np.testing.assert_allclose(found - found[1], [-1.0, 0.0, 1.0], atol=0.25)
    np.testing.assert_allclose(tilted_shares(np.array([[0.5, 0.0, 0.5]]), found).argmax(axis=1), 2)


def test_tilts_survive_json() -> None:
    tilts = Tilts({"a": 1.5}, {"b": np.array([0.0, 1.0])})
    again = Tilts.from_json(tilts.to_json())
    assert again.numbers == tilts.numbers
    np.testing.assert_array_equal(again.levels["b"], tilts.levels["b"])
    assert not Tilts()
    assert tilts.only(["b"]).numbers == {}


def test_slopes_of_drawn_tables_vary_as_they_are_uncertain() -> None:
    tilts = Tilts({"a": 1.5}, errors={"a": 0.5})
    deviate = torch.tensor([[0.0, 3.0], [2.0, 3.0]], dtype=torch.float64)
    found = tilts.slopes(["a", "b"], deviate)
    assert found is not None
    assert found.tolist() == [[1.5, 0.0], [2.5, 0.0]]


def test_means_of_drawn_tables_vary_more_where_the_slope_is_uncertain() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 1)) + 0.7 * rng.normal(size=(300, 3))
    mask = np.ones((300, 3), dtype=bool)
    mask[:, 0] = rng.random(300) > 1 / (1 + np.exp(-x[:, 0]))
    columns = {f"x{j}": x[:, j] for j in range(3)}
    schema = Schema([real(name) for name in columns])
    fitted = fit(schema, columns, mask, VSAEConfig(steps=100), mechanism={"x0": "+"}, seed=0)
    spread = []
    for error in (0.0, 1.5):
        fitted.tilts = replace(fitted.tilts, errors={"x0": error})
        spread.append(np.std([table["x0"].mean() for table in fitted.draw(columns, mask, 12)]))
    assert spread[1] > 1.5 * spread[0]


def test_a_mechanism_that_does_not_suit_a_column_is_refused_before_training() -> None:
    def never(_: object) -> None:
        raise AssertionError("trained")

    schema, columns = Schema([categorical("k", 3), real("x")]), {"k": np.arange(60) % 3, "x": np.arange(60.0)}
    mask = np.ones((60, 2), dtype=bool)
    mask[::4, 0] = False
    with pytest.raises(ValueError, match="its levels have no order"):
        fit(schema, columns, mask, VSAEConfig(steps=20), mechanism={"k": "+"}, callback=never)
