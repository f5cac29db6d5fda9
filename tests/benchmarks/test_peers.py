"""The benchmark against peers: the same task for everyone, rows that say what happened, chains that learn."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import LabelEncoder

from benchmarks import data
from benchmarks.peers import jobs
from benchmarks.peers.adapters import task as exchange
from benchmarks.peers.grid import CORE, FULL, Grid, Task, TaskData, mechanism_and_rate, plan
from benchmarks.peers.jobs import BENCHMARK, EVERY, METHODS, assuming_timeouts
from benchmarks.processes import ADAPTERS, THREADS, Method, Processes
from benchmarks.runs import Mode, run
from benchmarks.store import Store
from vsae.baselines import METHODS as MODELS
from vsae.data.schema import Schema, categorical, real

sys.path.insert(0, str(ADAPTERS))  # as for a script in that folder
import chains

TASK = Task("tiny", "mcar", 0.3, 11)
CHAINS = ["knn", *chains.METHODS]


def tiny(n: int) -> data.Rows:
    """y = 2x, and a level that says where x lies; one level of four never occurs; `same` has nothing to learn."""
    x = np.random.default_rng(0).normal(size=n)
    columns = {"x": x, "y": 2 * x + 5, "third": np.digitize(x, [-0.5, 0.5]), "same": np.zeros(n, dtype=int)}
    schema = Schema([real("x"), real("y"), categorical("third", 4), categorical("same", 2)])
    return data.Rows("tiny", schema, columns, np.ones((n, 4), dtype=bool))


@pytest.fixture(autouse=True)
def _tiny_table(monkeypatch):
    monkeypatch.setattr(data, "load", lambda name: tiny(60))


@pytest.fixture
def adapter(monkeypatch, tmp_path):
    """A method "ours" that runs the given code."""

    def make(code: str) -> None:
        (tmp_path / "ours.py").write_text(code)
        monkeypatch.setitem(EVERY, "ours", Method(None, str(tmp_path / "ours.py")))

    return make


@pytest.fixture
def store(tmp_path) -> Store:
    return BENCHMARK.store(tmp_path)


def one(store: Store, method: str, task: Task = TASK, limit: float = 20, benchmark=BENCHMARK, **options) -> str:
    """Run a method on a task; the line about it."""
    lines: list[str] = []
    processes = Processes(limit, options.pop("threads", 1), options.pop("environments", Processes.environments))
    run(benchmark, [{**asdict(task), "method": method}], store, processes, Mode(**options), report=lines.append)
    return lines[0]


def row_of(store: Store, method: str, task: Task = TASK) -> dict:
    return next(row for row in store.rows() if store.key_of(row) == (*asdict(task).values(), method))


# --- tasks


def test_a_task_is_the_same_each_time_and_another_with_another_seed():
    first, again, other = (Task("tiny", "mcar", 0.3, seed).make().given() for seed in (11, 11, 12))
    for name in ("train", "new", "discrete", "levels", "names"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.train.shape == (48, 4)
    assert first.new.shape == (12, 4)
    assert not np.array_equal(np.isnan(first.train), np.isnan(other.train))


def test_mechanisms_of_a_table_share_its_split():
    a, b = (Task("tiny", mechanism, 0.3, 11).make() for mechanism in ("mcar", "nmar"))
    np.testing.assert_array_equal(a.new.matrix(), b.new.matrix())


def test_hidden_values_are_not_given_away():
    made = TASK.make()
    given = made.given()
    np.testing.assert_array_equal(np.isnan(given.train), ~made.train_mask)
    np.testing.assert_array_equal(given.train[made.train_mask], made.train.matrix()[made.train_mask])


def test_numbers_hide_themselves_and_levels_do_not():
    mask = Task("tiny", "self", 0.3, 11).make().train_mask
    assert not mask[:, 0].all()
    assert mask[:, 1:].all()


def test_the_perfect_answer_has_no_error_and_the_mean_has_its_own():
    made = TASK.make()
    assert made.errors(made.train.matrix())["nrmse"] == made.errors(made.train.matrix())["pfc"] == 0
    given = made.given()
    errors = made.errors_new(np.where(np.isnan(given.new), np.nanmean(given.train, axis=0), given.new))
    assert errors["nrmse"] == pytest.approx(errors["nrmse_trivial"])


def test_grids():
    assert len(list(CORE.tasks())) == 8 * 3 * 2
    assert len(list(FULL.tasks())) == 13 * 6 * 3  # the tiny table stands for each, and has numbers
    assert mechanism_and_rate("nmar0.3") == ("nmar", 0.3)
    with pytest.raises(ValueError, match=r"write mcar0\.5"):
        mechanism_and_rate("mcar")
    with pytest.raises(ValueError, match="unknown mechanism 'mnar'"):
        mechanism_and_rate("mnar0.3")


# --- the exchange


def test_observed_cells_are_restored_and_codes_are_levels():
    given = TASK.make().given()
    out = exchange.checked(given, "train", np.full(given.train.shape, 7.6))
    seen = ~np.isnan(given.train)
    np.testing.assert_array_equal(out[seen], given.train[seen])
    assert (out[~seen[:, 0], 0] == 7.6).all()
    assert (out[~seen[:, 2], 2] == 3).all()


def test_an_answer_with_missing_cells_or_of_another_shape_is_refused():
    given = TASK.make().given()
    with pytest.raises(ValueError, match=r"leaves \d+ cells unfilled, in x, y, third, same"):
        exchange.checked(given, "train", given.train)
    with pytest.raises(ValueError, match=r"new rows has shape \(1, 4\), not \(12, 4\)"):
        exchange.checked(given, "new", given.new[:1])


@pytest.mark.parametrize("categories", ["category", "codes", "float"])
def test_a_task_goes_through_a_file_and_a_frame(tmp_path, categories):
    TASK.make().given().write(tmp_path)
    given = exchange.read(tmp_path)
    frame = given.frame("new", categories)
    np.testing.assert_array_equal(given.array(frame[frame.columns[::-1]]), given.new)
    if categories == "category":
        assert list(frame["third"].cat.categories) == [0, 1, 2, 3]


def test_constant_columns_can_be_left_out_and_put_back():
    given = TASK.make().given()
    part = given.varying()
    assert list(part.names) == ["x", "y", "third"]
    out = given.widened("train", np.nan_to_num(part.train))
    assert (out[:, 3] == 0).all()
    np.testing.assert_array_equal(out[:, :3], np.nan_to_num(part.train))


# --- runs


def test_a_run_becomes_a_row_and_is_not_repeated(store):
    lines: list[str] = []
    jobs = plan(Grid(("tiny",), (("mcar", 0.3),), (11,)), METHODS, ["mean/mode"])
    run(BENCHMARK, jobs, store, Processes(), report=lines.append)
    row = row_of(store, "mean/mode")
    assert store.path.name == "peers.jsonl"
    assert row["status"] == "ok"
    for part in ("in_sample", "new_rows"):
        assert row[part]["nrmse"] == pytest.approx(row[part]["nrmse_trivial"])
        assert row[part]["pfc"] == pytest.approx(row[part]["pfc_trivial"])
    assert (row["rows"], row["columns"]) == (60, 4)
    assert 5 < row["memory_mb"] < 120  # numpy alone: not what this process holds
    before = store.path.stat()
    run(BENCHMARK, jobs, store, Processes(), report=lines.append)
    assert store.path.stat().st_mtime_ns == before.st_mtime_ns
    assert len(lines) == 2
    assert "NRMSE" in lines[0]
    assert lines[1].endswith("(there)")


def test_a_wrong_shape_is_a_failed_row_of_one_line_run_again_only_if_asked(adapter, store):
    code = """
import json, sys
import numpy as np
np.savez(sys.argv[-1] + "/answer.npz", train=np.zeros((2, 2)))
open(sys.argv[-1] + "/answer.json", "w").write(json.dumps({"version": "0", "seconds": 0.0, "seconds_new": None}))
"""
    adapter(code)
    one(store, "ours")
    row = row_of(store, "ours")
    assert (row["status"], row["in_sample"]) == ("failed", None)
    assert row["error"] == "ValueError: the answer for the train rows has shape (2, 2), not (48, 4)"
    adapter("raise RuntimeError('/some/where/x.py broke\\nin two lines')")
    assert "(2, 2)" in one(store, "ours")
    assert "RuntimeError: x.py broke" in one(store, "ours", again=True)


def test_a_run_over_the_limit_is_killed_with_its_children(adapter, store, tmp_path):
    code = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
time.sleep(60)
"""
    adapter(code)
    assuming = replace(BENCHMARK, measured=assuming_timeouts(store))
    began = time.monotonic()
    assert "timed out at 1 s" in one(store, "ours", limit=1, benchmark=assuming)
    assert time.monotonic() - began < 10
    assert row_of(store, "ours")["status"] == "timed out"
    assert gone(int((tmp_path / "child").read_text()))

    other = Task("tiny", "nmar", 0.3, 12)
    assert "assumed out" in one(store, "ours", other, limit=1, benchmark=assuming)
    assert row_of(store, "ours", other)["assumed"] is True


def gone(pid: int) -> bool:
    for _ in range(50):  # whoever inherits an orphan takes a moment to bury it
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if os.path.exists(f"/proc/{pid}/stat"):
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        time.sleep(0.1)
    return False


def test_threads_are_set(adapter, store):
    code = f"import os, sys\nsys.exit('Error: ' + str([os.environ[name] for name in {THREADS}]))"
    adapter(code)
    one(store, "ours", threads=3)
    assert row_of(store, "ours")["error"] == f"Error: {['3'] * len(THREADS)}"


def test_without_an_environment_there_is_no_row(store, tmp_path):
    line = one(store, "miceforest", environments=tmp_path / "none")
    assert line.endswith("no environment; run `make peers`")
    assert not list(tmp_path.iterdir())


def test_every_method_of_ours_has_its_script():
    for method in METHODS.values():
        if method.environment is None:
            assert (ADAPTERS / method.script).is_file()


def test_the_other_models_of_the_library_run_where_they_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(jobs.options, "run_with", lambda o, benchmark, plan: asked.append({j["method"] for j in plan}))
    jobs.main(["--tables", "yeast"])
    jobs.main(["--tables", "yeast", "--methods", "gain", "vsae"])
    assert asked == [set(METHODS), {"gain", "vsae"}]
    assert jobs.FAMILY.keys() == MODELS.keys()
    assert jobs.EVERY["gain"].arguments == ("--method", "gain")


# --- chains


@pytest.fixture(scope="module", params=CHAINS)
def answered(request):
    rows = tiny(200)
    rng = np.random.default_rng(1)
    mask = rng.random((200, 4)) > 0.3
    train, new = np.arange(150), np.arange(150, 200)
    made = TaskData(0, rows.take(train), mask[train], rows.take(new), mask[new])
    return made, chains.impute(made.given(), request.param)


def test_chains_learn_a_line_and_a_rule(answered):
    made, answer = answered
    for errors in (made.errors(answer.train), made.errors_new(answer.new)):
        assert errors["nrmse"] < 0.8 * errors["nrmse_trivial"]
        assert errors["pfc"] < 0.8 * errors["pfc_trivial"]


def test_chains_give_valid_answers(answered):
    made, answer = answered
    given = made.given()
    for part, filled in (("train", answer.train), ("new", answer.new)):
        np.testing.assert_allclose(exchange.checked(given, part, filled), filled)
        assert set(np.unique(filled[:, 2])) <= {0, 1, 2}  # the fourth level was never seen


@pytest.mark.parametrize("method", ["knn", "mice"])
def test_new_rows_may_have_a_level_or_a_missing_cell_that_training_rows_had_not(method):
    rows = tiny(80)
    mask = np.random.default_rng(1).random((80, 4)) > 0.3
    mask[:60, 0] = True  # x is complete in training
    mask[60:, 0] = False
    rows.columns["third"][60:] = 3
    made = TaskData(0, rows.take(np.arange(60)), mask[:60], rows.take(np.arange(60, 80)), mask[60:])
    answer = chains.impute(made.given(), method)
    exchange.checked(made.given(), "new", answer.new)
    known = mask[60:, 1]
    assert np.abs(answer.new[known, 0] - made.new.columns["x"][known]).mean() < 0.5


def test_the_mice_chain_is_scikit_learns_where_all_are_numbers():
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(100, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    given = exchange.Task(x, x[:9], np.zeros(4, bool), np.zeros(4, int), np.array(list("abcd")), 0)
    chain = chains.Chain(given, chains.METHODS["mice"])
    reference = IterativeImputer(max_iter=10, tol=0, random_state=0).fit(x)
    np.testing.assert_allclose(chain.filled, reference.transform(x), atol=1e-6)
    np.testing.assert_allclose(chain.fill(x[:9]), reference.transform(x[:9]), atol=1e-6)


# --- adapters of packages that are not here, and of R


class FakeTrees:
    """A column's trees: y is twice x, the level says whether x is above 0; they must be told x."""

    encoders_ = (None, None, LabelEncoder().fit([1, 2]))

    def __init__(self, **options):
        self.trees_ = [self, self, self]

    def sample(self, given):
        return np.where(np.isnan(given[:, 0]), 7.0, 2 * given[:, 0])

    def predict_proba(self, given):
        above = (given[:, 1] > 0).astype(float)
        return np.stack([1 - above, above], axis=1)


def test_the_cells_of_a_row_are_sampled_in_turn_given_those_before(monkeypatch):
    monkeypatch.setitem(sys.modules, "utrees", SimpleNamespace(UnmaskingTrees=FakeTrees))
    import utrees_

    x = np.array([[1.0, np.nan, np.nan], [-1.0, np.nan, 2.0], [3.0, -6.0, np.nan], [3.0, 1.0, 1.0]])
    fillings = [utrees_.drawn(FakeTrees(), x, np.random.default_rng(seed)) for seed in range(20)]
    for filled in fillings:
        np.testing.assert_array_equal(filled[1:], [[-1, -2, 2], [3, -6, 1], [3, 1, 1]])
        np.testing.assert_array_equal(filled[0, :2], [1, 2])
    # the level of the first row is 2 where y is known by then, else 1: both orders occur
    assert {filled[0, 2] for filled in fillings} == {1.0, 2.0}


@pytest.mark.parametrize(("method", "packages"), [("mice-pmm", ["mice"]), ("mice-rf", ["mice", "ranger"])])
def test_mice_of_r_fills_training_and_new_rows(store, r_packages, method, packages):
    r_packages(*packages)
    assert "NRMSE" in one(store, method, limit=60)
    row = row_of(store, method)
    assert row["version"].startswith("mice ")
    for part in ("in_sample", "new_rows"):
        assert row[part]["nrmse"] < 0.8 * row[part]["nrmse_trivial"]


def test_without_weights_or_r_one_line_says_so_and_there_is_no_row(store, monkeypatch, tmp_path):
    monkeypatch.delenv("VSAE_TABICL", raising=False)
    monkeypatch.setenv("VSAE_TABPFN", str(tmp_path / "nowhere"))
    assert "no weights; set VSAE_TABICL to a folder" in one(store, "tabicl")
    assert "no weights; set VSAE_TABPFN to a folder" in one(store, "tabpfn")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "no Rscript" in one(store, "mice-pmm")
    monkeypatch.setenv("VSAE_TABICL", str(tmp_path))  # weights, but no package
    assert "no environment; run `make peers`" in one(store, "tabicl", environments=tmp_path / "none")
    assert not store.rows()


def test_weights_are_found_by_the_names_of_their_files(monkeypatch, tmp_path):
    from weights import weights

    (tmp_path / "some-classifier-v2.ckpt").touch()
    monkeypatch.setenv("VSAE_TABICL", str(tmp_path))
    assert weights("VSAE_TABICL", "classifier").name == "some-classifier-v2.ckpt"
    with pytest.raises(FileNotFoundError, match="a folder with 0 files of a regressor, not with one"):
        weights("VSAE_TABICL", "regressor")
