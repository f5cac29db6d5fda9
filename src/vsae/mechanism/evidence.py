"""Does a column mask itself? Evidence from the mask, against missingness that depends on the other columns.

What a missing cell would have held is not known, but what the rest of its row says of it is. If a column hides its own
high values, its mask rises along one direction in the space of the other columns: the one in which they predict it. If
the mask depends on other columns (MAR), it rises along whichever direction these have. So two regressions of the mask
are compared on rows that they were not fitted to: on the column's own prediction, and on all other values and masks.
The first one's share of the second one's gain is near 1 for a self-masking column.

How near it comes by chance depends on the table: where all columns follow one size, any direction is the prediction's.
So the share is compared with those that masks would have which depend on random others of this very table, and with
those of masks that depend on the own value, and half as much on others. The ratio of the two likelihoods is what one
column has to say. Few decide alone: how many columns of a table mask themselves is estimated from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.encoding import Encoding
from vsae.mechanism.logistic import gain
from vsae.mechanism.regressors import Regressors, standardised

_MOST_ROWS = 2000  # more sharpen nothing that is in doubt
_MOST_ATTRIBUTES = 64  # looked at: those that miss most
_MOST_REGRESSORS = 60  # of a mask: those that go with it most
_FEWEST_CELLS = 10  # missing, and observed
_RIDGES, _RIDGES_OF_LEVELS = (200.0, 30.0, 3.0), (50.0, 10.0)
_RIDGE_OF_NUMBERS = (0.1,)
_RIDGE_OF_PREDICTION = 10.0
_FOLDS = 5  # of rows, each predicted by the others
_SIMULATED = 200  # masks of either kind
_MOST_SIMULATED_BY = 500  # columns: random ones of a wide table
_OTHERS = 0.7  # at most so strong, beside the own value, is what else a self-masking column depends on
_BANDWIDTH = 0.08  # of the densities of shares
_LEAST_DENSITY = 1e-3
_MOST_EVIDENCE = 5.0  # nats, from one column
_LEANING = 10.0  # nats of gain, below which a share says little

# Chosen on 13 tables kept for development, 9 mechanisms each (docs/decisions/0012).
_PRIOR, _PRIOR_COLUMNS = 0.05, 2.0  # share of self-masking columns to begin with, and for how many columns it counts
_LEAST_SHARE = 0.5  # mean probability of the columns whose mask depends on anything: below, none does
_LEAST_GAIN = 2.0  # nats, of such a column
_STEPS = 50  # of EM for the share


class Evidence(NamedTuple):
    """Of one attribute."""

    own: float  # nats that the own prediction says of the mask
    others: float  # nats that all other columns and masks do
    log_ratio: float  # of the likelihoods of that share, self-masking against MAR
    probability: float  # that it masks itself


def evidence(encoding: Encoding, columns: Columns, mask: Mask, seed: int = 0) -> dict[int, Evidence]:
    """By attribute, of those that miss some cells and show some."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(mask))[:_MOST_ROWS])
    some = {name: np.asarray(x)[rows] for name, x in columns.items()}
    shown = mask[rows]
    missing = (~shown).sum(axis=0)
    lossy = np.flatnonzero((missing >= _FEWEST_CELLS) & (missing <= len(rows) - _FEWEST_CELLS))
    lossy = lossy[np.argsort(-missing[lossy], kind="stable")][:_MOST_ATTRIBUTES]
    if not len(lossy):
        return {}
    regressors = Regressors.of(encoding, some, shown)
    fold = rng.permutation(len(rows)) % _FOLDS
    found = {int(i): _of_attribute(regressors, int(i), fold, rng) for i in sorted(lossy)}
    return pooled(found)


def pooled(found: Mapping[int, Evidence]) -> dict[int, Evidence]:
    """With probabilities, by a share of self-masking columns that all of them have a say in."""
    ratio = np.array([one.log_ratio for one in found.values()])
    others = np.array([one.others for one in found.values()])
    telling = others > _LEAST_GAIN
    share = np.full(len(found), _PRIOR)
    for _ in range(_STEPS):
        odds = share * np.exp(ratio)
        probability = odds / (odds + 1 - share)
        mine = np.where(telling, probability, 0.0)  # no column speaks for itself twice
        share = (mine.sum() - mine + _PRIOR * _PRIOR_COLUMNS) / (telling.sum() - telling + _PRIOR_COLUMNS)
    if not telling.any() or probability[telling].mean() < _LEAST_SHARE:
        probability = np.minimum(probability, share)
    probability = np.where(others > _LEAST_GAIN / 2, probability, 0.0)  # of a mask that nothing tells, none is known
    return {i: one._replace(probability=float(p)) for (i, one), p in zip(found.items(), probability, strict=True)}


def _of_attribute(
    regressors: Regressors, attribute: int, fold: NDArray[np.int64], rng: np.random.Generator
) -> Evidence:
    y = regressors.masks[:, attribute]
    values, masks = regressors.others(attribute)
    x = _most_telling(np.concatenate([values, masks], axis=1), y)
    others = gain(x, y, _RIDGES)
    target = regressors.targets.get(attribute)
    if others <= _LEAST_GAIN / 2 or target is None or not values.shape[1]:
        return Evidence(0.0, others, 0.0, 0.0)
    predicted, explained = _predictions(x, target, y == 0, fold)
    if not predicted.shape[1]:
        return Evidence(0.0, others, 0.0, 0.0)
    own = gain(predicted, y, _RIDGE_OF_NUMBERS if predicted.shape[1] == 1 else _RIDGES_OF_LEVELS)
    by_others, by_itself = _simulated_shares(predicted, values, explained, rng)
    share = min(1.0, own / others)
    ratio = np.log(_density(by_itself, share) / _density(by_others, share)) * others / (others + _LEANING)
    return Evidence(own, others, float(np.clip(ratio, -_MOST_EVIDENCE, _MOST_EVIDENCE)), 0.0)


def _most_telling(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those that go with y most: it is the rival of self-masking that gains by it."""
    if x.shape[1] <= _MOST_REGRESSORS:
        return x
    return x[:, np.sort(np.argsort(-np.abs(x.T @ (y - y.mean())))[:_MOST_REGRESSORS])]


def _predictions(
    x: NDArray[np.float64], target: NDArray[np.float64], seen: NDArray[np.bool_], fold: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    """Of targets (n, K) by a ridge regression on x, in each fold by the others' rows that show them; standardised. And
    the share of their variance that it explains."""
    design = np.column_stack([np.ones(len(x)), x])
    penalty = np.diag(np.r_[0.0, np.full(x.shape[1], _RIDGE_OF_PREDICTION)])
    out = np.zeros(target.shape)
    for f in range(_FOLDS):
        train = design[seen & (fold != f)]
        square = train.T @ train + penalty + 1e-9 * np.eye(len(penalty))
        slopes = np.linalg.solve(square, train.T @ target[seen & (fold != f)])
        out[fold == f] = design[fold == f] @ slopes
    off, spread = ((target - out)[seen] ** 2).sum(), ((target[seen] - target[seen].mean(axis=0)) ** 2).sum()
    return standardised(out), float(np.clip(1 - off / max(spread, 1e-12), 0.01, 1.0))


def _simulated_shares(
    predicted: NDArray[np.float64], values: NDArray[np.float64], explained: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """R² of log odds over the own predictions: of log odds that depend on random others, and on the own value.

    Log odds are sums of columns, which are standardised.
    """
    if values.shape[1] > _MOST_SIMULATED_BY:
        values = values[:, rng.permutation(values.shape[1])[:_MOST_SIMULATED_BY]]
    n, p = values.shape
    root = np.linalg.cholesky(predicted.T @ predicted / n + 1e-6 * np.eye(predicted.shape[1]))

    def unit(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, simulated), with std 1."""
        return np.asarray(sums / np.sqrt(np.maximum((sums**2).mean(axis=0), 1e-12)), dtype=np.float64)

    def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        onto = np.linalg.solve(root, predicted.T @ unit(sums) / n)
        return np.asarray((onto**2).sum(axis=0), dtype=np.float64)

    kept = rng.random((p, _SIMULATED)).argsort(axis=0) < rng.integers(1, p + 1, _SIMULATED)
    by_others = values @ (rng.normal(size=(p, _SIMULATED)) * kept)
    own = unit(predicted @ rng.normal(size=(predicted.shape[1], _SIMULATED)))
    beside = rng.uniform(0.0, _OTHERS, _SIMULATED) * unit(values @ rng.normal(size=(p, _SIMULATED)))
    return share(by_others), share(np.sqrt(explained) * own + beside)


def _density(simulated: NDArray[np.float64], at: float) -> float:
    return float(np.exp(-0.5 * ((at - simulated) / _BANDWIDTH) ** 2).mean()) + _LEAST_DENSITY
