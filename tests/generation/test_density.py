"""`score_samples` is near the log-likelihood of what is seen, in the units of the table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vsae.data.schema import Schema, real
from vsae.fitting.fit import fit
from vsae.fitting.presets import config_for

SCHEMA = Schema([real("a"), real("b"), real("c")])
COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 25.0]])


def gaussian(n: int, seed: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).multivariate_normal(np.zeros(3), COVARIANCE, size=n)
    return dict(zip("abc", x.T, strict=True))


@pytest.fixture(scope="module")
def fitted():
    mask = np.random.default_rng(1).random((1500, 3)) < 0.8
    return fit(SCHEMA, gaussian(1500, 0), mask, config_for(SCHEMA, 1500, "fast", mask_modelling=False))


def test_it_is_near_the_truth_in_natural_units(fitted):
    new = gaussian(400, 2)
    found = fitted.score_samples(new, np.ones((400, 3), dtype=bool))
    truth = stats.multivariate_normal(np.zeros(3), COVARIANCE).logpdf(np.stack(list(new.values()), axis=1))
    assert -0.5 < (found - truth).mean() < 0.1  # below it, but for chance
    assert stats.spearmanr(found, truth).statistic > 0.8


def test_rows_against_the_grain_are_unlikely(fitted):
    new = gaussian(300, 3)
    odd = {**new, "b": -new["b"]}
    everything = np.ones((300, 3), dtype=bool)
    assert (fitted.score_samples(odd, everything) < fitted.score_samples(new, everything)).mean() > 0.75


def test_what_is_not_observed_is_not_read(fitted):
    new = gaussian(20, 4)
    mask = np.ones((20, 3), dtype=bool)
    mask[:, 1] = False
    other = {**new, "b": np.full(20, np.nan)}
    np.testing.assert_array_equal(fitted.score_samples(new, mask), fitted.score_samples(other, mask))


def test_masks_count_when_they_are_modelled():
    columns = gaussian(600, 5)
    mask = np.ones((600, 3), dtype=bool)
    mask[:, 2] = np.random.default_rng(6).random(600) < 0.5
    fitted = fit(SCHEMA, columns, mask, config_for(SCHEMA, 600, "fast"))
    some = {name: x[:100] for name, x in columns.items()}
    often, never = np.tile([True, True, False], (100, 1)), np.tile([False, True, False], (100, 1))
    alone = stats.norm(0, 1).logpdf(some["b"])
    assert (fitted.score_samples(some, never) - alone).mean() < -3  # a never was missing
    pair = stats.multivariate_normal([0, 0], COVARIANCE[:2, :2]).logpdf(np.stack([some["a"], some["b"]], axis=1))
    assert (fitted.score_samples(some, often) - pair).mean() == pytest.approx(np.log(0.5), abs=0.5)
