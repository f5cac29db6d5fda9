"""A drawn number is the value that errors on known cells have at its rank."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.schema import Schema, real
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for
from vsae.imputation.residual_quantiles import ResidualQuantiles, normal_quantiles

RANKS = torch.rand(4000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def one_column(quantiles: torch.Tensor, point_mass: bool = False, slope: float = 1.0) -> ResidualQuantiles:
    ends = torch.tensor([[-9.0, 9.0]])
    return ResidualQuantiles(
        torch.tensor([[-1.0, 1.0]]), quantiles[None], torch.tensor([point_mass]), ends, slope * ends
    )


def test_normal_residuals_give_a_normal():
    estimate, std = torch.full((4000, 1), 3.0), torch.full((4000, 1), 0.5)
    drawn = one_column(normal_quantiles().repeat(2, 1)).at(estimate, std, RANKS.float())
    exact = 3 + 0.5 * torch.special.ndtri(RANKS)
    assert torch.corrcoef(torch.stack([drawn.flatten().double(), exact.flatten()]))[0, 1] > 0.999
    assert float(drawn.std()) == pytest.approx(0.5, rel=0.03)


def test_values_rise_with_their_rank_and_are_those_of_the_residuals():
    exponential = -torch.log1p(-torch.linspace(0, 0.999, 65))
    estimate, std = torch.randn(4000, 1), torch.rand(4000, 1) + 0.1
    residuals = one_column(exponential.repeat(2, 1))
    low, high = (residuals.at(estimate, std, torch.full((4000, 1), rank)) for rank in (0.3, 0.6))
    assert (low < high).all()
    assert (low >= estimate).all()  # no exponential is below 0
    ratio = torch.full((4000, 1), float(np.log(0.4) / np.log(0.7)))
    torch.testing.assert_close((high - estimate) / (low - estimate), ratio, rtol=0.05, atol=0.0)


@pytest.mark.parametrize(("slope", "wider"), [(0.0, 1.0), (0.5, 2.0), (1.0, 4.0)])
def test_the_slope_says_how_far_the_models_width_is_followed(slope, wider):
    residuals = one_column(normal_quantiles().repeat(2, 1), slope=slope)
    off = residuals.at(torch.zeros(2, 1), torch.tensor([[0.25], [1.0]]), torch.full((2, 1), 0.8))
    assert float(off[1] / off[0]) == pytest.approx(wider)


def test_a_value_that_two_places_share_is_exact():
    quantiles = torch.full((2, 65), 0.1)
    quantiles[1, 40:] = torch.linspace(1.0, 2.0, 25)
    estimate = 2 * torch.rand(4000, 1) - 1
    estimate[:1000], estimate[1000:2000] = -2.0, 2.0
    chance = torch.rand(4000, 1)
    drawn = one_column(quantiles, point_mass=True).at(estimate, torch.ones(4000, 1), RANKS.float(), chance)
    assert not ((drawn > 0.1) & (drawn < 1.0)).any()
    zeros = (drawn == torch.tensor(0.1)).float()
    assert (zeros[:1000] == 1).all()
    assert float(zeros[1000:2000].mean()) == pytest.approx(40 / 64, abs=0.05)
    assert float(zeros[2000:].mean()) == pytest.approx((1 + 40 / 64) / 2, abs=0.05)


@pytest.fixture(scope="module")
def zero_inflated() -> tuple[FittedVSAE, dict[str, np.ndarray]]:
    """b is 0 unless a is high, and even then sometimes; else it has two decimals."""

    def rows(n: int, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        a = rng.normal(size=n)
        some = rng.random(n) < 1 / (1 + np.exp(2 - 3 * a))
        return {"a": a, "b": np.where(some, np.round(5 + rng.exponential(4, size=n), 2), 0.0)}

    schema, train = Schema([real("a"), real("b")]), rows(1500, 0)
    mask = np.random.default_rng(2).random((1500, 2)) < 0.8
    return fit(schema, train, mask, config_for(schema, 1500, "fast")), rows(600, 1)


def test_point_masses_are_drawn_as_often_as_they_are(zero_inflated):
    fitted, new = zero_inflated
    seen = np.ones((600, 2), dtype=bool)
    seen[:, 1] = False
    draws = np.stack([table["b"] for table in fitted.draw(new, seen, 40)])
    share = (draws == 0).mean(axis=0)
    for low, high in ((-9, -0.5), (-0.5, 0.5), (0.5, 9)):
        part = (new["a"] > low) & (new["a"] <= high)
        assert share[part].mean() == pytest.approx((new["b"][part] == 0).mean(), abs=0.1)
    assert np.array_equal(np.round(draws, 2), draws)


def test_residuals_are_kept_in_files(zero_inflated, tmp_path):
    fitted, new = zero_inflated
    fitted.save(tmp_path / "model")
    seen = np.random.default_rng(0).random((600, 2)) < 0.5
    ours, theirs = (model.draw(new, seen, 2) for model in (fitted, FittedVSAE.load(tmp_path / "model")))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one["b"], other["b"])


def test_the_value_that_many_cells_share_is_drawn_to_the_last_bit():
    rng = np.random.default_rng(0)
    z = rng.normal(size=500)
    columns = {"a": z, "third": np.where(rng.random(500) < 0.5, 1 / 3, z)}
    mask = rng.random((500, 2)) < 0.7
    schema = Schema([real("a"), real("third")])
    fitted = fit(schema, columns, mask, config_for(schema, 500, "fast", steps=60))
    draws = np.stack([table["third"][~mask[:, 1]] for table in fitted.draw(columns, mask, 20)])
    assert (draws == 1 / 3).mean() == pytest.approx(0.5, abs=0.1)
