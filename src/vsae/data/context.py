"""Context: what the other rows of a group say of a row, as columns beside those of the table.

A patient's other visits tell more of a missing cell than all other patients do. A model of rows reads it from columns
that are made of the table itself, and that nobody asks it to impute:

    mean         of the variable in the group, as its other rows tell it: random_intercepts.py. It leans towards the
                 mean of all rows, and heeds what the group's other variables say. Of a positive number it is that of
                 logarithms, of levels without an order it is the share of each.
    last, next   the nearest values before and after the row, where rows have an order; of variables with missing cells

A variable that is always known and the same throughout each group needs no context, nor does the order itself.

No cell takes part in its own context, so none is told to the network that is to predict it. One that is withheld takes
part in no row's context, either: a model could otherwise learn from the rows around it what it will be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.columns import Columns, Mask
from vsae.data.random_intercepts import RandomIntercepts
from vsae.data.schema import Attribute, Family, Kind, Schema, Variable

_SIDES = ("last", "next")
_MOST_LEVELS = 12  # of a variable without an order, whose shares are told


class Groups(NamedTuple):
    """To which group each row belongs, 0, 1, …, and its place in the order of rows; -1 if that is not known."""

    code: NDArray[np.int64]  # (n,)
    order: NDArray[np.int64] | None = None  # (n,)

    def take(self, rows: NDArray[Any]) -> Groups:
        return Groups(self.code[rows], None if self.order is None else self.order[rows])


@dataclass(frozen=True)
class GroupContext:
    """Of the S scores of a table's variables: one a number or an ordered level, one for each level without an order."""

    table: Schema
    means: tuple[str, ...]  # variables that have a mean
    near: tuple[str, ...]  # … and a last and a next value
    intercepts: RandomIntercepts  # of the S scores

    @classmethod
    def fit(
        cls,
        table: Schema,
        columns: Columns,
        mask: Mask,
        groups: Groups,
        weight: NDArray[np.float64] | None = None,
        order: str | None = None,
    ) -> GroupContext:
        """From the observed cells. `order` is the variable that the order of rows follows, if it is one."""
        some = [bool(column.any() and not column.all()) for column in mask.T]
        missing = {v.name: some[table.attribute_of[v.name]] for v in table.variables}
        means = tuple(
            v.name
            for v in table.variables
            if _can_be_told(v) and v.name != order and (missing[v.name] or not _constant(columns[v.name], groups.code))
        )
        near = tuple(name for name in means if missing[name]) if groups.order is not None else ()
        blank = cls(table, means, near, RandomIntercepts(*(np.zeros(0),) * 3))
        return replace(blank, intercepts=RandomIntercepts.fit(*blank._scores(columns, mask), groups.code, weight))

    @cached_property
    def schema(self) -> Schema:
        """The table's attributes, and those of their context."""
        near = [_near_attribute(v, side) for side in _SIDES for v in self._variables(self.near)]
        return Schema((*self.table, *self._mean_attributes, *near))

    def beside(self, columns: Columns, mask: Mask, groups: Groups) -> tuple[dict[str, NDArray[Any]], Mask]:
        """The table's columns and their mask, (n, M), with those of the context; only the table's are read."""
        out = {v.name: np.asarray(columns[v.name]) for v in self.table.variables}
        known = mask[:, : len(self.table)]
        mean = self.intercepts.without_own_row(*self._scores(columns, known), groups.code)
        names = [v.name for attribute in self._mean_attributes for v in attribute.variables]
        out |= dict(zip(names, mean.T, strict=True))
        parts = [known, np.ones((len(known), len(self.means)), dtype=np.bool_)]
        if self.near:
            at = [self.table.attribute_of[name] for name in self.near]
            for side, source in zip(_SIDES, _neighbours(known[:, at], groups), strict=True):
                out |= {
                    f"{name} ({side})": np.asarray(columns[name])[np.maximum(source[:, j], 0)]
                    for j, name in enumerate(self.near)
                }
                parts.append(source >= 0)
        return out, np.concatenate(parts, axis=1)

    def to_json(self) -> dict[str, Any]:
        return {"means": list(self.means), "near": list(self.near), "intercepts": self.intercepts.to_json()}

    @classmethod
    def from_json(cls, table: Schema, data: Mapping[str, Any]) -> GroupContext:
        means, near = (tuple(v.name for v in table.variables if v.name in data[part]) for part in ("means", "near"))
        context = cls(table, means, near, RandomIntercepts(*(np.zeros(0),) * 3))
        told = all(map(_can_be_told, context._variables(means)))
        if [*means] != data["means"] or [*near] != data["near"] or not told:
            raise ValueError("its groups have other variables than its table")
        size = sum(len(attribute.variables) for attribute in context._mean_attributes)
        return replace(context, intercepts=RandomIntercepts.from_json(data["intercepts"], size))

    def _variables(self, names: tuple[str, ...]) -> list[Variable]:
        return [v for v in self.table.variables if v.name in names]

    @cached_property
    def _mean_attributes(self) -> list[Attribute]:
        return [_mean_attribute(v) for v in self._variables(self.means)]

    def _scores(self, columns: Columns, mask: Mask) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """What is averaged, (n, S), 0 where it is missing, and where it is observed."""
        parts, owner = [np.zeros((len(mask), 0))], []
        for v in self._variables(self.means):
            seen, x = mask[:, self.table.attribute_of[v.name]], np.asarray(columns[v.name], dtype=np.float64)
            x = np.where(seen, x, 1.0)
            if v.kind is Kind.POSITIVE:
                x = np.log(x)
            each = x[:, None] == np.arange(v.size) if v.family is Family.CATEGORICAL else x[:, None]
            parts.append(np.where(seen[:, None], each, 0.0))
            owner += [self.table.attribute_of[v.name]] * each.shape[1]
        return np.concatenate(parts, axis=1), mask[:, owner]


def _can_be_told(v: Variable) -> bool:
    """Vectors and images have no means that say much, and levels may be too many."""
    return not v.event and (v.family is not Family.CATEGORICAL or v.size <= _MOST_LEVELS)


def _constant(x: NDArray[Any], code: NDArray[np.int64]) -> bool:
    """Whether a complete column is the same throughout each group."""
    first = np.zeros(int(code.max()) + 1, dtype=x.dtype)
    first[code] = x
    return bool((first[code] == x).all())


def _mean_attribute(v: Variable) -> Attribute:
    name = f"{v.name} (group)"
    names = [f"{name} {level}" for level in range(v.size)] if v.family is Family.CATEGORICAL else [name]
    return Attribute(name, tuple(Variable(each, Kind.REAL) for each in names), context=True)


def _near_attribute(v: Variable, side: str) -> Attribute:
    name = f"{v.name} ({side})"
    return Attribute(name, (replace(v, name=name),), context=True)


def _neighbours(seen: Mask, groups: Groups) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of the last and of the next observed cell of the same column and group, (n, columns); -1: none.

    >>> seen = np.array([[True], [False], [True], [True]])
    >>> last, following = _neighbours(seen, Groups(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0])))
    >>> last[:, 0], following[:, 0]
    (array([-1,  0,  0, -1]), array([ 2,  2, -1, -1]))
    """
    assert groups.order is not None
    rows = np.lexsort((groups.order, groups.code))
    code, placed, place = groups.code[rows], (groups.order >= 0)[rows], np.arange(len(rows))
    shown = seen[rows] & placed[:, None]
    first = np.searchsorted(code, code)  # of each row's group
    end = np.searchsorted(code, code, side="right")
    before = np.maximum.accumulate(np.where(shown, place[:, None], -1), axis=0)
    after = np.minimum.accumulate(np.where(shown, place[:, None], len(rows))[::-1], axis=0)[::-1]
    nobody = np.full((1, seen.shape[1]), -1)
    before, after = np.concatenate([nobody, before[:-1]]), np.concatenate([after[1:], nobody + 1 + len(rows)])
    found = []
    for near, inside in ((before, before >= first[:, None]), (after, after < end[:, None])):
        out = np.full(seen.shape, -1, dtype=np.int64)
        out[rows] = np.where(inside & placed[:, None], rows[np.clip(near, 0, len(rows) - 1)], -1)
        found.append(out)
    return found[0], found[1]
