"""Errors on hidden cells: what is scored, what is compared, what is said. The models here are made up."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.evaluation.evaluate import RANKS, KnownTable, Prediction, evaluate

N = 500


def known_table(n: int = N, missing: float = 0.2, seed: int = 0) -> KnownTable:
    """Two numbers that go together, one that goes with nothing, and a level that goes with the first."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    x = np.stack([base, base + 0.3 * rng.normal(size=n), 3 * rng.normal(size=n), (base > 0) * 1.0], axis=1)
    hidden = rng.random(x.shape) < missing
    labels = ["a", "b", "<alone>", "level"]
    levels = np.array([0, 0, 0, 2])
    return KnownTable(labels, labels, ["real"] * 3 + ["binary"], levels, np.where(hidden, 0, x), ~hidden, hidden)


class Model:
    """Off by 0.5 wherever the column can be predicted, else the mean; its intervals hold all, its levels are right."""

    def __init__(self, table: KnownTable) -> None:
        self.table, self.shown = table, []

    def __call__(self, shown, rows, number, fits) -> Prediction:
        self.shown.append(shown)
        x = self.table.x[rows]
        filled = x + np.array([0.5, 0.5, 0.0, 0.0])
        filled[:, 2] = self.table.x[shown[:, 2], 2].mean()
        ends = {rank: x + (9.0 if rank > 0.5 else -9.0) for rank in RANKS}
        return Prediction(filled, ends, {3: np.where(x[:, [3]] == [0, 1], 0.8, 0.2)})


@pytest.fixture(scope="module")
def table() -> KnownTable:
    return known_table()


@pytest.fixture(scope="module")
def model(table) -> Model:
    return Model(table)


@pytest.fixture(scope="module")
def found(table, model):
    return evaluate(table, model, holdout=0.1, repeats=3, seed=1)


def test_every_scored_cell_is_known_hidden_from_its_fit_and_scored_once(table, model, found):
    hidden = [table.known & ~shown for shown in model.shown]
    assert len(hidden) == found.repeats == 3
    assert not any((shown & ~table.known).any() for shown in model.shown)
    assert np.sum(hidden, axis=0).max() == 1
    assert [column.cells for column in found.columns] == np.sum(hidden, axis=(0, 1)).tolist()


def test_errors_are_those_of_the_measure(table, found):
    std = table.x[table.known[:, 0], 0].std()
    assert found["a"].errors["vsae"] == pytest.approx(0.5 / std)
    assert found["a"].mae == pytest.approx(0.5)
    assert found["a"].errors["mean/mode"] == pytest.approx(1.0, abs=0.15)
    assert found["b"].errors["linear"] < 0.6
    assert found["b"].errors["trees"] < 0.7
    assert found["level"].errors["vsae"] == 0.0
    assert found["level"].errors["mean/mode"] == pytest.approx(0.5, abs=0.1)
    assert (found["level"].mae, found["level"].coverage) == (None, None)


def test_intervals_and_probabilities_are_scored(found):
    assert found["a"].coverage == {0.5: 1.0, 0.9: 1.0}
    assert found["level"].confidence == pytest.approx(0.8)
    assert "Levels are right in 100% of the cells, and are said to be in 80%." in found.sentences()


def test_columns_that_cannot_be_predicted_are_named(found):
    assert [column.column for column in found.columns if not column.predictable] == ["<alone>"]
    assert "No better than mean or mode, as far as these cells tell: <alone>." in found.sentences()


def test_standard_errors_say_how_much_errors_vary_with_the_cells():
    found = []
    for seed in range(12):
        table = known_table(seed=seed)
        found.append(evaluate(table, Model(table), repeats=3, compare=[], seed=seed)["<alone>"])
    spread = np.std([column.errors["vsae"] for column in found])
    assert np.mean([column.se for column in found]) == pytest.approx(spread, rel=0.5)


def test_the_result_is_a_table_words_and_escaped_html(found):
    columns = found.to_dict()
    assert {len(column) for column in columns.values()} == {4}
    assert columns["column"] == ["a", "b", "<alone>", "level"]
    assert np.isnan(columns["coverage_90"][3])
    assert columns["vsae"][0] == found["a"].errors["vsae"]
    first, *lines = str(found).splitlines()
    assert first.split() == ["column", "measure", "cells", "vsae", "±", "mean/mode", "linear", "trees", "MAE", "in",
                             "90", "%", "sure"]  # fmt: skip
    assert lines[0].startswith("a ")
    shown = found._repr_html_()
    assert "&lt;alone&gt;" in shown
    assert "<alone>" not in shown
    pd = pytest.importorskip("pandas")
    pd.testing.assert_frame_equal(found.table, pd.DataFrame(columns))


def test_without_pandas_the_table_is_a_dict(found, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert list(found.table) == list(found.to_dict())


def test_only_what_is_asked_for_is_compared_and_mean_and_mode_always(table):
    found = evaluate(table, Model(table), repeats=1, compare=["linear"])
    assert list(found.seconds) == ["vsae", "mean/mode", "linear"]


def test_there_are_as_many_fits_as_errors_need():
    small, large = known_table(200), known_table(20_000)
    assert evaluate(small, Model(small), compare=[]).repeats == 5
    assert evaluate(large, Model(large), compare=[]).repeats == 1
    assert evaluate(small, Model(small), compare=[], holdout=0.4).repeats == 2


def test_columns_that_tell_nothing_are_left_out_and_say_why():
    table = known_table()
    table.x[:, 1] = 4.0
    table.known[30:, 2] = False
    table.known[:15, 2] = False
    found = evaluate(table, Model(table), repeats=1, compare=[])
    assert found.left_out == {"b": "all known cells are the same", "<alone>": "fewer than 20 known cells"}
    assert "Not scored: b (all known cells are the same)" in str(found)
    with pytest.raises(KeyError, match="all known cells are the same"):
        found["b"]


@pytest.mark.parametrize(
    ("rows", "options", "complaint"),
    [
        (20, {}, "the table has 20 rows; evaluate hides some of them, and needs at least 30"),
        (N, {"holdout": 1.0}, "holdout must be a share of the known cells between 0 and 1, not 1.0"),
        (N, {"repeats": 11}, "repeats must be from 1 to 10, as no cell is hidden twice; not 11"),
        (N, {"compare": ["forest"]}, "compare names 'forest'; choose from mean/mode, linear, trees"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(rows, options, complaint):
    table = known_table(rows)
    with pytest.raises(ValueError, match=complaint):
        evaluate(table, Model(table), **options)
