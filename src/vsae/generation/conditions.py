"""What generated rows must have: `Condition`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.schema import Schema, SchemaError


@dataclass(frozen=True)
class Condition:
    """What generated rows must have: values of some variables, in natural units, and attributes that are missing."""

    given: Mapping[str, float] = field(default_factory=dict)
    known: tuple[int, ...] = ()  # attributes of the given variables
    gone: tuple[int, ...] = ()

    @classmethod
    def of(cls, schema: Schema, given: Mapping[str, float], missing: Sequence[str]) -> Condition:
        """From values of variables and names of attributes; those that the schema does not know are refused."""
        known_names = {"variable": list(schema.attribute_of), "attribute": schema.names}
        for what, names in (("variable", list(given)), ("attribute", list(missing))):
            for name in names:
                if name not in known_names[what]:
                    raise SchemaError(
                        f"there is no {what} {name!r} in this model; it has {', '.join(known_names[what])}"
                    )
        known, gone = {schema.attribute_of[n] for n in given}, {schema.names.index(n) for n in missing}
        for i in known & gone:
            raise SchemaError(f"{schema.names[i]!r} can not be both given and missing")
        return cls(given, tuple(sorted(known)), tuple(sorted(gone)))

    def __bool__(self) -> bool:
        return bool(self.known or self.gone)

    def on_columns(self, columns: Columns) -> dict[str, NDArray[Any]]:
        return {n: np.full_like(x, self.given[n]) if n in self.given else x for n, x in columns.items()}

    def on_mask(self, mask: Mask) -> Mask:
        mask = mask.copy()
        mask[:, list(self.known)] = True
        mask[:, list(self.gone)] = False
        return mask
