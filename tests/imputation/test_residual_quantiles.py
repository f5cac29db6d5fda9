"""A drawn number keeps its rank among the model's draws and takes the value that errors on known cells have there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.schema import Schema, real
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for
from vsae.imputation.residual_quantiles import ResidualQuantiles, normal_quantiles
from vsae.model.likelihoods import Gaussian


def one_column(quantiles: torch.Tensor, lumped: bool = False) -> ResidualQuantiles:
    return ResidualQuantiles(torch.tensor([[-1.0, 1.0]]), quantiles[None], torch.tensor([lumped]))


def raw_draws(rows: int = 2000, samples: int = 10) -> tuple[Gaussian, torch.Tensor]:
    rng = torch.manual_seed(0)
    loc = torch.randn(1, 1, rows, 1, generator=rng) + 0.3 * torch.randn(2, samples, rows, 1, generator=rng)
    decoded = Gaussian(loc.flatten(1, 2), torch.tensor(-0.5))
    return decoded, decoded.sample(rng)


def test_a_normal_shape_changes_next_to_nothing():
    decoded, raw = raw_draws()
    shaped = one_column(normal_quantiles().repeat(2, 1))(decoded, raw, 10)
    assert torch.corrcoef(torch.stack([raw.flatten(), shaped.flatten()]))[0, 1] > 0.999
    assert float(shaped.std()) == pytest.approx(float(raw.std()), rel=0.02)


def test_ranks_stay_and_values_are_the_shapes():
    decoded, raw = raw_draws()
    exponential = -torch.log1p(-torch.linspace(0, 0.999, 65))
    shaped = one_column(exponential.repeat(2, 1))(decoded, raw, 10)
    rows = raw.unflatten(1, (10, -1)).flatten(0, 1)[..., 0], shaped.unflatten(1, (10, -1)).flatten(0, 1)[..., 0]
    assert torch.equal(rows[0].argsort(0), rows[1].argsort(0))  # (draws, rows)
    estimate = decoded.loc.unflatten(1, (10, -1)).mean((0, 1))[:, 0]
    assert (rows[1] >= estimate - 1e-5).all()  # no exponential is below 0


def test_a_value_that_two_places_share_is_exact():
    decoded, raw = raw_draws()
    quantiles = torch.full((2, 65), 0.1)
    quantiles[1, 40:] = torch.linspace(1.0, 2.0, 25)
    shaped = one_column(quantiles, lumped=True)(decoded, raw, 10, torch.manual_seed(1))
    assert not ((shaped > 0.1) & (shaped < 1.0)).any()
    zeros = (shaped == torch.tensor(0.1)).float().unflatten(1, (10, -1)).mean((0, 1))[:, 0]
    estimate = decoded.loc.unflatten(1, (10, -1)).mean((0, 1))[:, 0]
    assert (zeros[estimate < -1] == 1).all()
    assert float(zeros[estimate > 1].mean()) == pytest.approx(40 / 64, abs=0.05)


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


def test_lumps_are_drawn_as_often_as_they_are(zero_inflated):
    fitted, new = zero_inflated
    seen = np.ones((600, 2), dtype=bool)
    seen[:, 1] = False
    draws = np.stack([table["b"] for table in fitted.draw(new, seen, 40)])
    share = (draws == 0).mean(axis=0)
    for low, high in ((-9, -0.5), (-0.5, 0.5), (0.5, 9)):
        part = (new["a"] > low) & (new["a"] <= high)
        assert share[part].mean() == pytest.approx((new["b"][part] == 0).mean(), abs=0.1)
    assert np.array_equal(np.round(draws, 2), draws)


def test_shapes_are_kept_in_files(zero_inflated, tmp_path):
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
