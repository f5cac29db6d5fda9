"""The benchmark of draws: scores that know honest from sure, rows, and a regression pooled over draws."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from benchmarks import data
from benchmarks.calibration import jobs, pooled, rubin, scores
from benchmarks.peers.grid import Task
from benchmarks.processes import ADAPTERS, Method, Processes
from benchmarks.runs import run
from vsae.data.schema import Schema, categorical, real
from vsae.estimator import VSAEImputer

TASK = Task("tiny", "mcar", 0.3, 11)


@pytest.fixture(autouse=True)
def _tiny_table(monkeypatch):
    def tiny(name: str) -> data.Rows:
        x = np.random.default_rng(0).normal(size=200)
        columns = {"x": x, "third": np.digitize(x, [-0.5, 0.5])}
        return data.Rows("tiny", Schema([real("x"), categorical("third", 3)]), columns, np.ones((200, 2), bool))

    monkeypatch.setattr(data, "load", tiny)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# --- scores


@pytest.mark.parametrize("number", [20, 100])
def test_honest_draws_cover_as_often_as_they_say_however_many_there_are(rng, number):
    truth, draws = rng.normal(size=(4000, 1)), rng.normal(size=(number, 4000, 1))
    hidden = np.ones(truth.shape, bool)
    found = scores.of_numbers(truth, draws, hidden)
    assert found["coverage90"] == pytest.approx(0.9, abs=0.015)
    assert found["coverage50"] == pytest.approx(0.5, abs=0.025)
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=0.02)  # of two standard normals
    narrow = scores.of_numbers(truth, 0.3 * draws, hidden)
    assert narrow["coverage90"] < 0.5
    assert narrow["crps"] > found["crps"]


def columns(p: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(p, y)]


def test_calibration_errors_are_about_zero_for_the_truth_and_not_for_the_overconfident(rng):
    p = rng.dirichlet([1, 1, 1], size=20_000)
    y = scores._outcomes(p, rng)
    for error in (scores.top_level_error, scores.classwise_error):
        assert error(columns(p, y)) < 0.015
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert scores.top_level_error(columns(sharp, y)) > 0.1
    assert scores.classwise_error(columns(sharp, y)) > 0.05


def test_the_error_of_one_bin_is_the_difference_of_means_and_ties_are_not_parted():
    p, y = np.full(100, 0.3), np.arange(100) < 50
    assert scores.binned_error(p, y) == pytest.approx(0.2)


def test_shares_of_draws_leave_no_level_impossible():
    draws = np.array([[[0.0]], [[0.0]], [[1.0]]])  # three draws of one cell
    np.testing.assert_allclose(scores.draw_shares(draws, np.array([3])), [[2.5 / 4.5, 1.5 / 4.5, 0.5 / 4.5]])


def test_stated_probabilities_are_read_at_their_own_column(rng):
    levels, n = np.array([2, 0, 3]), 500
    truth = np.stack([rng.integers(2, size=n), rng.normal(size=n), rng.integers(3, size=n)], axis=1).astype(float)
    stated = np.concatenate([np.eye(2)[truth[:, 0].astype(int)], np.eye(3)[truth[:, 2].astype(int)]], axis=1)
    hidden = np.ones(truth.shape, bool)
    found = scores.scores(truth, np.stack([truth] * 20), hidden, levels, stated, rng)
    assert found["stated"]["log_loss"] < 0.001
    assert found["stated"]["ece"] < 0.001
    assert found["draws"]["ece"] == pytest.approx(1 - (20.5 / 21 + 20.5 / 21.5) / 2)
    assert found["numbers"]["crps"] == 0


# --- rows


def test_marginal_draws_are_calibrated_where_cells_are_missing_at_random(tmp_path):
    lines: list[str] = []
    job = {**asdict(TASK), "method": "marginal"}
    run(jobs.BENCHMARK, [job], jobs.BENCHMARK.store(tmp_path), Processes(), report=lines.append)
    (row,) = jobs.BENCHMARK.rows(tmp_path)
    assert row["status"] == "ok"
    assert row["in_sample"]["numbers"]["coverage90"] == pytest.approx(0.9, abs=0.1)
    assert "stated" not in row["new_rows"]
    assert "cover" in lines[0]


def test_draws_come_back_from_an_adapter(tmp_path, monkeypatch):
    code = f"""
import sys
sys.path.insert(0, {str(ADAPTERS)!r})
import numpy as np
from drawn import Drawn, run
def draw(task, number):
    filled = [np.stack([np.nan_to_num(task.part(part))] * number) for part in ("train", "new")]
    return Drawn("zeros 1", 0.5, *filled)
run(draw)
"""
    (tmp_path / "zeros.py").write_text(code)
    monkeypatch.setitem(jobs.METHODS, "zeros", Method(None, str(tmp_path / "zeros.py"), ("20",)))
    row = jobs.measured({**asdict(TASK), "method": "zeros"}, Processes(limit=60))
    assert (row["status"], row["version"], row["draws"]) == ("ok", "zeros 1", 20)
    assert row["new_rows"]["numbers"]["coverage90"] == 0
    assert row["in_sample"]["draws"]["ece"] > 0.3  # sure of the first level


def test_ours_draws_and_states_probabilities_through_the_public_door(monkeypatch):
    monkeypatch.syspath_prepend(str(ADAPTERS))
    import vsae_draws

    monkeypatch.setattr(vsae_draws, "imputer_for", lambda task, effort: VSAEImputer(config={"steps": 5}))
    given = TASK.make().given()
    done = vsae_draws.draw(given, 4, "fast")
    assert done.train.shape == (4, 160, 2)
    assert done.new_probabilities.shape == (40, 3)
    hidden = np.isnan(given.new[:, 1])
    np.testing.assert_allclose(done.new_probabilities[hidden].sum(axis=1), 1, atol=1e-5)


# --- a regression pooled over draws


def test_a_regression_is_scipys_of_what_x2_leaves_unexplained():
    rows = rubin.simulate(0).whole
    ours = rubin.regress(rows)
    x1, y = (rows[:, j] - np.polyval(np.polyfit(rows[:, 1], rows[:, j], 1), rows[:, 1]) for j in (0, 2))
    line, n = stats.linregress(x1, y), len(rows)
    assert ours.coefficients[1] == pytest.approx(line.slope)
    assert ours.variances[1] == pytest.approx(line.stderr**2 * (n - 2) / (n - 3))


def test_a_third_of_x1_is_missing_and_the_rest_is_there():
    missing = np.mean([np.isnan(rubin.simulate(i).given).mean(axis=0) for i in range(40)], axis=0)
    assert missing[0] == pytest.approx(0.35, abs=0.02)
    assert missing[1] == missing[2] == 0


def test_whole_rows_cover_and_mean_filled_ones_do_not(tmp_path):
    lines: list[str] = []
    methods = ("nothing missing", "mean", "complete rows")
    rows = run(
        rubin.BENCHMARK, rubin.jobs(methods, 100), rubin.BENCHMARK.store(tmp_path), Processes(), report=lines.append
    )
    found = {m: rubin.Validity.of([row for row in rows if row["method"] == m]) for m in methods}
    assert found["nothing missing"].repeats == 100
    assert found["nothing missing"].coverage > 0.88
    assert abs(found["nothing missing"].bias) < 0.03
    assert found["mean"].coverage < 0.4
    assert found["complete rows"].bias < -0.05
    assert len(lines) == 6


def test_draws_from_the_truth_are_valid(tmp_path):
    """x₁ given x₂ and y is normal: proper draws from it must give intervals that cover, which tests the pooling too."""
    b, r = rubin.BETA, rubin.CORRELATION
    precision = 1 / (1 - r**2) + b[1] ** 2  # of x₁ | x₂, y
    answers = []
    for repeat in range(100):
        whole, given = rubin.simulate(repeat)
        rng = np.random.default_rng(repeat)
        mean = (r * whole[:, 1] / (1 - r**2) + b[1] * (whole[:, 2] - b[0] - b[2] * whole[:, 1])) / precision
        tables = []
        for _ in range(20):
            x1 = mean + rng.normal(size=len(mean)) / np.sqrt(precision)
            tables.append(np.column_stack([np.where(np.isnan(given[:, 0]), x1, given[:, 0]), given[:, 1:]]))
        answers.append(rubin.summary(rubin.pooled(tables)))
    found = rubin.Validity.of([{"estimates": answers}])
    assert found.coverage > 0.9
    assert abs(found.bias) < 0.03


def test_an_adapter_draws_for_several_tables_at_once(tmp_path, monkeypatch):
    code = f"""
import sys
sys.path.insert(0, {str(ADAPTERS)!r})
import numpy as np
from drawn import Drawn, run
run(lambda task, number: Drawn("zeros 1", 0.5, np.stack([np.nan_to_num(task.train)] * number)))
"""
    (tmp_path / "zeros.py").write_text(code)
    monkeypatch.setattr(rubin, "BATCH", 3)
    monkeypatch.setitem(rubin.METHODS, "zeros", Method(None, str(tmp_path / "zeros.py"), ("2",)))
    row = rubin.measured({"method": "zeros", "first": 0}, Processes(limit=60))
    assert (row["status"], len(row["estimates"]), row["seconds"]) == ("ok", 3, 1.5)


# --- outcome and covariates missing together


@pytest.mark.parametrize("mechanism", pooled.MECHANISMS)
@pytest.mark.parametrize("name", pooled.ANALYSES)
def test_blocks_are_missing_together_and_what_drives_them_is_there(name, mechanism):
    analysis = pooled.ANALYSES[name]
    missing = np.concatenate([np.isnan(analysis.sample(mechanism, i).given) for i in range(20)])
    at = analysis.names.index
    assert not missing[:, at(analysis.driver)].any()
    first, second = (missing[:, at(column)] for column in (("x", "y") if name == "slope" else ("x1", "y")))
    assert 0.15 < (first & second).mean() < 0.35
    driver = np.concatenate([analysis.column(analysis.sample(mechanism, i).whole, analysis.driver) for i in range(20)])
    assert (driver[first & second].mean() > 0.3) == (mechanism == "mar")


@pytest.mark.parametrize("name", pooled.ANALYSES)
def test_the_truth_is_what_many_rows_give(name):
    analysis = pooled.ANALYSES[name]
    rows = analysis.simulate(np.random.default_rng(0), 200_000)
    np.testing.assert_allclose(rubin.regress(analysis.selected(rows)).coefficients, analysis.truth, atol=0.02)


def test_complete_rows_are_biased_where_another_column_drives_missingness():
    row = {"analysis": "slope", "mechanism": "mar", "first": 0}
    whole, complete = (
        pooled.Validities.of([pooled.measured({**row, "method": m, "first": i}, Processes()) for i in (0, 20, 40, 60)])
        for m in ("nothing missing", "complete rows")
    )
    assert whole.repeats == 80
    assert whole.coverage > 0.87
    assert abs(whole.bias) < 0.4
    assert complete.bias < whole.bias - 0.2
