"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

from vsae.benchmark import scaling
from vsae.config import VSAEConfig
from vsae.demo import run


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "vsae", *arguments], capture_output=True, text=True)


def test_help_does_not_import_torch():
    code = "import sys, vsae.cli\nassert 'torch' not in sys.modules and 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "impute" in command("--help").stdout or "demo" in command("--help").stdout


def test_demo_runs_from_the_command_line():
    done = command("demo", "--rows", "150", "--seed", "1")
    assert done.returncode == 0, done.stderr
    assert "Error on the hidden cells" in done.stdout
    assert "Generated" in done.stdout
    assert "fitting 150 rows" in done.stderr


def test_demo_beats_mean_and_mode():
    demo = run(600, 0, VSAEConfig(steps=300))
    ratios = [e.ours / e.trivial for e in demo.errors]
    assert sum(ratios) / len(ratios) < 0.9
    assert len(demo.rows["fee"]) == len(demo.seen["fee"]) == 600


def test_bench_scaling_prints_a_table_and_writes_rows(tmp_path):
    out = tmp_path / "rows.json"
    module = [sys.executable, "-m", "vsae.benchmark", "scaling", "--sizes", "4", "--tables", "mixed", "--out", str(out)]
    done = subprocess.run(module, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    saved = json.loads(out.read_text())
    assert {row["what"] for row in saved["rows"]} == {"step", "loop", "impute", "e-step"}
    assert "E step of 100 samples at M = 30, times a step without" in saved["summary"]
    assert done.stdout.splitlines()[0].split()[:2] == ["table", "M"]


def test_slope_is_one_for_linear_and_two_for_quadratic():
    rows = [{"attributes": m, "linear": 3 * m, "square": m**2} for m in (10, 100, 300, 3000)]
    assert abs(scaling.slope(rows, "linear") - 1) < 1e-9
    assert abs(scaling.slope(rows, "square") - 2) < 1e-9
