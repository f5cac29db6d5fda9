"""How good an imputation is, scored on the hidden cells only.

Tables are (n, N), one column a variable; `mask` is bool, True = observed, so hidden cells are `~mask`. The
truth may be NaN where nothing is scored (a cell missing from the start), but not at a hidden cell. A column
that cannot be scored is NaN in `Score.per_column` and counted in `Score.skipped`.

>>> truth = np.array([[0.0, 7.0], [2.0, 7.0]])
>>> score = nrmse(truth, np.array([[1.0, 8.0], [2.0, 7.0]]), np.array([[False, False], [True, True]]))
>>> score.value, score.per_column, score.skipped
(1.0, array([ 1., nan]), 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, eq=False)
class Score:
    """A number, what it is made of, and how many columns it leaves out.

    >>> f"{float(Score(0.5, np.array([0.5, np.nan]), 1)):.2f}"
    '0.50'
    """

    value: float  # NaN when no column could be scored
    per_column: np.ndarray  # (N,), NaN where left out
    skipped: int

    def __float__(self) -> float:
        return self.value


class MaskFidelity(NamedTuple):
    """How far sampled masks are from real ones; 0 everywhere is a perfect match."""

    proportion: float  # overall missing proportion, sampled minus real
    column_rate: float  # largest absolute difference of a column's missing rate
    correlation: float  # largest absolute difference of a pair's missingness correlation


#: What each `definition` of `nrmse` means; print the sentence beside every table.
NRMSE_DEFINITIONS: dict[str, str] = {
    "column": "RMSE on the hidden cells / std of the true column over the rows scored; mean over columns",
    "pooled": "sqrt(MSE / variance of the true values), both over all hidden cells together (missForest)",
    "range": "RMSE on the hidden cells / (max - min) of the true column; mean over columns (HI-VAE)",
}


def nrmse(truth: np.ndarray, imputed: np.ndarray, mask: np.ndarray, *, definition: str = "column") -> Score:
    """Normalised root mean squared error; the definitions are in `NRMSE_DEFINITIONS`. Arrays are (n, N).

    column: 1/N Σ_j RMSE_j / std_j;  range: 1/N Σ_j RMSE_j / (max_j - min_j);  pooled: √(MSE / var), where
    `per_column` is RMSE_j over the pooled std. Constant columns are left out, except in pooled.

    >>> truth, mask = np.array([[0.0], [2.0], [4.0]]), np.array([[False], [True], [False]])
    >>> imputed = np.full((3, 1), 2.0)
    >>> [round(float(nrmse(truth, imputed, mask, definition=d)), 3) for d in ("column", "pooled", "range")]
    [1.225, 1.0, 0.5]
    """
    if definition not in NRMSE_DEFINITIONS:
        raise ValueError(f"unknown definition {definition!r}; use one of {', '.join(NRMSE_DEFINITIONS)}")
    truth, imputed, hidden = _tables(truth, imputed, mask)
    squares = _errors(truth, imputed, hidden) ** 2  # (n, N)
    rmse = np.sqrt(_per_column(squares, hidden))  # (N,)
    if definition == "column":
        return _mean_over_columns(_over(rmse, _std(truth)))
    if definition == "range":
        return _mean_over_columns(_over(rmse, _range(truth)))
    std = _std(truth[hidden][:, None])[0]  # over all hidden cells at once
    per_column = _over(rmse, np.full(rmse.shape, std))
    value = float(np.sqrt(squares[hidden].mean()) / std) if std > 0 else np.nan
    return Score(value, per_column, int(np.isnan(per_column).sum()))


def pfc(truth_codes: np.ndarray, imputed_codes: np.ndarray, mask: np.ndarray) -> Score:
    """Proportion falsely classified: share of a column's hidden cells that are wrong; mean over columns.

    Codes are (n, N) whole numbers.

    >>> pfc(np.array([[0], [1], [2]]), np.array([[0], [2], [9]]), np.array([[False], [False], [True]])).value
    0.5
    """
    truth, imputed, hidden = _tables(truth_codes, imputed_codes, mask)
    return _mean_over_columns(_per_column(truth != imputed, hidden))


def mse(truth: np.ndarray, imputed: np.ndarray, mask: np.ndarray) -> Score:
    """Mean squared error: Σ (x̂ - x)² / number of hidden cells, pooled over columns; arrays are (n, N).

    >>> mse(np.array([[1.0, 2.0]]), np.array([[3.0, 2.0]]), np.array([[False, False]])).value
    2.0
    """
    truth, imputed, hidden = _tables(truth, imputed, mask)
    return _mean_over_cells(_errors(truth, imputed, hidden) ** 2, hidden)


def crps(truth: np.ndarray, draws: np.ndarray, mask: np.ndarray, *, fair: bool = False) -> Score:
    """Continuous ranked probability score of draws (S, n, N): E|X - y| - ½ E|X - X'|, over the column's std.

    Mean over the hidden cells / std of the true column over the rows scored; then the mean over columns.
    E|X - X'| runs over all S² pairs of draws; `fair` leaves out the S of a draw with itself, so that the
    score is unbiased in S. One draw makes it the mean absolute error.

    >>> truth, mask = np.array([[0.0], [2.0]]), np.array([[False], [True]])
    >>> draws = np.array([-1.0, 1.0])[:, None, None] * np.ones((2, 2, 1))
    >>> crps(truth, draws, mask).value, crps(truth, draws, mask, fair=True).value
    (0.5, 0.0)
    """
    truth, hidden = _table(truth, mask)
    draws = _draws(draws, truth.shape, fair)
    _refuse_nan("draws", draws[:, hidden])
    deviations = np.sort(draws[:, hidden] - truth[hidden], axis=0)  # (S, H)
    count = len(deviations)
    # Sorted, x_(i) is the larger of i pairs and the smaller of S - 1 - i: the sum over pairs is linear.
    rank = 2.0 * np.arange(count) - (count - 1)
    difference = rank @ deviations / _pairs(count, fair)  # ½ E|X - X'|, (H,)
    cells = np.zeros(truth.shape)
    cells[hidden] = np.abs(deviations).mean(axis=0) - difference
    return _mean_over_columns(_over(_per_column(cells, hidden), _std(truth)))


def energy_score(truth: np.ndarray, draws: np.ndarray, *, fair: bool = False) -> float:
    """Energy score of vectors, E‖X - y‖ - ½ E‖X - X'‖, mean over rows: CRPS for d = 1, without a scale.

    truth (n, d) holds only the rows to score; draws are (S, n, d). `fair` is that of `crps`.

    >>> energy_score(np.zeros((1, 2)), np.array([[[3.0, 4.0]], [[-3.0, -4.0]]]))
    2.5
    """
    truth = np.asarray(truth, dtype=float)
    if truth.ndim != 2 or truth.size == 0:
        raise ValueError(f"truth must be (rows, d) with at least one cell, not of shape {truth.shape}")
    draws = _draws(draws, truth.shape, fair)
    _refuse_nan("truth", truth)
    _refuse_nan("draws", draws)
    distance = np.linalg.norm(draws - truth, axis=-1).mean()
    # A draw at a time: all pairs at once would be an (S, S, n, d) array.
    between = sum(np.linalg.norm(draws[s + 1 :] - draws[s], axis=-1).sum(axis=0) for s in range(len(draws)))
    return float(distance - np.mean(between) / _pairs(len(draws), fair))


def interval_coverage(truth: np.ndarray, lower: np.ndarray, upper: np.ndarray, mask: np.ndarray) -> Score:
    """Share of hidden cells with lower ≤ x ≤ upper, pooled over columns; arrays are (n, N).

    >>> truth, mask = np.array([[1.0], [5.0]]), np.array([[False], [False]])
    >>> interval_coverage(truth, np.zeros((2, 1)), np.full((2, 1), 2.0), mask).value
    0.5
    """
    truth, lower, hidden = _tables(truth, lower, mask, name="lower")
    truth, upper, hidden = _tables(truth, upper, mask, name="upper")
    swapped = int((lower > upper)[hidden].sum())
    if swapped:
        raise ValueError(f"lower is above upper at {swapped} hidden cells; pass the bounds as (lower, upper)")
    return _mean_over_cells((lower <= truth) & (truth <= upper), hidden)


def mask_fidelity(mask: np.ndarray, sampled: np.ndarray) -> MaskFidelity:
    """Compare real masks (n, N) with sampled ones (n', N): proportion, columns' rates, pairs' correlation.

    The correlation is that of two columns' missingness; a column that never or always goes missing has 0.

    >>> real = np.array([[True, True], [False, False]])
    >>> mask_fidelity(real, np.array([[True, False], [False, True]]))
    MaskFidelity(proportion=0.0, column_rate=0.0, correlation=2.0)
    """
    missing, resampled = ~_bool("mask", mask), ~_bool("sampled", sampled)
    if missing.ndim != 2 or resampled.ndim != 2 or missing.shape[1] != resampled.shape[1]:
        raise ValueError(f"masks of shapes {missing.shape} and {resampled.shape} do not share their columns")
    if 0 in missing.shape or 0 in resampled.shape:
        raise ValueError("there are no cells to compare; pass masks with at least one row and one column")
    pair = np.triu_indices(missing.shape[1], k=1)
    difference = np.abs(_correlation(resampled) - _correlation(missing))[pair]
    return MaskFidelity(
        proportion=float(resampled.mean() - missing.mean()),
        column_rate=float(np.abs(resampled.mean(axis=0) - missing.mean(axis=0)).max()),
        correlation=float(difference.max(initial=0.0)),
    )


def mean_mode(x: np.ndarray, mask: np.ndarray, discrete: np.ndarray) -> np.ndarray:
    """Return each column's mean over observed cells, or the mode where `discrete` (N,); (N,) values.

    The smallest code wins a tie. A column without an observed cell gets 0.

    >>> x = np.array([[1.0, 2.0], [4.0, 1.0], [9.0, 1.0]])
    >>> mask = np.array([[True, True], [True, True], [False, True]])
    >>> mean_mode(x, mask, np.array([False, True]))
    array([2.5, 1. ])
    """
    x = np.asarray(x, dtype=float)
    observed, discrete = _bool("mask", mask), _bool("discrete", discrete)
    if x.ndim != 2 or observed.shape != x.shape or discrete.shape != x.shape[1:]:
        raise ValueError(f"shapes do not fit: x {x.shape}, mask {observed.shape}, discrete {discrete.shape}")
    _refuse_nan("x", x[observed], where="observed")
    columns = zip(x.T, observed.T, discrete, strict=True)
    return np.array([_typical(column[seen], is_code) for column, seen, is_code in columns])


def mean_mode_fill(x: np.ndarray, mask: np.ndarray, discrete: np.ndarray) -> np.ndarray:
    """Fill the hidden cells of x (n, N) with `mean_mode`: the trivial predictor that stands in every table.

    >>> x, mask = np.array([[1.0], [3.0], [np.nan]]), np.array([[True], [True], [False]])
    >>> mean_mode_fill(x, mask, np.array([False])).ravel()
    array([1., 3., 2.])
    """
    return np.where(mask, x, mean_mode(x, mask, discrete))


def _typical(values: np.ndarray, is_code: bool) -> float:
    if values.size == 0:
        return 0.0
    if not is_code:
        return float(values.mean())
    codes, counts = np.unique(values, return_counts=True)
    return float(codes[counts.argmax()])


def _pairs(count: int, fair: bool) -> int:
    """½ E|X - X'| is the sum over unordered pairs divided by this."""
    return count * (count - 1 if fair else count)


def _errors(truth: np.ndarray, imputed: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """x̂ - x at hidden cells, 0 elsewhere (where the truth may be NaN)."""
    errors: np.ndarray = np.subtract(imputed, truth, out=np.zeros(truth.shape), where=hidden)
    return errors


def _per_column(cells: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Mean of (n, N) over each column's hidden cells, (N,); NaN for a column without any."""
    return _over(np.where(hidden, cells, 0.0).sum(axis=0), hidden.sum(axis=0))


def _over(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """values / scale, NaN where the scale is 0."""
    ratio: np.ndarray = np.divide(values, scale, out=np.full(values.shape, np.nan), where=scale > 0)
    return ratio


def _mean_over_columns(per_column: np.ndarray) -> Score:
    # The cells scored are known to be free of NaN, so a NaN here is a column left out.
    left_out = np.isnan(per_column)
    value = np.nan if left_out.all() else per_column[~left_out].mean()
    return Score(float(value), per_column, int(left_out.sum()))


def _mean_over_cells(cells: np.ndarray, hidden: np.ndarray) -> Score:
    per_column = _per_column(cells, hidden)
    value = cells[hidden].mean() if hidden.any() else np.nan
    return Score(float(value), per_column, int(np.isnan(per_column).sum()))


def _range(truth: np.ndarray) -> np.ndarray:
    """max - min of each column's known values, (N,); 0 for a column with none."""
    known = ~np.isnan(truth)
    high = np.max(truth, axis=0, where=known, initial=-np.inf)
    low = np.min(truth, axis=0, where=known, initial=np.inf)
    return np.where(known.any(axis=0), high - low, 0.0)


def _std(truth: np.ndarray) -> np.ndarray:
    """Population std of each column's known values, (N,); exactly 0 if they are equal or there are none."""
    known = ~np.isnan(truth)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, truth, 0.0).sum(axis=0) / count
    deviations = np.where(known, truth - mean, 0.0)
    # Rounding can leave 1e-17 for equal numbers, which would pass for a scale: the range decides.
    return np.where(_range(truth) > 0, np.sqrt((deviations**2).sum(axis=0) / count), 0.0)


def _correlation(missing: np.ndarray) -> np.ndarray:
    centred = missing - missing.mean(axis=0)
    std = missing.std(axis=0)
    z = np.divide(centred, std, out=np.zeros(centred.shape), where=std > 0)
    correlation: np.ndarray = z.T @ z / len(missing)
    return correlation


def _tables(
    truth: np.ndarray, imputed: np.ndarray, mask: np.ndarray, name: str = "imputed"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return truth and imputed as floats and the hidden cells, all (n, N), or say what is wrong with them."""
    truth, hidden = _table(truth, mask)
    imputed = np.asarray(imputed, dtype=float)
    if imputed.shape != truth.shape:
        raise ValueError(f"{name} has shape {imputed.shape}, truth {truth.shape}; they must be the same")
    _refuse_nan(name, imputed[hidden])
    return truth, imputed, hidden


def _table(truth: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    truth, hidden = np.asarray(truth, dtype=float), ~_bool("mask", mask)
    if truth.ndim != 2 or len(truth) == 0 or hidden.shape != truth.shape:
        raise ValueError(
            f"truth and mask must be (rows, columns) of one shape with at least one row, "
            f"not {truth.shape} and {hidden.shape}"
        )
    _refuse_nan("truth", truth[hidden])
    return truth, hidden


def _draws(draws: np.ndarray, shape: tuple[int, ...], fair: bool) -> np.ndarray:
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 3 or draws.shape[1:] != shape:
        raise ValueError(f"draws must be (S, {', '.join(map(str, shape))}), not of shape {draws.shape}")
    if len(draws) < 1 + fair:
        raise ValueError(f"{len(draws)} draws are too few for fair={fair}; pass at least {1 + fair}")
    return draws


def _bool(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype != bool:  # ~ of the integers 0 and 1 is -1 and -2, both truthy
        raise ValueError(f"{name} must be bool, not {array.dtype}; use {name}.astype(bool)")
    return array


def _refuse_nan(name: str, cells: np.ndarray, where: str = "hidden") -> None:
    bad = int(np.isnan(cells).sum())
    if bad:
        raise ValueError(f"{name} is NaN at {bad} {where} cells; fill them, or leave them out through the mask")
