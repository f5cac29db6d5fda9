"""The benchmarks of self-masking: columns are counted right, scores are those of hand-made answers, and their page."""

from __future__ import annotations

import json
import sys
import zlib

import numpy as np
import pytest

from benchmarks import data
from benchmarks.generation import judges
from benchmarks.generation import tasks as generation
from benchmarks.generation.tasks import Reality
from benchmarks.mechanism import coverage, gate, given_missing, masks, nmar, notmiwae, page, pairs
from benchmarks.peers import jobs as peers
from benchmarks.peers.grid import Task, TaskData
from benchmarks.processes import ADAPTERS
from vsae.data.missingness import LogisticNMAR
from vsae.data.schema import Schema, categorical, real
from vsae.estimator import VSAEImputer
from vsae.mechanism.evidence import Evidence
from vsae.model.config import VSAEConfig


@pytest.fixture
def tiny() -> data.Rows:
    rng = np.random.default_rng(0)
    x, *noise = rng.normal(size=(5, 300))
    third = np.digitize(x, [-0.5, 0.5])
    columns = {"x": x, "y": x + noise[0], "third": third, "z": noise[1], "u": x - noise[2], "v": 2 * x + noise[3]}
    kinds = [real("x"), real("y"), categorical("third", 3), real("z"), real("u"), real("v")]
    return data.Rows("tiny", Schema(kinds), columns, np.ones((300, 6), bool))


# --- tables and masks


@pytest.mark.parametrize("name", masks.MADE)
def test_made_tables_are_the_same_each_time_and_fit_their_schema(name):
    rows, again = masks.load(name), masks.load(name)
    np.testing.assert_array_equal(rows.matrix(), again.matrix())
    assert len(rows) == masks.ROWS
    for variable in rows.schema.variables:
        if variable.kind.value == "categorical":
            assert set(np.unique(rows.columns[variable.name])) == set(range(variable.size))


@pytest.mark.parametrize("name", masks.MECHANISMS)
def test_every_mechanism_hides_its_share(name):
    rows = masks.load("mixed")
    mask = rows.hide(masks.mechanism_of(name, 0.3, rows, 1), np.random.default_rng(0))
    assert 1 - mask.mean() == pytest.approx(0.3, abs=0.02)


def test_half_of_the_columns_that_miss_cells_mask_themselves():
    rows = masks.load("mixed")
    own = masks.self_masking_of(rows, 1)
    hidden = ~rows.hide(masks.mechanism_of(masks.HALF, 0.3, rows, 1), np.random.default_rng(0))
    assert hidden[:, list(own)].any(axis=0).all()
    assert abs(hidden.any(axis=0).sum() - 2 * len(own)) <= 1
    assert own != masks.self_masking_of(rows, 2)


# --- the gate


def test_columns_that_are_switched_on_are_counted_by_kind(tiny, monkeypatch):
    on = {1: 0.9, 3: 0.9, 4: 0.2}
    found = {i: Evidence(1.0, 1.0, 0.0, on.get(i, 0.9)) for i in range(6)}
    monkeypatch.setattr(gate, "evidence", lambda *_: found)
    assert gate.counts(tiny, "nmar", 0.3, 1) == {
        "mechanism": "nmar", "rate": 0.3, "self_masking": 6, "found": 5, "others": 0, "mistaken": 0,
    }  # fmt: skip
    mcar = gate.counts(tiny, "mcar", 0.3, 1)
    assert (mcar["self_masking"], mcar["others"], mcar["mistaken"]) == (0, 6, 5)
    monkeypatch.setattr(masks, "self_masking_of", lambda *_: (1, 4))
    half = gate.counts(tiny, masks.HALF, 0.3, 1)
    assert (half["self_masking"], half["found"]) == (2, 1)
    assert half["others"] == half["mistaken"] == 3  # of the four others, one is always observed


def test_a_column_that_misses_nothing_is_not_counted(tiny):
    found = gate.counts(tiny, "mar", 0.3, 1)
    assert found["others"] == 5
    assert found["self_masking"] == 0


def test_a_table_enters_once_with_all_its_rows(monkeypatch, tiny):
    monkeypatch.setattr(masks, "load", lambda name: tiny)
    asked = [job["size"] for job in gate.jobs(["tiny"], (100, 250, 500, 1000), [1])]
    assert asked == [100, 250, 500]
    assert gate.measured("tiny", 500, 1)["rows"] == 300


def gate_row(table: str, on: dict[str, tuple[int, int]], seed: int = 1) -> dict:
    """`on`: mechanism → self-masking columns found of 10, others mistaken of 10."""
    found = [
        {"mechanism": m, "rate": 0.3, "self_masking": 10 * (m in gate.NMAR), "found": a,
         "others": 10 * (m in gate.IGNORABLE), "mistaken": b}
        for m, (a, b) in on.items()
    ]  # fmt: skip
    return {"table": table, "size": 500, "seed": seed, "rows": 500, "found": found}


def test_shares_are_means_over_tables():
    rows = [
        gate_row("a", {"mcar": (0, 4), "nmar": (10, 0)}), gate_row("a", {"mcar": (0, 0), "nmar": (6, 0)}, seed=2),
        gate_row("b", {"mcar": (0, 0), "nmar": (4, 0)}),
    ]  # fmt: skip
    assert gate.share(rows, "mcar", "MAR") == pytest.approx(0.1)
    assert gate.share(rows, "nmar", "NMAR") == pytest.approx(0.6)
    assert gate.share(rows, "nmar", "NMAR", rate=0.3) == pytest.approx(0.6)
    assert np.isnan(gate.share(rows, "nmar", "MAR"))


# --- errors


def test_nmar_is_the_very_task_of_the_peers(monkeypatch, tiny):
    monkeypatch.setattr(data, "load", lambda name: tiny)
    theirs = Task("tiny", "nmar", 0.3, 11).make()
    ours = TaskData.hidden_by(tiny, masks.mechanism_of("nmar", 0.3, tiny, 11), 11)
    np.testing.assert_array_equal(ours.given().train, theirs.given().train)
    np.testing.assert_array_equal(ours.given().new, theirs.given().new)


def test_one_fit_gives_two_answers_which_are_scored(monkeypatch, tmp_path, tiny):
    """By the adapter as a script, with a short fit; its tilts are those of columns that hide their high values."""
    monkeypatch.syspath_prepend(str(ADAPTERS))
    import runpy

    import vsae_imputer

    imputer = VSAEImputer(config={"steps": 20}, mechanism={"x": 2.0}, random_state=0)
    monkeypatch.setattr(vsae_imputer, "imputer_for", lambda task, effort: imputer)
    task = TaskData.hidden_by(tiny, LogisticNMAR(0.3), 11)
    task.given().write(tmp_path)
    monkeypatch.setattr(sys, "argv", ["adapter", "--effort", "fast", str(tmp_path)])
    runpy.run_path(str(ADAPTERS / "vsae_mechanisms.py"), run_name="__main__")
    with np.load(tmp_path / "answers.npz") as file:
        auto, ignorable = file["auto_train"], file["ignorable_train"]
    hidden = np.isnan(task.given().train)
    np.testing.assert_array_equal(auto[~hidden], ignorable[~hidden])
    assert (auto[hidden[:, 0], 0] > ignorable[hidden[:, 0], 0]).mean() > 0.9  # x is tilted upwards
    row = nmar.scored(task, tmp_path)
    assert row["on"] >= 1
    assert row["auto"]["in_sample"] == task.errors(auto)
    assert row["ignorable"]["in_sample"] == task.errors(ignorable)
    assert row["auto"]["new_rows"]["nrmse"] != row["ignorable"]["new_rows"]["nrmse"]


def nmar_row(table: str, auto: float, ignorable: float, **changes) -> dict:
    def errors(value: float) -> dict:
        return {key: {"nrmse": value, "nrmse_trivial": 1.0} for key in ("in_sample", "new_rows")}

    return {
        "table": table, "mechanism": "nmar", "rate": 0.3, "seed": 11, "effort": "default", "status": "ok",
        "error": None, "auto": errors(auto), "ignorable": errors(ignorable), "on": 4, "columns": 8, "seconds": 3.0,
        "machine": "a machine",
    } | changes  # fmt: skip


def peer_row(table: str, method: str, error: float) -> dict:
    errors = {key: {"nrmse": error, "nrmse_trivial": 1.0} for key in ("in_sample", "new_rows")}
    key = {"table": table, "mechanism": "nmar", "rate": 0.3, "seed": 11, "method": method}
    return {**key, "status": "ok", "error": None, **errors}


def test_ratios_are_of_means_over_seeds():
    rows = [nmar_row("yeast", 0.4, 1.0), nmar_row("yeast", 0.8, 1.0, seed=12), nmar_row("adult", 1.1, 1.0)]
    found = nmar.ratios(rows)
    assert found[nmar.Cell("yeast", "in_sample", "nrmse")] == pytest.approx(0.6)
    assert nmar.by_table(found) == pytest.approx({"yeast": 0.6, "adult": 1.1})


def test_ours_stand_beside_the_best_peer(tmp_path):
    rows = [nmar_row("yeast", 0.4, 1.2), nmar_row("adult", 0.9, 0.9)]
    peers.BENCHMARK.store(tmp_path).add(
        *(peer_row(t, "mice", 1.0) for t in ("yeast", "adult")),
        peer_row("yeast", "knn", 0.8),
        *(peer_row(t, "vsae", 0.1) for t in ("yeast", "adult")),  # of another run: it must not count
    )
    found = nmar.BesidePeers.of(rows, "auto", "default", tmp_path)
    assert found == (4, pytest.approx(np.sqrt(0.5 * 0.9)), 4)
    before = nmar.BesidePeers.of(rows, "ignorable", "default", tmp_path)
    assert before == (4, pytest.approx(np.sqrt(1.5 * 0.9)), 2)
    assert nmar.BesidePeers.of(rows, "auto", "fast", tmp_path) is None


def test_masks_are_read_from_the_command_line():
    for name, rate in nmar.MASKS:
        assert nmar.mask_of(f"{name}:{rate}") == (name, rate)
    for text in ("nmar", "nmar0.3", "mnar:0.3", "nmar:much"):
        with pytest.raises(ValueError, match=r"write one of mcar, .* as nmar:0.3"):
            nmar.mask_of(text)


# --- not-MIWAE's protocol


def test_cells_above_the_mean_vanish_and_only_these_are_scored():
    x = np.array([[-1.0, 5.0], [0.0, 6.0], [1.0, 7.0]])
    mask = notmiwae.masked(x)
    assert mask.tolist() == [[True, True], [True, True], [False, True]]
    filled = np.array([[9.0, 9.0], [9.0, 9.0], [0.5, 9.0]])
    assert notmiwae.rmse(x, mask, filled) == pytest.approx(0.5)


def test_labels_are_dropped_and_columns_standardised(monkeypatch):
    label = notmiwae.LABELS["concrete"]
    columns = {"a": np.arange(5.0), label: np.ones(5), "b": np.arange(5.0) ** 2}
    schema = Schema([real(name) for name in columns])
    rows = data.Rows("concrete", schema, columns, np.ones((5, 3), bool))
    monkeypatch.setattr(data, "load", lambda name, most_rows: rows)
    x = notmiwae.standardised("concrete")
    assert x.shape == (5, 2)
    np.testing.assert_allclose([x.mean(axis=0), x.std(axis=0)], [[0, 0], [1, 1]], atol=1e-12)


def test_the_three_answers_come_of_one_fit_and_the_direction_helps(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1)) + 0.5 * rng.normal(size=(400, 4))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    monkeypatch.setattr(notmiwae, "standardised", lambda table: x)
    monkeypatch.setattr(notmiwae, "config_for", lambda *_: VSAEConfig(steps=100))
    row = notmiwae.measured("yeast", "vsae-fast", 1)
    assert (row["on"]["ignorable"], row["on"]["given"]) == (0, 2)
    assert row["rmse"]["given"] < row["rmse"]["ignorable"]
    mean = notmiwae.measured("yeast", "mean", 1)["rmse"]["mean"]
    assert row["rmse"]["ignorable"] < mean
    assert notmiwae.measured("yeast", "mice", 1)["rmse"]["mice"] < mean


# --- coverage


def test_the_mean_of_one_table_has_its_own_interval():
    x = np.random.default_rng(0).normal(size=400)
    answer = coverage.pooled_mean([x])
    assert answer.estimate == pytest.approx(x.mean())
    assert answer.high - answer.low == pytest.approx(2 * 1.966 * x.std(ddof=1) / 20, rel=1e-3)
    wider = coverage.pooled_mean([x, x + 0.2, x - 0.2])
    assert wider.high - wider.low > answer.high - answer.low


@pytest.mark.parametrize("table", coverage.ROWS)
def test_simulated_columns_hide_their_high_values(table):
    sample = coverage.simulate(table, 3)
    seen = sample.mask[:, sample.schema.attribute_of[sample.column]]
    assert 0.3 < 1 - seen.mean() < 0.6
    assert sample.whole[~seen].mean() > sample.whole[seen].mean()
    np.testing.assert_array_equal(sample.columns[sample.column][seen], sample.whole[seen])
    assert np.isnan(sample.columns[sample.column][~seen]).all()


def test_what_the_observed_cells_say_is_biased_and_a_tilt_moves_it(monkeypatch):
    monkeypatch.setattr(coverage, "config_for", lambda *_: VSAEConfig(steps=100))
    found, on = coverage.answers_to(coverage.simulate("gaussian", 0), "fast", 0)
    assert set(found) == set(coverage.SHOWN)
    assert found[coverage.OBSERVED].high < 0
    assert found["given"].estimate > found["ignorable"].estimate
    assert on == (found["auto"] != found["ignorable"])


def mean_row(table: str, answers: dict[str, list[tuple[float, float, float]]], effort: str = "default") -> dict:
    nothing = dict.fromkeys(coverage.SHOWN, answers["ignorable"])
    on = [True] * len(answers["ignorable"])
    return {"table": table, "effort": effort, "first": 0, "truth": 0.0, "on": on, "answers": nothing | answers}


def test_coverage_counts_intervals_that_hold_the_truth():
    found = coverage.Validity.of([mean_row("clinic", {"ignorable": [(0.5, -1, 2), (1.5, 1, 2)]})], "ignorable")
    assert found == (2, 0.5, 1.0, 2.0)
    assert coverage.Validity.of([], "auto") is None


# --- the page


@pytest.fixture
def results(tmp_path):
    gate.BENCHMARK.store(tmp_path).add(
        gate_row("yeast", {"mcar": (0, 0), "mar": (0, 2), "mar-1": (0, 0), "nmar": (7, 0)}),
        *(gate_row(f"t{i}", {"mcar": (0, 0), "mar": (0, 0), "mar-1": (0, 0), "nmar": (9, 0)}) for i in range(11)),
    )
    costs = [nmar_row(t, e, 1.0, mechanism=m) for m, t, e in (("mcar", "yeast", 1.0), ("mar", "yeast", 1.001))]
    nmar.BENCHMARK.store(tmp_path).add(
        nmar_row("yeast", 0.4, 1.2), nmar_row("adult", 0.9, 0.9), *costs, nmar_row("adult", 1.03, 1.0, mechanism="mar")
    )
    peers.BENCHMARK.store(tmp_path).add(peer_row("yeast", "knn", 0.8), peer_row("adult", "knn", 0.8))
    notmiwae.BENCHMARK.store(tmp_path).add(
        *(
            {"table": t, "method": "vsae", "seed": 1, "rmse": {"ignorable": 1.5, "auto": auto, "given": 0.7}}
            for t, auto in (("yeast", 1.0), ("breast_cancer", 1.4))
        )
    )
    right, wrong = [(0.0, -1.0, 1.0)] * 10, [(2.0, 1.0, 3.0)] * 10
    coverage.BENCHMARK.store(tmp_path).add(
        mean_row("clinic", {"ignorable": wrong, "auto": right, "given": right}),
        mean_row("gaussian", {"ignorable": wrong, "auto": wrong, "given": right}),
    )
    return tmp_path


def test_the_page_shows_losses_as_plainly_as_wins(results):
    text = page.page(results)
    assert "Of 14 figures asked for, 9 are met, 5 not." in text
    for line in (
        "under MCAR ≤ 0.05, on ≥ 12 tables | 0.000 on 12 tables; at most 0.00 (t0) | yes",
        "under MAR ≤ 0.05, on ≥ 12 tables | 0.008 on 12 tables; at most 0.10 (yeast) | yes",
        "error / best peer ≤ 0.90 | 0.750 in 4 cells (ignorable 1.299) | yes",
        "below every peer in ≥ 70% of the cells | 2 of 4 (ignorable 0) | **no**",
        "MCAR 0.3: at most 0.5% worse than ignorable | +0.00% | yes",
        "MAR 0.3: at most 0.5% worse than ignorable | +1.54% | **no**",
        "MAR 0.3: on every table at most 2% worse | at most +3.00% (adult) | **no**",
        "| yeast 0.70 (0.77), breast_cancer 0.70 (0.72) | yes",
        "≥ 20% below ignorable | yeast 1.00 (-33%), breast_cancer 1.40 (-7%) | **no**",
        "by ignorable in < 20% | 100% of 10, ignorable 0% | yes",
        "by ignorable in < 20% | 0% of 10, ignorable 0% | **no**",
        "| NMAR, slope 2 | 0.88 | 0.88 |",
        "| yeast NRMSE, in sample | knn 0.800 | 1.200 | 0.400 |",
        "| vsae, given | n/r | 0.700 | n/r | 0.700 |",
        "| clinic, vsae, auto | 10 | 1.00 | +0 | 2 | 1.00 |",
    ):
        assert line in text, line


def test_what_was_not_run_is_said_and_no_verdict(tmp_path):
    assert page.page(tmp_path) is None
    notmiwae.BENCHMARK.store(tmp_path).add({"table": "yeast", "method": "mean", "seed": 1, "rmse": {"mean": 1.7}})
    text = page.page(tmp_path)
    assert "Of 0 figures asked for" in text
    assert text.count("Not run.") == 5


# --- generated masks


def test_fresh_masks_are_of_the_mechanism_but_not_the_masks_of_the_task(tiny, monkeypatch):
    monkeypatch.setattr(data, "load", lambda name, label=False: tiny)
    task = Task("tiny", "nmar", 0.3, 5)
    made, fresh = TaskData.of(tiny, "nmar", 0.3, 5), pairs.fresh_masks(task)
    rng = np.random.default_rng([5, zlib.crc32(b"tiny")])
    order = rng.permutation(300)
    own = np.concatenate([made.train_mask, made.new_mask])
    assert 0.55 < (fresh[order] == own).mean() < 0.9
    missing = LogisticNMAR(0.3).missing_probability(tiny.matrix(), rng)
    assert np.corrcoef(missing.ravel(), ~fresh.ravel())[0, 1] > 0.3


def test_masks_and_pairs_are_told_apart_where_they_differ(tiny, monkeypatch):
    monkeypatch.setattr(data, "load", lambda name, label=False: tiny)
    monkeypatch.setitem(generation.TARGETS, "tiny", "x")
    monkeypatch.setattr(judges, "REPEATS", 1)
    real, rng = Reality.of(Task("tiny", "mcar", 0.3, 5)), np.random.default_rng(0)
    fresh = pairs.fresh_masks(Task("tiny", "mcar", 0.3, 5))
    alike = pairs.scores(real, fresh, real.given.train, real.train)
    assert max(alike.values()) < 0.65
    same = np.where(rng.random((240, 1)) < 0.3, np.nan, real.train)  # whole rows are missing
    assert pairs.scores(real, fresh, same, None)["masks"] > 0.9
    moved = pairs.scores(real, fresh, real.given.train + 3.0 * np.isnan(real.given.train[:, :1]), real.train)
    assert moved["masks"] == pytest.approx(alike["masks"])
    assert moved["pairs"] > alike["pairs"] + 0.1
    beneath = pairs.scores(real, fresh, real.given.train, real.train + 3.0 * np.isnan(real.given.train))
    assert beneath["beneath"] > alike["beneath"] + 0.2


def test_pages_of_masks_name_the_mean_and_the_worst_table(tmp_path):
    def row(table, method, **scores):
        return {"table": table, "mechanism": "mar", "rate": 0.3, "seed": 1, "method": method, "scores": scores}

    ours = [row("concrete", "vsae", masks=0.5, pairs=0.55), row("adult", "vsae", masks=0.58, pairs=0.65)]
    theirs = [row("adult", peer, masks=0.7, pairs=area) for peer, area in (("copula", 0.9), ("pylace", 0.6))]
    pairs.BENCHMARK.store(tmp_path).add(*ours, *theirs)
    below, pair = pairs.verdicts(tmp_path)
    assert (below.found, below.met) == ("0.540; at most 0.580 (adult)", True)
    assert (pair.found, pair.met) == ("0.650 (copula 0.900, pylace 0.600)", False)  # on adult, which all have
    assert "| vsae | 0.540 | 0.50 | 0.58 |" in pairs.section(tmp_path)


def test_rows_that_miss_a_column_are_compared_with_the_simulators(tmp_path):
    """Rows of the simulator itself are as near as chance allows; other ones as far as the condition moves them."""
    truth, other = (given_missing.simulate("gaussian", n, 1) for n in (20_000, 5000))

    class Simulator:
        def generate(self, n, seed, missing):
            return {name: x[~other.mask[:, 0]] for name, x in other.columns.items()}, None

    found = given_missing._distances(Simulator(), truth, "x0", 0)
    assert max(distance for distance, _ in found.values()) < 0.05
    assert found["x0"][1] > 0.2
    answers = {name: {"x0": {"x0": [0.12, 0.28], "x1": [0.02, 0.15]}} for name in given_missing.ANSWERS}
    row = {"table": "gaussian", "effort": "default", "seed": 0, "answers": answers}
    given_missing.BENCHMARK.store(tmp_path).add(row)
    assert [v.met for v in given_missing.verdicts(tmp_path)] == [False, False]
    assert "| gaussian, x0 missing, vsae, auto | 0.120 / 0.280 | 0.020 | 0.020 / 0.150 (x1) |" in (
        given_missing.section(tmp_path)
    )


def test_rows_can_be_written(tmp_path, monkeypatch, tiny):
    """As they are, in JSON."""
    monkeypatch.setattr(masks, "load", lambda name: tiny)
    row = gate.measured("tiny", 200, 1)
    assert json.loads(json.dumps(row)) == row
    assert "MCAR 0.00" in gate.in_words(row)
