"""Columns that are cut off: what hidden cells hold beyond the cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.missingness import SelfMasking
from vsae.data.schema import Schema, real
from vsae.fitting.fit import fit
from vsae.imputation.thresholds import Threshold
from vsae.imputation.tilts import Tilts
from vsae.mechanism.censored import fit_threshold
from vsae.mechanism.report import ColumnMechanism
from vsae.model.config import VSAEConfig


def lower_mean(mean: np.ndarray, std: float, cut: float) -> np.ndarray:
    """E[x | x ≤ cut] of a normal, as a model that sees no more would estimate it."""
    from scipy.stats import norm

    a = (cut - mean) / std
    return mean - std * norm.pdf(a) / norm.cdf(a)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_censored_normal_is_found_and_continued(sign: int) -> None:
    rng = np.random.default_rng(0)
    mean = 0.8 * rng.normal(size=3000)
    x = mean + 0.6 * rng.normal(size=3000)
    missing = x > 0.0
    found = fit_threshold(sign * lower_mean(mean, 0.6, 0.0), sign * np.where(missing, 0.0, x), missing, 3.0 * sign)
    assert found is not None
    assert found.std == pytest.approx(0.6, abs=0.1)
    assert abs(found.cut) < 0.01
    estimate = torch.from_numpy(sign * lower_mean(mean, 0.6, 0.0))[missing]
    rank = torch.from_numpy(rng.random(int(missing.sum())))
    drawn = sign * found.quantile(estimate, rank).numpy()
    assert (drawn >= -0.01).all()
    assert drawn.mean() == pytest.approx(x[missing].mean(), abs=0.05)
    assert drawn.std() == pytest.approx(x[missing].std(), abs=0.08)


def test_what_ends_in_a_tail_or_is_not_steep_is_not_cut_off() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    by_chance = rng.random(1000) < 0.4
    assert fit_threshold(0.5 * x, x, by_chance, 3.0) is None
    assert fit_threshold(0.5 * x, np.minimum(x, 0.0), x > 0, 0.5) is None
    few = np.arange(1000) < 20
    assert fit_threshold(0.5 * x, x, few, 3.0) is None


def test_thresholds_survive_json() -> None:
    tilts = Tilts(thresholds={"a": Threshold(1.0, 0.5, 1.0, 0.0, 1.0, 0.8)})
    assert Tilts.from_json(tilts.to_json()).thresholds == tilts.thresholds
    assert tilts
    assert not tilts.only(["b"])


def test_imputations_go_beyond_what_was_seen() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(600, 1)) + 0.4 * rng.normal(size=(600, 4))
    columns = {f"x{j}": z[:, j] for j in range(4)}
    mask = SelfMasking(columns=(0,)).sample(z, rng)
    schema = Schema([real(name) for name in columns])
    fitted = fit(schema, columns, mask, VSAEConfig(steps=300), mechanism={"x0": "+"}, seed=0)
    assert set(fitted.tilts.thresholds) == {"x0"}
    missing = ~mask[:, 0]
    told, plain = fitted.impute(columns, mask)["x0"][missing], z[missing, 0]
    fitted.tilts = Tilts()
    untold = fitted.impute(columns, mask)["x0"][missing]
    assert np.sqrt(((told - plain) ** 2).mean()) < 0.7 * np.sqrt(((untold - plain) ** 2).mean())
    assert told.max() > z[mask[:, 0], 0].max() + 0.5


def test_a_report_says_that_all_high_values_hide() -> None:
    column = ColumnMechanism("income", 0.4, (), 20.0, 18.0, 0.9, float("inf"))
    assert "all high values hide" in str(column)
