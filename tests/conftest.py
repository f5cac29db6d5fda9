"""Shared fixtures: one schema with every kind, small data for it, and one thread (two crawl on busy cores)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, binary, categorical, count, group, image, ordinal, positive, real, vector
from vsae.fitting.presets import Effort, config_for
from vsae.model.config import NetShape, VSAEConfig

torch.set_num_threads(1)

PLAIN = {
    "latent_dim": 3,
    "members": 1,
    "features": "plain",
    "gaussian": False,
    "start_scale": 1.0,
    "attributive": NetShape(8, 2),
    "collective": NetShape(16, 2),
    "mask_net": NetShape(8, 2),
    "data_net": NetShape(16, 2),
}

SMALL = {  # for images
    "latent_dim": 4,
    "members": 1,
    "channels": 8,
    "image_features": 16,
    "attributive": NetShape(16, 1),
    "collective": NetShape(32, 1),
    "data_net": NetShape(32, 1),
    "steps": 60,
    "refit": 0.0,
}


def every_kind() -> Schema:
    return Schema(
        [
            categorical("colour", 3),
            real("height"),
            group("dose", positive("amount"), count("times"), binary("daily")),
            ordinal("grade", 4),
            vector("signal", 3),
            categorical("single", 1),
            count("visits"),
            ordinal("flag", 2),
            vector("other", 3),
            vector("wide", 5),
            binary("sex"),
            real("share", min=0.0, max=1.0),
            categorical("town", 7),
        ]
    )


def rows_of(schema: Schema, n: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random columns that follow the schema, with some dependence, and a mask with 30 % of the cells missing."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    columns: dict[str, np.ndarray] = {}
    for variable in schema.variables:
        noisy = base + rng.normal(size=n)
        kind = variable.kind.value
        if kind == "real":
            columns[variable.name] = 1 / (1 + np.exp(-noisy)) if variable.min is not None else noisy
        elif kind == "positive":
            columns[variable.name] = np.exp(noisy)
        elif kind == "count":
            columns[variable.name] = rng.poisson(np.exp(0.5 * noisy)).astype(float)
        elif kind == "vector":
            columns[variable.name] = noisy[:, None] + rng.normal(size=(n, variable.size))
        else:
            columns[variable.name] = np.clip(np.rint(noisy + variable.size / 2), 0, variable.size - 1).astype(int)
    return columns, rng.random((n, len(schema))) < 0.7


def bars(n: int, seed: int = 0) -> tuple[Schema, dict[str, np.ndarray], np.ndarray]:
    """A bar at one of four places, upright in one image, lying in the other; the place as a label and as a number."""
    rng = np.random.default_rng(seed)
    place = rng.integers(4, size=n)
    upright, lying = np.zeros((2, n, 1, 8, 8))
    for row, at in enumerate(place):
        upright[row, 0, :, 2 * at : 2 * at + 2] = 1.0
        lying[row, 0, 2 * at : 2 * at + 2, :] = 0.8
    columns = {"upright": upright, "lying": lying, "place": place, "number": place + 0.1 * rng.normal(size=n)}
    schema = Schema([image("upright", (1, 8, 8)), image("lying", (1, 8, 8)), categorical("place", 4), real("number")])
    return schema, columns, rng.random((n, 4)) < 0.7


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def few_steps(monkeypatch) -> int:
    """The settings that an effort chooses, but with this number of training steps where none is asked for."""
    steps = 15
    _shorten(monkeypatch, steps=steps, evaluate_every=5)
    return steps


SHORT = {"steps": 10, "evaluate_every": 5, "trees": 0, "members": 1}


@pytest.fixture
def short_fits(monkeypatch) -> None:
    """As short as can be, for what is run and not judged."""
    _shorten(monkeypatch, **SHORT)


def _shorten(monkeypatch: pytest.MonkeyPatch, **short: Any) -> None:
    def config(schema: Schema, rows: int, effort: Effort = "default", **changes: Any) -> VSAEConfig:
        return config_for(schema, rows, effort, **{**short, **changes})

    monkeypatch.setattr("vsae.estimator.settings.config_for", config)


@pytest.fixture(scope="session")
def r_packages() -> Callable[..., None]:
    """Skips where one of these packages of R is not installed."""

    @cache
    def need(*packages: str) -> None:
        there = " && ".join(f"requireNamespace('{package}', quietly = TRUE)" for package in packages)
        command = ["Rscript", "-e", f"quit(status = !({there}))"]
        if shutil.which("Rscript") is None or subprocess.run(command, capture_output=True).returncode:
            debian = " ".join(f"r-cran-{package.lower()}" for package in packages)
            pytest.skip(f"not all of these are installed: r-base-core {debian}")

    return need


@pytest.fixture(scope="session")
def mice(r_packages) -> None:
    """Skips where R's mice is not installed."""
    r_packages("mice", "mitools")


@pytest.fixture
def schema() -> Schema:
    return every_kind()


@pytest.fixture
def table(schema):
    return rows_of(schema, 40)


@pytest.fixture
def batch(schema, table):
    columns, mask = table
    return Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()


@pytest.fixture
def plain_config() -> VSAEConfig:
    return VSAEConfig(**PLAIN)
