"""Every likelihood against scipy, or against its own definition; gradients and moments included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit

from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, binary, categorical, count, ordinal, positive, real, vector
from vsae.model.likelihoods import Bernoulli, Gaussian, Vector, head_for
from vsae.model.likelihoods.gaussian import CensoredGaussian, log_normal_mass
from vsae.model.likelihoods.levels import Cumulative, SegmentedCategorical, Segments

LOC, LOG_SCALE = torch.randn(1, 50, 3), 0.4 * torch.randn(1, 50, 3)
GRAD_CHECK = {"eps": 1e-6, "atol": 1e-4, "nondet_tol": 0.0}


def cutpoints(*inner: list[float]) -> torch.Tensor:
    most = max(len(c) for c in inner)
    return torch.tensor([[[[-1e4, *c, *[1e4] * (most - len(c) + 1)] for c in inner]]])


SEGMENTS = Segments((2, 5, 1))
FAMILIES = {
    "gaussian": Gaussian(LOC, LOG_SCALE),
    "interval": CensoredGaussian(LOC, LOG_SCALE),
    "vector": Vector(Gaussian(torch.randn(1, 50, 2, 3), 0.3 * torch.randn(1, 50, 2, 3))),
    "bernoulli": Bernoulli(LOC),
    "categorical": SegmentedCategorical(torch.randn(1, 50, 8), SEGMENTS),
    "cumulative": Cumulative(LOC, LOG_SCALE, cutpoints([-1.0, 0.5, 1.0], [0.0], [])),
}


def test_gaussian_is_scipys_normal():
    x = torch.randn(1, 50, 3)
    expected = stats.norm.logpdf(x, LOC, LOG_SCALE.exp())
    np.testing.assert_allclose(FAMILIES["gaussian"].log_prob(x), expected, rtol=1e-4, atol=1e-4)


def test_vector_sums_over_entries():
    x, d = torch.randn(1, 50, 2, 3), FAMILIES["vector"].entries
    expected = stats.norm.logpdf(x, d.loc, d.log_scale.exp()).sum(-1)
    np.testing.assert_allclose(FAMILIES["vector"].log_prob(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("attribute", "draw", "reference"),
    [
        (positive("x"), lambda r: r.lognormal(2, 0.7, 200), "lognormal"),
        (real("x", min=0), lambda r: np.maximum(r.normal(1, 2, 200), 0), "tobit"),
        (real("x"), lambda r: r.normal(1e6, 3, 200), "normal"),
    ],
)
def test_density_in_natural_units_is_scipys(attribute, draw, reference):
    """log p(y) + log |dy/dx| is the density of x itself, whatever the warp."""
    x = draw(np.random.default_rng(0))
    mask, columns = np.ones((200, 1), dtype=bool), {"x": x}
    encoding = Encoding.fit(Schema([attribute]), columns, mask)
    (name, y), mu, sigma = *encoding.encode(columns, mask).values.items(), 0.3, 0.8
    make = CensoredGaussian if name == "interval" else Gaussian
    ours = make(torch.full((200, 1), mu), torch.full((200, 1), np.log(sigma))).log_prob(y).numpy()
    ours = ours + encoding.log_jacobian(columns, mask)[name]
    a, s = encoding.loc[name][0], encoding.scale[name][0]
    loc, scale = a + s * mu, s * sigma
    expected = {
        "lognormal": lambda: stats.lognorm.logpdf(x, scale, scale=np.exp(loc)),
        "normal": lambda: stats.norm.logpdf(x, loc, scale),
        "tobit": lambda: np.where(x > 0, stats.norm.logpdf(x, loc, scale), stats.norm.logcdf(0, loc, scale)),
    }[reference]()
    np.testing.assert_allclose(ours[:, 0], expected, rtol=2e-3, atol=2e-3)


def test_count_is_a_rounded_normal_and_sums_to_one():
    k = np.arange(0, 61.0)
    columns, mask = {"k": k}, np.ones((61, 1), dtype=bool)
    encoding = Encoding.fit(Schema([count("k", min=0, max=60)]), columns, mask)
    y = encoding.encode(columns, mask).values["interval"][None]
    d = CensoredGaussian(torch.full(y.shape[:3], 0.2), torch.full(y.shape[:3], -0.5))
    loc, scale = encoding.loc["interval"][0], encoding.scale["interval"][0]
    normal = stats.norm(loc + scale * 0.2, scale * np.exp(-0.5))
    expected = normal.cdf(k + 0.5) - normal.cdf(k - 0.5)
    expected[0], expected[-1] = normal.cdf(0.5), normal.sf(59.5)
    mass = d.log_prob(y).exp().numpy()[0, :, 0]
    np.testing.assert_allclose(mass, expected, rtol=1e-3, atol=1e-6)
    assert mass.sum() == pytest.approx(1.0, abs=1e-4)


def test_rounded_draws_have_the_rounded_distribution():
    columns, mask = {"k": np.arange(6.0)}, np.ones((6, 1), dtype=bool)
    encoding = Encoding.fit(Schema([count("k", min=0, max=5)]), columns, mask)
    y = encoding.encode(columns, mask).values["interval"][None]
    one = lambda n: CensoredGaussian(torch.full((1, n, 1), -0.5), torch.full((1, n, 1), 0.1))  # noqa: E731
    draws = encoding.decode({"interval": one(40_000).sample().numpy()[0]})["k"]
    share = np.bincount(draws.astype(int), minlength=6) / 40_000
    np.testing.assert_allclose(share, one(6).log_prob(y).exp().numpy()[0, :, 0], atol=0.01)


@pytest.mark.parametrize("width", [1e-6, 1e-3, 0.0099, 0.0101, 1.0, 30.0])
def test_normal_mass_in_tails_and_slivers(width):
    a = torch.linspace(-30, 30, 41, dtype=torch.float64)
    ours = log_normal_mass(a.float(), (a + width).float(), torch.full((41,), width)).double().numpy()
    flipped = np.where(a + width / 2 > 0, -(a + width), a)
    upper, lower = stats.norm.logcdf(flipped + width), stats.norm.logcdf(flipped)
    expected = upper + np.log(-np.expm1(lower - upper))
    if width == 1e-6:  # the reference itself has no digits left: use the density
        expected = stats.norm.logpdf(flipped + width / 2) + np.log(width)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=5e-3)


@pytest.mark.parametrize("width", [1e-3, 0.02, 1.0, 30.0])
def test_the_derivatives_of_normal_mass_are_densities_divided_by_it(width):
    a = torch.linspace(-40, 40, 81, dtype=torch.float64).float().requires_grad_()
    b = (a.detach() + width).requires_grad_()
    log_normal_mass(a, b, torch.full_like(a, width)).sum().backward()
    low, high = np.sort([a.detach().double().numpy(), a.detach().double().numpy() + width], axis=0)
    left = low + high <= 0
    low, high = np.where(left, low, -high), np.where(left, high, -low)
    mass = stats.norm.logcdf(high) + np.log(-np.expm1(stats.norm.logcdf(low) - stats.norm.logcdf(high)))
    of_low, of_high = np.exp(stats.norm.logpdf(low) - mass), np.exp(stats.norm.logpdf(high) - mass)
    # of a sliver, the derivative by its width is told apart from that by its place
    shift = np.where(left, of_high - of_low, of_low - of_high)
    np.testing.assert_allclose((a.grad + b.grad).numpy(), shift, rtol=2e-3, atol=2e-3)
    if width >= 0.02:
        np.testing.assert_allclose(b.grad.numpy(), np.where(left, of_high, of_low), rtol=2e-3, atol=2e-3)


def test_normal_mass_has_finite_gradients_everywhere():
    a = torch.tensor([-1e9, -1e6, -50.0, 0.0, 1e4, -1e6, 3.0], requires_grad=True)
    b = torch.tensor([1e9, -1e3, -49.0, 1e-9, 2e4, 1e6, 1e6], requires_grad=True)
    log_normal_mass(a, b, b - a).sum().backward()
    assert torch.isfinite(torch.cat([a.grad, b.grad])).all()


def test_bernoulli_is_scipys():
    x = torch.randint(0, 2, (1, 50, 3))
    expected = stats.bernoulli.logpmf(x, expit(LOC.double()))
    np.testing.assert_allclose(FAMILIES["bernoulli"].log_prob(x), expected, rtol=1e-4, atol=1e-5)


def test_categorical_is_a_softmax_per_variable():
    d = FAMILIES["categorical"]
    x = torch.stack([torch.randint(0, k, (1, 50)) for k in (2, 5, 1)], dim=-1)
    expected = [
        torch.distributions.Categorical(logits=part).log_prob(x[..., j])
        for j, part in enumerate(d.logits.split([2, 5, 1], dim=-1))
    ]
    torch.testing.assert_close(d.log_prob(x), torch.stack(expected, dim=-1))
    torch.testing.assert_close(SEGMENTS.sum(d.mean), torch.ones(1, 50, 3))
    torch.testing.assert_close(d.mean, d.log_probs.exp())


def test_segmented_softmax_survives_extreme_logits():
    d = SegmentedCategorical(torch.tensor([[[1e4, -1e4, 500.0, -500.0, 0.0, 3.0, 2.0, -1e5]]]), SEGMENTS)
    torch.testing.assert_close(d.log_prob(torch.tensor([[[0, 0, 0]]])), torch.zeros(1, 1, 3))


def test_cumulative_is_a_difference_of_logistics():
    d = FAMILIES["cumulative"]
    logistic = stats.logistic(LOC[..., :1].double(), LOG_SCALE[..., :1].double().exp())
    expected = np.diff(logistic.cdf(np.array([-np.inf, -1.0, 0.5, 1.0, np.inf])), axis=-1)
    np.testing.assert_allclose(d.mean[:, :, 0].numpy(), expected, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(d.mean.sum(-1), torch.ones(1, 50, 3))
    x = torch.stack([torch.randint(0, k, (1, 50)) for k in (4, 2, 1)], dim=-1)
    torch.testing.assert_close(d.log_prob(x), d.log_probs.gather(-1, x[..., None])[..., 0])


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_match_finite_differences(name):
    d = FAMILIES[name]
    if name == "interval":
        centre = torch.randn(1, 50, 3)
        x = torch.stack([centre, centre - 0.2, centre + 0.2], dim=-1).double()
    elif name in ("gaussian", "vector"):
        x = torch.randn(d.mean.shape, dtype=torch.float64)
    elif name == "bernoulli":
        x = torch.randint(0, 2, (1, 50, 3))
    else:
        x = torch.stack([torch.randint(0, k, (1, 50)) for k in ((2, 5, 1) if name == "categorical" else (4, 2, 1))], -1)
    make = {
        "gaussian": (Gaussian, [LOC, LOG_SCALE]),
        "interval": (CensoredGaussian, [LOC, LOG_SCALE]),
        "vector": (lambda a, b: Vector(Gaussian(a, b)), [d.mean, torch.zeros_like(d.mean)]),
        "bernoulli": (Bernoulli, [LOC]),
        "categorical": (lambda logits: SegmentedCategorical(logits, SEGMENTS), [torch.randn(1, 50, 8)]),
        "cumulative": (lambda a, b: Cumulative(a, b, d.cutpoints.double()), [LOC, LOG_SCALE]),
    }[name]
    inputs = [p.double().clone().requires_grad_() for p in make[1]]
    assert torch.autograd.gradcheck(lambda *p: make[0](*p).log_prob(x).sum(), inputs, **GRAD_CHECK)


@pytest.mark.parametrize("name", ["gaussian", "interval", "vector"])
def test_sampled_moments_of_numbers(name):
    d = FAMILIES[name]
    draws = torch.stack([d.sample() for _ in range(4000)])
    torch.testing.assert_close(draws.mean(0), d.mean, atol=0.25, rtol=0.0)
    torch.testing.assert_close(draws.std(0), d.scale, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "cumulative"])
def test_sampled_frequencies_of_levels(name):
    d = FAMILIES[name]
    draws = torch.stack([d.sample() for _ in range(4000)])
    share = (draws == 1).float().mean(0)  # of level 1, in each variable
    one = torch.ones(1, 50, 3, dtype=torch.long)
    has_level_one = torch.tensor([True, True, name == "bernoulli"])
    expected = torch.where(has_level_one, d.log_prob(one * has_level_one).exp(), 0.0)
    torch.testing.assert_close(share, expected, atol=0.05, rtol=0.0)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "cumulative"])
def test_mode_is_the_likeliest_level(name):
    d = FAMILIES[name]
    best = d.log_prob(d.mode)
    for level in range(5):
        for j, size in enumerate({"bernoulli": (2, 2, 2), "categorical": (2, 5, 1), "cumulative": (4, 2, 1)}[name]):
            if level < size:
                x = torch.zeros(1, 50, 3, dtype=torch.long)
                x[..., j] = level
                assert (best[..., j] >= d.log_prob(x)[..., j]).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_expected_log_prob_is_the_average_over_targets(name):
    """The E step keeps statistics of 20 decoded targets; the average of 20 log-likelihoods is the same."""
    d = FAMILIES[name]
    rows = 10  # 50 rows = 5 targets for each of 10
    statistics = d.statistics.unflatten(1, (5, rows)).mean(1)
    first = _first_rows(d, rows)
    expected = torch.zeros(1, rows, d.log_prob(_zeros_for(name)).shape[-1])
    for target in range(5):
        part = d.statistics.unflatten(1, (5, rows))[:, target]
        if name in ("gaussian", "interval"):
            expected += Gaussian(first.loc, first.log_scale).log_prob(part[..., 0]) / 5
        elif name == "vector":
            expected += first.log_prob(part[..., 0]) / 5
        elif name == "bernoulli":
            ones = torch.ones(1, rows, 3, dtype=torch.long)
            expected += (part * first.log_prob(ones) + (1 - part) * first.log_prob(0 * ones)) / 5
        elif name == "categorical":
            expected += (
                torch.stack(
                    [
                        (a * b).sum(-1)
                        for a, b in zip(part.split([2, 5, 1], -1), first.log_probs.split([2, 5, 1], -1), strict=True)
                    ],
                    -1,
                )
                / 5
            )
        else:
            expected += (part * first.log_probs.clamp_min(-1e4)).sum(-1) / 5
    torch.testing.assert_close(first.expected_log_prob(statistics), expected, rtol=1e-4, atol=1e-4)


def _zeros_for(name):
    if name == "vector":
        return torch.zeros(1, 50, 2, 3)
    if name == "interval":
        return torch.zeros(1, 50, 3, 3)
    return torch.zeros(1, 50, 3, dtype=torch.float32 if name == "gaussian" else torch.long)


def _first_rows(d, rows):
    if isinstance(d, Vector):
        return Vector(Gaussian(d.entries.loc[:, :rows], d.entries.log_scale[:, :rows]))
    if isinstance(d, SegmentedCategorical):
        return SegmentedCategorical(d.logits[:, :rows], d.segments)
    if isinstance(d, Bernoulli):
        return Bernoulli(d.logits[:, :rows])
    if isinstance(d, Cumulative):
        return Cumulative(d.location[:, :rows], d.log_scale[:, :rows], d.cutpoints)
    return type(d)(d.loc[:, :rows], d.log_scale[:, :rows])


def test_error_is_squared_error_or_brier_score():
    x = torch.stack([torch.randint(0, k, (1, 50)) for k in (2, 5, 1)], dim=-1)
    d = FAMILIES["categorical"]
    parts = [
        ((p - torch.nn.functional.one_hot(x[..., j], p.shape[-1])) ** 2).sum(-1)
        for j, p in enumerate(d.mean.split([2, 5, 1], dim=-1))
    ]
    torch.testing.assert_close(d.error(x), torch.stack(parts, dim=-1))
    bit = torch.randint(0, 2, (1, 50, 3))
    b = FAMILIES["bernoulli"]
    torch.testing.assert_close(b.error(bit), (bit - b.mean) ** 2 + ((1 - bit) - (1 - b.mean)) ** 2)


@pytest.mark.parametrize("variance", ["cell", "column", "fixed"])
def test_heads_ask_for_what_they_read(variance):
    schema = Schema(
        [
            real("a"),
            count("k"),
            binary("b"),
            categorical("c", 4),
            ordinal("o", 3),
            ordinal("p", 1),
            vector("v", 2),
        ]
    )
    for block in schema.blocks:
        head = head_for(block, 2, variance)
        d = head(torch.randn(2, 6, head.n_parameters))
        assert d.sample().shape[:2] == (2, 6)
        assert torch.isfinite(d.mean).all()
    fixed = head_for(schema.blocks[0], 1, "fixed")(torch.zeros(1, 1, 1))
    assert float(fixed.log_prob(torch.ones(1, 1, 1)) - fixed.log_prob(torch.zeros(1, 1, 1))) == pytest.approx(-1.0)


def test_a_sample_with_a_generator_repeats_and_leaves_the_global_state_alone():
    for d in FAMILIES.values():
        before = torch.get_rng_state()
        one, two = (d.sample(torch.Generator().manual_seed(3)) for _ in range(2))
        assert torch.equal(one, two)
        assert torch.equal(before, torch.get_rng_state())
