"""MisGAN: masks and complete rows that look right through each other, and rows filled as those are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.baselines.base import learn
from vsae.baselines.misgan import MisGAN, critic_loss
from vsae.data.batch import Batch
from vsae.data.schema import Schema, real
from vsae.fitting.baseline import fit_baseline
from vsae.model.config import NetShape, VSAEConfig
from vsae.training.optimiser import AdamW
from vsae.training.step import Step

NAMES = "abcde"
SCHEMA = Schema([real(name) for name in NAMES])
NET = NetShape(32, 2)
CONFIG = VSAEConfig.paper(**MisGAN.settings, latent_dim=8, data_net=NET, collective=NET, mask_net=NET)


def rows_with_a_pattern(n: int = 2000) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated numbers; a and b are missing together, d just where c is not, e seldom."""
    torch.manual_seed(0)
    x = 0.9 * torch.randn(n, 1) + 0.45 * torch.randn(n, 5)
    mask = torch.rand(n, 5) < torch.tensor([0.7, 0.0, 0.5, 0.0, 0.9])
    mask[:, 1], mask[:, 3] = mask[:, 0], ~mask[:, 2]
    return x, mask


def assert_has_the_pattern(made: torch.Tensor, mask: torch.Tensor) -> None:
    rate = (1 - made.float().mean(0)) - (1 - mask.float().mean(0))
    assert rate.abs().max() < 0.12
    assert rate.abs().mean() < 0.06
    assert (made[:, 0] == made[:, 1]).float().mean() > 0.9
    assert (made[:, 2] != made[:, 3]).float().mean() > 0.9
    assert abs(torch.corrcoef(made.float().T)[0, 2]) < 0.3


def test_masks_have_the_missing_rate_and_the_pattern_of_the_data():
    """The game of masks alone, as the whole takes three times as long."""
    _, mask = rows_with_a_pattern()
    torch.manual_seed(1)
    model = MisGAN(SCHEMA, CONFIG)
    assert (model.generate_masks(1000)[0].float().mean(0) - mask.float().mean(0)).abs().max() > 0.3  # not by itself
    critic, generator = (AdamW(part.parameters(), 0.0) for part in (model.critics.masks, model.mask_generator))
    for _ in range(400):
        real = mask[torch.randint(len(mask), (1, 128))].float()
        for _ in range(model.opponent_moves):
            made = model._soft_masks(128).detach()
            critic.step(critic.gradient(critic_loss(model.critics.masks, real, made)), 1e-3)
        generator.step(generator.gradient(-model.critics.masks(model._soft_masks(128)).mean()), 1e-3)
    assert_has_the_pattern(model.generate_masks(4000)[0], mask)


@pytest.mark.slow
def test_all_games_together_learn_masks_complete_rows_and_the_cells_that_are_missing():
    x, mask = rows_with_a_pattern()
    torch.manual_seed(1)
    model = MisGAN(SCHEMA, CONFIG)
    step = Step(model, learn, CONFIG)
    for _ in range(1200):
        rows = torch.randint(len(x), (1, 128))
        step(Batch({"gaussian": x[rows]}, mask[rows]), 0, 1e-3)
    with torch.no_grad():
        assert_has_the_pattern(model.generate_masks(4000)[0], mask)
        made = model.generate(4000)["gaussian"].mean[0]
        assert (made.std(0) - x.std(0)).abs().max() < 0.3
        assert abs(torch.corrcoef(made.T)[2, 3] - torch.corrcoef(x.T)[2, 3]) < 0.2  # which are never seen together
        batch = Batch({"gaussian": x[None]}, mask[None])
        filled = model.reconstruct(batch)["gaussian"].mean[0]
        error = ((filled - x)[~mask] ** 2).mean().sqrt()
    assert error < 0.75  # the mean's is 1


def test_the_critics_slope_is_held_at_one():
    """D(x) = s·x between two points: D(made) - D(real) = s, and the penalty pulls s to 1."""

    class Line(torch.nn.Module):
        def __init__(self, slope: float) -> None:
            super().__init__()
            self.slope = torch.tensor(slope)

        def forward(self, x):
            return self.slope * x

    real, made = torch.zeros(1, 7, 1), torch.ones(1, 7, 1)
    for slope in (-1.0, 0.0, 2.0):
        expected = slope + 10 * (abs(slope) - 1) ** 2
        assert critic_loss(Line(slope), real, made).item() == pytest.approx(expected, abs=1e-4)


def test_who_learns_from_whom():
    """G_m and G_i learn from their critics, G_x from two; no generator moves a critic, and no critic a generator."""
    model = MisGAN(SCHEMA, CONFIG)
    x, mask = rows_with_a_pattern(30)
    batch = Batch({"gaussian": x[None]}, mask[None])
    step = Step(model, learn, CONFIG)
    step.rate.fill_(1e-3)
    critics, others = (
        {n: p.detach().clone() for n, p in model.named_parameters() if n.startswith("critics.") is critic}
        for critic in (True, False)
    )
    weights = dict(model.named_parameters())
    step._move(step.opponent, model.opponent_loss(batch))
    assert all(torch.equal(weights[n], x) for n, x in others.items())
    assert {n.split(".")[1] for n, x in critics.items() if not torch.equal(weights[n], x)} == {
        "masks",
        "rows",
        "filled",
    }
    critics = {n: weights[n].detach().clone() for n in critics}
    step._move(step.optimiser, model.bound(batch, 0)[1])
    assert all(torch.equal(weights[n], x) for n, x in critics.items())
    moved = {n.split(".")[0] for n, x in others.items() if not torch.equal(weights[n], x)}
    assert moved == {"mask_generator", "row_generator", "filler"}


def test_draws_vary_and_observed_cells_stay():
    x, mask = (part.numpy() for part in rows_with_a_pattern(80))
    columns = {name: x[:, i].astype(float) for i, name in enumerate(NAMES)}
    fitted = fit_baseline(MisGAN, SCHEMA, columns, mask, CONFIG.replace(epochs=2))
    one, other = fitted.draw(columns, mask, 2)
    assert np.abs(one["c"] - other["c"])[~mask[:, 2]].min() > 0
    assert np.array_equal(one["c"][mask[:, 2]], columns["c"][mask[:, 2]])
