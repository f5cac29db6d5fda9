"""Fits on a GPU and on a CPU: seconds of whole fits, the same settings on both, and trainings that move between them.

A small fit comes first in each process, so that imports and the start of the device do not count.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks import data, options
from benchmarks.markup import all_values, markdown, paragraph
from benchmarks.peers.cells import geometric_mean
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, Job, errors_in_words, in_process
from benchmarks.sizes import Shape
from benchmarks.speed.made import made
from benchmarks.store import Row
from vsae import VSAEConfig, fit
from vsae.data.missingness import MCAR
from vsae.fitting.presets import config_for
from vsae.training.history import Progress

GPU, CPU = "cuda", "cpu"
SMALL: Shape = (3000, 10)
LONG: tuple[Shape, ...] = ((100_000, 20), (1_000_000, 20))
MOST_SECONDS = {SMALL: 15.0, LONG[0]: 15.0, LONG[1]: 40.0}  # asked of a GPU
SEEDS = (0, 1, 2, 3)
HIDDEN, WARM_UP = 0.3, (200, 4)
MOVES = (f"{GPU} to {CPU}", f"{CPU} to {GPU}")


class _Stopped(Exception):
    """In the middle of a training."""


def measured(what: str, rows: int, columns: int, device: str, seed: int) -> Row:
    """`what`: a "fit" of the device's default effort; one of the "settings" of a CPU; a training that "moves"."""
    torch.set_num_threads(1)
    began_on, ends_on = (device.split(" to ") * 2)[:2]
    for used in {began_on, ends_on}:
        _fitted(WARM_UP, used, seed)
    table, mask, config = _task((rows, columns))
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state") if what == "moves" else None
        if state is not None:
            try:
                fit(table.schema, table.columns, mask, config, seed=seed, device=began_on, checkpoint_path=state,
                    callback=lambda p: _stop_after_half(p))  # fmt: skip
            except _Stopped:
                assert state.exists()
        began = time.perf_counter()
        fitted = fit(
            table.schema, table.columns, mask, None if what == "fit" else config,
            seed=seed, device=ends_on, checkpoint_path=state,
        )  # fmt: skip
        fitted_at = time.perf_counter()
    filled = fitted.impute(table.columns, mask)
    return {
        "what": what, "rows": rows, "columns": columns, "device": device, "seed": seed,
        "seconds": fitted_at - began, "impute_seconds": time.perf_counter() - fitted_at,
        "errors": data.errors(table, mask, filled), "machine": _machine(),
    }  # fmt: skip


def _task(shape: Shape) -> tuple[data.Rows, np.ndarray, VSAEConfig]:
    """The same for all seeds of a fit; the settings are those of a CPU."""
    table = made(*shape)
    return table, table.hide(MCAR(HIDDEN), np.random.default_rng(0)), config_for(table.schema, shape[0])


def _fitted(shape: Shape, device: str, seed: int) -> None:
    table, mask, _ = _task(shape)
    fit(table.schema, table.columns, mask, seed=seed, device=device).impute(table.columns, mask)


def _stop_after_half(progress: Progress) -> None:
    if progress.record is not None and 2 * progress.step >= progress.steps:
        raise _Stopped


def _machine() -> str:
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"torch {torch.__version__}{gpu}, {platform.machine()}, 1 thread, python {platform.python_version()}"


def in_words(row: Row) -> str:
    return f"{row['seconds']:.1f} s, filled in {row['impute_seconds']:.1f} s; {errors_in_words(row['errors'])}"


BENCHMARK = Benchmark("devices", ("what", "rows", "columns", "device", "seed"), in_process(__name__), in_words)


def jobs_of(devices: Sequence[str]) -> list[Job]:
    """Those that need no other device than these."""
    found = [("fit", shape, GPU, 0) for shape in (SMALL, *LONG)]
    found += [("settings", SMALL, device, seed) for device in (CPU, GPU) for seed in SEEDS]
    found += [("moves", SMALL, how, seed) for how in MOVES for seed in SEEDS]
    return [
        {"what": what, "rows": shape[0], "columns": shape[1], "device": device, "seed": seed}
        for what, shape, device, seed in found
        if set(device.split(" to ")) <= set(devices)
    ]


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("devices", __doc__)
    options.several(parser, "--what", "What to measure. Default: all.", ("fit", "settings", "moves"))
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    jobs = jobs_of([CPU, GPU] if torch.cuda.is_available() else [CPU])
    options.run_with(o, BENCHMARK, [job for job in jobs if not o.what or job["what"] in o.what])


# --- its part of docs/speed.md


def together(row: Row) -> float:
    """Error of numbers and of levels / that of mean and mode, their geometric mean."""
    errors = row["errors"]
    return geometric_mean(errors[m] / errors[f"{m}_trivial"] for m in ("nrmse", "pfc"))


def verdicts(results: Path) -> list[Verdict]:
    rows = BENCHMARK.rows(results)
    fits = {(r["rows"], r["columns"]): r for r in rows if (r["what"], r["device"]) == ("fit", GPU)}
    found = []
    for (n, m), most in MOST_SECONDS.items():
        asked, row = f"a fit of {n:,} × {m} on a GPU ≤ {most:.0f} s", fits.get((n, m))
        found.append(Verdict(asked, f"{row['seconds']:.1f} s" if row else "–", row["seconds"] <= most if row else None))
    by_device = {device: _errors(rows, "settings", device) for device in (CPU, GPU)}
    for asked, compared in (
        ("one config on CPU and GPU: errors within two standard errors of seeds", [GPU]),
        ("trainings that move between them: likewise", list(MOVES)),
    ):
        others = {d: by_device.get(d) or _errors(rows, "moves", d) for d in compared}
        found.append(_alike(asked, by_device[CPU], others))
    return found


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


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return ""
    words = paragraph(
        "Simulated tables as above, 30% of their cells hidden. Seconds are those of the clock for a whole fit, after a",
        "small one in the same process, so that imports and the start of the device do not count. Settings: those of",
        "the CPU's default, on either device. A training that moves is stopped in its middle and goes on from its",
        "checkpoint on the other device. `python -m benchmarks devices` repeats it.",
        f"Machine: {'; '.join(all_values(rows, 'machine'))}.",
    )
    judged = markdown(["asked", "found", "met"], [verdict.line() for verdict in verdicts(results)])
    lines = [
        [row["what"], f"{row['rows']:,} × {row['columns']}", row["device"], row["seed"], f"{row['seconds']:.1f}",
         f"{row['impute_seconds']:.1f}", f"{row['errors']['nrmse']:.3f}", f"{row['errors']['pfc']:.3f}",
         f"{together(row):.3f}"]
        for row in rows
    ]  # fmt: skip
    headings = ["", "table", "device", "seed", "fit, s", "impute, s", "NRMSE", "PFC", "together"]
    return f"## On a GPU\n\n{judged}\n\n{words}\n\n{markdown(headings, lines)}"
