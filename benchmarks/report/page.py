"""The page docs/report.md, from the rows of results/report.jsonl."""

from __future__ import annotations

from pathlib import Path

from benchmarks.markup import MADE, all_values, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.report.jobs import BENCHMARK, STEPS
from benchmarks.store import Row

SMALL, LARGE, SECONDS = 3e6, 8e6, 30.0  # asked for: bytes up to 50 columns, of the largest table, and its seconds


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = sorted(BENCHMARK.rows(results), key=lambda row: row["rows"] * row["columns"])
    if not rows:
        return None
    verdicts = [verdict.line() for verdict in (_small(rows), _large(rows), _soon(rows))]
    return f"""{MADE.format(source="results/report.jsonl")}
# The report

```sh
vsae impute patients.csv -o filled.csv --report report.html
```

```python
report = imputer.report(df, "report.html")  # in a notebook, it shows itself
```

![The beginning of a report](figures/report-desktop.png)

{USE}

## How large, and how long

{_protocol(rows)}

{markdown(["asked", "found", "met"], verdicts)}

{markdown(["table", "rows", "columns", "fit, s", "evaluation, s", "report, s", "MB"], [_line(row) for row in rows])}

## To repeat it

```sh
python -m benchmarks report       # the runs; those that are there are not run again
python -m benchmarks screenshots  # the pictures
python -m benchmarks tables       # this page
```
"""


USE = """\
One HTML file says what was missing, what was put there, how sure that is, and whether to trust it:

- **At a glance**: rows, columns, what each column was taken for and why, what was filled and what was left.
- **What is missing**: the cells, columns that miss together beside one another; the commonest patterns; shares by
  group (`by="clinic"`, or `--by clinic`); what goes with missing cells, with effect sizes; influx and outflux.
- **What was filled in**: observed values beside draws. A difference is no error: cells that are missing for a reason
  hold other values. Pairs of columns, drawn cells coloured.
- **Known cells, hidden**: what they hold against the interval that was said of them, with coverage.
- **How sure it is**: column by column, and the cells that are least sure.
- **What was done**, in words, with versions, the seed and the command to repeat it.

Tables are sorted by a click on a heading, figures say more where the pointer is, and a field finds a column. The page
is light or dark as the system says, and prints. It shows single cells of the table: hand it only to those who may
read the table.

For notebooks, `vsae.plots` has the same figures one by one, of matplotlib (`pip install 'vsae[plots]'`):

```python
from vsae import plots

plots.missing_matrix(df)  # and patterns, missing_by, flux
plots.distributions(imputer.draw(df, 5))  # and pairs, uncertainty
plots.mechanism(imputer.mechanism_report(df))
plots.hidden_cells(imputer.evaluate(df))
plots.training(imputer)  # and sensitivity, tipping_map, of what imputer.sensitivity says
```"""


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
    most = max(row["bytes"] for row in rows)
    return Verdict(f"under {LARGE / 1e6:g} MB for the largest table", f"{most / 1e6:.2f} MB", most < LARGE)


def _soon(rows: list[Row]) -> Verdict:
    most = max(row["seconds"]["report"] for row in rows)
    return Verdict(f"under {SECONDS:g} s beyond the fit", f"at most {most:.1f} s", most < SECONDS)
