"""The loop: resuming, stopping, diverging, and members that train together as they would alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import PLAIN, every_kind, rows_of
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, categorical, real
from vsae.fitting.fit import fit
from vsae.fitting.steps import divide, withhold
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.vsae import VSAE
from vsae.training import loop as training_module
from vsae.training.em import learn
from vsae.training.history import OtherTraining, TrainingDiverged
from vsae.training.loop import train
from vsae.training.objective import elbo
from vsae.training.optimiser import AdamW
from vsae.training.step import clip_members

SMALL = VSAEConfig(**PLAIN, steps=40, evaluate_every=10, batch_size=32, learning_rate=4e-3, refit=0.2)


class Killed(Exception):
    pass


def states_equal(a, b) -> bool:
    return all(torch.equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


@pytest.mark.parametrize(("killed_at", "first"), [(27, 21), (45, 41)])  # in the training, in the refit
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("changes", [{}, {"e_step_samples": 3, "e_step_warmup": 0}, {"fill": "noise"}])
def test_a_killed_fit_resumes_bit_identically(tmp_path, members, changes, killed_at, first):
    schema = every_kind()
    columns, mask = rows_of(schema, 100)
    config = SMALL.replace(members=members, collective=NetShape(16, 1, True), **changes)
    whole = fit(schema, columns, mask, config, seed=4)

    def die(progress):
        if progress.step == killed_at:
            raise Killed

    path = tmp_path / "state"
    with pytest.raises(Killed):
        fit(schema, columns, mask, config, seed=4, callback=die, checkpoint_path=path)
    seen = []
    resumed = fit(schema, columns, mask, config, seed=4, checkpoint_path=path, callback=lambda p: seen.append(p.step))
    assert seen == list(range(first, 49))  # 40 steps, and 8 of the refit
    assert not list(tmp_path.iterdir())
    assert states_equal(whole.model, resumed.model)
    strip = lambda records: [{k: v for k, v in r.items() if k != "seconds"} for r in records]  # noqa: E731
    assert strip(whole.history.records) == strip(resumed.history.records)
    assert whole.history.best_step == resumed.history.best_step


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    schema = every_kind()
    columns, mask = rows_of(schema, 100)
    path = tmp_path / "state"

    def die(progress):
        if progress.step == 15:
            raise Killed

    with pytest.raises(Killed):
        fit(schema, columns, mask, SMALL, callback=die, checkpoint_path=path)
    changed = columns | {"height": columns["height"] + 1 * (np.arange(100) == 7)}
    larger = Schema([categorical("colour", 5), *list(schema)[1:]])
    for other in (
        lambda: fit(schema, columns, mask, SMALL.replace(steps=50), checkpoint_path=path),
        lambda: fit(schema, columns, mask, SMALL, seed=1, checkpoint_path=path),
        lambda: fit(schema, changed, mask, SMALL, checkpoint_path=path),
        lambda: fit(larger, columns, mask, SMALL, checkpoint_path=path),
    ):
        with pytest.raises(OtherTraining, match="another training"):
            other()


def test_same_seed_same_model_and_the_callers_randomness_is_untouched():
    schema = every_kind()
    columns, mask = rows_of(schema, 60)
    before = torch.get_rng_state()
    one, two = (fit(schema, columns, mask, SMALL, seed=1) for _ in range(2))
    assert states_equal(one.model, two.model)
    assert torch.equal(before, torch.get_rng_state())
    assert not states_equal(one.model, fit(schema, columns, mask, SMALL, seed=2).model)


def test_history_holds_all_four_terms_per_member():
    schema = every_kind()
    columns, mask = rows_of(schema, 100)
    config = SMALL.replace(members=2, e_step_samples=2, e_step_warmup=0)
    history = fit(schema, columns, mask, config).history
    assert [record["step"] for record in history.records] == [10, 20, 30, 40]
    for record in history.records:
        for term in ("x_observed", "x_unobserved", "mask", "kl", "score"):
            assert len(record[term]) == 2
            assert np.isfinite(record[term]).all()
    first, last = (record["x_observed"][0] + record["x_unobserved"][0] for record in history.records[::3])
    assert first < last


def test_early_stopping_keeps_the_best_weights():
    schema = Schema([real("a"), real("b")])
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=80), "b": rng.normal(size=80)}  # nothing to learn: scores only get worse
    mask = rng.random((80, 2)) < 0.9
    config = VSAEConfig(steps=2000, evaluate_every=10, patience=3, learning_rate=0.01, schedule="constant")
    fitted = fit(schema, columns, mask, config)
    history = fitted.history
    assert "no better score" in history.stopped
    assert history.records[-1]["step"] < 2000
    scores = [record["score"][0] for record in history.records]
    assert history.best_step[0] == history.records[int(np.argmin(scores))]["step"]


def divided(schema, data, config):
    withheld, rows = withhold(schema, data, config)
    return divide(schema, replace(data, withheld=withheld), rows, config)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_weights_are_those_of_the_last_evaluation_close_to_the_best(tolerance):
    schema = every_kind()
    columns, mask = rows_of(schema, 100)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    torch.manual_seed(0)
    training, held_out = divided(schema, data, SMALL)
    model = VSAE(schema, SMALL.replace(steps=200, learning_rate=0.02, tolerance=tolerance))
    scores = [record["score"][0] for record in train(model, training, held_out, learn=learn).records]
    close = [score for i, score in enumerate(scores) if score <= min(scores[: i + 1]) * (1 + tolerance)]
    assert held_out.score(model)[0] == pytest.approx(close[-1], abs=1e-9)
    assert tolerance or close[-1] == min(scores)
    assert not model.training


def test_a_member_trains_as_it_would_alone():
    """Same weights, same rows, same noise: one step of an ensemble is one step of each of its members."""
    schema = every_kind()
    columns, mask = rows_of(schema, 30)
    batch = Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()
    config = VSAEConfig(**PLAIN).replace(members=3, variance="cell")
    ensemble = VSAE(schema, config)
    noise = torch.randn(3, 30, len(schema), 3)

    def gradients(model, noise):
        optimiser = AdamW(model.parameters(), 0.0, model.config.members)
        gradient = optimiser.gradient(-100 * elbo(model, batch, noise=noise).total.sum(-1).mean(-1).sum())
        return gradient, clip_members(gradient, 5.0)

    together, norms = gradients(ensemble, noise)
    for e in range(3):
        alone, norm = gradients(ensemble.select_members([e]), noise[e : e + 1])
        torch.testing.assert_close(norms[e : e + 1], norm, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(together[e : e + 1], alone, rtol=1e-3, atol=1e-4)


def run_of(config, rows):
    schema = every_kind()
    columns, mask = rows_of(schema, rows)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    model = VSAE(schema, config)
    model.fit_statistics(data)
    return training_module._Run(model, data, None, learn, config, 0, None)


def test_steps_that_are_prepared_together_read_what_each_alone_would():
    config = VSAEConfig(**PLAIN).replace(members=2, batch_size=32, features="rich", gaussian=True, evaluate_every=None)
    run = run_of(config, 96)
    batches = list(run.batches())
    assert [batch.rows for batch in batches] == [32, 32, 32]
    for batch in batches:
        assert 0 < (batch.usable & ~batch.visible).sum() < 0.5 * batch.usable.sum()
        alone = run.model.read(batch.with_mask(batch.visible.clone())).readings
        assert alone.keys() == batch.readings.keys() == {"levels", "numbers", "row", "codes", "shown"}
        for name, reading in alone.items():
            torch.testing.assert_close(batch.readings[name], reading)


def test_an_epoch_shows_each_member_a_row_once_and_all_batches_are_alike():
    run = run_of(SMALL.replace(members=2, evaluate_every=None), 101)  # 4 batches of 25, and one row to spare
    shown = torch.cat([batch.values["gaussian"][..., 0] for batch in run.batches()], dim=1)  # heights, all different
    assert shown.shape == (2, 100)
    known = int((run.data.values["gaussian"][:, 0] != 0).sum())
    for member in shown:
        seen = member[member != 0]
        assert known - 1 <= len(seen.unique()) == len(seen)
    assert not torch.equal(*shown)


def test_clipping_is_per_member():
    gradient = torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0]])
    norm = clip_members(gradient, 1.0)
    torch.testing.assert_close(norm, torch.tensor([5.0, 0.5]))
    torch.testing.assert_close(gradient, torch.tensor([[0.6, 0.8, 0.0], [0.3, 0.4, 0.0]]))


def test_divergence_names_epoch_and_attribute_and_keeps_the_last_good_weights():
    schema = Schema([real("calm"), real("wild"), categorical("c", 3)])
    rng = np.random.default_rng(0)
    columns = {"calm": rng.normal(size=100), "wild": rng.normal(size=100), "c": rng.integers(0, 3, 100)}
    mask = np.ones((100, 3), dtype=bool)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    model = VSAE(schema, SMALL.replace(steps=100, batch_size=100))
    good = {}

    def poison(progress):
        if progress.step == 30:
            good.update({name: value.clone() for name, value in model.state_dict().items()})
            data.values["gaussian"][:, 1] = 1e30

    with pytest.raises(TrainingDiverged, match=r"epoch 31: the loss of attribute 'wild'") as caught:
        train(model, data, learn=learn, callback=poison)
    assert "\n" not in str(caught.value)
    for name, value in model.state_dict().items():
        assert torch.equal(value, good[name])


def test_cosine_schedule_warms_up_and_ends_at_zero():
    schema = Schema([real("a"), real("b")])
    columns, mask = rows_of(schema, 60)
    records = fit(schema, columns, mask, SMALL.replace(steps=200, evaluate_every=1, patience=999)).history.records
    rates = [record["learning_rate"] for record in records]
    assert max(rates) == pytest.approx(SMALL.learning_rate, rel=0.01)
    assert int(np.argmax(rates)) == pytest.approx(20, abs=2)
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)


def test_held_out_score_of_the_trivial_predictor_is_one():
    schema = Schema([real("a"), categorical("c", 3)])
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=4000), "c": rng.choice(3, 4000, p=[0.5, 0.3, 0.2])}
    mask = np.ones((4000, 2), dtype=bool)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    torch.manual_seed(0)
    _, held_out = divided(schema, data, SMALL.replace(validation_share=0.5))
    model = VSAE(schema, VSAEConfig(**PLAIN))
    last = model.data_network.net.last
    with torch.no_grad():
        last.weight.zero_()
        last.bias[0, 0] = torch.tensor([0.0, 0.0, *np.log([0.5, 0.3, 0.2])])
    assert float(held_out.score(model)) == pytest.approx(1.0, abs=0.01)


def test_nothing_to_hide_means_no_score():
    schema = Schema([real("a")])
    columns, mask = {"a": np.ones(5)}, np.zeros((5, 1), dtype=bool)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    assert divided(schema, data, SMALL)[1] is None


@pytest.mark.parametrize("validation", ["cells", "rows"])
def test_what_is_held_out_is_never_trained_on(validation):
    """Other values in the held-out cells change nothing but the score."""
    schema = every_kind()
    columns, mask = rows_of(schema, 100)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    config = SMALL.replace(validation=validation, patience=10**6, features="plain", gaussian=False)
    torch.manual_seed(0)
    training, held_out = divided(schema, data, config)
    withheld = held_out.batch.withheld[0]
    assert 0 < withheld.sum() < 0.2 * mask.sum()
    if validation == "rows":
        assert training.rows == 90
        return
    scrambled = {name: x.clone() for name, x in data.values.items()}
    for block in schema.blocks:
        cells = training.withheld[:, list(block.attributes)]
        if scrambled[block.name].dtype == torch.float32:
            scrambled[block.name][cells] = 7.0
    models = []
    for values in (data.values, scrambled):
        torch.manual_seed(1)
        model = VSAE(schema, config)
        train(model, type(data)(values, data.mask, training.withheld), None, learn=learn)
        models.append(model)
    assert states_equal(*models)


def test_the_mask_network_answers_for_withheld_cells_too():
    schema = every_kind()
    columns, mask = rows_of(schema, 50)
    batch = Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()
    withheld = batch.mask & (torch.rand(batch.mask.shape) < 0.5)
    model = VSAE(schema, VSAEConfig(**PLAIN))
    terms = elbo(model, type(batch)(batch.values, batch.mask, withheld))
    assert (terms.x_observed[withheld] == 0).all()
    torch.manual_seed(2)
    with_cells = elbo(model, type(batch)(batch.values, batch.mask, withheld))
    torch.manual_seed(2)
    logits = model.decode(model.propose(batch.with_mask(batch.mask & ~withheld)).selective.rsample(), None).mask
    torch.testing.assert_close(with_cells.mask, logits.log_prob(batch.mask))


def test_a_fit_that_diverges_hands_over_its_last_good_model(monkeypatch):
    schema = every_kind()
    columns, mask = rows_of(schema, 60)

    def explode(self, batch):
        if self.step == 25:
            raise TrainingDiverged("epoch 9: …")
        return original(self, batch)

    original = training_module._Run.train_on
    monkeypatch.setattr(training_module._Run, "train_on", explode)
    with pytest.raises(TrainingDiverged) as caught:
        fit(schema, columns, mask, SMALL)
    filled = caught.value.fitted.impute(columns, mask)
    assert all(np.isfinite(x.astype(float)).all() for x in filled.values())


@pytest.mark.parametrize("rate", [0.05, torch.tensor(0.05)])  # a tensor as in a step, which a GPU captures
def test_a_step_of_the_optimiser_is_that_of_torch(rate: float | torch.Tensor) -> None:
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.linspace(-1.0, 2.0, 12).view(2, 6)) for _ in range(2))
    mine, other = AdamW([ours], 0.1, members=2), torch.optim.AdamW([theirs], 0.05, weight_decay=0.1)
    for _ in range(5):
        target = torch.randn(2, 6)
        mine.step(mine.gradient(((ours - target) ** 2).sum()), rate)
        other.zero_grad()
        ((theirs - target) ** 2).sum().backward()
        other.step()
    torch.testing.assert_close(ours, theirs)


def test_a_step_that_is_skipped_moves_nothing() -> None:
    w = torch.nn.Parameter(torch.ones(2, 3))
    optimiser = AdamW([w], 0.1, members=2)
    optimiser.step(torch.full((2, 3), torch.nan), torch.tensor(0.05), torch.ones(()))
    torch.testing.assert_close(w.detach(), torch.ones(2, 3))
    assert not optimiser.mean.any()
    assert not optimiser.square.any()
