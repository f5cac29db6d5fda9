"""A table in blocks, and a small model of it, for all tests of this room."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vsae import VSAEImputer
from vsae.engines import jobs
from vsae.files import blocks as files_blocks
from vsae.files.blocks import Blocks
from vsae.files.parts import Target

ROWS = 900


class Case(NamedTuple):
    table: pa.Table
    path: Path
    imputer: VSAEImputer
    model: Path
    blocks: Blocks

    def made(self, rows: int, seed: int) -> pa.Table:
        """Another like it."""
        return made(rows, seed)

    def impute(self, *outs: object, **options):
        targets = [Target(str(out), self.blocks) for out in outs]
        model = (self.model, jobs.checksum(self.model))
        return jobs.impute(self.imputer, self.blocks, targets, model=model, **options)


def made(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    sex, missing = np.where(x + rng.normal(size=rows) > 0, "F", "M").astype(object), rng.random((rows, 3)) < 0.25
    return pa.table(
        {
            "x": pa.array(x, mask=missing[:, 0]),
            "y": pa.array(2 * x + rng.normal(size=rows), mask=missing[:, 1]),
            "sex": pa.array(sex, mask=missing[:, 2]),
        }
    )


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    folder, table = tmp_path_factory.mktemp("engines"), made(ROWS, 0)
    pq.write_table(table, folder / "t.parquet", row_group_size=400)
    imputer = VSAEImputer(config={"steps": 20, "members": 2, "trees": 0}, strategy="draw", random_state=0).fit(table)
    imputer.save(folder / "m.vsae")
    return folder, table, imputer


@pytest.fixture
def case(fitted, monkeypatch) -> Case:
    folder, table, imputer = fitted
    monkeypatch.setattr(files_blocks, "CELLS", 300)  # of blocks of 100 rows
    path = folder / "t.parquet"
    return Case(table, path, imputer, folder / "m.vsae", jobs.blocks_of(str(path)))
