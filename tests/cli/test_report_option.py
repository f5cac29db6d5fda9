"""`vsae impute --report`."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from vsae.cli.app import app
from vsae.datasets import make_clinic
from vsae.files import write_table

pytestmark = pytest.mark.usefixtures("few_steps")


@pytest.fixture
def table(tmp_path):
    columns = make_clinic(60).table()
    kept = {name: columns[name] for name in ("age", "sex", "income", "education")}
    write_table(tmp_path / "in.csv", {**kept, "<b>note": np.array(["x", None] * 30, dtype=object)})
    return tmp_path / "in.csv"


def vsae(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_report_is_written_beside_the_table(table, tmp_path):
    out, page = tmp_path / "out.csv", tmp_path / "report.html"
    result = vsae("impute", table, "-o", out, "--report", page, "--by", "sex", "--effort", "fast", "-q")
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "<h1>in.csv</h1>" in text
    assert "<h3>By sex</h3>" in text
    assert "lie in their 90% interval" in text
    assert "&lt;b&gt;note" in text
    assert "<b>note" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv", "report.html"]


def test_what_is_wrong_is_said_before_the_fit(table, tmp_path):
    page = tmp_path / "r.html"
    for arguments, said in (
        (["--report", tmp_path / "no" / "r.html"], "there is no folder"),
        (["--report", table], "this is the table itself"),
    ):
        result = vsae("impute", table, "-o", tmp_path / "out.csv", *arguments)
        assert result.exit_code == 1
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
    for arguments in (
        ["--report", "-"],
        ["--by", "sex"],
        ["--report", page, "--only", "income"],
        ["--report", tmp_path / "out.csv"],
    ):
        assert vsae("impute", table, "-o", tmp_path / "out.csv", *arguments).exit_code == 2
    result = vsae(
        "impute", table, "-o", tmp_path / "out.csv", "--report", page, "--by", "ward", "--no-evaluation", "-q"
    )
    assert result.exit_code == 1
    assert "--by names 'ward'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
