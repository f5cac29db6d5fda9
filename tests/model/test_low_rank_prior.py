"""p(z): what generated rows begin with."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from vsae.model.priors import LowRankPrior


def test_fitted_prior_matches_mean_and_covariance():
    torch.manual_seed(0)
    mixing = torch.randn(6, 6)
    z = (torch.randn(2, 4000, 6) @ mixing + 2.0).unflatten(-1, (3, 2))
    prior = LowRankPrior(2, 3, 2)
    prior.fit(z, torch.full_like(z, -1.0))
    drawn = prior.sample(20_000).flatten(-2)
    for e in range(2):
        torch.testing.assert_close(drawn[e].mean(0), z[e].flatten(-2).mean(0), atol=0.15, rtol=0.05)
        expected = z[e].flatten(-2).T.cov() + np.exp(-2) * torch.eye(6)
        torch.testing.assert_close(drawn[e].T.cov(), expected, atol=0.4, rtol=0.1)


def test_before_it_is_fitted_it_is_standard_normal():
    prior = LowRankPrior(2, 3, 2)
    z = torch.randn(2, 50, 3, 2)
    expected = stats.norm.logpdf(z.flatten(-2).numpy()).sum(-1)
    np.testing.assert_allclose(prior.log_prob(z).numpy(), expected, rtol=1e-6)
    drawn = prior.sample(20_000).flatten(-2)
    torch.testing.assert_close(drawn.mean(1), torch.zeros(2, 6), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.std(1), torch.ones(2, 6), atol=0.05, rtol=0)


def test_two_clusters_stay_two():
    torch.manual_seed(0)
    side = torch.randint(2, (1, 3000, 1)) * 8.0 - 4.0
    z = (side + torch.randn(1, 3000, 4)).unflatten(-1, (2, 2))
    prior = LowRankPrior(1, 2, 2)
    prior.fit(z, torch.full_like(z, -3.0))
    drawn = prior.sample(5000).flatten(-2)[0]
    assert (drawn.mean(-1).abs() < 1.5).float().mean() < 0.02  # one Gaussian would put a third there
    assert abs(float((drawn.mean(-1) > 0).float().mean()) - float((side > 0).float().mean())) < 0.05


def test_log_prob_is_that_of_the_mixture(monkeypatch):
    torch.manual_seed(0)
    side = torch.randint(2, (1, 1000, 1)) * 6.0
    z = (side + torch.randn(1, 1000, 6) @ torch.randn(6, 6)).unflatten(-1, (3, 2))
    monkeypatch.setattr("vsae.model.priors._RANK", 4)
    prior = LowRankPrior(1, 3, 2)
    prior.fit(z, torch.full_like(z, -2.0))
    covariance = prior.factor[0].T @ prior.factor[0] + torch.diag(torch.exp(2 * prior.log_scale[0, 0]))
    parts = [
        np.log(w) + stats.multivariate_normal(loc, covariance.numpy()).logpdf(z[0].flatten(-2).numpy())
        for w, loc in zip(prior.weight[0].tolist(), prior.loc[0].numpy(), strict=True)
        if w > 0
    ]
    np.testing.assert_allclose(prior.log_prob(z)[0].numpy(), np.logaddexp.reduce(parts), rtol=1e-4)


def test_a_few_rows_get_one_component():
    z = torch.randn(1, 60, 2, 2)
    prior = LowRankPrior(1, 2, 2)
    prior.fit(z, torch.full_like(z, -2.0))
    assert (prior.weight > 0).sum() == 1
