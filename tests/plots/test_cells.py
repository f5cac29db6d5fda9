"""What was put into missing cells."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.analysis.draws import Draws
from vsae.plots.cells import Completed, dependence, distribution, drawn_uncertainty, pair, strongest_pairs


@pytest.fixture(scope="module")
def completed() -> Completed:
    """Of `sure` all draws agree; `loose` is drawn all over its range; `level` is drawn both ways."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=200), 3)
    table = {"sure": x.copy(), "loose": 2 * x + 1, "level": np.array(["a", "b"] * 100, dtype=object)}
    table["sure"][:50], table["loose"][25:75], table["level"][::4] = np.nan, np.nan, None
    draws = []
    for _ in range(30):
        full = {name: column.copy() for name, column in table.items()}
        full["sure"][:50] = 0.25
        full["loose"][25:75] = 2 * rng.normal(size=50) + 1
        full["level"][::4] = rng.choice(["a", "b"], 50)
        draws.append(full)
    return Completed.of(Draws(draws, table))


def by_name(completed: Completed) -> dict:
    return {plan.name: plan for plan in completed.plans}


def test_distributions_are_those_of_observed_and_drawn_cells(completed):
    plans = by_name(completed)
    for plan in completed.filled:
        found = distribution(completed, plan)
        assert found.observed.sum() == pytest.approx(1)
        assert found.drawn.sum() == pytest.approx(1)
        assert found.cells == (150, 50)
    level = distribution(completed, plans["level"])
    assert level.levels == ("a", "b")
    assert level.observed.tolist() == [50 / 150, 100 / 150]
    sure = distribution(completed, plans["sure"])
    assert (sure.drawn == 1).sum() == 1  # all in the bin of 0.25
    at = int(sure.drawn.argmax())
    assert sure.edges[at] <= 0.25 <= sure.edges[at + 1]


def test_uncertainty_is_0_where_draws_agree_and_about_1_where_they_know_nothing(completed):
    found = {each.plan.name: each for each in drawn_uncertainty(completed)}
    assert (found["sure"].relative == 0).all()
    assert 0.7 < np.median(found["loose"].relative) < 1.3
    assert 0.6 < np.median(found["level"].relative) <= 1
    assert found["level"].rows.tolist() == list(range(0, 200, 4))


def test_pairs_tell_observed_rows_from_drawn_ones(completed):
    plans = by_name(completed)
    found = pair(completed, plans["sure"], plans["loose"], most=1000)
    assert (len(found.observed), len(found.drawn)) == (125, 75)
    assert np.allclose(found.observed[:, 1], 2 * found.observed[:, 0] + 1, atol=1e-9)
    assert found.dependence == pytest.approx(1)
    assert dependence(completed, plans["sure"], plans["level"]) < 0.3
    assert strongest_pairs(completed)[0].dependence == pytest.approx(1)


def test_levels_beyond_ten_are_taken_together():
    levels = np.array([f"level {i % 14:02}" for i in range(280)], dtype=object)
    table = {"x": levels.copy()}
    table["x"][:14] = None
    found = distribution(*_single(table, levels))
    assert len(found.levels) == 10
    assert found.levels[-1] == "5 others"
    assert found.observed.sum() == pytest.approx(1)


def test_whole_numbers_have_whole_bins():
    count = np.arange(300.0) % 27
    table = {"x": count.copy()}
    table["x"][:20] = np.nan
    found = distribution(*_single(table, count))
    assert np.allclose(np.diff(found.edges), 1)
    assert np.allclose(found.edges % 1, 0.5)


def _single(table: dict, full: np.ndarray):
    completed = Completed.of(Draws([{"x": full}], table))
    return completed, completed.plans[0]
