"""Constraints, conditions and choices of columns, through the command line and the estimator."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from vsae import MISSING, VSAEImputer, load
from vsae.cli.app import app
from vsae.files import read_table, write_table

pytestmark = pytest.mark.usefixtures("few_steps")

N = 120
RELATIONS = ["diastolic < systolic", "total == a + b", "end >= start"]


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def visits() -> dict[str, np.ndarray]:
    """A quarter of the cells is missing."""
    rng = np.random.default_rng(0)
    systolic, a, b = rng.normal(130, 15, N).round(), rng.gamma(2, 9, N).round(1), rng.gamma(2, 9, N).round(1)
    start = np.datetime64("2024-01-01") + rng.integers(0, 300, N).astype("m8[D]")
    sex = np.where(rng.random(N) < 0.5, "F", "M").astype(object)
    table = {
        "systolic": systolic,
        "diastolic": systolic - rng.integers(5, 60, N),
        "a": a,
        "b": b,
        "total": (a + b).round(1),
        "start": start,
        "end": start + rng.integers(0, 20, N).astype("m8[D]"),
        "births": np.where(sex == "F", rng.poisson(2, N), np.nan),
        "sex": sex,
    }
    for name, column in table.items():
        column[rng.random(N) < 0.25] = {"M": "NaT", "O": None}.get(column.dtype.kind, np.nan)
        table[name] = column
    return table


def holds(rows: dict[str, np.ndarray]) -> np.ndarray:
    total = np.isclose(rows["total"].astype(float), rows["a"].astype(float) + rows["b"].astype(float), atol=1e-6)
    return (rows["diastolic"] < rows["systolic"]) & total & (rows["end"] >= rows["start"])


def test_filled_drawn_and_generated_rows_satisfy_the_constraints(visits, tmp_path):
    path, model, out = tmp_path / "t.csv", tmp_path / "m.vsae", tmp_path / "out.csv"
    write_table(path, visits)
    options = [option for text in RELATIONS for option in ("--constraint", text)]
    assert invoke("fit", path, "-o", model, *options, "-q").exit_code == 0
    assert invoke("impute", path, "--model", model, "-o", out, "-q").exit_code == 0
    assert holds(read_table(out).data).all()
    imputer = load(model)
    for table in imputer.draw(visits, 2):
        assert holds(table).all()
        for name, column in visits.items():
            known = np.array([value == value and value is not None for value in column.tolist()])
            assert (table[name][known] == column[known]).all()
    assert holds(imputer.sample(50)).all()
    assert invoke("impute", path, "--model", model, "--constraint", "a < b").exit_code == 2


def test_inspect_offers_relations_that_can_be_copied(visits, tmp_path):
    write_table(tmp_path / "t.csv", visits)
    shown = invoke("inspect", tmp_path / "t.csv").stdout
    for text in ("--constraint 'diastolic < systolic'", "--constraint 'total == a + b'", "--constraint 'start <= end'"):
        assert text in shown


def test_a_row_that_breaks_a_constraint_is_named_and_stays(visits, tmp_path):
    visits = {name: column.copy() for name, column in visits.items()}
    visits["diastolic"][4], visits["systolic"][4] = 300.0, 100.0
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    write_table(path, visits)
    done = invoke("impute", path, "-o", out, "--constraint", "diastolic < systolic", "-q")
    assert done.exit_code == 0, done.output
    assert "do not satisfy 'diastolic < systolic' in row 5" in done.stderr
    assert read_table(out).data["diastolic"][4] == 300.0


def test_cells_that_do_not_apply_stay_empty(visits, tmp_path):
    path, model, out, flags = (tmp_path / name for name in ("t.csv", "m.vsae", "out.csv", "flags.csv"))
    write_table(path, visits)
    assert invoke("fit", path, "-o", model, "--structural", "births: sex == 'M'", "-q").exit_code == 0
    done = invoke("impute", path, "--model", model, "-o", out, "--flags", flags)
    assert done.exit_code == 0, done.output
    filled, flagged = read_table(out).data, read_table(flags).data
    observed = ~np.isnan(visits["births"])
    assert (np.isnan(filled["births"]) == ((filled["sex"] == "M") & ~observed)).all()
    assert f"births {int(flagged['births'].sum())}" in done.stderr
    assert flagged["births"].sum() == (~np.isnan(filled["births"]) & ~observed).sum()
    assert "warning" not in done.stderr
    drawn = load(model).sample(60)
    assert np.isnan(drawn["births"][drawn["sex"] == "M"]).all()
    assert not np.isnan(drawn["births"][drawn["sex"] == "F"]).any()
    refused = invoke("fit", path, "-o", model, "--structural", "births sex")
    assert refused.exit_code == 1
    assert "column: condition" in refused.stderr


def test_columns_can_be_left_out_or_be_the_only_ones_to_be_filled(visits, tmp_path):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    write_table(path, visits)
    done = invoke("impute", path, "-o", out, "--exclude", "a,b", "--exclude", "total")
    assert done.exit_code == 0, done.output
    assert "of column 'a' left empty: not modelled: as asked" in done.stderr
    before, after = read_table(path).data, read_table(out).data
    assert (np.isnan(after["a"]) == np.isnan(before["a"])).all()
    assert not np.isnan(after["systolic"]).any()
    done = invoke("impute", path, "-o", out, "--only", "systolic,sex")
    after = read_table(out).data
    assert "of column 'a' left empty: not among those of --only" in done.stderr
    assert not np.isnan(after["systolic"]).any()
    assert None not in after["sex"].tolist()
    for name in set(before) - {"systolic", "sex"}:
        np.testing.assert_array_equal(after[name], before[name])
    assert "there is no column 'nope'" in invoke("impute", path, "--only", "nope").stderr
    assert invoke("impute", path, "--exclude", "nope").exit_code == 1


def test_rows_are_generated_in_ranges_and_with_one_of_several_values(visits, tmp_path):
    clinic = {name: visits[name] for name in ("systolic", "start", "sex")}
    clinic["reason"] = np.resize(np.array(["heart", "back", "eye"], dtype=object), N)
    imputer = VSAEImputer(random_state=0).fit(clinic)
    given = {"systolic": (120, 140), "reason": ["heart", "back"], "sex": "F"}
    rows = imputer.sample(40, given=given)
    assert len(rows["systolic"]) == 40
    assert ((rows["systolic"] >= 120) & (rows["systolic"] <= 140)).all()
    assert set(rows["reason"]) == {"heart", "back"}
    assert set(rows["sex"]) == {"F"}
    late = np.datetime64("2024-06-01")
    rows = imputer.sample(30, given={"start": (late, None), "sex": MISSING}, with_missing=True)
    assert (rows["start"] >= late).all()
    assert set(rows["sex"]) == {None}
    with pytest.raises(ValueError, match="generated rows are as given; widen 'systolic'"):
        imputer.sample(40, given={"systolic": (9000, 9001)})
    with pytest.raises(ValueError, match="a range has two ends, not 3"):
        imputer.sample(40, given={"systolic": (1, 2, 3)})
    model, path = tmp_path / "m.vsae", tmp_path / "t.csv"
    write_table(path, clinic)
    assert invoke("fit", path, "-o", model, "-q").exit_code == 0
    drawn = tmp_path / "drawn.csv"
    options = ["--given", "systolic=120..140", "--given", "reason=heart,back", "--given", "start=2024-06-01.."]
    done = invoke("sample", model, "-n", 20, "-o", drawn, *options)
    assert done.exit_code == 0, done.output
    rows = read_table(drawn).data
    assert ((rows["systolic"] >= 120) & (rows["systolic"] <= 140) & (rows["start"] >= late)).all()
    assert set(rows["reason"]) <= {"heart", "back"}
