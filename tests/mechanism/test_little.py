"""Little's test: p is uniform where cells are missing completely at random, and small where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.mechanism.little import little_test


def table(seed: int, n: int = 400) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + 0.8 * rng.normal(size=(n, 4)), rng


def test_p_is_uniform_if_cells_are_missing_completely_at_random() -> None:
    found = []
    for seed in range(40):
        x, rng = table(seed)
        found.append(little_test(x, rng.random(x.shape) > 0.2).p)
    assert np.mean(np.array(found) < 0.05) <= 0.15
    assert 0.3 < np.median(found) < 0.7


def test_p_is_small_if_they_depend_on_another_column() -> None:
    for seed in range(10):
        x, rng = table(seed)
        seen = rng.random(x.shape) > 0.1
        seen[:, 1] = rng.random(len(x)) > 1 / (1 + np.exp(1 - 1.5 * x[:, 0]))
        seen[:, 0] = True
        assert little_test(x, seen).p < 1e-6


def test_two_columns_by_hand() -> None:
    """One always seen, one sometimes: μ and Σ of the first are those of all rows, and d² is that of its two means."""
    x, rng = table(3)
    x, late = x[:, :2], rng.random(len(x)) < 0.4
    found = little_test(x, np.stack([np.ones(len(x), bool), ~late], axis=1))
    a, n = x[:, 0], len(x)
    z = (a - a.mean()) / a.std(ddof=1)
    means = sum(part.sum() * z[part].mean() ** 2 for part in (late, ~late))
    assert found.df == 1
    assert found.patterns == 2
    # beside it, the second column's mean given the first is what the rows that show it say: nothing is added
    assert found.statistic == pytest.approx(means, rel=0.02), n


def test_nothing_to_test() -> None:
    x, _ = table(0)
    assert little_test(x, np.ones(x.shape, bool)) is None
    assert little_test(x[:, :1], np.ones((len(x), 1), bool)) is None
    assert little_test(x, np.zeros(x.shape, bool)) is None
