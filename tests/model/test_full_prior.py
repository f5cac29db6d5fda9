"""The mixture with full covariances against scipy, and what it must bring back of what it was fitted to."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from vsae.model.priors import FullPrior


def clouds(n: int, seed: int = 0) -> torch.Tensor:
    """Two clouds that lean in opposite directions; (1, n, 2, 2), the first latent depending on the second."""
    rng = np.random.default_rng(seed)
    side = rng.random(n) < 0.3
    z = rng.normal(size=(n, 4))
    z[:, 2] = np.where(side, z[:, 0], -z[:, 0]) + 0.1 * z[:, 2]
    z[:, 1] = np.where(side, 6.0, -6.0) + 0.5 * z[:, 1]
    return torch.tensor(z, dtype=torch.float32).view(1, n, 2, 2)


def narrow(z: torch.Tensor) -> torch.Tensor:
    return torch.full_like(z, -6.0)


def test_until_fitted_it_is_standard():
    prior = FullPrior(2, 3, 2)
    z = torch.randn(2, 50, 3, 2)
    expected = stats.norm.logpdf(z.numpy().astype(float)).sum(axis=(2, 3))
    np.testing.assert_allclose(prior.log_prob(z), expected, rtol=1e-5)
    drawn = prior.sample(20_000)
    assert drawn.shape == (2, 20_000, 3, 2)
    assert abs(float(drawn.std()) - 1) < 0.02


def test_each_cloud_keeps_its_form():
    prior = FullPrior(1, 2, 2)
    z = clouds(3000)
    prior.fit(z, narrow(z))
    drawn = prior.sample(5000)[0].flatten(1).numpy()
    side = drawn[:, 1] > 0
    assert abs(side.mean() - 0.3) < 0.04
    assert np.corrcoef(drawn[side, 0], drawn[side, 2])[0, 1] > 0.97
    assert np.corrcoef(drawn[~side, 0], drawn[~side, 2])[0, 1] < -0.97


def test_its_density_is_scipys():
    prior = FullPrior(1, 2, 2)
    z = clouds(500)
    prior.fit(z, narrow(z))
    rows = clouds(20, seed=1)
    total = 0.0
    for w, loc, root in zip(prior.weight[0], prior.loc[0], prior.root[0], strict=True):
        if w > 0:
            covariance = (root @ root.T).double().numpy()
            total = total + float(w) * stats.multivariate_normal(loc.numpy(), covariance).pdf(
                rows[0].flatten(1).numpy()
            )
    np.testing.assert_allclose(prior.log_prob(rows)[0], np.log(total), rtol=1e-3)


def test_few_rows_have_one_component_and_are_fitted_all_the_same():
    prior = FullPrior(1, 10, 3)  # more directions than rows
    z = torch.randn(1, 12, 10, 3)
    prior.fit(z, narrow(z))
    assert int((prior.weight > 0).sum()) == 1
    assert torch.isfinite(prior.sample(5)).all()


def test_members_have_mixtures_of_their_own():
    prior = FullPrior(2, 2, 2)
    z = torch.cat([clouds(400), 3 + 0.1 * torch.randn(1, 400, 2, 2)])
    prior.fit(z, narrow(z))
    first, second = prior.sample(500)
    assert float(first.std()) > 1
    assert abs(float(second.mean()) - 3) < 0.1
    assert float(second.std()) < 0.3


def test_given_one_latent_the_other_follows_it_in_its_own_cloud():
    prior = FullPrior(1, 2, 2)
    z = clouds(3000)
    prior.fit(z, narrow(z))
    rows = clouds(2000, seed=1)[0]  # (2000, 2, 2): what is given is the first latent, (z0, z1)
    drawn = prior.given_others(rows, [1], 0, torch.rand(2000), torch.randn(2000, 2))
    assert drawn.shape == (2000, 1, 2)
    side = rows[:, 0, 1] > 0
    expected = torch.where(side, rows[:, 0, 0], -rows[:, 0, 0])
    assert float((drawn[:, 0, 0] - expected).std()) < 0.3  # the other cloud would be off by twice z0
    assert abs(float(drawn[:, 0, 1].std()) - 1) < 0.05


def test_one_component_has_the_conditional_of_a_gaussian():
    prior = FullPrior(1, 2, 1)
    prior.root[0, 0] = torch.tensor([[2.0, 0.0], [1.0, 1.0]])  # variances 4 and 2, covariance 2
    prior.loc[0, 0] = torch.tensor([1.0, -1.0])
    rows = torch.full((20_000, 2, 1), 3.0)
    for width in (1.0, 0.5):
        drawn = prior.given_others(rows, [1], 0, torch.rand(20_000), width * torch.randn(20_000, 1))
        assert abs(float(drawn.mean()) - (-1 + 2 / 4 * (3 - 1))) < 0.03
        assert abs(float(drawn.std()) - width * 1.0) < 0.03  # 2 - 2²/4


def test_given_nothing_it_is_the_prior():
    prior = FullPrior(1, 2, 2)
    z = clouds(3000)
    prior.fit(z, narrow(z))
    drawn = prior.given_others(torch.zeros(4000, 2, 2), [0, 1], 0, torch.rand(4000), torch.randn(4000, 4))
    assert abs(float((drawn[:, 0, 1] > 0).float().mean()) - 0.3) < 0.04
