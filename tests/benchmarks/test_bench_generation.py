"""The benchmark of generators: distances that know right from wrong, judges, rows that say what happened."""

from __future__ import annotations

import argparse
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks import data
from benchmarks.generation import fidelity, jobs, judges, tasks, trivial
from benchmarks.peers.grid import Grid, Task, add_grid_options, grid_of, plan
from benchmarks.processes import ADAPTERS, Method, Processes
from benchmarks.runs import Mode, run
from vsae.data.schema import Schema, categorical, real
from vsae.estimator import VSAEImputer

TASK = Task("tiny", "mcar", 0.3, 11)
LEVELS = np.array([0, 0, 3])
NAMES = np.array(["x", "y", "third"])


def tiny(n: int = 300) -> data.Rows:
    """y = 2x, and a level that says where x lies."""
    x = np.random.default_rng(0).normal(size=n)
    columns = {"x": x, "y": 2 * x + 5, "third": np.digitize(x, [-0.5, 0.5])}
    return data.Rows("tiny", Schema([real("x"), real("y"), categorical("third", 3)]), columns, np.ones((n, 3), bool))


@pytest.fixture(autouse=True)
def _tiny_table(monkeypatch):
    monkeypatch.setattr(data, "load", lambda name, label=False: tiny())
    monkeypatch.setitem(tasks.TARGETS, "tiny", "third")
    monkeypatch.setattr(judges, "REPEATS", 1)
    monkeypatch.setattr(judges, "FOLDS", 3)


@pytest.fixture
def reality() -> tasks.Reality:
    return tasks.Reality.of(TASK)


def shuffled(x: np.ndarray) -> np.ndarray:
    """Each column by itself: the same columns, and nothing between them."""
    return np.random.default_rng(1).permuted(x, axis=0)


# --- distances


def test_cramers_v_is_one_for_renamed_levels_and_about_zero_for_independent_ones():
    rng = np.random.default_rng(0)
    a, b = rng.integers(4, size=(2, 500)).astype(float)
    assert fidelity.cramers_v(a, 3 - a) == pytest.approx(1)
    mean = np.mean([fidelity.cramers_v(a, rng.permutation(b)) ** 2 for _ in range(50)])
    assert mean < 0.004  # uncorrected, its expectation is (k - 1) / n = .006


def test_the_correlation_ratio_is_that_of_an_analysis_of_variance():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=2000).astype(float)
    number = group + rng.normal(size=2000)
    between = np.var(group)
    assert fidelity.correlation_ratio(number, group) ** 2 == pytest.approx(between / (between + 1), abs=0.03)
    assert fidelity.correlation_ratio(rng.permutation(number), group) < 0.06


def test_association_needs_both_columns_and_names_the_worst_pair(reality):
    real_rows, independent = reality.train, shuffled(reality.train)
    assert fidelity.association_error(real_rows, real_rows, LEVELS, NAMES)["mean"] == 0
    found = fidelity.association_error(real_rows, independent, LEVELS, NAMES)
    assert found["mean"] > 0.8
    assert found["worst_pair"] == ("x", "y")
    incomplete = np.where(np.random.default_rng(2).random(real_rows.shape) < 0.3, np.nan, real_rows)
    assert fidelity.association_error(real_rows, incomplete, LEVELS, NAMES)["mean"] < 0.02


def test_distances_of_columns_are_scipys():
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 1)), rng.normal(0.5, 1, size=(150, 1)).round(1)
    assert fidelity.marginal_distances(a, b, np.array([0])) == pytest.approx([ks_2samp(a[:, 0], b[:, 0]).statistic])
    levels = fidelity.marginal_distances(np.array([[0.0], [0], [1], [2]]), np.array([[0.0], [np.nan]]), np.array([3]))
    assert levels == pytest.approx([0.5])


def test_shares_of_missing_cells_are_compared_column_by_column():
    given, made = np.array([[np.nan, 1.0], [1.0, 1.0]]), np.array([[np.nan, np.nan], [1.0, 1.0]])
    found = fidelity.null_rate_error(given, made, np.array(["a", "b"]))
    assert (found["mean"], found["worst"], found["worst_column"]) == (0.25, 0.5, "b")


def test_copies_are_near_and_new_rows_as_far_as_real_ones(reality):
    def near(x):
        return fidelity.nearness(reality.train, reality.test, x, LEVELS)

    assert near(reality.given.train)["ratio"] == 0  # missing cells do not hide a copy
    assert near(reality.given.train)["same"] == 1
    assert near(reality.test)["ratio"] == pytest.approx(1)
    assert near(shuffled(reality.test))["ratio"] > 2


# --- judges


def test_a_judge_tells_shuffled_columns_from_real_rows_but_not_real_ones(reality):
    discrete = LEVELS > 0
    half, other = reality.train[:120], reality.train[120:]
    assert judges.real_or_synthetic(half, shuffled(other), discrete, 0) > 0.8
    assert judges.real_or_synthetic(half, other, discrete, 0) < 0.65


def test_lessons_are_learned_from_real_rows_and_not_from_noise(reality):
    for target, least in ((2, 0.9), (1, 0.9)):  # accuracy, R²
        lesson = judges.Lesson(target, LEVELS > 0)
        assert lesson.score(reality.train, reality.test, 0) > least
        assert lesson.score(shuffled(reality.train), reality.test, 0) < 0.7
    assert judges.Lesson(2, LEVELS > 0).score(np.zeros((5, 3)), reality.test, 0) < 0.6  # a single class


# --- tasks


def test_generators_see_neither_hidden_cells_nor_test_rows(reality):
    missing = np.isnan(reality.given.train)
    assert 0.2 < missing.mean() < 0.4
    np.testing.assert_array_equal(reality.given.train[~missing], reality.train[~missing])
    assert len(reality.given.new) == 0
    assert np.isnan(reality.test_incomplete).any()
    assert not np.isnan(reality.test).any()


def test_the_training_rows_score_best_and_are_found_out_as_copies(reality):
    rng = np.random.default_rng(0)
    copies, noise = (reality.scores(*make(reality, 2000, rng)) for make in (trivial.real_rows, trivial.independent))
    assert copies["association"]["mean"] < 0.03 < noise["association"]["mean"]
    assert copies["auc"]["complete"] < noise["auc"]["complete"]
    assert copies["utility"]["complete"] > noise["utility"]["complete"]
    assert copies["nearness"]["ratio"] == 0 < noise["nearness"]["ratio"]
    for scores in (copies, noise):
        assert scores["marginal"]["mean"] < 0.1
        assert scores["nulls"]["worst"] < 0.06


@pytest.mark.parametrize(
    ("cell", "missing", "message"),
    [(np.nan, False, "complete rows have missing cells"), (np.inf, True, "no number"), (3.0, True, "'third': codes")],
)
def test_rows_that_are_none_are_refused(reality, cell, missing, message):
    rows = reality.train.copy()
    rows[0, 2] = cell
    with pytest.raises(ValueError, match=message):
        tasks.checked(reality.given, rows, missing=missing)
    with pytest.raises(ValueError, match=r"shape \(240, 2\)"):
        tasks.checked(reality.given, reality.train[:, :2], missing=True)


# --- runs


ADAPTER = """
import sys
sys.path.insert(0, {adapters!r})
from generated import Generated, run
run(lambda task: Generated("mine 1", 1.0, 0.5, {rows}))
"""


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """Runs a generator made of one expression, and gives its row."""
    store = jobs.BENCHMARK.store(tmp_path / "rows")

    def one(rows: str, **options: bool) -> tuple[dict, str]:
        (tmp_path / "mine.py").write_text(ADAPTER.format(adapters=str(ADAPTERS), rows=rows))
        monkeypatch.setitem(jobs.METHODS, "mine", Method(None, str(tmp_path / "mine.py")))
        lines: list[str] = []
        job = {**asdict(TASK), "method": "mine"}
        run(jobs.BENCHMARK, [job], store, Processes(limit=60), Mode(**options), report=lines.append)
        (row,) = store.rows()
        return row, lines[0]

    return one


def test_a_run_becomes_a_row_and_is_not_repeated_unless_forced(bench):
    row, line = bench("task.train[:100]")
    assert (row["status"], row["version"], row["target"]) == ("ok", "mine 1", "third")
    assert row["scores"]["nearness"]["ratio"] == 0
    assert "complete" not in row["scores"]["auc"]
    assert "association" in line
    again, line = bench("task.train[:, :1]")
    assert again == row
    assert line.endswith("(there)")
    forced, line = bench("task.train[:, :1]", force=True)
    assert forced["error"] == "ValueError: the generated rows have shape (240, 1), not (rows, 3)"
    mended, _ = bench("task.train", again=True)
    assert mended["status"] == "ok"


def test_trivial_generators_run_mask_by_mask(tmp_path):
    lines: list[str] = []
    grid = Grid(("tiny",), (("mcar", 0.3), ("mar", 0.3)), (11,))
    store = jobs.BENCHMARK.store(tmp_path)
    run(jobs.BENCHMARK, plan(grid, jobs.METHODS, ["real rows"]), store, Processes(), report=lines.append)
    assert [store.key_of(row) for row in store.rows()] == [
        ("tiny", "mar", 0.3, 11, "real rows"),
        ("tiny", "mcar", 0.3, 11, "real rows"),
    ]
    assert "mcar" in lines[0]


def test_methods_and_tables_that_are_not_there_are_named(capsys):
    with pytest.raises(ValueError, match="there is no method nobody; there are independent"):
        plan(tasks.GRID, jobs.METHODS, ["nobody"])
    parser = argparse.ArgumentParser()
    add_grid_options(parser, tasks.GRID.tables, jobs.METHODS)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--tables", "iris"])
    assert "there is no iris; there are breast_cancer" in capsys.readouterr().err
    o = parser.parse_args(["--tables", "yeast", "--mechanisms", "nmar0.2", "--seeds", "3"])
    assert grid_of(tasks.GRID, o) == Grid(("yeast",), (("nmar", 0.2),), (3,))
    assert grid_of(tasks.GRID, parser.parse_args([])) == tasks.GRID


def test_ours_generates_through_the_public_door(reality, monkeypatch):
    monkeypatch.syspath_prepend(str(ADAPTERS))
    import generated
    import vsae_rows

    monkeypatch.setattr(vsae_rows, "imputer_for", lambda task, effort: VSAEImputer(config={"steps": 5}))
    monkeypatch.setattr(vsae_rows, "MANY_ROWS", 50)
    made = vsae_rows.generate(reality.given, "fast")
    assert made.incomplete.shape == made.complete.shape == (50, 3)
    assert np.isnan(made.incomplete).any()
    tasks.checked(reality.given, made.complete, missing=False)
    assert generated.MANY_ROWS == jobs.TRIVIAL_ROWS
