"""The page docs/paper.md and its figures, from the rows under results/paper."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsae.baselines import BASELINES
from vsae.benchmark.markup import MADE, markdown
from vsae.benchmark.paper import printed
from vsae.benchmark.paper.figures import Bars, Lines, bars_svg, lines_svg
from vsae.benchmark.paper.methods import CHAINS, DEFAULT, DEFAULT_CHANGES, PAPER, PAPER_CHANGES, SAMPLED_MASKS
from vsae.benchmark.paper.runner import MECHANISMS, NUMERIC, RATES, TABLES, UNIQUE
from vsae.metrics import NRMSE_DEFINITIONS

TRIVIAL, WEIGHTED = "mean/mode", f"{PAPER}, weighted"
ORDER = (TRIVIAL, *BASELINES, *CHAINS, PAPER, WEIGHTED, DEFAULT)
HOWS = {
    "mcar0.3": "MCAR .3", "mcar0.5": "MCAR .5", "mcar0.7": "MCAR .7", "paper-mar": "MAR of the paper", "paper-nmar": "NMAR of the paper",
    "mar0.5": "MAR, strong", "nmar0.5": "NMAR, strong",
}  # fmt: skip
Column = tuple[str, str, str]  # data set, mechanism with rate, measure

NAMES = {"phishing": "Phishing", UNIQUE: "Phishing, no copies", "mushroom": "Mushroom", "yeast": "Yeast",
         "whitewine": "White wine", "heart": "Heart"}  # fmt: skip
TABLE1: tuple[Column, ...] = (
    ("phishing", "mcar0.5", "pfc"), (UNIQUE, "mcar0.5", "pfc"), ("mushroom", "mcar0.5", "pfc"),
    ("yeast", "mcar0.5", "nrmse"), ("whitewine", "mcar0.5", "nrmse"), ("heart", "mcar0.5", "pfc"),
    ("heart", "mcar0.5", "nrmse"),
)  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """The errors of one method in one column, a number a seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0


class Board:
    """All rows, by experiment and method."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for row in rows:
            key = (row["table"], f"{row['mechanism']}{row['rate'] or ''}", row["method"])
            self.rows.setdefault(key, []).append(row)

    def of(self, table: str, how: str, method: str) -> list[dict[str, Any]]:
        return sorted(self.rows.get((table, how, method), []), key=lambda row: int(row["seed"]))

    def errors(self, column: Column, method: str, where: str = "new_rows") -> Errors | None:
        """Trivial errors come with any method's; those of `DEFAULT` are taken, or of whichever is there."""
        table, how, measure = column
        if method == TRIVIAL:
            for other in (DEFAULT, PAPER, *BASELINES):
                if rows := self.of(table, how, other):
                    return _errors([row[where].get(f"{measure}_trivial") for row in rows])
            return None
        if method == WEIGHTED:
            weighted = [row.get("weighted_new_rows", {}).get(measure) for row in self.of(table, how, PAPER)]
            return _errors(weighted) if where == "new_rows" else None
        return _errors([row[where].get(measure) for row in self.of(table, how, method)])

    def complete(self, columns: Iterable[Column], methods: Iterable[str]) -> bool:
        return all(self.errors(c, m) is not None for c in columns for m in methods)


def _errors(values: Sequence[float | None]) -> Errors | None:
    known = tuple(v for v in values if v is not None)
    return Errors(known) if known and len(known) == len(values) else None


def load(results: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((results / "paper").glob("*.json"))]


# --- tables


def best_of(board: Board, column: Column, methods: Iterable[str], where: str = "new_rows") -> tuple[str, Errors] | None:
    there = [(m, e) for m in methods if (e := board.errors(column, m, where)) is not None]
    return min(there, key=lambda pair: pair[1].mean) if there else None


def error_table(
    board: Board, columns: Sequence[Column], methods: Sequence[str], where: str = "new_rows",
    paper: dict[tuple[str, Column], float] | None = None,
) -> str:  # fmt: skip
    """Mean ± std over seeds, bold if within one std of the best; in brackets what the paper prints."""
    lines = []
    shown = [m for m in methods if any(board.errors(c, m, where) for c in columns)]
    if not shown:
        return "(not run yet)"
    for method in shown:
        cells = []
        for column in columns:
            errors = board.errors(column, method, where)
            best = best_of(board, column, shown, where)
            if errors is None or best is None:
                cells.append("–")
                continue
            text = f"{errors.mean:.3f} ± {errors.std:.3f}"
            text = f"**{text}**" if errors.mean <= best[1].mean + best[1].std else text
            printed_too = (paper or {}).get((method, column))
            cells.append(f"{text} ({printed_too:.3f})" if printed_too is not None else text)
        lines.append([method, *cells])
    headings = ["", *(_heading(c, columns) for c in columns)]
    return markdown(headings, lines)


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
    return tuple((t, f"{how}{rate or ''}", "nrmse") for how, rate in MECHANISMS for t in NUMERIC)


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
            rows = [row for row in board.of(table, "mcar0.5", method) if "latents" in row]
            cells.append(_latents([row["latents"] for row in rows]) if rows else "–")
        if any(cell != "–" for cell in cells):
            lines.append([method, *cells])
    return markdown(["", *(NAMES[t] for t in TABLES)], lines)


def _latents(found: Sequence[dict[str, Any]]) -> str:
    def mean(name: str) -> float:
        return float(np.mean([f[name] for f in found]))

    if "active" in found[0]:
        return f"{mean('active'):.0f} of {found[0]['of']}; {mean('kl'):.2f}"
    observed, hidden = (float(np.mean([np.mean(f[f"kl_{w}"]) for f in found])) for w in ("observed", "hidden"))
    return (
        f"{mean('active_observed'):.0f} seen, {mean('active_hidden'):.0f} hidden of {found[0]['of']}; "
        f"{observed:.2f}, {hidden:.2f}"
    )


# --- claims


def claims(board: Board) -> str:
    """What the paper says and what the rows say to it; a claim whose rows are missing is left out."""
    lines = [
        text
        for text in (_lowest(board), _spread(board), _flat(board), _hivae(board), _proposals(board))
        if text is not None
    ]
    return "\n".join(lines)


def _lowest(board: Board) -> str | None:
    columns = [c for c in TABLE1 if c[0] != UNIQUE]
    rivals = [m for m in (*BASELINES,) if m != "MIWAE"]
    if not board.complete(columns, [PAPER, *rivals]):
        return None
    lowest = [c for c in columns if (b := best_of(board, c, [PAPER, *rivals])) and b[0] == PAPER]
    below = [c for c in columns if _mean(board, c, PAPER) < 0.99 * _mean(board, c, TRIVIAL)]
    return (
        f"- *VSAE has the lowest error in every column of Table 1.* Its literal recipe has it in {len(lowest)} of "
        f"{len(columns)}; it is better than the mean or mode by more than 1 % in {len(below)}."
    )


def _mean(board: Board, column: Column, method: str) -> float:
    errors = board.errors(column, method)
    return errors.mean if errors else float("nan")


def _spread(board: Board) -> str | None:
    columns = [c for c in TABLE1 if c[0] != UNIQUE]
    rivals = [m for m in BASELINES if m != "MIWAE"]
    if not board.complete(columns, [PAPER, *rivals]):
        return None
    ours = np.mean([e.std for c in columns if (e := board.errors(c, PAPER))])
    theirs = np.mean([e.std for c in columns for m in rivals if (e := board.errors(c, m))])
    trivial = np.mean([e.std for c in columns if (e := board.errors(c, TRIVIAL))])
    return (
        f"- *Its spread over seeds is lower.* Mean standard deviation {ours:.3f}, the baselines' {theirs:.3f}; the "
        f"mean and mode themselves vary by {trivial:.3f} from split to split."
    )


def _flat(board: Board) -> str | None:
    parts = []
    for method in (PAPER, DEFAULT):
        changes = []
        for table, measure in (("phishing", "pfc"), ("mushroom", "pfc"), ("yeast", "nrmse"), ("whitewine", "nrmse")):
            low, high = (_mean(board, (table, f"mcar{rate}", measure), method) for rate in (RATES[0], RATES[-1]))
            if np.isfinite(low) and np.isfinite(high):
                changes.append(f"{NAMES[table]} {low:.3f} → {high:.3f}")
        if changes:
            parts.append(f"{method}: {', '.join(changes)}")
    if not parts:
        return None
    return (
        f"- *Its error stays flat over missing ratios ({RATES[0]:g} to {RATES[-1]:g}).* {'; '.join(parts)}. Flat is "
        "what the mean and the mode are; a model that uses what it sees gets worse when it sees less."
    )


def _hivae(board: Board) -> str | None:
    low, high = (_mean(board, ("phishing", f"mcar{rate}", "pfc"), "HI-VAE") for rate in (0.3, 0.5))
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    verdict = "So it is here" if high < low else "Not here"
    return f"- *HI-VAE on Phishing is better at .5 missing than at .3.* {verdict}: {low:.3f} at .3, {high:.3f} at .5."


def _proposals(board: Board) -> str | None:
    parts = []
    for name in (PAPER, DEFAULT):
        for table in NUMERIC:
            column = (table, "mcar0.5", "nrmse")
            both = [_mean(board, column, f"{name}: {which} only") for which in ("collective", "attributive")]
            if np.isfinite(both).all():
                parts.append(f"{name}, {NAMES[table]}: {both[0]:.3f} and {both[1]:.3f}")
    if not parts:
        return None
    return (
        "- *The collective proposal alone beats the attributive alone on Yeast, whose columns depend on each other, "
        f"and loses on white wine.* Collective and attributive: {'; '.join(parts)}."
    )


# --- figures


def figures(results: Path) -> dict[str, str]:
    board = Board(load(results))
    out = {}
    panels = []
    for table, measure in (("phishing", "pfc"), ("mushroom", "pfc"), ("yeast", "nrmse"), ("whitewine", "nrmse"),
                           ("heart", "pfc"), ("heart", "nrmse")):  # fmt: skip
        lines = {}
        for method in ORDER:
            found = [board.errors((table, f"mcar{rate}", measure), method) for rate in RATES]
            if all(found):
                lines[method] = [(rate, e.mean, e.std) for rate, e in zip(RATES, found, strict=True) if e]
        if lines:
            panels.append(Lines(f"{NAMES[table]}, {measure.upper()}", lines))
    if panels:
        out["paper-ratios.svg"] = lines_svg(panels, "share missing", highlight=DEFAULT, second=PAPER)
    bars = []
    for name, changes in ((PAPER, PAPER_CHANGES), (DEFAULT, DEFAULT_CHANGES)):
        for table in NUMERIC:
            column = (table, "mcar0.5", "nrmse")
            methods = {"as it is": name, **{change: f"{name}: {change}" for change in changes}}
            there = {label: (e.mean, e.std) for label, m in methods.items() if (e := board.errors(column, m))}
            trivial = board.errors(column, TRIVIAL)
            if len(there) > 1 and trivial:
                bars.append(Bars(f"{name}, {NAMES[table]}", there, trivial.mean))
    if bars:
        out["paper-ablation.svg"] = bars_svg(bars, "NRMSE, MCAR .5")
    return out


# --- the page


def page(results: Path) -> str | None:
    rows = load(results)
    if not rows:
        return None
    board = Board(rows)
    machines = "; ".join(sorted({row["machine"] for row in rows}))
    seconds = sum(row["seconds"] for row in rows if f"{row['mechanism']}{row['rate'] or ''}" == "mcar0.5"
                  and ":" not in row["method"])  # fmt: skip
    methods = [m for m in ORDER if m != WEIGHTED]
    drawn = figures_names(board)
    ratios = "![errors over missing ratios](figures/paper-ratios.svg)\n\n" if "ratios" in drawn else ""
    ablation = "![ablation](figures/paper-ablation.svg)\n\n" if "ablation" in drawn else ""
    return f"""{MADE.format(source="results/paper")}
# The paper, run again

Every experiment on tables of *Variational Selective Autoencoder* (AISTATS 2021): its baselines, its model read
literally (`{PAPER}`, `VSAEConfig.paper()`), and what a user of this library gets (`{DEFAULT}`). Trivial predictors
stand in every table. `vsae bench paper --table NAME` repeats it; NAME is mcar, nonmcar, ratios, masks or ablation.

**Protocol.** Rows are split 4 : 1, a fifth of the training rows is for early stopping, errors are those of the hidden
cells of the test rows; masks and splits vary with the seed ({len({row["seed"] for row in rows})} seeds);
mean ± standard deviation. In brackets: what the paper prints. **Bold**: within one standard deviation of the lowest in
the column.
NRMSE: {NRMSE_DEFINITIONS["column"]}. PFC: share of hidden cells that are wrong; mean over columns.
The paper's NRMSE follows no definition we could find (its mean imputation would score 1 by its own words), so its
bracketed NRMSE can not be compared with ours; its PFC can.

The baselines have VSAE's networks, widened until they have as many weights or more. AE, VAE, CVAE and MVAE have its
likelihoods, too: on min-max scaled numbers, a Gaussian of fixed variance ½. HI-VAE and MIWAE have learned scales, as
their own papers do. MICE and MissForest are the chains of [the benchmark](benchmark.md).
{len(rows)} rows; Table 1 took {seconds / 3600:.1f} hours of computing in all. Machines: {machines}.

## Table 1: MCAR, half of the cells missing

{error_table(board, TABLE1, methods, paper=_printed_mcar())}

47 % of the rows of Phishing are copies of other rows, some of them on both sides of the split; the second column has
each row once. In sample, on the training rows' hidden cells:

{error_table(board, TABLE1, methods, "in_sample")}

## Table 2: not missing at random

NRMSE. The paper's own mechanisms are weak on min-max scaled data: its MAR moves the probability to be missing by less
than .01 from row to row, nearly MCAR. The strong ones are `LogisticMAR` and `LogisticNMAR` at .5. "weighted": point
imputations from 1000 importance-weighted samples, as MIWAE's are.

{error_table(board, _other_columns(), ORDER, paper=_printed_others())}

## Figure 2: missing ratios

{ratios}{error_table(board, _ratio_columns("pfc"), methods)}

{error_table(board, _ratio_columns("nrmse"), methods)}

## Masks

The share missing in the training rows, and in {SAMPLED_MASKS:,} masks sampled from the model.

{masks_table(board)}

## Table 4: ablation

NRMSE; each line is the model above it with one change. {PAPER}:

{ablation}{ablation_table(board, PAPER, PAPER_CHANGES)}

{DEFAULT}:

{ablation_table(board, DEFAULT, DEFAULT_CHANGES)}

## Do the latents say anything?

At MCAR .5: dimensions of z whose mean varies over the rows by more than .01 (variance), and KL(q ‖ N(0, I)); for VSAE
apart for observed attributes (attributive proposal) and hidden ones (collective), the KL per attribute. A model with no
dimension in use is a constant: its imputations are the mean and the mode.

{collapse_table(board)}

## The paper's claims

{claims(board)}

{READING}"""


def figures_names(board: Board) -> set[str]:
    names = set()
    if any(all(board.errors((t, f"mcar{r}", m), PAPER) for r in RATES) for t, _, m in TABLE1 if t != UNIQUE):
        names.add("ratios")
    if any(board.errors((t, "mcar0.5", "nrmse"), f"{PAPER}: no EM") for t in NUMERIC):
        names.add("ablation")
    return names


def _ratio_columns(measure: str) -> tuple[Column, ...]:
    tables = [t for t, _, m in TABLE1 if m == measure and t != UNIQUE]
    return tuple((t, f"mcar{rate}", measure) for t in tables for rate in (0.3, 0.7))


READING = """## Reading

Where z is in use, a method beats the mean and the mode; where it is not, it can not. With a fixed variance of ½ on
columns scaled to [0, 1], whose own variance is .01 to .05, explaining a number perfectly gains less than the KL it
costs: VAE, CVAE, MVAE and the literal VSAE keep z at its prior for numbers, and print the mean. Categories pay for
their latents, so there the literal recipes learn something, as long as few cells are missing.
The literal VSAE has a further reason: an observed attribute is reconstructed from its own latent, so nothing teaches
the collective proposal, which imputation needs. The default keeps the structure and changes the training: it hides
known cells and scores them, learns the variances and gives the KL a small weight.
"""
