"""New rows and masks like those of the fitted table, and whether such rows are copies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from vsae.data.microaggregation import FEWEST
from vsae.estimator.base import TableEstimator
from vsae.estimator.values import MISSING, Missing, modelled_by_label, single, whole_number
from vsae.generation.privacy import DistanceToClosest, distance_to_closest
from vsae.table import Table, TableError
from vsae.table.errors import DataWarning

if TYPE_CHECKING:
    from vsae.estimator.methods import Fitted

_MOST_ROUNDS = 50  # of generated rows, of which those are taken that are as given
_FEWEST_TRIED = 500  # in each


class GenerationMixin(TableEstimator):
    """Rows and masks that are drawn, and their distances from real ones."""

    def sample(
        self,
        n: int,
        *,
        with_missing: bool = False,
        given: Mapping[Any, Any] | None = None,
        random_state: int | None = None,
        container: str | None = None,
    ) -> Any:
        """`n` new rows like those of the fitted table; if `with_missing`, with missing cells like those of its rows.

        `given` fixes columns to a value, to a range `(30, 40)`, whose ends may be None, to one of several values
        `["heart", "back"]`, or to `vsae.MISSING`: these are missing in any case. The rows come in the container of the
        fitted table, or in `container`: "pandas", "polars", "pyarrow", "dict" or "array".

        Levels that fewer than five rows have are not generated, and can not be given; a column that has no others is
        empty, of which a warning tells (docs/privacy.md).
        """
        check_is_fitted(self)
        n, seed = whole_number("n", n), self._seeded(random_state)
        given = {label: single(value) for label, value in (given or {}).items()}
        wide = {label: value for label, value in given.items() if isinstance(value, list | tuple)}
        exact = {label: value for label, value in given.items() if label not in wide}
        values, missing = _conditions(self.schema_, exact)
        _refuse_rare(self.schema_, self.fitted_, given)
        allowed, batch = self.schema_.allowed(wide), max(n, _FEWEST_TRIED) if wide else n
        found: list[tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]] = []
        have = 0
        while have < n:
            rows, mask = self._generated(batch, (seed + 1_000_003 * len(found)) % 2**62, values, missing, with_missing)
            kept = np.ones(batch, dtype=np.bool_)
            for j, name in enumerate(self.fitted_.schema.names):
                if name in allowed:
                    kept &= allowed[name](rows[name])
                    mask[:, j] = True
            found.append(({name: x[kept] for name, x in rows.items()}, mask[kept]))
            have += int(kept.sum())
            if have < n and len(found) >= _MOST_ROUNDS:
                said = ", ".join(map(repr, wide))
                raise ValueError(f"only {have} of {batch * len(found)} generated rows are as given; widen {said}")
        rows = {name: np.concatenate([part[name] for part, _ in found])[:n] for name in found[0][0]}
        return self.schema_.frame(rows, np.concatenate([mask for _, mask in found])[:n], n=n, container=container)

    def _generated(
        self, n: int, seed: int, values: dict[str, float], missing: list[str], with_missing: bool
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        rows, mask = self.fitted_.generate(n, seed=seed, given=values, missing=missing)
        names = self.fitted_.schema.names
        if not with_missing:  # only the columns that were asked to be missing are, and those that are not generated
            mask = np.tile([name not in (*missing, *self.fitted_.ungenerated) for name in names], (n, 1))
        return self.schema_.constrained(rows, np.tile([name in values for name in names], (n, 1))), mask

    def sample_mask(self, n: int, *, random_state: int | None = None) -> NDArray[np.bool_]:
        """`n` masks from the learned mechanism, (n, modelled columns); True = observed."""
        check_is_fitted(self)
        masks = self.fitted_.generate_masks(whole_number("n", n), seed=self._seeded(random_state))
        return masks[:, : len(self.schema_.modelled)]

    def distance_to_closest(self, rows: Any, X: Any) -> DistanceToClosest | None:
        """How far generated `rows` are from the closest ones of `X`, and whether they are copies of them.

        None where no two rows have enough cells in common.
        """
        generated, real = (self._encoded(part, context=False)[1] for part in (rows, X))
        if not generated.n_rows or not real.n_rows:
            return None
        return distance_to_closest(self.schema_.schema, (generated.columns, generated.mask), (real.columns, real.mask))


def _conditions(table: Table, given: Mapping[Any, Any]) -> tuple[dict[str, float], list[str]]:
    """Values in the model's units, and names of the columns that must be missing."""
    plans = modelled_by_label(table, given, "given")
    missing = [plans[label].name for label, value in given.items() if value is MISSING]
    values = table.values({label: value for label, value in given.items() if value is not MISSING})
    for plan in plans.values():
        if plan.constant is not None and values.get(plan.name, plan.constant) != plan.constant:
            raise TableError(f"column {plan.label!r} in given has the same value in every fitted row; leave it out")
    return values, missing


def _refuse_rare(table: Table, fitted: Fitted, given: Mapping[Any, Any]) -> None:
    """Levels that fewer rows have than a generated row may tell of; a warning names columns that have no others."""
    plans = {plan.label: plan for plan in table.modelled if plan.levels}
    for label, value in given.items():
        for level in value if isinstance(value, list) else [value]:
            if label in plans and not isinstance(level, tuple | Missing):
                code = int(table.values({label: level})[plans[label].name])
                if not fitted.common[plans[label].name][code]:
                    few = f"{level!r} is a level of fewer than {FEWEST} rows, of which no rows are generated"
                    raise TableError(f"column {label!r}: {few}; leave it out of given")
    empty = [repr(plan.label) for plan in plans.values() if plan.name in fitted.ungenerated]
    if empty:
        message = f"these columns are empty in generated rows, as no level is that of {FEWEST} rows: "
        warnings.warn(message + ", ".join(empty), DataWarning, stacklevel=3)
