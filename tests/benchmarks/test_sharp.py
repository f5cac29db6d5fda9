"""Sharp tables: made the same each time, hard for slopes and easy for trees; scores of hand-made answers."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.peers.grid import TaskData
from benchmarks.sharp import jobs, tables
from benchmarks.sharp.made import MAKERS, made
from benchmarks.sharp.page import page, seeds
from benchmarks.sharp.ratios import average, errors_of, groups_of, most_levels, to_lowest, verdicts
from vsae.data.schema import DISCRETE


@pytest.mark.parametrize("name", MAKERS)
def test_made_tables_are_the_same_each_time_and_fit_their_schema(name):
    rows, again, other = made(name, 200), tables.load(f"{name}-200"), made(name, 200, seed=1)
    np.testing.assert_array_equal(rows.matrix(), again.matrix())
    assert not np.array_equal(rows.matrix(), other.matrix())
    assert (rows.name, len(rows)) == (f"{name}-200", 200)
    assert np.isfinite(rows.matrix()).all()
    for variable in rows.schema.variables:
        x = rows.columns[variable.name]
        assert (variable.family in DISCRETE) == (x.dtype.kind == "i")
        assert variable.family not in DISCRETE or 0 <= x.min() <= x.max() < variable.size


@pytest.mark.parametrize(("name", "label", "by"), [("checkerboard", "colour", "xy"), ("thresholds", "both", "ac")])
def test_trees_see_edges_that_slopes_do_not(name, label, by):
    rows = made(name, 2000)
    x, y = np.stack([rows.columns[c] for c in by], axis=1), rows.columns[label]
    forest, slopes = (
        m.fit(x[:1500], y[:1500]).score(x[1500:], y[1500:])
        for m in (RandomForestClassifier(30, random_state=0), LogisticRegression())
    )
    assert forest > 0.9
    assert forest > slopes + 0.05


def test_designed_rows_share_exact_settings_and_labels_are_many():
    mixtures = made("recipes", 400).columns
    assert len(np.unique(mixtures["cement"])) <= 50
    assert made("labels", 200).schema.variables[0].size >= 20
    assert len(np.unique(made("integers", 500).columns["a_and_b"])) <= 13


def test_collected_tables_are_read_with_what_they_lack(tmp_path, monkeypatch):
    with gzip.open(tmp_path / tables.FILES["cars"], "wt") as file:
        file.write("make,doors,price,class\naudi,,13.5,1\nbmw,two,,0\naudi,four,9,1\n")
    monkeypatch.setenv("VSAE_DATA", str(tmp_path))
    rows = tables.load("cars")
    assert [v.family in DISCRETE for v in rows.schema.variables] == [True, True, False, True]
    np.testing.assert_array_equal(rows.columns["make"], [0, 1, 0])
    np.testing.assert_array_equal(rows.columns["price"], [13.5, np.nan, 9.0])
    assert (~rows.known).sum() == 2
    with pytest.raises(ValueError, match="there is no table 'rules'"):
        tables.load("rules")


def test_absolute_errors_take_the_place_of_squares(tmp_path):
    rows = TaskData.of(made("factorial", 200), "mcar", 0.3, 31)
    given = rows.given()
    answers = {part: np.where(np.isnan(x), np.nanmedian(given.train, axis=0), x) for part, x in vars_of(given)}
    np.savez(tmp_path / "answer.npz", **answers)
    (tmp_path / "answer.json").write_text(json.dumps({"version": "0", "seconds": 1.0, "seconds_new": None}))
    row = jobs.absolute(rows, tmp_path)
    for kept in ("in_sample", "new_rows"):
        assert set(row[kept]) == {"nmae", "nmae_trivial", "pfc", "pfc_trivial"}
        assert row[kept]["nmae"] == pytest.approx(row[kept]["nmae_trivial"])
    truth, hidden = rows.train.matrix()[:, 4], np.isnan(given.train[:, 4])
    expected = np.abs(truth - answers["train"][:, 4])[hidden].mean() / truth.std()
    alone = jobs.nmae(
        given, "train", rows.train.matrix(), np.where(np.arange(6) == 4, answers["train"], rows.train.matrix())
    )
    assert alone == pytest.approx(expected / 5)  # the four other numbers are right


def vars_of(given):
    return [("train", given.train), ("new", given.new)]


def row(table: str, method: str, error: float, measure: str = "nrmse", seed: int = 31) -> dict:
    errors = {measure: error, f"{measure}_trivial": 1.0}
    return {
        "table": table, "mechanism": "mcar", "rate": 0.3, "seed": seed, "method": method, "status": "ok",
        "in_sample": errors, "new_rows": errors, "seconds": 1.0,
    }  # fmt: skip


ROWS = [
    row("rules-200", "mean/mode", 1.0), row("rules-200", "boosting", 0.5), row("rules-200", "vsae", 0.6),
    row("recipes-200", "mean/mode", 0.8, "nmae"), row("recipes-200", "missforest", 0.4, "nmae"),
    row("recipes-200", "vsae", 0.2, "nmae"),
    row("independent-200", "mean/mode", 1.0), row("independent-200", "vsae", 1.001),
]  # fmt: skip


def test_errors_are_held_against_the_lowest_peer():
    errors = errors_of(ROWS)
    assert to_lowest(errors, "vsae") == pytest.approx(
        {("rules-200", "nrmse"): 1.2, ("recipes-200", "nmae"): 0.5, ("independent-200", "nrmse"): 1.001}
    )
    assert average(errors, "vsae") == pytest.approx(0.6**0.5)  # without the control
    assert [(v.found, v.met) for v in verdicts(errors)] == [
        ("0.775", True), ("1.200 (rules-200 NRMSE)", False), ("0.500 (recipes-200 NMAE)", True),
        ("1.001 (independent-200 NRMSE)", True),
    ]  # fmt: skip
    assert [v.met for v in verdicts(errors_of(r for r in ROWS if r["method"] != "vsae"))] == [None] * 4


def test_a_table_that_only_peers_have_run_on_hides_no_loss():
    """More seeds of the peers' take our error out of the table, and must not take the verdict with it."""
    peers = [r for r in ROWS if r["table"] == "rules-200" and r["method"] != "vsae"]
    more = errors_of([*ROWS, *({**r, "seed": 32} for r in peers)])
    assert ("rules-200", "nrmse") not in to_lowest(more, "vsae")
    found = verdicts(more)[1]
    assert found.met is None
    assert "rules-200 NRMSE not run" in found.found


def test_places_are_grouped_by_levels_and_by_how_much_peers_leave():
    levels = [row("labels-200", m, e, "pfc") for m, e in (("mean/mode", 0.9), ("boosting", 0.09), ("vsae", 0.1))]
    groups = groups_of(errors_of([*ROWS, *levels]))
    assert most_levels("labels-200") == 30
    assert most_levels("recipes-200") == most_levels("cars") == 0
    assert groups["PFC, made, 7 levels or more"] == [("labels-200", "pfc")]
    assert groups["lowest / that of mean and mode, 0.0 to 0.25"] == [("labels-200", "pfc")]
    assert len(groups["lowest / that of mean and mode, 0.5 to 0.7"]) == 2


def test_seeds_that_only_some_tables_have_are_told():
    rows = [row("cars", "vsae", 0.5), row("rules-200", "vsae", 0.5), row("rules-200", "vsae", 0.4, seed=32)]
    assert seeds(rows) == "31; 32 as well for rules-200"


def test_the_page_is_made_of_rows(tmp_path):
    assert page(tmp_path) is None
    jobs.BENCHMARK.store(tmp_path).add(*ROWS)
    text = page(tmp_path)
    assert "Of 4 figures asked for, 3 are met, 1 not." in " ".join(text.split())
    assert "| rules-200 NRMSE | 1.000 | 0.500 | – | 1.200 |" in text
    assert "| made, 200 rows | 0.775 |" in text


def test_a_run_becomes_a_row(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    jobs.main(["--tables", "factorial", "--sizes", "60", "--methods", "mean/mode", "--mechanisms", "mcar0.3"])
    (kept,) = jobs.BENCHMARK.rows()
    assert kept["in_sample"]["nmae"] > kept["in_sample"]["nmae_trivial"] > 0  # a mean is no median
    assert "| factorial-60 NMAE |" in capsys.readouterr().out
