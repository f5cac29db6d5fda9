"""A fit: from a user's table to a model of its rows, and what the estimator keeps of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from vsae import __version__
from vsae.estimator.base import TableEstimator
from vsae.estimator.methods import VSAE, check_method, fit_by_name, that_goes_on
from vsae.estimator.rows import Rows, rows_to_learn
from vsae.estimator.settings import check_settings, config_of, mechanism_of
from vsae.fitting.fit import fit
from vsae.fitting.start import Start
from vsae.progress import training_progress
from vsae.table import Encoded, Table
from vsae.table.errors import counted
from vsae.table.survey import Beyond

if TYPE_CHECKING:
    from vsae.estimator.methods import Fitted


class LearningMixin(TableEstimator):
    """The steps of `fit` and `partial_fit`, and a fit that changes nothing, which `evaluate` asks for."""

    def _check_settings(self) -> None:
        """Before a table is read."""
        check_settings(self.config, self.strategy, self.mechanism, self.callback)
        check_method(self.method, self.mechanism, self._roles)

    def _planned(self, X: Any, beyond: Mapping[Hashable, Beyond] | None = None) -> Table:
        return Table.fit(
            X,
            schema=self._roles.schema(X, self.schema),
            missing_values=self.missing_values,
            structural=self.structural,
            constraints=self.constraints or (),
            beyond=beyond,
        )

    def _begin(self, X: Any, sample_weight: ArrayLike | None, beyond: Mapping[Hashable, Beyond] | None = None) -> None:
        """A first fit, or one that forgets the last; `beyond` the rows of X, there may be others."""
        self._check_settings()
        X = self._checked(X, reset=True)
        table = self._planned(X, beyond)
        encoded = table.encode(X, handle_unknown=self.handle_unknown)
        self._learn(table, encoded, rows_to_learn(X, table, encoded, self._roles, sample_weight))

    def _go_on(self, X: Any, earlier: int, sample_weight: ArrayLike | None) -> None:
        """From where the last fit stands, which has seen so many rows that are not given again."""
        self._check_settings()
        start = Start(that_goes_on(self.method, self.fitted_), rows=earlier)
        X = self._checked(X, reset=False)
        encoded = self.schema_.encode_more(X)
        rows = rows_to_learn(X, self.schema_, encoded, self._roles, sample_weight, self.context_)
        self._learn(self.schema_, encoded, rows, start)

    def _learn(self, table: Table, encoded: Encoded, rows: Rows, start: Start | None = None) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitted = self._fitted(table, rows, seed, f"fitting {counted(len(rows.mask), 'row')}", start)
        missing, earlier = float(1 - table.without_inapplicable(encoded).mask.mean()), 0
        if start is not None and start.rows:
            missing += (1 - start.share(encoded.n_rows)) * (self.fitted_on_["missing"] - missing)
            earlier = start.rows
        self.context_ = rows.context  # from here on all or nothing: a fit that fails changes nothing
        self.schema_, self.fitted_, self._seed = table, fitted, seed
        self.fitted_on_ = {"rows": earlier + encoded.n_rows, "missing": missing, "vsae": __version__}

    def _fitted(self, table: Table, rows: Rows, seed: int, title: str, start: Start | None = None) -> Fitted:
        """A model of the rows; nothing of this estimator changes."""
        with training_progress(title, quiet=not self.verbose, also=self.callback) as callback:
            if self.method != VSAE:
                return fit_by_name(
                    self.method, rows, self.config, self.effort,
                    seed=seed, device=self.device, callback=callback, checkpoint_path=self.checkpoint_path,
                )  # fmt: skip
            return fit(
                rows.schema,
                rows.columns,
                rows.mask,
                config_of(self.config, self.effort, self.device, rows.schema, len(rows.mask)),
                mechanism=mechanism_of(self.mechanism, table),
                weight=rows.weight,
                context=rows.beside,
                seed=seed,
                device=self.device,
                callback=callback,
                checkpoint_path=self.checkpoint_path,
                start=start,
            )
