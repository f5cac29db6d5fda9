"""Rows of a drawn table are wrong together, as a fit on few rows is; each cell by itself is distributed as before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vsae.imputation.imputer
from vsae.data.batch import Batch
from vsae.data.schema import Schema, categorical, count, real
from vsae.fitting.fit import fit
from vsae.imputation.parameter_uncertainty import _FLEXIBLE, ParameterUncertainty
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE

SCHEMA = Schema([real("a"), count("k"), real("b")])
SEEN_IN = torch.tensor([20.0, 50.0, 10.0])  # rows; numbers come block by block: a, b, k


@pytest.fixture(scope="module")
def model() -> VSAE:
    torch.manual_seed(0)
    model = VSAE(SCHEMA, VSAEConfig(features="plain"))
    model.gaussian.covariance.copy_(torch.tensor([[1.0, 0.5, 0.2], [0.5, 1.0, 0.0], [0.2, 0.0, 1.0]]))
    for moment, n in zip(model.gaussian.moments, SEEN_IN, strict=True):
        seen = torch.cat([torch.ones(int(n), 1), torch.randn(int(n), 3) + 0.5], dim=1)
        moment.copy_(seen.T @ seen)
    return model


def rows(mask: list[list[bool]]) -> Batch:
    a_b, k = torch.tensor([[0.5, 1.0], [2.0, -1.0], [0.0, 0.0]]), torch.tensor([0.3, 1.0, -2.0])
    edges = torch.stack([k, k - 0.5, k + 0.5], dim=-1)[:, None]
    return Batch({"gaussian": a_b, "interval": edges}, torch.tensor(mask)).for_members()


EVERYTHING = [[True] * 3] * 3


def deviates(model: VSAE, batch: Batch, each: int = 24_000) -> torch.Tensor:
    """(tables, B, numbers)"""
    uncertainty = ParameterUncertainty(model, model.gaussian, each, seed=1)
    rng, rows = torch.Generator().manual_seed(1), batch.rows
    table = torch.arange(each).repeat_interleave(rows)
    parts = []
    for block in model.schema.number_blocks:
        own = torch.randn(each * rows, len(block), generator=rng)
        parts.append(uncertainty.shared(own, batch.repeated(each), table, block, range(len(block))))
    return torch.cat(parts, dim=-1).unflatten(0, (each, rows))


def test_a_cell_alone_is_standard_normal(model):
    drawn = deviates(model, rows(EVERYTHING))
    torch.testing.assert_close(drawn.mean(0), torch.zeros(3, 3), atol=0.03, rtol=0)
    torch.testing.assert_close(drawn.var(0), torch.ones(3, 3), atol=0.04, rtol=0)


def test_rows_covary_as_the_errors_of_a_regression(model):
    drawn = deviates(model, rows(EVERYTHING))
    d = torch.tensor([[0.5, 1.0, 0.3], [2.0, -1.0, 1.0], [0.0, 0.0, -2.0]])
    for j in range(3):
        others = [0, *(1 + k for k in range(3) if k != j)]
        row = torch.cat([torch.ones(3, 1), d], dim=1)[:, others]
        error = _FLEXIBLE * row @ torch.linalg.inv(model.gaussian.moments[j][others][:, others]) @ row.T
        size = (1 + error.diagonal()).sqrt()
        expected = error / torch.outer(size, size)
        torch.testing.assert_close(torch.corrcoef(drawn[:, :, j].T).fill_diagonal_(0),
                                   expected.fill_diagonal_(0), atol=0.03, rtol=0)  # fmt: skip


def test_columns_are_wrong_apart(model):
    drawn = deviates(model, rows(EVERYTHING))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(drawn[:, 0, i], drawn[:, 0, j])[0, 1]) < 0.03


def test_a_row_that_shows_nothing_is_the_mean(model):
    """Its error is that of a regression at its centre, whatever the row holds."""
    drawn = deviates(model, rows([[False] * 3] * 3))
    share = _FLEXIBLE * torch.linalg.inv(model.gaussian.moments[0][[0, 2, 3]][:, [0, 2, 3]])[0, 0].item()
    assert np.corrcoef(drawn[:, 0, 0], drawn[:, 1, 0])[0, 1] == pytest.approx(share / (1 + share), abs=0.03)


def test_the_gaussian_keeps_what_a_regression_knows():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(400, 2)) @ [[1.0, 0.7], [0.0, 0.5]], dtype=torch.float32)
    schema = Schema([real("a"), real("b")])
    mask = torch.ones(400, 2, dtype=torch.bool)
    mask[:, 0] = x[:, 1] < 0.5  # a is hidden where b is high
    model = VSAE(schema, VSAEConfig(features="plain"))
    model.fit_statistics(Batch({"gaussian": x}, mask))
    of_a, of_b = model.gaussian.moments
    assert of_a[0, 0] == mask[:, 0].sum()
    assert of_b[0, 0] == 400
    b = (x[:, 1] - model.gaussian.centre[1]) / model.gaussian.scale[1]
    assert of_a[0, 2].item() == pytest.approx(float(b[mask[:, 0]].sum()), rel=1e-3)
    assert of_a[2, 2].item() == pytest.approx(float((b[mask[:, 0]] ** 2).sum()), rel=1e-3)


def test_chunks_of_a_table_are_wrong_together(monkeypatch):
    """Half of a short table is one chunk, half another: their means are off together, from draw to draw."""
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=40), "y": rng.normal(size=40)}
    mask = np.ones((40, 2), dtype=bool)
    mask[::4, 0] = False
    fitted = fit(Schema([real("x"), real("y")]), columns, mask, VSAEConfig(steps=20, members=1))
    new, hidden = {n: np.zeros(400) for n in columns}, np.tile([False, True], (400, 1))
    monkeypatch.setattr(vsae.imputation.imputer, "CHUNK_NUMBERS", 200 * 600 * fitted.model.numbers_per_row)
    drawn = np.stack([table["x"] for table in fitted.draw(new, hidden, 600)])
    first, second = drawn[:, :200].mean(1), drawn[:, 200:].mean(1)
    assert np.corrcoef(first, second)[0, 1] > 0.7  # 1/30 of the variance in common against 1/200


def never_together(n: int = 60):
    half = np.arange(n) < n // 2
    columns = {"x": np.random.default_rng(0).normal(size=n), "y": np.random.default_rng(1).normal(size=n)}
    return Schema([real("x"), real("y")]), columns, np.stack([half, ~half], axis=1)


def one_number(n: int = 60):
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=n), "c": rng.integers(0, 3, n)}
    return Schema([real("x"), categorical("c", 3)]), columns, rng.random((n, 2)) < 0.7


def wide(n: int = 8):
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n) for j in range(40)}
    return Schema(real(name) for name in columns), columns, rng.random((n, 40)) < 0.6


def beyond_a_gaussian(n: int = 30):
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n) for j in range(260)}
    return Schema(real(name) for name in columns), columns, rng.random((n, 260)) < 0.6


def hardly_seen(n: int = 60):
    schema, columns, _ = never_together(n)
    mask = np.ones((n, 2), dtype=bool)
    mask[1:, 0] = False
    return schema, columns, mask


@pytest.mark.parametrize("table", [never_together, one_number, wide, beyond_a_gaussian, hardly_seen])
@pytest.mark.parametrize("config", [VSAEConfig(steps=4, members=2), VSAEConfig(steps=4, gaussian=False)])
def test_every_table_can_be_drawn(table, config):
    schema, columns, mask = table()
    for drawn in fit(schema, columns, mask, config).draw(columns, mask, 3):
        assert all(np.isfinite(x).all() for x in drawn.values())
