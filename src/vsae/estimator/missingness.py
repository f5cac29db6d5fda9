"""Why cells are missing, and what if they hold other values than the model believes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vsae.estimator.base import TableEstimator
from vsae.estimator.values import modelled_by_label, whole_number
from vsae.mechanism.report import MechanismReport, mechanism_report
from vsae.mechanism.sensitivity import Sensitivity, sensitivity
from vsae.table import Encoded, Table


class MissingnessMixin(TableEstimator):
    """Reports of the mechanism, its probabilities, and masks that it draws for rows that are given."""

    def mechanism_report(self, X: Any) -> MechanismReport:
        """What the missing cells of each column go with: other columns, which others miss, and their own value.

        `print` it for sentences; `.columns` has effects with 95 % intervals, `.little` Little's test, and `to_dict()`
        makes a dataframe.
        """
        return self._mechanism_of(self._encoded(X)[1])

    def _mechanism_of(self, encoded: Encoded) -> MechanismReport:
        encoded = self.schema_.without_inapplicable(encoded)
        if not encoded.n_rows:
            return MechanismReport((), None)
        cells, levels = (encoded.columns, encoded.mask), {p.name: p.levels for p in self.schema_.modelled if p.levels}
        return mechanism_report(self.fitted_.encoding, *cells, tilts=self.fitted_.tilts, levels=levels, seed=self._seed)

    def sensitivity(
        self,
        X: Any,
        estimand: Callable[[Any], Any],
        columns: Any,
        *,
        delta: float | Sequence[float] = 0.0,
        scale: float | Sequence[float] = 1.0,
        by: Callable[[Any], ArrayLike] | None = None,
        redraw: bool = False,
        n: int = 20,
        null: float = 0.0,
        alpha: float = 0.05,
        dfcom: float | None = None,
        random_state: int | None = None,
    ) -> Sensitivity:
        """How an answer changes if the missing cells of some columns hold other values than the model believes.

        The same `n` drawn tables are changed at each point of the grid, analysed and pooled; see `Sensitivity`.

        Parameters
        ----------
        estimand : callable
            Takes a completed table like X; returns an estimate and its squared standard error, or an estimate alone:
            then only what the missing cells leave uncertain counts.
        columns : column, list of columns, or dict
            Whose missing cells are changed. A dict gives the level that is to be more likely, or None:
            `{"reason": "heart", "income": None}`. Levels with an order need none: all steps up become more likely.
        delta, scale : float or list
            A number becomes scale · y + delta, in units of the column (dates and times: the finest unit they have);
            the log odds of a level rise by delta. One list, or two of equal length, are the grid.
        by : callable, optional
            Takes X, returns a number for each row: how much of the change it gets. `lambda df: df.arm == "drug"`
            changes one arm only.
        redraw : bool
            Whether the other missing cells of the row are drawn again, given the changed ones, or stay as drawn.
        null, alpha : float
            p is that of the estimand being `null`, and crosses alpha at the tipping point; intervals are at 1 - alpha.
        """
        view, encoded = self._encoded(X)
        return sensitivity(
            self.fitted_,
            encoded.columns,
            encoded.mask,
            lambda completed: estimand(self.schema_.decode(view, completed)),
            _changed(self.schema_, columns),
            delta=delta,
            scale=scale,
            weight=None if by is None else np.asarray(by(X), dtype=np.float64),
            redraw=redraw,
            n=whole_number("n", n),
            null=null,
            alpha=alpha,
            dfcom=dfcom,
            seed=self._seeded(random_state),
        )

    def missing_probability(self, X: Any) -> NDArray[np.float64]:
        """How probable the learned mechanism finds it that a cell is missing, (n, modelled columns).

        The mechanism sees which cells of the row are missing, and leans towards them: see
        `FittedVSAE.missing_probability`.
        """
        _, encoded = self._encoded(X)
        if not encoded.n_rows:
            return np.zeros(encoded.mask.shape)
        return self.fitted_.missing_probability(encoded.columns, encoded.mask)[:, : len(self.schema_.modelled)]

    def mask_log_likelihood(self, X: Any, *, random_state: int | None = None) -> NDArray[np.float64]:
        """How likely each row is to miss the cells it misses, log p(mask | row), (n,): odd masks have the lowest.

        Missing cells are drawn, so that the whole row is known, and the logarithm is averaged over draws.
        """
        _, encoded = self._encoded(X)
        if not encoded.n_rows:
            return np.zeros(0)
        return self.fitted_.mask_log_likelihood(encoded.columns, encoded.mask, seed=self._seeded(random_state))

    def ampute(self, X: Any, *, random_state: int | None = None) -> Any:
        """X with cells made missing as they were in the fitted table; what is missing already stays so.

        How likely a cell is to miss follows from the values of its row, its own included where the model takes its
        column to mask itself, and from which others miss.
        """
        view, encoded = self._encoded(X)
        if not encoded.n_rows:
            return X
        mask = self.fitted_.ampute(encoded.columns, encoded.mask, seed=self._seeded(random_state))
        return self.schema_.hide(view, encoded.mask & ~mask)


def _changed(table: Table, columns: Any) -> dict[str, int | None]:
    """Name → code of a level, or None."""
    if not isinstance(columns, Mapping):
        columns = dict.fromkeys(columns if isinstance(columns, list | tuple) else [columns])
    names = {label: plan.name for label, plan in modelled_by_label(table, columns, "columns").items()}
    codes = table.values({label: level for label, level in columns.items() if level is not None})
    return {names[label]: int(codes[names[label]]) if names[label] in codes else None for label in columns}
