"""Simulators of missingness: a complete table in, a mask out.

A mask is a bool array (n, M), True = observed. Each mechanism says how likely a cell is to go missing,
P(m_ij = 0 | x); the mask is then one independent Bernoulli draw a cell. Scaling is fitted on the table given,
so sample the whole table and split the rows afterwards.

>>> x = np.random.default_rng(0).normal(size=(1000, 4))
>>> mask = MCAR(rate=0.3).sample(x, np.random.default_rng(1))
>>> mask.shape, mask.dtype, round(float(1 - mask.mean()), 1)
((1000, 4), dtype('bool'), 0.3)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


class Mechanism(ABC):
    """P(missing | x), and masks drawn from it."""

    @abstractmethod
    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return P(missing) of each cell of a complete numeric table (n, M); categories are codes."""

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a bool mask (n, M), True = observed."""
        probability = self.missing_probability(x, rng)
        # random() lies in [0, 1): probability 0 is always observed and probability 1 never.
        observed: np.ndarray = rng.random(probability.shape) >= probability
        return observed


@dataclass(frozen=True)
class MCAR(Mechanism):
    """Every cell goes missing with the same probability, `rate`, whatever the values.

    >>> MCAR(rate=0.25).missing_probability(np.zeros((1, 3)), np.random.default_rng(0))
    array([[0.25, 0.25, 0.25]])
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.full(_complete(x).shape, float(self.rate))


@dataclass(frozen=True)
class PaperMAR(Mechanism):
    """The paper's MAR: ⌊M/4⌋ random columns, O, are always observed (at least 1 if M > 1).

    The others have P(missing_i) = sigmoid(1/M · Σ_{k ∈ O} x_k) on min-max scaled data. `missing=False` reads
    the sentence as P(observed_i). The probabilities hardly vary: for M ≥ 4 the logit lies in [0, ¼], so P in
    [.5, .562], and averaging over O narrows it further. It is nearly MCAR: say so under a table that uses it.

    >>> x = np.random.default_rng(0).normal(size=(50, 8))
    >>> int(PaperMAR().sample(x, np.random.default_rng(1)).all(axis=0).sum())
    2
    """

    missing: bool = True

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        scaled = _min_max(_complete(x))  # (n, M)
        observed = _always_observed(scaled.shape[1], 0.25, rng)  # (M,)
        logit = scaled[:, observed].sum(axis=1, keepdims=True) / scaled.shape[1]  # (n, 1)
        return np.where(observed, 0.0, _sigmoid(logit if self.missing else -logit))


@dataclass(frozen=True)
class PaperNMAR(Mechanism):
    """The paper's NMAR: P(missing_i) = sigmoid(x_i) on min-max scaled data, so between .5 and .731.

    `missing=False` reads the sentence as P(observed_i): P(missing_i) = sigmoid(-x_i), between .269 and .5.

    >>> PaperNMAR().missing_probability(np.array([[3.0], [7.0]]), np.random.default_rng(0)).round(3)
    array([[0.5  ],
           [0.731]])
    """

    missing: bool = True

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        scaled = _min_max(_complete(x))
        return _sigmoid(scaled if self.missing else -scaled)


@dataclass(frozen=True)
class LogisticMAR(Mechanism):
    """A MAR that can be felt: a random share of the columns, O, is always observed and rules the rest.

    P(missing_j) = sigmoid(strength · w_j·x_O + b_j) for j ∉ O, on standardised data, with w_j random and
    scaled so that w_j·x_O has unit std. b_j is solved so that column j is expected to miss a share
    rate · M / (M - |O|) of its cells, which makes `rate` the share of the whole table. |O| is
    ⌊observed_share · M⌋, at least 1 and at most M - 1; a table of one column has no O, and is MCAR.

    >>> x = np.random.default_rng(0).normal(size=(500, 8))
    >>> p = LogisticMAR(rate=0.3).missing_probability(x, np.random.default_rng(1))
    >>> round(float(p.mean()), 6), int((p.max(axis=0) == 0).sum())
    (0.3, 2)
    """

    rate: float
    observed_share: float = 0.25  # the paper's quarter; with M >= 4 columns every rate below .75 can be reached
    strength: float = 2.0  # ours: at rate .5, one std of w·x moves P(missing) from .5 to .88

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        _check_strength(self.strength)
        _check_observed_share(self.observed_share)

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        z = _standardise(_complete(x))  # (n, M)
        observed = _always_observed(z.shape[1], self.observed_share, rng)  # (M,)
        probability = np.zeros(z.shape)
        probability[:, ~observed] = _with_mean(
            _rate_of_lossy(self.rate, observed), self.strength * _mixtures(z[:, observed], int((~observed).sum()), rng)
        )
        return probability


@dataclass(frozen=True)
class LogisticNMAR(Mechanism):
    """High values hide themselves: P(missing_j) = sigmoid(strength · u_j + b_j), with b_j solved to the rate.

    On standardised data u_j ∝ x_j + ½ v_j, scaled to unit std, where v_j, of unit std too, is a random mix of
    the other columns. The own column dominates: cov(u_j, x_j) > 0 however the columns are correlated.
    With `low`, low values hide: -u_j takes the place of u_j. With `tail`, it counts only above its median, and
    cells below it are all equally likely to be missing: max(u_j - median, 0) takes its place.

    >>> x = np.random.default_rng(0).normal(size=(500, 4))
    >>> mask = LogisticNMAR(rate=0.4).sample(x, np.random.default_rng(1))
    >>> bool(x[~mask].mean() > x[mask].mean())
    True
    """

    rate: float
    strength: float = 2.0  # as in LogisticMAR, so that the two can be compared
    low: bool = False
    tail: bool = False

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        _check_strength(self.strength)

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        z = _standardise(_complete(x))  # (n, M)
        weights = rng.normal(size=(z.shape[1], z.shape[1]))
        np.fill_diagonal(weights, 0.0)
        others = _standardise(z @ weights)  # (n, M)
        u = _standardise(z + 0.5 * others)
        if self.low:
            u = -u
        if self.tail:
            u = np.maximum(u - np.median(u, axis=0), 0.0)
        return _with_mean(self.rate, self.strength * u)


@dataclass(frozen=True)
class PartlyNMAR(Mechanism):
    """The columns named hide their own high values, as in LogisticNMAR; the others are MAR, as in LogisticMAR.

    The columns that are always observed, and rule those that are MAR, are ⌊observed_share · M⌋ of those not named, at
    least 1 if there is any. `rate` is the share of the whole table; all columns that miss cells miss as many.

    >>> x = np.random.default_rng(0).normal(size=(500, 8))
    >>> p = PartlyNMAR(rate=0.3, self_masking=(0, 5)).missing_probability(x, np.random.default_rng(1))
    >>> round(float(p.mean()), 6), int((p.max(axis=0) == 0).sum())
    (0.3, 2)
    """

    rate: float
    self_masking: tuple[int, ...]
    observed_share: float = 0.25
    strength: float = 2.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        _check_strength(self.strength)
        _check_observed_share(self.observed_share)
        object.__setattr__(self, "self_masking", tuple(int(column) for column in self.self_masking))

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        z = _standardise(_complete(x))  # (n, M)
        own = np.isin(np.arange(z.shape[1]), self.self_masking)
        rest = np.flatnonzero(~own)
        kept = min(max(1, math.floor(self.observed_share * z.shape[1] + 1e-9)), len(rest))
        observed = np.isin(np.arange(z.shape[1]), rng.choice(rest, size=kept, replace=False))
        rate = _rate_of_lossy(self.rate, observed)
        others = ~own & ~observed
        probability = LogisticNMAR(rate, self.strength).missing_probability(x, rng) * own
        probability[:, others] = _with_mean(rate, self.strength * _mixtures(z[:, observed], int(others.sum()), rng))
        return probability


@dataclass(frozen=True)
class SelfMasking(Mechanism):
    """not-MIWAE's self-masking: in some columns every cell above the column's mean goes missing.

    Nothing is left to chance. The columns are the first ⌊M/2⌋, or those given; the others are fully observed.

    >>> x = np.array([[0.0, 5.0], [1.0, 6.0], [5.0, 7.0]])
    >>> SelfMasking().sample(x, np.random.default_rng(0))
    array([[ True,  True],
           [ True,  True],
           [False,  True]])
    """

    columns: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(int(column) for column in self.columns))

    def missing_probability(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = _complete(x)
        columns = tuple(range(x.shape[1] // 2)) if self.columns is None else self.columns
        unknown = [column for column in columns if not 0 <= column < x.shape[1]]
        if unknown:
            raise ValueError(f"columns {unknown} are not in the table; use indices from 0 to {x.shape[1] - 1}")
        masked = np.isin(np.arange(x.shape[1]), columns)
        # The mean of equal numbers can round to just below them, but a constant column has no such cell.
        above = (x > x.mean(axis=0)) & ~_is_constant(x)
        return np.where(above & masked, 1.0, 0.0)


_BY_NAME: dict[str, Callable[[float], Mechanism]] = {
    "mcar": MCAR,
    "mar": LogisticMAR,
    "nmar": LogisticNMAR,
    "paper-mar": lambda rate: PaperMAR(),
    "paper-nmar": lambda rate: PaperNMAR(),
    "self": lambda rate: SelfMasking(),
}


def by_name(name: str, rate: float) -> Mechanism:
    """Return the mechanism of that name.

    "paper-mar", "paper-nmar" and "self" take no rate: theirs follows from the data.

    >>> by_name("mcar", 0.5)
    MCAR(rate=0.5)
    >>> by_name("mnar", 0.5)
    Traceback (most recent call last):
    ValueError: unknown mechanism 'mnar'; use one of mcar, mar, nmar, paper-mar, paper-nmar, self
    """
    if name not in _BY_NAME:
        raise ValueError(f"unknown mechanism {name!r}; use one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name](rate)


def _rate_of_lossy(rate: float, observed: np.ndarray) -> float:
    """Of the columns that are not always observed, so that `rate` is that of all columns."""
    columns, lossy = len(observed), int((~observed).sum())
    if lossy and rate * columns / lossy < 1:
        return rate * columns / lossy
    raise ValueError(
        f"rate {rate} is out of reach with {columns - lossy} of {columns} columns always observed; "
        f"take a rate below {lossy / columns:.3g} or a smaller observed_share"
    )


def _mixtures(z: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Random ones of columns (n, K), each of unit std; (n, number)."""
    return _standardise(z @ rng.normal(size=(z.shape[1], number)))


def _with_mean(rate: float, logit: np.ndarray) -> np.ndarray:
    """Return sigmoid(logit + b), (n, K), with b (K,) such that each column's mean is `rate`; by bisection.

    >>> round(float(_with_mean(0.2, np.array([[-5.0], [0.0], [5.0]])).mean()), 9)
    0.2
    """
    if rate == 0:
        return np.zeros(logit.shape)
    centre = math.log(rate) - math.log1p(-rate)
    low, high = centre - logit.max(axis=0), centre - logit.min(axis=0)  # all cells below / above the rate
    for _ in range(60):  # halves the bracket to the last bits of a double
        middle = (low + high) / 2
        too_high = _sigmoid(logit + middle).mean(axis=0) > rate
        low, high = np.where(too_high, low, middle), np.where(too_high, middle, high)
    return _sigmoid(logit + (low + high) / 2)


def _always_observed(columns: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Choose ⌊share · M⌋ columns at random, at least 1 and at most M - 1; a bool array (M,)."""
    count = min(max(1, math.floor(share * columns + 1e-9)), columns - 1)  # 1e-9: .29 · 100 is 28.999… in floats
    return np.isin(np.arange(columns), rng.choice(columns, size=count, replace=False))


def _sigmoid(logit: np.ndarray) -> np.ndarray:
    half: np.ndarray = 0.5 * (1.0 + np.tanh(0.5 * logit))  # does not overflow, as exp(-logit) would
    return half


def _is_constant(x: np.ndarray) -> np.ndarray:
    # Not `std == 0`: the std of equal numbers can come out as 1e-17, and dividing by it makes noise of them.
    constant: np.ndarray = x.max(axis=0) == x.min(axis=0)
    return constant


def _min_max(x: np.ndarray) -> np.ndarray:
    """Scale each column to [0, 1]; constant columns to 0."""
    low = x.min(axis=0)
    span = np.where(_is_constant(x), 1.0, x.max(axis=0) - low)
    scaled: np.ndarray = (x - low) / span
    return scaled


def _standardise(x: np.ndarray) -> np.ndarray:
    """Scale each column to mean 0 and std 1; constant columns to 0."""
    constant = _is_constant(x)
    return np.where(constant, 0.0, (x - x.mean(axis=0)) / np.where(constant, 1.0, x.std(axis=0)))


def _complete(x: np.ndarray) -> np.ndarray:
    """Return x as floats, or say why it is no complete numeric table."""
    try:
        x = np.asarray(x, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError("x must be numeric; encode categories as codes first") from error
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"x must be a table (rows, columns) with at least one cell, not of shape {x.shape}")
    bad = int((~np.isfinite(x)).sum())
    if bad:
        raise ValueError(f"x must be complete, but {bad} cells are not finite; drop or fill them first")
    return x


def _check_rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise ValueError(f"rate must be a share of cells, 0 <= rate < 1, not {rate}")


def _check_strength(strength: float) -> None:
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength must be finite and not negative, not {strength}")


def _check_observed_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"observed_share must lie strictly between 0 and 1, not {share}")
