"""GAIN: what the hint is for, who moves when, and what passes unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.baselines.base import learn
from vsae.baselines.gain import GAIN, hint
from vsae.data.batch import Batch
from vsae.data.schema import Schema, real
from vsae.fitting.baseline import fit_baseline
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.latent_model import Noise
from vsae.training.optimiser import AdamW
from vsae.training.step import Step

SCHEMA = Schema([real(name) for name in "abcd"])
CONFIG = VSAEConfig.paper(**GAIN.settings, data_net=NetShape(32, 2), collective=NetShape(32, 2), epochs=2)


def batch_of(rows: int, together: bool = False) -> Batch:
    """Numbers that depend on each other; `together`: b is missing just where a is."""
    torch.manual_seed(1)
    x = torch.randn(1, rows, 1) + 0.5 * torch.randn(1, rows, 4)
    mask = torch.rand(1, rows, 4) < 0.5
    if together:
        mask[..., 1] = mask[..., 0]
    return Batch({"gaussian": x}, mask)


def test_a_hint_is_the_mask_where_it_is_given_and_says_nothing_elsewhere():
    torch.manual_seed(0)
    mask = torch.rand(1, 5000, 4) < 0.3
    told, hinted = hint(mask)
    assert torch.equal(told[hinted], mask[hinted].float())
    assert (told[~hinted] == 0.5).all()
    assert 0.88 < hinted.float().mean() < 0.92
    assert abs(float(mask[hinted].float().mean() - mask[~hinted].float().mean())) < 0.03  # whoever is hinted


def test_told_everything_the_discriminator_has_nothing_to_learn_from():
    model = GAIN(SCHEMA, CONFIG)
    model.hint_rate = 1.0
    assert model.opponent_loss(batch_of(50)) == 0
    terms, _ = model.bound(batch_of(50), 0)
    assert not terms.mask.any()  # and the generator has nobody to fool


def trained_discriminator(rate: float, perfect: bool) -> tuple[GAIN, Batch]:
    """`perfect`: of a generator that fills in the truth, so that cells tell nothing of the mask."""
    torch.manual_seed(0)
    model, batch = GAIN(SCHEMA, CONFIG), batch_of(400, together=True)
    model.hint_rate = rate
    if perfect:
        model.filled = lambda visible, data: batch.values["gaussian"]
    optimiser = AdamW(model.discriminator.parameters(), 0.0)
    for _ in range(80):
        optimiser.step(optimiser.gradient(model.opponent_loss(batch)), 5e-3)
    return model, batch


@pytest.fixture(scope="module")
def told_nothing_of_b() -> dict[tuple[float, str], float]:
    """How often the discriminator of a perfect generator is right about b, by the hints it learned and gets."""
    right = {}
    for rate, gets in ((0.8, ("acd", "cd")), (0.0, ("",))):
        model, batch = trained_discriminator(rate, perfect=True)
        for shown in gets:
            hinted = torch.tensor([name in shown for name in "abcd"])
            with torch.no_grad():
                said = model.discriminate(batch.values["gaussian"], torch.where(hinted, batch.mask.float(), 0.5)) > 0
            right[rate, shown] = float((said == batch.mask)[..., 1].float().mean())
    return right


def test_a_hint_tells_of_cells_that_go_with_it(told_nothing_of_b):
    """b is missing just where a is: of b nothing is told, of a the truth."""
    assert told_nothing_of_b[0.8, "acd"] > 0.98
    assert told_nothing_of_b[0.8, "cd"] < 0.8  # they have nothing to do with b; of 400 rows some are remembered


def test_without_hints_nothing_tells_of_a_perfect_generator(told_nothing_of_b):
    assert told_nothing_of_b[0.0, ""] < 0.8


def test_hinted_cells_teach_nobody():
    """As in the paper: the discriminator would but learn to repeat the hint."""
    model, batch = GAIN(SCHEMA, CONFIG), batch_of(5)
    torch.manual_seed(3)
    model.opponent_loss(batch).backward()
    torch.manual_seed(3)
    model.noise(batch)  # the same random numbers as above
    _, hinted = hint(batch.mask, model.hint_rate)
    every = hinted.all(1)[0]
    assert 0 < every.sum() < 4
    assert torch.equal(model.discriminator.last.bias.grad[0, 0] == 0, every)


def test_observed_cells_reach_the_discriminator_unchanged_and_the_others_as_the_generator_said():
    model, batch = GAIN(SCHEMA, CONFIG), batch_of(50)
    data = model.said(batch, model.noise(batch))
    filled = model.filled(batch, data)
    assert torch.equal(filled[batch.mask], batch.values["gaussian"][batch.mask])
    assert torch.equal(filled[~batch.mask], data["gaussian"].mean[~batch.mask])


@pytest.mark.parametrize(("side", "other"), [("discriminator", "filler"), ("filler", "discriminator")])
def test_each_moves_by_its_own_loss_alone(side, other):
    model, batch = GAIN(SCHEMA, CONFIG), batch_of(50)
    step = Step(model, learn, CONFIG)
    step.rate.fill_(1e-3)
    before = {name: x.detach().clone() for name, x in model.named_parameters()}
    if side == "discriminator":
        step._move(step.opponent, model.opponent_loss(batch))
    else:
        step._move(step.optimiser, model.bound(batch, 0)[1])
    moved = {name.partition(".")[0] for name, x in model.named_parameters() if not torch.equal(x, before[name])}
    assert moved == {side}
    step(batch, 0, 1e-3)
    assert not any(torch.equal(x, before[name]) for name, x in model.named_parameters() if name.startswith(other))


def test_the_generator_comes_to_fool_a_discriminator_that_stands_still():
    torch.manual_seed(0)
    model, batch = trained_discriminator(0.5, perfect=False)
    optimiser = AdamW(model.filler.parameters(), 0.0)
    fooled = []
    for _ in range(60):
        terms, loss = model.bound(batch, 0)
        fooled.append(float(terms.mask.detach().sum()))
        optimiser.step(optimiser.gradient(loss), 5e-3)
    assert np.mean(fooled[-10:]) > np.mean(fooled[:10])


def test_draws_vary_with_the_noise_and_numbers_have_none_besides():
    torch.manual_seed(0)
    model, batch = GAIN(SCHEMA, CONFIG), batch_of(20)
    with torch.no_grad():
        gaussian = model.draws(batch, Noise(1, 6, 20)).data["gaussian"]
    each = gaussian.mean.unflatten(1, (6, 20))
    assert each.std(1)[~batch.mask].min() > 0
    assert gaussian.scale.max() < 1e-2


def test_members_learn_each_for_itself_and_fits_repeat():
    rng = np.random.default_rng(0)
    columns, mask = {n: rng.normal(size=80) for n in "abcd"}, rng.random((80, 4)) < 0.7
    one, again = (fit_baseline(GAIN, SCHEMA, columns, mask, CONFIG.replace(members=2)) for _ in range(2))
    assert np.array_equal(one.impute(columns, mask)["a"], again.impute(columns, mask)["a"])
    weight = one.model.filler.net.last.weight
    assert not torch.equal(weight[0], weight[1])


@pytest.mark.parametrize("kind", [GAIN])
def test_a_training_that_was_interrupted_goes_on_bit_for_bit(kind, tmp_path):
    from vsae.data.encoding import Encoding
    from vsae.training.loop import train

    rng = np.random.default_rng(0)
    columns, mask = {n: rng.normal(size=80) for n in "abcd"}, rng.random((80, 4)) < 0.7
    data = Encoding.fit(SCHEMA, columns, mask).encode(columns, mask)
    config = CONFIG.replace(epochs=None, steps=6, evaluate_every=2)

    class Stopped(Exception):
        pass

    def stop(progress):
        if progress.step == 4:
            raise Stopped

    def fresh():
        torch.manual_seed(0)
        return kind(SCHEMA, config)

    whole, parts = fresh(), fresh()
    train(whole, data, learn=learn, seed=1)
    with pytest.raises(Stopped):
        train(parts, data, learn=learn, seed=1, callback=stop, checkpoint_path=tmp_path / "state")
    again = fresh()
    train(again, data, learn=learn, seed=1, checkpoint_path=tmp_path / "state")
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
