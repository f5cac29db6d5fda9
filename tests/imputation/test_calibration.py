"""Draws of numbers are as wide, and shaped, as errors on cells that the model was not shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.schema import Schema, real, vector
from vsae.fitting.fit import fit
from vsae.fitting.presets import config_for
from vsae.imputation.calibration import Calibration, HeldOutPredictions
from vsae.imputation.residual_quantiles import Moments, Predictions
from vsae.model.likelihoods import Gaussian, Vector

SCHEMA = Schema([real("a"), real("b"), real("c")])


def skewed(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    return {"a": a, "b": a + rng.exponential(size=n), "c": a - 0.5 * rng.exponential(size=n)}


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """The truth of hidden cells of b in new rows, and 100 draws for each; of three fits, as one may be unlucky.

    Other cells are missing as often as in the rows that were fitted.
    """
    truth, draws = [], []
    for seed in (0, 10, 20):
        train, new = skewed(1000, seed), skewed(400, seed + 1)
        mask = np.random.default_rng(seed + 2).random((1000, 3)) < 0.7
        fitted = fit(SCHEMA, train, mask, config_for(SCHEMA, 1000, "fast"))
        seen = np.random.default_rng(seed + 3).random((400, 3)) < 0.7
        seen[:, 1] = False
        truth.append(new["b"])
        draws.append(np.stack([table["b"] for table in fitted.draw(new, seen, 100)]))
    return np.concatenate(truth), np.concatenate(draws, axis=1)


def test_intervals_cover_what_they_say(drawn):
    truth, draws = drawn
    for level in (0.5, 0.9):
        low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        assert abs(((low < truth) & (truth < high)).mean() - level) < 0.08


def test_draws_are_as_skewed_as_the_errors(drawn):
    truth, draws = drawn
    middle = draws.mean(axis=0)
    third = lambda x: float((x**3).mean() / (x**2).mean() ** 1.5)  # noqa: E731
    assert third(truth - middle) > 1  # an exponential has 2
    assert third(draws - middle) > 0.7


# --- fitted to a table of predictions that is made up

MIXED = Schema([real("a"), real("b"), vector("v", 2)])
ONCE = {"gaussian": [False, False]}


def predictions(error: float, n: int = 4000, columns: int = 2, seed: int = 0) -> Predictions:
    """Of σ 1 whose errors are normal with this std."""
    rng = torch.Generator().manual_seed(seed)
    estimate, noise = (torch.randn(n, columns, generator=rng) for _ in range(2))
    one = torch.ones(n, columns)
    return Predictions(estimate, one, one, estimate + error * noise, one.bool())


def held_out(error: float, withheld: float = 1.0, trained: float = 1.0) -> HeldOutPredictions:
    def blocks(size: float, seed: int) -> dict[str, Predictions]:
        return {name: predictions(size, seed=seed) for name in ("gaussian", "vector2")}

    before = {"withheld": blocks(withheld, 1), "trained": blocks(trained, 2)}
    return HeldOutPredictions(**before, usual=blocks(error, 3), sparse=blocks(error, 4))


def inner_half(calibration: Calibration, name: str) -> float:
    """How far its quantiles at .25 and .75 are from each other, over that of a standard normal."""
    shape = (200, 2) if name == "gaussian" else (200, 1, 2)
    moments = Moments(torch.randn(shape), torch.ones(shape), torch.ones(shape))
    low, high = (calibration.quantile(name, range(shape[1]), moments, torch.full(shape, rank)) for rank in (0.25, 0.75))
    return float((high - low).mean() / 1.349)


@pytest.mark.parametrize("name", ["gaussian", "vector2"])
def test_a_distribution_is_as_wide_as_errors_are_and_wider_by_what_training_has_hidden(name):
    assert inner_half(Calibration(), name) == pytest.approx(1.0, abs=0.01)
    assert inner_half(Calibration.fit(MIXED, held_out(2.0), ONCE), name) == pytest.approx(2.0, rel=0.05)
    wider = Calibration.fit(MIXED, held_out(2.0, withheld=1.5, trained=1.0), ONCE)
    assert 2.2 < inner_half(wider, name) < 3.0  # a part of it is kept
    narrower = Calibration.fit(MIXED, held_out(2.0, withheld=0.5, trained=1.0), ONCE)
    assert inner_half(narrower, name) == pytest.approx(2.0, rel=0.05)  # by chance: withheld cells are no easier


def test_densities_have_the_width_of_errors_and_the_model_keeps_its_own():
    calibration = Calibration.fit(MIXED, held_out(2.0), ONCE)
    decoded = {
        "gaussian": Gaussian(torch.zeros(1, 5, 2), torch.zeros(1, 1, 2)),
        "vector2": Vector(Gaussian(torch.zeros(1, 5, 1, 2), torch.zeros(1, 1, 1, 2))),
    }
    for name, x in calibration.widened(decoded).items():
        torch.testing.assert_close(x.scale, torch.full_like(x.scale, 2.0), rtol=0.05, atol=0.0)
        assert (decoded[name].scale == 1).all()
    assert Calibration().widened(decoded) == decoded


def test_a_calibration_is_the_same_after_its_parts_are_put_together_again():
    calibration = Calibration.fit(MIXED, held_out(2.0, withheld=1.2), {"gaussian": [True, False]})
    assert calibration.residuals["gaussian"].point_mass.tolist() == [True, False]
    tensors, content = calibration.to_parts()
    again = Calibration.from_parts(MIXED, tensors, content)
    moments = Moments(torch.randn(50, 2), torch.rand(50, 2) + 0.1, torch.rand(50, 2))
    for name, shape in (("gaussian", (50, 2)), ("vector2", (50, 1, 2))):
        some = Moments(*(part.view(shape) for part in moments))
        rank = torch.rand(shape)
        one, other = (c.quantile(name, range(shape[1]), some, rank) for c in (calibration, again))
        assert torch.equal(one, other)


def test_columns_without_hidden_cells_are_left_as_they_are():
    nothing = predictions(2.0)._replace(cells=torch.zeros(4000, 2, dtype=torch.bool))
    blocks = {"gaussian": nothing, "vector2": nothing}
    calibration = Calibration.fit(MIXED, HeldOutPredictions(None, blocks, blocks, blocks, blocks), ONCE)
    for name in blocks:
        assert inner_half(calibration, name) == pytest.approx(1.0, abs=0.05)
