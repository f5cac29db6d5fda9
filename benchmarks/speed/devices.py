"""Fits on a GPU and on a CPU: seconds, one config on both, trainings that move between them, what an effort is worth.

A small fit comes first in each process, so that imports and the start of the device do not count.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import data, options
from benchmarks.markup import all_values, markdown, paragraph
from benchmarks.peers.cells import geometric_mean
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, Job, errors_in_words, in_process
from benchmarks.sharp import tables
from benchmarks.sharp.made import MAKERS
from benchmarks.sharp.tables import CONTROL, FILES
from benchmarks.sizes import shape_of
from benchmarks.speed.made import made
from benchmarks.store import Row
from vsae import fit
from vsae.data.missingness import MCAR
from vsae.fitting.presets import Effort, config_for
from vsae.training.history import Progress

GPU, CPU = "cuda", "cpu"
SMALL = "3000x10"
MOST_SECONDS = {SMALL: 15.0, "100000x20": 15.0, "1000000x20": 40.0}  # asked of a GPU
SEEDS = (0, 1, 2, 3)
HIDDEN, WARM_UP = 0.3, "200x4"
MOVES = (f"{GPU} to {CPU}", f"{CPU} to {GPU}")
SHARP = tuple(f"{name}-2000" for name in MAKERS if name != CONTROL) + tuple(FILES)
EFFORTS: dict[str, Effort] = {CPU: "best", GPU: "default"}  # that are compared


class _Stopped(Exception):
    """In the middle of a training."""


def measured(what: str, table: str, device: str, seed: int) -> Row:
    """`what`: a "fit" of the device's default effort; one with the "settings" of a CPU; a training that "moves"; the
    "effort" of a device beside that of the other."""
    began_on, ends_on = (device.split(" to ") * 2)[:2]
    for used in {began_on, ends_on}:
        rows, mask = _task(WARM_UP)
        fit(rows.schema, rows.columns, mask, seed=seed, device=used).impute(rows.columns, mask)
    rows, mask = _task(table)
    config = None if what == "fit" else config_for(rows.schema, len(rows))
    if what == "effort":
        config = config_for(rows.schema, len(rows), EFFORTS[device], gpu=device == GPU)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state") if what == "moves" else None
        if state is not None:
            with suppress(_Stopped):
                fit(rows.schema, rows.columns, mask, config, seed=seed, device=began_on, checkpoint_path=state,
                    callback=_stop_after_half)  # fmt: skip
            if not state.exists():
                raise ValueError("the training ended before it was stopped")
        began = time.perf_counter()
        fitted = fit(rows.schema, rows.columns, mask, config, seed=seed, device=ends_on, checkpoint_path=state)
        fitted_at = time.perf_counter()
    filled = fitted.impute(rows.columns, mask)
    return {
        "what": what, "table": table, "device": device, "seed": seed, "threads": torch.get_num_threads(),
        "seconds": fitted_at - began, "impute_seconds": time.perf_counter() - fitted_at,
        "errors": data.errors(rows, mask, filled), "machine": _machine(),
    }  # fmt: skip


def _task(table: str) -> tuple[data.Rows, NDArray[np.bool_]]:
    """A sharp table by its name, or one of so many rows and columns; the same for all seeds of a fit."""
    rows = made(*shape_of(table)) if "x" in table and table[0].isdigit() else tables.load(table)
    return rows, rows.hide(MCAR(HIDDEN), np.random.default_rng(0))


def _stop_after_half(progress: Progress) -> None:
    if progress.record is not None and 2 * progress.step >= progress.steps:
        raise _Stopped


def _machine() -> str:
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"torch {torch.__version__}{gpu}, {platform.machine()}, python {platform.python_version()}"


def in_words(row: Row) -> str:
    return f"{row['seconds']:.1f} s, filled in {row['impute_seconds']:.1f} s; {errors_in_words(row['errors'])}"


WHAT = ("fit", "settings", "moves", "effort")
BENCHMARK = Benchmark("devices", ("what", "table", "device", "seed"), in_process(__name__), in_words)


def jobs_of(devices: Sequence[str]) -> list[Job]:
    """Those that need no other device than these."""
    found = [("fit", table, GPU, 0) for table in MOST_SECONDS]
    found += [("settings", SMALL, device, seed) for device in (CPU, GPU) for seed in SEEDS]
    found += [("moves", SMALL, how, seed) for how in MOVES for seed in SEEDS]
    found += [("effort", table, device, 0) for device in EFFORTS for table in SHARP]
    return [
        {"what": what, "table": table, "device": device, "seed": seed}
        for what, table, device, seed in found
        if set(device.split(" to ")) <= set(devices)
    ]


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("devices", __doc__)
    options.several(parser, "--what", "What to measure. Default: all.", WHAT)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    jobs = jobs_of([CPU, GPU] if torch.cuda.is_available() else [CPU])
    options.run_with(o, BENCHMARK, [job for job in jobs if not o.what or job["what"] in o.what])


# --- its part of docs/speed.md


def together(row: Row) -> float:
    """Error of numbers and of levels / that of mean and mode, their geometric mean."""
    errors = row["errors"]
    return geometric_mean(errors[m] / errors[f"{m}_trivial"] for m in ("nrmse", "pfc") if m in errors)


def verdicts(results: Path) -> list[Verdict]:
    rows = BENCHMARK.rows(results)
    fits = {row["table"]: row["seconds"] for row in rows if (row["what"], row["device"]) == ("fit", GPU)}
    found = []
    for table, most in MOST_SECONDS.items():
        asked, seconds = f"a fit of {_name(table)} on a GPU ≤ {most:.0f} s", fits.get(table)
        met = None if seconds is None else seconds <= most
        found.append(Verdict(asked, "–" if seconds is None else f"{seconds:.1f} s", met))
    ours = _errors(rows, "settings", CPU)
    asked = "one config on CPU and GPU: errors within two standard errors of seeds"
    found.append(_alike(asked, ours, {GPU: _errors(rows, "settings", GPU)}))
    asked = "trainings that move between them: likewise"
    found.append(_alike(asked, ours, {how: _errors(rows, "moves", how) for how in MOVES}))
    return [*found, _effort(rows)]


def _errors(rows: Iterable[Row], what: str, device: str) -> list[float]:
    return [together(row) for row in rows if (row["what"], row["device"]) == (what, device)]


def _alike(asked: str, ours: Sequence[float], others: dict[str, list[float]]) -> Verdict:
    if min(map(len, (ours, *others.values()))) < 2:
        return Verdict(asked, "–", None)
    parts, met = [f"{CPU} {np.mean(ours):.3f}"], True
    for device, theirs in others.items():
        error = np.sqrt(np.var(ours, ddof=1) / len(ours) + np.var(theirs, ddof=1) / len(theirs))
        parts.append(f"{device} {np.mean(theirs):.3f} ± {error:.3f}")
        met &= bool(abs(np.mean(theirs) - np.mean(ours)) <= 2 * error)
    return Verdict(asked, ", ".join(parts), met)


def _effort(rows: Iterable[Row]) -> Verdict:
    """The geometric mean over the tables that both have."""
    asked = f"error of `{EFFORTS[GPU]}` on a GPU / that of `{EFFORTS[CPU]}` on a CPU, sharp tables ≤ 1"
    found = {(row["table"], row["device"]): together(row) for row in rows if row["what"] == "effort"}
    ratios = [found[table, GPU] / found[table, CPU] for table in SHARP if {(table, GPU), (table, CPU)} <= found.keys()]
    if not ratios:
        return Verdict(asked, "–", None)
    mean = geometric_mean(ratios)
    lower = sum(ratio <= 1 for ratio in ratios)
    return Verdict(asked, f"{mean:.3f}, lower on {lower} of {len(ratios)}", mean <= 1)


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return ""
    words = paragraph(
        "Simulated tables as above, and those of docs/sharp.md (effort), 30% of their cells hidden. Seconds are those",
        "of the clock for a whole fit, after a small one in the same process, so that imports and the start of the",
        "device do not count. Settings: those of the CPU's default, on either device. A training that moves is stopped",
        "in its middle and goes on from its checkpoint on the other device; its seconds are those of the rest. Several",
        "of these ran side by side. `python -m benchmarks devices` repeats them.",
        f"Machine: {'; '.join(all_values(rows, 'machine'))}.",
    )
    judged = markdown(["asked", "found", "met"], [verdict.line() for verdict in verdicts(results)])
    headings = ["", "table", "device", "threads", "seed", "fit, s", "impute, s", "NRMSE", "PFC", "together"]
    return f"## On a GPU\n\n{judged}\n\n{words}\n\n{markdown(headings, [_line(row) for row in rows])}"


def _line(row: Row) -> list[object]:
    seconds = [f"{row[name]:.1f}" for name in ("seconds", "impute_seconds")]
    errors = [f"{row['errors'][m]:.3f}" if m in row["errors"] else "–" for m in ("nrmse", "pfc")]
    named = [row["what"], _name(row["table"]), row["device"], row["threads"], row["seed"]]
    return [*named, *seconds, *errors, f"{together(row):.3f}"]


def _name(table: str) -> str:
    """
    >>> _name("100000x20"), _name("rules-2000")
    ('100,000 × 20', 'rules-2000')
    """
    return "{:,} × {:,}".format(*shape_of(table)) if table[0].isdigit() else table
