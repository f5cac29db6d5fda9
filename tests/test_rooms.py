"""The rooms of docs/design.md: what imports what, what must not know of what, and that all it names is there."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from vsae.datasets import make_clinic
from vsae.fitting.steps import FitData, split
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE
from vsae.training.em import learn
from vsae.training.loop import train

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "vsae"
DESIGN = (ROOT / "docs" / "design.md").read_text("utf-8")

#: What the words of the last column stand for.
FORBIDDEN = {
    "everything of ours": {"vsae"},
    "networks": {"vsae.model"},
    "losses": {"vsae.training.objective", "vsae.training.em"},
    "optimisers": {"vsae.training.optimiser", "vsae.training.loop"},
    "training": {"vsae.training"},
    "VSAE's own files": {"vsae.model.vsae", "vsae.training.em"},
    "models": {f"vsae.{room}" for room in ("model", "training", "baselines", "imputation", "generation", "fitting")},
    "torch": {"torch", "safetensors"},
    "dataframes": {"narwhals", "pandas", "polars", "pyarrow", "vsae.table", "vsae.files"},
    "argument parsing": {"typer", "click", "argparse", "vsae.cli"},
}


class Room(NamedTuple):
    name: str
    files: list[str]
    forbidden: set[str]


def rooms() -> list[Room]:
    found = []
    for names, files, forbidden in re.findall(
        r"^\| (`(?!src)[^|]+) \| ([^|]*) \| ([^|]*)\|$", DESIGN.split("## One fit")[0], re.M
    ):
        words = [word.strip() for word in forbidden.split(",") if word.strip()]
        unknown = [word for word in words if word not in FORBIDDEN]
        assert not unknown, f"{names}: FORBIDDEN does not say what {unknown} are"
        for name in re.findall(r"`([\w/.]+)`", names):
            room = name.removesuffix("/").removesuffix(".py")
            found.append(Room(room, re.findall(r"`(\w+)`", files), set().union(*(FORBIDDEN[word] for word in words))))
    return found


ROOMS = rooms()
ORDER = [room.name for room in ROOMS]
FILES = sorted(
    path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem not in ("__init__", "__main__")
)


def room_of(path: Path) -> Room:
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert name in ORDER, f"{name} has no place in docs/design.md; decide where it belongs"
    return ROOMS[ORDER.index(name)]


def imports(path: Path) -> set[str]:
    """Modules, and names of modules that may be such."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_imports_only_from_rooms_above_its_own_and_nothing_it_must_not_know(path):
    room, known = room_of(path), imports(path)
    for module in (name.split(".") for name in known if name.startswith("vsae.")):
        if module[1] in ORDER and module[1] != room.name:
            assert ORDER.index(module[1]) < ORDER.index(room.name), f"{room.name} must not import {'.'.join(module)}"
    for module in known:
        for other in room.forbidden:
            inside = other == "vsae" and module.startswith(f"vsae.{room.name}")
            assert inside or not f"{module}.".startswith(f"{other}."), f"{room.name} must not know of {module}"


@pytest.mark.parametrize("room", [room for room in ROOMS if room.files], ids=lambda room: room.name)
def test_the_files_of_a_room_are_named_in_an_order_in_which_they_can_be_read(room):
    there = {
        path.stem for path in (SOURCE / room.name).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__"} == set(room.files)
    for i, name in enumerate(room.files):
        path = SOURCE / room.name / name
        parts = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else sorted(path.glob("*.py"))
        own = {m.split(".")[2] for part in parts for m in imports(part) if m.startswith(f"vsae.{room.name}.")}
        late = own & set(room.files[i + 1 :])
        assert not late, f"{room.name}/{name} is named before {late}, which it imports"


def test_every_function_the_design_names_is_there():
    names = [name for name in re.findall(r"`([\w.]+)`", DESIGN) if name.split(".")[0] in ORDER and "." in name]
    names = [name for name in names if not name.endswith(".py")]
    assert len(set(names)) > 40
    for name in names:
        parts = name.split(".")
        for i in range(len(parts), 0, -1):
            try:
                module = importlib.import_module(".".join(["vsae", *parts[:i]]))
            except ModuleNotFoundError:
                continue
            reduce(getattr, parts[i:], module)
            break
        else:
            raise AssertionError(f"docs/design.md names {name}, which is not there")


PROJECT = [
    f"/{path.relative_to(ROOT).as_posix()}"
    for place in ("src", "benchmarks", "tests", "examples", "docs", ".")
    for path in (ROOT.glob("*.md") if place == "." else (ROOT / place).rglob("*.*"))
]


@pytest.mark.parametrize(
    "text",
    sorted([*SOURCE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_file_that_code_and_docs_name_is_there(text):
    for name in re.findall(r"[\w/-]*\w\.(?:py|md)\b", text.read_text("utf-8")):
        assert any(path.endswith(f"/{name.lstrip('/')}") for path in PROJECT), f"{name} is not there"
    for number in re.findall(r"decisions?[/ ](\d{4})", text.read_text("utf-8")):
        assert list((ROOT / "docs" / "decisions").glob(f"{number}-*.md")), f"there is no decision {number}"


def files_named(text: str) -> list[Path]:
    """Of the functions that a text names, in the order of the text, each once."""
    files = []
    for name in re.findall(r"`([a-z_]+\.[\w.]+)`", text):
        parts = name.split(".")
        files.append(
            next(p for i in range(len(parts), 0, -1) if (p := SOURCE.joinpath(*parts[:i]).with_suffix(".py")).exists())
        )
    return list(dict.fromkeys(files))


WALK, BENEATH = DESIGN.split("## One batch")[1].split("## One cell")[0].split("Beneath these")


def test_one_batch_meets_few_short_files():
    files = files_named(WALK)
    assert len(files) <= 14
    assert max(len(path.read_text("utf-8").splitlines()) for path in files) <= 300


def test_one_batch_meets_the_files_of_the_walk_in_its_order():
    """A training of one step, with all kinds of numbers and levels, is watched."""
    clinic = make_clinic(200)
    config = VSAEConfig(steps=1, members=2)
    data = FitData.of(clinic.schema, clinic.truth, clinic.mask, config, "cpu")
    model, parts = split(VSAE, data, config, seed=0)
    met: dict[Path, None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and SOURCE in path.parents:
            met[path] = None

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        train(model, parts.training, learn=learn, seed=0)
    finally:
        sys.setprofile(before)
    likelihoods = SOURCE / "model" / "likelihoods"  # the walk names one family for all
    walk = files_named(WALK)
    assert [path for path in met if path in walk] == walk
    assert not {path for path in met if path.parent != likelihoods} - {*walk, *files_named(BENEATH)}


def test_ten_questions_have_one_answer_each():
    answers = re.findall(r"^\| [^|]+\? \| (.*) \|$", DESIGN, re.M)
    assert len(answers) == 10
    assert all(re.fullmatch(r"`[\w.]+`", answer) for answer in answers)


def test_nobody_imports_the_command_line():
    for path in FILES:
        if room_of(path).name != "cli":
            assert not any(name.startswith("vsae.cli") for name in imports(path))


def test_the_core_needs_only_torch_numpy_sklearn_and_safetensors():
    """Where typer, rich, narwhals and pandas are absent, the core and its benchmarks still import."""
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"typer", "rich", "narwhals", "pandas", "polars", "pyarrow"}:
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Absent())
import vsae.fitting.fit, vsae.datasets, vsae.data.missingness, vsae.evaluation.metrics, vsae.multimodal
import benchmarks.scaling, benchmarks.peers.jobs, benchmarks.paper.jobs
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_fitting_does_not_load_the_baselines():
    code = "import sys, vsae.fitting.fit; assert not [m for m in sys.modules if m.startswith('vsae.baselines')]"
    subprocess.run([sys.executable, "-c", code], check=True)
