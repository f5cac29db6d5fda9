"""What an analysis of one completed table says: named estimates with standard errors, whichever tool it is of.

>>> answer_of({"term": ["slope"], "estimate": [2.0], "std.error": [0.5]})
Answer(terms=('slope',), estimates=array([2.]), std_errors=array([0.5]), dfcom=inf)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_ESTIMATES = ("estimate", "coef", "coefficient")
_STD_ERRORS = ("std.error", "std_error", "se", "std_err")  # broom's name, and what others make of it


class Answer(NamedTuple):
    """Of one table."""

    terms: tuple[str, ...]
    estimates: NDArray[np.float64]
    std_errors: NDArray[np.float64]
    dfcom: float = np.inf  # degrees of freedom that are left in a complete table


class Answers(NamedTuple):
    """Of all m tables, (m, terms)."""

    terms: tuple[str, ...]
    estimates: NDArray[np.float64]
    variances: NDArray[np.float64]
    dfcom: float


def answers_of(found: Sequence[Any]) -> Answers:
    """The answers of several tables, each term beside itself, in the order of the first table."""
    every = [answer_of(one) for one in found]
    if not every:
        raise ValueError("pooling needs 2 or more completed tables, not 0; use draw(n=20)")
    terms = every[0].terms
    places = []
    for i, answer in enumerate(every):
        where = {term: place for place, term in enumerate(answer.terms)}
        if len(where) < len(answer.terms):
            raise ValueError("a term appears twice in one answer; give its terms different names")
        for term in sorted({*terms} ^ {*where}):  # the same one is named every time
            lacking = i if term in terms else 0
            raise ValueError(
                f"term {term!r} is not in the answer of table {lacking + 1}; a level that is rare may not be drawn in"
                " every table: merge it with another, or leave it out"
            )
        places.append([where[term] for term in terms])
    estimates = np.stack([answer.estimates[at] for answer, at in zip(every, places, strict=True)])
    std_errors = np.stack([answer.std_errors[at] for answer, at in zip(every, places, strict=True)])
    if (std_errors < 0).any():
        raise ValueError("standard errors must not be negative")
    return Answers(terms, estimates, std_errors**2, min(answer.dfcom for answer in every))


def answer_of(found: Any) -> Answer:
    """A tidy table (columns term, estimate, std.error), or statsmodels' results, predictions or marginal effects."""
    for value, error in (("predicted", "se"), ("predicted_mean", "se_mean")):  # of most models; of linear ones
        if hasattr(found, value):
            labels = getattr(found, "row_labels", None)
            terms = range(len(getattr(found, value))) if labels is None else labels
            return _answer(terms, getattr(found, value), getattr(found, error), getattr(found, "df", None))
    if hasattr(found, "margeff_se"):
        terms = found.summary_frame().index
        return _answer(terms, found.margeff, found.margeff_se, found.results.df_resid)
    if hasattr(found, "params") and hasattr(found, "bse"):
        return _answer(_names(found), found.params, found.bse, getattr(found, "df_resid", None))
    return _tidy(found)


def _names(result: Any) -> Any:
    """Of the parameters of statsmodels' results, which are a Series, a table (a column a level), or an array."""
    params = result.params
    if np.ndim(params) == 2 and hasattr(params, "columns"):
        return [f"{column}: {row}" for row in params.index for column in params.columns]
    return params.index if hasattr(params, "index") else result.model.exog_names


def _tidy(table: Any) -> Answer:
    known = _column_names(table)
    names = [next((name for name in some if name in known), None) for some in (("term",), _ESTIMATES, _STD_ERRORS)]
    if None in names:
        this = f"this one has {', '.join(known)}" if known else f"not {type(table).__name__}"
        raise ValueError(f"an answer is statsmodels', or a table with columns term, estimate and std.error; {this}")
    term, estimate, std_error = (table[name] for name in names)
    return _answer(term, estimate, std_error, None)


def _column_names(table: Any) -> list[str]:
    if isinstance(table, Mapping):
        return list(table)
    names = table.column_names if hasattr(table, "column_names") else getattr(table, "columns", ())  # pyarrow; others
    return [str(name) for name in names]


def _answer(terms: Any, estimates: Any, std_errors: Any, dfcom: Any) -> Answer:
    names = tuple(str(term) for term in np.asarray(terms, dtype=object).ravel().tolist())
    values, errors = (np.asarray(x, dtype=np.float64).ravel() for x in (estimates, std_errors))
    return Answer(names, values, errors, np.inf if dfcom is None else float(np.min(dfcom)))
