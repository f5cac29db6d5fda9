"""What all parts of the estimator stand on: its parameters, what a fit leaves, and a user's table as cells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from vsae.data.context import GroupContext
from vsae.estimator.rows import Roles, with_context
from vsae.estimator.settings import seed_of
from vsae.estimator.values import Strategy
from vsae.fitting.presets import Effort
from vsae.mechanism.choice import Mechanism
from vsae.model.config import VSAEConfig
from vsae.table import Encoded, Table
from vsae.table.containers import View, view_of
from vsae.training.history import Callback

if TYPE_CHECKING:
    from vsae.estimator.methods import Fitted


class TableEstimator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The base of `VSAEImputer`, which sets the parameters and says what they are."""

    method: str
    schema: Mapping[Any, Any] | None
    missing_values: Any
    structural: Mapping[Any, str] | None
    constraints: Sequence[str] | None
    weights: Any
    groups: Any
    order: Any
    handle_unknown: Literal["keep", "error"]
    strategy: Strategy
    add_indicator: bool
    mechanism: Mechanism
    effort: Effort
    config: VSAEConfig | Mapping[str, Any] | None
    warm_start: bool
    random_state: int | np.random.RandomState | None
    device: str | None
    verbose: bool
    checkpoint_path: str | os.PathLike[str] | None
    callback: Callback | None

    schema_: Table
    fitted_: Fitted
    fitted_on_: dict[str, Any]  # rows, share of missing cells, version of vsae
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]  # not there where labels are no texts
    context_: GroupContext | None  # what groups say of their rows; None without groups
    notations_: Mapping[str, Any]  # how the file of the table wrote its columns, where it was one; the command line's
    _seed: int  # of the fit

    @property
    def _roles(self) -> Roles:
        return Roles(self.weights, self.groups, self.order)

    def _checked(self, X: Any, reset: bool) -> Any:
        """scikit-learn's checks for arrays; frames and dicts are `Table`'s to judge."""
        if isinstance(X, Mapping) and not issparse(X):  # one of scipy's sparse matrices is a mapping
            if reset:
                self.n_features_in_ = len(X)
            return X
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            if reset:
                labels = view_of(X).columns  # refuses what is no table, in one line
                if all(isinstance(label, str) for label in labels):
                    validate_data(self, X, reset=True, skip_check_array=True)
                elif hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
                self.n_features_in_ = len(labels)
            return X
        if isinstance(X, np.ndarray) and np.iscomplexobj(X):
            raise ValueError("Complex data not supported; give real and imaginary parts as columns of their own")
        try:
            return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=reset)
        except ValueError as error:  # with the array between its first line and its last
            first, *rest = str(error).splitlines()
            raise ValueError(" ".join([first, *rest[-1:]])) from None

    def _encoded(self, X: Any, *, context: bool = True) -> tuple[View, Encoded]:
        """X, looked at once, and its cells; with what groups say of their rows, unless that is not wanted."""
        check_is_fitted(self)
        view = view_of(self._checked(X, reset=False))
        encoded = self.schema_.encode(view, handle_unknown=self.handle_unknown)
        return view, with_context(view, encoded, self._roles, self.context_) if context else encoded

    def _imputed(self, encoded: Encoded, *, first_row: int = 0, warn: bool = True) -> dict[str, NDArray[Any]]:
        """As `strategy` says; draws are keyed by the numbers of rows, from the first on."""
        cells = encoded.columns, encoded.mask
        if self.strategy == "mean":
            columns = self.fitted_.impute(*cells)
        elif self.strategy == "median":
            columns = self.fitted_.median(*cells)
        else:
            rows = np.arange(first_row, first_row + encoded.n_rows)
            columns = self.fitted_.draw(*cells, 1, seed=self._seed, row_ids=rows)[0]
        return self.schema_.constrained(columns, encoded.mask, warn=warn)

    def _seeded(self, random_state: int | None) -> int:
        return seed_of(random_state, self._seed)

    # --- what scikit-learn asks

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    # --- what a notebook shows: the parameters, as of all estimators, and what the columns were taken for

    def _repr_html_inner(self) -> str:
        schema = self.schema_._repr_html_() if hasattr(self, "schema_") else ""
        return str(estimator_html_repr(self)) + schema

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle
