"""Streamed fits and imputations of tables of more and more rows: seconds, memory and rows a second, beside peers.

Seconds are those of the processor, start of the program included, as other programs may run on the machine. Each run is
a process of its own, on one thread. Peers fill new rows after a fit to 5,000, as ours does in the same run. Two workers
of Ray, one of which is killed, are compared with one process; and fits to samples of several sizes with one another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import options
from benchmarks.peers.grid import TaskData, unanswered
from benchmarks.peers.jobs import METHODS as PEERS
from benchmarks.processes import HERE, Method, Processes, RunFailed, last_error, machine
from benchmarks.runs import Benchmark, Job
from benchmarks.store import Row
from benchmarks.stream import cluster, made

SIZES = (10_000, 30_000, 100_000, 300_000, 500_000, 1_000_000)
COLUMNS, LEARNED = 20, 100_000  # columns; rows that the model of the imputations learned
METHODS: dict[str, Method] = {
    "vsae": PEERS["vsae"],
    "vsae-fast": PEERS["vsae-fast"],
    "iterative": Method(None, "iterative.py"),
    "miceforest": PEERS["miceforest"],
}
FITTED, NEW = 5_000, 50_000  # rows, beside peers
SAMPLES, SAMPLED = (50_000, 200_000, 500_000), 1_000_000  # rows that fits learn, of how many
ON_RAY, FITTED_ON_RAY = 1_000_000, 20_000  # rows
WHAT = ("impute", "fit", "transform", "ray", "ray-fit", "sample")
_FAST = ("--effort", "fast")


def measured(job: Job, processes: Processes) -> Row:
    if job["what"] == "transform":
        return _transformed(job, processes)
    with tempfile.TemporaryDirectory(dir=job["folder"]) as name:
        folder, key = Path(name), {name: job[name] for name in BENCHMARK.key}
        if job["what"] in ("ray", "ray-fit", "sample"):
            return {**key, **_beside_itself(job, folder), "machine": machine()}
        made.write(folder / "t.parquet", job["rows"], COLUMNS)
        if job["what"] == "fit":
            used = _run(["fit", "t.parquet", "-o", "m.vsae"], folder, processes)
        else:
            model = _model(Path(job["folder"]), processes)
            used = _run(["impute", "t.parquet", "--model", str(model), "-o", "out.parquet"], folder, processes)
        size = (folder / "t.parquet").stat().st_size
    return {**key, "seconds": used["cpu"], "wall": used["wall"], "memory_mb": used["memory_mb"],
            "input_mb": round(size / 2**20, 1), "machine": machine()}  # fmt: skip


def _beside_itself(job: Job, folder: Path) -> Row:
    """Ours in two ways that should come to the same; at the effort `fast`."""
    if job["what"] == "ray-fit":
        return cluster.fitted(folder, job["rows"], COLUMNS, _FAST)
    if job["what"] == "ray":
        made.write(folder / "learned.parquet", FITTED, COLUMNS)
        cluster.vsae(["fit", folder / "learned.parquet", "-o", folder / "m.vsae", *_FAST], folder)
        return cluster.imputed(folder, job["rows"], COLUMNS, folder / "m.vsae")
    table = Path(job["folder"]) / "sampled.parquet"
    if not table.exists():
        made.write(table, SAMPLED, COLUMNS)
    cluster.vsae(["fit", table, "-o", folder / "m.vsae", *_FAST, "--sample", job["rows"], "--engine", "stream"], folder)
    return {"of": SAMPLED, "errors": cluster.errors(folder / "m.vsae", COLUMNS)}


def _model(folder: Path, processes: Processes) -> Path:
    """Fitted once, for all imputations."""
    path = folder / "m.vsae"
    if not path.exists():
        made.write(folder / "learned.parquet", LEARNED, COLUMNS)
        _run(["fit", "learned.parquet", "-o", "m.vsae"], folder, processes)
    return path


def _run(arguments: Sequence[str], folder: Path, processes: Processes) -> Row:
    """`vsae --engine stream` in a folder: its seconds and memory."""
    command = [sys.executable, "-m", "vsae", *arguments, "--engine", "stream", "-q"]
    said = folder / "stderr.txt"
    with said.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(HERE / "limited.py"), str(processes.limit), *command],
            cwd=folder, stdout=subprocess.PIPE, stderr=file, text=True, check=True,
        )  # fmt: skip
    used: Row = json.loads(done.stdout)
    if used["code"] or used["timed_out"]:
        raise RunFailed(last_error(said.read_text(errors="replace")) or f"timed out at {processes.limit:.0f} s")
    return used


def _transformed(job: Job, processes: Processes) -> Row:
    """A method on the same rows: fitted to some, it fills others."""
    train, new = made.table(FITTED, COLUMNS, 0), made.table(job["rows"], COLUMNS, 1)
    masks = made.mask_of(FITTED, COLUMNS, 0), made.mask_of(job["rows"], COLUMNS, 1)
    task = TaskData(41, train, masks[0], new, masks[1])
    key = {name: job[name] for name in BENCHMARK.key}
    row = unanswered(key, processes, "seconds", "seconds_new", "memory_mb", "errors")

    def scored(folder: Path) -> Row:
        answer: Row = json.loads((folder / "answer.json").read_text())
        return {**answer, "seconds": answer["seconds_new"], "wall": answer["seconds_new"]}

    return processes.answered(METHODS[job["method"]], row, [task.given()], scored) | {"machine": machine()}


def in_words(row: Row) -> str:
    if row["what"] == "ray":
        return f"{row['differ']} cells differ, {row['empty']} are empty, {row['killed']} worker killed"
    if row["what"] == "ray-fit":
        found = ", ".join(f"{name} {x['nrmse']:.4f} {x['pfc']:.4f}" for name, x in row["errors"].items())
        return f"NRMSE and PFC: {found}"
    if row["what"] == "sample":
        return f"NRMSE {row['errors']['nrmse']:.4f}, PFC {row['errors']['pfc']:.4f}"
    rate = f"{row['rows'] / row['seconds']:,.0f} rows a second"
    return f"{row['seconds']:.1f} s ({row['wall']:.0f} s by the clock), {rate}, {row['memory_mb']:.0f} MB"


BENCHMARK = Benchmark("stream", ("what", "rows", "columns", "method"), measured, in_words, limit=7200.0)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("stream", __doc__)
    options.several(parser, "--what", "What to measure. Default: all.", WHAT)
    sizes = " ".join(map(str, SIZES))
    options.several(parser, "--rows", f"Of the streamed tables. Default: {sizes}.", type=int, metavar="ROWS")
    options.several(parser, "--methods", "Beside which methods. Default: all.", METHODS)
    options.add_run_options(parser, BENCHMARK, peers=True)
    o = parser.parse_args(arguments)
    whats = o.what or WHAT
    jobs = [
        {"what": what, "rows": rows, "columns": COLUMNS, "method": "vsae"}
        for what in ("impute", "fit") if what in whats
        for rows in o.rows or SIZES
    ]  # fmt: skip
    if "transform" in whats:
        jobs += [{"what": "transform", "rows": NEW, "columns": COLUMNS, "method": m} for m in o.methods or METHODS]
    sizes_of = {"ray": [ON_RAY], "ray-fit": [FITTED_ON_RAY], "sample": SAMPLES}
    jobs += [
        {"what": what, "rows": rows, "columns": COLUMNS, "method": "vsae-fast"}
        for what, sizes in sizes_of.items() if what in whats
        for rows in (o.rows if o.rows and what == "ray" else sizes)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        options.run_with(o, BENCHMARK, [{**job, "folder": folder} for job in jobs])
