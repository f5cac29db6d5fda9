"""Fits that are as short as they can be: what pages and examples show is run, not judged."""

from __future__ import annotations

from typing import Any

import pytest

from vsae.data.schema import Schema
from vsae.fitting.presets import Effort, config_for
from vsae.model.config import VSAEConfig

SHORT = {"steps": 10, "evaluate_every": 5, "trees": 0, "members": 1}


@pytest.fixture
def short_fits(monkeypatch) -> None:
    def config(schema: Schema, rows: int, effort: Effort = "default", **changes: Any) -> VSAEConfig:
        return config_for(schema, rows, effort, **{**SHORT, **changes})

    monkeypatch.setattr("vsae.estimator.config_for", config)
