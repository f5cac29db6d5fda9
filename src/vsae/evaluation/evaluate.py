"""How good is a model on a table? Hide known cells, fit anew on what is left, and score what is said of the hidden."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import DISCRETE, Variable
from vsae.evaluation.chains import CHAINS
from vsae.evaluation.hiding import hidden_cells
from vsae.evaluation.report import TRIVIAL, ColumnEvaluation, Evaluation, HiddenCells

Numbers = NDArray[np.float64]
Bools = NDArray[np.bool_]
INTERVALS = {0.5: (0.25, 0.75), 0.9: (0.05, 0.95)}  # level → ranks of the ends
_LEVEL_SHOWN = 0.9
RANKS = sorted(rank for ends in INTERVALS.values() for rank in ends)
FEWEST_ROWS = 30
_FEWEST_CELLS = 20  # known ones of a column that is scored
_ENOUGH_CELLS, _MOST_REPEATS = 1000, 5  # a column; 1,000 cells tell a root mean squared error to some 2 %
_SHOWN = 200  # hidden cells of a column that are kept, to look at
_BEYOND_CHANCE = 2.33  # standard errors by which one is better: chance is so kind to one column in 100


class Prediction(NamedTuple):
    """What a model says of some rows, (r, M)."""

    filled: Numbers
    quantiles: Mapping[float, Numbers]  # by rank, one of `RANKS`; of numbers
    probabilities: Mapping[int, Numbers]  # column → (r, levels)


@dataclass(frozen=True)
class KnownTable:
    """A table of numbers and level codes, (n, M), and what is known of it."""

    names: Sequence[str]
    labels: Sequence[Any]  # of the user
    kinds: Sequence[str]  # in words
    levels: NDArray[np.int64]  # (M,), 0 for numbers
    x: Numbers  # anything finite where it is not known
    known: Bools
    missing: Bools  # a cell that does not apply is neither

    @classmethod
    def of(
        cls,
        variables: Sequence[Variable],
        labels: Sequence[Any],
        kinds: Sequence[str],
        columns: Mapping[str, NDArray[Any]],
        known: Bools,
        missing: Bools,
    ) -> KnownTable:
        if not variables:
            raise ValueError("the table has no column of numbers or levels, which alone are scored")
        levels = np.array([v.size if v.family in DISCRETE else 0 for v in variables])
        names = [v.name for v in variables]
        return cls(names, labels, kinds, levels, np.where(known, _stacked(columns, names), 0.0), known, missing)

    def prediction(
        self,
        filled: Mapping[str, NDArray[Any]],
        quantiles: Sequence[Mapping[str, NDArray[Any]]],
        probabilities: Mapping[str, Numbers],
    ) -> Prediction:
        """From columns by name; the quantiles are at `RANKS`."""
        cuts = {rank: _stacked(cut, self.names) for rank, cut in zip(RANKS, quantiles, strict=True)}
        chances = {j: probabilities[name] for j, name in enumerate(self.names) if self.levels[j]}
        return Prediction(_stacked(filled, self.names), cuts, chances)


def _stacked(columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Numbers:
    return np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], axis=1)


#: Fit on the cells of a mask (n, M) and predict some rows; the number of the fit, from 0, and of all fits come last.
FitPredict = Callable[[Bools, NDArray[np.int64], int, int], Prediction]


class _Cells(NamedTuple):
    """Hidden cells, (H,) each."""

    column: NDArray[np.int64]
    miss: dict[str, Numbers]  # by method, ours first: absolute error of a number, 1 or 0 of a level
    inside: dict[float, Bools]  # of the interval of that level
    confidence: Numbers  # probability of the most probable level
    gain: Numbers  # of ours over mean and mode, squared error; over frequencies, Brier score
    shown: HiddenCells


def evaluate(
    table: KnownTable,
    fit_predict: FitPredict,
    *,
    holdout: float = 0.1,
    repeats: int | None = None,
    compare: Sequence[str] = tuple(CHAINS),
    seed: int = 0,
    name: str = "vsae",
) -> Evaluation:
    """Errors a column, ours by `name`. No cell is hidden twice, and none is scored by a fit that has seen it."""
    left_out = _check(table, holdout, repeats, compare)
    scored = np.array([label not in left_out for label in table.labels])
    known = table.known & scored
    if repeats is None:
        repeats = math.ceil(_ENOUGH_CELLS / max(1.0, holdout * np.median(known.sum(axis=0)[scored])))
        repeats = min(repeats, _MOST_REPEATS, math.floor(1 / holdout))
    methods = (TRIVIAL, *(method for method in compare if method != TRIVIAL))
    rng, used = np.random.default_rng(seed), np.zeros(known.shape, dtype=np.bool_)
    seconds, parts = dict.fromkeys((name, *methods), 0.0), []
    for repeat in range(repeats):
        hidden = hidden_cells(known, table.missing & scored, holdout, rng, used=used)
        used |= hidden
        shown, rows = table.known & ~hidden, np.flatnonzero(hidden.any(axis=1))
        began = time.perf_counter()
        said = fit_predict(shown, rows, repeat, repeats)
        seconds[name] += time.perf_counter() - began
        filled = {name: said.filled}
        for method in methods:
            began = time.perf_counter()
            filled[method] = CHAINS[method](table.x, shown, table.levels, seed + repeat)[rows]
            seconds[method] += time.perf_counter() - began
        parts.append(_scored(table, shown, hidden, rows, filled, said))
    cells = _joined(parts)
    found = tuple(_column(table, int(j), cells) for j in np.unique(cells.column))
    unreached = dict.fromkeys(table.labels, "no known cell was hidden") | left_out
    for column in found:
        unreached.pop(column.column, None)
    return Evaluation(found, unreached, seconds, repeats, holdout, _to_show(table, cells, rng))


def _check(table: KnownTable, holdout: float, repeats: int | None, compare: Sequence[str]) -> dict[Any, str]:
    """Columns that cannot be scored, and why; what cannot be at all is refused."""
    if not 0 < holdout < 1:
        raise ValueError(f"holdout must be a share of the known cells between 0 and 1, not {holdout}")
    if repeats is not None and not 1 <= repeats <= 1 / holdout:
        raise ValueError(
            f"repeats must be from 1 to {math.floor(1 / holdout)}, as no cell is hidden twice; not {repeats}"
        )
    if unknown := [method for method in compare if method not in CHAINS]:
        raise ValueError(f"compare names {unknown[0]!r}; choose from {', '.join(CHAINS)}")
    n, counts = len(table.x), table.known.sum(axis=0)
    if n < FEWEST_ROWS:
        raise ValueError(f"the table has {n} rows; evaluate hides some of them, and needs at least {FEWEST_ROWS}")
    left_out: dict[Any, str] = {}
    for j, label in enumerate(table.labels):
        x = table.x[table.known[:, j], j]
        if counts[j] < _FEWEST_CELLS:
            left_out[label] = f"fewer than {_FEWEST_CELLS} known cells"
        elif not np.ptp(x):
            left_out[label] = "all known cells are the same"
    if len(left_out) == len(table.labels):
        why = ", ".join(f"{label!r} ({why})" for label, why in list(left_out.items())[:5])
        raise ValueError(f"no column can be scored: {why}; evaluate needs more known cells")
    return left_out


def _scored(
    table: KnownTable,
    shown: Bools,
    hidden: Bools,
    rows: NDArray[np.int64],
    filled: Mapping[str, Numbers],
    said: Prediction,
) -> _Cells:
    row, column = np.nonzero(hidden[rows])
    truth, discrete = table.x[rows][row, column], table.levels[column] > 0
    off = {method: np.abs(x[row, column] - truth) for method, x in filled.items()}
    miss = {method: np.where(discrete, x > 0, x) for method, x in off.items()}
    inside = {}
    for level, ends in INTERVALS.items():
        low, high = (said.quantiles[rank][row, column] for rank in ends)
        inside[level] = (low <= truth) & (truth <= high)
    confidence, gain = np.full(len(truth), np.nan), miss[TRIVIAL] ** 2 - next(iter(miss.values())) ** 2
    for j, chances in said.probabilities.items():
        at = column == j
        codes = truth[at].astype(np.int64)
        known = table.x[shown[:, j], j].astype(np.int64)
        frequencies = np.bincount(known, minlength=chances.shape[1]) / max(1, len(known))
        confidence[at] = chances[row[at]].max(axis=1)
        gain[at] = _brier(np.tile(frequencies, (len(codes), 1)), codes) - _brier(chances[row[at]], codes)
    low, high = (said.quantiles[rank][row, column] for rank in INTERVALS[_LEVEL_SHOWN])
    return _Cells(
        column, miss, inside, confidence, gain, HiddenCells(truth, said.filled[row, column], low, high, confidence)
    )


def _brier(chances: Numbers, codes: NDArray[np.int64]) -> Numbers:
    return ((chances - np.eye(chances.shape[1])[codes]) ** 2).sum(axis=1)


def _joined(parts: Sequence[_Cells]) -> _Cells:
    return _Cells(
        np.concatenate([part.column for part in parts]),
        {method: np.concatenate([part.miss[method] for part in parts]) for method in parts[0].miss},
        {level: np.concatenate([part.inside[level] for part in parts]) for level in INTERVALS},
        np.concatenate([part.confidence for part in parts]),
        np.concatenate([part.gain for part in parts]),
        HiddenCells(*map(np.concatenate, zip(*(part.shown for part in parts), strict=True))),
    )


def _to_show(table: KnownTable, cells: _Cells, rng: np.random.Generator) -> dict[Any, HiddenCells]:
    """Some cells of each column, by label."""
    found = {}
    for j in np.unique(cells.column):
        at = rng.permutation(np.flatnonzero(cells.column == j))[:_SHOWN]
        found[table.labels[j]] = HiddenCells(*(x[at] for x in cells.shown))
    return found


def _column(table: KnownTable, j: int, cells: _Cells) -> ColumnEvaluation:
    at, number = cells.column == j, not table.levels[j]
    miss = {method: x[at] for method, x in cells.miss.items()}
    std = float(table.x[table.known[:, j], j].std())
    errors = {method: float(np.sqrt((x**2).mean()) / std if number else x.mean()) for method, x in miss.items()}
    ours = next(iter(miss.values()))
    gains = (cells.gain[at], miss[TRIVIAL] ** 2 - ours**2)
    return ColumnEvaluation(
        table.labels[j],
        table.kinds[j],
        "NRMSE" if number else "share wrong",
        int(at.sum()),
        errors,
        _standard_error(ours, std if number else None),
        float(ours.mean()) if number else None,
        {level: float(x[at].mean()) for level, x in cells.inside.items()} if number else None,
        None if number else float(cells.confidence[at].mean()),
        any(_is_positive(gain) for gain in gains),
    )


def _standard_error(miss: Numbers, std: float | None) -> float:
    """Of a share, or of a root mean squared error / std, by the delta method."""
    error = float((miss**2).std() / math.sqrt(len(miss)))
    if std is None:
        return error
    rmse = math.sqrt(float((miss**2).mean()))
    return error / (2 * rmse) / std if rmse > 0 else 0.0


def _is_positive(gain: Numbers) -> bool:
    """Whether a mean is, beyond chance."""
    return bool(gain.mean() > _BEYOND_CHANCE * gain.std() / math.sqrt(len(gain)))
