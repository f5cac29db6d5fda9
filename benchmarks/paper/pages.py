"""The page docs/paper.md and its figures, from the rows of the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.markup import MADE, markdown
from benchmarks.paper import gain, miwae, printed
from benchmarks.paper.board import NAMES, ORDER, TABLE1, TRIVIAL, WEIGHTED, Board, Column, Errors, best_of
from benchmarks.paper.claims import claims
from benchmarks.paper.family import beaten, seconds_table
from benchmarks.paper.figures import Dots, Lines, dots_svg, lines_svg
from benchmarks.paper.jobs import BENCHMARK, MECHANISMS, NUMERIC, PLANS, RATES, TABLES, UNIQUE, mechanism_name
from benchmarks.paper.methods import (
    DEFAULT,
    DEFAULT_CHANGES,
    PAPER,
    PAPER_CHANGES,
    SAMPLED_MASKS,
    WEIGHTED_SAMPLES,
)
from benchmarks.store import Row
from vsae.baselines import BASELINES
from vsae.evaluation.metrics import NRMSE_DEFINITIONS

HOWS = {
    "mcar0.3": "MCAR .3", "mcar0.5": "MCAR .5", "mcar0.7": "MCAR .7",
    "paper-mar": "MAR of the paper", "paper-nmar": "NMAR of the paper",
    "mar0.5": "MAR, strong", "nmar0.5": "NMAR, strong",
}  # fmt: skip
NOT_RUN = "(not run yet)"


# --- tables


def error_table(
    board: Board, columns: Sequence[Column], methods: Sequence[str], where: str = "new_rows",
    paper: dict[tuple[str, Column], float] | None = None,
) -> str:  # fmt: skip
    """Mean ± std over seeds, bold if within one std of the best; in brackets what the paper prints.

    A number in square brackets is that of the seeds, where they are fewer than elsewhere.
    """
    lines = []
    shown = [m for m in methods if any(board.errors(c, m, where) for c in columns)]
    if not shown:
        return NOT_RUN
    for method in shown:
        cells = []
        for column in columns:
            errors = board.errors(column, method, where)
            best = best_of(board, column, [m for m in shown if has_all_seeds(board, column, m, where)], where)
            if errors is None:
                cells.append("–")
                continue
            text = f"{errors.mean:.3f} ± {errors.std:.3f}" if len(errors.values) > 1 else f"{errors.mean:.3f}"
            if not has_all_seeds(board, column, method, where):
                text += f" [{len(errors.values)}]"
            elif best is not None and errors.mean <= best[1].mean + best[1].std:
                text = f"**{text}**"
            printed_too = (paper or {}).get((method, column))
            cells.append(f"{text} ({printed_too:.3f})" if printed_too is not None else text)
        lines.append([method, *cells])
    headings = ["", *(_heading(c, columns) for c in columns)]
    return markdown(headings, lines)


def has_all_seeds(board: Board, column: Column, method: str, where: str = "new_rows") -> bool:
    errors = board.errors(column, method, where)
    return errors is not None and len(errors.values) >= board.seeds


def _heading(column: Column, columns: Sequence[Column]) -> str:
    table, how, measure = column
    one_mechanism = len({c[1] for c in columns}) == 1
    one_measure = len({c[2] for c in columns}) == 1
    parts = [NAMES[table], "" if one_mechanism else HOWS[how]]
    parts.append("" if one_measure else measure.upper())
    return ", ".join(part for part in parts if part)


def _printed_mcar() -> dict[tuple[str, Column], float]:
    return {
        (method, (table, "mcar0.5", measure)): value
        for method, values in printed.MCAR.items()
        for (table, measure), value in values.items()
    }


def _printed_others() -> dict[tuple[str, Column], float]:
    return {(m, (t, how, "nrmse")): v for m, values in printed.OTHERS.items() for (t, how), v in values.items()}


def _other_columns() -> tuple[Column, ...]:
    return tuple((t, mechanism_name(mechanism, rate), "nrmse") for mechanism, rate in MECHANISMS for t in NUMERIC)


def _ablation_columns() -> tuple[Column, ...]:
    return tuple((t, how, "nrmse") for how in ("mcar0.5", "paper-mar", "paper-nmar") for t in NUMERIC)


def ablation_table(board: Board, name: str, changes: Iterable[str]) -> str:
    methods = [name, *(f"{name}: {change}" for change in changes)]
    there: dict[tuple[str, Column], float] = {}
    for change, values in printed.ABLATION.items() if name == PAPER else ():
        method = f"{PAPER}: {change}" if change else PAPER
        there |= {(method, (t, "mcar0.5" if how == "mcar" else how, "nrmse")): v for (t, how), v in values.items()}
    return error_table(board, _ablation_columns(), [TRIVIAL, *methods], paper=there)


def masks_table(board: Board) -> str:
    lines = []
    experiments = [(t, f"mcar{r}") for t in TABLES for r in RATES] + [(t, c) for t, c, _ in _other_columns()]
    for table, how in experiments:
        cells: list[object] = []
        true = None
        for method in (PAPER, DEFAULT):
            rows = [row for row in board.of(table, how, method) if "missing" in row]
            if not rows:
                cells.append("–")
                continue
            true = float(np.mean([row["missing"] for row in rows]))
            sampled = Errors(tuple(row["missing_sampled"] for row in rows))
            cells.append(f"{sampled.mean:.3f} ± {sampled.std:.3f}")
        if true is not None:
            said = printed.MASKS.get((table, how)) or (printed.MASKS.get(("", how)) if how.startswith("mcar") else None)
            paper = f"{said[0]:.3f} → {said[1]:.3f}" if said else "–"
            lines.append([f"{NAMES[table]}, {HOWS[how]}", f"{true:.3f}", *cells, paper])
    return markdown(["", "missing", PAPER, DEFAULT, "the paper: data → sampled"], lines)


def collapse_table(board: Board) -> str:
    """Dimensions in use and KL, MCAR .5."""
    lines = []
    for method in (*BASELINES, PAPER, DEFAULT):
        cells = []
        for table in TABLES:
            rows = [row for row in board.of(table, "mcar0.5", method) if row.get("latents")]
            cells.append(_latents([row["latents"] for row in rows]) if rows else "–")
        if any(cell != "–" for cell in cells):
            lines.append([method, *cells])
    return markdown(["", *(NAMES[t] for t in TABLES)], lines)


def _latents(found: Sequence[Row]) -> str:
    def mean(name: str) -> float:
        return float(np.mean([f[name] for f in found]))

    if "active" in found[0]:
        in_use = f"{mean('active'):.0f} of {found[0]['of']}"
        return in_use if found[0]["kl"] is None else f"{in_use}; {mean('kl'):.2f}"
    observed, hidden = (float(np.mean([np.mean(f[f"kl_{w}"]) for f in found])) for w in ("observed", "hidden"))
    return (
        f"{mean('active_observed'):.0f} seen, {mean('active_hidden'):.0f} hidden of {found[0]['of']}; "
        f"{observed:.2f}, {hidden:.2f}"
    )


def idle_latents(board: Board) -> str:
    """How often a z that is not in use goes with the error of the mean or mode, and one in use with a lower one."""
    idle: list[float] = []
    busy: list[float] = []
    for method in (*BASELINES, PAPER, DEFAULT):
        for table, mechanism, measure in TABLE1:
            rows = board.of(table, mechanism, method)
            if not rows or any(not row.get("latents") or measure not in row["new_rows"] for row in rows):
                continue
            ratio = float(np.mean([r["new_rows"][measure] / r["new_rows"][f"{measure}_trivial"] for r in rows]))
            active = max(r["latents"].get("active", r["latents"].get("active_hidden")) for r in rows)
            (busy if active else idle).append(ratio)
    if not idle or not busy:
        return ""
    return (
        f"No dimension is in use for hidden cells in {len(idle)} pairs of a method and a column of Table 1: "
        f"{sum(r > 0.99 for r in idle)} of them have .99 of the trivial error or more, the lowest {min(idle):.2f}. "
        f"Some are in use in {len(busy)}: {sum(r < 0.99 for r in busy)} of them are below .99, the lowest at "
        f"{min(busy):.2f}, the highest at {max(busy):.2f}."
    )


# --- figures


def figures(results: Path) -> dict[str, str]:
    board = Board(BENCHMARK.rows(results))
    out = {}
    if panels := ratio_panels(board):
        out["paper-ratios.svg"] = lines_svg(panels, "share missing", highlight=DEFAULT, second=PAPER)
    if dots := ablation_panels(board):
        out["paper-ablation.svg"] = dots_svg(dots, "NRMSE, MCAR .5")
    return out


def ratio_panels(board: Board) -> list[Lines]:
    panels = []
    for table, _, measure in TABLE1:
        lines = {}
        for method in ORDER:
            found = [board.errors((table, f"mcar{rate}", measure), method) for rate in RATES]
            if all(found):
                lines[method] = [(rate, e.mean, e.std) for rate, e in zip(RATES, found, strict=True) if e]
        if lines and table != UNIQUE:
            panels.append(Lines(f"{NAMES[table]}, {measure.upper()}", lines))
    return panels


def ablation_panels(board: Board) -> list[Dots]:
    panels = []
    for name, changes in ((PAPER, PAPER_CHANGES), (DEFAULT, DEFAULT_CHANGES)):
        for table in NUMERIC:
            column = (table, "mcar0.5", "nrmse")
            methods = {"as it is": name, **{change: f"{name}: {change}" for change in changes}}
            there = {label: (e.mean, e.std) for label, m in methods.items() if (e := board.errors(column, m))}
            trivial = board.errors(column, TRIVIAL)
            if len(there) > 1 and trivial:
                panels.append(Dots(f"{name}, {NAMES[table]}", there, trivial.mean))
    return panels


# --- the page


def page(results: Path) -> str | None:
    rows = BENCHMARK.rows(results)
    if not rows:
        return None
    board = Board(rows)
    machines = "; ".join(sorted({row["machine"] for row in rows}))
    hours = sum(row["seconds"] for row in rows if row["mechanism"] == "mcar" and ":" not in row["method"]) / 3600
    methods = [m for m in ORDER if m != WEIGHTED]
    ratios = "![errors over missing ratios](figures/paper-ratios.svg)\n\n" if ratio_panels(board) else ""
    ablation = "![ablation](figures/paper-ablation.svg)\n\n" if ablation_panels(board) else ""
    return f"""{MADE.format(source="results/paper-*.jsonl")}
# The paper, run again

Every experiment on tables of *Variational Selective Autoencoder* (AISTATS 2021): its baselines, its model read
literally (`{PAPER}`, `VSAEConfig.paper()`), and what a user of this library gets (`{DEFAULT}`). Trivial predictors
stand in every table. `python -m benchmarks paper --table NAME` repeats it; NAME is one of {", ".join(PLANS)}.

**Protocol.** Rows are split 4 : 1; errors are those of the hidden cells of the test rows; masks and splits vary with
the seed; mean ± standard deviation over {board.seeds} seeds, or as many as stand in square brackets. Training stops by
a fifth of the training rows, of which cells are hidden and scored (`{DEFAULT}`: by a tenth of the cells). In round
brackets: what the paper prints. **Bold**: within one standard deviation of the lowest in the column, of the methods
that have all seeds; fewer are another split, whose errors may be lower for all.
NRMSE: {NRMSE_DEFINITIONS["column"]}. PFC: share of hidden cells that are wrong; mean over columns.
The paper's NRMSE follows no definition we could find (its mean imputation would score 1 by its own words), so its
bracketed NRMSE can not be compared with ours; its PFC can.

The baselines have VSAE's networks, widened until they have as many weights or more, on one latent vector a row. AE,
VAE, CVAE and MVAE have its likelihoods, scaling and noise in missing cells, too: on min-max scaled numbers, a Gaussian
of fixed variance ½. HI-VAE and MIWAE have learned scales, standardised numbers and zeros in missing cells, as their own
papers do. MICE and MissForest are the chains of [the benchmark](benchmark.md). The models from not-MIWAE on are not the
paper's rivals, but those it speaks of and some that came later, each with its own paper's choices, departures named in
its file (`vsae.baselines`); GAIN and ReMasker have sizes of their own. `VSAEImputer(method="vaeac")` runs any of them.
`python -m benchmarks paper --methods all` runs every method; models and experiments that are not in a table have not
been run.
{len(rows)} rows; those of MCAR took {hours:.1f} hours of training in all. Machines: {machines}.

## Table 1: MCAR, half of the cells missing

{error_table(board, TABLE1, methods, paper=_printed_mcar())}

{_copies(board)}In sample, on the training rows' hidden cells:

{error_table(board, TABLE1, methods, "in_sample")}

## Table 2: not missing at random

NRMSE. The paper's own mechanisms are weak on min-max scaled data: under its MAR, the probability to be missing hardly
moves from row to row, which makes it nearly MCAR. The strong ones are `LogisticMAR` and `LogisticNMAR` at .5.
"weighted": point imputations from {WEIGHTED_SAMPLES} importance-weighted samples, as MIWAE's are.

{error_table(board, _other_columns(), ORDER, paper=_printed_others())}

## Seconds, and who is ahead

Seconds of a fit at MCAR .5 on the machines above: of the processor (CPU), or of the clock (GPU; CPU, wall); by the
latter, some machines were busy with other work, too.

{seconds_table(board)}

{beaten(board, (*TABLE1, *_other_columns()))}

## Figure 2: missing ratios

{ratios}{error_table(board, _ratio_columns("pfc"), methods)}

{error_table(board, _ratio_columns("nrmse"), methods)}

## Masks

The share missing in the training rows, and in {SAMPLED_MASKS:,} masks sampled from the model. The paper's figures are
of 100 masks, and for MCAR the mean over all data sets; the shares it reports for MAR can not come from its recipe.

{masks_table(board)}

## Table 4: ablation

NRMSE; each line is the model above it with one change. {PAPER}:

{ablation}{ablation_table(board, PAPER, PAPER_CHANGES)}

{DEFAULT}:

{ablation_table(board, DEFAULT, DEFAULT_CHANGES)}

## Do the latents say anything?

At MCAR .5: dimensions of z whose mean varies over the rows (variance above .01), and the KL to the prior; for VSAE
apart for observed attributes (attributive proposal) and hidden ones (collective), the KL per attribute. A decoder that
gets a constant z, and no mask, gives constants: at best the mean and the mode.

{collapse_table(board)}

{idle_latents(board)}

{gain.section(results)}{miwae.section(results)}## The paper's claims

{claims(board) or NOT_RUN}

{READING}"""


def _copies(board: Board) -> str:
    both = [board.of(table, "mcar0.5", PAPER) for table in ("phishing", UNIQUE)]
    if not all(both):
        return ""
    every, once = (rows[0]["rows"] for rows in both)
    return (
        f"{1 - once / every:.0%} of the rows of Phishing are copies of other rows, some of them on both sides of the "
        "split; the second column has each row once. "
    )


def _ratio_columns(measure: str) -> tuple[Column, ...]:
    tables = [t for t, _, m in TABLE1 if m == measure and t != UNIQUE]
    return tuple((t, f"mcar{rate}", measure) for t in tables for rate in (0.3, 0.7))


READING = """## Reading

With a fixed variance of ½ on columns scaled to [0, 1], whose own variance is a few hundredths at most, explaining a
number perfectly gains less than the KL it costs: where the recipe says so, z stays at its prior and the imputation is
the mean. Learned scales and a bound that is tighter than the ELBO (MIWAE) keep z alive.
The literal VSAE has a further reason: an observed attribute is reconstructed from its own latent, so nothing teaches
the collective proposal, which imputation needs. The default keeps the structure and changes the training: it hides
known cells and scores them, learns the variances and gives the KL a small weight.
"""
