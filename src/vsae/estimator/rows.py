"""Which rows a model is fitted to: their weights, their groups, and what groups say of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vsae.data.context import GroupContext
from vsae.data.schema import Schema
from vsae.fitting.steps import Context
from vsae.table import Encoded, Table, TableError
from vsae.table.containers import view_of
from vsae.table.roles import checked_weights, column_of, groups_of, weights_of


class Rows(NamedTuple):
    """What a model is fitted to."""

    schema: Schema
    columns: Mapping[str, NDArray[Any]]
    mask: NDArray[np.bool_]
    weight: NDArray[np.float64] | None
    context: GroupContext | None
    beside: Context | None


class Roles(NamedTuple):
    """Labels of the columns that say something of rows, each of which may be None."""

    weights: Any
    groups: Any
    order: Any

    def schema(self, X: Any, schema: Mapping[Any, Any] | None) -> Any:
        """The schema as given, in which columns that say something of rows are kept, unless it says otherwise."""
        if self.order is not None and self.groups is None:
            raise TableError(f"order={self.order!r} is the order of rows in a group; name the groups, too: groups=…")
        for what, label in self._asdict().items():
            if label is not None:
                column_of(view_of(X), label, what)
        kept = {label: "keep" for label in (self.weights, self.groups) if label is not None}
        if not kept or not isinstance(schema, Mapping | None):
            return schema
        return {**kept, **(schema or {})}

    def weight(self, X: Any, n: int, sample_weight: ArrayLike | None) -> NDArray[np.float64] | None:
        """Of each of the n rows of X, from its column or from `sample_weight`."""
        if sample_weight is not None and self.weights is not None:
            raise TableError(f"weights={self.weights!r} and sample_weight are both given; give one of them")
        if sample_weight is not None:
            return checked_weights(sample_weight, n, "sample_weight")
        return None if self.weights is None else weights_of(X, self.weights)


def rows_to_learn(
    X: Any,
    table: Table,
    encoded: Encoded,
    roles: Roles,
    sample_weight: ArrayLike | None = None,
    context: GroupContext | None = None,
) -> Rows:
    """Those whose weight is not 0, with what groups say of them: as it is known to be said, if it is."""
    groups = None if roles.groups is None else groups_of(X, roles.groups, roles.order)
    weight = roles.weight(X, encoded.n_rows, sample_weight)
    if weight is not None:
        rows = np.flatnonzero(weight)
        encoded, weight = encoded.take(rows), weight[rows]
        groups = groups and groups.take(rows)
        weight = None if (weight == weight[0]).all() else weight
    if groups is None:
        return Rows(table.schema, encoded.columns, encoded.mask, weight, None, None)
    if context is None:
        order = next((plan.name for plan in table.modelled if plan.label == roles.order), None)
        context = GroupContext.fit(table.schema, encoded.columns, encoded.mask, groups, weight, order)
    beside = partial(context.beside, groups=groups)
    return Rows(context.schema, *beside(encoded.columns, encoded.mask), weight, context, beside)


def with_context(X: Any, encoded: Encoded, roles: Roles, context: GroupContext | None) -> Encoded:
    """The cells of X, and beside them what groups say of their rows."""
    if context is None or not encoded.n_rows:
        return encoded
    groups = groups_of(X, roles.groups, roles.order)
    return Encoded(*context.beside(encoded.columns, encoded.mask, groups), encoded.n_rows)
