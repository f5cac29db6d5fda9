"""Every function of `vsae.plots` returns a figure, whatever columns are called."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from vsae import VSAEImputer, plots
from vsae.datasets import make_clinic
from vsae.mechanism.sensitivity import Audit, Point, Sensitivity
from vsae.table import TableError

Figure = pytest.importorskip("matplotlib.figure").Figure
Text = pytest.importorskip("matplotlib.text").Text
HOSTILE = "<script>alert(1)</script>$x^2$"


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    found = make_clinic(150).table()
    kept = {name: found[name] for name in ("age", "sex", "education", "reason", "visit_date")}
    return {HOSTILE: found["income"], **kept}


@pytest.fixture(scope="module")
def imputer(table) -> VSAEImputer:
    return VSAEImputer(config={"steps": 10, "evaluate_every": 5, "trees": 0}, random_state=0).fit(table)


@pytest.fixture(scope="module")
def draws(imputer, table):
    return imputer.draw(table, 3)


def drawn(figure: Figure, tmp_path) -> str:
    """All texts of a figure, which is written, so that all of it is drawn."""
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "figure.svg")
    return " ".join(text.get_text() for text in figure.findobj(Text))


def test_what_is_missing(table, tmp_path):
    for figure in (plots.missing_matrix(table), plots.patterns(table), plots.flux(table)):
        assert "<script>alert(1)" in drawn(figure, tmp_path)
    assert "female" in drawn(plots.missing_by(table, "sex"), tmp_path)


def test_what_was_put_there(draws, tmp_path):
    assert "<script>alert(1)" in drawn(plots.distributions(draws), tmp_path)
    assert "education" in drawn(plots.distributions(draws, ["education"]), tmp_path)
    assert "age" in drawn(plots.pairs(draws, [("age", HOSTILE)]), tmp_path)
    drawn(plots.pairs(draws), tmp_path)
    assert "education" in drawn(plots.uncertainty(draws), tmp_path)


def test_how_it_was_done(imputer, table, tmp_path):
    assert "step" in drawn(plots.training(imputer), tmp_path)
    assert "log odds" in drawn(plots.mechanism(imputer.mechanism_report(table)), tmp_path)


def test_hidden_cells(imputer, table, tmp_path):
    found = imputer.evaluate(table, repeats=1, compare=())
    assert "in 90% intervals" in drawn(plots.hidden_cells(found), tmp_path)
    cells, column = found.cells["age"], found["age"]
    assert len(cells.truth) == min(200, column.cells)
    inside = (cells.low <= cells.truth) & (cells.truth <= cells.high)
    assert inside.mean() == pytest.approx(column.coverage[0.9])
    assert (cells.truth == cells.truth.astype(int)).all()
    levels, column = found.cells["sex"], found["sex"]
    assert (levels.truth != levels.filled).mean() == pytest.approx(column.errors["vsae"])
    assert levels.confidence.mean() == pytest.approx(column.confidence)
    with pytest.raises(TableError, match="'sex' in columns has no hidden numbers"):
        plots.hidden_cells(found, ["sex"])


def a_sensitivity(points: list[tuple[float, float, float]]) -> Sensitivity:
    found = tuple(Point(d, s, d * s, 1.0, d * s - 2, d * s + 2, 9.0, p, 0.1) for d, s, p in points)
    audit = Audit({"income": 3}, {}, "", False, 2, 0, {})
    return Sensitivity(found, Point(0, 1, 0, 1, -2, 2, 9, 0.5, 0.1), 0.0, 0.05, audit)


def test_sensitivity_and_its_tipping_point(tmp_path):
    line = a_sensitivity([(-1, 1, 0.3), (0, 1, 0.5), (1, 1, 0.01)])
    assert "p crosses 0.05" in drawn(plots.sensitivity(line), tmp_path)
    assert "multiplied" in drawn(plots.sensitivity(a_sensitivity([(0, 1, 0.5), (0, 2, 0.3)])), tmp_path)
    grid = a_sensitivity([(d, s, 0.01 if d * s > 1 else 0.5) for d in (0, 1, 2) for s in (1, 2)])
    assert "p = 0.05" in drawn(plots.tipping_map(grid), tmp_path)
    with pytest.raises(ValueError, match="a map needs two or more values of delta and of scale"):
        plots.tipping_map(line)


def test_what_cannot_be_shown_is_named(draws):
    with pytest.raises(TableError, match="column 'age' in columns has no drawn cells"):
        plots.distributions(draws, ["age"])
    with pytest.raises(AttributeError, match="no attribute 'pie'"):
        _ = plots.pie
    with pytest.raises(TableError, match="no cells"):
        plots.missing_matrix({})


def test_without_matplotlib_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("matplotlib.") or name == "vsae.plots.figures"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"^figures need matplotlib, .*; pip install 'vsae\[plots\]'$"):
        _ = plots.flux


def test_the_report_does_without_matplotlib():
    for room in ("report", "plots"):
        for path in Path(plots.__file__).parents[1].joinpath(room).glob("*.py"):
            assert path.stem == "figures" or "import matplotlib" not in path.read_text("utf-8")
            assert path.stem in ("figures", "__init__") or "from matplotlib" not in path.read_text("utf-8")
