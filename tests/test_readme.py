"""What the README and the pages on files, missingness and multiple imputation show is run, and prints what it says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
FILES = (ROOT / "docs" / "files.md").read_text("utf-8")
MISSINGNESS = (ROOT / "docs" / "missingness.md").read_text("utf-8")
DRAWS = (ROOT / "docs" / "multiple-imputation.md").read_text("utf-8")


def shown(kind: str, name: str, text: str = README) -> str:
    return re.search(rf"<!-- {kind}: {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_python_example(elsewhere, few_steps, capsys):
    pytest.importorskip("pandas")
    names: dict = {}
    exec(compile(shown("example", "python"), "README.md", "exec"), names)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    expected = [line.rstrip() for line in shown("prints", "python").splitlines()]
    assert printed[: len(expected)] == expected
    assert names["imputer"].fitted_.model.config.steps == few_steps
    df, filled = names["df"], names["filled"]
    assert not filled.isna().any().any()
    assert (filled.dtypes == df.dtypes).all()
    assert names["women"]["income"].isna().all()  # as it was asked to be
    assert names["rows"].isna().any().any()
    assert ((names["chances"] >= 0) & (names["chances"] <= 1)).all()


def test_the_shell_example(elsewhere, few_steps):
    from typer.testing import CliRunner

    from vsae.cli.app import app
    from vsae.datasets import make_clinic
    from vsae.files import write_table

    write_table("patients.csv", make_clinic(100).table())
    program, *arguments = shown("example", "shell").split()
    assert program == "vsae"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert ",," not in Path("filled.csv").read_text()


def test_the_examples_of_missingness(few_steps, capsys):
    pytest.importorskip("pandas")
    names: dict = {}
    for name in ("mechanism", "report", "sensitivity", "masks"):
        exec(compile(shown("example", name, MISSINGNESS), "missingness.md", "exec"), names)
        printed = capsys.readouterr().out
        if name == "report":  # what masks depend on does not depend on the fit
            assert printed.endswith(shown("prints", name, MISSINGNESS))
    assert len(names["found"].points) == 6
    assert names["women"].points[1].estimate > names["women"].points[0].estimate
    assert names["pain"].points[0].estimate < names["pain"].points[2].estimate
    assert names["heart"].points[0].estimate < names["heart"].points[1].estimate
    assert not names["complete"].isna().any().any()
    assert names["amputed"]["income"].isna().any()
    assert not names["amputed"]["age"].isna().any()
    assert len(names["strange"]) == 5


def test_the_examples_of_multiple_imputation(elsewhere, few_steps, capsys):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("statsmodels", reason="regressions need statsmodels: pip install 'vsae[stats]'")
    names: dict = {}
    for name in ("draws", "fit", "tidy", "effects", "stata"):
        exec(compile(shown("example", name, DRAWS), "multiple-imputation.md", "exec"), names)
        printed = capsys.readouterr().out
        if name in ("draws", "tidy"):  # which do not depend on the fit
            assert printed == shown("prints", name, DRAWS)
    assert set(names["linear"].terms) == {"Intercept", "age", "bmi", "sex[T.male]"}
    assert names["chances"].terms == ("Intercept", "age", "income")
    assert names["pool"](names["effects"]).terms == ("age", "bmi")
    assert pandas.read_stata("long.dta")["mi_m"].nunique() == 21


def test_a_long_file_goes_to_mice(elsewhere, few_steps, request):
    from typer.testing import CliRunner

    from vsae.cli.app import app
    from vsae.datasets import make_clinic
    from vsae.files import write_table

    write_table("patients.csv", make_clinic(100).table())
    arguments = shown("example", "shell", DRAWS).split()[1:]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    lines = Path("long.csv").read_text().splitlines()
    assert len(lines) == 1 + 21 * 100
    request.getfixturevalue("mice")  # or skip
    Path("pool.R").write_text(shown("example", "mice", DRAWS))
    done = subprocess.run(["Rscript", "pool.R"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["(Intercept)", "age", "bmi", "sexmale"]


@pytest.mark.parametrize("name", ["schema", "relations"])
def test_the_examples_of_files(few_steps, capsys, name):
    pytest.importorskip("pandas")
    exec(compile(shown("example", name, FILES), "files.md", "exec"), {})
    assert capsys.readouterr().out == shown("prints", name, FILES)


def test_the_first_screen_holds_the_two_commands():
    first = README.splitlines()[:12]
    assert any(line.startswith("make demo") for line in first)
    assert any(line.startswith("make test") for line in first)
