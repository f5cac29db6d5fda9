"""What the command line says of filled and of left cells, and what it must not write over."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from vsae import load
from vsae.cli.app import app
from vsae.cli.impute import numbered
from vsae.files import read_table
from vsae.storage import checkpoint

pytestmark = pytest.mark.usefixtures("few_steps")


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def rows_of(n: int = 60) -> list[list[str]]:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, n)
    return [
        [str(a), f"{a / 10 + e:.2f}", "FM"[i % 2]] for i, (a, e) in enumerate(zip(age, rng.normal(size=n), strict=True))
    ]


def table_of(rows: list[list[str]], header: str = "age,dose,sex") -> str:
    return "\n".join([header, *map(",".join, rows)]) + "\n"


@pytest.fixture
def holes(tmp_path) -> Path:
    """A table in which every tenth cell of two columns is empty."""
    rows = rows_of()
    for row in rows[::10]:
        row[0] = row[2] = ""
    path = tmp_path / "t.csv"
    path.write_text(table_of(rows))
    return path


TOKENS = ["#N/A", "n/a", "<NA>", "NAN", "na", "none", "Null", "#NA", "-nan", "NaT", "-", "--", "   ", "#DIV/0!"]


@pytest.mark.parametrize("token", TOKENS)
def test_a_text_that_no_number_can_be_is_missing_and_named(tmp_path, token):
    rows = rows_of()
    rows[3][0], rows[7][0] = token, ""
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    path.write_text(table_of(rows))
    done = invoke("impute", path, "-o", out)
    assert done.exit_code == 0, done.output
    ages = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert all(age.strip().isdigit() for age in ages)
    assert "filled 2 cells: age 2" in done.stderr
    shown = read_table(path).notes
    if token in ("na", "none", "Null", "NAN", "NaT", "-", "--", "#DIV/0!"):  # others are missing in any column
        assert f"column 'age': {token!r} was read as missing" in done.stderr
    else:
        assert not shown


def test_a_word_among_numbers_is_pointed_out(tmp_path):
    rows = rows_of()
    rows[3][0] = "refused"
    path = tmp_path / "t.csv"
    path.write_text(table_of(rows))
    assert "its cells are numbers but for 'refused'" in read_table(path).notes[0]
    (tmp_path / "t.jsonl").write_text('{"a": 1.5}\n{"a": "n/a"}\n{"a": 2}\n')
    assert read_table(tmp_path / "t.jsonl").data["a"].dtype == float


@pytest.mark.parametrize("code", ["-999", "9999"])
def test_codes_are_suspected_by_name_and_taken_at_the_users_word(tmp_path, code):
    rows = rows_of()
    for row in rows[::7]:
        row[0] = code
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    path.write_text(table_of(rows))
    shown = invoke("inspect", path)
    assert f"{code} may stand for missing" in " ".join(shown.stdout.split())
    done = invoke("impute", path, "-q")
    assert f"column 'age': {code} may stand for a missing value" in done.stderr  # quiet keeps warnings
    assert done.stdout == path.read_text()  # nothing is guessed away
    done = invoke("impute", path, "-o", out, f"--missing={code}")
    assert done.exit_code == 0, done.output
    assert "filled 9 cells: age 9" in done.stderr
    assert code not in out.read_text()
    ages = read_table(out).data["age"]
    assert ages.min() > -20
    assert ages.max() < 120


def test_a_renamed_column_is_said_to_be_left(holes, tmp_path):
    model, other, out = tmp_path / "m.vsae", tmp_path / "other.csv", tmp_path / "out.csv"
    assert invoke("fit", holes, "-o", model, "-q").exit_code == 0
    other.write_text(holes.read_text().replace("age,", "Age,", 1))
    done = invoke("impute", other, "--model", model, "-o", out, "-q")
    assert done.exit_code == 0
    assert (
        "6 missing cells of column 'Age' left empty: the model does not know this column; it knows 'age'" in done.stderr
    )
    assert "knows columns that the table does not have, and they are not added: 'age'" in done.stderr
    assert out.read_text().startswith("Age,dose,sex\n")
    other.write_text("\n".join(line.rpartition(",")[0] for line in other.read_text().splitlines()) + "\n")
    before = out.read_text()
    done = invoke("impute", other, "--model", model, "-o", out)
    assert done.exit_code == 1
    assert "no missing cell could be filled" in done.stderr
    assert out.read_text() == before


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_columns_that_the_file_lacks_are_added_in_no_format(holes, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    model, less, out = tmp_path / "m.vsae", tmp_path / "less.csv", tmp_path / f"out.{ending}"
    assert invoke("fit", holes, "-o", model, "-q").exit_code == 0
    less.write_text("\n".join(line.rpartition(",")[0] for line in holes.read_text().splitlines()) + "\n")
    assert invoke("impute", less, "--model", model, "-o", out, "-q").exit_code == 0
    data = read_table(out).data
    assert list(data if isinstance(data, dict) else data.column_names) == ["age", "dose"]


def test_the_table_itself_is_written_over_only_if_asked(holes, tmp_path):
    before = holes.read_text()
    for target in (holes, tmp_path / ".." / tmp_path.name / "t.csv"):
        done = invoke("impute", holes, "-o", target)
        assert done.exit_code == 1
        assert "pass --in-place" in done.stderr
    assert invoke("impute", holes, "-o", tmp_path / "o.csv", "--flags", holes).exit_code == 1
    assert holes.read_text() == before
    for options in (["--in-place"], ["-o", holes, "--in-place"]):
        holes.write_text(before)
        assert invoke("impute", holes, *options).exit_code == 0
        assert ",\n" not in holes.read_text()


def test_flags_say_what_was_filled(holes, tmp_path):
    out, flags = tmp_path / "out.csv", tmp_path / "flags.csv"
    assert invoke("impute", holes, "-o", out, "--flags", flags).exit_code == 0
    cells = [[int(cell) for cell in line.split(",")] for line in flags.read_text().splitlines()[1:]]
    empty = [[int(not cell) for cell in line.split(",")] for line in holes.read_text().splitlines()[1:]]
    assert cells == empty
    assert flags.read_text().startswith("age,dose,sex\n")


def test_the_number_of_a_draw_stands_before_the_extension(holes, tmp_path):
    assert invoke("impute", holes, "-o", tmp_path / "a.0.csv", "--draws", 2, "-q").exit_code == 0
    assert sorted(p.name for p in tmp_path.glob("a*")) == ["a.0.1.csv", "a.0.2.csv"]
    assert numbered("a.csv.gz", 1) == "a.1.csv.gz"


@pytest.mark.parametrize("content", [b"", b"damaged", b"foreign"])
def test_a_state_that_is_no_state_does_not_stand_in_the_way(holes, tmp_path, content):
    model, state = tmp_path / "m.vsae", tmp_path / ".m.vsae.training"
    state.write_bytes(content)
    if content == b"foreign":
        checkpoint.write(state, "model", {"x": torch.zeros(1)}, {})
    done = invoke("fit", holes, "-o", model, "-q")
    assert done.exit_code == 0, done.output
    assert f"{state}: " in done.stderr
    assert "this fit starts anew" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.vsae", "t.csv"]


def test_a_fit_that_is_resumed_says_so(holes, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("vsae.fitting.fit.fit_prior", killed)
        invoke("fit", holes, "-o", tmp_path / "m.vsae")
    done = invoke("fit", holes, "-o", tmp_path / "m.vsae")
    assert done.exit_code == 0
    assert "continuing the fit" in done.stderr
    assert "anew" not in done.stderr


def test_a_failed_save_leaves_nothing_and_is_one_line(holes, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    done = invoke("fit", holes, "-o", tmp_path / "m.vsae")
    assert done.exit_code == 1
    assert "could not be written: no space left on device" in done.stderr
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*.part"))


def test_json_lines_say_what_they_hold(tmp_path):
    rows = [{"a": float(i % 7), "b": i % 3} for i in range(40)] + [{"a": None, "b": None}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = invoke("impute", path, "-o", tmp_path / "o.jsonl")
    assert "filled 2 cells: a 1, b 1" in done.stderr


def test_a_model_knows_how_its_file_wrote_numbers_and_dates(tmp_path):
    rng = np.random.default_rng(0)
    days, fbs = rng.integers(1, 28, 60), rng.integers(0, 2, 60)
    rows = [f"{d:02d}/{1 + d % 12:02d}/2024,{f}.0,${1000 * (1 + d):,.2f}" for d, f in zip(days, fbs, strict=True)]
    path, model, out = tmp_path / "t.csv", tmp_path / "m.vsae", tmp_path / "out.csv"
    path.write_text(
        "when,fbs,price\n" + "\n".join(row if i % 9 else f'"{row[:10]}",,' for i, row in enumerate(rows)) + "\n"
    )
    path.write_text(path.read_text().replace("$", '"$').replace(".00\n", '.00"\n'))
    assert invoke("fit", path, "-o", model, "-q").exit_code == 0
    new = tmp_path / "new.csv"
    new.write_text('when,fbs,price\n03/04/2024,1.0,"$5,000.00"\n05/06/2024,,\n')  # day or month first?
    done = invoke("impute", new, "--model", model, "-o", out)
    assert done.exit_code == 0, done.output
    assert "first" not in done.stderr
    assert load(model).notations_["when"].format == "%d/%m/%Y"
    drawn = invoke("sample", model, "-n", 5)
    for line in drawn.stdout.splitlines()[1:]:
        assert re.fullmatch(r'\d\d/\d\d/\d{4},[01]\.0,"?\$[\d,]+\.00"?', line), line
    assert invoke("impute", path, "--model", model, "-o", tmp_path / "out.jsonl").exit_code == 0
    assert {row["fbs"] for row in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())} == {0.0, 1.0}
    assert '"fbs": 0.0' in (tmp_path / "out.jsonl").read_text()
