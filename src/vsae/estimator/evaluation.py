"""How good the estimator is on a table: `VSAEImputer.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from vsae.estimator.learning import LearningMixin
from vsae.estimator.rows import rows_to_learn, with_context
from vsae.evaluation.chains import CHAINS
from vsae.evaluation.evaluate import RANKS, KnownTable, Prediction, evaluate
from vsae.evaluation.report import Evaluation
from vsae.table import Encoded, Table
from vsae.table.errors import counted


class EvaluationMixin(LearningMixin):
    """Fits to a table of which known cells are hidden."""

    def evaluate(
        self,
        X: Any,
        *,
        holdout: float = 0.1,
        repeats: int | None = None,
        compare: Sequence[str] = tuple(CHAINS),
        random_state: int | None = None,
    ) -> Evaluation:
        """How good this imputer is on the table X: errors a column, on known cells that no fit has seen.

        Hides known cells as the table's own pattern hides cells, fits anew on what is left, and compares. Neither X nor
        this imputer changes; it need not be fitted. `print` what comes back; its `.table` is a dataframe.

        Parameters
        ----------
        holdout : float
            The share of the known cells that each fit is not shown.
        repeats : int, optional
            How many fits, each with other cells hidden. Default: as many as tell errors well, at most five.
        compare : sequence of {"mean/mode", "linear", "trees"}
            What else to score on the same cells: means and modes, which always are; a chain of ridge regressions;
            boosted trees.
        """
        self._check_settings()
        model = clone(self).set_params(checkpoint_path=None)
        X = model._checked(X, reset=True)
        model.schema_ = table = self.schema_ if hasattr(self, "schema_") else model._planned(X)
        encoded = table.encode(X, handle_unknown=self.handle_unknown)
        state = self.random_state if random_state is None else random_state
        model._seed = seed = int(check_random_state(state).randint(2**30))
        scored = [j for j, plan in enumerate(table.modelled) if not plan.variable.event]
        images = {plan.label: "it holds images" for plan in table.modelled if plan.variable.event}
        known = _known(table, encoded, scored)

        def fit_predict(shown: NDArray[np.bool_], rows: NDArray[np.int64], number: int, fits: int) -> Prediction:
            mask = encoded.mask.copy()
            mask[:, scored] = shown
            title = f"fit {number + 1} of {fits}, {counted(encoded.n_rows, 'row')}"
            left = encoded.only(mask)
            learned = rows_to_learn(X, table, left, self._roles)
            model.context_, model.fitted_ = learned.context, model._fitted(table, learned, seed + number, title)
            some = with_context(X, left, self._roles, learned.context).take(rows)
            cuts = model.fitted_.quantiles(some.columns, some.mask, RANKS)
            chances = model.fitted_.probabilities(some.columns, some.mask)
            return known.prediction(model._imputed(some, warn=False), cuts, chances)

        found = evaluate(
            known, fit_predict, holdout=holdout, repeats=repeats, compare=compare, seed=seed, name=self.method
        )
        return replace(found, left_out={**found.left_out, **images})


def _known(table: Table, encoded: Encoded, scored: list[int]) -> KnownTable:
    """Of the modelled columns, those that have an error."""
    plans = [table.modelled[j] for j in scored]
    missing = ~table.without_inapplicable(encoded).mask
    return KnownTable.of(
        [plan.variable for plan in plans],
        [plan.label for plan in plans],
        [plan.kind_name for plan in plans],
        encoded.columns,
        encoded.mask[:, scored],
        missing[:, scored],
    )
