"""`VSAEImputer.evaluate` and `vsae evaluate`, as a user calls them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import vsae.estimator.learning
from vsae import VSAEImputer
from vsae.cli.app import app
from vsae.datasets import make_clinic
from vsae.files import read_table, write_table

pytestmark = pytest.mark.usefixtures("few_steps")
ONCE = {"repeats": 1, "compare": ["linear"]}
QUICK = {"config": {"trees": 0}, "effort": "fast"}


def some_columns(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    table = make_clinic(n, seed=seed).table()
    return {name: table[name] for name in ("visit_date", "age", "sex", "income", "reason")}


@pytest.fixture
def masks(monkeypatch) -> list[np.ndarray]:
    """Those that models are fitted with."""
    seen, fit = [], vsae.estimator.learning.fit

    def watched(schema, columns, mask, *rest, **options):
        seen.append(mask)
        for j, attribute in enumerate(schema.attributes):
            for variable in attribute.variables:
                assert not np.asarray(columns[variable.name])[~mask[:, j]].any(), "a hidden value is handed on"
        return fit(schema, columns, mask, *rest, **options)

    monkeypatch.setattr("vsae.estimator.learning.fit", watched)
    return seen


def test_a_table_is_evaluated_and_nothing_changes(masks):
    table = some_columns(150)
    before = {name: column.copy() for name, column in table.items()}
    imputer = VSAEImputer(**QUICK, random_state=0)
    found = imputer.evaluate(table, repeats=2, compare=["linear"])
    assert [column.column for column in found.columns] == list(table)
    assert found.left_out == {}
    assert list(found.seconds) == ["vsae", "mean/mode", "linear"]
    for name, column in table.items():
        np.testing.assert_array_equal(column, before[name])
    assert not hasattr(imputer, "fitted_")
    assert not hasattr(imputer, "n_features_in_")
    known = imputer.fit(table).schema_.encode(table).mask
    first, second, whole = masks
    assert whole is not known
    np.testing.assert_array_equal(whole, known)
    assert not ((~first & known) & (~second & known)).any()
    assert sum(column.cells for column in found.columns) == (known & ~first).sum() + (known & ~second).sum()
    assert all(np.isfinite(error) for column in found.columns for error in column.errors.values())
    assert {column.column for column in found.columns if column.coverage is None} == {"sex", "reason"}


def test_the_same_seed_gives_the_same_errors_and_a_fitted_imputer_stays_as_it_is():
    frame = some_columns(120)
    imputer = VSAEImputer(**QUICK, random_state=3).fit(frame)
    fitted = imputer.fitted_
    one, other, third = (imputer.evaluate(frame, random_state=seed, **ONCE) for seed in (None, 3, 4))
    assert imputer.fitted_ is fitted
    np.testing.assert_equal(one.to_dict(), other.to_dict())
    assert one.to_dict()["vsae"] != third.to_dict()["vsae"]


def test_a_relation_that_is_stated_holds_in_what_is_scored():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 50, 200).astype(float)
    table = {"a": a, "b": rng.integers(0, 50, 200).astype(float)}
    table["total"] = table["a"] + table["b"]
    table["total"][:40] = np.nan
    found = VSAEImputer(**QUICK, constraints=["total == a + b"], random_state=0).evaluate(table, **ONCE)
    assert found["total"].errors["vsae"] == pytest.approx(0.0, abs=1e-9)


def test_frames_and_arrays_are_evaluated_too():
    pd = pytest.importorskip("pandas")
    table = some_columns(80)
    frame = pd.DataFrame({"age": table["age"], "income": table["income"]})
    found = VSAEImputer(**QUICK, random_state=0).evaluate(frame, **ONCE)
    assert list(found.table["column"]) == ["age", "income"]
    numbers = np.random.default_rng(0).normal(size=(60, 3))
    numbers[::5, 1] = np.nan
    assert [c.column for c in VSAEImputer(**QUICK, random_state=0).evaluate(numbers, **ONCE).columns] == [0, 1, 2]


def test_images_help_but_are_not_scored_and_that_is_said():
    rng = np.random.default_rng(0)
    place = rng.integers(2, size=60)
    images = np.empty(60, dtype=object)
    images[:] = list(np.where(place[:, None, None] * np.ones((4, 4)) > 0, 0.9, 0.1))
    images[::6] = None
    table = {"image": images, "place": np.array(["left", "right"], dtype=object)[place], "x": rng.normal(size=60)}
    found = VSAEImputer(**QUICK, random_state=0).evaluate(table, **ONCE)
    assert found.left_out == {"image": "it holds images"}
    assert [column.column for column in found.columns] == ["place", "x"]


# --- the command line


@pytest.fixture
def clinic_csv(tmp_path):
    path = tmp_path / "clinic.csv"
    write_table(path, some_columns(100))
    return path


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in ("evaluate", *arguments)])


def test_the_command_says_it_in_words_and_writes_a_table(clinic_csv, tmp_path):
    out = tmp_path / "errors.csv"
    done = invoke(clinic_csv, "-o", out, "--effort", "fast", "--repeats", 1, "--holdout", 0.2, "--compare", "linear")
    assert done.exit_code == 0, done.output
    assert "Errors on 20% of the known cells that were hidden once" in done.stdout
    assert "fit 1 of 1, 100 rows" in done.stderr
    written = read_table(out).data
    assert list(written["column"])[:2] == ["visit_date", "age"]
    assert np.isfinite(np.asarray(written["vsae"], dtype=float)).all()
    lines = tmp_path / "errors.jsonl"
    done = invoke(clinic_csv, "-o", lines, "-q", "--effort", "fast", "--repeats", 1, "--compare", "mean/mode")
    assert done.stderr == ""
    assert json.loads(lines.read_text().splitlines()[2])["column"] == "sex"


def test_to_stdout_goes_the_table_alone(clinic_csv):
    done = invoke(clinic_csv, "-o", "-", "-q", "--repeats", 1, "--compare", "mean/mode", "--exclude", "age")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("column,kind,measure,cells,vsae,mean/mode,se,mae,coverage_50,coverage_90,confidence,")
    assert len(done.stdout.splitlines()) == 5


def test_a_table_that_is_too_small_is_refused_in_one_line(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text("a,b\n" + "1.5,2\n2.5,\n" * 6)
    done = invoke(path, "-q")
    assert done.exit_code == 1
    assert done.stderr == "vsae: the table has 12 rows; evaluate hides some of them, and needs at least 30\n"
    assert invoke(path, "-o", path).stderr.endswith("this is the table itself; name another file for the errors\n")
