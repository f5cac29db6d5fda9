"""TabCSDI: its sampler against a Gaussian's exact denoiser, and what it learns against a Gaussian's conditional."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.baselines import tabcsdi
from vsae.baselines.tabcsdi import LEAST, MOST, TabCSDI
from vsae.data.batch import Batch
from vsae.data.schema import Schema, real
from vsae.fitting.baseline import fit_baseline
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.latent_model import Noise

MEAN, COVARIANCE = np.array([1.0, -2.0, 0.0]), np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.3], [0.5, 0.3, 1.0]])
SCHEMA = Schema([real(name) for name in "abc"])
CONFIG = VSAEConfig.paper(**TabCSDI.settings, data_net=NetShape(64, 2))


def conditional(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of b and c given a: means (n, 2), and the covariance."""
    mean = MEAN[1:] + (a[:, None] - MEAN[0]) * COVARIANCE[0, 1:]
    return mean, COVARIANCE[1:, 1:] - np.outer(COVARIANCE[0, 1:], COVARIANCE[0, 1:])


def given_a(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    columns = {"a": np.random.default_rng(5).normal(1.0, 1.0, n), "b": np.zeros(n), "c": np.zeros(n)}
    return columns, np.tile([True, False, False], (n, 1))


def test_the_sampler_takes_an_exact_denoiser_to_the_exact_conditional(monkeypatch):
    """D(x; σ) = μ + S (S + σ²)⁻¹ (x - μ): draws are N(μ, S), to 2 % of the standard deviations."""
    torch.manual_seed(0)
    model, (columns, _) = TabCSDI(SCHEMA, CONFIG), given_a(20)
    mean, covariance = (torch.tensor(x, dtype=torch.float32) for x in conditional(columns["a"]))

    def exact(noisy, sigma, known, read, targets):
        gain = covariance @ torch.linalg.inv(covariance + float(sigma) ** 2 * torch.eye(2))
        centre = mean.repeat(noisy.shape[1] // 20, 1)
        return torch.cat([noisy[..., :1], centre + (noisy[..., 1:] - centre) @ gain.T], dim=-1)

    monkeypatch.setattr(model, "denoise", exact)
    batch = Batch({"gaussian": torch.zeros(1, 20, 3)}, torch.tensor([True, False, False]).expand(1, 20, 3))
    drawn = model.draws(batch, Noise(1, 5000, 20)).data["gaussian"].mean.unflatten(1, (5000, 20))[0, ..., 1:]
    assert (drawn.mean(0) - mean).abs().max() < 0.05  # five standard errors
    spread = torch.cov((drawn - drawn.mean(0)).flatten(0, 1).T)
    torch.testing.assert_close(spread.diag().sqrt(), covariance.diag().sqrt(), rtol=0.02, atol=0)
    assert abs(spread[0, 1] - covariance[0, 1]) < 0.02


def test_matches_the_conditional_mean_and_variance_of_a_gaussian():
    """Learned from rows a fifth of whose cells are missing: means to .1, variances to 25 %, of cells of variance 1."""
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(MEAN, COVARIANCE, size=2000)
    mask = rng.random(x.shape) < 0.8
    config = CONFIG.replace(
        epochs=None, steps=900, batch_size=128, learning_rate=2e-3, schedule="cosine", evaluate_every=300
    )
    fitted = fit_baseline(TabCSDI, SCHEMA, dict(zip("abc", x.T, strict=True)), mask, config)
    columns, shown = given_a(100)
    draws = np.stack([np.stack([table["b"], table["c"]], axis=1) for table in fitted.draw(columns, shown, 200)])
    mean, covariance = conditional(columns["a"])
    assert np.abs(draws.mean(axis=0) - mean).mean() < 0.1
    spread = np.cov((draws - draws.mean(axis=0)).reshape(-1, 2).T)
    np.testing.assert_allclose(np.diag(spread), np.diag(covariance), rtol=0.25)
    filled = fitted.impute(columns, shown)
    assert np.abs(np.stack([filled["b"], filled["c"]], axis=1) - mean).mean() < 0.1


def test_the_largest_noise_hides_all_and_the_least_nothing():
    """D at the largest σ gives the mean of missing cells; at the least, x all but comes through by itself."""
    model = TabCSDI(SCHEMA, CONFIG)
    x, nothing = torch.randn(1, 50, 3), torch.zeros(1, 50, 3, dtype=torch.bool)
    with torch.no_grad():
        through = model.denoise(x, torch.tensor(LEAST), torch.zeros_like(x), nothing, ~nothing)
        hidden = [
            model.denoise(MOST * noise, torch.tensor(MOST), torch.zeros_like(x), nothing, nothing)
            for noise in (x, torch.zeros_like(x))
        ]
    assert (through - x).abs().max() < 5 * LEAST
    assert (hidden[0] - hidden[1]).abs().max() <= x.abs().max() / MOST + 1e-6


def test_what_is_neither_shown_nor_asked_for_is_not_read():
    model = TabCSDI(SCHEMA, CONFIG)
    read, targets = (torch.tensor(x).expand(1, 9, 3) for x in ([True, False, False], [False, True, False]))
    noisy, known = torch.randn(1, 9, 3), torch.randn(1, 9, 3) * read
    other = torch.where(targets, noisy, noisy + 5.0)
    with torch.no_grad():
        one, again = (model.denoise(x, torch.tensor(1.0), known, read, targets)[..., 1] for x in (noisy, other))
    assert torch.equal(one, again)


def test_copies_of_a_row_share_the_range_of_noise():
    model = TabCSDI(SCHEMA, CONFIG)
    sigma = model._noise_sizes(500).log().unflatten(1, (tabcsdi._COPIES, -1))[0, ..., 0]
    edges = torch.linspace(np.log(LEAST), np.log(MOST), tabcsdi._COPIES + 1)
    assert ((sigma >= edges[:-1, None] - 1e-5) & (sigma <= edges[1:, None] + 1e-5)).all()
    assert (sigma.mean(1) - (edges[1:] + edges[:-1]) / 2).abs().max() < 0.15


def test_draws_vary_and_rows_are_generated():
    model, batch = TabCSDI(SCHEMA, CONFIG), Batch({"gaussian": torch.zeros(1, 8, 3)}, torch.zeros(1, 8, 3) > 0)
    with torch.no_grad():
        each = model.draws(batch, Noise(1, 4, 8)).data["gaussian"].mean.unflatten(1, (4, 8))
        made = model.generate(6)["gaussian"].mean
    assert each.std(1).min() > 0
    assert made.shape == (1, 6, 3)
    with pytest.raises(ValueError, match="leave weighted out"):
        model.draws(batch, Noise(1, 4, 8), weighted=True)
