"""not-MIWAE, VAEAC and Partial VAE: each against the idea of its own paper."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from conftest import every_kind, rows_of
from vsae.baselines import BASELINES
from vsae.baselines.miwae import MIWAE
from vsae.baselines.notmiwae import KnownNotMIWAE, LinearNotMIWAE, NeuralNotMIWAE, NotMIWAE
from vsae.baselines.partialvae import LOG_SCALE, PartialVAE, some_of
from vsae.baselines.vaeac import VAEAC
from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, binary, categorical, count, ordinal, positive, real, vector
from vsae.fitting.baseline import fit_baseline
from vsae.fitting.fitted import FittedModel
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.latent_model import Noise

SHAPES = {
    "collective": NetShape(32, 1),
    "data_net": NetShape(32, 1),
    "mask_net": NetShape(8, 1),
    "attributive": NetShape(8, 1),
}


def config_of(name: str, **changes) -> VSAEConfig:
    settings = {**SHAPES, "latent_dim": 2, "batch_size": 128, "learning_rate": 5e-3, "validation_share": 0.0}
    return VSAEConfig.paper(**{**BASELINES[name].settings, **settings, **changes})


# --- not-MIWAE


class SelfMasked:
    """Two normal columns; the higher the second, the likelier it is missing."""

    def __init__(self, rows: int = 600) -> None:
        rng = np.random.default_rng(0)
        a = rng.normal(size=rows)
        self.columns = {"a": a, "b": 0.6 * a + 0.8 * rng.normal(size=rows)}
        self.schema = Schema([real("a"), real("b")])
        self.mask = np.ones((rows, 2), dtype=bool)
        self.mask[:, 1] = rng.random(rows) > 1 / (1 + np.exp(-3 * (self.columns["b"] - 0.3)))

    def fitted(self, name: str) -> FittedModel:
        config = config_of(name, epochs=100, steps=None)
        return fit_baseline(BASELINES[name], self.schema, self.columns, self.mask, config, seed=1)


def test_not_miwae_recovers_the_mean_of_a_self_masked_gaussian_that_miwae_misses():
    table = SelfMasked()
    truth = table.columns["b"].mean()
    missed = table.fitted("MIWAE").impute(table.columns, table.mask)["b"].mean() - truth
    model = table.fitted("not-MIWAE")
    recovered = model.impute(table.columns, table.mask)["b"].mean() - truth
    drawn = np.mean([draw["b"].mean() for draw in model.draw(table.columns, table.mask, 10)]) - truth
    assert missed < -0.3  # it takes the cells that are missing for such as are observed
    assert abs(recovered) < 0.15
    assert abs(drawn) < 0.15
    of_a, of_b = model.model.weight.flatten().tolist()
    assert of_b > 1.2  # the direction is found, and that it is the second column's
    assert abs(of_a) < 0.3


def test_what_hides_above_a_threshold_is_filled_beyond_all_that_was_seen():
    rng = np.random.default_rng(0)
    a = rng.normal(size=600)
    columns = {"a": a, "b": 0.9 * a + 0.3 * rng.normal(size=600)}
    mask = np.stack([np.ones(600, dtype=bool), columns["b"] < 0], axis=1)
    schema, hidden = Schema([real("a"), real("b")]), ~mask[:, 1]

    def filled(name: str):
        fitted = fit_baseline(BASELINES[name], schema, columns, mask, config_of(name, steps=600), seed=0)
        return fitted.impute(columns, mask)["b"][hidden]

    most = columns["b"][mask[:, 1]].max()
    assert filled("MIWAE").max() <= most + 1e-6
    known = filled("not-MIWAE known")
    assert known.mean() > 0.3  # of .73
    assert (known > most).mean() > 0.8


def test_estimates_may_lie_as_far_beyond_the_values_seen_as_these_lie_apart():
    columns = {"a": np.array([1.0, 3.0]), "b": np.array([1.0, 1000.0])}
    encoding = Encoding.fit(Schema([real("a"), positive("b")]), columns, np.ones((2, 2), dtype=bool))
    far = np.full((1, 2), 50.0)
    for units, most in ((encoding, (3.0, 1000.0)), (encoding.reaching_beyond(), (5.0, 1999.0))):
        np.testing.assert_allclose(units.expected("gaussian", far, np.zeros(2))[0], most)
    least = encoding.reaching_beyond().expected("gaussian", -far, np.zeros(2))[0]
    assert least[0] == pytest.approx(-1.0)
    assert least[1] == pytest.approx(1000 / 1999)


def test_a_mask_that_may_depend_on_other_columns_explains_self_masking_away():
    """Why the linear and the neural one need not recover that mean: with P(m | a) and the observed cells' own p(b | a)
    nothing hides by its value, and the likelihood of what is seen is all but the same."""
    a, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    b = 0.6 * a[:, None] + 0.8 * a
    share = (1 / (1 + np.exp(3 * (b - 0.3)))) @ weight  # P(b is observed | a), as `SelfMasked` has it
    x, found = np.stack([np.ones_like(a), a], axis=1), np.zeros(2)
    for _ in range(20):  # Newton's steps to the logistic regression of the mask on the other column
        p = 1 / (1 + np.exp(-x @ found))
        found += np.linalg.solve((x.T * (weight * p * (1 - p))) @ x, x.T @ (weight * (share - p)))
    p = 1 / (1 + np.exp(-x @ found))
    lost = weight @ (share * np.log(share / p) + (1 - share) * np.log((1 - share) / (1 - p)))
    assert found[1] < -1  # the other column seems to hide the cells
    assert 0 <= lost < 1e-4  # nats a row: no table of a thousand rows tells


def untrained(kind, schema: Schema, **changes):
    torch.manual_seed(0)
    return kind(schema, config_of("not-MIWAE", **changes))


def test_the_weight_of_a_sample_counts_how_well_it_explains_the_mask():
    schema = Schema([real("a"), real("b")])
    model = untrained(NotMIWAE, schema)
    with torch.no_grad():
        model.slope[:] = 0.2  # times the pace: 2
    batch = Batch({"gaussian": torch.tensor([[[0.5, 0.0]]])}, torch.tensor([[[True, False]]]))
    (draws, made), ignorant = (
        weigh(batch, Noise(1, 50, 1, torch.Generator().manual_seed(1)))
        for weigh in (model.sampled, partial(MIWAE.weighted_draws, model))
    )
    expected = torch.log(torch.sigmoid(torch.tensor(-2 * 0.5))) + torch.log(torch.sigmoid(2 * made[0, :, 1]))
    assert torch.allclose((draws.log_weight - ignorant.log_weight)[0, :, 0], expected, atol=1e-5)


def test_known_cells_that_are_withheld_count_as_observed_in_the_mask():
    schema = Schema([real("a"), real("b")])
    model = untrained(NotMIWAE, schema)
    with torch.no_grad():
        model.threshold[:] = 0.4
    values, shown = {"gaussian": torch.zeros(1, 1, 2)}, torch.tensor([[[True, False]]])
    weights = []
    for withheld in (None, torch.tensor([[[False, True]]])):
        noise = Noise(1, 4, 1, torch.Generator().manual_seed(1))
        weights.append(model.sampled(Batch(values, shown, withheld), noise)[0].log_weight)
    step = torch.log(torch.sigmoid(torch.tensor(4.0))) - torch.log(torch.sigmoid(torch.tensor(-4.0)))
    assert torch.allclose(weights[1] - weights[0], step.expand(1, 4, 1), atol=1e-5)


def test_where_the_direction_is_known_weights_are_positive():
    model = untrained(KnownNotMIWAE, every_kind())
    with torch.no_grad():
        model.slope.normal_()
    assert (model.weight > 0).all()


@pytest.mark.parametrize(("kind", "reads_others"), [(NotMIWAE, False), (LinearNotMIWAE, True), (NeuralNotMIWAE, True)])
def test_self_masking_reads_its_own_attribute_alone(kind, reads_others):
    schema = Schema([real("a"), categorical("c", 3), ordinal("o", 4)])
    model = untrained(kind, schema)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
        one = torch.randn(1, 5, model.rows.width)
        other = one.clone()
        other[..., 0] += 1.0
        changed = (model.observed(one).logits != model.observed(other).logits).any(1)[0]
    assert model.rows.owner[0] == 0
    assert changed[0]
    assert bool(changed[1:].all()) == reads_others


def test_drawn_cells_pass_gradients_and_are_the_same_for_like_rows():
    schema = Schema([real("a"), categorical("c", 3), ordinal("o", 4), binary("y"), vector("v", 2), count("n")])
    model = untrained(NotMIWAE, schema)
    columns, _ = rows_of(schema, 30)
    everything = Encoding.fit(schema, columns, np.ones((30, 6), dtype=bool)).encode(columns, np.ones((30, 6), bool))
    batch = everything.take(torch.zeros(1, 6, dtype=torch.long)).with_mask(torch.zeros(1, 6, 6, dtype=torch.bool))
    by_row = model.sampled(batch, Noise(1, 40, 1))[1].unflatten(1, (40, 6))
    assert torch.allclose(by_row, by_row[:, :, :1].expand_as(by_row), atol=1e-6)
    levels = by_row[0, :, 0, model.rows.owner == 1]
    assert len(levels.round().unique(dim=0)) == 3  # each is drawn, and no two at once
    with torch.no_grad():
        model.slope[:] = 0.1
    model.sampled(batch, Noise(1, 40, 1))[0].log_weight.sum().backward()
    gradient = model.data_network.net.last.weight.grad  # by way of the mask alone, as nothing is observed
    means_and_levels = gradient.abs().sum(dim=(0, 1)) > 0
    assert means_and_levels.all()


# --- VAEAC


COVARIANCE = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.6], [0.5, 0.6, 1.0]])


@pytest.fixture(scope="module")
def conditional() -> FittedModel:
    """Learned from rows of which a fifth of the cells is missing."""
    rng = np.random.default_rng(1)
    x = rng.multivariate_normal(np.zeros(3), COVARIANCE, size=1500)
    columns, mask = dict(zip("abc", x.T, strict=True)), rng.random(x.shape) < 0.8
    schema = Schema([real(name) for name in "abc"])
    return fit_baseline(VAEAC, schema, columns, mask, config_of("VAEAC", steps=1500), seed=1)


@pytest.mark.parametrize("shown", [(0,), (1, 2), (0, 2), ()])
def test_vaeac_matches_the_conditional_of_a_gaussian_given_any_subset(conditional, shown):
    rng = np.random.default_rng(2)
    x = rng.multivariate_normal(np.zeros(3), COVARIANCE, size=200)
    seen, hidden = list(shown), [j for j in range(3) if j not in shown]
    mask = np.zeros((200, 3), dtype=bool)
    mask[:, seen] = True
    columns = dict(zip("abc", x.T, strict=True))
    slope = np.linalg.solve(COVARIANCE[np.ix_(seen, seen)], COVARIANCE[np.ix_(seen, hidden)])
    mean = x[:, seen] @ slope
    spread = np.sqrt(np.diag(COVARIANCE[np.ix_(hidden, hidden)] - COVARIANCE[np.ix_(hidden, seen)] @ slope))
    estimate = conditional.impute(columns, mask)
    draws = conditional.draw(columns, mask, 60)
    for k, j in enumerate(hidden):
        name = "abc"[j]
        assert np.sqrt(np.mean((estimate[name] - mean[:, k]) ** 2)) < 0.17
        drawn = np.stack([draw[name] for draw in draws])
        assert np.sqrt(np.mean((drawn - mean[:, k]) ** 2)) == pytest.approx(spread[k], rel=0.15)


def test_vaeac_is_scored_by_hidden_cells_alone_and_its_encoder_sees_them():
    schema = Schema([real("a"), real("b"), real("c")])
    torch.manual_seed(0)
    model = VAEAC(schema, config_of("VAEAC"))
    batch = Batch({"gaussian": torch.randn(1, 40, 3)}, torch.ones(1, 40, 3, dtype=torch.bool))
    with pytest.MonkeyPatch.context() as patch:
        visible = torch.ones(1, 40, 3, dtype=torch.bool)
        visible[..., 0] = False
        patch.setattr("vsae.baselines.vaeac.remask", lambda mask, low, high: visible)
        terms, _ = model.bound(batch, 0)
    assert not terms.x_observed[..., 1:].any()
    assert terms.x_observed[..., 0].all()
    other = Batch({"gaussian": batch.values["gaussian"] + torch.tensor([1.0, 0.0, 0.0])}, batch.mask)
    shown = [part.with_mask(visible) for part in (batch, other)]
    assert torch.equal(*(model.infer(part).loc for part in shown))  # the prior network sees what is visible
    assert not torch.equal(*(model.infer_from_all(part, visible).loc for part in (batch, other)))


# --- Partial VAE


def test_partial_vae_does_not_depend_on_the_order_of_attributes():
    names, order = "abcd", [2, 0, 3, 1]
    torch.manual_seed(0)
    model = PartialVAE(Schema([real(name) for name in names]), config_of("Partial VAE"))
    other = PartialVAE(Schema([real(names[j]) for j in order]), config_of("Partial VAE"))
    state = model.state_dict()
    state |= {name: x[:, order] for name, x in state.items() if name.startswith("embedding.number_map")}
    state |= {name: x for name, x in other.state_dict().items() if name.startswith("features")}
    other.load_state_dict({name: x for name, x in state.items() if name in other.state_dict()})
    x, mask = torch.randn(1, 30, 4), torch.rand(1, 30, 4) < 0.6
    one = model.infer(Batch({"gaussian": x}, mask))
    again = other.infer(Batch({"gaussian": x[..., order]}, mask[..., order]))
    assert torch.allclose(one.loc, again.loc, atol=1e-6)
    assert torch.allclose(one.log_scale, again.log_scale, atol=1e-6)
    assert one.loc.std() > 0.01  # it does depend on the cells


def test_partial_vae_reads_a_set():
    torch.manual_seed(0)
    model = PartialVAE(every_kind(), config_of("Partial VAE"))
    cells, observed = torch.randn(1, 13, 5, 20), torch.rand(1, 5, 13) < 0.5
    order = torch.randperm(13)
    one, again = model.of_set(cells, observed), model.of_set(cells[:, order], observed[..., order])
    assert torch.allclose(one.loc, again.loc, atol=1e-5)
    unseen = torch.where(observed.transpose(1, 2)[..., None], cells, 7.0)
    assert torch.equal(one.loc, model.of_set(unseen, observed).loc)


def test_partial_vae_is_trained_on_random_parts_with_its_papers_scale():
    torch.manual_seed(0)
    observed = torch.rand(1, 4000, 5) < 0.7
    part = some_of(observed)
    assert not (part & ~observed).any()
    left = 1 - part.sum() / observed.sum()
    assert left == pytest.approx(0.455, abs=0.02)  # E min(u, .7) = .7 - .7² / 2
    model = PartialVAE(Schema([real("a")]), config_of("Partial VAE"))
    data = model.reconstruct(Batch({"gaussian": torch.zeros(1, 2, 1)}, torch.ones(1, 2, 1, dtype=torch.bool)))
    assert torch.allclose(data["gaussian"].log_scale, torch.tensor(LOG_SCALE))
