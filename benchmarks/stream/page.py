"""The page docs/large.md, from the rows of results/stream.jsonl."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.attack.jobs import BENCHMARK as ATTACKS
from benchmarks.markup import MADE, all_values, markdown, paragraph
from benchmarks.store import Row
from benchmarks.stream.jobs import BENCHMARK, COLUMNS, FITTED, LEARNED
from benchmarks.stream.made import HIDDEN
from vsae.engines.jobs import LARGE
from vsae.files.blocks import CELLS
from vsae.table.survey import SAMPLE

BILLION, NODES, CORES = 10**9, 8, 16  # what is estimated: rows; machines, and the cores of each
STEEPEST, MOST_MB = 1.05, 2000  # asked


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = BENCHMARK.rows(results)
    filled = sorted((row for row in rows if row["what"] == "impute"), key=lambda row: row["rows"])
    if len(filled) < 2:
        return None
    return f"""{MADE.format(source="results/stream.jsonl")}
# Large tables

## A laptop

```sh
vsae fit big.parquet -o model.vsae                       # one pass, then a fit to {SAMPLE:,} sampled rows
vsae impute big.parquet --model model.vsae -o filled.parquet
vsae impute 'sales/*.csv' --model model.vsae -o filled/  # many files: a folder gets one for each
```

More than {LARGE // 2**20} MB (of Parquet: uncompressed) or several files are worked on in blocks of at most {CELLS:,}
cells, one at a time; `--engine stream` asks for it, `--engine memory` for the contrary. Folders and names with
wildcards are all their files, in the order of their names; of folders that are named after values (`year=2024/`), these
are columns. Rows stay in their order; every row group of the output is a block. Types that hold the same values
(`int64` and `double`, text and a dictionary of text, a column without any) are one. Many text files that become one
have the header, the encoding and the line ends of the first, and what their folders say as further columns.

A run that was killed goes on where it stopped when the same command is given again, and its output has the bytes of a
run that nothing disturbed. What is done is kept in a hidden folder beside the output, with what there is to report of
it. A damaged row group, a file that lacks a column, a full disk: one line that names the file; what is done stays done.
Where cells are missing and none could be filled, there is no output.

A fit reads every row once, for the kinds, levels, bounds and shares of missing cells, and learns a uniform random
sample of {SAMPLE:,} rows (`--sample`), which `--seed` decides. A share that is read off the sample, such as a
quantile, is off by more than {_bound(SAMPLE):.2%} once in a thousand times at most (Dvoretzky, Kiefer, Wolfowitz).
After an interruption the pass is repeated, and training goes on.
{_samples(rows)}
In Python, batches come from a reader or a dataset of pyarrow, a lazy frame of polars, a relation of DuckDB or any
iterable:

```python
import duckdb
import polars
import pyarrow.parquet
from vsae import VSAEImputer

imputer = VSAEImputer(random_state=0).fit_batches(polars.scan_parquet("big.parquet"))
schema = pyarrow.parquet.read_schema("big.parquet")
with pyarrow.parquet.ParquetWriter("by-batches.parquet", schema) as writer:
    for batch in imputer.transform_batches(duckdb.sql("select * from 'big.parquet'")):
        writer.write_batch(batch)
```

Not in blocks: groups, compressed text, UTF-16, fixed widths, JSON-lines, Excel, `--long`, `--flags`, `--in-place`. Text
is written as the text that it was, Parquet and Feather as either. One notation a column is found by all rows of a text.

## What it takes

Simulated tables of {COLUMNS} columns in Parquet, numbers and levels of three in turn; {HIDDEN:.0%} of cells miss.
A model of the default effort, fitted to {LEARNED:,} rows. Seconds are those of one core, start of the program
included, as other programs ran on the machine; MB is the peak of the process, of which some 350 are torch's.

{markdown(["rows", "input, MB", "seconds", "rows a second", "MB"], map(_line, filled))}

{paragraph(_slope(filled), _memory(filled))}
{_fits(rows)}{_peers(rows)}
## One big machine, or a cluster

<!-- not run: it needs a cluster; tests of the engine start one of their own -->
```sh
pip install 'vsae[ray]'
vsae impute big.parquet --model model.vsae -o filled.parquet --engine ray     # all cores of this machine
vsae impute s/big.parquet --model s/model.vsae -o s/filled.parquet --engine ray --address ray-head:6379
```

Each worker loads the model once and fills blocks of its own; a worker that dies is replaced. The output is that of one
process, bit for bit where processors are alike. A fit has its pass over all rows done by the workers and trains in the
calling process (docs/decisions/0018-larger-than-memory.md). On a cluster, input, model and output must have the same
paths on all machines. A cluster that is started here listens on the loopback device alone, sends no telemetry, and
ends with its job; one that is joined is as open as whoever started it made it. A cluster of several machines has not
been measured: what is tested are two workers on one, one of which is killed.
{_on_ray(rows)}
## A billion rows

{_estimate(filled)}
{_kills(results)}
## To repeat it

```sh
python -m benchmarks stream                # --rows 10000000 for more, --what ray ray-fit sample for some of it
python -m benchmarks attack --part blocks  # kills and other harm
python -m benchmarks tables                # this page
```

Machine: {"; ".join(all_values(rows, "machine"))}.
"""


def _bound(rows: int, chance: float = 0.001) -> float:
    """Of the largest error of a distribution function that is read off so many rows."""
    return float(np.sqrt(np.log(2 / chance) / (2 * rows)))


def _line(row: Row) -> list[str]:
    rate = f"{row['rows'] / row['seconds']:,.0f}"
    return [f"{row['rows']:,}", f"{row['input_mb']:,.0f}", f"{row['seconds']:,.1f}", rate, f"{row['memory_mb']:,.0f}"]


def slope(rows: list[Row]) -> float:
    """Of log seconds against log rows: 1 is linear."""
    x, y = (np.log([row[name] for row in rows]) for name in ("rows", "seconds"))
    return float(np.polyfit(x, y, 1)[0])


def seconds_a_row(rows: list[Row]) -> float:
    """Of one core, the start of the program not counted: between the smallest and the largest table."""
    return float((rows[-1]["seconds"] - rows[0]["seconds"]) / (rows[-1]["rows"] - rows[0]["rows"]))


def _slope(rows: list[Row]) -> str:
    found = slope(rows)
    held = (
        "so time grows no faster than rows"
        if found <= STEEPEST
        else f"which is more than the {STEEPEST} that were asked for"
    )
    largest = f"{rows[0]['rows']:,} to {rows[-1]['rows']:,} rows"
    steep = slope(rows[-2:])
    return (
        f"The slope of log seconds against log rows, from {largest}, is {found:.2f} ({steep:.2f} between the two "
        f"largest tables, where the start of the program weighs little), {held}."
    )


def _memory(rows: list[Row]) -> str:
    largest, half = rows[-1], min(rows, key=lambda row: abs(row["rows"] - rows[-1]["rows"] / 2))
    change = largest["memory_mb"] / half["memory_mb"] - 1
    below = "below" if largest["memory_mb"] < MOST_MB else "above"
    return (
        f"The largest table takes {largest['memory_mb']:,.0f} MB, {below} the {MOST_MB:,} that were asked for, and "
        f"{change:+.0%} against one of {half['rows']:,} rows."
    )


def _samples(rows: list[Row]) -> str:
    """What a larger sample is worth."""
    found = sorted((row for row in rows if row["what"] == "sample"), key=lambda row: row["rows"])
    if not found:
        return ""
    lines = [[f"{row['rows']:,}", *(f"{row['errors'][name]:.4f}" for name in ("nrmse", "pfc"))] for row in found]
    table = markdown(["rows learned", "NRMSE", "share of wrong levels"], lines)
    return f"""
Fits of the effort `fast` to samples of {found[0]["of"]:,} rows of the table below, by errors on rows that none of them
has seen:

{table}
"""


def _on_ray(rows: list[Row]) -> str:
    """Workers beside one process: cells, models, and what listened where."""
    said = []
    for row in (row for row in rows if row["what"] == "ray"):
        same = "the same bytes" if row["same_bytes"] else f"{row['differ']:,} other cells"
        elsewhere = row["listening_elsewhere"]
        said += [
            f"{row['rows']:,} rows by {row['workers']} workers, of which {row['killed']} was killed midway:",
            f"{row['rows_of_many']:,} rows, {row['empty']:,} empty cells, and {same} as by one process.",
            f"Sockets that listened elsewhere than on the loopback device: {', '.join(elsewhere) or 'none'}.",
        ]
    for row in (row for row in rows if row["what"] == "ray-fit"):
        chance = ", ".join(f"{x['nrmse']:.4f}" for name, x in row["errors"].items() if name.startswith("seed"))
        own, alone = (row["errors"][name]["nrmse"] for name in ("ray", "alone"))
        same = "the same bytes" if row["same_bytes"] else "another file"
        said += [
            f"A fit of {row['rows']:,} rows with {row['workers']} workers has an NRMSE of {own:.4f} on new rows, that",
            f"of one process {alone:.4f} ({same}); other seeds: {chance}.",
        ]
    return f"\n{paragraph(*said)}\n" if said else ""


def _fits(rows: list[Row]) -> str:
    fits = sorted((row for row in rows if row["what"] == "fit"), key=lambda row: row["rows"])
    if not fits:
        return ""
    table = markdown(["rows", "input, MB", "seconds", "rows a second", "MB"], map(_line, fits))
    return f"\nStreamed fits, of which the part that grows with the rows is the pass:\n\n{table}\n"


def _peers(rows: list[Row]) -> str:
    beside = [row for row in rows if row["what"] == "transform" and row.get("status") == "ok"]
    if not beside:
        return ""
    beside.sort(key=lambda row: row["seconds"])
    lines = [[row["method"], f"{row['rows'] / row['seconds']:,.0f}", f"{row['memory_mb']:,.0f}"] for row in beside]
    return f"""
Beside others, in memory: {beside[0]["rows"]:,} new rows of the same tables, after a fit to {FITTED:,}; seconds of
one core, one after the other. "iterative" is scikit-learn's IterativeImputer: linear regressions, levels as
indicators.

{markdown(["method", "rows a second", "MB"], lines)}
"""


def _estimate(rows: list[Row]) -> str:
    """Of what was measured; every assumption is named."""
    cost = seconds_a_row(rows)
    days = BILLION * cost / 86_400
    hours = BILLION * cost / 3600 / (NODES * CORES)
    size = rows[-1]["input_mb"] / rows[-1]["rows"] * BILLION / 1024
    return paragraph(
        f"An estimate, not a measurement: at {1e6 * cost:.0f} µs of one core a row (the difference of the largest and",
        f"the smallest table above), a billion rows of {COLUMNS} columns, {size:,.0f} GB of Parquet, take {days:.1f}",
        f"days of one core, or {hours:.1f} hours on {NODES} machines of {CORES} cores. Assumed: time stays linear",
        f"beyond {rows[-1]['rows']:,} rows; cores are as fast as ours and do not slow each other down; files are read",
        f"and written as fast as they are filled (some {size * 1024 / hours / 3600:,.0f} MB a second); and parts take",
        "as much room again until the output is put together, which one process does at the end.",
    )


def _kills(results: Path) -> str:
    rows = [row for row in ATTACKS.rows(results) if row["part"] == "blocks"]
    if not rows:
        return ""
    counts = ", ".join(f"{name} {count}" for row in rows for name, count in row["counts"].items())
    return f"\nKills, damaged row groups, lost columns and full disks (docs/security.md): {counts}.\n"
