"""R's mice, and mitools, make the same of our draws as we do: as.mids reads them, and with and pool agree to 1e-8."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

import numpy as np
import pytest

from vsae import Draws, VSAEImputer, pool
from vsae.analysis.formulas import regression
from vsae.datasets import make_clinic
from vsae.files import write_table

pytest.importorskip("pandas")
pytest.importorskip("statsmodels", reason="regressions need statsmodels: pip install 'vsae[stats]'")

COLUMNS = ["age", "sex", "bmi", "systolic", "smoker"]
SCRIPT = Path(__file__).with_name("pool.R")
LINEAR = "systolic ~ age + bmi + sex"
OURS = {"(Intercept)": "Intercept", "sexmale": "sex[T.male]"}  # names of terms


@pytest.fixture(scope="module")
def draws() -> Draws:
    frame = make_clinic(150).frame()[COLUMNS]
    return VSAEImputer(config={"steps": 20, "trees": 0}, random_state=0).fit(frame).draw(frame, 5)


@pytest.fixture(scope="module")
def folder(mice, draws, tmp_path_factory) -> Path:
    """Where R has written what it says of the draws."""
    folder = tmp_path_factory.mktemp("mice")
    long = draws.long(original=True)
    write_table(folder / "long.csv", {name: long[name].to_numpy() for name in long})
    done = subprocess.run(["Rscript", SCRIPT, folder / "long.csv", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def read(path: Path) -> dict[str, list[str]]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


def numbers(table: dict[str, list[str]], name: str) -> np.ndarray:
    return np.array(table[name], dtype=float)


def test_as_mids_holds_the_original_and_the_draws(folder):
    theirs, ours = read(folder / "completed.csv"), read(folder / "long.csv")
    assert list(theirs) == list(ours) == [".imp", ".id", *COLUMNS]
    assert theirs[".imp"] == [str(i) for i in range(6) for _ in range(150)]
    for name, cells in theirs.items():
        if name == "sex":
            assert cells == ours[name]
        elif name == "smoker":  # R writes TRUE
            assert [cell.lower() for cell in cells] == ours[name]
        else:
            assert [cell and float(cell) for cell in cells] == [cell and float(cell) for cell in ours[name]]
    assert "" in theirs["bmi"][:150]
    assert "" not in theirs["bmi"][150:]


@pytest.mark.parametrize(
    ("name", "formula", "options"),
    [("linear", LINEAR, {}), ("logistic", "smoker ~ age + bmi", {"family": "binomial", "tol": 1e-15, "maxiter": 100})],
)
def test_with_and_pool_say_the_same(folder, draws, name, formula, options):
    theirs, ours = read(folder / f"{name}.csv"), draws.fit(formula, **options)
    at = [ours.terms.index(OURS.get(term, term)) for term in theirs["term"]]
    assert sorted(at) == list(range(len(ours.terms)))
    low, high = ours.interval
    same = {
        "estimate": ours.estimate,
        "std.error": ours.std_error,
        "df": ours.df,
        "p.value": ours.p_value(),
        "2.5 %": low,
        "97.5 %": high,
        "fmi": ours.fraction_missing,
        "lambda": ours.lambda_,
        "ubar": ours.within,
        "b": ours.between,
        "t": ours.total,
    }
    for column, values in same.items():
        np.testing.assert_allclose(numbers(theirs, column), values[at], rtol=1e-8, atol=1e-8, err_msg=column)
    assert (numbers(theirs, "fmi") > 0.05).any()  # the missing cells matter
    assert {float(x) for x in theirs["dfcom"]} == {150 - len(at)}


def test_mitools_says_the_same(folder, draws):
    if not (folder / "mitools.csv").exists():
        pytest.skip("R's mitools is not installed: apt-get install r-cran-mitools")
    fits = draws.apply(lambda table: regression(table, LINEAR))
    theirs, ours = read(folder / "mitools.csv"), pool(fits, dfcom=np.inf)
    at = [ours.terms.index(term) for term in ("Intercept", "age", "bmi", "sex[T.male]")]
    same = {"estimate": ours.estimate, "std.error": ours.std_error, "df": ours.df, "fmi": ours.fraction_missing}
    for column, values in same.items():
        np.testing.assert_allclose(numbers(theirs, column), values[at], rtol=1e-8, err_msg=column)
