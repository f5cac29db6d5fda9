"""The literal preset on the paper's own tables."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from vsae.benchmark import paper
from vsae.config import VSAEConfig
from vsae.fitting import fit
from vsae.prior import LatentPrior
from vsae.schema import Schema, real

needs_data = pytest.mark.skipif(
    "VSAE_DATA" not in os.environ, reason="VSAE_DATA is not set: the UCI tables are not here"
)
ROWS = sorted((Path(__file__).parents[1] / "results" / "paper-preset").glob("*.json"))


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("table", paper.TABLES)
def test_trains_with_finite_terms_and_generates_the_right_share_of_holes(table):
    large = table in ("mushroom", "phishing")
    row = paper.run_one(table, 0.5, seed=1, device="cpu", epochs=23 if large else 60)
    assert row["finite"]
    assert row["last_terms"]["x_unobserved"] < 0  # the E step was on
    assert row["missing_sampled"] == pytest.approx(row["missing"], abs=0.02)


def test_committed_rows_reached_the_end_with_finite_terms_and_right_masks():
    found = {(row["table"], row["rate"]) for row in map(json.loads, (path.read_text() for path in ROWS))}
    assert found == {(table, rate) for table in paper.TABLES for rate in paper.RATES}
    for path in ROWS:
        row = json.loads(path.read_text())
        assert row["finite"]
        assert "no better score" in row["stopped"] or row["epochs"] == 1000
        assert row["missing_sampled"] == pytest.approx(row["missing"], abs=0.02)
        preset = json.loads(json.dumps(VSAEConfig.paper().to_json()))
        shared = row["config"].keys() & preset.keys()  # settings may have been added or renamed since
        assert len(shared) > 25
        assert {key: row["config"][key] for key in shared} == {key: preset[key] for key in shared}


@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_masks_sampled_from_the_prior_have_the_tables_share_missing(rate):
    rng = np.random.default_rng(0)
    schema = Schema([real(f"x{i}") for i in range(6)])
    columns = {f"x{i}": rng.normal(size=600) for i in range(6)}
    mask = rng.random((600, 6)) >= rate
    for config in (VSAEConfig.paper(epochs=40, e_step_samples=10), VSAEConfig(steps=150)):
        sampled = fit(schema, columns, mask, config).generate_masks(10_000)
        assert 1 - sampled.mean() == pytest.approx(1 - mask.mean(), abs=0.02)


def test_the_papers_prior_is_standard_normal_and_the_default_is_fitted():
    rng = np.random.default_rng(0)
    schema = Schema([real("a"), real("b")])
    a = rng.normal(size=400)
    columns, mask = {"a": a, "b": a + 0.1 * rng.normal(size=400)}, np.ones((400, 2), dtype=bool)
    literal = fit(schema, columns, mask, VSAEConfig.paper(epochs=3))
    assert not literal.model.prior.factor.any()
    assert not literal.model.prior.loc.any()
    fitted = fit(schema, columns, mask, VSAEConfig(steps=300))
    rows, _ = fitted.generate(3000)
    assert np.corrcoef(rows["a"], rows["b"])[0, 1] > 0.9  # N(0, I) would lose the dependence


def test_fitted_prior_matches_mean_and_covariance():
    torch.manual_seed(0)
    mixing = torch.randn(6, 6)
    z = (torch.randn(2, 4000, 6) @ mixing + 2.0).unflatten(-1, (3, 2))
    prior = LatentPrior(2, 3, 2)
    prior.fit(z, torch.full_like(z, -1.0))
    drawn = prior.sample(20_000).flatten(-2)
    for e in range(2):
        torch.testing.assert_close(drawn[e].mean(0), z[e].flatten(-2).mean(0), atol=0.15, rtol=0.05)
        expected = z[e].flatten(-2).T.cov() + np.exp(-2) * torch.eye(6)
        torch.testing.assert_close(drawn[e].T.cov(), expected, atol=0.4, rtol=0.1)
