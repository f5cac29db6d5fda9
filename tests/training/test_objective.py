"""The bound against its theorem: on a linear-Gaussian model, exact log-likelihood minus bound is KL(q ‖ posterior)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch.nn import functional as F

from conftest import PLAIN
from vsae.data.batch import Batch
from vsae.data.remasking import remask, remask_weights
from vsae.data.schema import Schema, real
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.nets import MLP
from vsae.model.vsae import VSAE
from vsae.training.em import e_step, m_step
from vsae.training.objective import Elbo, elbo, loss

LIFT = 50.0  # a bias that keeps every ReLU open, so that a network is a linear map


def make_linear(net: MLP, weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Turn an MLP of depth 1 into x ↦ x W + b; its width must be at least n_in."""
    n_in = weight.shape[0]
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        net.first.weight[..., :n_in, :n_in] = torch.eye(n_in)
        net.first.bias.fill_(LIFT)
        net.last.weight[..., :n_in, :] = weight
        net.last.bias[:] = bias - LIFT * weight.sum(0)


class LinearGaussian:
    """x = W z + b + σ ε with M attributes of latent dimension L; masks independent of everything."""

    def __init__(self, m: int, latent: int, diagonal: bool = False) -> None:
        generator = torch.Generator().manual_seed(1)
        self.m, self.d = m, m * latent
        width = self.d + m
        config = VSAEConfig(
            members=1,
            latent_dim=latent,
            attributive=NetShape(8, 1),
            collective=NetShape(8, 1),
            mask_net=NetShape(width, 1),
            data_net=NetShape(width, 1),
            variance="column",
            features="plain",
            gaussian=False,
            start_scale=1.0,
        )
        self.model = VSAE(Schema([real(f"x{i}") for i in range(m)]), config).double()
        self.weight = torch.randn(self.d, m, generator=generator, dtype=torch.float64)
        if diagonal:
            self.weight = torch.diag(torch.rand(m, generator=generator, dtype=torch.float64) + 0.5)
        self.bias = torch.randn(m, generator=generator, dtype=torch.float64)
        self.log_scale = 0.3 * torch.randn(m, generator=generator, dtype=torch.float64)
        self.mask_logits = torch.randn(m, generator=generator, dtype=torch.float64)
        with_mask = torch.cat([self.weight, torch.zeros(m, m, dtype=torch.float64)])
        make_linear(self.model.data_network.net, with_mask, self.bias)
        make_linear(self.model.mask_network.net, torch.zeros(self.d, m, dtype=torch.float64), self.mask_logits)
        with torch.no_grad():
            self.model.data_network.heads["gaussian"].slow_log_scale[0, 0] = self.log_scale / 10

    def exact(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[float, np.ndarray, np.ndarray]:
        """log p(x_o, m), and the mean and covariance of p(z | x_o)."""
        w, s = self.weight.T[mask].numpy(), np.diag(np.exp(2 * self.log_scale[mask].numpy()))
        residual = (x - self.bias)[mask].numpy()
        log_mask = -float(F.binary_cross_entropy_with_logits(self.mask_logits, mask.double(), reduction="sum"))
        log_x = 0.0
        if mask.any():
            log_x = multivariate_normal(np.zeros(len(w)), w @ w.T + s).logpdf(residual)
        covariance = np.linalg.inv(np.eye(self.d) + w.T @ np.linalg.inv(s) @ w)
        return log_x + log_mask, covariance @ w.T @ np.linalg.inv(s) @ residual, covariance

    def bound(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[float, np.ndarray, np.ndarray]:
        """The three-term bound, its expectation over z exact: log p is quadratic, so 2d mirrored points suffice."""
        d = self.d
        points = np.sqrt(d) * torch.eye(d, dtype=torch.float64)
        noise = torch.cat([points, -points]).view(1, 2 * d, self.m, -1)
        batch = Batch({"gaussian": x.expand(1, 2 * d, -1)}, mask.expand(1, 2 * d, -1))
        terms = elbo(self.model, batch, noise=noise)
        q = self.model.propose(batch).selective
        assert not terms.x_unobserved.any()
        loc, scale = q.loc[0, 0].flatten(), q.log_scale[0, 0].exp().flatten()
        return float(terms.rows().total.detach().mean()), loc.detach().numpy(), scale.detach().numpy()


def gaussian_kl(loc, scale, mean, covariance) -> float:
    precision, delta, d = np.linalg.inv(covariance), mean - loc, len(loc)
    return 0.5 * (
        np.trace(precision @ np.diag(scale**2)) + delta @ precision @ delta - d
        + np.linalg.slogdet(covariance)[1] - 2 * np.log(scale).sum()
    )  # fmt: skip


@pytest.mark.parametrize("bits", ["111", "110", "010", "000"])
def test_gap_of_the_bound_is_the_kl_to_the_posterior(bits):
    toy = LinearGaussian(3, latent=2)
    mask = torch.tensor([bit == "1" for bit in bits])
    x = torch.randn(3, dtype=torch.float64)
    log_p, mean, covariance = toy.exact(x, mask)
    bound, loc, scale = toy.bound(x, mask)
    gap = log_p - bound
    assert gap > 0
    assert gap == pytest.approx(gaussian_kl(loc, scale, mean, covariance), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("bits", ["111", "101", "000"])
def test_gap_vanishes_for_a_diagonal_decoder_with_the_right_proposals(bits):
    toy = LinearGaussian(3, latent=1, diagonal=True)
    w, s2 = toy.weight.diagonal(), torch.exp(2 * toy.log_scale)
    with torch.no_grad():  # q_φ(z_i | x_i) = p(z_i | x_i); q_ψ = the prior
        for parameter in [*toy.model.attributive.parameters(), *toy.model.collective.parameters()]:
            parameter.zero_()
        gain = w / (w**2 + s2)
        toy.model.attributive.input.number_map.weight[0, :, 0, 0] = gain
        toy.model.attributive.input.number_map.bias[0, :, 0, 0] = LIFT - gain * toy.bias
        toy.model.attributive.last.weight[0, :, 0, 0] = 1.0
        toy.model.attributive.last.bias[0, :, 0, 0] = -LIFT
        toy.model.attributive.last.bias[0, :, 0, 1] = 0.5 * torch.log(s2 / (w**2 + s2))
    mask = torch.tensor([bit == "1" for bit in bits])
    x = torch.randn(3, dtype=torch.float64)
    assert toy.exact(x, mask)[0] == pytest.approx(toy.bound(x, mask)[0], abs=1e-6)


def hand_made(e_step_latents: str = "prior") -> VSAE:
    """x̂_1 = z_1, x̂_2 = z_2 + 10 z_1; attributive z = 3 exactly, collective z = 100 exactly."""
    config = VSAEConfig(
        members=1,
        latent_dim=1,
        attributive=NetShape(4, 1),
        collective=NetShape(4, 1),
        mask_net=NetShape(4, 1),
        data_net=NetShape(4, 1),
        variance="fixed",
        features="plain",
        gaussian=False,
        start_scale=1.0,
        e_step_latents=e_step_latents,
    )
    model = VSAE(Schema([real("x1"), real("x2")]), config)
    make_linear(
        model.data_network.net,
        torch.tensor([[1.0, 10.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
        torch.zeros(2),
    )
    with torch.no_grad():
        for proposal, value in ((model.attributive, 3.0), (model.collective, 100.0)):
            for parameter in proposal.parameters():
                parameter.zero_()
            loc, log_scale = proposal.last.bias.chunk(2, dim=-1)
            loc[:], log_scale[:] = value, -7.0
    return model


def test_e_step_takes_observed_latents_from_attributive_and_others_from_the_prior():
    batch = Batch({"gaussian": torch.zeros(1, 1, 2)}, torch.tensor([[[True, False]]]))
    mean, square = e_step(hand_made(), batch, samples=20_000)["gaussian"][0, 0].unbind(-1)
    assert mean[0] == pytest.approx(3.0, abs=0.01)  # z_1 from the attributive proposal
    assert mean[1] == pytest.approx(30.0, abs=0.05)  # z_2 from N(0, 1)
    assert square[1] - mean[1] ** 2 == pytest.approx(1.0, abs=0.1)


def test_e_step_from_the_collective_proposal_is_a_switch():
    batch = Batch({"gaussian": torch.zeros(1, 1, 2)}, torch.tensor([[[True, False]]]))
    mean = e_step(hand_made("collective"), batch, samples=100)["gaussian"][0, 0, :, 0]
    assert mean[1] == pytest.approx(130.0, abs=0.1)


def test_e_step_has_no_gradient_and_its_targets_only_count_where_unobserved(schema, batch, plain_config):
    model = VSAE(schema, plain_config)
    statistics = e_step(model, batch, samples=7)
    assert not any(value.requires_grad for value in statistics.values())
    with_targets, without = (seeded(model, batch, s) for s in (statistics, None))
    assert not without.x_unobserved.any()
    assert (with_targets.x_unobserved[batch.mask] == 0).all()
    assert (with_targets.x_unobserved[~batch.mask & uncertain(schema)] != 0).all()
    torch.testing.assert_close(with_targets.x_observed, without.x_observed)


def uncertain(schema) -> torch.Tensor:
    """All attributes but the one with a single level, whose log-likelihood is zero."""
    return torch.tensor([name != "single" for name in schema.names])


def seeded(model, batch, statistics=None) -> Elbo:
    torch.manual_seed(3)
    return elbo(model, batch, statistics=statistics)


def test_x_unobserved_equals_a_loop_over_the_decoded_samples():
    """The statistics of S targets give what S evaluations of the log-likelihood average to."""
    model = hand_made()
    batch = Batch({"gaussian": torch.zeros(1, 4, 2)}, torch.tensor([[[True, False]] * 4]))
    torch.manual_seed(0)
    statistics = e_step(model, batch, samples=5)
    unobserved = seeded(model, batch, statistics).x_unobserved

    torch.manual_seed(0)
    q, noise = model.propose(batch), torch.randn(1, 5, 4, 2, 1)
    torch.manual_seed(3)
    z = q.selective.rsample()
    decoded = model.decode(z, None).data["gaussian"]
    expected = torch.zeros(4)
    for sample in noise[0]:
        z_hat = torch.stack([q.attributive.loc[0, :, 0] + np.exp(-7) * sample[:, 0], sample[:, 1]], dim=1)
        x_hat = model.decode(z_hat[None], None).data["gaussian"].mean
        expected += decoded.log_prob(x_hat)[0, :, 1] / 5
    torch.testing.assert_close(unobserved[0, :, 1], expected, rtol=1e-4, atol=1e-3)


def test_remasking_hides_observed_cells_at_the_wished_rate():
    mask = torch.rand(1, 4000, 10) < 0.6
    visible = remask(mask, 0.2, 0.4)
    assert not (visible & ~mask).any()
    assert float((mask & ~visible).sum() / mask.sum()) == pytest.approx(0.3, abs=0.01)
    assert torch.equal(remask(mask, 0.0, 0.0), mask)


def test_what_is_rarely_missing_is_rarely_hidden():
    mask = torch.rand(1, 20_000, 3) >= torch.tensor([0.0, 0.1, 0.4])
    weight = remask_weights(mask[0])
    assert weight.tolist() == pytest.approx([0.1, 0.5, 1.0], abs=0.05)
    hidden = (mask & ~remask(mask, 0.2, 0.4, weight)).float().sum((0, 1)) / mask.float().sum((0, 1))
    assert hidden.tolist() == pytest.approx([0.03, 0.15, 0.3], abs=0.02)


def test_a_complete_table_is_hidden_alike():
    assert remask_weights(torch.ones(5, 2, dtype=torch.bool)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("rates", "weights"), [("as_missing", [0.1, 1.0]), ("alike", [1.0, 1.0])])
def test_a_model_hides_as_it_is_told(rates, weights):
    mask = torch.ones(10, 2, dtype=torch.bool)
    mask[:5, 1] = False
    model = VSAE(Schema([real("a"), real("b")]), VSAEConfig(remask_rates=rates, gaussian=False))
    model.fit_statistics(Batch({"gaussian": torch.randn(10, 2)}, mask))
    assert model.remask_weights.tolist() == pytest.approx(weights)
    assert model.select_members([1, 0]).remask_weights.tolist() == pytest.approx(weights)


def test_remasked_cells_are_scored_and_the_mask_head_answers_for_the_true_mask(schema, batch, plain_config):
    model = VSAE(schema, plain_config)
    visible = remask(batch.mask, 0.5, 0.5)
    terms = elbo(model, batch, visible)
    assert (terms.x_observed[batch.mask & ~visible & uncertain(schema)] != 0).all()
    assert (terms.x_observed[~batch.mask] == 0).all()
    torch.manual_seed(9)
    q = model.propose(batch.with_mask(visible)).selective
    logits = model.decode(q.rsample(), None).mask.logits
    torch.manual_seed(9)
    expected = -F.binary_cross_entropy_with_logits(logits, batch.mask.float(), reduction="none")
    torch.testing.assert_close(elbo(model, batch, visible).mask, expected)


def test_loss_is_minus_the_weighted_bound():
    terms = Elbo(*(torch.randn(2, 3, 4) for _ in range(4)))
    visible = torch.rand(2, 3, 4) < 0.5
    config = VSAEConfig.paper()
    torch.testing.assert_close(loss(terms, visible, config), -terms.total.sum(-1).mean(-1).sum())
    light = VSAEConfig(kl_visible=0.5, kl_hidden=0.25, mask_weight=0.5)
    kl = (terms.kl * (0.25 + 0.25 * visible)).sum(-1)
    bound = (terms.x_observed + terms.x_unobserved + 0.5 * terms.mask).sum(-1) - kl
    torch.testing.assert_close(loss(terms, visible, light), -bound.mean(-1).sum())


def test_m_step_climbs_the_bound(schema, batch):
    model = VSAE(schema, VSAEConfig(**PLAIN, kl_visible=1.0, kl_hidden=1.0, remask=(0.0, 0.0)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    bounds = []
    for _ in range(60):
        terms, value = m_step(model, batch, None)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        bounds.append(float(terms.mean().total.detach()))
    assert np.mean(bounds[-10:]) > np.mean(bounds[:10]) + 1
