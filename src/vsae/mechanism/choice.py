"""Which columns are taken to mask themselves: by the evidence, or as the user says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from vsae.data.columns import Columns, Mask
from vsae.data.schema import DISCRETE, Family, Variable
from vsae.imputation.imputer import Imputer
from vsae.imputation.tilts import Tilts
from vsae.mechanism.evidence import evidence
from vsae.mechanism.self_masking import fit_tilts

Named = Literal["auto", "ignorable", "self-masking"]
Mechanism = Named | Mapping[str, "Named | Literal['+', '-'] | float"]
_NAMED = ("auto", "ignorable", "self-masking")


def check_mechanism(mechanism: Any, variables: Mapping[str, Variable] | None = None) -> None:
    """Raise ValueError, in one line, if it is none; with the variables of a table, if it does not suit them."""
    if not isinstance(mechanism, Mapping):
        if mechanism not in _NAMED:
            raise ValueError(f"mechanism must be one of {', '.join(_NAMED)}, or a dict by column, not {mechanism!r}")
        return
    for name, said in mechanism.items():
        number = isinstance(said, int | float) and not isinstance(said, bool)
        if said not in (*_NAMED, "+", "-") and not number:
            raise ValueError(
                f"mechanism of {name!r} must be one of {', '.join(_NAMED)}, '+' (high values hide), '-' (low values "
                f"hide) or a number (change of the log odds of being missing per standard deviation), not {said!r}"
            )
        if variables is None:
            continue
        if name not in variables:
            raise ValueError(f"mechanism names {name!r}, which is no column that the model imputes; drop it")
        variable = variables[name]
        if variable.event:
            raise ValueError(f"mechanism of {name!r}: pictures and vectors have no value to hide by; drop it")
        if said not in _NAMED and variable.family in DISCRETE and not is_ordered(variable):
            raise ValueError(f"mechanism of {name!r}: its levels have no order; say 'self-masking' or 'ignorable'")


def is_ordered(variable: Variable) -> bool:
    """Whether high and low mean something: for all but levels without an order."""
    return variable.family not in DISCRETE or variable.family in (Family.BERNOULLI, Family.CUMULATIVE)


def tilts_of(imputer: Imputer[Any], columns: Columns, mask: Mask, mechanism: Mechanism, seed: int = 0) -> Tilts:
    """Of the columns that mask themselves; none for a model that does not know every subset of cells."""
    variables = {variable.name: variable for variable in imputer.schema.variables}
    check_mechanism(mechanism, variables)
    named = dict(mechanism) if isinstance(mechanism, Mapping) else {}
    rest = "auto" if isinstance(mechanism, Mapping) else mechanism
    context = {variable.name for i in imputer.schema.context for variable in imputer.schema.attributes[i].variables}
    said: dict[str, Any] = {
        name: "ignorable" if name in context else named.get(name, rest)
        for name, variable in variables.items()
        if not variable.event
    }
    if not imputer.knows_every_subset:
        return Tilts()
    if "auto" in said.values():
        found = evidence(imputer.encoding, columns, mask, seed)
        at = imputer.schema.attribute_of
        for name in [name for name, what in said.items() if what == "auto"]:
            on = at[name] in found and found[at[name]].probability > 0.5
            said[name] = "self-masking" if on else "ignorable"
    return fit_tilts(imputer, columns, mask, {n: what for n, what in said.items() if what != "ignorable"}, seed)
