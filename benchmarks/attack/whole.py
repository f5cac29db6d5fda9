"""Parts `kills` and `disks`: a command that is killed or finds the disk full leaves every file as it was, or new."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.attack.commands import Ended, Run, contents, run
from benchmarks.attack.outcomes import Outcomes, table
from vsae.files import write_table

OLD = b"what was there before"
SIZES = 20  # of disks, for each command
_PAGE = 4096  # bytes


class Command(NamedTuple):
    """Written in a folder that holds the table t.csv and the model m.vsae."""

    arguments: tuple[str, ...]
    files: tuple[str, ...]  # that it writes


COMMANDS = {
    "fit": Command(("fit", "t.csv", "-o", "new.vsae", "--steps", "15", "--effort", "fast", "-q"), ("new.vsae",)),
    "impute": Command(("impute", "t.csv", "--model", "m.vsae", "-o", "new.csv", "-q"), ("new.csv",)),
    "draws": Command(
        ("impute", "t.csv", "--model", "m.vsae", "-o", "new.csv", "--draws", "8", "-q"),
        tuple(f"new.{i + 1}.csv" for i in range(8)),
    ),
    "evaluate": Command(
        ("evaluate", "t.csv", "-o", "new.csv", "--steps", "15", "--effort", "fast", "--repeats", "1", "-q"),
        ("new.csv",),
    ),
    "in-place": Command(("impute", "t.csv", "--model", "m.vsae", "--in-place", "-q"), ("t.csv",)),
}


@contextmanager
def prepared(folder: Path, seed: int) -> Iterator[Callable[[Command, Path], Path]]:
    """What puts a table, a model and old files into an empty folder for a command."""
    source = folder / "source"
    source.mkdir()
    write_table(source / "t.csv", table(400, seed))
    made = run("fit", source / "t.csv", "-o", source / "m.vsae", "--steps", 15, "--effort", "fast", "-q")
    if made.code:
        raise RuntimeError(f"there is no model to attack: {made.err}")

    def fresh(command: Command, place: Path) -> Path:
        for path in place.iterdir():
            path.unlink()
        for path in source.iterdir():
            shutil.copy(path, place)
        for name in command.files:
            if not (place / name).exists():
                (place / name).write_bytes(OLD)
        return place

    yield fresh


def _inside(command: Command, place: Path) -> list[str]:
    return [str(place / word) if word.startswith(("t.", "m.", "new.")) else word for word in command.arguments]


def _undisturbed(name: str, ended: Ended) -> None:
    if ended.code:
        raise RuntimeError(f"{name} fails undisturbed: {ended.err}")


def kills(count: int, seed: int, folder: Path) -> Outcomes:
    """`count` of each command, at moments all over its run, every other one in its last tenth, where files are
    written."""
    rng, out = np.random.default_rng(seed), Outcomes(worst_seconds=60.0)
    with prepared(folder, seed) as fresh:
        place = folder / "place"
        place.mkdir()
        for name, command in COMMANDS.items():
            began = time.monotonic()
            ended = run(*_inside(command, fresh(command, place)))
            took = time.monotonic() - began
            _undisturbed(name, ended)
            new = contents(place)
            for i in range(count):
                old = contents(fresh(command, place))
                run_ = Run(_inside(command, place))
                time.sleep(took * (rng.uniform(0.9, 1.05) if i % 2 else rng.uniform(0, 1)))
                run_.kill()
                run_.end()
                out.add(f"kill {i} of {name}", *_judged(command, old, new, contents(place), name == "fit"))
    return out


def _judged(
    command: Command, old: dict[str, bytes], new: dict[str, bytes], now: dict[str, bytes], timed: bool
) -> tuple[str, str]:
    """("old" | "new", what is wrong). A model holds the seconds that its fit took: it is judged by its size."""
    for name in ("t.csv", "m.vsae"):
        if name not in command.files and now.get(name) != old[name]:
            return "lost", f"{name} was changed"
    states = set()
    for name in command.files:
        is_new = now.get(name) == new[name] or (timed and abs(len(now.get(name, b"")) - len(new[name])) < 200)
        states.add("old" if now.get(name) == old[name] else "new" if is_new else "lost")
    if "lost" in states:
        return "lost", "a file is neither old nor new"
    return states.pop(), "some files are old, some new" if states else ""


def disks(count: int, seed: int, folder: Path) -> Outcomes:
    """Each command on disks of up to `SIZES` sizes, from none to what it needs and more."""
    out, place = Outcomes(worst_seconds=60.0), folder / "disk"
    place.mkdir()
    with prepared(folder, seed) as fresh:
        for name, command in COMMANDS.items():
            with _disk(place, 64 * 2**20):
                room = _room(contents(fresh(command, place)))
                _undisturbed(name, run(*_inside(command, place)))
                new = contents(place)
            need = _room({file: new[file] for file in command.files})
            sizes = np.linspace(0, 2.5 * need, min(SIZES, count)).astype(int)  # a fit keeps its state beside
            for size in sizes.tolist():
                with _disk(place, room + size) as limited:
                    old = contents(fresh(command, place))
                    ended = run(*_inside(command, place), before=limited)
                    now = contents(place)
                    outcome, wrong = _judged(command, old, new, now, name == "fit")
                    if ended.code == 0 and outcome == "old":
                        wrong = "exit code 0, and nothing was written"
                    if ended.code and outcome == "new":
                        wrong = "a failure, and the files are there"
                    if left := [part for part in now if part.endswith(".part")]:
                        wrong = f"{left} was left"
                    bad = wrong or ended.fault or ("" if ended.code in (0, 1) else f"exit code {ended.code}")
                    out.add(f"{name} on a disk with {size} bytes free", outcome, bad)
    return out


def _room(files: dict[str, bytes]) -> int:
    """Bytes, in pages."""
    return sum(-(-len(content) // _PAGE) * _PAGE for content in files.values()) + 4 * _PAGE


@contextmanager
def _disk(place: Path, size: int) -> Iterator[Callable[[], None] | None]:
    """A small disk at `place`; where none may be mounted, a limit on the size of files, to be set in a child."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size // 1024}k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode == 0:
        try:
            yield None
        finally:
            subprocess.run(["umount", str(place)], check=True)
        return

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    yield limit
