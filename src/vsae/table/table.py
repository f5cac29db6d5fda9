"""`Table`: the plans of all columns, from a user's table to what the core takes and back."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import Attribute, Schema
from vsae.notebook import html_table
from vsae.table.backends import Column
from vsae.table.cells import Bools, Cells, scalars
from vsae.table.conditions import resolved, rows_where
from vsae.table.constraints import Constraints, named_rows
from vsae.table.containers import BACKENDS, View, stacked, view_of
from vsae.table.errors import DataWarning, TableError, counted
from vsae.table.expressions import columns_of, parse_relation
from vsae.table.given import allowed_of, values_of
from vsae.table.labels import by_label, codes_by_label, names_of, some
from vsae.table.plan import ColumnPlan, Oddity
from vsae.table.planning import for_images, new_column, plan_column, refuse_images
from vsae.table.specs import as_spec
from vsae.table.survey import Beyond, with_cells_beyond


class Encoded(NamedTuple):
    """A table as the core takes it."""

    columns: dict[str, NDArray[Any]]  # variable → (n,) numbers in natural units, or level codes
    mask: Bools  # (n, M), True = observed
    n_rows: int

    def only(self, mask: Bools) -> Encoded:
        """With nothing left of the cells that `mask` (n, M) does not have."""
        columns = {}
        for seen, (name, x) in zip(mask.T, self.columns.items(), strict=True):
            columns[name] = x.copy()
            columns[name][~seen] = 0
        return Encoded(columns, mask, self.n_rows)

    def take(self, rows: NDArray[np.int64]) -> Encoded:
        return Encoded({name: x[rows] for name, x in self.columns.items()}, self.mask[rows], len(rows))


@final
@dataclass(frozen=True, repr=False)
class Table:
    """What the columns of a table are; made by `fit`, never changed afterwards.

    >>> table = Table.fit({"age": np.array([31.0, np.nan, 52.0, 47.0]), "sex": np.array(["F", "M", None, "F"])})
    >>> table
    age  count   32 … 54, ≥ 0    25% missing
    sex  binary  2 levels: F, M  25% missing
    >>> encoded = table.encode({"age": np.array([40.0]), "sex": np.array([None])})
    >>> encoded.mask
    array([[ True, False]])
    >>> table.decode({"age": np.array([40.0]), "sex": np.array([None])}, {"age": np.zeros(1), "sex": np.array([1])})
    {'age': array([40.]), 'sex': array(['M'], dtype=object)}
    """

    plans: tuple[ColumnPlan, ...]
    container: str  # of the table in fit: pandas, polars, pyarrow, array or dict
    structural: Mapping[str, str] = field(default_factory=dict)  # name → condition under which a column does not apply
    constraints: Constraints | None = None

    @classmethod
    def fit(
        cls,
        X: Any,
        *,
        schema: Mapping[Any, Any] | None = None,
        missing_values: Any = None,
        structural: Mapping[Any, str] | None = None,
        constraints: Sequence[str] | str = (),
        beyond: Mapping[Hashable, Beyond] | None = None,
    ) -> Table:
        """Look at every column once. One warning names those that can't be modelled, and why.

        Where X is a sample of rows, `beyond` has what other rows tell of each column: see survey.py.
        """
        view = view_of(X)
        if not view.n or not view.columns:
            size = f"{counted(view.n, 'row')} and {counted(len(view.columns), 'column')}"
            raise TableError(f"the table has {size}; fit needs at least one of each")
        names = names_of(view)
        specs = {label: as_spec(label, asked) for label, asked in by_label("schema", schema, names).items()}
        codes = codes_by_label(missing_values, names)
        relations = [constraints] if isinstance(constraints, str) else list(constraints)
        measured = {name for text in relations for name in columns_of(parse_relation(text))}
        seen = view if beyond is None else with_cells_beyond(view, beyond)
        plans = tuple(
            plan_column(seen, label, name, specs.get(label), codes.get(label, ()), bool({str(label), name} & measured))
            for label, name in names.items()
        )
        if beyond is not None:  # codes are counted in the sample alone
            plans = tuple(p if p.missing_codes else replace(p, missing=beyond[p.label].missing) for p in plans)
        kept = [f"{plan.label!r} ({plan.why})" for plan in plans if plan.kind is None and plan.why]
        if all(plan.kind is None for plan in plans):
            raise TableError(f"no column can be modelled: {', '.join(kept) or 'all are kept'}; give a kind in schema")
        if kept:
            columns = ", ".join(kept)
            remedy = "to model one, give it a kind in schema"
            _warn(f"these columns are not modelled and come back as they are: {columns}; {remedy}")
        for plan in plans:
            if plan.suspected and plan.kind:
                codes_of = " and ".join(map(plan.show_value, plan.suspected))
                _warn(
                    f"column {plan.label!r}: {codes_of} may stand for a missing value; if so, say it with "
                    f"missing_values={{{plan.label!r}: {[*plan.suspected]!r}}}, or --missing in the shell"
                )
        conditions = {names[label]: text for label, text in by_label("structural", structural, names).items()}
        resolved([str(plan.label) for plan in plans if plan.name in conditions], plans, "structural")
        table = cls(plans, view.container, conditions)
        if not conditions and not relations:
            return table
        cells, mask, _ = table.read(view)
        known = table.known(mask)
        return replace(
            table,
            plans=table._applicable(cells, mask),
            constraints=Constraints.fit(relations, plans, cells, known) if relations else None,
        )

    @cached_property
    def modelled(self) -> tuple[ColumnPlan, ...]:
        return tuple(plan for plan in self.plans if plan.kind is not None)

    @cached_property
    def schema(self) -> Schema:
        """One attribute a modelled column, in the table's order."""
        return Schema(Attribute(plan.name, (plan.variable,)) for plan in self.modelled)

    def encode(self, X: Any, *, handle_unknown: Literal["keep", "error"] = "keep") -> Encoded:
        """Natural units and level codes. Odd cells are unobserved and named in one warning, or refused."""
        if handle_unknown not in ("keep", "error"):
            raise TableError(f"handle_unknown must be 'keep' or 'error', not {handle_unknown!r}")
        columns, mask, complaints = self.read(view_of(X))
        if complaints and handle_unknown == "error":
            raise TableError(f"{complaints[0]}; pass handle_unknown='keep' to leave such cells as they are")
        if complaints:
            _warn(f"these cells come back as they are, and the model takes them for missing: {'; '.join(complaints)}")
        return Encoded(columns, mask, len(mask))

    def encode_more(self, X: Any) -> Encoded:
        """Likewise, of rows to learn beside those of fit: their columns, levels and bounds must be those of fit."""
        view = view_of(X)
        known = {label for _, label in self.located(view)}
        anew = "or fit all rows anew"
        for label in view.columns:
            if label not in known:
                raise TableError(f"column {label!r} was not in fit; drop it, {anew}")
        for plan, label in self.located(view):
            if plan.kind is not None and label not in view.columns:
                raise TableError(
                    f"column {label!r} is not in this table; add it, if need be with missing cells, {anew}"
                )
        columns, mask, complaints = self.read(view)
        if complaints:
            raise TableError(f"{complaints[0]}; make such cells missing, {anew}")
        if not view.n:
            raise TableError("the table has 0 rows; give at least one")
        return Encoded(columns, mask, len(mask))

    def read(self, view: View) -> tuple[dict[str, NDArray[Any]], Bools, list[str]]:
        """Columns, mask, and what is to be said of odd cells."""
        columns: dict[str, NDArray[Any]] = {}
        mask = np.zeros((view.n, len(self.modelled)), dtype=np.bool_)
        complaints: list[str] = []
        located = [(plan, label) for plan, label in self.located(view) if plan.kind is not None]
        if view.columns and not any(label in view.columns for _, label in located):
            known = some(plan.label for plan in self.modelled)
            raise TableError(f"none of the fitted columns is in this table; the model knows {known}")
        for j, (plan, label) in enumerate(located):
            columns[plan.name] = plan.blank(view.n)
            if label not in view.columns:
                continue
            cells = view.cells(label, plan.missing_codes)
            x, oddities = plan.read(cells)
            mask[:, j] = cells.observed
            if oddities:
                usual = ~np.any([odd.cells for odd in oddities], axis=0)
                complaints += [_complaint(plan, cells, odd) for odd in oddities]
                mask[cells.observed, j], x = usual, x[usual]
            columns[plan.name][mask[:, j]] = x
        return columns, mask, complaints

    def decode(self, X: Any, columns: Mapping[str, NDArray[Any]]) -> Any:
        """A table like X, whose missing cells are filled from `columns`; columns that X lacks are added at its end."""
        view = view_of(X)
        changed: dict[Hashable, Column] = {}
        inapplicable, nowhere = self.inapplicable(columns), np.zeros(view.n, dtype=np.bool_)
        for plan, label in self.located(view):
            if plan.kind is None and plan.constant is None:
                continue
            x = columns[plan.name] if plan.kind else np.zeros(view.n)
            empty = inapplicable.get(plan.name, nowhere)
            if label not in view.columns:
                changed[label] = self._new_column(view, plan, x, empty)
                continue
            column = view.columns[label]
            missing = view.missing(label, plan.missing_codes)
            if not missing.any():
                continue
            where = np.flatnonzero(missing & ~empty)
            if plan.shape is not None:
                if len(where):
                    backend = for_images(plan, view.container, view.backend)
                    changed[label] = backend.fill_objects(column, where, plan.write(x[where], None))
                continue
            target = view.backend.target(column)
            if missing.all() and not plan.fits(target):  # nothing but nulls, and so of some other dtype
                changed[label] = self._new_column(view, plan, x, empty)
            elif len(where):
                changed[label] = view.backend.fill(column, where, plan.write(x[where], target))
        return view.rebuild(changed)

    def constrained(
        self, columns: dict[str, NDArray[Any]], mask: Bools, *, warn: bool = True
    ) -> dict[str, NDArray[Any]]:
        """Imputed columns, whose cells that `mask` (n, M) does not have satisfy the constraints."""
        if self.constraints is None or not len(mask):
            return columns
        found = self.constraints.satisfied(columns, self.known(mask))
        if found.broken and warn:
            _warn(f"observed cells, which stay as they are, do not satisfy {named_rows(found.broken)}")
        if found.unsolved and warn:
            _warn(f"no values of the missing cells were found that satisfy {named_rows(found.unsolved)}")
        return found.columns

    def known(self, mask: Bools) -> dict[str, Bools]:
        """The columns of a mask by name."""
        return {plan.name: mask[:, j] for j, plan in enumerate(self.modelled)}

    def inapplicable(self, columns: Mapping[str, NDArray[Any]], mask: Bools | None = None) -> dict[str, Bools]:
        """By name, the rows in which a column does not apply; cells that are not in `mask` tell nothing."""
        if not self.structural:
            return {}
        n = len(next(iter(columns.values())))
        known = self.known(np.ones((n, len(self.modelled)), np.bool_) if mask is None else mask)
        return {name: rows_where(text, self.plans, columns, known).holds for name, text in self.structural.items()}

    def without_inapplicable(self, encoded: Encoded) -> Encoded:
        """As if cells that do not apply were known and like most others: reports then do not count them as missing."""
        columns, mask, known = dict(encoded.columns), encoded.mask.copy(), self.known(encoded.mask)
        place = {plan.name: j for j, plan in enumerate(self.modelled)}
        for name, cells in self.inapplicable(encoded.columns, encoded.mask).items():
            seen = np.sort(columns[name][known[name]])
            cells = cells & ~known[name]
            columns[name] = np.where(cells, seen[len(seen) // 2] if len(seen) else 0, columns[name])
            mask[:, place[name]] |= cells
        return Encoded(columns, mask, encoded.n_rows)

    def _applicable(self, columns: Mapping[str, NDArray[Any]], mask: Bools) -> tuple[ColumnPlan, ...]:
        """The plans, with the share of missing cells among those that apply."""
        shares, known = {}, self.known(mask)
        for name, cells in self.inapplicable(columns, mask).items():
            applies = ~cells | known[name]
            shares[name] = float((~known[name] & applies).sum() / max(1, applies.sum()))
        return tuple(replace(plan, missing=shares.get(plan.name, plan.missing)) for plan in self.plans)

    def hide(self, X: Any, hidden: Bools) -> Any:
        """A table like X, with missing cells where `hidden` (n, M) is True; a dtype without any becomes one with."""
        view = view_of(X)
        located = [label for plan, label in self.located(view) if plan.kind is not None]
        changed = {
            label: view.backend.with_nulls(view.columns[label], hidden[:, j])
            for j, label in enumerate(located)
            if label in view.columns and hidden[:, j].any()
        }
        return view.rebuild(changed)

    def values(self, given: Mapping[Any, Any]) -> dict[str, float]:
        """Values of single columns, by label or name → variable: number in natural units, or level code."""
        return values_of(self.modelled, given)

    def allowed(self, given: Mapping[Any, Any]) -> dict[str, Callable[[NDArray[Any]], Bools]]:
        """By name, whether encoded values lie in a range (low, high), whose ends may be None, or are one of a list."""
        return allowed_of(self.modelled, given)

    def frame(
        self,
        columns: Mapping[str, NDArray[Any]],
        mask: Bools | None = None,
        *,
        n: int,
        container: str | None = None,
    ) -> Any:
        """A new table of `n` rows like the fitted one, with missing cells where `mask` (n, M) is False.

        Columns that are not modelled are left out; in an array they are NaN (None) instead, to keep its width. In
        another `container` than the fitted one, columns go by their names in the schema and have default dtypes.
        """
        container = container or self.container
        if container not in BACKENDS:
            raise TableError(f"container must be one of {', '.join(BACKENDS)}, not {container!r}")
        backend, same = BACKENDS[container](), container == self.container
        made: dict[Hashable, Column] = {}
        inapplicable = self.inapplicable(columns)
        for plan in self.modelled:
            refuse_images(plan, container, backend)
        for j, plan in enumerate(self.modelled):
            column = new_column(backend, plan, columns[plan.name], backend.empty(plan.dtype) if same else None)
            missing = inapplicable.get(plan.name, False) | (np.zeros(n, np.bool_) if mask is None else ~mask[:, j])
            if missing.any():
                column = backend.with_nulls(column, missing)
            made[plan.label if same else plan.name] = column
        if container != "array":
            return backend.table(made)
        if same:
            made = {plan.label: made[plan.label] if plan.kind else self._blank(plan, n) for plan in self.plans}
        return stacked(made.values())

    def try_out(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Two rows written and read again, in which cells are missing, as `fit` saw them and as a dict of columns: what
        cannot be done with a table that comes out of a file is an error now."""
        mask = np.zeros((2, len(self.modelled)), dtype=np.bool_)
        mask[1] = True
        if self.container not in BACKENDS:
            raise TableError(f"there is no container {self.container!r}")
        there = self.container in ("array", "dict") or importlib.util.find_spec(self.container) is not None
        for container in dict.fromkeys([self.container if there else "dict", "dict"]):
            rows = self.frame(columns, mask, n=2, container=container)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.encode(rows)
                self.decode(rows, self.constrained(dict(columns), mask))
        self.describe()

    def describe(self) -> str:
        """One line a column: name, kind, levels or range, share missing in fit."""
        rows = [(label, kind, values, f"{missing} missing") for label, kind, values, missing in self._described]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    __repr__ = describe

    def _repr_html_(self) -> str:
        return html_table(["column", "kind", "values", "missing"], self._described)

    @property
    def _described(self) -> list[tuple[str, str, str, str]]:
        return [(str(plan.label), plan.kind_name, plan.describe(), f"{plan.missing:.0%}") for plan in self.plans]

    def to_json(self) -> dict[str, Any]:
        return {
            "container": self.container,
            "plans": [plan.to_json() for plan in self.plans],
            "structural": dict(self.structural),
            "constraints": self.constraints and self.constraints.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        plans, relations = tuple(map(ColumnPlan.from_json, data["plans"])), data.get("constraints")
        constraints = Constraints.from_json(relations, plans) if relations else None
        return cls(plans, data["container"], data.get("structural", {}), constraints)

    def located(self, view: View) -> list[tuple[ColumnPlan, Hashable]]:
        """Each plan and the label of its column, which `view` may lack; arrays go by position."""
        if "array" not in (self.container, view.container):
            return [(plan, plan.label) for plan in self.plans]
        found, expected = len(view.columns), len(self.plans)
        if found != expected:  # in the words that scikit-learn checks for
            raise TableError(f"X has {found} features, but VSAEImputer is expecting {expected} features as input")
        return list(zip(self.plans, view.columns, strict=True))

    def _new_column(self, view: View, plan: ColumnPlan, x: NDArray[Any], empty: Bools) -> Column:
        """Of the dtype of fit where the library is the same; with nulls where it is `empty`."""
        refuse_images(plan, view.container, view.backend)
        like = view.backend.empty(plan.dtype) if self.container == view.container else None
        column = new_column(view.backend, plan, x, like)
        return view.backend.with_nulls(column, empty) if empty.any() else column

    def _blank(self, plan: ColumnPlan, n: int) -> NDArray[Any]:
        """What an array has in a column that is not modelled."""
        dtype = np.dtype(self.modelled[0].dtype)  # an array has but one
        dtype = dtype if dtype.kind in "fO" else np.dtype(np.float64)
        null = None if dtype.kind == "O" else np.nan
        return np.full(n, null if plan.constant is None else plan.constant, dtype)


def _complaint(plan: ColumnPlan, cells: Cells, odd: Oddity) -> str:
    first, *others = dict.fromkeys(scalars(cells.values[odd.cells]))
    more = f" (and {counted(len(others), 'more value')})" if others else ""
    return f"column {plan.label!r}: {first!r}{more} {odd.why}"


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=3)
