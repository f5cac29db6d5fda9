"""Write the pages of docs/ that hold numbers, from the rows in results/."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import ablation, missed, options, readout, scaling, sizes
from benchmarks.attack import page as attack
from benchmarks.calibration import parts
from benchmarks.evaluate import page as evaluate
from benchmarks.generation import pages as generation
from benchmarks.groups import page as groups
from benchmarks.joint import page as joint
from benchmarks.markup import MADE, listed, markdown, paragraph
from benchmarks.mechanism import page as mechanism
from benchmarks.paper import multimodal_page as multimodal
from benchmarks.paper import pages as paper
from benchmarks.peers import pages as peers
from benchmarks.report import page as report
from benchmarks.sharp import page as sharp
from benchmarks.speed import page as speed
from benchmarks.store import RESULTS, Row
from benchmarks.stream import page as stream
from benchmarks.unseen import page as unseen
from vsae.evaluation.metrics import NRMSE_DEFINITIONS
from vsae.storage.atomic import write_text


def scaling_page(results: Path) -> str:
    rows = scaling.pick(scaling.BENCHMARK.rows(results), device="cpu")
    batch, torch = (", ".join(sorted({str(row["settings"][name]) for row in rows})) for name in ("batch", "torch"))
    notes = " ".join(sorted({row["settings"].get("note", "") for row in rows}))
    columns = [("paper", "step"), ("paper", "loop"), ("default", "step"), ("default", "impute")]
    lines = []
    for table in scaling.TABLES:
        for m in sorted({row["attributes"] for row in rows if row["table"] == table}):
            cells = (scaling.pick(rows, table=table, attributes=m, preset=p, what=w) for p, w in columns)
            lines.append([table, m, *(scaling.cell(c[0]) if c else "–" for c in cells)])
    summary = markdown(["", "value"], scaling.summary(rows).items())
    return f"""{MADE.format(source="results/scaling.jsonl and sizes.jsonl")}
# What a training step costs

A step is forward, backward and update on a batch of {batch} rows, on one thread of a CPU (torch
{torch}); the median of several, with the peak memory of its process above that of an idle one. "loop" is the
same model as a plain loop over attributes (`benchmarks/naive.py`). "impute" fills {scaling.IMPUTED_ROWS} rows, each
with 20 latent draws. "default" is one member of the default ensemble.
Run `python -m benchmarks scaling --force` to repeat it. {notes}

{markdown(["table", "attributes", *(f"{p} {w}" for p, w in columns)], lines)}

Slopes are those of log time and log memory against log attributes from 100 to 3,000; 1 is linear.

{summary}
{_sizes(results)}"""


def _sizes(results: Path) -> str:
    """Small, wide and long tables."""
    rows = sizes.BENCHMARK.rows(results)
    if not rows:
        return ""
    rows.sort(key=lambda row: (row["effort"] != "fast", row["rows"], row["columns"]))
    lines = [
        [f"{row['rows']:,}", f"{row['columns']:,}", row["effort"], row["members"], row["steps"],
         f"{row['fit_seconds']:.0f}", f"{row['impute_seconds']:.1f}", f"{row['memory_mb']:,.0f}",
         *(f"{row['errors'][m]:.3f} ({row['errors'][m + '_trivial']:.3f})" for m in ("nrmse", "pfc"))]
        for row in rows
    ]  # fmt: skip
    machines = ", ".join(sorted({row["machine"] for row in rows}))
    headings = [
        "rows", "columns", "effort", "members", "steps", "fit, s", "impute, s", "MB", "NRMSE (mean)", "PFC (mode)"
    ]  # fmt: skip
    return f"""
## Small, wide and long tables

Simulated: three factors behind all columns, numbers and levels of three in turn; {sizes.HIDDEN:.0%} of the cells are
hidden. Members and steps (at most) are what the sizes of the table make of `effort`. MB: peak of the process, 300 or so
of which are torch's. `python -m benchmarks sizes` repeats it. Machine: {machines}.

{markdown(headings, lines)}
"""


def ablation_page(results: Path) -> str | None:
    every = ablation.BENCHMARK.rows(results)
    rows, edges = ([row for row in every if (row["table"] in ablation.SHARP) is of_edges] for of_edges in (False, True))
    if not rows:
        return None
    machines = ", ".join(sorted({row["machine"] for row in every}))
    spread = np.mean(
        [np.std([m[measure] for m in row["alone"]], ddof=1)
         for row in rows for measure in ("nrmse", "pfc")
         if row["variant"] == ablation.WHOLE and measure in row["together"] and len(row["alone"]) > 1]
    )  # fmt: skip
    words = paragraph(
        f"The default with one thing taken away or changed; in sample, tables cut to 3,000 rows; {_masks(rows)}.",
        "Each entry: the mean error of the members alone (four a mask, each a seed of its own, without a forest) /",
        'that of what a user gets, their average, beside a forest where there is one. "all" is the mean change of the',
        f"latter over the columns. Members of one run differ by {spread:.3f} (standard deviation, mean over the",
        "columns). Nothing held out means no forest, too, as nothing weighs it.",
        f"Machine: {machines}.{_lacking(rows)}",
    )
    return f"""{MADE.format(source="results/ablation.jsonl, whole.jsonl and calibration-parts.jsonl")}
# What each ingredient does

{words}

{_changes(rows)}

NRMSE: {NRMSE_DEFINITIONS["column"]}. PFC: share of hidden cells that are wrong; mean over columns.
`python -m benchmarks ablation` repeats it.
{_tables_with_edges(edges)}{_whole_tables(results)}{parts.section(results)}"""


def _lacking(rows: Sequence[Row]) -> str:
    """What the default of these rows had not yet: settings that they do not have."""
    words = {"trees": "a forest", "recurring": "embeddings of numbers that rows share"}
    lacking = [said for name, said in words.items() if any(name not in row["settings"] for row in rows)]
    return f" These rows are of a version without {listed(lacking)}." if lacking else ""


def _tables_with_edges(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    return f"""
## Tables with edges

Those of [tables with edges](sharp.md), on which settings were chosen; {_masks(rows)}.{_lacking(rows)}

{_changes(rows)}

`python -m benchmarks ablation --tables {" ".join(ablation.SHARP)} --rate {rows[0]["rate"]}` repeats it.
"""


def _masks(rows: Sequence[Row]) -> str:
    """
    >>> _masks([{"rate": 0.5, "seed": 22}, {"rate": 0.5, "seed": 21}])
    'MCAR 0.5, masks of the seeds 21 and 22'
    """
    seeds = sorted({row["seed"] for row in rows})
    return f"MCAR {rows[0]['rate']}, masks of the {'seeds' if len(seeds) > 1 else 'seed'} {listed(map(str, seeds))}"


def _changes(rows: Iterable[Row]) -> str:
    """A line for each variant, the one that costs most first."""
    cells: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in rows:
        for measure in ("nrmse", "pfc"):
            if measure in row["together"]:
                cells.setdefault(row["variant"], {}).setdefault((row["table"], measure), []).append(row)
    columns = sorted(cells[ablation.WHOLE])

    def together(variant: str, column: tuple[str, str]) -> float:
        return float(np.mean([row["together"][column[1]] for row in cells[variant][column]]))

    def change(variant: str) -> float:
        """Mean log ratio to the default over the columns both have: what is given as a percentage."""
        shared = [c for c in columns if c in cells[variant]]
        return float(np.mean([np.log(together(variant, c) / together(ablation.WHOLE, c)) for c in shared]))

    def cell(variant: str, column: tuple[str, str]) -> str:
        if column not in cells[variant]:
            return "–"
        alone = [member[column[1]] for row in cells[variant][column] for member in row["alone"]]
        return f"{np.mean(alone):.3f} / {together(variant, column):.3f}"

    headings = ["change", *(f"{table} {measure.upper()}" for table, measure in columns), "all"]
    lines = [
        [variant, *(cell(variant, c) for c in columns), f"{change(variant):+.1%}"]
        for variant in sorted(cells, key=lambda variant: (variant != ablation.WHOLE, -change(variant)))
    ]
    return markdown(headings, lines)


def _whole_tables(results: Path) -> str:
    """The default on tables that are not cut, with the trivial error beside it."""
    rows = ablation.WHOLE_TABLES.rows(results)
    if not rows:
        return ""
    lines = [
        [row["table"], f"{row['rows']:,}", row["seed"], measure.upper(), *(f"{row['together'][m]:.3f}" for m in both),
         f"{row['seconds']:.0f}"]
        for row in rows
        for measure in ("nrmse", "pfc")
        if measure in row["together"]
        for both in [(measure, f"{measure}_trivial")]
    ]  # fmt: skip
    return f"""
## Whole tables

The default on tables that are not cut to 3,000 rows; MCAR {rows[0]["rate"]}, in sample.
`python -m benchmarks ablation --whole --variants "{ablation.WHOLE}"` repeats it.

{markdown(["table", "rows", "mask", "measure", "default", "mean / mode", "seconds"], lines)}
"""


PAGES: dict[str, Callable[[Path], str | None]] = {
    "scaling.md": scaling_page,
    "paper.md": paper.page,
    "multimodal.md": multimodal.page,
    "ablation.md": ablation_page,
    "benchmark.md": peers.page,
    "unseen.md": unseen.page,
    "evaluate.md": evaluate.page,
    "generation.md": generation.page,
    "groups.md": groups.page,
    "joint.md": joint.page,
    "privacy.md": readout.page,
    "mechanism.md": mechanism.page,
    "sharp.md": sharp.page,
    "speed.md": speed.page,
    "security.md": attack.page,
    "large.md": stream.page,
    "report.md": report.page,
}


def figures(results: Path) -> dict[str, str]:
    """Name → SVG. Needs matplotlib."""
    return {**peers.figures(results), **paper.figures(results), **generation.figures(results)}


def write_pages(results: Path, docs: Path) -> list[Path]:
    pages = {name: text for name, page in PAGES.items() if (text := page(results)) is not None}
    texts = {docs / name: text for name, text in pages.items()}
    if any(map(missed.verdicts, pages.values())):
        texts[docs / "missed.md"] = missed.page(pages)
    try:
        texts |= {docs / "figures" / name: svg for name, svg in figures(results).items()}
    except ImportError as error:
        print(f"benchmarks: {error}; figures are left as they are: pip install matplotlib", file=sys.stderr)
    written = []
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        write_text(path, text)
        written.append(path)
    for name, content in multimodal.figures(results).items():
        path = docs / "figures" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        written.append(path)
    return written


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("tables", __doc__)
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help="The folder of the rows. Default: results."
    )
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), metavar="FOLDER",
        help="The folder that the pages are written to. Default: docs.",
    )  # fmt: skip
    o = parser.parse_args(arguments)
    for path in write_pages(o.results, o.docs):
        print(f"wrote {path}")
