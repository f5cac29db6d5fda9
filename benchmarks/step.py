"""A training step against the arithmetic it is made of: its time, its torch calls, and the products in it per second.

The floor is measured in the same process: a plain batched product, forward and backward, of the sizes that dominate a
step, members × rows × width × width. Steps are those of `training.loop.train`, whatever it does around them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import options
from benchmarks.markup import all_values, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, in_process
from benchmarks.sizes import shape_of
from benchmarks.speed.made import made
from benchmarks.store import Row
from vsae import VSAE, VSAEConfig
from vsae.data.batch import Batch
from vsae.data.missingness import MCAR
from vsae.fitting.presets import Effort, config_for
from vsae.fitting.steps import FitData, split
from vsae.training.em import learn
from vsae.training.loop import train

Clock = Callable[[], float]  # → seconds
SHAPE, HIDDEN = (3000, 10), 0.3
_FEW, _REPEATS = 20, 3  # steps that a training takes to get going; measurements, of which the shortest counts
_MANY = {"cpu": 100, "cuda": 2000}
LEAST_SHARE, MOST_MS = 0.5, 1.0  # asked: of the batched product on a CPU, and of a step on a GPU


def measured(rows: int, columns: int, effort: Effort, device: str, threads: int) -> Row:
    torch.set_num_threads(threads)
    table = made(rows, columns)
    mask = table.hide(MCAR(HIDDEN), np.random.default_rng(0))
    config = config_for(table.schema, rows, effort)
    data = FitData.of(table.schema, table.columns, mask, config, device)
    model, parts = split(VSAE, data, config, seed=0)

    def steps(number: int) -> None:
        train(model, parts.training, learn=learn, config=config.replace(steps=number, evaluate_every=number))
        synchronise(device)

    # on one thread of a CPU its own seconds, in which what else the machine does hardly counts
    clock = time.process_time if (device, threads) == ("cpu", 1) else time.perf_counter
    seconds = per_step(lambda number: shortest(lambda: steps(number), clock), _MANY[device])
    calls = per_step(lambda number: torch_calls(lambda: steps(number)), _FEW)
    gflop = gigaflop(model, parts.training, config)
    floor = product_gflops(config, device, clock)
    return {
        "rows": rows, "columns": columns, "effort": effort, "device": device, "threads": threads,
        "members": config.members, "batch": config.batch_size, "width": config.collective.width,
        "ms": 1000 * seconds, "calls": round(calls), "gflop": gflop, "gflops": gflop / seconds, "floor_gflops": floor,
        "machine": f"torch {torch.__version__}, {machine(device)}, python {platform.python_version()}",
    }  # fmt: skip


def per_step(cost: Callable[[int], float], number: int) -> float:
    """What one step costs, without what a training costs before its first and after its last."""
    return (cost(_FEW + number) - cost(_FEW)) / number


def shortest(act: Callable[[], object], clock: Clock) -> float:
    """Seconds."""
    times = []
    for _ in range(_REPEATS):
        began = clock()
        act()
        times.append(clock() - began)
    return min(times)


def torch_calls(act: Callable[[], object]) -> float:
    """Operators of torch that are called from Python or by each other."""
    with profile(activities=[ProfilerActivity.CPU]) as calls:
        act()
    return sum(event.count for event in calls.key_averages() if event.key.startswith("aten::"))


def gigaflop(model: VSAE, data: Batch, config: VSAEConfig) -> float:
    """10⁹ operations in the products of one step, forward and backward: two for each product and its sum."""
    index = torch.arange(config.batch_size, device=data.mask.device) % data.rows
    batch = data.take(index.expand(config.members, -1))
    model.train()
    with FlopCounterMode(display=False) as counter:
        learn(model, batch, 0)[1].backward()  # type: ignore[no-untyped-call]
    return counter.get_total_flops() / 1e9


def product_gflops(config: VSAEConfig, device: str, clock: Clock) -> float:
    """10⁹ operations a second of a batched product alone."""
    width, number = config.collective.width, 10 * _MANY[device]
    x = torch.randn(config.members, config.batch_size, width, device=device, requires_grad=True)
    weight = torch.randn(config.members, width, width, device=device, requires_grad=True)
    gradient = torch.ones_like(x)

    def products() -> None:
        for _ in range(number):
            torch.autograd.grad(torch.bmm(x, weight), (x, weight), gradient)
        synchronise(device)

    products()
    return 3 * 2 * x.numel() * width * number / 1e9 / shortest(products, clock)


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def machine(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}"


def in_words(row: Row) -> str:
    return f"{row['ms']:.2f} ms, {row['calls']:,} calls, {row['gflops']:.1f} of {row['floor_gflops']:.1f} GFLOP/s"


BENCHMARK = Benchmark("step", ("rows", "columns", "effort", "device", "threads"), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("step", __doc__)
    shape = f"The size of the table. Default: {SHAPE[0]}x{SHAPE[1]}."
    parser.add_argument("--shape", type=options.usage(shape_of), default=SHAPE, metavar="ROWSxCOLUMNS", help=shape)
    parser.add_argument("--effort", default="default", choices=get_args(Effort), help="The effort of the fit.")
    parser.add_argument("--device", default="cpu", choices=list(_MANY), help="Default: cpu.")
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    rows, columns = o.shape
    job = {"rows": rows, "columns": columns, "effort": o.effort, "device": o.device, "threads": o.threads}
    print(table_of(options.run_with(o, BENCHMARK, [job])))


# --- its part of docs/speed.md


def table_of(rows: Iterable[Row]) -> str:
    lines = [
        [f"{row['rows']:,} × {row['columns']}", row["effort"], row["device"], row["threads"],
         f"{row['members']} × {row['batch']} × {row['width']}", f"{row['ms']:.2f}", f"{row['calls']:,}",
         f"{row['gflop']:.3f}", f"{row['gflops']:,.1f}", f"{row['floor_gflops']:,.1f}", f"{share(row):.0%}"]
        for row in rows
    ]  # fmt: skip
    headings = [
        "table", "effort", "device", "threads", "members × batch × width", "ms", "torch calls", "GFLOP", "GFLOP/s",
        "product alone, GFLOP/s", "share",
    ]  # fmt: skip
    return markdown(headings, lines)


def share(row: Row) -> float:
    return float(row["gflops"] / row["floor_gflops"])


def verdicts(results: Path) -> list[Verdict]:
    """Of the default on the table that was asked about; on the CPU, on one thread."""
    rows = [r for r in BENCHMARK.rows(results) if ((r["rows"], r["columns"]), r["effort"]) == (SHAPE, "default")]
    cpu = [r for r in rows if r["device"] == "cpu" and r["threads"] == 1]
    cuda = [r for r in rows if r["device"] == "cuda"]
    asked = f"a step does ≥ {LEAST_SHARE:.0%} of the products a second that a batched product does, on one core"
    on_gpu = f"a step on a GPU takes ≤ {MOST_MS:.0f} ms"
    return [
        Verdict(asked, f"{share(cpu[0]):.0%}", share(cpu[0]) >= LEAST_SHARE) if cpu else Verdict(asked, "–", None),
        Verdict(on_gpu, f"{cuda[0]['ms']:.2f} ms", cuda[0]["ms"] <= MOST_MS) if cuda else Verdict(on_gpu, "–", None),
    ]


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return ""
    words = paragraph(
        "Milliseconds of one training step, the torch operators that it calls (those that call each other counted",
        "each), the operations in its products, forward and backward, and how many of these it does a second; beside",
        "it a plain `torch.bmm`, forward and backward, of members × rows × width × width, in the same process.",
        "`python -m benchmarks step` repeats it.",
        f"Machine: {'; '.join(all_values(rows, 'machine'))}.",
    )
    judged = markdown(["asked of a step", "found", "met"], [verdict.line() for verdict in verdicts(results)])
    return f"## A step against its arithmetic\n\n{judged}\n\n{words}\n\n{table_of(rows)}"
