"""What a user says of columns, by label or by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from vsae.table.cells import is_null, scalar
from vsae.table.containers import View
from vsae.table.errors import TableError


def names_of(view: View) -> dict[Hashable, str]:
    """Label → name in the schema: the label as text, or x0, x1, … in arrays."""
    labels: dict[str, Hashable] = {}
    for label in view.columns:
        name = f"x{label}" if view.container == "array" else str(label)
        while name in labels:
            name += "'"  # columns 1 and '1'
        labels[name] = label
    return {label: name for name, label in labels.items()}


def by_label(what: str, given: Mapping[Any, Any] | None, names: dict[Hashable, str]) -> dict[Hashable, Any]:
    """What a user said of columns by label or by name."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise TableError(f"{what}={given!r} does not say which column it is for; pass a dict {{column: …}}")
    labels = {name: label for label, name in names.items()} | {label: label for label in names}
    for key in given:
        if key not in labels:
            raise TableError(f"{what} names {key!r}, which is not a column; the columns are {some(names)}")
    return {labels[key]: value for key, value in given.items()}


def codes_by_label(given: Any, names: dict[Hashable, str]) -> dict[Hashable, tuple[Any, ...]]:
    """The missing codes of each column; those of all columns stand alone or under None, and count as text, too."""
    if given is not None and not isinstance(given, Mapping):
        given = {None: given}
    given = dict(given or {})
    of_all = () if None in names else _as_codes(None, given.pop(None, ()))
    of_all += tuple(str(code) for code in of_all if not isinstance(code, str))
    own = {label: _as_codes(label, each) for label, each in by_label("missing_values", given, names).items()}
    return {label: own.get(label, ()) + of_all for label in names}


def _as_codes(label: Hashable, given: Any) -> tuple[Any, ...]:
    """The missing codes of a column, from one or several; a null is missing anyway."""
    several = np.iterable(given) and not isinstance(given, str | bytes)
    codes = tuple(scalar(code) for code in (given if several else [given]) if not is_null(code))
    for code in codes:
        if not isinstance(code, Hashable):
            raise TableError(
                f"column {label!r}: the missing code {code!r} is not a single value; list the codes one by one"
            )
    return codes


def some(names: Iterable[Any]) -> str:
    names = list(names)
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
