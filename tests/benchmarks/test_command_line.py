"""`python -m benchmarks NAME`: every command has its help, errors are one line, and rows are kept."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import scaling, sizes
from benchmarks.__main__ import COMMANDS, main
from benchmarks.processes import Processes
from benchmarks.store import Store

ROOT = Path(__file__).parents[2]
ABSENT = ("typer", "rich", "pandas", "polars", "pyarrow", "matplotlib")
IMPORTING = """
import sys
from importlib import import_module
for name in {absent}:
    sys.modules[name] = None
for module in {modules}:
    import_module(module)
"""


@pytest.mark.parametrize(
    ("absent", "names"),
    [(ABSENT, COMMANDS), ((*ABSENT, "narwhals"), ("scaling", "sizes", "paper", "ablation", "peers", "rubin"))],
)
def test_without_libraries_of_dataframes_and_command_lines_it_imports(absent, names):
    """Some of it without narwhals too, which new versions of scikit-learn bring with them."""
    code = IMPORTING.format(absent=absent, modules=[COMMANDS[name][0] for name in names])
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_help(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_the_help_lists_every_command(capsys, arguments):
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    text = capsys.readouterr().out
    assert all(f"  {name}" in text and sentence in text for name, (_, sentence) in COMMANDS.items())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing"], "invalid choice: 'nothing'"),
        (["sizes", "--shapes", "30"], "a shape is ROWSxCOLUMNS, such as 100x1000, not '30'"),
        (["peers", "--methods", "nobody"], "there is no nobody; there are mean/mode, knn"),
        (["peers", "--mechanisms", "mcar"], "write mcar0.5"),
        (["paper", "--table", "tabel"], "there is no tabel; there are mcar"),
        (["rubin", "--repeats", "0"], "must be a whole number of at least 1"),
    ],
)
def test_wrong_usage_is_code_2_and_names_what_is_wrong(arguments, complaint, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert complaint in capsys.readouterr().err


def test_an_error_is_one_line_and_code_1(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["sizes", "--shapes", "30x4", "--out", str(tmp_path / "file" / "rows.jsonl")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_lists_are_repeatable(monkeypatch):
    asked = []
    monkeypatch.setattr("benchmarks.options.run", lambda benchmark, jobs, *_, **__: asked.extend(jobs))
    for arguments in (["--seeds", "1", "2"], ["--seeds", "1", "--seeds", "2"]):
        asked.clear()
        assert main(["conditions", *arguments]) == 0
        assert asked == [{"seed": 1}, {"seed": 2}]


def test_sizes_fits_a_table_of_any_shape_and_keeps_its_row(tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    command = ["sizes", "--effort", "fast", "--out", str(out), "--shapes", "30x4"]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = Store(out, sizes.BENCHMARK.key).rows()
    assert (row["rows"], row["columns"]) == (30, 4)
    assert set(row["errors"]) == {"nrmse", "nrmse_trivial", "pfc", "pfc_trivial"}
    line = f"rows 30 columns 4 fast: {sizes.in_words(row)}"
    assert done.stdout.strip() == line
    assert main(command) == 0
    assert capsys.readouterr().out.strip() == f"{line} (there)"  # its seconds too: it is not run again


def test_scaling_prints_a_table_and_writes_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Processes, "ours", lambda self, module, job: import_module(module).measured(**job))
    out = tmp_path / "rows.jsonl"
    assert main(["scaling", "--sizes", "4", "--tables", "mixed", "--out", str(out)]) == 0
    rows = Store(out, scaling.BENCHMARK.key).rows()
    assert {row["what"] for row in rows} == {"step", "loop", "impute", "e-step"}
    assert "E step of 100 samples at M = 30, times a step without" in scaling.summary(rows)
    said = capsys.readouterr()
    assert "E step of 100 samples at M = 30, times a step without" in said.out
    assert said.out.splitlines()[0].split()[:2] == ["table", "M"]
    assert len(said.err.splitlines()) == len(rows) == 6


def test_slope_is_one_for_linear_and_two_for_quadratic():
    rows = [{"attributes": m, "linear": 3 * m, "square": m**2} for m in (10, 100, 300, 3000)]
    assert abs(scaling.slope(rows, "linear") - 1) < 1e-9
    assert abs(scaling.slope(rows, "square") - 2) < 1e-9
