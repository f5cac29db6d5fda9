"""The page docs/sharp.md, from the rows of results/sharp.jsonl."""

from __future__ import annotations

from pathlib import Path

from benchmarks.markup import MADE, listed, markdown, mask_name, paragraph
from benchmarks.sharp.jobs import BENCHMARK
from benchmarks.sharp.made import MAKERS
from benchmarks.sharp.ratios import by_group, errors_of, summary, verdicts
from benchmarks.sharp.tables import MOST_ROWS
from benchmarks.store import Row


def page(results: Path) -> str | None:
    """The page, or None while there are no rows."""
    rows = BENCHMARK.rows(results)
    if not rows:
        return None
    errors = errors_of(rows)
    found = verdicts(errors)
    met = [verdict.met for verdict in found]
    kinds = [[name, " ".join((maker.__doc__ or "").split())] for name, maker in MAKERS.items()]
    intent = paragraph(
        "Tables whose columns hang together by thresholds, regions, rules, levels or shared settings rather than by",
        "slopes; settings are chosen on them, not on those of docs/benchmark.md.",
        f"Of {len(found)} figures asked for, {met.count(True)} are met, {met.count(False)} not.",
    )
    reading = paragraph(
        f"Means over {listed(masks(rows))}, in sample and on new rows (a fifth); mask seeds: {seeds(rows)}. Peers'",
        "errors first, then ours / the lowest of them. NMAE: mean absolute error of a column's hidden cells / its std,",
        "for designed tables; ours is imputed by medians there. The other measures are those of docs/benchmark.md.",
        "`independent` is a control: nothing can be learned there, and it counts in no average.",
    )
    groups = paragraph(
        "Geometric means of the ratios: by rows, by measure, by the levels of the column that has most of them, and by",
        "how sharply the other columns tell a cell, which is what the lowest peer leaves of the error of mean and mode",
        "(nearly nothing where rules decide).",
    )
    return f"""{MADE.format(source="results/sharp.jsonl")}
# Tables with edges

{intent}

{markdown(["asked of `vsae`", "found", "met"], [verdict.line() for verdict in found])}

{reading}

{summary(errors)}

{groups}

{by_group(errors)}

## The tables that are made

{markdown(["table", "what it is"], kinds).replace("--:", "---")}

phoneme, banknote, cars and digits were collected, and are cut to {MOST_ROWS:,} rows.

## To repeat it

```sh
python -m benchmarks sharp   # the runs; those that are there are not run again
python -m benchmarks tables  # this page
```
"""


def seeds(rows: list[Row]) -> str:
    """Those of all tables, and of which there are more."""
    of_table: dict[str, set[int]] = {}
    for row in rows:
        of_table.setdefault(row["table"], set()).add(row["seed"])
    common = set.intersection(*of_table.values())
    more: dict[tuple[int, ...], list[str]] = {}
    for table in sorted(of_table):
        more.setdefault(tuple(sorted(of_table[table] - common)), []).append(table)
    others = [f"{listed(map(str, some))} as well for {listed(names)}" for some, names in more.items() if some]
    return "; ".join([listed(map(str, sorted(common))) if common else "no common one", *others])


def masks(rows: list[Row]) -> list[str]:
    return sorted({mask_name(row["mechanism"], row["rate"]) for row in rows})
