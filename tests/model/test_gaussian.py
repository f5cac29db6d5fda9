"""Gaussian imputation: the conditional mean given what is observed, learned from incomplete rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vsae.data.batch import Batch
from vsae.data.schema import Schema, categorical, count, ordinal, real
from vsae.model.config import VSAEConfig
from vsae.model.gaussian import GaussianImputation
from vsae.model.vsae import VSAE

COVARIANCE = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])


def rows(n, rate=0.4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(3), COVARIANCE, size=n)
    mask = rng.random((n, 3)) >= rate
    return Batch({"gaussian": torch.tensor(x, dtype=torch.float32)}, torch.tensor(mask))


@pytest.fixture(scope="module")
def gaussian():
    torch.manual_seed(0)
    gaussian = GaussianImputation(Schema([real("a"), real("b"), real("c")]))
    data = rows(3000)
    gaussian.fit(data, data.values["gaussian"][..., None])
    return gaussian


def test_em_finds_the_covariance_in_incomplete_rows(gaussian):
    scale = torch.outer(gaussian.scale, gaussian.scale)
    torch.testing.assert_close(gaussian.covariance * scale, torch.tensor(COVARIANCE).float(), atol=0.1, rtol=0)


@pytest.mark.parametrize("visible", [[0], [1], [0, 1], [0, 2], [], [0, 1, 2]])
def test_it_is_the_conditional_mean(gaussian, visible):
    batch = rows(50, rate=0.0, seed=1)
    mask = torch.zeros(50, 3, dtype=torch.bool)
    mask[:, visible] = True
    given = gaussian(batch.with_mask(mask), batch.values["gaussian"][..., None])
    x = ((batch.values["gaussian"] - gaussian.centre) / gaussian.scale).double()
    covariance = gaussian.covariance.double()
    hidden = [j for j in range(3) if j not in visible]
    expected = x.clone()
    weights = torch.linalg.solve(covariance[visible][:, visible], covariance[visible][:, hidden])
    expected[:, hidden] = x[:, visible] @ weights
    torch.testing.assert_close(given.double(), expected, atol=1e-4, rtol=1e-4)


def test_nothing_hidden_is_read(gaussian):
    batch = rows(50, seed=2)
    changed = batch.values["gaussian"].clone()
    changed[~batch.mask] = 1e6
    before = gaussian(batch, batch.values["gaussian"][..., None])
    torch.testing.assert_close(gaussian(batch.with_mask(batch.mask), changed[..., None]), before)


def test_levels_without_an_order_and_very_wide_tables_do_without():
    assert GaussianImputation(Schema([categorical("a", 3), categorical("b", 4), real("c")])).width == 0
    assert GaussianImputation(Schema([ordinal("a", 3), categorical("b", 4), real("c")])).width == 2
    wide = Schema(real(f"x{j}") for j in range(2000))
    assert GaussianImputation(wide).width == 0


def test_a_model_may_be_without(gaussian):
    schema = Schema([real("a"), real("b"), real("c")])
    data = rows(20)
    with_gaussian, without = (VSAE(schema, VSAEConfig(members=1, gaussian=which)) for which in (True, False))
    widths = [m.collective.input.dense.weight.shape[1] for m in (with_gaussian, without)]
    assert widths[0] - widths[1] == 3
    for model in (with_gaussian, without):
        model.fit_statistics(data)
        assert model.propose(data.for_members()).collective.loc.isfinite().all()


@pytest.mark.parametrize("column", [torch.zeros(40), torch.full((40,), torch.nan)])
def test_constants_and_empty_columns_leave_it_finite(column):
    x = torch.stack([column, torch.randn(40), torch.randn(40)], dim=1)
    mask = x.isfinite()
    mask[::3, 1] = False
    gaussian = GaussianImputation(Schema([real("a"), real("b"), real("c")]))
    batch = Batch({"gaussian": x.nan_to_num()}, mask)
    gaussian.fit(batch, batch.values["gaussian"][..., None])
    assert gaussian(batch, batch.values["gaussian"][..., None]).isfinite().all()


def test_what_is_left_to_be_known_depends_on_which_cells_are_shown(gaussian):
    mask = torch.tensor([[False, True, True], [False, False, True], [False, False, False], [False, True, True]])
    std, covariance = gaussian.conditional_std(mask, "gaussian"), gaussian.covariance
    for row, shown in zip(std, mask, strict=True):
        o = shown.nonzero()[:, 0]
        told = covariance[0, o] @ torch.linalg.solve(covariance[o][:, o], covariance[o, 0])
        assert row[0].item() == pytest.approx((covariance[0, 0] - told).sqrt().item(), rel=1e-4)
    assert std[0, 0] < std[1, 0] < std[2, 0]


def test_blocks_of_numbers_find_their_own_entries():
    schema = Schema([count("k"), real("a"), categorical("c", 3), real("b")])
    gaussian = GaussianImputation(schema)
    gaussian.covariance.copy_(torch.diag(torch.tensor([1.0, 4.0, 9.0])))  # a, b, k
    mask = torch.zeros(2, 4, dtype=torch.bool)
    torch.testing.assert_close(gaussian.conditional_std(mask, "gaussian"), torch.tensor([[1.0, 2.0]] * 2))
    torch.testing.assert_close(gaussian.conditional_std(mask, "interval"), torch.tensor([[3.0]] * 2))
