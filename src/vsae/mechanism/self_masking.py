"""How strongly a column masks itself, read off its mask.

Of a cell that is missing with log odds a·x + b, the rest of its row says p(x | rest, observed), whether it is missing
or not. So the odds that it is missing, given the rest, are

    E[exp(a x + b) | rest, observed],

a logistic regression of the mask on the model's own prediction of the column, made without looking at it; for levels,
on log Σ p_k exp(a_k). Its slope is a. It assumes that, given the column's value, the rest of the row says nothing more
of the mask: `evidence.py` tells whether that is likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.schema import Block
from vsae.imputation.imputer import Imputer
from vsae.imputation.predictive import predict
from vsae.imputation.tilts import MASSES, RANKS, Tilts
from vsae.mechanism.censored import fit_thresholds, is_cut_off

_MOST_ROWS = 4000
_STEEPEST = 4.0  # in standard units: e⁴ odds for a standard deviation
_STEEP = 2.0  # from which on a column may be cut off, unless it is said to hide on one side
_SLOPES = np.linspace(-_STEEPEST, _STEEPEST, 65)
_NEWTON_STEPS = 12
_RIDGE_OF_NUMBERS = 0.5  # a in standard units of the column, as a normal prior with std 1.4 has it
_RIDGE_OF_LEVELS = 1.0
_LARGEST_STEP = 1.0
_SIGNS = {"self-masking": 0, "+": 1, "-": -1}


Said = Literal["self-masking", "+", "-"] | float  # of a column: that it masks itself, with which sign, how strongly


def fit_tilts(imputer: Imputer[Any], columns: Columns, mask: Mask, said: Mapping[str, Said], seed: int = 0) -> Tilts:
    """Of the variables named, from the rows of a table, or a sample of them."""
    schema = imputer.schema
    rows = np.sort(np.random.default_rng(seed).permutation(len(mask))[:_MOST_ROWS])
    some, shown = {name: np.asarray(x)[rows] for name, x in columns.items()}, mask[rows]
    numbers: dict[str, float] = {}
    errors: dict[str, float] = {}
    levels: dict[str, NDArray[np.float64]] = {}
    cut_off: dict[str, int] = {}
    x = _numbers(imputer, some, shown)
    at = {v.name: k for k, v in enumerate(v for block in schema.number_blocks for v in block.variables)}
    for block in schema.blocks:
        for j, (variable, i) in enumerate(zip(block.variables, block.attributes, strict=True)):
            name, what = variable.name, said.get(variable.name)
            if what is None:
                continue
            hidden, missing = shown.copy(), (~shown[:, i]).astype(np.float64)
            hidden[:, i] = False
            if block not in schema.number_blocks:
                share = predicted_shares(imputer, some, hidden, block, name)
                levels[name] = _factors(share, missing, what)
            elif isinstance(what, str):
                known = predicted(imputer, some, hidden, block, j)
                numbers[name], errors[name] = slope(known.values, MASSES.numpy(), missing, _SIGNS[what])
                sign = 1 if numbers[name] > 0 else -1
                if (abs(numbers[name]) > _STEEP or _SIGNS[what]) and is_cut_off(x[:, at[name]], missing > 0, sign):
                    cut_off[name] = sign
                    del numbers[name], errors[name]
            else:
                numbers[name] = float(what)
    if not cut_off:
        return Tilts(numbers, levels, errors=errors)
    seen = shown[:, [schema.attribute_of[name] for name in at]]
    return Tilts(numbers, levels, fit_thresholds(x, seen, list(at), cut_off, seed), errors)


def _numbers(imputer: Imputer[Any], columns: Columns, mask: Mask) -> NDArray[np.float64]:
    """In standard units, (n, numbers)."""
    blocks = imputer.schema.number_blocks
    if not blocks:
        return np.zeros((len(mask), 0))
    return np.asarray(imputer.encoding.encode(columns, mask).numbers(blocks).double().numpy(), dtype=np.float64)


def _factors(share: NDArray[np.float64], missing: NDArray[np.float64], what: Said) -> NDArray[np.float64]:
    """Of levels: each its own, or along their order if a sign or a slope is given."""
    if what == "self-masking":
        return factors_of_levels(share, missing)
    frequency, code = share.mean(axis=0), np.arange(share.shape[1], dtype=np.float64)
    code -= frequency @ code
    code /= max(float(np.sqrt(frequency @ code**2)), 1e-6)  # so that slopes are per standard deviation, as of numbers
    if isinstance(what, str):
        what = slope(np.broadcast_to(code, share.shape), share, missing, _SIGNS[what]).value
    return what * code


class Predicted(NamedTuple):
    """Of a number, in standard units."""

    estimate: NDArray[np.float64]  # (n,)
    values: NDArray[np.float64]  # (n, G), at `RANKS`


def predicted(imputer: Imputer[Any], columns: Columns, mask: Mask, block: Block, variable: int) -> Predicted:
    estimates, values = [], []
    for _, batch in imputer.chunks(columns, mask, len(RANKS)):
        known = predict(imputer, batch, [block.name], attributes=[block.attributes[variable]], missing=False)
        rank = RANKS[:, None, None].expand(-1, batch.mask.shape[1], 1).to(batch.mask.device)
        values.append(known.quantile(block.name, [variable], rank)[..., 0].T.cpu())
        estimates.append(known.numbers[block.name].estimate[:, variable].cpu())
    return Predicted(torch.cat(estimates).double().numpy(), torch.cat(values).double().numpy())


def predicted_shares(
    imputer: Imputer[Any], columns: Columns, mask: Mask, block: Block, name: str
) -> NDArray[np.float64]:
    """(n, levels)."""
    return np.concatenate(
        [
            predict(imputer, batch, [block.name], missing=False).levels[name]
            for _, batch in imputer.chunks(columns, mask, 2)
        ]
    )


class Slope(NamedTuple):
    value: float
    error: float  # standard error


def slope(
    values: NDArray[np.float64], share: NDArray[np.float64], missing: NDArray[np.float64], sign: int = 0
) -> Slope:
    """a, from predicted values (n, G), how likely each is, and the mask (n,).

    If no sign is given, it is drawn towards 0 as far as it may be chance.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))
    >>> missing = rng.random(4000) < 1 / (1 + np.exp(-1.5 * x[:, 0]))
    >>> round(slope(x, np.ones(1), missing * 1.0).value, 1), slope(x, np.ones(1), missing * 1.0, sign=-1).value > -0.1
    (1.5, True)
    """
    if missing.min() == missing.max() and not sign:
        return Slope(0.0, 0.0)
    slopes = _SLOPES if not sign else _SLOPES[_SLOPES * sign >= 0]
    likelihood = -0.5 * _RIDGE_OF_NUMBERS * slopes**2
    if missing.min() < missing.max():
        odds = np.stack([_log_mean_exp(a * values, share) for a in slopes])  # (slopes, n)
        likelihood = likelihood + _profile_likelihood(odds, missing)
    weight = np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    mean = float(weight @ slopes)
    variance = float(weight @ (slopes - mean) ** 2)
    value = mean if sign or not mean else mean * mean**2 / (mean**2 + variance)
    return Slope(value, float(np.sqrt(variance)))


def factors_of_levels(share: NDArray[np.float64], missing: NDArray[np.float64]) -> NDArray[np.float64]:
    """a_k, (levels,), from probabilities (n, levels) and the mask (n,); they average 0 by frequency."""
    frequency = share.mean(axis=0)
    if missing.min() == missing.max():
        return np.zeros(len(frequency))
    factor, intercept = np.zeros(len(frequency)), float(np.log(missing.mean() / (1 - missing.mean())))
    for _ in range(_NEWTON_STEPS):
        mixed = share * np.exp(factor)
        total = mixed.sum(axis=1, keepdims=True)
        slope = np.column_stack([np.ones(len(share)), mixed / total])
        expected = 1 / (1 + np.exp(-(intercept + np.log(total[:, 0]))))
        penalty = np.r_[0.0, np.full(len(factor), _RIDGE_OF_LEVELS)]
        gradient = slope.T @ (missing - expected) - penalty * np.r_[0.0, factor]
        curvature = (slope.T * (expected * (1 - expected))) @ slope + np.diag(penalty + 1e-6)
        step = np.linalg.solve(curvature, gradient)
        step /= max(1.0, float(np.abs(step).max()) / _LARGEST_STEP)
        intercept, factor = intercept + step[0], factor + step[1:]
    return np.clip(factor - frequency @ factor, -_STEEPEST, _STEEPEST)


def _log_mean_exp(x: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, G) → (n,)."""
    top = x.max(axis=1, keepdims=True)
    mean = (np.exp(x - top) * share).sum(axis=1)
    return np.asarray(top[:, 0] + np.log(np.maximum(mean, 1e-300)), dtype=np.float64)


def _profile_likelihood(odds: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of log odds (slopes, n), each with the intercept that suits it best; (slopes,)."""
    centre = odds.mean(axis=1, keepdims=True)
    intercept = np.log(y.mean() / (1 - y.mean())) - centre
    for _ in range(_NEWTON_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(odds + intercept, -30.0, 30.0)))
        curvature = (expected * (1 - expected)).sum(axis=1, keepdims=True) + 1e-6
        intercept = intercept + np.clip((y - expected).sum(axis=1, keepdims=True) / curvature, -2.0, 2.0)
    found = np.clip(odds + intercept, -30.0, 30.0)
    return np.asarray((y * found - np.logaddexp(0.0, found)).sum(axis=1), dtype=np.float64)
