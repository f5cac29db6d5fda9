"""The one runner and its rows: what is due, what is kept, in which form, and by whom it is run."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ablation, one, scaling, sizes
from benchmarks.calibration import pooled, rubin
from benchmarks.calibration.jobs import BENCHMARK as CALIBRATION
from benchmarks.generation import conditions
from benchmarks.generation.jobs import BENCHMARK as GENERATION
from benchmarks.paper import jobs as paper
from benchmarks.peers import jobs as peers
from benchmarks.processes import Processes, RunFailed
from benchmarks.runs import Benchmark, Mode, run
from benchmarks.store import Store

RESULTS = Path(__file__).parents[2] / "results"
KEY = ("method", "seed")
BENCHMARKS = (
    scaling.BENCHMARK, sizes.BENCHMARK, paper.BENCHMARK, paper.MULTIMODAL, ablation.BENCHMARK, ablation.WHOLE_TABLES,
    peers.BENCHMARK, peers.LONG, GENERATION, conditions.BENCHMARK, CALIBRATION, rubin.BENCHMARK, pooled.BENCHMARK,
)  # fmt: skip


def benchmark(measured, **options) -> Benchmark:
    return Benchmark("some", KEY, lambda job, processes: measured(job), lambda row: f"error {row['error']}", **options)


def jobs(*seeds: int) -> list[dict]:
    return [{"method": "a", "seed": seed} for seed in seeds]


# --- the store


def test_rows_are_lines_sorted_by_key_and_a_key_has_one(tmp_path):
    store = Store(tmp_path / "some.jsonl", KEY)
    store.add({"method": "b", "seed": 10, "x": 0.1}, {"method": "b", "seed": 9, "x": 0.2})
    store.add({"method": "a", "seed": 1, "x": 0.3}, {"method": "b", "seed": 9, "x": 0.4})
    text = (tmp_path / "some.jsonl").read_text()
    assert text.splitlines()[1] == '{"method":"b","seed":9,"x":0.4}'
    assert [row["seed"] for row in store.rows()] == [1, 9, 10]
    assert [json.loads(line) for line in text.splitlines()] == store.rows()


def test_settings_are_kept_once_and_images_apart(tmp_path):
    store = Store(tmp_path / "some.jsonl", KEY)
    settings, image = {"steps": 5, "nets": {"width": 3}}, np.arange(6, dtype=np.uint8).reshape(2, 3)
    store.add(*({"method": "a", "seed": s, "settings": settings} for s in range(3)))
    store.add({"method": "b", "seed": 0, "settings": settings, "images": {"truth": image, "draws/1": image + 1}})
    store.add({"method": "c", "seed": 0, "images": {"truth": image + 2}})
    assert len(json.loads((tmp_path / "settings.json").read_text())) == 1
    rows = store.rows()
    assert all(row["settings"] == settings for row in rows if row["method"] != "c")
    assert list(rows[3]["images"]) == ["truth", "draws/1"]
    assert np.array_equal(rows[3]["images"]["draws/1"], image + 1)
    assert np.array_equal(rows[4]["images"]["truth"], image + 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["settings.json", "some.jsonl", "some.npz"]


def test_a_benchmark_may_have_a_file_for_each_value_of_a_field(tmp_path):
    store = Store(tmp_path / "some.jsonl", KEY, split="method")
    store.add({"method": "b", "seed": 0}, {"method": "A c", "seed": 0})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some-a_c.jsonl", "some-b.jsonl"]
    assert [row["method"] for row in store.rows()] == ["A c", "b"]


def test_several_writers_lose_no_row(tmp_path):
    store = Store(tmp_path / "some.jsonl", KEY)
    rows = [{"method": "a", "seed": seed, "settings": {"of": seed % 5}} for seed in range(40)]
    threads = [threading.Thread(target=lambda some=rows[i::4]: [store.add(row) for row in some]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.rows() == rows


def test_what_is_committed_is_small_sorted_and_compact():
    files = list(RESULTS.iterdir())
    assert len(files) <= 60
    assert sum(path.stat().st_size for path in files) <= 6e6
    for path in files:
        assert path.suffix in (".jsonl", ".json", ".npz")
        assert path.stat().st_size <= 800_000
        for line in path.read_text().splitlines() if path.suffix == ".jsonl" else ():
            assert line == json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("some", BENCHMARKS, ids=lambda some: some.name)
def test_committed_rows_have_a_key_each_and_stand_in_their_order(some):
    store = some.store(RESULTS)
    assert store.rows()
    for path in store._files():
        keys = [store.key_of(json.loads(line)) for line in path.read_text().splitlines()]
        assert keys == sorted(set(keys))


# --- the runner


def test_rows_of_runs_at_a_time_are_all_kept_and_each_run_once(tmp_path):
    together = threading.Barrier(3, timeout=20)

    def measured(job):
        together.wait()  # three at a time, or it breaks
        return {**job, "error": job["seed"] / 10}

    some = benchmark(measured)
    rows = run(some, jobs(*range(9)), some.store(tmp_path), Processes(), Mode(jobs=3), report=lambda line: None)
    assert [row["error"] for row in rows] == [seed / 10 for seed in range(9)]
    assert some.rows(tmp_path) == rows


def test_a_row_is_there_as_soon_as_its_run_has_ended(tmp_path):
    def measured(job):
        if job["seed"]:
            assert [row["seed"] for row in some.rows(tmp_path)] == [0]
        return {**job, "error": 0}

    some = benchmark(measured)
    run(some, jobs(0, 1), some.store(tmp_path), Processes(), report=lambda line: None)


@pytest.mark.parametrize(
    ("mode", "computed"), [(Mode(), [2]), (Mode(again=True), [1, 2]), (Mode(force=True), [0, 1, 2])]
)
def test_what_is_due(tmp_path, mode, computed):
    done, lines = [], []
    some = benchmark(lambda job: done.append(job["seed"]) or {**job, "error": "new"})
    some.store(tmp_path).add(
        {"method": "a", "seed": 0, "status": "ok", "error": "old"},
        {"method": "a", "seed": 1, "status": "failed", "error": "broke"},
    )
    rows = run(some, jobs(0, 1, 2), some.store(tmp_path), Processes(), mode, report=lines.append)
    assert done == computed
    assert [row["seed"] for row in rows] == [0, 1, 2]
    assert lines[0] == ("a seed 0: error new" if 0 in computed else "a seed 0: error old (there)")
    assert lines[1] == ("a seed 1: error new" if 1 in computed else "a seed 1: failed: broke (there)")


def test_a_failure_of_ours_has_no_row_and_the_others_have_theirs(tmp_path):
    def measured(job):
        if job["seed"] == 1:
            raise RunFailed("ValueError: no")
        return {**job, "error": 0}

    some, lines = benchmark(measured), []
    with pytest.raises(ValueError, match="1 of 3 runs failed, as said above; the others have their rows"):
        run(some, jobs(0, 1, 2), some.store(tmp_path), Processes(), report=lines.append)
    assert [row["seed"] for row in some.rows(tmp_path)] == [0, 2]
    assert lines[1] == "a seed 1: failed: ValueError: no"


# --- a run of ours in a process


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module whose `measured` is given."""

    def make(body: str) -> str:
        (tmp_path / "measuring.py").write_text(f"def measured(**job):\n{body}")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return "measuring"

    return make


def test_a_process_of_ours_gives_its_row_with_images_and_threads(module):
    name = module(
        "    import os, numpy as np\n"
        "    return {**job, 'threads': os.environ['OMP_NUM_THREADS'], 'images': {'a/b': np.ones((1, 2), np.uint8)}}\n"
    )
    row = Processes(limit=60, threads=3).ours(name, {"seed": 1, "method": "ä"})
    assert (row["seed"], row["method"], row["threads"]) == (1, "ä", "3")
    assert row["images"]["a/b"].tolist() == [[1, 1]]


def test_a_process_of_ours_that_fails_or_is_late_says_so(module):
    name = module("    raise KeyError('no such thing')\n")
    with pytest.raises(RunFailed, match="KeyError: 'no such thing'"):
        Processes(limit=60).ours(name, {})
    module("    import time; time.sleep(60)\n")
    began = time.monotonic()
    with pytest.raises(RunFailed, match="timed out at 1 s"):
        Processes(limit=1).ours(name, {})
    assert time.monotonic() - began < 20


def test_a_row_goes_through_its_folder(module, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    one.run(module("    return {'sum': job['a'] + job['b']}\n"), tmp_path, {"a": 1, "b": 2})
    assert one.left_in(tmp_path) == {"sum": 3}
