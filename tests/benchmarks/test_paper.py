"""The paper's experiments: what is run, what a row holds, what the page makes of rows; and the literal preset."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import Rows
from benchmarks.paper import claims, family, jobs, pages
from benchmarks.paper.board import ORDER, TABLE1, Board
from benchmarks.paper.jobs import BENCHMARK, PLANS, TABLES, UNIQUE, Experiment, jobs_of, measured, plan_of
from benchmarks.paper.methods import (
    ABLATIONS,
    DEFAULT,
    DEFAULT_CHANGES,
    METHODS,
    PAPER,
    PAPER_CHANGES,
    PAPERS,
    run_method,
)
from benchmarks.processes import Processes, RunFailed
from benchmarks.runs import Mode, run
from vsae.data.schema import Schema, categorical, real
from vsae.fitting.fit import fit
from vsae.model.config import VSAEConfig

needs_data = pytest.mark.skipif(
    "VSAE_DATA" not in os.environ, reason="VSAE_DATA is not set: the UCI tables are not here"
)
ROWS = BENCHMARK.rows(Path(__file__).parents[2] / "results")


@pytest.fixture
def small_table(monkeypatch):
    """In the place of every data set: 120 rows, two numbers and a category that depend on each other."""

    def load(table: str) -> Rows:
        rng = np.random.default_rng(0)
        a = rng.normal(size=120)
        columns = {"a": a, "b": a + 0.3 * rng.normal(size=120), "c": (a > 0).astype(int) + (a > 1)}
        schema = Schema([real("a"), real("b"), categorical("c", 3)])
        return Rows(table, schema, columns, np.ones((120, 3), dtype=bool))

    monkeypatch.setattr(jobs, "load", load)


# --- what is run


def test_every_table_of_the_paper_has_its_runs():
    assert {e.table for e, _ in PLANS["mcar"]} == {*TABLES, UNIQUE}
    assert {method for _, method in PLANS["mcar"]} == set(METHODS)
    assert {e.rate for e, _ in PLANS["ratios"]} == {0.3, 0.5, 0.7}
    assert {e.mechanism for e, _ in PLANS["nonmcar"]} == {"paper-mar", "paper-nmar", "mar", "nmar"}
    assert {method for _, method in PLANS["ablation"]} == {PAPER, DEFAULT, *ABLATIONS}
    both = plan_of(["mcar", "ratios"])
    assert len(both) == len(set(both))
    assert [m for _, m in plan_of(["mcar"], ["VAE"], ["yeast"])] == ["VAE"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((["tabel"],), "there is no table of the paper tabel; there are mcar"),
        ((["mcar"], ["VEA"]), "there is no method VEA; there are AE, VAE.* more$"),
        ((["mcar"], None, ["iris"]), "there is no data set iris"),
    ],
)
def test_an_unknown_name_is_one_line(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        plan_of(*arguments)


@pytest.mark.parametrize("changes", [*PAPER_CHANGES.values(), *DEFAULT_CHANGES.values()])
def test_ablations_name_settings_that_differ_from_their_preset(changes):
    preset = VSAEConfig.paper() if changes in PAPER_CHANGES.values() else VSAEConfig()
    assert all(getattr(preset.replace(**changes), name) == value for name, value in changes.items())
    assert preset.replace(**changes) != preset


def test_a_mistyped_ablation_is_no_run_of_the_whole_model(small_table):
    task = Experiment("yeast", "mcar", 0.5).task(0)
    with pytest.raises(ValueError, match="there is no method 'VSAE paper: no ME'"):
        run_method(f"{PAPER}: no ME", task)


@pytest.mark.parametrize("method", [*METHODS, f"{PAPER}: no EM", f"{DEFAULT}: noise in missing cells"])
def test_a_run_gives_a_row_a_seed(small_table, method):
    quick = {"steps": 20, "epochs": 2}
    rows = [measured("yeast", "mcar", 0.5, method, seed, "cpu", **quick) for seed in (3, 4)]
    assert [row["seed"] for row in rows] == [3, 4]
    for row in rows:
        for where in ("in_sample", "new_rows"):
            assert set(row[where]) == {"nrmse", "nrmse_trivial", "pfc", "pfc_trivial"}
            assert all(np.isfinite(x) for x in row[where].values())
        assert row["seconds"] > 0
        assert ("weighted_new_rows" in row) == method.startswith(PAPER)
        assert json.dumps(row)
    assert rows[0]["new_rows"] != rows[1]["new_rows"]  # splits and masks vary


def test_all_methods_get_the_same_missing_cells(small_table):
    one, again = (Experiment("yeast", "mcar", 0.5).task(5) for _ in range(2))
    assert np.array_equal(one.train_mask, again.train_mask)
    assert not np.array_equal(one.train_mask, Experiment("yeast", "mcar", 0.5).task(6).train_mask)
    first, second = (run_method("MICE", task) for task in (one, again))
    assert first["new_rows"] == second["new_rows"]


def test_what_is_there_is_not_run_again(tmp_path, monkeypatch):
    calls = []

    def ours(self, module, job):
        calls.append((module, job["seed"]))
        return row_of("AE", 0.9, job["seed"])

    monkeypatch.setattr(Processes, "ours", ours)
    said = []
    plan, store = [(Experiment("yeast", "mcar", 0.5), "AE")], BENCHMARK.store(tmp_path)
    for seeds in ((0, 1), (0, 1, 2)):
        run(BENCHMARK, jobs_of(plan, seeds), store, Processes(), report=said.append)
    assert calls == [("benchmarks.paper.jobs", seed) for seed in (0, 1, 2)]
    assert [path.name for path in tmp_path.iterdir()] == ["paper-yeast.jsonl"]
    assert [row["seed"] for row in store.rows()] == [0, 1, 2]
    assert sum("(there)" in line for line in said) == 2
    run(BENCHMARK, jobs_of(plan, (0,)), store, Processes(), Mode(force=True), report=said.append)
    assert calls[-1] == ("benchmarks.paper.jobs", 0)


def test_a_run_that_fails_is_said_and_the_others_go_on(tmp_path, monkeypatch):
    def ours(self, module, job):
        raise RunFailed("MemoryError: too large")

    monkeypatch.setattr(Processes, "ours", ours)
    said = []
    plan = [(Experiment("yeast", "mcar", 0.5), method) for method in ("AE", "VAE")]
    with pytest.raises(ValueError, match="2 of 2 runs failed"):
        run(BENCHMARK, jobs_of(plan, (0,)), BENCHMARK.store(tmp_path), Processes(), report=said.append)
    assert [line.endswith("failed: MemoryError: too large") for line in said] == [True, True]
    assert not list(tmp_path.iterdir())


@needs_data
def test_phishing_without_copies_has_none():
    rows = jobs.load(UNIQUE)
    assert len(np.unique(rows.matrix(), axis=0)) == len(rows) < len(jobs.load("phishing"))


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_trains_with_finite_terms_and_generates_the_right_share_of_missing_cells(table):
    epochs = 23 if table in ("mushroom", "phishing") else 60
    row = measured(table, "mcar", 0.5, PAPER, 1, "cpu", epochs=epochs)
    assert row["finite"]
    assert row["curve"]["x_unobserved"][-1] < 0  # the E step was on
    assert row["missing_sampled"] == pytest.approx(row["missing"], abs=0.02)


# --- what the page makes of it


def row_of(method: str, nrmse: float, seed: int, table: str = "yeast", **more):
    errors = {"nrmse": nrmse, "nrmse_trivial": 1.0 + 0.01 * seed}
    return {
        "table": table, "mechanism": "mcar", "rate": 0.5, "method": method, "seed": seed, "rows": 10, "seconds": 1.0,
        "machine": "a machine", "in_sample": errors, "new_rows": errors, **more,
    }  # fmt: skip


def test_cells_are_means_and_deviations_and_the_best_are_bold():
    rows = [row_of("AE", x, s) for s, x in enumerate((0.8, 0.9, 1.0))]
    rows += [row_of("VAE", x, s) for s, x in enumerate((0.82, 0.92, 1.02))]
    rows += [row_of("CVAE", x, s) for s, x in enumerate((1.1, 1.2, 1.3))]
    board = Board(rows)
    column = ("yeast", "mcar0.5", "nrmse")
    text = pages.error_table(board, [column], ORDER, paper={("VAE", column): 0.461})
    assert "| AE | **0.900 ± 0.100** |" in text
    assert "| VAE | **0.920 ± 0.100** (0.461) |" in text  # within one deviation of the best
    assert "| CVAE | 1.200 ± 0.100 |" in text
    assert "| mean/mode | 1.010 ± 0.010 |" in text
    assert "MVAE" not in text  # nothing was run


def board_of(errors, rates=(0.5,), **more):
    """Three seeds of each method on every data set; `errors` maps methods to a share of the trivial error."""
    rows = {}
    for (table, _, measure), rate, (method, share), seed in itertools.product(TABLE1, rates, errors.items(), range(3)):
        trivial = (1.0 if measure == "nrmse" else 0.4) + 0.01 * seed
        row = rows.setdefault((table, rate, method, seed), row_of(method, 1.0, seed, table) | {"rate": rate, **more})
        row["new_rows"] = row["new_rows"] | {measure: share(rate) * trivial, f"{measure}_trivial": trivial}
    return Board(rows.values())


def test_claims_are_judged_by_the_rows_and_left_out_without_them():
    assert claims.claims(Board([])) == ""
    rivals = {name: lambda rate: 1.0 for name in PAPERS if name != "MIWAE"}
    text = claims.claims(board_of({PAPER: lambda rate: 0.9, **rivals}))
    assert "has it in 6 of 6; it is better than the mean or mode by more than 1 % in 6." in text
    assert "HI-VAE" not in text.split("spread")[1]
    worse = claims.claims(board_of({PAPER: lambda rate: 1.01, **rivals}))
    assert "has it in 0 of 6; it is better than the mean or mode by more than 1 % in 0." in worse
    ratios = board_of({"HI-VAE": lambda rate: rate, PAPER: lambda rate: 1.0}, rates=(0.3, 0.5, 0.7))
    text = claims.claims(ratios)
    assert "Not here: 0.123 at .3, 0.205 at .5." in text
    assert "White wine 1.010 → 1.010" in text
    assert len(pages.ratio_panels(ratios)) == 6
    rows = [row_of(f"{PAPER}: {w} only", x, 0) for w, x in (("collective", 0.9), ("attributive", 0.95))]
    assert "Yeast: 0.900 and 0.950" in claims.claims(Board(rows))


def test_latents_and_masks_are_reported_from_the_rows():
    idle = {"active_observed": 3, "active_hidden": 0, "of": 40, "kl_observed": [0.2, 0.4], "kl_hidden": [0.0, 0.0]}
    rows = [row_of(PAPER, 1.0, s, latents=idle, missing=0.5, missing_sampled=0.49 + 0.01 * s) for s in range(3)]
    rows += [row_of("VAE", 0.8, 0, latents={"active": 5, "of": 20, "kl": 1.25})]
    rows += [row_of("AE", 0.9, 0, latents={"active": 5, "of": 20, "kl": None})]
    board = Board(rows)
    table = pages.collapse_table(board)
    assert "3 seen, 0 hidden of 40; 0.30, 0.00" in table
    assert "| VAE | – | – | 5 of 20; 1.25 |" in table
    assert "| AE | – | – | 5 of 20 |" in table
    assert "| Yeast, MCAR .5 | 0.500 | 0.500 ± 0.010 | – | 0.500 → 0.496 |" in pages.masks_table(board)
    text = pages.idle_latents(board)
    assert "in 1 pairs" in text
    assert "in use in 2: 2 of them are below .99, the lowest at 0.80" in text
    errors = pages.error_table(board, [("yeast", "mcar0.5", "nrmse")], ORDER)
    assert "| VAE | 0.800 [1] |" in errors  # of another split, which may be easier
    assert f"| {PAPER} | **1.000 ± 0.000** |" in errors


def test_who_is_ahead_of_the_default_is_judged_by_the_seeds_that_both_have():
    column = ("yeast", "mcar0.5", "nrmse")
    rows = [row_of(DEFAULT, x, s, machine="torch, cpu, python") for s, x in enumerate((0.7, 0.9, 1.0))]
    rows += [row_of("VAEAC", 0.75, 0, machine="torch, cuda, python"), row_of("MIWAE", 0.85, 1)]
    said = family.beaten(Board(rows), [column, column])
    assert "Of 2 pairs of a model and a column" in said
    assert (
        f"has the higher error in 1, on the seeds that both have: MIWAE on Yeast (mcar0.5, NRMSE 0.850, {DEFAULT}"
        in said
    )
    assert "; lower on 1 of 1 seed)" in said
    assert family.beaten(Board(rows[:3]), [column]) == ""
    table = family.seconds_table(Board(rows))
    assert "| VAEAC | – | – | 1 (GPU) |" in table
    assert f"| {DEFAULT} | – | – | 1 (CPU, wall) |" in table


def test_methods_may_be_called_by_the_names_of_the_estimator():
    assert jobs.labels(["notmiwae-known", "vsae", "MICE"]) == ["not-MIWAE known", DEFAULT, "MICE"]
    assert jobs.labels(["vae", "all"]) is None
    assert {method for _, method in plan_of(["mcar"], jobs.labels(["all"]))} == set(METHODS)


def test_figures_are_drawn_and_linked_when_there_is_something_to_draw(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [row_of(m, 0.9, s) for m in (DEFAULT, f"{DEFAULT}: collective only") for s in range(2)]
    BENCHMARK.store(tmp_path).add(*rows)
    assert list(pages.figures(tmp_path)) == ["paper-ablation.svg"]
    text = pages.page(tmp_path)
    assert "figures/paper-ablation.svg" in text
    assert "figures/paper-ratios.svg" not in text


def test_committed_rows_are_of_the_preset_and_finite():
    preset = json.loads(json.dumps(VSAEConfig.paper().to_json()))
    found = 0
    for row in ROWS:
        assert row.get("finite", True)
        if row["method"] == PAPER:
            found += 1
            said = row["settings"]  # it may have settings that are gone since, and lack those for images
            there = {n: x for n, x in preset.items() if n in said}
            known = {n: {k: said[n][k] for k in x} if isinstance(x, dict) else said[n] for n, x in there.items()}
            assert known == there
            assert len(there) > 30
            assert "no better score" in row["stopped"] or row["epochs"] == 1000
            assert row["missing_sampled"] == pytest.approx(row["missing"], abs=0.03)
    assert found


# --- the preset


@pytest.mark.parametrize("rate", [0.3, pytest.param(0.7, marks=pytest.mark.slow)])
def test_masks_sampled_from_the_prior_have_the_tables_share_missing(rate):
    rng = np.random.default_rng(0)
    schema = Schema([real(f"x{i}") for i in range(6)])
    columns = {f"x{i}": rng.normal(size=600) for i in range(6)}
    mask = rng.random((600, 6)) >= rate
    for config in (VSAEConfig.paper(epochs=40, e_step_samples=10), VSAEConfig(steps=150)):
        sampled = fit(schema, columns, mask, config).generate_masks(10_000)
        assert 1 - sampled.mean() == pytest.approx(1 - mask.mean(), abs=0.02)


def test_the_papers_prior_is_standard_normal_and_the_default_is_fitted():
    rng = np.random.default_rng(0)
    schema = Schema([real("a"), real("b")])
    a = rng.normal(size=400)
    columns, mask = {"a": a, "b": a + 0.1 * rng.normal(size=400)}, np.ones((400, 2), dtype=bool)
    literal = fit(schema, columns, mask, VSAEConfig.paper(epochs=3))
    assert not literal.model.prior.factor.any()
    assert not literal.model.prior.loc.any()
    fitted = fit(schema, columns, mask, VSAEConfig(steps=300))
    rows, _ = fitted.generate(3000)
    assert np.corrcoef(rows["a"], rows["b"])[0, 1] > 0.9  # N(0, I) would lose the dependence
