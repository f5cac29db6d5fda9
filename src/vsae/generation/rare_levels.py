"""Rare levels: those that so few rows have that a generated row which has one would tell of these rows.

They are not generated: their share goes to the other levels of the column. A column that has no other levels is missing
in generated rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.microaggregation import FEWEST
from vsae.data.schema import DISCRETE, Schema, SchemaError

Common = Mapping[str, NDArray[np.bool_]]  # variable with levels → (levels,): those that are generated
Shares = Mapping[str, NDArray[np.float64]]  # … → (n, levels) probabilities

_LEAST = 1e-12  # probability of what is left, if a row has rare levels alone


def common_levels(schema: Schema, columns: Columns, mask: Mask) -> Common:
    """Those that `FEWEST` rows have, of which observed cells tell."""
    found = {}
    for variable in schema.variables:
        if variable.family in DISCRETE:
            codes = np.asarray(columns[variable.name])[mask[:, schema.attribute_of[variable.name]]]
            found[variable.name] = np.bincount(codes.astype(int), minlength=variable.size) >= FEWEST
    return found


def without_rare(shares: Shares, common: Common) -> dict[str, NDArray[np.float64]]:
    """Probabilities that are 0 for rare levels; as they are where all levels are rare.

    >>> without_rare({"job": np.array([[0.5, 0.3, 0.2]])}, {"job": np.array([True, False, True])})["job"].round(3)
    array([[0.714, 0.   , 0.286]])
    """
    out = dict(shares)
    for name in shares.keys() & common.keys():
        if common[name].any() and not common[name].all():
            kept = np.maximum(shares[name], _LEAST) * common[name]
            out[name] = kept / kept.sum(axis=1, keepdims=True)
    return out


def ungenerated(schema: Schema, common: Common) -> list[str]:
    """The attributes that have a variable all of whose levels are rare."""
    names = {schema.names[schema.attribute_of[name]] for name, kept in common.items() if not kept.any()}
    return [name for name in schema.names if name in names]


def refuse_rare(given: Mapping[str, Any], common: Common) -> None:
    for name, code in given.items():
        if name in common and not common[name][int(code)]:
            raise SchemaError(f"variable {name!r}: fewer than {FEWEST} rows have level {code}; leave it out of given")
