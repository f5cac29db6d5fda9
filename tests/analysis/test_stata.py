"""Field by field, what Stata's `mi import flong` asks of a table; read back from a file of Stata's own format."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vsae import DataWarning, Draws, TableError
from vsae.analysis.stata import stata_names

pd = pytest.importorskip("pandas")


def frame(*, bmi=(None, None), sex=(None, "f"), ok=(None, True)) -> pd.DataFrame:
    cells = {
        "bmi": [21.5, *bmi, 30.0],
        "sex": ["f", *sex, "m"],
        "ok": pd.array([True, *ok, False], dtype="boolean"),
        "visits per year": [1, 2, 3, 4],
        "long": [0.5, 1.5, 2.5, 3.5],
        "seen": [True, True, False, False],
        "name": ["a", "b", "c", "d"],
    }
    return pd.DataFrame(cells, index=[5, 6, 7, 8])


DRAWS = Draws(
    [frame(bmi=(1.0, 2.0), sex=("m", "f"), ok=(False, True)), frame(bmi=(3.0, 4.0), sex=("f", "f"), ok=(True, True))],
    frame(),
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> pd.DataFrame:
    """Numbers as Stata sees them."""
    path = tmp_path_factory.mktemp("stata") / "long.dta"
    with pytest.warns(DataWarning, match="'visits per year' to visits_per_year, 'long' to long_"):
        DRAWS.long(style="stata").to_stata(path, write_index=False, version=118)
    return pd.read_stata(path, convert_categoricals=False)


def test_m_is_a_number_from_0_on_and_0_is_the_original(stored):
    assert stored["mi_m"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert stored["mi_m"].dtype.kind == "i"
    assert stored.loc[stored["mi_m"] == 0, "bmi"].isna().tolist() == [False, True, True, False]


def test_ids_are_unique_within_m_and_the_same_in_all(stored):
    assert not stored.duplicated(["mi_m", "mi_id"]).any()
    for _, table in stored.groupby("mi_m"):
        assert table["mi_id"].tolist() == [1, 2, 3, 4]


def test_no_name_is_one_that_mi_makes_or_stata_refuses(stored):
    assert list(stored) == ["mi_m", "mi_id", "bmi", "sex", "ok", "visits_per_year", "long_", "seen", "name"]
    assert not {"_mi_m", "_mi_id", "_mi_miss"} & set(stored)


def test_imputed_variables_are_numbers(stored):
    for name in ("bmi", "sex", "ok", "seen"):
        assert stored[name].dtype.kind in "if", name
    assert stored["ok"].tolist()[4:] == [1, 0, 1, 0, 1, 1, 1, 0]
    assert stored["ok"].isna().tolist() == [False, True] + [False] * 10


def test_levels_keep_their_labels(tmp_path):
    with pytest.warns(DataWarning):
        DRAWS.long(style="stata").to_stata(tmp_path / "long.dta", write_index=False, version=118)
    back = pd.read_stata(tmp_path / "long.dta")
    assert back["sex"].isna().tolist() == [False, True] + [False] * 10
    assert back["sex"].dropna().tolist() == ["f", "f", "m", "f", "m", "f", "m", "f", "f", "f", "m"]


def test_observed_cells_are_those_of_m_0(stored):
    """Else mi import changes them back, and says so."""
    original = stored[stored["mi_m"] == 0]
    for name in original:
        known = original[name].notna().to_numpy()
        for m in (1, 2):
            if name != "mi_m":
                drawn = stored.loc[stored["mi_m"] == m, name]
                assert drawn[known].tolist() == original.loc[known, name].tolist()
                assert drawn.notna().all()


@pytest.mark.parametrize("label", ["a b", "1st", "", "_mi_m", "str8", "using", "x" * 40, 7, "naïve-é", "_n"])
def test_every_name_becomes_one_that_stata_takes(label):
    name = stata_names([label])[label]
    assert re.fullmatch(r"[^\W\d]\w{0,28}", name)
    assert name not in ("_mi_m", "str8", "using", "_n")


def test_names_stay_different():
    labels = ["a b", "a-b", "a_b", "a.b", "x" * 40, "x" * 41]
    assert len(set(stata_names(labels).values())) == len(labels)
    assert stata_names(labels)["a_b"] == "a_b"


def test_an_array_has_no_names():
    with pytest.raises(TableError, match="Stata needs names of columns"):
        Draws([np.ones((2, 2))], np.ones((2, 2))).long(style="stata")
