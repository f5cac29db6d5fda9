"""Held-out cells decide how far an estimate shrinks, column by column."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from vsae.data.schema import Schema, categorical, ordinal, real
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.imputation.platt_scaling import PlattScaling
from vsae.imputation.shrinkage import _LEANING_LEVELS, Shrinkage, _exponents, _logs, _softmax
from vsae.model.config import VSAEConfig

SCHEMA = Schema([real("useful"), real("noise"), categorical("clear", 3), categorical("coin", 2)])


@pytest.fixture
def cells():
    """1000 rows, all held out: estimates that know one number and one category, and are sure of noise in the others."""
    rng = np.random.default_rng(0)
    n = 1000
    columns = {
        "useful": 5 + 2 * rng.normal(size=n),
        "noise": rng.normal(size=n),
        "clear": rng.integers(0, 3, n),
        "coin": (rng.random(n) < 0.2).astype(int),
    }
    sure = lambda code, size: np.eye(size)[code] * 0.9 + 0.1 / size  # noqa: E731
    estimates = {
        "useful": columns["useful"] + 0.1 * rng.normal(size=n),
        "noise": rng.normal(size=n),
        "clear": sure(columns["clear"], 3),
        "coin": sure((rng.random(n) < 0.5).astype(int), 2),
    }
    known, held = np.ones((2 * n, 4), dtype=bool), np.zeros((2 * n, 4), dtype=bool)
    held[:n] = True  # the second half shows what is trivial
    twice = lambda x: {name: np.concatenate([values, values]) for name, values in x.items()}  # noqa: E731
    return twice(columns), known, held, twice(estimates)


def test_what_is_known_is_kept_and_noise_is_not(cells):
    shrinkage = Shrinkage.fit(SCHEMA, *cells)
    assert shrinkage.weight["useful"] > 0.95
    assert shrinkage.weight["noise"] < 0.1
    assert shrinkage.weight["clear"] > 0.9
    assert shrinkage.weight["coin"] < 0.1


def test_shrunk_estimates_do_not_lose_to_the_trivial_ones(cells):
    columns, _, _, estimates = cells
    shrunk = Shrinkage.fit(SCHEMA, *cells)(estimates)
    noise = columns["noise"]
    assert ((shrunk["noise"] - noise) ** 2).mean() < 1.02 * noise.var()
    assert (shrunk["coin"].argmax(1) != columns["coin"]).mean() <= columns["coin"].mean()
    for name in ("clear", "coin"):
        np.testing.assert_allclose(shrunk[name].sum(1), 1.0)


def by_trees_of(cells, names, share: float = 0.0):
    """Known cells of some columns as trees might predict them: with this share of the truth, or noise."""
    rng, columns, out = np.random.default_rng(5), cells[0], {}
    for name in names:
        x = columns[name]
        if x.dtype.kind == "f":
            out[name] = x, share * (x - x.mean()) + rng.normal(size=len(x))
        else:
            levels = int(x.max()) + 1
            guess = np.where(rng.random(len(x)) < share, x, rng.permutation(x))
            out[name] = x, 0.8 * np.eye(levels)[guess] + 0.2 / levels
    return out


def few(cells, n: int = 30):
    """The same rows, of which so few are held out."""
    columns, known, held, estimates = cells
    return columns, known, held & (np.arange(len(held)) < n)[:, None], estimates


def test_known_cells_predicted_by_trees_tell_noise_from_what_is_told(cells):
    """A dozen held-out cells can not."""
    alone = Shrinkage.fit(SCHEMA, *few(cells, 4))
    noise, told = (Shrinkage.fit(SCHEMA, *few(cells, 4), None, by_trees_of(cells, ["coin"], s)) for s in (0.0, 0.9))
    assert noise.weight["coin"] < 0.2 < alone.weight["coin"] < told.weight["coin"]


def test_an_estimate_that_is_too_sure_keeps_its_likeliest_level():
    rng = np.random.default_rng(2)
    schema, n = Schema([categorical("level", 8)]), 400
    frequency = np.array([0.65, *[0.05] * 7])
    x = rng.choice(8, n, p=frequency)
    guess = np.where(rng.random(n) < 0.75, x, rng.integers(0, 8, n))
    share = 0.995 * np.eye(8)[guess] + 0.005 / 8  # far too sure
    known, held = np.ones((2 * n, 1), dtype=bool), np.repeat([[True], [False]], n, axis=0)
    twice = {"level": np.concatenate([x, x])}, known, held, {"level": np.concatenate([share, share])}
    shrinkage = Shrinkage.fit(schema, *twice)
    assert shrinkage.weight["level"] < 0.9
    shrunk = shrinkage({"level": share})["level"]
    assert (shrunk.argmax(1) == guess).mean() > 0.99
    assert shrunk.max(axis=1).mean() < 0.9


def test_nothing_to_learn_is_not_what_complete_columns_gain(cells):
    """Which cells are missing may tell a complete column; the others still get means and modes."""
    columns, known, held, estimates = few(cells)
    mask = known.copy()
    mask[-100:, [1, 3]] = False  # noise and coin
    trees = by_trees_of(cells, ["noise", "coin"])
    shrinkage = Shrinkage.fit(SCHEMA, columns, mask, held & mask, estimates, None, trees)
    assert set(shrinkage.weight.values()) == {0.0}
    assert shrinkage(estimates)["coin"].argmax(1).max() == 0
    mask[-100:, 0] = False  # one that is told
    assert Shrinkage.fit(SCHEMA, columns, mask, held & mask, estimates, None, trees).weight["useful"] > 0.9


def test_files_that_know_one_exponent_are_read():
    old = {"trivial": {"coin": [0.6, 0.4]}, "weight": {"coin": 0.25}, "scaling": {"coin": [0.0, 1.0]}}
    shrinkage = Shrinkage.from_json(old)
    assert shrinkage.pull == {"coin": 0.75}
    expected = np.array([0.1, 0.9]) ** 0.25 * np.array([0.6, 0.4]) ** 0.75
    np.testing.assert_allclose(shrinkage({"coin": np.array([[0.1, 0.9]])})["coin"][0], expected / expected.sum())


def test_a_column_with_nothing_to_judge_by_follows_the_others():
    columns = {"useful": np.zeros(40), "noise": np.arange(40.0), "clear": np.zeros(40, int), "coin": np.zeros(40, int)}
    known = np.ones((40, 4), dtype=bool)
    held = np.zeros((40, 4), dtype=bool)
    held[:20, :2] = True
    share = lambda size: np.full((40, size), 1 / size)  # noqa: E731
    estimates = {"useful": np.ones(40), "noise": np.arange(40.0), "clear": share(3), "coin": share(2)}
    shrinkage = Shrinkage.fit(SCHEMA, columns, known, held, estimates)
    assert all(0 <= weight <= 1 for weight in shrinkage.weight.values())
    assert shrinkage.weight["useful"] == shrinkage.weight["noise"] == 1.0
    assert np.isfinite(shrinkage(estimates)["useful"]).all()


def test_it_survives_a_file(tmp_path):
    rng = np.random.default_rng(1)
    columns = {"useful": rng.normal(size=120), "noise": rng.normal(size=120)}
    columns |= {"clear": rng.integers(0, 3, 120), "coin": rng.integers(0, 2, 120)}
    mask = rng.random((120, 4)) < 0.7
    fitted = fit(SCHEMA, columns, mask, VSAEConfig(steps=40, members=1))
    assert fitted.calibration.shrinkage.weight
    fitted.save(tmp_path / "model")
    again = FittedVSAE.load(tmp_path / "model")
    one, other = (f.calibration.shrinkage.to_json() for f in (fitted, again))
    assert json.dumps(one) == json.dumps(other)
    before, after = (f.impute(columns, mask) for f in (fitted, again))
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_it_can_be_switched_off():
    rng = np.random.default_rng(1)
    columns, mask = {"a": rng.normal(size=80), "b": rng.normal(size=80)}, rng.random((80, 2)) < 0.7
    schema = Schema([real("a"), real("b")])
    for config in (VSAEConfig(steps=10, members=1, shrinkage=False), VSAEConfig.paper(epochs=1)):
        assert not fit(schema, columns, mask, config).calibration.shrinkage.weight


def overconfident(n: int, seed: int):
    """Three levels; said to be likely at odds that are the square of the true ones."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet([1.0, 1.0, 1.0], n)
    x = np.array([rng.choice(3, p=p) for p in true])
    return x, true**2 / (true**2).sum(axis=1, keepdims=True)


def test_probabilities_come_to_mean_what_they_say():
    scaling = PlattScaling.fit([overconfident(3000, 0), overconfident(3000, 1)])
    assert scaling.slope < 0.9
    x, said = overconfident(4000, 2)
    corrected = scaling(said)
    np.testing.assert_allclose(corrected.sum(axis=1), 1)
    np.testing.assert_array_equal(corrected.argmax(axis=1), said.argmax(axis=1))
    right = said.argmax(axis=1) == x
    gap = lambda share: abs(share.max(axis=1).mean() - right.mean())  # noqa: E731
    assert gap(corrected) < 0.02 < 0.05 < gap(said)


def test_what_is_right_already_and_what_is_unknown_stay_as_they_are():
    rng = np.random.default_rng(0)
    true = rng.dirichlet([1.0, 1.0], 3000)
    x = (rng.random(3000) < true[:, 1]).astype(int)
    assert PlattScaling.fit([(x, true)]) == pytest.approx((0.0, 1.0), abs=0.1)
    assert PlattScaling.fit([]) == PlattScaling() == (0.0, 1.0)
    certain = np.array([[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(PlattScaling()(certain), certain, atol=1e-5)


def test_a_column_may_be_surer_than_the_others():
    common = PlattScaling()
    x, said = overconfident(3000, 0)
    own = common.shifted(x, said)
    assert own.slope == common.slope
    assert own.shift < -0.2
    few = common.shifted(x[:5], said[:5])
    assert abs(few.shift) < 0.2  # five cells say nothing
    assert common.shifted(x[:0], said[:0]) == common


def test_levels_are_drawn_as_often_as_is_stated():
    """Of all three families of levels, and of a model that is made to state other shares than it decodes."""
    rng = np.random.default_rng(3)
    schema = Schema([categorical("three", 3), categorical("two", 2), ordinal("grade", 4), ordinal("mark", 3)])
    z = rng.normal(size=400)
    columns = {
        "three": np.digitize(z + rng.normal(size=400), [-0.5, 0.5]),
        "two": (z + rng.normal(size=400) > 0).astype(int),
        "grade": np.digitize(z + rng.normal(size=400), [-1, 0, 1]),
        "mark": np.digitize(z, [-0.3, 0.9]),
    }
    mask = rng.random((400, 4)) < 0.6
    fitted = fit(schema, columns, mask, VSAEConfig(steps=80, members=2))
    weight, pull = (dict.fromkeys(columns, share) for share in (0.3, 0.7))
    other = replace(fitted.calibration.shrinkage, weight=weight, pull=pull)
    fitted.calibration = replace(fitted.calibration, shrinkage=other)
    stated, tables = fitted.probabilities(columns, mask), fitted.draw(columns, mask, 200)
    for i, name in enumerate(columns):
        hidden, levels = ~mask[:, i], np.arange(stated[name].shape[1])
        drawn = (np.stack([table[name] for table in tables])[:, :, None] == levels).mean(axis=0)
        assert np.abs(drawn - stated[name])[hidden].mean() < 0.06  # .02 by chance; .10 to .13 if drawn as decoded


def test_exponents_are_where_the_likelihood_is_greatest():
    """A step to any side is worse, where cells count differently and the estimate is too sure."""
    x, said = overconfident(300, 0)
    frequency = np.array([0.5, 0.3, 0.2])
    parts = [(x[:200], said[:200], 1.0), (x[200:], said[200:], 0.3)]

    def value(at):
        weights = np.array(at)
        logs = [(np.log(_softmax(_logs(s, frequency) @ weights)[np.arange(len(y)), y]), c) for y, s, c in parts]
        return sum(c * log.sum() for log, c in logs) - _LEANING_LEVELS / 2 * ((weights - [1, 0]) ** 2).sum()

    (w, v), _ = _exponents(parts, frequency)
    assert 0 < w < 1
    for step in ([0.01, 0], [-0.01, 0], [0, 0.01]):
        assert value((w, v)) > value((w + step[0], v + step[1]))


def test_where_only_the_likeliest_level_is_asked_for_it_is_that_of_the_scaled_probabilities(cells):
    estimates = cells[3]
    shrinkage = Shrinkage.fit(SCHEMA, *cells)
    plain, scaled = shrinkage(estimates, ()), shrinkage(estimates, {"coin"})
    for name in ("clear", "coin"):
        whole = shrinkage(estimates)[name]
        assert not np.array_equal(plain[name], whole)
        np.testing.assert_array_equal(plain[name].argmax(axis=1), whole.argmax(axis=1))
    np.testing.assert_array_equal(scaled["coin"], shrinkage(estimates)["coin"])
    np.testing.assert_array_equal(plain["useful"], shrinkage(estimates)["useful"])
