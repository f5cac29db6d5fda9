"""Part `blocks`: streamed fits and imputations that are killed, find the disk full or their input damaged.

The same command again, when the cause is gone, must give the bytes of a run that nothing disturbed.
"""

from __future__ import annotations

import resource
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.attack.commands import Ended, Run, run
from benchmarks.attack.outcomes import Outcomes, table
from vsae.files import blocks, text_blocks, write_table

_ROWS, _FILES = 1200, 3  # of each file
_LIMIT = 600.0  # seconds by the clock: a busy machine is not the attack's doing
_SMALL = 1200  # cells of a block, so that there are several


class Command(NamedTuple):
    """Written in a folder that holds the tables in/*.parquet and t.csv, and the model m.vsae."""

    arguments: tuple[str, ...]
    out: str


_TRAINED = ("--steps", "15", "--effort", "fast", "--sample", "900")
COMMANDS = {
    "impute": Command(("impute", "in", "--model", "m.vsae", "-o", "out.parquet", "--strategy", "draw"), "out.parquet"),
    "impute to a folder": Command(("impute", "in", "--model", "m.vsae", "-o", "out/"), "out"),
    "impute text": Command(("impute", "t.csv", "--model", "m.vsae", "-o", "out.csv", "--engine", "stream"), "out.csv"),
    "impute by workers": Command(
        ("impute", "in", "--model", "m.vsae", "-o", "out.parquet", "--engine", "ray", "--workers", "2"), "out.parquet"
    ),
    "fit": Command(("fit", "in", "-o", "out.vsae", *_TRAINED), "out.vsae"),
    "fit and impute": Command(("impute", "in", "-o", "out.parquet", *_TRAINED), "out.parquet"),
}
_UNHARMED = ("impute text", "impute by workers")  # text has no row groups; Ray itself finds no room for its files
_WORDS = {"in", "m.vsae", "t.csv", "out", "out/", "out.parquet", "out.csv", "out.vsae"}


def attack(
    count: int, seed: int, folder: Path, commands: Sequence[str] = tuple(COMMANDS), harms: Sequence[str] | None = None
) -> Outcomes:
    """`count` kills of each command, then other harm."""
    out, rng = Outcomes(worst_seconds=60.0), np.random.default_rng([seed, 25])
    source = _prepared(folder, seed)
    there = [name for name in commands if name != "impute by workers" or find_spec("ray") is not None]
    for name, command in ((name, COMMANDS[name]) for name in there):
        place = folder / "place"
        whole, took = _undisturbed(command, source, place)
        for i in range(count):
            _fresh(source, place)
            started = Run(_inside(command, place), _small_blocks)
            time.sleep(took * rng.uniform(0, 1))
            started.kill()
            started.end()
            left = _outputs(place, command)
            partial = bool(left) and left != whole and command.out != "out"  # of a folder, some files may be there
            again = run(*_inside(command, place), before=_small_blocks, limit=_LIMIT)
            bad = "an unfinished output was there" if partial else _judged(again, place, command, whole)
            out.add(f"kill {i} of {name}", "same bytes", bad)
        if name not in _UNHARMED:
            for cause, (harm, mend) in ((cause, HARMS[cause]) for cause in (HARMS if harms is None else harms)):
                _harmed(out, f"{name}, {cause}", command, source, place, whole, harm, mend)
    return out


def _prepared(folder: Path, seed: int) -> Path:
    source = folder / "source"
    (source / "in").mkdir(parents=True)
    for i in range(_FILES):
        columns = {name: pa.array(x, from_pandas=True) for name, x in table(_ROWS, seed + i).items()}
        pq.write_table(pa.table(columns), source / "in" / f"part-{i}.parquet", row_group_size=_ROWS // 3)
    write_table(source / "t.csv", table(_ROWS, seed))
    made = run("fit", source / "in", "-o", source / "m.vsae", *_TRAINED, "-q", limit=_LIMIT)
    if made.code:
        raise RuntimeError(f"there is no model to attack: {made.err}")
    return source


def _small_blocks() -> None:
    """In the child: files of a few kilobytes are to have many blocks."""
    blocks.CELLS = _SMALL
    text_blocks.PIECE = 16 * _SMALL


def _fresh(source: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)


def _inside(command: Command, place: Path) -> list[str]:
    paths = [f"{place}/{word}" if word in _WORDS else word for word in command.arguments]
    return [*paths, "-q"]


def _outputs(place: Path, command: Command) -> dict[str, bytes]:
    """By name; without what is hidden, which is nobody's output yet."""
    target = place / command.out
    files = [target] if target.is_file() else [p for p in sorted(target.rglob("*")) if p.is_file()]
    return {
        p.name: p.read_bytes() for p in files if not any(part.startswith(".") for part in p.relative_to(place).parts)
    }


def _undisturbed(command: Command, source: Path, place: Path) -> tuple[dict[str, bytes], float]:
    _fresh(source, place)
    began = time.monotonic()
    ended = run(*_inside(command, place), before=_small_blocks, limit=_LIMIT)
    took = time.monotonic() - began
    if ended.code:
        raise RuntimeError(f"{' '.join(command.arguments)} fails undisturbed: {ended.err}")
    return _outputs(place, command), took


def _judged(ended: Ended, place: Path, command: Command, whole: dict[str, bytes]) -> str:
    """What is wrong, or nothing."""
    if ended.code or ended.fault:
        return ended.fault or f"exit code {ended.code}: {ended.err[-200:]}"
    if _outputs(place, command) != whole:
        return "other bytes than those of an undisturbed run"
    left = [path.name for path in [*place.iterdir(), *place.glob("out/*")] if path.name.startswith(".")]
    return f"{left} was left" if left else ""


def _harmed(
    out: Outcomes, name: str, command: Command, source: Path, place: Path, whole: dict[str, bytes],
    harm: Callable[[Path], Callable[[], None] | None], mend: Callable[[Path, Path], None],
) -> None:  # fmt: skip
    """One line and exit code 1; then, when it is mended, the bytes of an undisturbed run."""
    _fresh(source, place)
    limited = harm(place)

    def before() -> None:
        _small_blocks()
        if limited is not None:
            limited()

    ended = run(*_inside(command, place), before=before, limit=_LIMIT)
    bad = ended.fault or ("" if ended.code == 1 else f"exit code {ended.code}")
    if not bad and limited is None and "part-1.parquet" not in ended.err:
        bad = f"the file is not named: {ended.err[-200:]}"
    mend(source, place)
    again = run(*_inside(command, place), before=_small_blocks, limit=_LIMIT)
    out.add(name, "refused, then same bytes", bad or _judged(again, place, command, whole))


def _damage(place: Path) -> None:
    """Bytes in the middle of a row group, so that its header says that all is well."""
    path = place / "in" / "part-1.parquet"
    content = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(1)
    start = group.column(1).data_page_offset
    content[start : start + 60] = b"\xff" * 60
    path.write_bytes(bytes(content))


def _drop_column(place: Path) -> None:
    path = place / "in" / "part-1.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["height"]), path, row_group_size=_ROWS // 3)


def _restore(source: Path, place: Path) -> None:
    shutil.copy2(source / "in" / "part-1.parquet", place / "in" / "part-1.parquet")


def _small_disk(place: Path) -> Callable[[], None]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    return limit


#: What does harm, and what takes it away again.
HARMS: dict[str, tuple[Callable[[Path], Callable[[], None] | None], Callable[[Path, Path], None]]] = {
    "a damaged row group": (_damage, _restore),
    "a column missing in a file": (_drop_column, _restore),
    "no room for files": (_small_disk, lambda source, place: None),
}
