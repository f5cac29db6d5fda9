"""The benchmark of joint draws: masks that hide whole groups, scores of hand-made draws, and its page."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.joint import blocks, constraints, exact, jobs, page, scores, times
from benchmarks.joint.blocks import Blocks, Relation, grouped, missing_groups
from benchmarks.peers.readings import Readings
from benchmarks.processes import ADAPTERS, Method, NoEnvironment, Processes
from benchmarks.runs import run
from vsae.data.schema import Schema, categorical, real
from vsae.estimator import VSAEImputer

JOB = {"table": "tiny", "mechanism": "mcar", "rate": 0.3, "seed": 11}


@pytest.fixture(autouse=True)
def _tiny_table(monkeypatch):
    def tiny(name: str) -> data.Rows:
        rng = np.random.default_rng(0)
        x, noise = rng.normal(size=(2, 300))
        third = np.digitize(x, [-0.5, 0.5])
        columns = {"x": x, "y": x + 0.01 * noise, "third": third, "name": 2 - third, "z": noise, "u": x + noise}
        kinds = [real("x"), real("y"), categorical("third", 3), categorical("name", 3), real("z"), real("u")]
        return data.Rows("tiny", Schema(kinds), columns, np.ones((300, 6), bool))

    monkeypatch.setattr(data, "load", tiny)
    relations = (Relation("x", "y", correlated=True), Relation("third", "name"))
    monkeypatch.setitem(blocks.RELATIONS, "tiny", relations)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# --- masks


@pytest.mark.parametrize("mechanism", ["mcar", "mar"])
def test_a_group_is_missing_as_a_whole_and_one_group_never(mechanism):
    made = Blocks.of({**JOB, "mechanism": mechanism})
    assert {(0, 1), (2, 3)} <= {group[:2] for group in made.groups}
    for group in made.groups:
        assert (made.hidden[:, group] == made.hidden[:, group[:1]]).all()
        assert made.hidden[:, group[0]].mean() == pytest.approx(0.3, abs=0.08)
    seen = sorted(set(range(6)) - {j for group in made.groups for j in group})
    assert seen
    assert not made.hidden[:, seen].any()
    np.testing.assert_array_equal(np.isnan(made.given().train), made.hidden)


def test_groups_hold_every_column_once_and_leave_one_without_relations(rng):
    for columns in range(5, 40):
        groups = grouped(columns, [(0, 3)], rng)
        assert sorted(j for group in groups for j in group) == list(range(columns))
        assert {0, 3} <= set(groups[0])
        assert not {0, 3} & set(groups[-1])
        assert all(2 <= len(group) <= 4 for group in groups)


def test_mar_depends_on_what_is_seen_and_keeps_its_rate_and_mcar_does_not(rng):
    seen = rng.lognormal(size=(20_000, 1))
    for mechanism, low, high in (("mcar", -0.03, 0.03), ("mar", 0.2, 0.7)):
        missing = missing_groups(mechanism, 0.3, seen, 2, rng)
        np.testing.assert_allclose(missing.mean(axis=0), 0.3, atol=0.02)
        found = [abs(np.corrcoef(np.log(seen[:, 0]), at)[0, 1]) for at in missing.T]
        assert all(low <= r <= high for r in found)
    with pytest.raises(ValueError, match="by mcar or mar, not nmar"):
        missing_groups("nmar", 0.3, seen, 2, rng)


@pytest.mark.parametrize("table", ["gaussian", "mixed"])
def test_made_tables_keep_their_relations(table):
    rows = blocks.load(table)
    assert len(rows) == 1500
    x, known = rows.matrix(), rows.variables_known()
    names = [v.name for v in rows.schema.variables]
    for relation in blocks.RELATIONS[table]:
        found = scores.relation(relation, names, x, known, np.ones_like(known), x[None])
        assert found.get("agree", 1.0) == 1.0
        assert found.get("lowest", 0.99) == pytest.approx(0.99, abs=0.002)


# --- scores


def test_the_truth_scores_zero_and_keeps_every_relation():
    made = Blocks.of(JOB)
    found = scores.scores(made, blocks.RELATIONS["tiny"], np.stack([made.rows.matrix()] * 3))
    assert found["association"]["worst"] == pytest.approx(0)
    assert found["association"]["pairs"] == sum(len(g) * (len(g) - 1) // 2 for g in made.groups)
    assert found["energy"] == pytest.approx(0, abs=1e-6)
    assert found["relations"]["x and y"]["lowest"] > 0.999
    assert found["relations"]["third and name"] == {"agree": 1.0}


@pytest.mark.parametrize("levels", [0, 2, 5])
def test_independent_draws_of_a_pair_that_is_one_score_one(rng, levels):
    x = rng.integers(levels, size=3000).astype(float) if levels else rng.normal(size=3000)
    truth = np.stack([x, x], axis=1)
    draws = np.stack([np.stack([rng.permutation(x), x], axis=1) for _ in range(5)])
    kinds = np.array([levels, levels])
    assert scores.association_error(truth, draws, kinds) == pytest.approx(1, abs=0.06)  # lost
    assert scores.association_error(draws[0], truth[None], kinds) == pytest.approx(1, abs=0.06)  # invented
    assert scores.association_error(truth, np.stack([truth] * 5), kinds) == pytest.approx(0)


def test_an_association_with_the_wrong_sign_is_twice_as_wrong_as_none(rng):
    x = rng.normal(size=2000)
    truth, turned = np.stack([x, x], axis=1), np.stack([x, -x], axis=1)
    assert scores.association_error(truth, turned[None], np.array([0, 0])) == pytest.approx(2)


def test_energy_distance_grows_with_what_is_wrong(rng):
    truth = rng.normal(size=(400, 2))
    levels, scales = np.array([0, 0]), np.ones(2)
    near, far = (scores.energy(truth, truth[None] + shift, levels, scales) for shift in (0.1, 1.0))
    assert 0 < near < far
    shuffled = np.stack([truth[:, 0], truth[:, 0]], axis=1)
    apart = np.stack([truth[:, 0], rng.permutation(truth[:, 0])], axis=1)  # the columns alone are as they should be
    assert scores.energy(shuffled, apart[None], levels, scales) > near


def test_agreement_counts_rows_in_which_both_are_drawn():
    truth = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    hidden = np.array([[True, True], [True, True], [True, False], [False, False]])
    draw = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    known = np.ones_like(hidden)
    found = scores.relation(Relation("a", "b"), ["a", "b"], truth, known, hidden, draw[None])
    assert found == {"agree": 0.5}
    cut = scores.relation(Relation("a", "b", cuts=(0.5,)), ["a", "b"], truth, known, hidden, draw[None])
    assert cut == {"agree": 0.5}  # (1, 0) does not hold, (1, 1) does


def test_draws_from_the_true_distribution_are_nearly_right():
    job = {**JOB, "table": "gaussian", "method": "independent"}
    row = jobs.measured(job, Processes())
    exact = row["scores"]["exact"]
    assert exact["relations"]["a and b"]["lowest"] > 0.985
    assert exact["association"]["mean"] < 0.03 < row["scores"]["association"]["mean"]
    assert exact["energy"] < 0.12 < row["scores"]["energy"]


# --- rows


def test_independent_draws_lose_the_associations(tmp_path):
    lines: list[str] = []
    run(jobs.BENCHMARK, [{**JOB, "method": "independent"}], jobs.BENCHMARK.store(tmp_path), Processes(),
        report=lines.append)  # fmt: skip
    (row,) = jobs.BENCHMARK.rows(tmp_path)
    assert (row["status"], row["draws"]) == ("ok", jobs.DRAWS)
    assert abs(row["scores"]["relations"]["x and y"]["mean"]) < 0.2
    assert row["scores"]["relations"]["third and name"]["agree"] < 0.6
    assert row["scores"]["association"]["mean"] > 0.3 > row["scores"]["association"]["complete_rows"]
    assert "association" in lines[0]


def test_independent_draws_leave_what_is_observed():
    given = Blocks.of(JOB).given()
    draws = jobs.independent_draws(given)
    observed = ~np.isnan(given.train)
    assert all((draw[observed] == given.train[observed]).all() for draw in draws)
    assert not np.isnan(draws).any()


def test_draws_come_back_from_an_adapter(tmp_path, monkeypatch):
    code = f"""
import sys
sys.path.insert(0, {str(ADAPTERS)!r})
import numpy as np
from drawn import Drawn, run
run(lambda task, number: Drawn("zeros 1", 0.5, np.stack([np.nan_to_num(task.train)] * number)))
"""
    (tmp_path / "zeros.py").write_text(code)
    monkeypatch.setitem(jobs.METHODS, "zeros", Method(None, str(tmp_path / "zeros.py"), ("2",)))
    row = jobs.measured({**JOB, "method": "zeros"}, Processes(limit=60))
    assert (row["status"], row["version"], row["draws"], row["seconds"]) == ("ok", "zeros 1", 2, 0.5)
    assert row["scores"]["relations"]["third and name"]["agree"] == 0  # 0 goes with 2
    assert row["scores"]["relations"]["x and y"]["lowest"] == 0  # of constants


def test_ours_is_drawn_through_the_public_door(monkeypatch):
    monkeypatch.syspath_prepend(str(ADAPTERS))
    import vsae_draws

    monkeypatch.setattr(vsae_draws, "imputer_for", lambda task, effort: VSAEImputer(config={"steps": 5}))
    made = Blocks.of(JOB)
    draws = vsae_draws.draw(made.given(), 2, "fast").train
    np.testing.assert_allclose(draws[0][~made.hidden], made.rows.matrix()[~made.hidden])
    assert 0 < scores.scores(made, (), draws)["energy"] < 2


def test_the_posterior_draws_of_scikit_learn_keep_a_linear_relation(monkeypatch):
    monkeypatch.syspath_prepend(str(ADAPTERS))
    import iterative_draws

    made = Blocks.of(JOB)
    draws = iterative_draws.draw(made.given(), 2).train
    assert draws.shape == (2, 300, 6)
    assert set(np.unique(draws[:, :, 2])) <= {0.0, 1.0, 2.0}
    assert not (draws[0] == draws[1]).all()
    found = scores.scores(made, blocks.RELATIONS["tiny"], draws)
    assert found["relations"]["x and y"]["lowest"] > 0.5


def test_without_r_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    lines: list[str] = []
    store = jobs.BENCHMARK.store(tmp_path)
    assert not run(jobs.BENCHMARK, [{**JOB, "method": "mice-pmm"}], store, Processes(), report=lines.append)
    assert len(lines) == 1
    assert "no Rscript" in lines[0]
    with pytest.raises(NoEnvironment):
        jobs.measured({**JOB, "method": "mice-rf"}, Processes())


# --- the page


def made_up(table: str, method: str, association: float, energy: float, **changes) -> dict:
    found = {
        "association": {"mean": association, "worst": 0.3, "worst_pair": ["a", "b"], "complete_rows": 0.015},
        "energy": energy,
        "relations": {
            "adult": {"education and education-num": {"agree": 0.85}},
            "gaussian": {"a and b": {"lowest": 0.981, "mean": 0.985, "truth": 0.99}},
        }[table],
    }  # fmt: skip
    return {
        "table": table, "mechanism": "mcar", "rate": 0.3, "seed": 11, "method": method, "status": "ok", "error": None,
        "scores": found, "draws": 5, "seconds": 3.0, "memory_mb": 100.0, "rows": 800, "columns": 9,
        "version": f"{method} 1", "threads": 1, "limit": 600.0, "machine": "a machine",
    } | changes  # fmt: skip


@pytest.fixture
def results(tmp_path):
    jobs.BENCHMARK.store(tmp_path).add(
        *(made_up(t, "independent", 0.4, 0.5) for t in ("adult", "gaussian")),
        made_up("adult", "vsae", 0.04, 0.10),
        made_up("gaussian", "vsae", 0.08, 0.30),
        made_up("adult", "mice-pmm", 0.05, 0.2),
        made_up("gaussian", "mice-pmm", 0.01, 0.1),
        made_up("adult", "mice-rf", 0, 0, status="failed", scores=None, error="out of trees"),
    )
    return tmp_path


def test_the_page_shows_losses_as_plainly_as_wins(results):
    text = page.page(results)
    assert "Of 4 figures asked for, 1 are met, 3 not." in text
    assert "0.060 (independent 0.400); at most 0.080 (gaussian, MCAR) | **no**" in text
    assert "1 of 2; not on gaussian MCAR (0.300; mice-pmm 0.100) | **no**" in text
    assert "at least 0.850 in 1 runs | **no**" in text
    assert "at least 0.981 in 1 runs | yes" in text
    assert "| mice-pmm | 0.050 | **0.010** |" in text
    assert "| independent | 0.400 | 0.400 |" in text
    assert "| *complete rows* | 0.015 | 0.015 |" in text
    assert "| mice-rf | failed | n/r |" in text


def test_methods_that_were_not_run_and_those_that_failed_are_named(results):
    text = " ".join(page.page(results).split())
    assert "Not run: midas2, iterative, miceforest, utrees and vsae-fast." in text
    assert "Failed: mice-rf on adult: out of trees." in text


def test_a_seed_that_only_some_methods_have_is_left_out(results):
    before = page.page(results)
    jobs.BENCHMARK.store(results).add(made_up("gaussian", "vsae", 0.5, 0.5, seed=12))
    assert page.page(results) == before
    jobs.BENCHMARK.store(results).add(
        *(made_up("gaussian", method, 0.4, 0.4, seed=12) for method in ("independent", "mice-pmm"))
    )
    assert "| vsae | **0.040** | 0.290 |" in page.page(results)  # the mean of .08 and .5


def test_without_rows_there_is_no_page_and_without_ours_no_verdict(tmp_path):
    assert page.page(tmp_path) is None
    rows = (made_up("adult", "independent", 0.4, 0.5),)
    assert {verdict.met for verdict in page.verdicts(Readings(rows))} == {None}


def test_exact_scores_ask_only_cells_whose_relation_is_known() -> None:
    true = exact.simulated(0)
    missing = np.zeros(true.shape, dtype=bool)
    missing[:10, exact.TOTAL] = True
    missing[5:10, exact.A] = True  # not asked: a part is missing, too
    missing[20:30, exact.C] = missing[40:50, exact.END] = True
    filled = true.copy()
    filled[:5, exact.TOTAL] += 2.0
    filled[5:10, exact.TOTAL] += 100.0
    filled[40:45, exact.END] = true[40:45, exact.START] - 1.0
    found = exact.scores(true, missing, filled)
    assert found["total"] == pytest.approx(2.0)
    assert found["part"] == 0.0
    assert found["end_before_start"] == 0.5


def test_simulated_relations_hold() -> None:
    true = exact.simulated(1)
    np.testing.assert_allclose(true[:, [exact.A, exact.B, exact.C]].sum(axis=1), true[:, exact.TOTAL], atol=1e-9)
    assert (true[:, exact.END] >= true[:, exact.START]).all()


def test_what_was_not_run_is_no_verdict(tmp_path: Path) -> None:
    assert not exact.verdicts(tmp_path)
    assert not constraints.verdicts(tmp_path)
    assert not times.verdicts(tmp_path)


def test_stated_relations_hold_in_the_simulated_table_and_cost_nothing_where_nothing_changes(tmp_path: Path) -> None:
    true = constraints.simulated(1)
    assert set(constraints.holds(true)) == set(constraints.RELATIONS)
    assert all(rows.all() for rows in constraints.holds(true).values())
    missing = constraints.hidden(true, 1)
    off = {**true, "total": true["total"] + true["total"].std()}
    assert constraints.errors(true, missing, off)["total"] == pytest.approx(1.0)
    assert not constraints.holds(off)["total == a + b + c"].any()
    part = {"holds": dict.fromkeys(constraints.RELATIONS, 1.0), "errors": {"a": 0.5, "b": 0.4}}
    worse = {"holds": dict.fromkeys(constraints.RELATIONS, 0.9), "errors": {"a": 0.5, "b": 0.5}}
    row = {"method": "vsae", "seed": 1, "with": dict.fromkeys(("imputed", "drawn"), worse)}
    row["without"] = dict.fromkeys(("imputed", "drawn"), part)
    assert constraints.cost(row, "drawn") == pytest.approx(0.125)
    constraints.BENCHMARK.store(tmp_path).add(row)
    assert [verdict.met for verdict in constraints.verdicts(tmp_path)] == [False, False]
    assert "90.0%" in constraints.section(tmp_path)
