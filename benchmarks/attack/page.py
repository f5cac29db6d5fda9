"""The page docs/security.md: what is promised, and the counts of attacks from results/attack.jsonl."""

from __future__ import annotations

from pathlib import Path

from benchmarks.attack.jobs import BENCHMARK, MOST_MB, PARTS, failed
from benchmarks.markup import MADE, all_values, markdown
from benchmarks.store import Row
from vsae.files import storage
from vsae.storage import atomic

_CONTENT = {
    "format": "the name `vsae`, what the file is for, and the version of the format",
    "sha256": "a checksum of all that follows: it tells damage, not forgery, as anyone can compute it",
    "settings": "`VSAEConfig`, why training stopped, what each evaluation gave, how many rows were fitted",
    "columns": "names, kinds, levels, bounds and the range that was seen, dtypes, codes that stand for missing, "
    "conditions and constraints, how texts write numbers and dates",
    "tensors": "weights of the networks, trees, means and scales of columns, quantiles of columns and of errors, "
    "regressions of masks",
}


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = [row for row in BENCHMARK.rows(results) if row["part"] in PARTS]
    if not rows:
        return None
    rows.sort(key=lambda row: (list(PARTS).index(row["part"]), row["seed"]))
    return f"""{MADE.format(source="results/attack.jsonl")}
# Files from anyone

What happens when a file is not what it should be: a model that somebody forged, a table that is damaged, a disk that is
full. Every promise here is attacked by `python -m benchmarks attack`, a short version of which is one of the tests.

## What a model file contains

One file of [safetensors](https://github.com/huggingface/safetensors): tensors, and a header with JSON.

{markdown(["part", "what it is"], _CONTENT.items()).replace("--:", "---")}

It holds no rows. It does hold names, all levels, and of numbers what at least five rows have in common
(docs/privacy.md), leaves of trees included. Whoever may read the model may read these.

## What loading does

Nothing in a file is run: there is no pickle in it, and no name of code. Loading ends in a model that works, or in one
line (`FileFormatError`), at once and without taking memory that the file does not account for:

1. the header is JSON of a bounded size, the checksum is right, the version is known;
2. every setting has its type and lies within bounds (`model/config.py`), how deep a network is among them;
3. while the networks are built, no more numbers are made than the tensors of the file have
   (`storage.checkpoint.NoLarger`): a small file cannot ask for a large model;
4. every weight has the shape that schema and settings say, and is finite;
5. the model is tried out (`FittedVSAE.try_out`, `Table.try_out`): two rows, one of them missing, are imputed, drawn,
   generated, scored, written and read. What a file could get wrong beyond this shows here, not in use.

That a model works does not make it honest: a forged one imputes what its author likes. Load models from whom you trust
with your data.

## What is promised of tables, pictures and output

- **Output is whole, or the command fails.** Files are written beside their place and renamed when all of them are
  there, those of a set of draws one right after the other; a full disk, a slow or closed pipe is one line and exit
  code 1. Devices and named pipes are written to, never replaced. What a killed process leaves (`.NAME.….part`) is
  removed by the next one that writes that file, after {atomic.STALE / 3600:.0f} hour.
- **A compressed file expands to {storage.ANY_FILE // 2**20} MB or {storage.RATIO} times its size**, whichever is more;
  `--max-expanded` raises it. Parquet and Excel files are judged by what their own headers say, Feather files batch by
  batch: one batch may be as large as its header says.
- **Pictures** are read by content, not by name: PNG, JPEG, WebP, BMP, TIFF and GIF, of a bounded number of pixels,
  which is asked before any is decoded. Pillow's other formats, some of which run programs, are not.
- **Names in files** cannot colour the screen: control characters are shown as `\\x1b`.
- **Errors are one line** that names the column or the file, without a traceback.

## What came of attacks

{markdown(["part", "attacks", "promised", "what came of them", "did harm", "longest, s", "MB"], map(_line, rows))}

An attack does harm when the promise is broken: another exception than ours, a file that is neither old nor new, output
that is cut with exit code 0, a cell that is changed or left empty without a word, more than 5 s for a model, a file or
a picture, or {MOST_MB:,} MB for all of a part. Longest: seconds of the processor for one attack, where it is run in the
attacking process; MB: the peak of that process, of which some 350 are torch's.
Machine: {"; ".join(all_values(rows, "machine"))}.
{_harm(rows)}
## To repeat it

```sh
python -m benchmarks attack                        # all of it; --part models --count 200 for some of it
python -m benchmarks tables                        # this page
```
"""


def _line(row: Row) -> list[str]:
    counts = {name: count for name, count in row["counts"].items() if name not in ("failed", "hung")}
    came = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    part = PARTS[row["part"]]
    timed = f"{row['longest']:.1f}" if row["longest"] else "–"
    total = sum(count for name, count in row["counts"].items() if name != "hung")
    return [part.what, f"{total:,}", part.promise, came, str(failed(row)), timed, str(row["memory_mb"])]


def _harm(rows: list[Row]) -> str:
    lines = [f"- {row['part']}: {line}" for row in rows for line in row["failures"]]
    return "\nWhat did harm:\n\n" + "\n".join(lines) + "\n" if lines else ""
