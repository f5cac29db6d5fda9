"""The calibration with one of its parts taken away at a time: what is each of them worth?

One fit serves all parts: a calibration is fitted to predictions of held-out cells, which are made once. Cells are
scored one by one, given what their row shows: the point estimate, the distribution of a number, the probabilities of
levels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks import data, options
from benchmarks.calibration.scores import of_levels
from benchmarks.markup import all_values, listed, markdown, mask_name, paragraph
from benchmarks.peers.cells import SETTINGS
from benchmarks.peers.grid import CORE, Grid, Task, TaskData, add_grid_options, grid_of
from benchmarks.peers.readings import Mask
from benchmarks.processes import machine
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row
from vsae.data.schema import DISCRETE, Schema
from vsae.evaluation.metrics import mean_mode
from vsae.fitting.blending import blend_with_trees, refit_trees
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import Effort, config_for
from vsae.fitting.rounds import refit
from vsae.fitting.steps import FitData, assess, split, with_known
from vsae.imputation.calibration import Calibration, HeldOutPredictions
from vsae.imputation.point import completed
from vsae.imputation.predictive import Predictive, predict
from vsae.imputation.residual_quantiles import RANKS, Predictions, interpolated, normal_quantiles
from vsae.model.vsae import VSAE
from vsae.training.em import learn
from vsae.training.loop import train

GRID = Grid(CORE.tables, (("mcar", 0.5), ("mar", 0.3)), (11, 12, 13))
EFFORT: Effort = "fast"
WHOLE, NONE = "the whole", "nothing is calibrated"
PREDICTED = (np.arange(20) + 0.5) / 20  # ranks whose quantile losses add up to the CRPS
INTERVAL = (0.05, 0.95)
_FAR = 9.0  # log σ: beyond all cells


# --- one fit, and calibrations without a part


def fitted_with_held_out(made: TaskData) -> tuple[FittedVSAE, HeldOutPredictions]:
    """As `vsae.fit` does it, without a calibration, but with what one is fitted to."""
    rows, mask, seed = made.train, made.train_mask, made.seed
    config = config_for(rows.schema, len(rows), EFFORT)
    given = FitData.of(rows.schema, rows.columns, mask, config, "cpu")
    model, parts = split(VSAE, given, config, seed)
    fitted = FittedVSAE(model, given.encoding)
    fitted.history = train(model, parts.training, parts.held_out, learn=learn, seed=parts.seed)
    fitted.blend, folds, _ = blend_with_trees(fitted, parts.training, seed)
    assessed = assess(fitted, parts, folds, seed)
    fitted.history = refit(model, given, parts, fitted.history, learn)
    fitted.blend, folds, known = refit_trees(fitted, given.batch, seed)
    return fitted, with_known(fitted, given, replace(assessed, by_trees=known), folds, seed)


def calibrations(fitted: FittedVSAE, held_out: HeldOutPredictions) -> dict[str, Calibration]:
    """By the part that each of them lacks."""
    schema, point_mass = fitted.schema, fitted.encoding.has_point_mass
    whole = Calibration.fit(schema, held_out, point_mass)
    out = {WHOLE: whole, NONE: Calibration()}
    levels = [v.name for v in schema.variables if v.family in DISCRETE]
    if len(levels) < len(schema.variables):
        kept = {name: weight if name in levels else 1.0 for name, weight in whole.shrinkage.weight.items()}
        no_masses = {name: [False] * len(which) for name, which in point_mass.items()}
        out |= {
            "numbers do not shrink": replace(whole, shrinkage=replace(whole.shrinkage, weight=kept)),
            "one width a column": _with_widths(schema, whole, held_out, point_mass, slope=0.0),
            "width goes with σ": _with_widths(schema, whole, held_out, point_mass, slope=1.0),
            "normal residuals": _with_quantiles(whole, _as_normal),
            "residuals alike at all estimates": _with_quantiles(whole, _pooled),
            "no point masses": Calibration.fit(schema, held_out, no_masses),
            "no surplus": Calibration.fit(schema, replace(held_out, withheld={}), point_mass),
        }
    if levels and held_out.estimates is not None:
        kept = {name: 1.0 if name in levels else weight for name, weight in whole.shrinkage.weight.items()}
        none = dict.fromkeys(whole.shrinkage.pull, 0.0)
        columns, _, hidden, estimates = held_out.estimates
        at = {name: hidden[:, schema.attribute_of[name]] for name in levels}
        cells = {name: (np.asarray(columns[name])[at[name]], estimates[name][at[name]]) for name in levels}
        out |= {
            "levels do not shrink": replace(
                whole, shrinkage=replace(whole.shrinkage, weight=kept, pull=none).scaled(cells)
            ),
            "no Platt scaling": replace(whole, shrinkage=replace(whole.shrinkage, scaling={})),
        }
    return out


def _with_widths(
    schema: Schema,
    whole: Calibration,
    held_out: HeldOutPredictions,
    point_mass: Mapping[str, Sequence[bool]],
    slope: float,
) -> Calibration:
    """The width of a cell is c · σ^slope, whatever errors were at such a σ: c is fitted to residuals over σ^slope."""

    def scaled(blocks: Mapping[str, Predictions]) -> dict[str, Predictions]:
        out = {}
        for name, found in blocks.items():
            relative = found.estimate + (found.x - found.estimate) / found.std**slope
            masses = torch.tensor(point_mass.get(name, [False] * found.x.shape[1]), device=found.x.device)
            x = torch.where(masses, found.x, relative)
            out[name] = found._replace(x=x, std=torch.ones_like(found.std))
        return out

    relative = replace(held_out, usual=scaled(held_out.usual), sparse=scaled(held_out.sparse))
    ends = torch.tensor([-_FAR, _FAR])
    residuals = {}
    for name, found in Calibration.fit(schema, relative, point_mass).residuals.items():
        log_width = interpolated(found.log_std, found.log_width, torch.zeros_like(found.log_std[:, :1]))
        residuals[name] = replace(found, log_std=ends.expand(len(log_width), 2), log_width=log_width + slope * ends)
    return replace(whole, residuals=residuals)


def _with_quantiles(whole: Calibration, change: Callable[[Tensor, Tensor], Tensor]) -> Calibration:
    residuals = {
        name: replace(found, quantiles=change(found.quantiles, found.point_mass))
        for name, found in whole.residuals.items()
    }
    return replace(whole, residuals=residuals)


def _as_normal(quantiles: Tensor, point_mass: Tensor) -> Tensor:
    """Around the estimate, as wide as they are; (variables, places, knots)."""
    size = (quantiles**2).mean(-1, keepdim=True).sqrt()
    return torch.where(point_mass[:, None, None], quantiles, size * normal_quantiles().to(quantiles))


def _pooled(quantiles: Tensor, point_mass: Tensor) -> Tensor:
    """Of all places together."""
    every = torch.quantile(quantiles.flatten(1), RANKS.to(quantiles), dim=1, interpolation="nearest").T
    return every[:, None].expand_as(quantiles).contiguous()


# --- scores


def measured(table: str, mechanism: str, rate: float, seed: int) -> Row:
    began = time.perf_counter()
    made = Task(table, mechanism, rate, seed).make()
    fitted, held_out = fitted_with_held_out(made)
    without = calibrations(fitted, held_out)
    discrete = np.array([v.family in DISCRETE for v in made.train.schema.variables])
    seen = made.train_mask[:, [made.train.schema.attribute_of[v.name] for v in made.train.schema.variables]]
    centre = mean_mode(made.train.matrix(), seen, discrete)
    scored = {
        "in_sample": scores(fitted, without, made.train, made.train_mask, centre),
        "new_rows": scores(fitted, without, made.new, made.new_mask, centre),
    }
    return {
        "table": table, "mechanism": mechanism, "rate": rate, "seed": seed, "effort": EFFORT, "rows": len(made.train),
        "parts": {name: {setting: found[name] for setting, found in scored.items()} for name in without},
        "seconds": time.perf_counter() - began, "machine": machine(),
    }  # fmt: skip


def scores(
    fitted: FittedVSAE,
    without: Mapping[str, Calibration],
    rows: data.Rows,
    mask: NDArray[np.bool_],
    centre: NDArray[np.float64],
) -> dict[str, dict[str, float]]:
    """Of each calibration, on the cells that the mask hides; the model is asked once."""
    fitted.calibration = Calibration()
    decoded = fitted.estimates(rows.columns, mask)
    predictions = [predict(fitted, batch) for _, batch in fitted.chunks(rows.columns, mask, 2)]
    out: dict[str, dict[str, float]] = {}
    for name, calibration in without.items():
        estimates = calibration.estimates(decoded)
        errors = data.errors(rows, mask, completed(fitted, rows.columns, mask, estimates), centre)
        out[name] = {measure: errors[measure] for measure in ("nrmse", "pfc") if measure in errors}
        out[name] |= _of_numbers(fitted, [replace(p, calibration=calibration) for p in predictions], rows, mask)
        out[name] |= _of_levels(fitted, estimates, rows, mask)
    return out


def _of_numbers(
    fitted: FittedVSAE, predictions: Sequence[Predictive], rows: data.Rows, mask: NDArray[np.bool_]
) -> dict[str, float]:
    """CRPS over the std of a column, mean over columns; and the coverage of 90 % intervals, of all cells together."""
    crps, inside = [], []
    for block in fitted.schema.number_blocks:
        cuts = _quantiles(fitted, predictions, block.name)
        for j, (variable, attribute) in enumerate(zip(block.variables, block.attributes, strict=True)):
            hidden = ~mask[:, attribute] & rows.known[:, attribute]
            known = np.asarray(rows.columns[variable.name], dtype=np.float64)
            if not hidden.any() or not (std := np.std(known[rows.known[:, attribute]])):
                continue
            x, (*cut, low, high) = known[hidden], cuts[:, hidden, j]
            off = x - np.stack(cut)
            rank = PREDICTED[:, None]
            crps.append(2 * np.maximum(rank * off, (rank - 1) * off).mean() / std)
            inside.append((low <= x) & (x <= high))
    if not crps:
        return {}
    return {"crps": float(np.mean(crps)), "coverage90": float(np.concatenate(inside).mean())}


def _quantiles(fitted: FittedVSAE, predictions: Sequence[Predictive], name: str) -> NDArray[np.float64]:
    """(ranks, rows, variables) of a block in natural units."""
    block, cuts = fitted.schema.block[name], []
    for rank in (*PREDICTED, *INTERVAL):
        parts = [p.quantile(name, range(len(block)), torch.full_like(p.numbers[name].std, rank)) for p in predictions]
        natural = fitted.encoding.decode({name: torch.cat(parts).numpy()})
        cuts.append(np.stack([natural[variable.name] for variable in block.variables], axis=1))
    return np.stack(cuts).astype(np.float64)


def _of_levels(
    fitted: FittedVSAE, estimates: Mapping[str, NDArray[Any]], rows: data.Rows, mask: NDArray[np.bool_]
) -> dict[str, float]:
    variables = fitted.schema.variables
    levels = np.array([v.size if v.family in DISCRETE else 0 for v in variables])
    hidden = rows.variables_known() & ~mask[:, [fitted.schema.attribute_of[v.name] for v in variables]]
    if not hidden[:, levels > 0].any():
        return {}
    stated = np.concatenate([estimates[v.name] for v, size in zip(variables, levels, strict=True) if size], axis=1)
    found = of_levels(rows.matrix(), hidden, levels, stated, np.random.default_rng(0))
    return {name: found[name] for name in ("ece", "log_loss")}


# --- what the rows say

#: Measure → its heading, and whether its change is relative.
MEASURES = {
    "nrmse": ("NRMSE", True),
    "pfc": ("PFC", True),
    "crps": ("CRPS", True),
    "coverage90": ("coverage of 90 %", False),
    "ece": ("calibration error of levels", False),
    "log_loss": ("log loss", True),
}


def section(results: Path) -> str:
    """A part of the page of ablations; nothing while there are no rows."""
    rows = BENCHMARK.rows(results)
    if not rows:
        return ""
    masks = list(dict.fromkeys(Mask(row["mechanism"], row["rate"]) for row in rows))
    parts = [
        paragraph(
            "Between the model and a cell stands a calibration, fitted to held-out cells. Here each of its parts is",
            f'taken away, one at a time, from the same fits of `effort="{EFFORT}"`, to',
            f"{listed(all_values(rows, 'table'))}; seeds {listed(all_values(rows, 'seed'))}.",
            "Cells are scored one by one, given what their row shows, in the",
            "rows that were fitted (in sample) and in new ones. The first line is the calibration as it is; the others",
            "are changes from it, of errors in percent, and their standard errors over tables and seeds: a change of",
            "less than two of these may be chance. A part is counted on the tables that have it.",
        )
    ]
    for mask in masks:
        for setting, name in SETTINGS.items():
            some = [row for row in rows if (row["mechanism"], row["rate"]) == mask]
            parts += [f"{mask_name(*mask)}, {name}:", _table(some, setting)]
    parts.append(
        f"`python -m benchmarks {BENCHMARK.name}` repeats it. Machine: {', '.join(all_values(rows, 'machine'))}."
    )
    return "\n## The parts of the calibration\n\n" + "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row], setting: str) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row["parts"] if name != WHOLE))
    whole = [_mean([row["parts"][WHOLE][setting].get(m) for row in rows]) for m in MEASURES]
    lines = [[WHOLE, *whole], *([name, *(_change(rows, setting, name, m) for m in MEASURES)] for name in names)]
    return markdown(["without", *(heading for heading, _ in MEASURES.values())], lines)


def _mean(values: Sequence[float | None]) -> str:
    found = [value for value in values if value is not None]
    return f"{np.mean(found):.3f}" if found else "–"


def _change(rows: Sequence[Row], setting: str, name: str, measure: str) -> str:
    """Mean over the runs and its standard error; – where nothing changes at all."""
    relative = MEASURES[measure][1]
    changes = []
    for row in rows:
        found = [row["parts"].get(which, {}).get(setting, {}).get(measure) for which in (WHOLE, name)]
        if None not in found:
            before, after = found
            changes.append((after / before - 1 if before else 0.0) if relative else after - before)
    if not any(changes):
        return "–"
    mean, error = np.mean(changes), np.std(changes, ddof=1) / math.sqrt(len(changes)) if len(changes) > 1 else math.nan
    return f"{mean:+.1%} ± {error:.1%}" if relative else f"{mean:+.3f} ± {error:.3f}"


def in_words(row: Row) -> str:
    found = row["parts"][WHOLE]["in_sample"]
    return ", ".join(f"{name} {value:.3f}" for name, value in found.items()) + f" in {row['seconds']:.0f} s"


BENCHMARK = Benchmark(
    "calibration-parts", ("table", "mechanism", "rate", "seed"), in_process(__name__), in_words, limit=900.0
)


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of(BENCHMARK.name, __doc__)
    add_grid_options(parser, data.NAMES, None, GRID)
    options.add_run_options(parser, BENCHMARK)
    o = parser.parse_args(arguments)
    options.run_with(o, BENCHMARK, [asdict(task) for task in grid_of(GRID, o).tasks()])
