"""Rubin's rules: one answer, with an honest standard error, from the answers on m completed tables.

Fit the same analysis on each table of `VSAEImputer.draw(df, n=m)`, then pool what it says: tables of terms, estimates
and standard errors, results of statsmodels, or numbers and their variances. The variance between tables is what the
missing cells cost, and it widens the pooled interval.

>>> tidy = [{"term": ["slope"], "estimate": [b], "std.error": [0.5]} for b in (1.0, 1.1, 1.3)]
>>> pool(tidy, dfcom=97)
term   estimate  std_error      low   high        p    df  fraction_missing  monte_carlo_error  draws_needed
slope     1.133     0.5302  0.07109  2.196  0.03696  55.7             0.141            0.08819            42
3 draws, 95 % intervals. Take 42 draws or more, so that standard errors vary by 5 % at most (von Hippel 2020).
>>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
>>> pooled.estimate, round(pooled.std_error, 4), round(pooled.df, 3)
(2.0, 1.354, 3.781)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vsae.evaluation.answers import answers_of
from vsae.notebook import html_table

Number = Any  # a float for a scalar analysis, an array of the estimates' shape for a vector
_MOST_VARIATION = 0.05  # of a standard error, from one set of draws to another; von Hippel's own choice


@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """The pooled analysis. Every field is a float, or an array with one entry per coefficient. `print` it for a table;
    `to_dict()` makes a dataframe.

    >>> low, high = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5]).interval
    >>> round(low, 2), round(high, 2)
    (-1.85, 5.85)
    """

    estimate: Number  # Q̄, the mean of the m estimates
    std_error: Number  # √T
    within: Number  # Ū, the mean of the m variances: what a complete table would leave uncertain
    between: Number  # B, the variance of the m estimates: what the missing cells add
    total: Number  # T = Ū + (1 + 1/m) B
    df: Number  # ν, degrees of freedom of the t reference; inf is the normal
    interval: tuple[Number, Number]  # (low, high) at `level`
    relative_increase: Number  # r = (1 + 1/m) B / Ū
    lambda_: Number  # λ = (1 + 1/m) B / T, the share of the variance that is due to missing cells
    fraction_missing: Number  # γ, λ corrected for the finite number of tables
    level: float
    m: int
    terms: tuple[str, ...] = ()  # names of the coefficients, where they have any

    def p_value(self, null: float = 0.0) -> Number:
        """Two-sided, of the hypothesis that the estimand is `null`; by Student's t with the pooled degrees of freedom.

        >>> round(pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5]).p_value(), 4)
        0.2177
        """
        away = np.abs(np.asarray(self.estimate) - null)
        t = _ratio(away, np.asarray(self.std_error))  # no error at all: the hypothesis is right or it is not
        return _plain(2 * _t_tail(t, np.asarray(self.df)))

    @property
    def monte_carlo_error(self) -> Number:
        """√(B / m): what the estimate would vary by with other draws."""
        return _plain(np.sqrt(np.asarray(self.between) / self.m))

    def draws_needed(self, variation: float = _MOST_VARIATION) -> Number:
        """How many draws make a standard error vary by no more than `variation` of itself from one set to another.

        Von Hippel's (2020) two stages: a first set of draws says how much information is missing, γ, and then
        1 + ½ (γ / variation)² draws are needed. γ is known only so well, so the upper end of its 95 % interval is
        taken, which is normal on the scale of log odds with a standard error of √(2 / m).

        >>> pool([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]).draws_needed()
        92
        """
        share = np.where(self.between == 0, 0.0, self.fraction_missing)  # γ is a little above 0 even so
        factor = np.exp(1.959964 * np.sqrt(2 / self.m))  # of the odds
        upper = factor * share / (1 - share + factor * share)
        needed = np.ceil(1 + (upper / variation) ** 2 / 2).astype(int)
        return int(needed) if needed.ndim == 0 else needed

    @property
    def enough(self) -> bool:
        """Whether there are as many draws as every coefficient needs."""
        return bool(np.max(self.draws_needed(), initial=0) <= self.m)

    def to_dict(self) -> dict[str, list[Any]]:
        """A row a coefficient, as columns for a dataframe."""
        low, high = self.interval
        columns = {
            "estimate": self.estimate,
            "std_error": self.std_error,
            "low": low,
            "high": high,
            "p": self.p_value(),
            "df": self.df,
            "fraction_missing": self.fraction_missing,
            "monte_carlo_error": self.monte_carlo_error,
            "draws_needed": self.draws_needed(),
        }
        named: dict[str, list[Any]] = {"term": list(self.terms)} if self.terms else {}
        return named | {name: np.ravel(values).tolist() for name, values in columns.items()}

    def __repr__(self) -> str:
        header, rows = self._cells()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        first = str.ljust if self.terms else str.rjust
        justified = ([first(row[0], widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in (header, *rows))
        return "\n".join([*("  ".join(cells).rstrip() for cells in justified), self._note()])

    def _repr_html_(self) -> str:
        header, rows = self._cells()
        return html_table(header, rows, note=self._note())

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        columns = self.to_dict()
        rows = zip(*columns.values(), strict=True)
        return list(columns), [[x if isinstance(x, str) else f"{x:.4g}" for x in row] for row in rows]

    def _note(self) -> str:
        most = np.max(self.draws_needed(), initial=0)
        vary = f"standard errors vary by {_MOST_VARIATION:.0%} at most (von Hippel 2020)".replace("%", " %")
        advice = f"These are enough: {vary}." if self.enough else f"Take {most} draws or more, so that {vary}."
        return f"{self.m} draws, {100 * self.level:g} % intervals. {advice}"


def pool(
    estimates: ArrayLike | Sequence[Any],
    variances: ArrayLike | None = None,
    *,
    dfcom: ArrayLike | None = None,
    level: float = 0.95,
) -> Pooled:
    """Pool the answers of m tables: m estimates (m, …) and their squared standard errors (m, …), or m answers by name.

    An answer by name is a table with columns term, estimate and std.error, as R's broom has them, or what statsmodels
    returns: results, `get_prediction()`, `get_margeff()`. Its terms may stand in any order. `dfcom` is then by default
    what the results say (`df_resid`), as in R's mice.

    T = Ū + (1 + 1/m) B and λ = (1 + 1/m) B / T. The degrees of freedom are Barnard and Rubin's (1999):
    1/ν = 1/ν_old + 1/ν_obs, with ν_old = (m - 1) / λ² and ν_obs = (1 - λ) ν_com (ν_com + 1) / (ν_com + 3).
    `dfcom` is ν_com, what the analysis would have on a complete table (n - k for a regression); None
    takes it as infinite, which leaves ν_old, Rubin's (1987). Where the m estimates are all equal missing cells
    cost nothing and ν = ν_com. The fraction of missing information is γ = (r + 2 / (ν + 3)) / (r + 1).

    >>> pooled = pool([[1.0, 5.0], [3.0, 5.0]], [[1.0, 4.0], [1.0, 4.0]], dfcom=30)
    >>> pooled.estimate, pooled.total, pooled.df.round(2)
    (array([2., 5.]), array([4., 4.]), array([ 1.42, 30.  ]))
    """
    terms: tuple[str, ...] = ()
    if variances is None:
        terms, estimates, variances, left = answers_of(estimates)  # type: ignore[arg-type]
        dfcom = left if dfcom is None else dfcom
    estimates, variances = _checked(estimates, variances)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}; 0.95 gives a 95 % interval")
    complete = _complete_df(dfcom, estimates.shape[1:])
    m = len(estimates)

    estimate = estimates.mean(axis=0)
    within = variances.mean(axis=0)
    # Equal estimates must have no variance at all, and the rounding of their mean would give them some.
    between = np.where(np.ptp(estimates, axis=0) == 0, 0.0, estimates.var(axis=0, ddof=1))
    extra = (1 + 1 / m) * between
    total = within + extra
    share = _ratio(extra, total)  # λ
    df = _degrees_of_freedom(share, m, complete)
    std_error = np.sqrt(total)
    # A standard error of 0 needs no quantile, and 0 · inf would be NaN.
    margin = np.where(std_error > 0, _t_quantile((1 + level) / 2, df), 0.0) * std_error
    # γ in terms of λ = r / (r + 1), so that it stays finite where Ū = 0 and r is not.
    fraction = share + (1 - share) * 2 / (df + 3)

    return Pooled(
        estimate=_plain(estimate),
        std_error=_plain(std_error),
        within=_plain(within),
        between=_plain(between),
        total=_plain(total),
        df=_plain(df),
        interval=(_plain(estimate - margin), _plain(estimate + margin)),
        relative_increase=_plain(_ratio(extra, within)),
        lambda_=_plain(share),
        fraction_missing=_plain(fraction),
        level=level,
        m=m,
        terms=terms,
    )


def _degrees_of_freedom(share: np.ndarray, m: int, complete: np.ndarray) -> np.ndarray:
    """Barnard and Rubin's ν. Reciprocals carry the limits: λ = 0 and ν_com = ∞ are each an honest 0.

    >>> _degrees_of_freedom(np.array([0, 0.5, 0.5, 1]), 5, np.array([np.inf, np.inf, 20, 20])).round(3)
    array([   inf, 16.   ,  5.813,  0.   ])
    """
    one, finite = np.ones_like(share), np.isfinite(complete)
    known = np.where(finite, complete, 1.0)  # ∞/∞ would be NaN
    observed = (1 - share) * (known + 1) / (known + 3) * known  # ν_obs
    reciprocal = share**2 / (m - 1) + np.where(finite, _ratio(one, observed), 0.0)
    return np.where(share == 0, complete, _ratio(one, reciprocal))


def _t_quantile(probability: float, df: np.ndarray) -> np.ndarray:
    """Student's t quantile, elementwise in df: the normal's at inf, infinite at 0."""
    from scipy import special  # comes with scikit-learn; late, because importing it takes a while

    usable = np.where(np.isfinite(df) & (df > 0), df, 1.0)
    quantile = np.where(np.isinf(df), special.ndtri(probability), special.stdtrit(usable, probability))
    return np.where(df > 0, quantile, np.inf)


def _t_tail(t: np.ndarray, df: np.ndarray) -> np.ndarray:
    """P(T > t), elementwise in df: the normal's at inf, ½ at 0."""
    from scipy import special

    usable = np.where(np.isfinite(df) & (df > 0), df, 1.0)
    tail = np.where(np.isinf(df), special.ndtr(-t), special.stdtr(usable, -t))
    return np.where(df > 0, tail, 0.5)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """numerator / denominator for what is not negative; x/0 = inf, 0/0 = 0, x/inf = 0."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, numerator / safe, np.where(numerator > 0, np.inf, 0.0))


def _checked(estimates: ArrayLike, variances: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    q, u = np.asarray(estimates, dtype=float), np.asarray(variances, dtype=float)
    if q.shape != u.shape:
        raise ValueError(f"estimates {q.shape} and variances {u.shape} differ in shape; pass one variance per estimate")
    if q.ndim == 0 or len(q) < 2:
        raise ValueError(f"pooling needs 2 or more completed tables, not {len(q) if q.ndim else 1}; use draw(n=20)")
    for name, values in (("estimates", q), ("variances", u)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite; an analysis failed on one of the completed tables")
    if (u < 0).any():
        raise ValueError("variances must not be negative; pass squared standard errors")
    return q, u


def _complete_df(dfcom: ArrayLike | None, shape: tuple[int, ...]) -> np.ndarray:
    complete = np.asarray(np.inf if dfcom is None else dfcom, dtype=float)
    if not (complete > 0).all():  # NaN is not positive either
        raise ValueError(f"dfcom must be positive, not {dfcom!r}; it is the analysis' n - k on a complete table")
    try:
        return np.broadcast_to(complete, shape)
    except ValueError:
        raise ValueError(f"dfcom {complete.shape} does not fit estimates of shape (m, *{shape}); pass one") from None


def _plain(values: np.ndarray) -> Number:
    return float(values) if values.ndim == 0 else values
