"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from vsae import load
from vsae.cli.app import app
from vsae.cli.demo import run
from vsae.cli.options import ColumnOptions, RowOptions, TextOptions, TrainingOptions
from vsae.datasets import make_clinic
from vsae.files import read_table, write_table
from vsae.model.config import VSAEConfig
from vsae.table.specs import SPECS

needs_data = pytest.mark.skipif("VSAE_DATA" not in os.environ, reason="VSAE_DATA is not set: no UCI tables here")


def command(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "vsae", *arguments], capture_output=True, text=True, **options)


def invoke(*arguments: object, stdin: str | None = None):
    """In this process: faster, and a fit of few steps."""
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)


pytestmark = pytest.mark.usefixtures("few_steps")


@pytest.fixture
def clinic_csv(tmp_path) -> Path:
    path = tmp_path / "clinic.csv"
    write_table(path, make_clinic(120, seed=2).table())
    return path


def test_help_does_not_import_torch():
    code = "import sys, vsae.cli.app\nassert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "impute" in command("--help").stdout


def test_the_help_names_every_kind_that_a_file_may_hold():
    help_of_schema = ColumnOptions.__dataclass_fields__["schema"].type
    for kind in SPECS:
        assert kind in str(help_of_schema) or kind == "image"


@pytest.mark.parametrize("name", ["impute", "fit", "inspect"])
def test_shared_options_are_options_of_the_command(name):
    parameters = {parameter.name for parameter in get_command(app).commands[name].params}
    groups = [TextOptions, ColumnOptions, *([] if name == "inspect" else [RowOptions, TrainingOptions])]
    for group in groups:
        assert {field.name for field in fields(group)} <= parameters
    assert not {"text", "columns", "training"} & parameters


# --- impute


def test_a_strategy_says_what_missing_cells_get(clinic_csv, tmp_path):
    filled = {}
    for strategy in ("mean", "median", "draw"):
        done = invoke("impute", clinic_csv, "-o", tmp_path / f"{strategy}.csv", "--strategy", strategy)
        assert done.exit_code == 0, done.output
        filled[strategy] = (tmp_path / f"{strategy}.csv").read_text()
        assert ",," not in filled[strategy]
    assert len(set(filled.values())) == 3
    refused = invoke("impute", clinic_csv, "-o", tmp_path / "out.csv", "--strategy", "mode")
    assert refused.exit_code == 2
    assert "must be one of mean, median, draw" in refused.output
    assert not (tmp_path / "out.csv").exists()


def test_impute_changes_empty_cells_only(clinic_csv, tmp_path):
    out = tmp_path / "filled.csv"
    done = invoke("impute", clinic_csv, "-o", out)
    assert done.exit_code == 0, done.output
    before, after = (path.read_text().splitlines() for path in (clinic_csv, out))
    assert len(before) == len(after)
    changed = 0
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old.split(","), new.split(","), strict=True):
            assert b
            assert a in ("", b)
            changed += a == ""
    assert changed > 100
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clinic.csv", "filled.csv"]


def test_impute_in_a_pipe(clinic_csv):
    done = command("impute", "-", "-q", "--steps", "15", input=clinic_csv.read_text())
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 121
    assert ",," not in done.stdout


@pytest.mark.parametrize("name", ["t.tsv", "t.jsonl", "t.parquet", "t.feather", "t.csv.gz"])
def test_every_format(clinic_csv, tmp_path, name):
    if name.endswith(("parquet", "feather")):
        pytest.importorskip("pyarrow")
    source = tmp_path / name
    write_table(source, read_table(clinic_csv).data)
    out = tmp_path / f"out-{name}"
    assert invoke("impute", source, "-o", out, "-q").exit_code == 0
    filled = read_table(out).data
    columns = filled.values() if isinstance(filled, dict) else [c.to_numpy() for c in filled.columns]
    for column in columns:
        assert not any(value is None or value != value for value in column.tolist())


@pytest.fixture
def prices_csv(tmp_path) -> Path:
    """A price with its sign, a number and a boolean; some cells are empty."""
    lines = [f"${1000 + 7 * i % 90:,}.50,{i % 11}.5,{'true' if i % 3 else 'false'}".split(",") for i in range(60)]
    lines = [[",".join(line[:2]), *line[2:]] for line in lines]
    for i in range(0, 60, 7):
        lines[i][i % 3] = ""
    path = tmp_path / "prices.csv"
    path.write_text("price,b,ok\n" + "".join(f'"{price}",{b},{ok}\n' for price, b, ok in lines))
    return path


def test_long_draws_are_one_file_in_plain_notation(prices_csv, tmp_path):
    path = tmp_path / "long.csv"
    done = invoke("impute", prices_csv, "-o", path, "--draws", 2, "--long", "--with-original")
    assert done.exit_code == 0
    assert done.output.count("wrote") == 1
    names, *lines = path.read_text().splitlines()
    assert names == ".imp,.id,price,b,ok"
    rows = [line.split(",") for line in lines]
    assert [row[:2] for row in rows] == [[str(m), str(i)] for m in range(3) for i in range(1, 61)]
    assert rows[1][2:] == ["1007.5", "1.5", "true"]
    assert [row.count("") for row in rows[:60]] == [int(i % 7 == 0) for i in range(60)]
    for number, row in enumerate(rows[60:]):
        assert "" not in row
        assert all(cell == known for cell, known in zip(row[2:], rows[number % 60][2:], strict=True) if known)
    assert [row[2:] for row in rows[60:120]] != [row[2:] for row in rows[120:]]


def test_long_draws_of_some_columns_go_down_a_pipe(prices_csv):
    done = invoke("impute", prices_csv, "--draws", 2, "--long", "--with-original", "--only", "b", "--quiet")
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert rows[0] == [".imp", ".id", "price", "b", "ok"]
    assert len(rows) == 1 + 3 * 60
    assert "" in [row[3] for row in rows[1:61]]
    assert "" not in [row[3] for row in rows[61:]]
    assert [row[2] for row in rows[61:]] == [row[2] for row in rows[1:61]] * 2


def test_a_long_file_for_stata_has_the_original_and_numbers_for_booleans(prices_csv, tmp_path):
    path = tmp_path / "stata.parquet"
    assert invoke("impute", prices_csv, "-o", path, "--draws", 2, "--stata", "-q").exit_code == 0
    data = read_table(path).data
    assert data.column_names == ["mi_m", "mi_id", "price", "b", "ok"]
    assert data["mi_m"].to_pylist() == [m for m in range(3) for _ in range(60)]
    ok = np.array(data["ok"].to_pylist(), dtype=float)
    assert np.isnan(ok[:60]).sum() == 3
    assert set(ok[60:]) == {0, 1}


@pytest.mark.parametrize("options", [["--long"], ["--stata"], ["--draws", 2, "--with-original"]])
def test_a_long_file_needs_draws(prices_csv, options):
    refused = invoke("impute", prices_csv, "-o", prices_csv.with_name("out.csv"), *options)
    assert refused.exit_code == 2


def test_draws_are_several_files(clinic_csv, tmp_path):
    assert invoke("impute", clinic_csv, "-o", tmp_path / "d.csv", "--draws", 2, "-q").exit_code == 0
    one, two = ((tmp_path / f"d.{i}.csv").read_text() for i in (1, 2))
    assert one != two
    refused = invoke("impute", clinic_csv, "--draws", 2)
    assert refused.exit_code == 2
    assert "give -o" in refused.output


def test_schema_and_missing_codes(tmp_path):
    source, schema = tmp_path / "t.csv", tmp_path / "schema.json"
    rows = "".join(f"{20 + i % 40},{i % 3},n{i}\n" for i in range(60))
    source.write_text(f"age,code,name\n{rows}999,,x\n-1,2,y\n")
    schema.write_text(json.dumps({"code": "categorical", "age": {"kind": "count", "max": 120}, "name": "keep"}))
    out = tmp_path / "out.csv"
    done = invoke("impute", source, "-o", out, "--schema", schema, "--missing", "age=999,-1")
    assert done.exit_code == 0, done.output
    last = [line.split(",") for line in out.read_text().splitlines()[-2:]]
    assert all(0 <= int(age) <= 120 for age, _, _ in last)
    assert last[0][1] in ("0", "1", "2")


# --- fit, sample, inspect


def test_fit_then_everything_from_the_model(clinic_csv, tmp_path, few_steps):
    model = tmp_path / "clinic.vsae"
    assert invoke("fit", clinic_csv, "-o", model, "-q").exit_code == 0
    assert load(model).fitted_.model.config.steps == few_steps
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clinic.csv", "clinic.vsae"]
    filled = invoke("impute", clinic_csv, "--model", model)
    assert filled.exit_code == 0, filled.output
    assert ",," not in filled.stdout
    rows = invoke("sample", model, "-n", 7, "--with-missing", "--given", "sex=female", "--given", "income=")
    assert rows.exit_code == 0, rows.output
    header, *body = (line.split(",") for line in rows.stdout.splitlines())
    assert len(body) == 7
    assert {row[header.index("sex")] for row in body} == {"female"}
    assert {row[header.index("income")] for row in body} == {""}
    assert "--against" in rows.stderr
    checked = invoke("sample", model, "-n", 60, "-o", tmp_path / "new.csv", "--against", clinic_csv)
    assert checked.exit_code == 0, checked.output
    assert "and 0.0% of the real rows are copies" in checked.stderr
    assert "warning" not in checked.stderr
    shown = invoke("inspect", model)
    assert "fitted on 120 rows" in shown.stdout
    assert "insurance" in shown.stdout


def test_a_fit_goes_on_from_a_model(clinic_csv, tmp_path):
    model, more, longer = tmp_path / "first.vsae", tmp_path / "more.csv", tmp_path / "longer.vsae"
    assert invoke("fit", clinic_csv, "-o", model, "-q").exit_code == 0
    header, *rows = clinic_csv.read_text().splitlines()
    more.write_text("\n".join([header, *rows[:50]]) + "\n")
    went_on = invoke("fit", more, "--from", model, "-o", longer, "-q")
    assert went_on.exit_code == 0, went_on.output
    assert load(longer).fitted_on_["rows"] == 170
    more.write_text("\n".join([f"{header},shoe", *(f"{row},41" for row in rows)]) + "\n")
    refused = invoke("fit", more, "--from", model, "-o", longer)
    assert refused.exit_code == 1
    assert "column 'shoe' was not in fit; drop it" in refused.stderr
    assert invoke("fit", more, "--from", model, "-o", longer, "--missing=-9").exit_code == 2


def test_levels_may_be_written_as_in_the_file(tmp_path):
    source, model = tmp_path / "t.csv", tmp_path / "t.vsae"
    rows = "".join(f"{'true' if i % 3 else 'false'},{1 + i % 4},{i / 7:.2f}\n" for i in range(80))
    source.write_text(f"flag,grade,x\n{rows},,1.00\n")
    assert invoke("fit", source, "-o", model, "-q").exit_code == 0
    done = invoke("sample", model, "-n", 3, "--given", "flag=true", "--given", "grade=3")
    assert done.exit_code == 0, done.output
    refused = invoke("sample", model, "--given", "grade=9")
    assert refused.exit_code == 1
    assert "'9' is not one of its levels" in refused.stderr
    assert "there is no column 'foo'" in invoke("sample", model, "--given", "foo=1").stderr


def test_a_model_for_another_table_is_refused(clinic_csv, tmp_path):
    model, other = tmp_path / "m.vsae", tmp_path / "other.csv"
    assert invoke("fit", clinic_csv, "-o", model, "-q").exit_code == 0
    other.write_text("foo,bar\n1,\n2,x\n")
    done = invoke("impute", other, "--model", model)
    assert done.exit_code == 1
    assert "none of the fitted columns is in this table" in done.stderr


def test_which_texts_are_missing_cells_can_be_said(tmp_path):
    source, out = tmp_path / "t.csv", tmp_path / "out.csv"
    source.write_text("a,b\n" + "x,1.5\n?,2.5\ny,missing\n" * 20)
    assert invoke("impute", source, "-o", out, "-q", "--na", "missing").exit_code == 0
    text = out.read_text()
    assert text.count("?") == 20
    assert "missing" not in text


def test_version():
    assert invoke("--version").stdout.startswith("vsae ")


def test_inspect_a_table(clinic_csv):
    shown = invoke("inspect", clinic_csv)
    assert shown.exit_code == 0, shown.output
    for word in ("120 rows", "kind", "income", "patterns of missing cells", "█"):
        assert word in shown.stdout


def test_say_what_missing_cells_go_with(tmp_path):
    write_table(tmp_path / "clinic.csv", make_clinic(600, seed=2).table())
    said = invoke("mechanism", tmp_path / "clinic.csv")
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert any(line.startswith("`bmi` is missing in") and "where `sex` is 'female'" in line for line in lines)
    assert lines[-1].startswith("Little's test speaks against")
    assert not any(line.startswith("`age`") for line in lines)  # it is complete


# --- what goes wrong is one line, with code 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["impute", "nowhere.csv"], "nowhere.csv"),
        (["impute", "t.xyz"], "unknown extension"),
        (["impute", "ragged.csv"], "ragged.csv"),
        (["impute", "good.csv", "-o", "no/such/folder.csv"], "there is no folder"),
        (["impute", "good.csv", "--schema", "bad.json"], "bad.json"),
        (["impute", "good.csv", "--schema", "nowhere.json"], "nowhere.json: the schema cannot be read"),
        (["impute", "good.csv", "--schema", "unknown.json"], "'colour'"),
        (["impute", "good.csv", "--missing", "nope=1"], "'nope'"),
        (["sample", "good.csv"], "not a vsae file"),
        (["sample", "nowhere.vsae"], "no such file"),
        (["inspect", "empty.csv"], "empty"),
        (["inspect", "nowhere"], "no such file"),
        (["inspect", "."], "this is a folder"),
        (["fit", "good.csv", "-o", "no/model.vsae"], "there is no folder"),
        (["fit", "good.csv", "-o", "."], "this is a folder"),
        (["fit", "good.csv", "-o", "good.csv"], "this is the table itself"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text("a,b\n1,x\n2,\n3,y\n")
    Path("ragged.csv").write_text("a,b\n1,x\n2\n")
    Path("empty.csv").write_text("")
    Path("t.xyz").write_text("a,b\n1,x\n")
    Path("bad.json").write_text("{")
    Path("unknown.json").write_text('{"a": "colour"}')
    done = invoke(*arguments)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert len([line for line in done.stderr.splitlines() if "fitting" not in line]) == 1
    assert "Traceback" not in done.output


def test_wrong_usage_is_code_2():
    assert invoke("impute").exit_code == 2
    assert invoke("sample", "x.vsae", "-n", "0").exit_code == 2


# --- kill -9


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(None, marks=pytest.mark.slow),
        ".clinic.vsae.training",
        ".clinic.vsae.training.refit",
        pytest.param("clinic.vsae", marks=pytest.mark.slow),
    ],
)
def test_a_killed_fit_leaves_no_half_a_model_and_the_next_one_succeeds(clinic_csv, tmp_path, written):
    """Killed before it trains, or as soon as a file is there: the state of training, of the refit, the model."""
    model = tmp_path / "clinic.vsae"
    arguments = [sys.executable, "-m", "vsae", "fit", str(clinic_csv), "-o", str(model), "--steps", "30"]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    if written is None:
        time.sleep(0.5)
    else:
        while not (tmp_path / written).exists():
            assert process.poll() is None, f"the fit ended before {written} was seen"
            time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if model.exists():
        load(model)
    subprocess.run(arguments, check=True, capture_output=True)
    table = read_table(clinic_csv).data
    assert not any(
        value is None or value != value for x in load(model).transform(table).values() for value in x.tolist()
    )
    assert not list(tmp_path.glob(".*training")) + list(tmp_path.glob(".*refit"))


# --- real tables with their own missing cells


@needs_data
@pytest.mark.parametrize(
    ("name", "count"), [("heart_cleveland", 6), pytest.param("mushroom", 2480, marks=pytest.mark.slow)]
)
def test_real_tables_change_in_their_missing_cells_only(tmp_path, name, count):
    source = Path(os.environ["VSAE_DATA"]) / f"{name}.csv.gz"
    out = tmp_path / "out.csv.gz"
    assert invoke("impute", source, "-o", out, "-q").exit_code == 0
    before, after = (
        [
            line.split(",")
            for line in subprocess.run(["gzip", "-dc", path], capture_output=True, text=True).stdout.splitlines()
        ]
        for path in (source, out)
    )
    changed = [(a, b) for old, new in zip(before, after, strict=True) for a, b in zip(old, new, strict=True) if a != b]
    assert len(changed) == count
    assert {a for a, _ in changed} == {""}


# --- demo


def test_demo_runs_from_the_command_line():
    done = invoke("demo", "--rows", 150, "--seed", 1)
    assert done.exit_code == 0, done.output
    assert "Error on the hidden cells" in done.stdout
    assert "Generated" in done.stdout


def test_demo_beats_mean_and_mode():
    demo = run(400, 0, VSAEConfig(steps=200))
    ratios = [e.ours / e.trivial for e in demo.errors]
    assert np.mean(ratios) < 0.9
    assert len(demo.rows["fee"]) == len(demo.seen["fee"]) == 400


def test_what_another_fit_left_does_not_stand_in_the_way(clinic_csv, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    out = tmp_path / "m.vsae"
    with monkeypatch.context() as patched:
        patched.setattr("vsae.fitting.fit.fit_prior", killed)
        assert invoke("fit", clinic_csv, "-o", out, "--steps", 12).exit_code != 0
    assert list(tmp_path.glob(".*training.refit"))
    done = invoke("fit", clinic_csv, "-o", out, "--steps", 12, "--seed", 1)
    assert done.exit_code == 0, done.output
    assert not list(tmp_path.glob(".*training*"))


def test_a_table_to_compare_with_is_read_as_it_was(tmp_path):
    table = tmp_path / "t.csv"
    rng = np.random.default_rng(0)
    table.write_text("a;b\n" + "".join(f"{'-' if i % 5 == 0 else i};{rng.normal():.3f}\n" for i in range(60)))
    options = "--na", "-", "--delimiter", ";"
    assert invoke("fit", table, "-o", tmp_path / "m", "--steps", 3, *options).exit_code == 0
    done = invoke("sample", tmp_path / "m", "-n", 5, "-o", tmp_path / "s.csv", "--against", table, *options)
    assert done.exit_code == 0, done.output


def test_weights_groups_and_order_are_columns(tmp_path):
    rng = np.random.default_rng(0)
    patient, own = np.repeat(np.arange(20), 6), np.repeat(rng.normal(size=20), 6)
    table = {"patient": patient, "visit": np.tile(np.arange(6), 20), "a": own + 0.1 * rng.normal(size=120)}
    table |= {"w": rng.integers(0, 3, 120), "b": np.where(rng.random(120) < 0.3, np.nan, own)}
    path, model = tmp_path / "visits.csv", tmp_path / "model.vsae"
    write_table(path, table)
    options = ("--groups", "patient", "--order", "visit", "--weights", "w")
    found = invoke("fit", path, "-o", model, *options)
    assert found.exit_code == 0, found.output
    assert load(model).context_.near == ("b",)
    out = tmp_path / "out.csv"
    assert invoke("impute", path, "-o", out, "--model", model).exit_code == 0
    filled = read_table(out).data
    assert not np.isnan(np.asarray(filled["b"], dtype=float)).any()
    assert invoke("impute", path, "-o", out, "--model", model, *options).exit_code == 2
    wrong = invoke("fit", path, "-o", model, "--groups", "who")
    assert wrong.exit_code == 1
    assert "groups names 'who', which is not a column" in wrong.output
