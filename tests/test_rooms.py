"""Each room of the house imports only from rooms above its own (docs/design.md), and the core needs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "vsae"

ROOMS = [
    "storage",
    "data",
    "model",
    "training",
    "baselines",
    "evaluation",
    "imputation",
    "generation",
    "fitting",
    "multimodal",
    "table",
    "files",
    "datasets",
    "progress",
    "estimator",
    "cli",
    "__main__",
    "__init__",
]


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "vsae":
            names = [f"vsae.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("vsae.")}
    return rooms


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_from_rooms_above_it(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} has no place in ROOMS; decide where it belongs"
    for other in imported_rooms(path) - {room}:
        assert ROOMS.index(other) < ROOMS.index(room), f"{room} must not import {other}"


def test_nobody_imports_the_command_line():
    for path in SOURCE.rglob("*.py"):
        if room_of(path) not in ("cli", "__main__"):
            assert "cli" not in imported_rooms(path)


def test_the_core_needs_only_torch_numpy_sklearn_and_safetensors():
    """Where typer, rich, narwhals and pandas are absent, the core and its benchmarks still import."""
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"typer", "rich", "narwhals", "pandas", "polars", "pyarrow", "scipy.stats"}:
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Absent())
import vsae.fitting.fit, vsae.datasets, vsae.data.missingness, vsae.evaluation.metrics, vsae.multimodal
import benchmarks.scaling, benchmarks.peers.jobs, benchmarks.paper.jobs
"""
    subprocess.run([sys.executable, "-c", code], check=True)
