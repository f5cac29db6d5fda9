"""A step against its arithmetic: operations are counted right, and rows become figures."""

from __future__ import annotations

import pytest
import torch

from benchmarks import step
from benchmarks.speed.page import page
from vsae import VSAEConfig


def test_what_a_training_costs_beside_its_steps_is_left_out():
    assert step.per_step(lambda number: 7.0 + 0.25 * number, 100) == pytest.approx(0.25)


def test_calls_of_torch_are_counted():
    x = torch.ones(3)
    assert step.torch_calls(lambda: [x.exp() for _ in range(5)]) == 5


def test_a_small_table_gives_a_row_and_a_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(step, "_MANY", {"cpu": 4})
    monkeypatch.setattr(step, "_FEW", 2)
    monkeypatch.setattr("benchmarks.processes.Processes.ours", lambda self, module, job: step.measured(**job))
    out = tmp_path / "step.jsonl"
    step.main(["--shape", "60x4", "--effort", "fast", "--out", str(out)])
    (row,) = step.BENCHMARK.kept_in(out).rows()
    assert row["ms"] > 0
    assert row["calls"] > 100
    assert row["gflops"] == pytest.approx(row["gflop"] / (row["ms"] / 1000))
    assert row["floor_gflops"] > 0
    assert "| 60 × 4 | fast | cpu | 1 |" in capsys.readouterr().out


def test_operations_are_those_of_the_products():
    """Those of the largest layers alone are a lower bound, and all layers together are of their order."""
    from benchmarks.speed.made import made
    from vsae import VSAE
    from vsae.fitting.steps import FitData, split

    table = made(60, 4)
    config = VSAEConfig(members=2, batch_size=32)
    data = FitData.of(table.schema, table.columns, table.known, config, "cpu")
    model, parts = split(VSAE, data, config, seed=0)
    counted = 1e9 * step.gigaflop(model, parts.training, config)
    layer = 6 * 2 * 32 * config.collective.width**2  # forward, and the gradients of inputs and weights
    assert 2 * layer < counted < 50 * layer
    assert 1e9 * step.gigaflop(model, parts.training, config.replace(batch_size=64)) == pytest.approx(
        2 * counted, rel=0.05
    )


ROW = {
    "rows": 3000, "columns": 10, "effort": "default", "device": "cpu", "threads": 1, "members": 4, "batch": 128,
    "width": 96, "ms": 10.0, "calls": 2500, "gflop": 0.2, "gflops": 20.0, "floor_gflops": 50.0, "machine": "a machine",
}  # fmt: skip


def test_figures_are_judged_by_the_rows(tmp_path):
    assert [v.met for v in step.verdicts(tmp_path)] == [None, None]
    assert page(tmp_path) is None
    gpu = ROW | {"device": "cuda", "ms": 0.9}
    other = ROW | {"rows": 100, "gflops": 50.0}
    step.BENCHMARK.store(tmp_path).add(ROW, gpu, other, ROW | {"threads": 2, "gflops": 50.0})
    assert [(v.found, v.met) for v in step.verdicts(tmp_path)] == [("40%", False), ("0.90 ms", True)]
    text = page(tmp_path)
    assert "| 3,000 × 10 | default | cpu | 1 | 4 × 128 × 96 | 10.00 | 2,500 | 0.200 | 20.0 | 50.0 | 40% |" in text
