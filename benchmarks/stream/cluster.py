"""Two workers of Ray beside one process: the same cells, though one of them is killed midway, and as good a model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import RunFailed, last_error
from benchmarks.store import Row
from benchmarks.stream import made

WORKERS, NEW = 2, 5_000  # rows that no fit has seen, to tell models apart
SEEDS = (1, 2)  # of more fits by one process, which say what chance does
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def imputed(folder: Path, rows: int, columns: int, model: Path) -> Row:
    """A table by one process, and by workers of which one is killed."""
    table = folder / "t.parquet"
    made.write(table, rows, columns)
    began = time.monotonic()
    vsae(["impute", table, "--model", model, "-o", folder / "one.parquet", "--engine", "stream"], folder)
    alone = time.monotonic() - began
    arguments = ["impute", table, "--model", model, "-o", folder / "many.parquet", *_on_ray()]
    began = time.monotonic()
    seen = _with_a_kill(arguments, folder)
    row = {"wall": round(time.monotonic() - began, 1), "wall_alone": round(alone, 1), "workers": WORKERS}
    return {**row, **seen, **_compared(folder / "one.parquet", folder / "many.parquet")}


def fitted(folder: Path, rows: int, columns: int, options: Sequence[object]) -> Row:
    """Errors of a model that workers had a part in, of one process's, and of one process's with other seeds."""
    table = folder / "t.parquet"
    made.write(table, rows, columns)
    ways = {"ray": _on_ray(), "alone": ("--engine", "stream")}
    ways |= {f"seed {seed}": ("--engine", "stream", "--seed", seed) for seed in SEEDS}
    found = {}
    for name, way in ways.items():
        vsae(["fit", table, "-o", folder / f"{name}.vsae", *options, *way], folder)
        found[name] = errors(folder / f"{name}.vsae", columns)
    files = [(folder / f"{name}.vsae").read_bytes() for name in ("ray", "alone")]
    return {"errors": found, "same_bytes": files[0] == files[1], "workers": WORKERS}


def errors(model: Path, columns: int) -> Row:
    """Of hidden cells in rows that no fit has seen: the root of mean squares of numbers, and the share of levels."""
    import pyarrow as pa

    from vsae import load

    truth, mask = made.columns_of(NEW, columns, 10**6), made.mask_of(NEW, columns, 10**6)
    shown = {
        name: pa.array(np.array(list("abc"), dtype=object)[x.astype(int)] if j % 2 else x, mask=~mask[:, j])
        for j, (name, x) in enumerate(truth.items())
    }
    filled = load(model).transform(pa.table(shown))
    squares, wrong = [], []
    for j, (name, x) in enumerate(truth.items()):
        cells, hidden = filled[name].to_numpy(), ~mask[:, j]
        if j % 2:
            wrong.append(cells[hidden] != np.array(list("abc"), dtype=object)[x[hidden].astype(int)])
        else:
            squares.append((cells[hidden] - x[hidden]) ** 2)  # of a column whose variance is 1
    return {"nrmse": float(np.sqrt(np.concatenate(squares).mean())), "pfc": float(np.concatenate(wrong).mean())}


def vsae(arguments: Sequence[object], folder: Path) -> None:
    """A command, which must succeed."""
    _ended(_begun(arguments, folder), folder)


def _begun(arguments: Sequence[object], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "stderr.txt").open("w") as said:
        command = [sys.executable, "-m", "vsae", *map(str, arguments), "-q"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)


def _ended(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.wait():
        raise RunFailed(last_error((folder / "stderr.txt").read_text(errors="replace")))


def _on_ray() -> tuple[object, ...]:
    return "--engine", "ray", "--workers", WORKERS


def _with_a_kill(arguments: Sequence[object], folder: Path) -> Row:
    """One worker dies once some parts are there; which addresses were listened at."""
    process, addresses, workers, killed = _begun(arguments, folder), set[str](), set[int](), 0
    while process.poll() is None:
        ours = descendants(process.pid)
        now = {pid for pid, command in ours.items() if command.startswith("ray::Worker")}
        addresses |= listening({*ours, process.pid})
        workers |= now
        if not killed and len(now) == WORKERS and any(folder.glob(".*/*")):
            os.kill(min(now), signal.SIGKILL)
            killed = 1
        time.sleep(0.5)
    _ended(process, folder)
    return {"killed": killed, "processes": len(workers), "listening_elsewhere": sorted(addresses - LOOPBACK)}


def _compared(one: Path, many: Path) -> Row:
    """Cells that differ, and rows of each."""
    import pyarrow.parquet as pq

    a, b = pq.read_table(one), pq.read_table(many)
    differ = sum(int((x.to_numpy() != y.to_numpy()).sum()) for x, y in zip(a.columns, b.columns, strict=True))
    empty = sum(column.null_count for column in b.columns)
    return {"rows_of_one": len(a), "rows_of_many": len(b), "differ": differ, "empty": empty,
            "same_bytes": one.read_bytes() == many.read_bytes()}  # fmt: skip


def descendants(of: int) -> dict[int, str]:
    """Processes that one began, and those that they began: number → command."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found, new = set[int](), {of}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return {pid: commands[pid] for pid in found if pid in commands}


def listening(pids: set[int]) -> set[str]:
    """The addresses, in hexadecimal, at which these processes take connections."""
    sockets: set[str] = set()
    for pid in pids:
        try:
            links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        sockets |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found: set[str] = set()
    for name in ("tcp", "tcp6"):
        lines: list[Any] = [line.split() for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        found |= {line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in sockets}
    return found
