"""The original and the completed tables as Stata's `mi import flong` takes them.

It wants m = 0, the original, with its missing cells; two variables that number imputations and rows, which must not
have the names that it makes itself (`_mi_m`, `_mi_id`, `_mi_miss`); imputed variables that are numbers; and names that
are words of at most 29 characters.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from vsae.analysis.long import long_columns, table_of
from vsae.table.backends import Backend, Column
from vsae.table.cells import Storage
from vsae.table.containers import view_of
from vsae.table.errors import DataWarning, TableError

NAMES = ("mi_m", "mi_id")
_LONGEST = 29  # of 32, since mi puts numbers before the names of imputed variables
_RESERVED = re.compile(
    r"_all|_b|byte|_coef|_cons|double|float|if|in|int|long|_n|_N|_pi|_pred|_rc|_skip|str\d+|strL|using|with"
    r"|_mi_m|_mi_id|_mi_miss"
)


def stata_table(tables: Sequence[Any], original: Any) -> Any:
    """Booleans become 0 and 1, and texts with missing cells categories, which pandas' `to_stata` writes as numbers with
    labels.
    """
    views = [view_of(table) for table in (original, *tables)]
    if views[0].container == "array":
        raise TableError("Stata needs names of columns, which an array does not have; pass a dataframe")
    columns = long_columns(views, NAMES, first=0)
    names = stata_names(columns)
    if changed := ", ".join(f"{label!r} to {name}" for label, name in names.items() if label != name):
        warnings.warn(f"columns are renamed, as Stata would not take their names: {changed}", DataWarning, stacklevel=3)
    return table_of(views, {names[x]: _numeric(views[0].backend, column) for x, column in columns.items()})


def stata_names(labels: Iterable[Hashable]) -> dict[Hashable, str]:
    """Names that Stata takes, each once.

    >>> stata_names(["age", "body mass", "2nd", "long", "body_mass"])
    {'age': 'age', 'body mass': 'body_mass_', '2nd': '_2nd', 'long': 'long_', 'body_mass': 'body_mass'}
    """
    labels = list(labels)
    names: dict[Hashable, str] = {label: label for label in labels if isinstance(label, str) and _is_legal(label)}
    taken = set(names.values())
    for label in labels:
        if label not in names:
            name = re.sub(r"\W", "_", str(label))
            name = ("_" + name if re.match(r"\d|$", name) else name)[:_LONGEST]
            number = 1
            while not _is_legal(name) or name in taken:
                end = "_" if number == 1 else f"_{number}"
                name, number = name[: _LONGEST - len(end)] + end, number + 1
            names[label] = name
            taken.add(name)
    return {label: names[label] for label in labels}


def _is_legal(name: str) -> bool:
    word = re.fullmatch(r"[^\W\d]\w*", name) is not None
    return word and len(name) <= _LONGEST and not _RESERVED.fullmatch(name)


def _numeric(backend: Backend, column: Column) -> Column:
    values, observed, storage, *_ = backend.cells(column, ())
    if storage is Storage.NUMBER and values.dtype == np.bool_ and not backend.categorical(column):
        numbers = np.zeros(len(observed), dtype=np.int8)
        numbers[observed] = values
        new = backend.new(numbers, None)
        return new if observed.all() else backend.with_nulls(new, ~observed)
    return backend.as_categorical(column) if storage is Storage.TEXT and not observed.all() else column
