"""Regressions by formula, through statsmodels."""

from __future__ import annotations

import importlib
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import Bools, objects
from vsae.table.containers import View, view_of
from vsae.table.errors import TableError, library


def regression(table: Any, formula: str, family: Any = None, **options: Any) -> Any:
    """statsmodels' results of least squares or, with a `family`, of a generalised linear model.

    `family` is one of statsmodels', or its name ("binomial"). The options are those of statsmodels' `fit`, such as
    `cov_type="HC3"`.
    """
    api = _statsmodels("statsmodels.formula.api")
    frame = formula_frame(table)
    generalised = {} if family is None else {"family": _family(family)}
    try:
        model = (api.ols if family is None else api.glm)(formula, frame, **generalised)
    except Exception as error:  # the languages of formulas have no class of errors in common
        said, *_ = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"formula {formula!r}: {said}; the columns are {', '.join(frame.columns)}") from error
    if isinstance(model.endog_names, list) and any("[" in name for name in model.endog_names):
        outcome = formula.split("~")[0].strip()
        raise ValueError(
            f"the outcome {outcome!r} has levels; say which of them counts, as a number: I(1 * ({outcome} == '…')) ~ …"
        )
    return model.fit(**options)


def formula_frame(table: Any) -> Any:
    """The table as a pandas one in which numbers are floats, booleans 0 and 1, and levels in the order of their dtype.

    The languages of formulas would take Int64 for levels, and a boolean outcome for two.
    """
    view = view_of(table)
    if view.container == "array":
        raise TableError("a formula needs names of columns, which an array does not have; pass a dataframe")
    pandas = library("pandas")
    found = {str(label): _values(view, column, pandas) for label, column in view.columns.items()}
    return pandas.DataFrame({label: values for label, values in found.items() if values is not None})


def _values(view: View, column: Any, pandas: Any) -> Any:
    """None for what is neither a number, a date nor a level."""
    values, observed, _, _, why = view.backend.cells(column, ())
    if why:
        return None
    if view.backend.categorical(column):
        levels = dict.fromkeys(view.backend.categories(column))
        if view.container == "polars" and not isinstance(column.dtype, nw.Enum):
            levels = dict.fromkeys(sorted(levels))  # theirs is the order in which the program met them
        used = set(values.tolist())
        cells = _spread(objects(values.tolist()), observed, None)
        return pandas.Categorical(cells, categories=[level for level in levels if level in used])
    if values.dtype.kind in "biuf":
        return _spread(values.astype(np.float64), observed, np.nan)
    return _spread(values, observed, None if values.dtype == object else np.array("NaT", dtype=values.dtype))


def _spread(values: NDArray[Any], observed: Bools, missing: Any) -> NDArray[Any]:
    out = np.full(len(observed), missing, dtype=values.dtype)
    out[observed] = values
    return out


def _family(family: Any) -> Any:
    if not isinstance(family, str):
        return family
    known = _statsmodels("statsmodels.api").families
    names = {name.lower(): name for name in known.__all__ if isinstance(getattr(known, name), type)}
    plain = family.lower().replace("_", "").replace(" ", "")
    if plain not in names:
        raise ValueError(f"family must be one of {', '.join(sorted(names))}, not {family!r}")
    return getattr(known, names[plain])()


def _statsmodels(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "statsmodels":  # it is there, and does not work
            raise
        raise ImportError("regressions need statsmodels, which is not installed; pip install 'vsae[stats]'") from None
