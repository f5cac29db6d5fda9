"""Rounds of training: another one where the last still lowered the error, and resumed where it was killed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vsae import VSAE, VSAEConfig, fit
from vsae.data.schema import Schema, categorical, real
from vsae.fitting import rounds
from vsae.fitting.presets import config_for
from vsae.fitting.rounds import TrainingStates, score_at, train_in_rounds
from vsae.fitting.steps import FitData, Split, split
from vsae.training.em import learn
from vsae.training.history import History, Progress, TrainingDiverged

RNG = np.random.default_rng(0)


def a_table(rows: int = 200) -> tuple[Schema, dict[str, np.ndarray], np.ndarray]:
    x = RNG.normal(size=(rows, 2))
    level = (x[:, 0] * x[:, 1] > 0).astype(int)
    columns = {"a": x[:, 0], "b": x[:, 1], "level": level}
    return Schema([real("a"), real("b"), categorical("level", 2)]), columns, RNG.random((rows, 3)) < 0.8


def history(scores: Sequence[float | None], steps: int) -> History:
    """Of evaluations that are evenly spaced."""
    each = steps // len(scores)
    return History([{"step": each * (k + 1), "score": [score]} for k, score in enumerate(scores)], [steps], "all", 1.0)


def prepared(config: VSAEConfig) -> tuple[VSAE, Split]:
    schema, columns, mask = a_table()
    return split(VSAE, FitData.of(schema, columns, mask, config, "cpu"), config, 0)


@pytest.mark.parametrize(
    ("scores", "most", "trained"),
    [
        ([[1.0, 0.9, 0.9, 0.89]], 4, 1),  # from half on, nearly nothing
        ([[1.0, 0.9, 0.8, 0.8], [0.79] * 4], 4, 2),  # the second round changed nothing
        ([[1.0, 0.9, 0.8, 0.8], [0.6] * 4, [0.5] * 4, [0.4] * 4], 3, 3),  # no more than were asked for
        ([[1.0, 0.9, 0.8, 0.8]], 1, 1),
        ([[None] * 4], 4, 1),  # nothing is withheld
    ],
)
def test_another_round_follows_where_the_last_one_paid(
    monkeypatch: pytest.MonkeyPatch, scores: list[list[float | None]], most: int, trained: int
) -> None:
    config, asked = VSAEConfig(steps=400, evaluate_every=100, rounds=most, members=1), []

    def train(*_: Any, **options: Any) -> History:
        asked.append(options)
        return history(scores[len(asked) - 1], options["config"].steps)

    monkeypatch.setattr(rounds, "train", train)
    found = train_in_rounds(*prepared(config), learn)
    assert len(asked) == trained
    assert [options["config"].steps for options in asked] == [400, 800, 800][:trained]
    assert [options["goes_on"] for options in asked] == [False, True, True][:trained]
    assert len({options["seed"] for options in asked}) == trained
    if trained > 1:
        assert asked[1]["config"].learning_rate == pytest.approx(0.6 * config.learning_rate)
    steps = [record["step"] for record in found.records]
    assert steps == sorted(set(steps))
    assert steps[-1] == 400 + 800 * (trained - 1)
    assert found.best_step == [steps[-1]]
    assert found.seconds == trained


def test_the_error_at_a_step_is_that_of_the_nearest_evaluation() -> None:
    found = history([4.0, 3.0, None, 1.0], 400)
    assert score_at(found, 210) == 3.0
    assert score_at(found, 400) == 1.0
    assert score_at(found, 1000) == 1.0
    assert math.isnan(score_at(found, 300))


def test_a_round_that_diverges_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    config, real_train, calls = VSAEConfig(steps=20, evaluate_every=5, rounds=3, members=1), rounds.train, []

    def train(*arguments: Any, **options: Any) -> History:
        calls.append(options)
        if len(calls) == 2:
            raise TrainingDiverged("no longer finite")
        return real_train(*arguments, **options)

    monkeypatch.setattr(rounds, "train", train)
    monkeypatch.setattr(rounds, "_PAYS", 0.0)
    model, parts = prepared(config)
    found = train_in_rounds(model, parts, learn)
    assert len(calls) == 2
    assert found.records[-1]["step"] == 20
    assert all(bool(weight.isfinite().all()) for weight in model.parameters())


def test_a_fit_that_is_killed_in_another_round_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rounds, "_PAYS", 0.0)
    table, config, state = (
        a_table(),
        VSAEConfig(steps=20, evaluate_every=5, rounds=2, members=2, trees=0),
        tmp_path / "s",
    )
    whole, steps = fit(*table, config), []

    def stop(progress: Progress) -> None:
        steps.append((progress.step, progress.steps))
        if progress.step == 45:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(*table, config, callback=stop, checkpoint_path=state)
    assert steps[19:21] == [(20, 20), (21, 60)]
    assert {path.name for path in TrainingStates.beside(state).there()} == {"s", "s.round1"}
    steps.clear()
    again = fit(*table, config, callback=lambda progress: steps.append(progress.step), checkpoint_path=state)
    assert steps[0] == 41
    assert steps == list(range(41, steps[-1] + 1))
    assert not TrainingStates.beside(state).there()
    for name, x in whole.impute(table[1], table[2]).items():
        np.testing.assert_array_equal(again.impute(table[1], table[2])[name], x)
    assert [record["step"] for record in again.history.records] == [5, 10, 15, 20, 30, 40, 50, 60]


def test_what_is_still_being_learned_gets_more_and_noise_does_not() -> None:
    schema, columns, mask = a_table(600)
    edge = fit(schema, columns, mask, config_for(schema, 600, trees=0))
    noise = {"a": columns["a"], "b": columns["b"], "level": RNG.integers(0, 2, 600)}
    nothing = fit(schema, noise, mask, config_for(schema, 600, trees=0))
    first = config_for(schema, 600).steps
    assert first is not None
    assert edge.history.records[-1]["step"] == 3 * first
    assert nothing.history.records[-1]["step"] <= first
