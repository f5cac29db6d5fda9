"""Three sizes of one recipe: more effort means more of everything, and no shape of table gets out of hand."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.schema import Schema, real
from vsae.estimator import VSAEImputer
from vsae.fitting.presets import EFFORTS, config_for
from vsae.model.config import VSAEConfig


def schema_of(columns):
    return Schema(real(f"x{j}") for j in range(columns))


@pytest.mark.parametrize("rows", [50, 1000, 100_000])
def test_more_effort_is_more_steps_and_no_fewer_members(rows):
    fast, default, best = (config_for(schema_of(10), rows, effort) for effort in EFFORTS)
    assert fast.steps <= default.steps <= best.steps
    assert fast.members <= default.members <= best.members
    assert fast.members * fast.steps < default.members * default.steps < best.members * best.steps


@pytest.mark.parametrize("effort", EFFORTS)
def test_steps_grow_more_slowly_than_rows_and_are_bounded(effort):
    steps = [config_for(schema_of(10), rows, effort).steps for rows in (1, 50, 1000, 10_000, 10**6, 10**9)]
    assert steps == sorted(steps)
    assert steps[0] >= 100
    assert steps[-1] == steps[-2] <= 5000


def test_a_batch_of_a_wide_table_has_fewer_rows_but_some():
    sizes = [config_for(schema_of(columns), 1000).batch_size for columns in (10, 500, 2000, 10_000)]
    assert sizes == [128, 128, 32, 32]


def test_evaluations_are_as_many_whatever_the_steps():
    for rows in (50, 3000, 10**6):
        config = config_for(schema_of(10), rows)
        assert 10 <= config.steps / config.evaluate_every <= 25


def test_changes_go_over_the_chosen_sizes():
    assert config_for(schema_of(3), 100, steps=7).steps == 7
    with pytest.raises(ValueError, match="effort must be one of fast, default, best, not 'huge'"):
        config_for(schema_of(3), 100, "huge")


def test_the_imputer_takes_effort_and_changes():
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[::4, 1] = np.nan
    imputer = VSAEImputer(effort="fast", config={"steps": 3}, random_state=0).fit(X)
    chosen = imputer.fitted_.model.config
    assert chosen.steps == 3
    assert chosen.collective == config_for(schema_of(3), 60, "fast").collective
    with pytest.raises(ValueError, match="effort must be one of"):
        VSAEImputer(effort="huge").fit(X)
    with pytest.raises(TypeError, match="config must be a VSAEConfig, or changes"):
        VSAEImputer(config=3).fit(X)
    assert VSAEImputer(config=VSAEConfig(steps=2, members=1)).fit(X).fitted_.model.config.members == 1
