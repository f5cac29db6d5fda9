"""The paper's baselines: each against what its own paper says of it."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats

from conftest import every_kind, rows_of
from vsae.baselines import BASELINES, METHODS, method_named
from vsae.baselines.cvae import CVAE
from vsae.baselines.hivae import COMPONENTS, HIVAE
from vsae.baselines.miwae import MIWAE
from vsae.baselines.mvae import MVAE, product_of_experts, subsamples
from vsae.baselines.vae import VAE
from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, categorical, image, real
from vsae.fitting.baseline import baseline_config, fit_baseline, parameters
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedModel
from vsae.fitting.fitted_baseline import FittedBaseline, NotOfMethod
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.latent_model import Noise
from vsae.model.proposals import DiagonalNormal
from vsae.model.vsae import VSAE

SMALL = VSAEConfig.paper(
    latent_dim=3,
    attributive=NetShape(8, 2),
    collective=NetShape(16, 2),
    mask_net=NetShape(8, 2),
    data_net=NetShape(16, 2),
    epochs=3,
)
every_baseline = pytest.mark.parametrize("name", BASELINES)


def small(name: str, schema: Schema, **changes):
    kind = BASELINES[name]
    return kind, SMALL.replace(**{**kind.settings, **changes})


def batch_of(schema: Schema, rows: int = 12) -> Batch:
    columns, mask = rows_of(schema, rows)
    return Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()


# --- all of them


@every_baseline
def test_fits_imputes_and_draws_every_kind_and_leaves_observed_cells_alone(name):
    schema = every_kind()
    columns, mask = rows_of(schema, 80)
    kind, config = small(name, schema)
    fitted = fit_baseline(kind, schema, columns, mask, config)
    drawn = fitted.draw(columns, mask, 2) if kind.has_draws else []
    for table in (fitted.impute(columns, mask, draws=4), *drawn):
        for variable in schema.variables:
            seen = mask[:, schema.attribute_of[variable.name]]
            assert np.array_equal(table[variable.name][seen], columns[variable.name][seen])
            assert np.isfinite(table[variable.name]).all()


@every_baseline
def test_a_saved_model_imputes_and_draws_the_same_and_refuses_what_it_can_not_do_by_its_name(name, tmp_path):
    schema = every_kind()
    columns, mask = rows_of(schema, 60)
    kind, config = small(name, schema, epochs=1)
    fitted = fit_baseline(kind, schema, columns, mask, config)
    fitted.save(tmp_path / "model")
    again = FittedBaseline.load(tmp_path / "model")
    for loaded in (again, copy.deepcopy(fitted)):
        assert type(loaded.model) is kind
        one, other = (model.impute(columns, mask, draws=4) for model in (fitted, loaded))
        assert all(np.array_equal(one[column], other[column]) for column in one)
    if kind.has_draws:
        one, other = (model.draw(columns, mask, 2, seed=3)[1] for model in (fitted, again))
        assert all(np.array_equal(one[column], other[column]) for column in one)
    assert METHODS[fitted.method].label == name
    for refused in (fitted.generate, fitted.generate_masks, fitted.ampute, fitted.embed, fitted.score_samples):
        with pytest.raises(NotOfMethod, match=f"method='{fitted.method}'"):
            refused(3)


def test_names_are_those_of_the_registry():
    with pytest.raises(ValueError, match=r"there is no method 'gan'; there are vsae, ae, .*miwae"):
        method_named("gan")


def test_a_model_without_draws_or_images_says_so():
    schema = Schema([real("a"), image("scan", (1, 4, 4))])
    columns, mask = {"a": np.arange(60.0), "scan": np.zeros((60, 1, 4, 4))}, np.ones((60, 2), dtype=bool)
    kind, config = small("VAE", schema, epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "has_draws", False)
        fitted = fit_baseline(kind, schema, columns, mask, config)
        for asked in (fitted.draw, fitted.quantiles):
            with pytest.raises(NotOfMethod, match="method='vae' knows estimates, and no draws"):
                asked(columns, mask, [1])
        patch.setattr(kind, "takes_images", False)
        with pytest.raises(NotOfMethod, match="column 'scan' holds images, which method='vae' does not take"):
            fit_baseline(kind, schema, columns, mask, config)


@every_baseline
def test_what_is_hidden_or_withheld_is_never_read(name):
    """Other values in cells that are missing or held out: the same bound, the same latents, the same draws."""
    schema = every_kind()
    kind, config = small(name, schema, fill="zero")
    torch.manual_seed(0)
    model = kind(schema, config)
    (columns, mask), (other, _) = rows_of(schema, 30), rows_of(schema, 30, seed=9)
    encoding = Encoding.fit(schema, columns, mask)
    everything = np.ones_like(mask)
    here, there = (encoding.encode(rows, everything).for_members().values for rows in (columns, other))
    observed = torch.from_numpy(mask)[None]
    withheld = observed & (torch.rand(observed.shape) < 0.3)
    seen = observed & ~withheld

    def mixed(block):
        at = seen[..., list(block.attributes)]
        at = at.view(*at.shape, *[1] * (here[block.name].dim() - 3))
        return torch.where(at, here[block.name], there[block.name])

    swapped = {block.name: mixed(block) for block in schema.blocks}
    results = []
    for values in (here, swapped):
        torch.manual_seed(1)
        _, loss = model.bound(Batch(values, observed, withheld), 0)
        visible = Batch(values, seen)
        draws = model.draws(visible, Noise(1, 2, 30))
        q = model.infer(visible)
        latents = [] if q is None else [q.loc]
        results.append([loss, *latents, *(x.mean for x in draws.data.values())])
    for one, again in zip(*results, strict=True):
        assert torch.equal(one, again)


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.grows])
def test_has_at_least_as_many_parameters_as_vsae(name):
    schema = Schema([real("a"), categorical("b", 4), real("c"), categorical("d", 2)])
    model = BASELINES[name](schema, baseline_config(BASELINES[name], schema))
    vsae = parameters(VSAE(schema, VSAEConfig.paper()))
    assert vsae <= parameters(model) < 1.5 * vsae


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "MisGAN"])  # critics alone judge what it makes
def test_loss_falls(name):
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    schema = Schema([real("a"), real("b"), categorical("c", 2)])
    columns = {"a": a, "b": a + 0.1 * rng.normal(size=300), "c": (a > 0).astype(int)}
    kind, config = small(name, schema, epochs=25, learning_rate=5e-3)
    records = fit_baseline(kind, schema, columns, np.ones((300, 3), dtype=bool), config).history.records
    first, last = ([r["x_observed"][0] - r["kl"][0] for r in part] for part in (records[:3], records[-3:]))
    assert np.mean(last) > np.mean(first)


# --- MVAE


def test_product_of_experts_is_the_closed_form():
    torch.manual_seed(0)
    loc, log_scale = torch.randn(1, 1, 3, 1), 0.5 * torch.randn(1, 1, 3, 1)
    observed = torch.tensor([[[True, False, True]]])
    q = product_of_experts(DiagonalNormal(loc, log_scale), observed)
    z = np.linspace(-12, 12, 200_001)
    density = stats.norm.pdf(z)
    for i in (0, 2):
        density = density * stats.norm.pdf(z, loc[0, 0, i, 0].item(), log_scale[0, 0, i, 0].exp().item())
    density /= density.sum()
    mean = (density * z).sum()
    assert q.loc.item() == pytest.approx(mean, abs=1e-5)
    assert q.log_scale.exp().item() == pytest.approx(math.sqrt((density * (z - mean) ** 2).sum()), abs=1e-5)


def test_without_an_expert_the_prior_is_left():
    q = product_of_experts(DiagonalNormal(torch.ones(1, 1, 2, 3), torch.zeros(1, 1, 2, 3)), torch.zeros(1, 1, 2) > 0)
    assert not q.loc.any()
    assert not q.log_scale.any()


def test_subsamples_are_one_and_some_of_what_is_observed():
    torch.manual_seed(0)
    observed = torch.rand(1, 500, 6) < 0.7
    one, some = subsamples(observed)
    assert not (one & ~observed).any()
    assert not (some & ~observed).any()
    assert torch.equal(one.sum(-1), observed.any(-1).long())
    assert 0.3 < some.sum() / observed.sum() < 0.7


def test_mvae_sums_the_bounds_of_all_of_one_and_of_some(monkeypatch):
    schema = Schema([real("a"), real("b"), real("c")])
    model = MVAE(schema, SMALL)
    observed = torch.tensor([[[True, True, True], [True, True, False]]])
    batch = Batch({"gaussian": torch.randn(1, 2, 3)}, observed)
    one = torch.tensor([[[False, True, False], [True, False, False]]])
    some = torch.tensor([[[True, False, True], [True, True, False]]])
    monkeypatch.setattr("vsae.baselines.mvae.subsamples", lambda seen: (one, some))
    torch.manual_seed(0)
    _, loss = model.bound(batch, 0)
    torch.manual_seed(0)
    parts = [model.bound_of(model.ask(batch), batch, part).rows().total for part in (observed, one, some)]
    expected = parts[0] + parts[1] * torch.tensor([[3, 2]]) + parts[2]  # one single term stands for all of the row
    torch.testing.assert_close(loss, -expected.mean(-1).sum())
    assert not torch.equal(parts[1], parts[2])


# --- CVAE


def test_cvae_reacts_to_the_mask_and_vae_does_not():
    schema = every_kind()
    batch = batch_of(schema)
    torch.manual_seed(0)
    z = torch.randn(1, 12, 3)
    for kind, differs in ((CVAE, True), (VAE, False)):
        model = kind(schema, SMALL)
        one, other = (model.decode(z, mask) for mask in (batch.mask, ~batch.mask))
        assert torch.equal(one["gaussian"].mean, other["gaussian"].mean) is not differs
    for kind, differs in ((CVAE, True), (VAE, False)):  # all zeros, so that missing cells look like what is there
        model = kind(Schema([real("a"), real("b")]), SMALL.replace(fill="zero"))
        masks = torch.tensor([[[True, True], [True, False]]])
        loc = model.infer(Batch({"gaussian": torch.zeros(1, 2, 2)}, masks)).loc[0]
        assert torch.equal(loc[0], loc[1]) is not differs


# --- MIWAE


class GaussianToy:
    """x = W z + b + noise with z ~ N(0, I): a MIWAE whose decoder is that map, and the exact log p(x)."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        schema = Schema([real(f"x{i}") for i in range(4)])
        self.model = MIWAE(schema, SMALL.replace(variance="column", latent_dim=2, fill="zero")).double()
        self.weight, self.log_scale = torch.randn(2, 4, dtype=torch.float64), -0.5
        self.x = torch.randn(1, 200, 2, dtype=torch.float64) @ self.weight
        self.x = self.x + math.exp(self.log_scale) * torch.randn_like(self.x)
        self.batch = Batch({"gaussian": self.x}, torch.ones(1, 200, 4, dtype=torch.bool))
        self.model.decode = self._decode

    def _decode(self, z, mask):
        from vsae.model.likelihoods import Gaussian

        return {"gaussian": Gaussian(z @ self.weight, torch.full((1, 1, 4), self.log_scale, dtype=torch.float64))}

    def exact(self) -> float:
        covariance = self.weight.T @ self.weight + math.exp(2 * self.log_scale) * torch.eye(4, dtype=torch.float64)
        return stats.multivariate_normal(np.zeros(4), covariance.numpy()).logpdf(self.x[0].numpy()).mean()

    @torch.no_grad()
    def bound(self, samples: int) -> float:
        torch.manual_seed(0)
        self.model.training_samples = samples
        return float(np.mean([-float(self.model.bound(self.batch, 0)[1]) for _ in range(2000 // samples)]))


def test_the_importance_weighted_bound_rises_to_the_likelihood_and_beats_the_elbo():
    toy = GaussianToy()
    bounds = [toy.bound(k) for k in (1, 5, 50, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[1] > bounds[0] + 0.1
    assert bounds[-1] == pytest.approx(toy.exact(), abs=0.1)
    with torch.no_grad():
        q = toy.model.infer(toy.batch)
        draws = [toy.model.log_likelihood(toy._decode(q.rsample(), None), toy.batch).sum(-1) for _ in range(2000)]
        elbo = float((torch.stack(draws).mean(0) - q.kl_to_prior()).mean())
    assert bounds[0] == pytest.approx(elbo, abs=0.3)  # K = 1 is the ELBO, but for the exact KL
    assert bounds[1] > elbo + 0.1


def test_estimates_are_averages_under_normalised_weights():
    schema = Schema([real("a"), real("b")])
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    columns, mask = {"a": a, "b": a}, rng.random((200, 2)) < 0.7
    kind, config = small("MIWAE", schema, epochs=10)
    fitted = fit_baseline(kind, schema, columns, mask, config)
    batch = fitted.encoding.encode(columns, mask).for_members()
    with torch.no_grad():
        torch.manual_seed(0)
        draws = fitted.model.draws(batch, Noise(1, 50, 1, mirrored=True))
    raw = draws.log_weight.double().exp()
    weight = raw / raw.sum(1, keepdim=True)
    assert weight.max() > 2 / 50  # they are not all alike
    mean = (weight[..., None] * draws.data["gaussian"].mean.unflatten(1, (50, -1)).double()).sum(1)[0].numpy()
    expected = mean * fitted.encoding.scale["gaussian"] + fitted.encoding.loc["gaussian"]
    estimates = fitted.estimates(columns, mask, draws=50)
    np.testing.assert_allclose(np.stack([estimates["a"], estimates["b"]], axis=1), expected, rtol=1e-5, atol=1e-6)


def test_weighted_estimates_and_draws_have_the_exact_conditional_mean():
    """The proposal is untrained: only draws that explain what is seen may fill the cell."""
    toy = GaussianToy()
    names = [f"x{i}" for i in range(4)]
    columns = {name: toy.x[0, :, i].numpy() for i, name in enumerate(names)}
    mask = np.ones((200, 4), dtype=bool)
    mask[:, 3] = False
    parts = {"loc": 0.0, "scale": 1.0, "low": -np.inf, "high": np.inf, "decimals": 7, "point_mass": np.nan}
    unit = {part: {"gaussian": np.full(4, value)} for part, value in parts.items()}
    fitted = FittedModel(toy.model.float(), Encoding(toy.model.schema, **unit, scaling="standard"))
    toy.weight, seen = toy.weight.float(), toy.weight[:, :3].double()
    noise = math.exp(2 * toy.log_scale) * torch.eye(3, dtype=torch.float64)
    exact = toy.x[0, :, :3] @ torch.linalg.solve(seen.T @ seen + noise, seen.T @ toy.weight[:, 3].double())
    estimate = fitted.impute(columns, mask, draws=2000)["x3"]
    assert np.abs(estimate - exact.numpy()).mean() < 0.1
    plain = fitted.impute(columns, mask, draws=2000, weighted=False)["x3"]
    assert np.abs(plain - exact.numpy()).mean() > 3 * np.abs(estimate - exact.numpy()).mean()
    drawn = np.mean([table["x3"] for table in fitted.draw(columns, mask, 60)], axis=0)
    assert np.abs(drawn - exact.numpy()).mean() < 0.25  # 60 draws: noise of .1 beside the estimate's


@pytest.mark.parametrize("name", ["AE", "HI-VAE"])
def test_what_has_no_weights_says_so(name):
    schema = Schema([real("a"), real("b")])
    kind, config = small(name, schema)
    batch = Batch({"gaussian": torch.zeros(1, 3, 2)}, torch.ones(1, 3, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="leave weighted out"):
        kind(schema, config).draws(batch, Noise(1, 2, 3), weighted=True)


def test_miwae_is_judged_by_weighted_samples():
    toy = GaussianToy()
    hidden = Batch(toy.batch.values, torch.tensor([True, True, True, False]).expand(1, 200, 4))
    with torch.no_grad():
        torch.manual_seed(0)
        judged = toy.model.validation_draws(hidden)
        mean = judged.mean_of(judged.data["gaussian"])[0, :, 3]
    plain = toy._decode(toy.model.infer(hidden).loc, None)["gaussian"].mean[0, :, 3]
    assert (mean - toy.x[0, :, 3]).abs().mean() < 0.7 * (plain - toy.x[0, :, 3]).abs().mean()


def test_vsae_offers_weighted_estimates_too():
    rng = np.random.default_rng(0)
    schema = Schema([real("a"), real("b")])
    a = rng.normal(size=200)
    columns, mask = {"a": a, "b": a}, rng.random((200, 2)) < 0.7
    fitted = fit(schema, columns, mask, SMALL.replace(epochs=5))
    plain = fitted.impute(columns, mask, draws=100)
    weighted = fitted.impute(columns, mask, draws=100, weighted=True)
    missing = ~mask[:, 0]
    assert not np.array_equal(plain["a"][missing], weighted["a"][missing])
    assert np.array_equal(weighted["a"][mask[:, 0]], columns["a"][mask[:, 0]])


# --- HI-VAE


def test_each_attribute_has_a_head_of_its_own():
    schema = every_kind()
    torch.manual_seed(0)
    model = HIVAE(schema, SMALL.replace(variance="cell")).eval()
    z, s = torch.randn(1, 5, 3), torch.nn.functional.one_hot(torch.arange(5) % COMPONENTS, COMPONENTS)[None].float()
    batch = batch_of(schema, 5)
    for attribute in range(len(schema)):
        before = model.log_likelihood(model.decode_from(z, s), batch)
        with torch.no_grad():
            model.own.linear.weight[:, attribute] += 0.5
        changed = (model.log_likelihood(model.decode_from(z, s), batch) != before).any(1)[0]
        wanted = torch.arange(len(schema)) == attribute
        single = schema.names[attribute] == "single"  # one level: always certain
        assert torch.equal(changed, wanted & (not single))


def test_likelihoods_are_those_of_scipy():
    schema = Schema([real("a"), categorical("b", 3), real("c")])
    torch.manual_seed(0)
    model = HIVAE(schema, SMALL.replace(variance="cell"))
    z, s = torch.randn(1, 6, 3), torch.nn.functional.one_hot(torch.arange(6), COMPONENTS)[None].float()
    x, level = torch.randn(1, 6, 2), torch.tensor([0, 1, 2, 0, 1, 2]).view(1, 6, 1)
    with torch.no_grad():
        data = model.decode_from(z, s)
        log_p = model.log_likelihood(data, Batch({"gaussian": x, "categorical": level}, torch.ones(1, 6, 3) > 0))
    for j, at in ((0, 0), (1, 2)):
        expected = stats.norm.logpdf(x[0, :, j], data["gaussian"].mean[0, :, j], data["gaussian"].scale[0, :, j])
        np.testing.assert_allclose(log_p[0, :, at].numpy(), expected, rtol=1e-5)
    share = data["categorical"].mean[0].numpy()
    expected = [
        stats.multinomial.logpmf(np.eye(3)[k], 1, p / p.sum()) for k, p in zip(level[0, :, 0], share, strict=True)
    ]
    np.testing.assert_allclose(log_p[0, :, 1].numpy(), expected, rtol=1e-4)


def test_components_of_the_prior_part_two_clusters():
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, 400)
    columns = {f"x{j}": 4.0 * cluster + 0.3 * rng.normal(size=400) for j in range(4)}
    mask = rng.random((400, 4)) < 0.7
    schema = Schema([real(name) for name in columns])
    kind, config = small("HI-VAE", schema, epochs=60, learning_rate=5e-3)
    fitted = fit_baseline(kind, schema, columns, mask, config)
    filled = fitted.impute(columns, mask)
    missing = ~mask[:, 0] & mask[:, 1:].any(axis=1)
    assert np.corrcoef(filled["x0"][missing], columns["x0"][missing])[0, 1] > 0.9


@pytest.mark.parametrize("name", ["easy", "noise"])
def test_training_stops_by_patience_and_keeps_the_best_weights(name):
    schema = Schema([real("a"), real("b")])
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    columns = {"easy": {"a": a, "b": a}, "noise": {"a": rng.normal(size=200), "b": rng.normal(size=200)}}[name]
    config = SMALL.replace(**MIWAE.settings, epochs=60, patience=4, learning_rate=5e-3)
    history = fit_baseline(VAE, schema, columns, np.ones((200, 2), dtype=bool), config).history
    scores = [record["score"][0] for record in history.records]
    lowest = int(np.argmin(scores))
    assert history.best_step == [(lowest + 1) * history.records[0]["step"]]
    assert len(scores) == min(60, lowest + 1 + 4)


def test_the_callers_random_numbers_are_left_alone():
    schema = Schema([real("a"), real("b")])
    torch.manual_seed(3)
    before = torch.get_rng_state()
    baseline_config(VAE, schema)
    assert torch.equal(torch.get_rng_state(), before)
