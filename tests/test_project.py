"""What the package says of itself: its version, its dependencies and the oldest of them, its wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import vsae

ROOT = Path(__file__).parents[1]
TOOLS = {"hatchling", "mypy", "ruff"}  # no test runs them


@pytest.fixture(scope="module")
def project() -> dict:
    toml = pytest.importorskip("tomllib", reason="Python 3.11 and newer read TOML")
    return toml.loads((ROOT / "pyproject.toml").read_text())["project"]


def versions(requirements: list[str], operator: str) -> dict[str, Version]:
    """By name; each requirement must have one bound, with that operator."""
    bounds = {}
    for requirement in map(Requirement, requirements):
        (bound,) = requirement.specifier
        assert bound.operator == operator, requirement
        bounds[requirement.name] = Version(bound.version)
    return bounds


def constrained(name: str) -> dict[str, Version]:
    lines = (ROOT / name).read_text().splitlines()
    return versions([line for line in lines if line and not line.startswith("#")], "==")


def test_the_oldest_versions_are_the_floors(project):
    floors = versions(project["dependencies"] + project["optional-dependencies"]["dev"], ">=")
    oldest = constrained("constraints-oldest.txt")
    assert oldest.pop("torch") == constrained("constraints.txt")["torch"] >= floors.pop("torch")
    assert oldest == {name: floor for name, floor in floors.items() if name not in TOOLS}


def test_development_has_all_extras(project):
    extras = project["optional-dependencies"]
    assert set().union(*extras.values()) == set(extras["dev"])


def test_the_wheel_is_the_package_and_nothing_else(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.iterdir()
    info = f"vsae-{vsae.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {"vsae", info}
    source = ROOT / "src"
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    assert modules | {"vsae/py.typed", f"{info}/licenses/LICENSE"} <= names
    assert not [name for name in names if "bench" in name]
