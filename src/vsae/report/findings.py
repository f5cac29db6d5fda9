"""All that a report shows of a table and its imputation, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.evaluation.report import Evaluation
from vsae.fitting.fitted import FittedModel
from vsae.mechanism.report import MechanismReport
from vsae.plots.cells import Completed, Distribution, Pair, Uncertainty, distribution, strongest_pairs, uncertainty
from vsae.plots.curves import Training, training
from vsae.plots.missingness import Missingness, Shares, grouped
from vsae.report.story import Story
from vsae.table import Encoded, Table
from vsae.table.containers import View
from vsae.table.fills import Fill, fills
from vsae.table.plan import ColumnPlan

_MOST_ROWS = 3000  # that are drawn: a distribution is told as well by these
_MOST_DRAWN = 15_000  # missing cells of these rows
_QUANTILE_DRAWS = 50  # latent ones, that an interval is made of
_GROUPINGS, _FEWEST, _MOST = 6, 2, 12  # columns to group by, and their levels
_INTERVAL = (0.05, 0.95)
_UNSURE, _OF_A_COLUMN = 60, 5  # cells that are listed


@dataclass(frozen=True)
class UnsureCell:
    plan: ColumnPlan
    row: Any
    filled: str
    range: str
    relative: float


@dataclass(frozen=True)
class Findings:
    title: str
    plans: Mapping[Any, ColumnPlan]  # by label, as the table at hand has it
    asked: frozenset[Any]  # columns whose kind the user gave
    fills: Sequence[Fill]
    missingness: Missingness
    groups: Sequence[Shares]  # the first is the one that is shown first
    mechanism: MechanismReport
    rows: int
    drawn_rows: int  # of these, those that were drawn
    named_rows: bool  # by the index of the table; else they are numbered
    draws: int
    distributions: Sequence[Distribution]
    pairs: Sequence[Pair]
    uncertainty: Sequence[Uncertainty]
    unsure: Sequence[UnsureCell]
    evaluation: Evaluation | None
    unmeasured: str  # why there is no evaluation
    training: Training
    story: Story

    @property
    def filled(self) -> int:
        return sum(fill.size for fill in self.fills if not fill.left)

    @property
    def left(self) -> int:
        return sum(fill.size for fill in self.fills if fill.left)

    @property
    def missing(self) -> int:
        return self.filled + self.left

    @property
    def cells(self) -> int:
        return self.missingness.missing.size


@dataclass(frozen=True)
class Source:
    """What a report is made of."""

    view: View
    table: Table
    encoded: Encoded  # with what groups say of their rows, if they do
    fitted: FittedModel[Any]
    impute: Callable[[Encoded], Mapping[str, NDArray[Any]]]
    seed: int
    row_names: Sequence[Any] | None = None  # None: they are numbered from 1


def find(
    source: Source,
    *,
    title: str,
    mechanism: MechanismReport,
    evaluation: Evaluation | None,
    story: Story,
    unmeasured: str = "",
    by: Any = None,
    draws: int = 5,
    asked: frozenset[Any] = frozenset(),
) -> Findings:
    found = fills(source.table, source.view)
    missingness = Missingness(tuple(fill.label for fill in found), np.stack([fill.cells for fill in found], axis=1))
    rows = _rows(source, missingness)
    some = source.encoded.take(rows)
    completed = _completed(source, found, some, rows, draws)
    uncertain = _uncertainty(source, completed, some)
    history = source.fitted.history
    return Findings(
        title=title,
        plans={label: plan for plan, label in source.table.located(source.view)},
        asked=asked,
        fills=found,
        missingness=missingness,
        groups=_groups(source, missingness, by),
        mechanism=mechanism,
        rows=source.view.n,
        drawn_rows=len(rows),
        named_rows=source.row_names is not None,
        draws=draws,
        distributions=[distribution(completed, plan) for plan in completed.filled],
        pairs=strongest_pairs(completed),
        uncertainty=uncertain,
        unsure=_unsure(source, rows, uncertain),
        evaluation=evaluation,
        unmeasured=unmeasured,
        training=training(history.records, history.best_step),
        story=story,
    )


def _rows(source: Source, missingness: Missingness) -> NDArray[np.int64]:
    """All rows, or as many as are drawn soon."""
    per_row = max(1.0, float(missingness.missing.sum()) / max(1, source.view.n))
    most = min(_MOST_ROWS, max(200, int(_MOST_DRAWN / per_row)))
    return np.sort(np.random.default_rng(source.seed).permutation(source.view.n)[:most])


def _completed(source: Source, found: Sequence[Fill], some: Encoded, rows: NDArray[np.int64], draws: int) -> Completed:
    """Cells that do not apply, or that hold what the model does not know, are neither observed nor drawn."""
    tables = source.fitted.draw(some.columns, some.mask, draws, seed=source.seed, row_ids=rows)
    tables = [source.table.constrained(columns, some.mask, warn=False) for columns in tables]
    filled = {fill.label: fill.filled[rows] for fill in found}
    hidden = np.zeros(some.mask.shape, dtype=np.bool_)
    for plan, label in source.table.located(source.view):
        if plan.kind is not None and label in filled:
            hidden[:, list(some.columns).index(plan.name)] = filled[label]
    plans = tuple(plan for plan in source.table.modelled if plan.shape is None)
    return Completed(plans, some, tables, hidden)


def _groups(source: Source, missingness: Missingness, by: Any) -> list[Shares]:
    """By the column that was chosen, and by those whose groups differ most."""
    found = []
    for plan, label in source.table.located(source.view):
        if plan.kind is None or label == by or label not in source.view.columns:
            continue
        if not _FEWEST <= len(plan.levels) <= _MOST:
            continue
        at = [other.name for other in source.table.modelled].index(plan.name)
        codes = np.where(source.encoded.mask[:, at], source.encoded.columns[plan.name], -1).astype(np.int64)
        found.append(missingness.by_group(label, plan.levels, codes))
    found = sorted(found, key=lambda shares: -shares.spread)[:_GROUPINGS]
    return found if by is None else [missingness.by_group(by, *grouped(source.view, by)), *found]


def _uncertainty(source: Source, completed: Completed, some: Encoded) -> list[Uncertainty]:
    low, high = source.fitted.quantiles(some.columns, some.mask, _INTERVAL, draws=_QUANTILE_DRAWS, seed=source.seed)
    chances = source.fitted.probabilities(some.columns, some.mask)
    filled = source.impute(some)
    found = []
    for plan in completed.filled:
        shares = chances.get(plan.name, np.zeros((0, 0)))
        each = uncertainty(completed, plan, low[plan.name], high[plan.name], shares)
        put = filled[plan.name][each.rows]  # which a strategy may choose otherwise
        chance = shares[each.rows, put.astype(np.int64)] if plan.levels else each.low
        found.append(each._replace(filled=put, low=chance))
    return found


def _unsure(source: Source, rows: NDArray[np.int64], found: Sequence[Uncertainty]) -> list[UnsureCell]:
    names = source.row_names
    cells = []
    for each in found:
        show = each.plan.show
        for k in np.argsort(-each.relative, kind="stable")[:_OF_A_COLUMN].tolist():
            row = int(rows[each.rows[k]])
            if each.plan.levels:
                filled = each.plan.show_value(each.plan.levels[int(each.filled[k])])
                said = f"probability {each.low[k]:.2f}"
            else:
                filled, *ends = (show(_rounded(each.plan, float(x[k]))) for x in (each.filled, each.low, each.high))
                said = f"{ends[0]} to {ends[1]}"
            name = row + 1 if names is None else names[row]
            cells.append(UnsureCell(each.plan, name, filled, said, float(each.relative[k])))
    return sorted(cells, key=lambda cell: -cell.relative)[:_UNSURE]


def _rounded(plan: ColumnPlan, x: float) -> float:
    return float(np.rint(x)) if plan.whole or plan.unit else float(f"{x:.4g}")
