"""Benchmarks read the library as its users do; only what measures or rebuilds the model itself reads its inside."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "benchmarks"
INSIDE = ("vsae.model", "vsae.training", "vsae.imputation", "vsae.fitting.fit", "vsae.fitting.fitted")
MAY_KNOW_THE_MODEL = (
    "naive.py", "scaling.py", "step.py", "speed/devices.py", "paper/", "calibration/parts.py", "mechanism/"
)  # fmt: skip


def imported(path: Path) -> set[str]:
    """`vsae.module.name` for every name."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names if node.module}


def test_only_some_benchmarks_read_the_models_inside_and_none_what_is_private():
    read = {path.relative_to(ROOT).as_posix(): imported(path) for path in ROOT.rglob("*.py")}
    assert any(name.startswith(INSIDE) for name in read["scaling.py"])
    for file, names in read.items():
        ours = {name for name in names if name.startswith("vsae.")}
        assert not {name for name in ours if "._" in name and not name.endswith("__version__")}, file
        if not file.startswith(MAY_KNOW_THE_MODEL):
            assert not {name for name in ours if name.startswith(INSIDE)}, file
