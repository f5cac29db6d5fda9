"""Time and memory of a training step as the number of attributes grows, against a plain loop over the attributes.

Each measurement runs in a process of its own, on one thread, so that peak memory is its own. The table in the terminal
and the rows hold the same numbers.
"""

from __future__ import annotations

import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks import options
from benchmarks.naive import LoopVSAE
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae import VSAE, FittedVSAE, Schema, VSAEConfig
from vsae.data.encoding import Encoding
from vsae.data.randomness import private_rng
from vsae.data.schema import Attribute, categorical, real
from vsae.training.em import e_step, m_step

TABLES = ("numeric", "categorical", "mixed")
SIZES = (10, 30, 100, 300, 1000, 3000)
LARGEST_LOOP = 1000  # the loop is slow: at 3000 it would be most of the benchmark
BATCH = 64
IMPUTED_ROWS = 500


def schema_of(table: str, attributes: int) -> Schema:
    """Numbers, categories of 2 to 20 levels, or both in turn."""
    levels = np.random.default_rng(0).integers(2, 21, attributes)

    def attribute(i: int) -> Attribute:
        number = table == "numeric" or (table == "mixed" and i % 2 == 0)
        return real(f"x{i}") if number else categorical(f"x{i}", int(levels[i]))

    return Schema(attribute(i) for i in range(attributes))


def rows_of(schema: Schema, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(1)
    columns = {v.name: rng.integers(0, v.size, n) if v.size > 1 else rng.normal(size=n) for v in schema.variables}
    return columns, rng.random((n, len(schema))) < 0.7


def config_of(preset: str) -> VSAEConfig:
    """`paper` without its E step and noise (the loop has neither), or one member of the default."""
    return VSAEConfig.paper(fill="zero", e_step_samples=0) if preset == "paper" else VSAEConfig(members=1)


def measured(table: str, attributes: int, preset: str, what: str, device: str = "cpu") -> Row:
    """One row: seconds and bytes of a training step, or rows imputed per second."""
    schema, config, rows = (
        schema_of(table, attributes),
        config_of(preset),
        BATCH if what != "impute" else IMPUTED_ROWS,
    )
    columns, mask = rows_of(schema, rows)
    warm_up()
    before = peak_bytes(device)
    row: Row = {"table": table, "attributes": attributes, "preset": preset, "what": what, "device": device}
    row["settings"] = {
        "torch": torch.__version__, "python": platform.python_version(), "threads": torch.get_num_threads(),
        "batch": BATCH,
    }  # fmt: skip
    with private_rng(0, torch.device(device)):
        model = VSAE(schema, config).to(device)
        encoding = Encoding.fit(schema, columns, mask, config.scaling)
        row["parameters"] = sum(p.numel() for p in model.parameters())
        if what == "impute":
            fitted = FittedVSAE(model.eval(), encoding)
            seconds = timed(lambda: fitted.impute(columns, mask), repeats=1, device=device, warm=1)
            return row | {"rows_per_second": rows / seconds, "bytes": peak_bytes(device) - before}
        batch = encoding.encode(columns, mask).to(device).for_members()
        step = loop_step(model, batch) if what == "loop" else block_step(model, batch, what)
        seconds = timed(step, repeats=7 if attributes <= 300 else 4, device=device)
    return row | {"seconds": seconds, "bytes": peak_bytes(device) - before}


def block_step(model: VSAE, batch: Any, what: str) -> Callable[[], object]:
    update = updater(model)
    samples = 100 if what == "e-step" else 0
    return lambda: update(m_step(model, batch, e_step(model, batch, samples) if samples else None)[1])


def loop_step(model: VSAE, batch: Any) -> Callable[[], object]:
    loop = LoopVSAE(model).to(batch.mask.device)
    update = updater(loop)
    shape = (batch.rows, len(model.schema), model.config.latent_dim)
    return lambda: update(-loop.bound(batch, torch.randn(shape, device=batch.mask.device)).total.mean())


def updater(model: torch.nn.Module) -> Callable[[torch.Tensor], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def update(loss: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return update


def timed(act: Callable[[], object], repeats: int, device: str, warm: int = 2) -> float:
    """Median seconds after some rounds of warming up."""
    times = []
    for _ in range(warm + repeats):
        begin = time.perf_counter()
        act()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[warm:])


def warm_up() -> None:
    """Load what torch loads late, so that it does not count as memory of the step."""
    schema = schema_of("mixed", 2)
    columns, mask = rows_of(schema, 4)
    batch = Encoding.fit(schema, columns, mask).encode(columns, mask).for_members()
    block_step(VSAE(schema, VSAEConfig()), batch, "step")()


def peak_bytes(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def plan(sizes: Iterable[int], tables: Iterable[str]) -> list[tuple[str, int, str, str]]:
    jobs = []
    for table in tables:
        for m in sizes:
            jobs += [
                (table, m, "paper", "step"),
                (table, m, "default", "step"),
                (table, m, "default", "impute"),
            ]
            if m <= LARGEST_LOOP:
                jobs.append((table, m, "paper", "loop"))
    return [*jobs, ("numeric", 30, "paper", "step"), ("numeric", 30, "paper", "e-step")]


def slope(rows: list[Row], key: str, low: int = 100, high: int = 3000) -> float:
    """Least-squares slope of log `key` against log M between two sizes: 1 is linear."""
    chosen = [row for row in rows if low <= row["attributes"] <= high]
    if len(chosen) < 2:
        return float("nan")
    m, y = (np.log([row[k] for row in chosen]) for k in ("attributes", key))
    return float(np.polyfit(m, y, 1)[0])


def summary(rows: list[Row]) -> dict[str, Any]:
    """The figures that matter: slopes, the gain over the loop at M = 300, the price of the E step."""
    out: dict[str, Any] = {}
    for table in TABLES:
        for preset in ("paper", "default"):
            steps = pick(rows, table=table, preset=preset, what="step")
            out[f"{table} {preset} slope of time"] = slope(steps, "seconds")
            out[f"{table} {preset} slope of memory"] = slope(steps, "bytes")
        step, loop = (pick(rows, table=table, preset="paper", what=w, attributes=300) for w in ("step", "loop"))
        if step and loop:
            out[f"{table} loop / blocks at M = 300"] = loop[0]["seconds"] / step[0]["seconds"]
    step, em = (pick(rows, table="numeric", preset="paper", what=w, attributes=30) for w in ("step", "e-step"))
    if step and em:
        out["E step of 100 samples at M = 30, times a step without"] = em[0]["seconds"] / step[0]["seconds"]
    return {name: round(value, 3) for name, value in out.items() if value == value}


def report(rows: list[Row]) -> str:
    """A plain-text table: a line per table and M."""
    columns = [("paper", "step"), ("paper", "loop"), ("default", "step"), ("default", "impute")]
    lines = [f"{'table':<12}{'M':>6}" + "".join(f"{f'{preset} {what}':>26}" for preset, what in columns)]
    for table in TABLES:
        for m in sorted({row["attributes"] for row in rows if row["table"] == table}):
            cells = (pick(rows, table=table, attributes=m, preset=p, what=w) for p, w in columns)
            lines.append(f"{table:<12}{m:>6}" + "".join(f"{cell(c[0]) if c else '-':>26}" for c in cells))
    return "\n".join([*lines, "", *(f"{name:<60}{value:>8}" for name, value in summary(rows).items())])


def pick(rows: list[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def cell(row: Row) -> str:
    memory = f"{row['bytes'] / 2**20:.0f} MiB"
    if row["what"] == "impute":
        return f"{row['rows_per_second']:.0f} rows/s {memory}"
    return f"{1000 * row['seconds']:.1f} ms {memory}"


BENCHMARK = Benchmark("scaling", ("table", "attributes", "preset", "what", "device"), in_process(__name__), cell)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("scaling", __doc__)
    default = " ".join(map(str, SIZES))
    options.several(parser, "--sizes", f"Numbers of attributes. Default: {default}.", type=int, metavar="NUMBER")
    options.several(parser, "--tables", "What the attributes are. Default: all.", TABLES)
    parser.add_argument("--device", default="cpu", help="cpu or cuda. Default: cpu.")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    chosen = dict.fromkeys(plan(o.sizes or SIZES, o.tables or TABLES))
    jobs = [dict(zip(BENCHMARK.key, (*job, o.device), strict=True)) for job in chosen]
    print(report(options.run_with(o, BENCHMARK, jobs, lambda line: print(line, file=sys.stderr))))
