"""Reports of small and large tables: seconds of one thread beyond the fit, and the size of the file.

The evaluation that a report shows is one more fit, and timed apart from it; draws are part of the report's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data, options
from benchmarks.evaluate.jobs import incomplete
from benchmarks.processes import machine
from benchmarks.runs import Benchmark, in_process
from benchmarks.speed.made import made
from benchmarks.store import Row
from vsae import Evaluation, VSAEImputer
from vsae.data.missingness import MCAR
from vsae.datasets import load_table, make_clinic

Columns = dict[str, NDArray[Any]]
HIDDEN, SEED = 0.2, 71
STEPS = 10  # of the fit to the largest table, whose report is measured and not its errors
LARGEST = "100,000 × 200"


def uci(name: str) -> Columns:
    """A table of the UCI repository with the cells that it misses itself."""
    table = load_table(name, label=True)
    found: Columns = {}
    for variable in table.schema.variables:
        seen = table.mask[:, table.schema.attribute_of[variable.name]]
        levels = np.array(table.levels.get(variable.name, ()), dtype=object)
        x = table.columns[variable.name]
        found[variable.name] = levels[np.where(seen, x, 0).astype(int)] if len(levels) else x.astype(np.float64)
        found[variable.name][~seen] = None if len(levels) else np.nan
    return found


def wide(rows: int, columns: int) -> Columns:
    table: data.Rows = made(rows, columns, SEED)
    return incomplete(table, table.hide(MCAR(HIDDEN), np.random.default_rng(SEED)))


#: Name → the table, and changes to the settings.
TABLES: dict[str, tuple[Callable[[], Columns], dict[str, Any]]] = {
    "clinic": (lambda: make_clinic(2000).table(), {}),
    "mushroom": (lambda: uci("mushroom"), {}),
    "heart": (lambda: uci("heart"), {}),
    "2,000 × 50": (lambda: wide(2000, 50), {}),
    LARGEST: (lambda: wide(100_000, 200), {"steps": STEPS, "trees": 0}),
}


def measured(table: str) -> Row:
    make, changes = TABLES[table]
    columns = make()
    seconds = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        began = time.process_time()  # of one thread: that of an idle machine, however busy this one is
        out = call()
        seconds[name] = time.process_time() - began
        return out

    imputer = VSAEImputer(effort="fast", config=changes or None, random_state=SEED)
    timed("fit", lambda: imputer.fit(columns))
    evaluation: Evaluation | bool = False
    if table != LARGEST:
        evaluation = timed("evaluation", lambda: imputer.evaluate(columns, repeats=1, compare=()))
    report = timed("report", lambda: imputer.report(columns, evaluation=evaluation, title=table))
    return {
        "table": table, "rows": len(next(iter(columns.values()))), "columns": len(columns), "seconds": seconds,
        "bytes": len(report.html.encode()), "machine": machine(),
    }  # fmt: skip


def in_words(row: Row) -> str:
    return f"{row['bytes'] / 1e6:.2f} MB in {row['seconds']['report']:.1f} s"


BENCHMARK = Benchmark("report", ("table",), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("report", __doc__)
    options.several(parser, "--tables", "Default: all.", TABLES)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, [{"table": table} for table in o.tables or TABLES])
