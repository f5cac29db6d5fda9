"""Columns that are cut off: what hidden cells hold beyond the cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.missingness import SelfMasking
from vsae.data.schema import Schema, real
from vsae.fitting.fit import fit
from vsae.imputation.thresholds import Threshold, Thresholds
from vsae.imputation.tilts import Tilts
from vsae.mechanism.censored import fit_thresholds, is_cut_off
from vsae.mechanism.report import ColumnMechanism
from vsae.model.config import VSAEConfig


@pytest.mark.parametrize("sign", [1, -1])
def test_a_censored_normal_is_found_and_continued(sign: int) -> None:
    rng = np.random.default_rng(0)
    mean = 0.8 * rng.normal(size=3000)
    x = mean + 0.6 * rng.normal(size=3000)
    values = np.stack([sign * x, mean], axis=1)
    shown = np.stack([x <= 0, np.ones(3000, bool)], axis=1)
    found = fit_thresholds(np.where(shown, values, 0.0), shown, ["x", "known"], {"x": sign})
    assert found.of["x"].sign == sign
    assert found.of["x"].value == pytest.approx(0.0, abs=0.01)
    assert found.mean[0] == pytest.approx(0.0, abs=0.1)
    cells = found.beyond(torch.from_numpy(values), torch.from_numpy(shown), ["x"])["x"]
    rank = torch.from_numpy(rng.random((20, 3000)))
    drawn, missing = sign * cells.quantile(rank).numpy()[:, x > 0], x > 0
    assert (drawn >= -0.01).all()
    assert drawn.mean() == pytest.approx(x[missing].mean(), abs=0.05)
    assert drawn.std() == pytest.approx(x[missing].std(), abs=0.08)
    estimate, variance = (part.numpy()[missing] for part in cells.moments())
    assert np.abs(estimate - sign * drawn.mean(axis=0)).mean() < 0.15  # 20 draws
    assert variance.mean() == pytest.approx(drawn.var(axis=0, ddof=1).mean(), abs=0.02)
    assert np.corrcoef(sign * estimate, x[missing])[0, 1] > 0.4


def test_columns_cut_off_in_the_same_row_tell_of_each_other() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(size=(4000, 1)) + 0.3 * rng.normal(size=(4000, 2))
    shown = z <= 0.3
    found = fit_thresholds(np.where(shown, z, 0.0), shown, ["a", "b"], {"a": 1, "b": 1})
    both, one = ~shown.any(axis=1), ~shown[:, 0] & shown[:, 1]
    estimate = found.beyond(torch.from_numpy(z), torch.from_numpy(shown), ["a"])["a"].moments()[0].numpy()
    assert estimate[both].mean() == pytest.approx(z[both, 0].mean(), abs=0.1)
    assert estimate[one].mean() == pytest.approx(z[one, 0].mean(), abs=0.1)


def test_hidden_cells_without_a_threshold_are_as_a_normal_has_them() -> None:
    covariance = torch.tensor([[1.0, 0.8, 0.5], [0.8, 1.0, 0.6], [0.5, 0.6, 1.0]], dtype=torch.float64)
    names = ("a", "b", "c")
    thresholds = Thresholds({"a": Threshold(1.0, -50.0)}, names, torch.zeros(3, dtype=torch.float64), covariance)
    cells = thresholds.beyond(torch.tensor([[0.0, 0.0, 2.0]]), torch.tensor([[False, False, True]]), ["a"])["a"]
    mean, variance = cells.moments()
    assert mean.item() == pytest.approx(0.5 * 2.0, abs=0.02)  # b says nothing that c does not
    assert variance.item() == pytest.approx(1 - 0.5**2, abs=0.1)


def test_what_ends_in_a_tail_or_in_a_few_cells_is_not_cut_off() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    assert is_cut_off(x, x > 0, 1)
    assert is_cut_off(-x, x > 0, -1)
    assert not is_cut_off(x, x > 0, -1)
    assert not is_cut_off(x, rng.random(1000) < 0.4, 1)
    assert not is_cut_off(np.minimum(x, 0.0), x > 0.5, 1)  # many cells of one value: a bound
    assert not is_cut_off(x, np.arange(1000) < 20, 1)


def test_of_many_columns_those_are_kept_that_tell_of_the_cut_ones() -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=(300, 100))
    z[:, 90] = z[:, 5] + 0.3 * rng.normal(size=300)
    shown = np.ones(z.shape, dtype=bool)
    shown[:, 5] = z[:, 5] <= 0
    found = fit_thresholds(np.where(shown, z, 0.0), shown, [f"x{j}" for j in range(100)], {"x5": 1})
    assert len(found.names) < 100
    assert {"x5", "x90"} <= set(found.names)


def test_thresholds_survive_json() -> None:
    covariance = torch.eye(2, dtype=torch.float64)
    joint = Thresholds({"a": Threshold(1.0, 0.5)}, ("a", "b"), torch.zeros(2, dtype=torch.float64), covariance)
    tilts = Tilts(cut_off=joint)
    again = Tilts.from_json(tilts.to_json())
    assert again.thresholds == tilts.thresholds == {"a": Threshold(1.0, 0.5)}
    assert again.cut_off is not None
    assert torch.equal(again.cut_off.covariance, covariance)
    assert len(tilts) == 1
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
