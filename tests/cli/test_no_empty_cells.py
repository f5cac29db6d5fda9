"""No run of the command line ends well and leaves cells empty without a word."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from vsae import VSAEImputer
from vsae.cli.app import app
from vsae.files import read_table


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60)).round(3)
    cells = [
        [str(x) if shown else "" for x, shown in zip(row, rng.random(2) > 0.2, strict=True)]
        for row in zip(a, a + b, strict=True)
    ]
    cells[5][0] = "1e200"
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b", *(",".join(row) for row in cells)]) + "\n")
    return path


def test_one_huge_cell_leaves_nothing_empty(table, tmp_path):
    out = tmp_path / "out.csv"
    done = CliRunner().invoke(app, ["impute", str(table), "-o", str(out), "--steps", "30"])
    assert done.exit_code == 0, done.output
    lines = out.read_text().splitlines()
    assert len(lines) == 61
    assert all(cell for line in lines for cell in line.split(","))
    assert lines[6].startswith("1e200,")
    assert done.output.count("1e+200 is beyond") == 1  # said once, though the table is read twice


def test_a_model_that_is_not_finite_is_an_error(table, tmp_path):
    imputer = VSAEImputer(config={"steps": 20}, random_state=0).fit(read_table(str(table)).data)
    for weight in imputer.fitted_.model.data_network.parameters():
        weight.data.fill_(np.nan)
    model, out = tmp_path / "m.vsae", tmp_path / "out.csv"
    imputer.save(model)
    for command in (["impute", str(table), "--model", str(model)], ["sample", str(model), "-n", "20"]):
        done = CliRunner().invoke(app, [*command, "-o", str(out)])
        assert done.exit_code == 1, done.output
        assert not out.exists()
