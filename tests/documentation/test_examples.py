"""Every script in examples/ runs, on few rows and with few steps; each says in its first lines how it is run."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ELSEWHERE = {"table_with_images"}  # tests/table/test_table_images.py runs it, and looks at its errors


def run(name: str, rows: int, **options: Any) -> Any:
    pytest.importorskip("pandas")
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](rows=rows, **options)


def fill_a_table() -> None:
    found = run("fill_a_table", 150)
    assert (found["missing"] > 0).all()
    assert found["error"].notna().all()


def pooled_regression() -> None:
    pytest.importorskip("statsmodels")
    found = run("pooled_regression", 200, draws=5)
    width = (found["high"] - found["low"]).to_numpy()
    assert width[1] < width[2]  # one filled table is too sure of itself
    assert ((found["low"] < found["bmi"]) & (found["bmi"] < found["high"])).all()


def why_is_it_missing() -> None:
    found = run("why_is_it_missing", 150, draws=3)
    estimates = [point.estimate for point in found.points]
    assert estimates == sorted(estimates)


def synthetic_rows() -> None:
    shares = run("synthetic_rows", 150)
    assert (shares.loc["age"] == 0).all()
    assert (shares["missing, generated"] > 0).sum() >= 10


def pipeline() -> None:
    found = run("pipeline", 150)
    assert set(found) == {"means and modes", "vsae"}
    assert all(-1 < r2 < 1 for r2 in found.values())


SCRIPTS: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (fill_a_table, pooled_regression, why_is_it_missing, synthetic_rows, pipeline)
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(name, short_fits, capsys):
    SCRIPTS[name]()
    assert capsys.readouterr().out


def test_all_examples_are_run_and_say_how():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == SCRIPTS.keys() | ELSEWHERE
    for name in names:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert text.startswith('"""'), name
        assert f"python examples/{name}.py" in text, name
