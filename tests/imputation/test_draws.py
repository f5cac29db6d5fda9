"""Cells that are missing together are drawn together; draws depend on their key and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from vsae.data.batch import Batch
from vsae.data.randomness import keyed_uniform
from vsae.data.schema import Schema, categorical, real, vector
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for
from vsae.imputation.turns import MOST_TURNS, turns_of

SCHEMA = Schema([real("x"), real("y"), real("z"), categorical("level", 4), categorical("twin", 4)])


def pairs(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """y is nearly x, twin is level by another name; both of a pair are missing in the same quarter of the rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    level = rng.integers(0, 4, n)
    columns = {"x": x, "y": x + 0.15 * rng.normal(size=n), "z": 0.3 * x + rng.normal(size=n)}
    columns |= {"level": level, "twin": (level + 1) % 4}
    mask = np.ones((n, 5), dtype=bool)
    mask[rng.random(n) < 0.25, :2] = False
    mask[rng.random(n) < 0.25, 3:] = False
    return columns, mask


@pytest.fixture(scope="module")
def fitted() -> FittedVSAE:
    columns, mask = pairs(1500, 0)
    return fit(SCHEMA, columns, mask, config_for(SCHEMA, 1500, "fast"))


@pytest.fixture(scope="module")
def new() -> tuple[dict[str, np.ndarray], np.ndarray]:
    return pairs(400, 1)


def test_numbers_missing_together_belong_together(fitted, new):
    columns, mask = new
    both = ~mask[:, 0]
    for table in fitted.draw(columns, mask, 6):
        assert np.corrcoef(table["x"][both], table["y"][both])[0, 1] > 0.95
        assert np.polyfit(table["x"][both], table["y"][both], 1)[0] == pytest.approx(1.0, abs=0.1)
        assert table["x"][both].std() == pytest.approx(0.95, abs=0.25)  # of x given z


def test_levels_missing_together_belong_together(fitted, new):
    columns, mask = new
    both = ~mask[:, 3]
    tables = fitted.draw(columns, mask, 6)
    agree = np.mean([(t["twin"][both] == (t["level"][both] + 1) % 4).mean() for t in tables])
    assert agree > 0.8  # 1/4 by chance
    counts = np.bincount(np.concatenate([t["level"][both] for t in tables]), minlength=4)
    assert counts.min() > 0.15 * counts.sum()


def test_all_draws_come_from_the_same_distribution(fitted, new):
    columns, mask = new
    drawn = np.stack([table["x"][~mask[:, 0]] for table in fitted.draw(columns, mask, 40)])
    odd, even = drawn[1::2].ravel(), drawn[::2].ravel()
    assert stats.ks_2samp(odd, even).statistic < 0.06


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Up to how a product is rounded, which differs with the size of a batch; a rank on an edge may fall either way."""
    numbers = all(np.allclose(one[n], other[n], rtol=1e-3, atol=1e-3) for n in ("x", "y", "z"))
    return numbers and all((one[n] != other[n]).mean() < 0.01 for n in ("level", "twin"))


def test_draws_depend_on_the_row_and_its_id_alone(fitted, new, monkeypatch):
    columns, mask = new
    tables = fitted.draw(columns, mask, 3, seed=5)
    order = np.random.default_rng(0).permutation(400)[:150]
    some = {name: x[order] for name, x in columns.items()}
    again = fitted.draw(some, mask[order], 3, seed=5, row_ids=order)
    assert all(same({n: x[order] for n, x in a.items()}, b) for a, b in zip(tables, again, strict=True))
    assert not same({n: x[order] for n, x in tables[0].items()}, fitted.draw(some, mask[order], 1, seed=5)[0])
    monkeypatch.setattr("vsae.imputation.imputer.CHUNK_NUMBERS", 20_000)
    assert sum(1 for _ in fitted.ranges(400, 6)) > 5
    assert all(same(a, b) for a, b in zip(tables, fitted.draw(columns, mask, 3, seed=5), strict=True))
    assert same(tables[0], fitted.draw(columns, mask, 1, seed=5)[0])  # whatever the number of draws


def test_equal_rows_are_drawn_independently(fitted):
    columns, mask = (
        {name: np.zeros(300, dtype=x.dtype) for name, x in pairs(1, 0)[0].items()},
        np.ones((300, 5), dtype=bool),
    )
    mask[:, 0] = False
    drawn = np.stack([table["x"] for table in fitted.draw(columns, mask, 4)])
    assert len(np.unique(drawn.round(6))) > 1000
    assert abs(np.corrcoef(drawn[0, :-1], drawn[0, 1:])[0, 1]) < 0.2
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 0.2


def test_quantiles_are_those_of_many_draws(fitted, new):
    columns, mask = new[0], np.ones((400, 5), dtype=bool)
    mask[:, 1] = False
    low, high = fitted.quantiles(columns, mask, [0.1, 0.9])
    drawn = np.stack([table["y"] for table in fitted.draw(columns, mask, 200)])
    assert (drawn < low["y"]).mean() == pytest.approx(0.1, abs=0.03)
    assert (drawn > high["y"]).mean() == pytest.approx(0.1, abs=0.03)


def test_the_median_errs_less_than_the_mean_where_most_are_zero():
    rng = np.random.default_rng(0)
    a = rng.normal(size=800)
    columns = {"a": a, "b": np.where(rng.random(800) < 0.7, 0.0, rng.exponential(50, 800).round(1))}
    schema, mask = Schema([real("a"), real("b")]), np.ones((800, 2), dtype=bool)
    mask[rng.random(800) < 0.3, 1] = False
    model = fit(schema, columns, mask, config_for(schema, 800, "fast"))
    hidden = ~mask[:, 1]
    mean, median = model.impute(columns, mask)["b"][hidden], model.median(columns, mask)["b"][hidden]
    assert (median == 0).mean() > 0.95
    truth = columns["b"][hidden]
    assert np.abs(median - truth).mean() < np.abs(mean - truth).mean()


def test_entries_of_vectors_are_drawn():
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    columns = {"a": a, "v": a[:, None] + 0.1 * rng.normal(size=(300, 3))}
    schema, mask = Schema([real("a"), vector("v", 3)]), rng.random((300, 2)) < 0.7
    one, two = fit(schema, columns, mask, config_for(schema, 300, "fast")).draw(columns, mask, 2)
    hidden = ~mask[:, 1] & mask[:, 0]
    assert (one["v"][hidden] != two["v"][hidden]).all()
    assert np.corrcoef(one["v"][hidden].mean(1), a[hidden])[0, 1] > 0.7
    np.testing.assert_array_equal(one["v"][mask[:, 1]], columns["v"][mask[:, 1]])


def test_attributes_that_depend_on_each_other_are_drawn_in_different_turns():
    torch.manual_seed(0)
    half = torch.randn(500, 40)
    schema = Schema(real(f"x{j}") for j in range(80))
    data = Batch({"gaussian": torch.cat([half, half + 0.1 * torch.randn(500, 40)], dim=1)}, torch.rand(500, 80) < 0.8)
    turns = turns_of(schema, data)
    assert turns.max() == MOST_TURNS - 1
    assert np.bincount(turns).max() <= -(-80 // MOST_TURNS)
    assert (turns[:40] != turns[40:]).all()


def test_keyed_numbers_are_uniform_and_independent():
    row, column = torch.arange(4000)[:, None], torch.arange(5)
    u = keyed_uniform(3, row, column).numpy()
    for j in range(5):
        assert stats.kstest(u[:, j], "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(u.T) - np.eye(5)).max() < 0.06
    assert np.abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 0.06
    assert not np.array_equal(u, keyed_uniform(4, row, column).numpy())
