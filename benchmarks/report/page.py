"""The page docs/report.md, from the rows of results/report.jsonl."""

from __future__ import annotations

from pathlib import Path

from benchmarks.markup import MADE, all_values, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.report.jobs import BENCHMARK, LARGEST, STEPS
from benchmarks.store import Row

SMALL, LARGE, SECONDS = 3e6, 8e6, 30.0  # asked for: bytes up to 50 columns, of the largest table, and its seconds


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = sorted(BENCHMARK.rows(results), key=lambda row: row["rows"] * row["columns"])
    if not rows:
        return None
    verdicts = [verdict.line() for verdict in (_small(rows), _large(rows), _soon(rows))]
    return f"""{MADE.format(source="results/report.jsonl")}
# What a report costs

How to make one, and what is in it, is in [See it](seeing.md); why it is drawn as it is, in docs/decisions/0017.

{_protocol(rows)}

{markdown(["asked", "found", "met"], verdicts)}

{markdown(["table", "rows", "columns", "fit, s", "evaluation, s", "report, s", "MB"], [_line(row) for row in rows])}

## To repeat it

```sh
python -m benchmarks report       # the runs; those that are there are not run again
python -m benchmarks screenshots  # the pictures of a report in these pages
python -m benchmarks tables       # this page
```
"""


def _protocol(rows: list[Row]) -> str:
    return paragraph(
        "Seconds are those of one thread's computing; of a table of more than some thousand rows, a report draws some.",
        "The evaluation that it shows is one more fit, which `evaluation=False` or `--no-evaluation` leaves out.",
        f"The fit to the largest table is of {STEPS} steps and there is no evaluation, as only its report is measured.",
        f"Machine: {', '.join(all_values(rows, 'machine'))}.",
    )


def _line(row: Row) -> list[str]:
    found = (row["seconds"].get(name) for name in ("fit", "evaluation", "report"))
    seconds = ["–" if each is None else f"{each:.1f}" for each in found]
    return [row["table"], f"{row['rows']:,}", str(row["columns"]), *seconds, f"{row['bytes'] / 1e6:.2f}"]


def _small(rows: list[Row]) -> Verdict:
    most = max(row["bytes"] for row in rows if row["columns"] <= 50)
    return Verdict(f"under {SMALL / 1e6:g} MB up to 50 columns", f"at most {most / 1e6:.2f} MB", most < SMALL)


def _large(rows: list[Row]) -> Verdict:
    asked = f"under {LARGE / 1e6:g} MB for {LARGEST}"
    size = next((row["bytes"] for row in rows if row["table"] == LARGEST), None)
    return Verdict(asked, "not run" if size is None else f"{size / 1e6:.2f} MB", None if size is None else size < LARGE)


def _soon(rows: list[Row]) -> Verdict:
    asked = f"under {SECONDS:g} s beyond the fit for {LARGEST}"
    found = next((row["seconds"]["report"] for row in rows if row["table"] == LARGEST), None)
    return Verdict(asked, "not run" if found is None else f"{found:.1f} s", None if found is None else found < SECONDS)
