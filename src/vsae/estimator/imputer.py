"""`VSAEImputer`: a scikit-learn estimator, a thin shell over `table` and `fitting`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from vsae.analysis.draws import Draws
from vsae.estimator import files
from vsae.estimator.batches import BatchesMixin
from vsae.estimator.generation import GenerationMixin
from vsae.estimator.report import ReportMixin
from vsae.estimator.values import Interval, Strategy, whole_number
from vsae.fitting.presets import Effort
from vsae.mechanism.choice import Mechanism
from vsae.model.config import VSAEConfig
from vsae.table import fills
from vsae.training.history import Callback


def _has_levels(imputer: VSAEImputer) -> bool:
    """Not known before `fit`: then `predict_proba` itself says that `fit` comes first."""
    return not hasattr(imputer, "schema_") or any(plan.levels for plan in imputer.schema_.modelled)


class VSAEImputer(BatchesMixin, ReportMixin, GenerationMixin):
    """Impute the missing values of a table with a generative model of the data and of what is missing.

    Takes pandas, polars and pyarrow tables, dicts of columns, and 2-D arrays with NaN; returns the same container with
    the same columns, order, index and dtypes. Observed cells stay untouched, and no cell is missing any more.

    Parameters
    ----------
    method : str
        The model: "vsae", or the name of one that it is compared with, such as "miwae", "hivae" or "vaeac"
        (`vsae.baselines.METHODS` has them all). What only VSAE can do is then refused.
    schema : dict, optional
        What a column is, where the inferred kind is wrong: a kind's name ("categorical"), a spec with bounds
        (`Count(max=120)`), or "keep" to leave the column as it is. `schema_` shows the kinds that were inferred.
    missing_values : dict, value or list, optional
        Codes of a column that stand for a missing value: `{"age": [-1, 999]}`; without a dict, codes of all columns:
        `-999`.
    structural : dict, optional
        Where a column does not apply: `{"pregnancies": "sex == 'M'"}`. Such cells stay empty, are not counted as
        missing, and are never taken to hide by their own value.
    constraints : list of str, optional
        Relations between numbers or dates that imputed, drawn and generated rows satisfy:
        `["diastolic < systolic", "total == a + b + c", "end >= start"]`. Observed cells stay; a warning names the rows
        whose observed cells break one. Differences of dates count in days.
    weights : column, optional
        A column that says how much each row counts, such as a survey weight; it is not modelled. `fit` also takes an
        array, as `sample_weight`. Rows with weight 0 are imputed, and not learned from.
    groups : column, optional
        A column that names the group of each row, such as a patient; it is not modelled. A missing cell is then also
        predicted from the other rows of its group in the same table: see docs/weights-and-groups.md. Groups that `fit`
        has not seen are as good as those that it has.
    order : column, optional
        A column by which the rows of a group follow one another, such as a date; the nearest values before and after a
        missing cell then help to predict it.
    handle_unknown : {"keep", "error"}
        What to do with a level that `fit` has not seen, or a number outside its bounds: leave the cell as it is, or
        raise an error.
    strategy : {"mean", "median", "draw"}
        What `transform` puts into a missing cell. "mean": the mean of a number and the most probable level, which err
        least in squares and in counts; for prediction. "median": least absolute error; a column that is mostly 0 gets
        0, one of a few exact numbers one of these. "draw": one draw of all missing cells of a row together, so that
        rows, spreads and correlations look like the observed ones. For inference, use `draw`, which gives several.
    add_indicator : bool
        Whether `transform` adds a column of booleans, `missingindicator_age`, for each column that had missing cells in
        `fit`: True where the cell was missing. `imputed_mask` gives them as a table of their own.
    mechanism : {"auto", "ignorable", "self-masking"} or dict
        Why cells are missing. "ignorable": by chance, or because of what is observed; a missing cell is then like an
        observed one in a like row. "self-masking": because of their own value, as when high incomes are not told; how
        strongly is read off the mask. "auto": whichever the mask speaks for, column by column. Whoever knows more says
        so by column: `{"income": "+"}` (high values hide), `"-"`, a number (the change of the log odds of being missing
        per standard deviation), or one of the three; columns that are not named are "auto".
    effort : {"default", "fast", "best"}
        How much time to spend for better results: how large the networks are, how many are averaged, and how long they
        train. Sizes follow from the table; training stops early by the error on held-out cells.
    config : VSAEConfig or dict, optional
        All settings of the model and its training, or changes to those that `effort` chooses: `{"steps": 200}`.
    warm_start : bool
        Whether `fit`, called again, goes on from where the last fit stands: the columns, their kinds and levels and the
        sizes of the networks stay, and training is for as long as `effort` and `config` then say. `partial_fit` does so
        with rows that come beside those it knows.
    random_state : int, RandomState or None
        The seed of all random numbers.
    device : str, optional
        "cpu" or "cuda". By default, a GPU is used where there is one.
    verbose : bool
        Whether to show progress on stderr.
    checkpoint_path : path, optional
        A file in which `fit` keeps its state: when the same fit is started again, it continues from there.
    callback : callable, optional
        Called after every step of the training with an object that has its number, `step`, the `steps` that are
        planned, the `seconds` so far and, where held-out cells were just scored, a `record`. What it raises ends fit.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 6.0], [np.nan, 8.0]])
    >>> filled = VSAEImputer(config={"steps": 20}, random_state=0).fit_transform(X)
    >>> filled.shape, bool(np.isnan(filled).any())
    ((4, 2), False)
    """

    def __init__(
        self,
        *,
        method: str = "vsae",
        schema: Mapping[Any, Any] | None = None,
        missing_values: Any = None,
        structural: Mapping[Any, str] | None = None,
        constraints: Sequence[str] | None = None,
        weights: Any = None,
        groups: Any = None,
        order: Any = None,
        handle_unknown: Literal["keep", "error"] = "keep",
        strategy: Strategy = "mean",
        add_indicator: bool = False,
        mechanism: Mechanism = "auto",
        effort: Effort = "default",
        config: VSAEConfig | Mapping[str, Any] | None = None,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        device: str | None = None,
        verbose: bool = False,
        checkpoint_path: str | os.PathLike[str] | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.method = method
        self.schema = schema
        self.missing_values = missing_values
        self.structural = structural
        self.constraints = constraints
        self.weights = weights
        self.groups = groups
        self.order = order
        self.handle_unknown = handle_unknown
        self.strategy = strategy
        self.add_indicator = add_indicator
        self.mechanism = mechanism
        self.effort = effort
        self.config = config
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.checkpoint_path = checkpoint_path
        self.callback = callback

    # --- fit and transform

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> VSAEImputer:
        """Learn the table X, whose rows count as much as `sample_weight` (n,) says; y is ignored. With `warm_start`,
        from where the last fit stands."""
        if self.warm_start and hasattr(self, "fitted_"):
            self._go_on(X, 0, sample_weight)
        else:
            self._begin(X, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> VSAEImputer:
        """Go on from where the fit stands, with more rows; without a fit, begin one. y is ignored.

        The columns, their kinds and their levels stay those of the first rows, and so do the sizes of the networks:
        `effort` and `config` say how long to train. What the networks know of earlier rows is kept as far as the new
        ones bear it out; trees, calibration and mechanism are fitted to the new rows.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight)
        self._go_on(X, self.fitted_on_["rows"], sample_weight)
        return self

    def transform(self, X: Any) -> Any:
        """X with its missing cells imputed, as `strategy` says. Never refits."""
        return self._transformed(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns that `transform` gives."""
        names = super().get_feature_names_out(input_features)
        return np.append(names, np.array(fills.indicators(self.schema_), dtype=object)) if self.add_indicator else names

    def imputed_mask(self, X: Any) -> Any:
        """A table like X of booleans: True where `transform` fills a cell."""
        X, encoded = self._encoded(X)
        filled = None
        if self.schema_.structural and encoded.n_rows:  # a cell may not apply because of one that is filled
            filled = self.schema_.decode(X, self._imputed(encoded))
        return fills.imputed_mask(self.schema_, X, filled)

    # --- multiple imputation

    def draw(self, X: Any, n: int = 20, *, random_state: int | None = None, row_ids: ArrayLike | None = None) -> Draws:
        """`n` completed tables: the missing cells of each row are drawn together, given its observed ones.

        They are a sequence, with `fit` for pooled regressions, `apply` for other analyses, which `vsae.pool` pools, and
        `long` for other tools.

        The draws of a row depend on `random_state`, on the row, and on its number in X or, where given, its whole
        number in `row_ids`: not on the other rows.
        """
        n = whole_number("n", n)
        X, encoded = self._encoded(X)
        fills.warn_of_unknown(self.schema_, X)
        original = fills.without_codes(self.schema_, X)
        if not encoded.n_rows:
            return Draws((self.schema_.decode(X, encoded.columns) for _ in range(n)), original)
        ids = None if row_ids is None else np.asarray(row_ids)
        if ids is not None and (ids.dtype.kind not in "iu" or ids.shape != (encoded.n_rows,)):
            raise ValueError(f"row_ids must be a whole number for each of the {encoded.n_rows} rows")
        draws = self.fitted_.draw(encoded.columns, encoded.mask, n, seed=self._seeded(random_state), row_ids=ids)
        held = (self.schema_.constrained(columns, encoded.mask, warn=i == 0) for i, columns in enumerate(draws))
        return Draws((self.schema_.decode(X, columns) for columns in held), original)

    def predict_interval(self, X: Any, level: float = 0.9) -> Interval:
        """The central interval of each missing number or date; other missing cells get the most probable level."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level}")
        X, encoded = self._encoded(X)
        if not encoded.n_rows:
            return Interval(*(self.schema_.decode(X, encoded.columns) for _ in range(2)))
        tails = [(1 - level) / 2, (1 + level) / 2]
        tables = self.fitted_.quantiles(encoded.columns, encoded.mask, tails)
        return Interval(*(self.schema_.decode(X, columns) for columns in tables))

    @available_if(_has_levels)  # type: ignore[misc, untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> dict[Any, dict[Any, NDArray[np.float64]]]:
        """The probability of each level in each row, {column: {level: (n,)}}; the model sees the observed cells."""
        _, encoded = self._encoded(X)
        if not encoded.n_rows:
            return {p.label: {level: np.zeros(0) for level in p.levels} for p in self.schema_.modelled if p.levels}
        shares = self.fitted_.probabilities(encoded.columns, encoded.mask)
        return {
            plan.label: dict(zip(plan.levels, shares[plan.name].T, strict=True))
            for plan in self.schema_.modelled
            if plan.levels
        }

    # --- rows as the model sees them

    def embed(self, X: Any) -> NDArray[np.float32]:
        """Latent means, (n, modelled columns, latent_dim)."""
        _, encoded = self._encoded(X)
        if not encoded.n_rows:
            return np.zeros((*encoded.mask.shape, self.fitted_.model.config.latent_dim), dtype=np.float32)
        return self.fitted_.embed(encoded.columns, encoded.mask)[:, : len(self.schema_.modelled)]

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-likelihood of each row and its mask, log p(m) + log p(x | m), (n,); outliers have the lowest.

        A row with fewer observed cells scores higher, so compare rows that miss the same cells.
        """
        _, encoded = self._encoded(X)
        return self.fitted_.score_samples(encoded.columns, encoded.mask) if encoded.n_rows else np.zeros(0)

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file of safetensors and JSON; loading it runs no code."""
        files.write(self, path)


def load(path: str | os.PathLike[str], device: str = "cpu") -> VSAEImputer:
    """An imputer from a file that `VSAEImputer.save` wrote."""
    return files.read(path, device, VSAEImputer)
