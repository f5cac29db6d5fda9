"""Part `tables`: columns of values that hardly anyone has. Fitted and filled, or refused in one line of ours."""

from __future__ import annotations

import datetime as dt
import traceback
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import vsae
from benchmarks.attack.outcomes import Outcomes
from vsae import VSAEImputer
from vsae.table import fills
from vsae.table.cells import is_null

_OURS = str(Path(vsae.__file__).parent)
_BIG = float(np.finfo(np.float64).max)
_TEXTS = (
    "",
    " ",
    "a",
    "é",
    "日本",
    "\x00",
    "\x1b[31m",
    "nan",
    "NA",
    "-",
    "1",
    "1,5",
    "2020-01-01",
    "x" * 500,
    "\n",
    "=1+1",
)
_POOLS: tuple[tuple[Any, ...], ...] = (
    (0.0, -0.0, 1.0, 1.5, -2.25, 1e-320, 1e-8),
    (np.inf, -np.inf, _BIG, -_BIG, 1e200, -1e200, 1e308, 0.0, 1.0),
    (0, 1, 2, 3, -1, 10**6), (2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0), (10**30, 1, 2, 3),
    (True, False), _TEXTS, ("a", "b", "c"), (1, "a", 2.5, b"x"), (b"x", b"y"),
    (Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400"), Decimal("-0")),
    (Decimal("1.50"), Decimal("2.25"), Decimal("3.00")),
    (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 2, 29)),
    (dt.datetime(1970, 1, 1), dt.datetime(2262, 4, 11), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)),
    (dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12)),
    (dt.timedelta(days=999999999), dt.timedelta(0), dt.timedelta(1)),
    ([1], {}, (1, 2)), (1 + 2j, 3.0), ((1, 2), (3, 4)), (None,), (float("nan"), None, pd.NaT),
)  # fmt: skip


def attack(count: int, seed: int, folder: Path) -> Outcomes:
    out = Outcomes(worst_seconds=20.0)
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        out.run(f"table {i}", lambda rng=rng, i=i: outcome(fuzzed(rng), trees=3 * (i % 4 == 0)))  # type: ignore[misc]
    return out


def fuzzed(rng: np.random.Generator) -> Any:
    """A dict of arrays or a dataframe of pandas."""
    n = int(rng.choice([1, 2, 3, 8, 25, 40]))
    columns = {_label(rng, j): _column(rng, n) for j in range(rng.integers(1, 6))}
    if rng.random() < 0.4:
        frame = pd.DataFrame({label: pd.Series(x) for label, x in columns.items()})
        if rng.random() < 0.2:
            frame.index = pd.Index(rng.integers(3, size=n))
        return frame
    return columns


def _label(rng: np.random.Generator, j: int) -> Any:
    return f"{_TEXTS[rng.integers(len(_TEXTS))]}{j}" if rng.random() < 0.3 else f"c{j}" if rng.random() < 0.8 else j


def _column(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    kind = rng.integers(4)
    if kind == 0:
        x = rng.normal(size=n) * 10.0 ** rng.integers(-5, 6)
        x[rng.random(n) < 0.3] = np.nan
        return x
    if kind == 1:
        dtypes = ("i1", "u8", "f2", "f4", "M8[ns]", "M8[D]", "m8[s]", "?", "U3", "M8[Y]", "f8")
        dtype = np.dtype(dtypes[rng.integers(len(dtypes))])
        return rng.integers(0, 100, n).astype(dtype)
    pool = _POOLS[rng.integers(len(_POOLS))]
    x = np.empty(n, dtype=object)
    for i in range(n):
        x[i] = None if rng.random() < 0.2 else pool[rng.integers(len(pool))]
    if kind == 2 and all(isinstance(value, float | int) and not isinstance(value, bool) for value in x):
        return x.astype(np.float64)
    return x


def outcome(X: Any, trees: int = 0) -> str:
    """ "refused" or "filled"; anything else is raised."""
    imputer = VSAEImputer(config={"steps": 2, "members": 1, "trees": trees}, random_state=0)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            filled = imputer.fit(X).transform(X)
        except Exception as error:
            if not is_ours(error):
                raise
            return "refused"
        for fill in fills.fills(imputer.schema_, X, filled):
            before, after = list(X[fill.label]), list(filled[fill.label])
            changed = [a for a, b in zip(before, after, strict=True) if not is_null(a) and not _same(a, b)]
            assert not changed, f"column {fill.label!r}: observed {changed[0]!r} was changed"
            empty = sum(is_null(value) for value in after)
            assert not empty or fill.left, f"column {fill.label!r}: {empty} cells are empty, and nobody says so"
    return "filled"


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(np.all(a == b)))


def is_ours(error: Exception) -> bool:
    """A line that the library wrote itself."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    said: Callable[[str], bool] = lambda text: bool(text) and "\n" not in text  # noqa: E731
    return isinstance(error, ValueError | TypeError) and last.startswith(_OURS) and said(str(error))
