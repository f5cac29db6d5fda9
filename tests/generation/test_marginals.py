"""Generated columns have the distributions that the data's have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, categorical, count, real
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.generation.marginals import Drawn, MarginalMap, Marginals
from vsae.model.config import VSAEConfig

ZEROS = Schema([real("gain"), real("half")])


def zero_inflated(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return {"gain": np.where(z > 1.0, np.round(np.exp(z), 2), 0.0), "half": np.round(2 * (z + rng.normal(size=n))) / 2}


def mapped(columns, mask, hidden, drawn, generated, schema=ZEROS):
    marginals = Marginals.of(schema, columns, mask, hidden, Drawn({"gaussian": drawn}, {}))
    made = Drawn({"gaussian": generated}, {})
    encoding = Encoding.fit(schema, columns, mask)
    return MarginalMap.of(schema, marginals, made)(encoding, made, np.random.default_rng(0))


def test_ranks_stay_and_values_are_the_columns_own():
    columns = zero_inflated(2000)
    mask = np.ones((2000, 2), dtype=bool)
    generated = np.random.default_rng(1).normal(size=(5000, 2))
    out = mapped(columns, mask, np.zeros_like(mask), np.zeros((2000, 2)), generated)
    order = np.argsort(generated[:, 0])
    assert (np.diff(out["gain"][order]) >= 0).all()
    assert (out["gain"] == 0).mean() == pytest.approx((columns["gain"] == 0).mean(), abs=0.02)
    assert np.array_equal(np.round(out["gain"], 2), out["gain"])  # two decimals, as in the data
    assert set(out["half"]) <= set(columns["half"])
    assert stats.ks_2samp(out["half"], columns["half"]).statistic < 0.04
    assert out["gain"].max() <= columns["gain"].max()


def test_what_is_missing_may_be_distributed_otherwise():
    """Draws for missing cells lie higher than those for hidden known ones: so do the values they stand for."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 1))
    mask = rng.random((4000, 1)) > stats.norm.cdf(2 * x)  # high values hide
    hidden = mask & (rng.random((4000, 1)) < 0.3)
    schema = Schema([real("x")])
    out = mapped({"x": x[:, 0]}, mask, hidden, x, rng.normal(size=(4000, 1)), schema)
    seen = x[mask].mean()
    assert seen < -0.4
    assert out["x"].mean() > seen + 0.25  # not all the way: hidden cells know nothing beyond the values seen


def test_a_column_never_observed_is_left_to_the_decoder():
    columns = {"gain": np.zeros(50), "half": np.arange(50.0)}
    mask = np.zeros((50, 2), dtype=bool)
    mask[:, 1] = True
    out = mapped(columns, mask, np.zeros_like(mask), np.zeros((50, 2)), np.random.default_rng(0).normal(size=(100, 2)))
    assert list(out) == ["half"]


def test_shares_of_levels_are_the_data_s_and_rows_keep_their_leaning():
    rng = np.random.default_rng(0)
    schema = Schema([categorical("c", 3)])
    codes = rng.choice(3, size=900, p=[0.6, 0.3, 0.1])
    mask = np.ones((900, 1), dtype=bool)
    share = rng.dirichlet([1.0, 1.0, 1.0], size=900)
    marginals = Marginals.of(schema, {"c": codes}, mask, ~mask, Drawn({}, {"c": share}))
    made = Drawn({}, {"c": share})
    encoding = Encoding.fit(schema, {"c": codes}, mask)
    out = MarginalMap.of(schema, marginals, made)(encoding, made, rng)["c"]
    np.testing.assert_allclose(np.bincount(out) / 900, np.bincount(codes) / 900, atol=0.02)
    assert share[out == 2, 2].mean() > share[out != 2, 2].mean() + 0.2  # it is not a lottery


def test_shares_allow_for_levels_that_go_missing():
    """Level 1 hides; the draws know it, and so do the shares."""
    rng = np.random.default_rng(0)
    schema = Schema([categorical("c", 2)])
    codes = (rng.random(4000) < 0.5).astype(int)
    mask = (rng.random((4000, 1)) < 0.3) | (codes == 0)[:, None]
    hidden = mask & (rng.random((4000, 1)) < 0.3)
    share = np.eye(2)[codes] * 0.9 + 0.05
    marginals = Marginals.of(schema, {"c": codes}, mask, hidden, Drawn({}, {"c": share}))
    assert codes[mask[:, 0]].mean() < 0.3
    assert marginals.shares["c"][1] == pytest.approx(0.5, abs=0.05)


def test_generated_rows_have_the_data_s_distribution_also_after_a_file(tmp_path):
    columns = zero_inflated(600)
    columns["visits"] = np.random.default_rng(2).poisson(2.0, 600)
    schema = Schema([real("gain"), real("half"), count("visits")])
    mask = np.random.default_rng(3).random((600, 3)) < 0.8
    fitted = fit(schema, columns, mask, VSAEConfig(members=1, steps=60))
    rows, _ = fitted.generate(2000, seed=1)
    for name, i in (("gain", 0), ("half", 1), ("visits", 2)):
        assert stats.ks_2samp(rows[name], columns[name][mask[:, i]]).statistic < 0.1
    assert set(np.unique(rows["visits"])) <= set(columns["visits"])
    fitted.save(tmp_path / "model")
    again, _ = FittedVSAE.load(tmp_path / "model").generate(2000, seed=1)
    assert all(np.array_equal(rows[name], again[name]) for name in rows)


def test_the_papers_preset_keeps_what_is_decoded():
    columns = zero_inflated(100)
    assert fit(ZEROS, columns, np.ones((100, 2), dtype=bool), VSAEConfig.paper(epochs=1)).marginal_map is None
