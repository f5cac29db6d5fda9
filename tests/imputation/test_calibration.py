"""Draws of numbers are as wide, and shaped, as errors on cells that the model was not shown."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.schema import Schema, real
from vsae.fitting.fit import fit
from vsae.fitting.presets import config_for

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
