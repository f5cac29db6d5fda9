"""Images as attributes: their networks, likelihoods and units, and that a model of them learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

from conftest import SMALL, bars
from vsae.baselines import BASELINES
from vsae.data.encoding import Encoding
from vsae.data.schema import Kind, Schema, SchemaError, Variable, categorical, group, image, real, vector
from vsae.fitting.baseline import baseline_config, fit_baseline
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.model.config import VSAEConfig
from vsae.model.images import ImageDecoder, ImageEncoder, ImageSettings, stages
from vsae.model.likelihoods import head_for
from vsae.model.likelihoods.images import BernoulliImage, DiscretisedImage, GaussianImage
from vsae.model.vsae import VSAE
from vsae.training.objective import elbo, objective

SHAPE = (2, 9, 12)

# --- the schema and the units


def test_images_of_one_shape_and_likelihood_are_a_block():
    schema = Schema(
        [image("a"), vector("v", 3), image("b"), image("c", pixels="bernoulli"), image("d", (3, 8, 8)), real("x")]
    )
    assert [block.name for block in schema.blocks] == [
        "gaussian", "vector3", "image1x28x28-bernoulli", "image1x28x28", "image3x8x8",
    ]  # fmt: skip
    assert schema.blocks[3].width == 784
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: image("a", (28, 28)), "shape must be"),
        (lambda: image("a", pixels="poisson"), "unknown pixels 'poisson'; use one of gaussian, bernoulli, discretised"),
        (lambda: Variable("a", Kind.REAL, shape=(1, 2, 2)), "an image, and nothing else, has a shape"),
    ],
)
def test_a_wrong_image_is_refused(make, complaint):
    with pytest.raises(SchemaError, match=complaint):
        make()


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_pixels_come_back_as_they_went_in(dtype):
    rng = np.random.default_rng(0)
    pixels = rng.integers(256, size=(5, 1, 4, 4)).astype(np.uint8)
    column = pixels if dtype == "uint8" else (pixels / 255).astype(dtype)
    schema, mask = Schema([image("a", (1, 4, 4))]), np.array([[True], [False], [True], [True], [False]])
    encoding = Encoding.fit(schema, {"a": column}, mask)
    batch = encoding.encode({"a": column}, mask)
    x = batch.values["image1x4x4"]
    assert x.dtype == torch.float32
    assert not x[~batch.mask[:, 0]].any()
    np.testing.assert_allclose(encoding.decode({"image1x4x4": x.numpy()})["a"][0], pixels[0] / 255, rtol=1e-6)
    flat = encoding.encode({"a": column[:, 0]}, mask)  # one channel may be left out
    assert torch.equal(flat.values["image1x4x4"], x)


@pytest.mark.parametrize(
    ("pixels", "complaint"),
    [
        (np.zeros((3, 1, 4, 5)), "asks? for"),
        (np.full((3, 1, 4, 4), 1.5), "attribute 'a', row 1: a pixel is no number in"),
        (np.full((3, 1, 4, 4), np.nan), "row 1"),
    ],
)
def test_what_is_no_image_is_refused_by_name(pixels, complaint):
    with pytest.raises(SchemaError, match=complaint):
        Encoding.fit(Schema([image("a", (1, 4, 4))]), {}, np.array([[False], [True], [True]])).encode(
            {"a": pixels}, np.array([[False], [True], [True]])
        )


# --- the networks


def test_a_reader_is_one_plain_network_a_member_and_image():
    block = Schema([image("a", SHAPE), image("b", SHAPE)]).blocks[0]
    encoder = ImageEncoder(block, ImageSettings(members=3, net="conv", channels=4, width=7))
    x = torch.rand(1, 5, 2, *SHAPE)
    features = encoder(x)
    assert features.shape == (3, 5, 2, 7)
    for e in range(3):
        for j in range(2):
            h = x[0, :, j]
            for halving in encoder.halvings:
                h = F.relu(F.conv2d(h, halving.weight[e, j], halving.bias[e, j], 2, 1))
            alone = F.relu(h.flatten(1) @ encoder.last.weight[e, j] + encoder.last.bias[e, j])
            torch.testing.assert_close(features[e, :, j], alone)


def test_a_painter_is_one_plain_network_a_member_and_image():
    block = Schema([image("a", SHAPE), image("b", SHAPE)]).blocks[0]
    decoder = ImageDecoder(block, ImageSettings(members=3, net="conv", channels=4, width=7))
    raw = torch.randn(3, 5, decoder.n_in)
    pixels = decoder(raw).unflatten(-1, (2, *SHAPE))
    for e in range(3):
        for j in range(2):
            h = raw[e].unflatten(-1, (2, *stages(SHAPE, 4)[-1]))[:, j]
            for doubling in decoder.doublings:
                more = [a - 2 * b for a, b in zip(doubling.target, h.shape[-2:], strict=True)]
                h = F.conv_transpose2d(F.relu(h), doubling.weight[e, j], doubling.bias[e, j], 2, 1, more)
            torch.testing.assert_close(pixels[e, :, j], h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net", ["conv", "flat"])
def test_what_is_hidden_is_never_read(net):
    schema, columns, mask = bars(20)
    batch = Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()
    model = VSAE(schema, VSAEConfig(**SMALL, image_net=net, features="plain", gaussian=False))
    missing = ~batch.mask[..., :2, None, None, None]
    other = type(batch)({**batch.values, "image1x8x8": batch.values["image1x8x8"] + 0.5 * missing}, batch.mask)
    assert torch.equal(model.propose(batch).selective.loc, model.propose(other).selective.loc)
    assert not torch.equal(model.propose(batch).attributive.loc, model.propose(other).attributive.loc)


def test_members_are_independent():
    schema, columns, mask = bars(10)
    batch = Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()
    ensemble = VSAE(schema, VSAEConfig(**SMALL).replace(members=3)).eval()
    q = ensemble.propose(batch).selective
    decoded = ensemble.decode(q.loc, None).data["image1x8x8"].mean
    for e in range(3):
        one = ensemble.select_members([e])
        torch.testing.assert_close(one.propose(batch).selective.loc[0], q.loc[e])
        torch.testing.assert_close(one.decode(q.loc[e : e + 1], None).data["image1x8x8"].mean[0], decoded[e])


# --- the likelihoods


def test_pixel_likelihoods_are_scipys():
    logits, values = torch.randn(2, 3, 1, 1, 4, 4), torch.randint(256, (1, 3, 1, 1, 4, 4)) / 255
    log_scale = torch.tensor([-1.0, -2.0]).view(2, 1, 1, 1, 1, 1)
    p, x, scale = (t.double().numpy() for t in (torch.sigmoid(logits), values, log_scale.exp()))
    total = (2, 3, 1, 16)
    gaussian = stats.norm.logpdf(x, p, scale).reshape(total).sum(-1)
    np.testing.assert_allclose(GaussianImage(logits, log_scale).log_prob(values), gaussian, rtol=1e-4)
    bernoulli = (x * np.log(p) + (1 - x) * np.log1p(-p)).reshape(total).sum(-1)
    np.testing.assert_allclose(BernoulliImage(logits).log_prob(values), bernoulli, rtol=1e-4)
    low = np.where(x <= 0, -np.inf, x - 0.5 / 255)
    high = np.where(x >= 1, np.inf, x + 0.5 / 255)
    mass = np.log(stats.norm.cdf(high, p, scale) - stats.norm.cdf(low, p, scale)).reshape(total).sum(-1)
    np.testing.assert_allclose(DiscretisedImage(logits, log_scale).log_prob(values), mass, rtol=1e-3)


def test_grey_values_have_probabilities_that_add_up():
    grey = (torch.arange(256) / 255).view(1, 256, 1, 1, 1, 1)
    images = DiscretisedImage(torch.full_like(grey, 0.3), torch.full((1, 1, 1, 1, 1, 1), -2.0))
    assert float(images.log_prob(grey).exp().sum()) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("pixels", ["gaussian", "bernoulli", "discretised"])
def test_the_variance_of_pixels_is_fixed_or_learned(pixels):
    block = Schema([image("a", (1, 4, 4), pixels=pixels)]).blocks[0]
    assert not list(head_for(block, 2, "cell", 0.1).parameters())
    assert len(list(head_for(block, 2, "cell", None).parameters())) == (pixels != "bernoulli")
    images = head_for(block, 2, "cell", 0.25)(torch.zeros(2, 3, 16))
    assert torch.equal(images.mean, torch.full((2, 3, 1, 1, 4, 4), 0.5))
    assert torch.equal(images.sample(), images.mean)
    if pixels == "gaussian":
        torch.testing.assert_close(images.log_scale.exp() ** 2, torch.full((2, 1, 1, 1, 1, 1), 0.25))


@pytest.mark.parametrize("pixels", ["gaussian", "bernoulli"])
def test_expected_log_prob_of_a_point_is_its_log_prob(pixels):
    block = Schema([image("a", (1, 4, 4), pixels=pixels)]).blocks[0]
    images = head_for(block, 1, "cell", 0.1)(torch.randn(1, 3, 16))
    x = torch.rand(1, 3, 1, 1, 4, 4)
    point = x if pixels == "bernoulli" else torch.stack([x, x**2], dim=-1)
    torch.testing.assert_close(images.expected_log_prob(point), images.log_prob(x))


# --- the objective


def test_balance_divides_by_a_power_of_the_entries():
    schema = Schema([real("x"), image("a", (1, 4, 4)), vector("v", 9), categorical("c", 5)])
    assert VSAE(schema, VSAEConfig(**SMALL)).balance.tolist() == pytest.approx([1, 1 / 4, 1 / 3, 1])
    assert VSAE(schema, VSAEConfig.paper()).balance.tolist() == [1, 1, 1, 1]


def test_the_terms_are_unweighted_and_the_loss_is_balanced():
    schema, columns, mask = bars(10)
    batch = Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()
    config = VSAEConfig(**SMALL, kl_visible=0.0, kl_hidden=0.0, mask_weight=0.0)
    model = VSAE(schema, config)
    torch.manual_seed(1)
    terms, value = objective(model, batch, batch.usable, None)
    expected = -(terms.x_observed * model.balance).sum(-1).mean(-1).sum()
    torch.testing.assert_close(value, expected)
    torch.manual_seed(1)
    torch.testing.assert_close(elbo(model, batch).x_observed, terms.x_observed)


# --- the whole


def errors_given_all_others(fitted, n: int = 100) -> dict[str, float]:
    """Squared error (or share of wrong labels) of each attribute, alone hidden, relative to its mean's (or 3/4)."""
    schema, columns, _ = bars(n, seed=1)
    out = {}
    for i, name in enumerate(schema.names):
        mask = np.ones((n, len(schema)), dtype=bool)
        mask[:, i] = False
        filled, x = fitted.impute(columns, mask)[name], columns[name]
        if name == "place":
            out[name] = float((filled != x).mean() / 0.75)
        else:
            out[name] = float(((filled - x) ** 2).mean() / ((x - x.mean(0)) ** 2).mean())
    return out


@pytest.fixture(scope="module")
def fitted():
    torch.manual_seed(0)
    schema, columns, mask = bars(400)
    return fit(schema, columns, mask, VSAEConfig(**{**SMALL, "steps": 250}), seed=0)


def test_each_modality_is_learned_from_the_others(fitted):
    for name, error in errors_given_all_others(fitted).items():
        assert error < 0.25, name


def test_every_use_of_a_model_takes_images(fitted, tmp_path):
    _, columns, mask = bars(30, seed=2)
    columns["lying"] = np.rint(255 * columns["lying"]).astype(np.uint8)
    filled = fitted.impute(columns, mask)
    assert filled["lying"].dtype == np.uint8
    assert np.array_equal(filled["upright"][mask[:, 0]], columns["upright"][mask[:, 0]])
    for table in (*fitted.draw(columns, mask, 2), *fitted.quantiles(columns, mask, [0.1, 0.9], draws=10)):
        assert table["upright"].shape == (30, 1, 8, 8)
        assert 0 <= table["upright"].min() <= table["upright"].max() <= 1
    rows, masks = fitted.generate(7)
    assert rows["lying"].shape == (7, 1, 8, 8)
    assert masks.shape == (7, 4)
    rows, _ = fitted.generate(3, given={"place": 2})
    assert rows["upright"].shape == (3, 1, 8, 8)
    assert fitted.embed(columns, mask).shape == (30, 4, 4)
    assert fitted.missing_probability(columns, mask).shape == (30, 4)
    fitted.save(tmp_path / "model")
    again = FittedVSAE.load(tmp_path / "model").impute(columns, mask)
    assert all(np.array_equal(again[name], filled[name]) for name in filled)


def test_the_paper_preset_takes_images():
    schema, columns, mask = bars(60)
    small = {"epochs": 2, "e_step_warmup": 1, "e_step_samples": 5, "latent_dim": 4}
    model = fit(schema, columns, mask, VSAEConfig.paper(**small))
    assert not list(model.model.image_encoders.parameters())
    assert model.history.records[-1]["x_unobserved"][0] < 0
    assert np.isfinite(model.impute(columns, mask)["upright"]).all()


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.takes_images])
@pytest.mark.parametrize("net", ["conv", "flat"])
def test_baselines_take_images(name, net):
    schema, columns, mask = bars(60)
    config = VSAEConfig.paper(epochs=2, latent_dim=4, image_net=net, channels=4, image_features=8)
    config = baseline_config(BASELINES[name], schema, config)
    filled = fit_baseline(BASELINES[name], schema, columns, mask, config).impute(columns, mask)
    assert filled["upright"].shape == (60, 1, 8, 8)
    assert np.isfinite(filled["upright"]).all()


def test_an_image_may_share_its_latent_with_a_number():
    schema, columns, mask = bars(30)
    schema = Schema([group("both", image("upright", (1, 8, 8)), real("number")), image("lying", (1, 8, 8))])
    model = fit(schema, columns, mask[:, :2], VSAEConfig(**{**SMALL, "steps": 5}))
    assert np.isfinite(model.impute(columns, mask[:, :2])["upright"]).all()
