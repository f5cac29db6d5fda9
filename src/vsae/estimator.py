"""`VSAEImputer`: a scikit-learn estimator, a thin shell over `table` and `fitting`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import Tags, check_random_state, estimator_html_repr
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

import vsae
from vsae.analysis.draws import Draws
from vsae.data.context import GroupContext
from vsae.data.microaggregation import FEWEST
from vsae.data.schema import Schema
from vsae.evaluation.chains import CHAINS
from vsae.evaluation.evaluate import RANKS, KnownTable, Prediction, evaluate
from vsae.evaluation.report import Evaluation
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import Effort, config_for
from vsae.fitting.start import Start
from vsae.fitting.steps import Context
from vsae.generation.privacy import DistanceToClosest, distance_to_closest
from vsae.mechanism.choice import Mechanism, check_mechanism
from vsae.mechanism.report import MechanismReport, mechanism_report
from vsae.mechanism.sensitivity import Sensitivity, sensitivity
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import resolve_device
from vsae.progress import training_progress
from vsae.storage import checkpoint
from vsae.storage.typed import follows
from vsae.table import Encoded, Table, TableError, fills
from vsae.table.containers import View, view_of
from vsae.table.errors import DataWarning, counted
from vsae.table.roles import checked_weights, column_of, groups_of, weights_of
from vsae.table.stamps import notation_from_json, notation_to_json
from vsae.training.history import Callback

Strategy = Literal["mean", "median", "draw"]
_MOST_ROUNDS = 50  # of generated rows, of which those are taken that are as given
_FEWEST_TRIED = 500  # in each


class _Missing:
    """The value of `vsae.MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()  #: in `sample(given=…)`: the cell must be missing


class Interval(NamedTuple):
    """Two tables like the one asked about: observed cells as they are, and the bounds of the missing ones."""

    lower: Any
    upper: Any


class _Rows(NamedTuple):
    """What a model is fitted to."""

    schema: Schema
    columns: Mapping[str, NDArray[Any]]
    mask: NDArray[np.bool_]
    weight: NDArray[np.float64] | None
    context: GroupContext | None
    beside: Context | None


def _has_levels(imputer: VSAEImputer) -> bool:
    """Not known before `fit`: then `predict_proba` itself says that `fit` comes first."""
    return not hasattr(imputer, "schema_") or any(plan.levels for plan in imputer.schema_.modelled)


class VSAEImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Impute the missing values of a table with a generative model of the data and of what is missing.

    Takes pandas, polars and pyarrow tables, dicts of columns, and 2-D arrays with NaN; returns the same container with
    the same columns, order, index and dtypes. Observed cells stay untouched, and no cell is missing any more.

    Parameters
    ----------
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
        predicted from the other rows of its group in the same table: see docs/groups.md. Groups that `fit` has not seen
        are as good as those that it has.
    order : column, optional
        A column by which the rows of a group follow one another, such as a date; the nearest values before and after a
        missing cell then help to predict it.
    handle_unknown : {"keep", "error"}
        What to do with a level that `fit` has not seen, or a number outside its bounds: leave the cell as it is, or
        raise an error.
    strategy : {"mean", "median", "draw"}
        What `transform` puts into a missing cell. "mean": the mean of a number and the most probable level, which err
        least in squares and in counts; for prediction. "median": least absolute error; a column that is mostly 0 gets
        0. "draw": one draw of all missing cells of a row together, so that rows, spreads and correlations look like
        the observed ones. For inference, use `draw`, which gives several.
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

    schema_: Table
    fitted_: FittedVSAE
    fitted_on_: dict[str, Any]  # rows, share of missing cells, version of vsae
    n_features_in_: int
    context_: GroupContext | None  # what groups say of their rows; None without groups
    notations_: Mapping[str, Any]  # how the file of the table wrote its columns, where it was one; the command line's

    def __init__(
        self,
        *,
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
            return self._go_on(X, Start(self.fitted_), sample_weight)
        self._check_settings()
        X = self._checked(X, reset=True)
        table = self._planned(X)
        encoded = table.encode(X, handle_unknown=self.handle_unknown)
        return self._learn(table, encoded, self._rows_to_learn(X, table, encoded, sample_weight))

    def _planned(self, X: Any) -> Table:
        return Table.fit(
            X,
            schema=self._schema_with_roles(X),
            missing_values=self.missing_values,
            structural=self.structural,
            constraints=self.constraints or (),
        )

    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> VSAEImputer:
        """Go on from where the fit stands, with more rows; without a fit, begin one. y is ignored.

        The columns, their kinds and their levels stay those of the first rows, and so do the sizes of the networks:
        `effort` and `config` say how long to train. What the networks know of earlier rows is kept as far as the new
        ones bear it out; trees, calibration and mechanism are fitted to the new rows.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight)
        return self._go_on(X, Start(self.fitted_, rows=self.fitted_on_["rows"]), sample_weight)

    def _go_on(self, X: Any, start: Start, sample_weight: ArrayLike | None) -> VSAEImputer:
        self._check_settings()
        X = self._checked(X, reset=False)
        encoded = self.schema_.encode_more(X)
        rows = self._rows_to_learn(X, self.schema_, encoded, sample_weight, self.context_)
        return self._learn(self.schema_, encoded, rows, start)

    def _learn(self, table: Table, encoded: Encoded, rows: _Rows, start: Start | None = None) -> VSAEImputer:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitted = self._fitted(table, rows, seed, f"fitting {counted(len(rows.mask), 'row')}", start)
        missing, earlier = float(1 - table.without_inapplicable(encoded).mask.mean()), 0
        if start is not None and start.rows:
            missing += (1 - start.share(encoded.n_rows)) * (self.fitted_on_["missing"] - missing)
            earlier = start.rows
        self.context_ = rows.context  # from here on all or nothing: a fit that fails changes nothing
        self.schema_, self.fitted_, self._seed = table, fitted, seed
        self.fitted_on_ = {"rows": earlier + encoded.n_rows, "missing": missing, "vsae": vsae.__version__}
        return self

    def _fitted(self, table: Table, rows: _Rows, seed: int, title: str, start: Start | None = None) -> FittedVSAE:
        """A model of the rows; nothing of this estimator changes."""
        config = self.config
        if not isinstance(config, VSAEConfig):
            changes = dict(config or {})
            if unknown := sorted(changes.keys() - {setting.name for setting in fields(VSAEConfig)}, key=str):
                raise ValueError(f"config has no setting {unknown[0]!r}; vsae.VSAEConfig lists the settings")
            on_gpu = resolve_device(self.device).type == "cuda"
            config = config_for(rows.schema, len(rows.mask), self.effort, gpu=on_gpu, **changes)
        with training_progress(title, quiet=not self.verbose, also=self.callback) as callback:
            return fit(
                rows.schema,
                rows.columns,
                rows.mask,
                config,
                mechanism=self._mechanism_of(table),
                weight=rows.weight,
                context=rows.beside,
                seed=seed,
                device=self.device,
                callback=callback,
                checkpoint_path=self.checkpoint_path,
                start=start,
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def transform(self, X: Any) -> Any:
        """X with its missing cells imputed, as `strategy` says. Never refits."""
        self._check_strategy()
        X, encoded = self._encoded(X)
        fills.warn_of_unknown(self.schema_, X)
        filled = self.schema_.decode(X, self._imputed(encoded) if encoded.n_rows else encoded.columns)
        return fills.with_indicators(self.schema_, X, filled) if self.add_indicator else filled

    def _imputed(self, encoded: Encoded, *, warn: bool = True) -> dict[str, NDArray[Any]]:
        cells = encoded.columns, encoded.mask
        if self.strategy == "mean":
            columns = self.fitted_.impute(*cells)
        elif self.strategy == "median":
            columns = self.fitted_.median(*cells)
        else:
            columns = self.fitted_.draw(*cells, 1, seed=self._seed)[0]
        return self.schema_.constrained(columns, encoded.mask, warn=warn)

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
        n = _number("n", n)
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

    # --- how good

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
        missing = ~table.without_inapplicable(encoded).mask
        scored = [j for j, plan in enumerate(table.modelled) if not plan.variable.event]
        images = {plan.label: "it holds images" for plan in table.modelled if plan.variable.event}
        plans = [table.modelled[j] for j in scored]
        known = KnownTable.of(
            [plan.variable for plan in plans],
            [plan.label for plan in plans],
            [plan.kind_name for plan in plans],
            encoded.columns,
            encoded.mask[:, scored],
            missing[:, scored],
        )

        def fit_predict(shown: NDArray[np.bool_], rows: NDArray[np.int64], number: int, fits: int) -> Prediction:
            mask = encoded.mask.copy()
            mask[:, scored] = shown
            title = f"fit {number + 1} of {fits}, {counted(encoded.n_rows, 'row')}"
            left = encoded.only(mask)
            learned = model._rows_to_learn(X, table, left)
            model.context_, model.fitted_ = learned.context, model._fitted(table, learned, seed + number, title)
            some = model._with_context(X, left).take(rows)
            cuts = model.fitted_.quantiles(some.columns, some.mask, RANKS)
            chances = model.fitted_.probabilities(some.columns, some.mask)
            return known.prediction(model._imputed(some, warn=False), cuts, chances)

        found = evaluate(known, fit_predict, holdout=holdout, repeats=repeats, compare=compare, seed=seed)
        return replace(found, left_out={**found.left_out, **images})

    # --- why cells are missing

    def mechanism_report(self, X: Any) -> MechanismReport:
        """What the missing cells of each column go with: other columns, which others miss, and their own value.

        `print` it for sentences; `.columns` has effects with 95 % intervals, `.little` Little's test, and `to_dict()`
        makes a dataframe.
        """
        encoded = self.schema_.without_inapplicable(self._encoded(X)[1])
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
            self._changed(columns),
            delta=delta,
            scale=scale,
            weight=None if by is None else np.asarray(by(X), dtype=np.float64),
            redraw=redraw,
            n=_number("n", n),
            null=null,
            alpha=alpha,
            dfcom=dfcom,
            seed=self._seeded(random_state),
        )

    # --- generation

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
        n, seed = _number("n", n), self._seeded(random_state)
        given = {label: _single(value) for label, value in (given or {}).items()}
        wide = {label: value for label, value in given.items() if isinstance(value, list | tuple)}
        values, missing = self._conditions({label: value for label, value in given.items() if label not in wide})
        self._refuse_rare(given)
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

    def _refuse_rare(self, given: Mapping[Any, Any]) -> None:
        """Levels that fewer rows have than a generated row may tell of; a warning names columns that have no others."""
        plans = {plan.label: plan for plan in self.schema_.modelled if plan.levels}
        for label, value in given.items():
            for level in value if isinstance(value, list) else [value]:
                if label in plans and not isinstance(level, tuple | _Missing):
                    code = int(self.schema_.values({label: level})[plans[label].name])
                    if not self.fitted_.common[plans[label].name][code]:
                        few = f"{level!r} is a level of fewer than {FEWEST} rows, of which no rows are generated"
                        raise TableError(f"column {label!r}: {few}; leave it out of given")
        empty = [repr(plan.label) for plan in plans.values() if plan.name in self.fitted_.ungenerated]
        if empty:
            message = f"these columns are empty in generated rows, as no level is that of {FEWEST} rows: "
            warnings.warn(message + ", ".join(empty), DataWarning, stacklevel=3)

    def sample_mask(self, n: int, *, random_state: int | None = None) -> NDArray[np.bool_]:
        """`n` masks from the learned mechanism, (n, modelled columns); True = observed."""
        check_is_fitted(self)
        masks = self.fitted_.generate_masks(_number("n", n), seed=self._seeded(random_state))
        return masks[:, : len(self.schema_.modelled)]

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

    def distance_to_closest(self, rows: Any, X: Any) -> DistanceToClosest | None:
        """How far generated `rows` are from the closest ones of `X`, and whether they are copies of them.

        None where no two rows have enough cells in common.
        """
        generated, real = (self._encoded(part, context=False)[1] for part in (rows, X))
        if not generated.n_rows or not real.n_rows:
            return None
        return distance_to_closest(self.schema_.schema, (generated.columns, generated.mask), (real.columns, real.mask))

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file of safetensors and JSON; loading it runs no code."""
        check_is_fitted(self)
        tensors, model = self.fitted_.to_parts()
        content: dict[str, Any] = {
            "model": model,
            "table": self.schema_.to_json(),
            "handle_unknown": self.handle_unknown,
            "strategy": self.strategy,
            "add_indicator": self.add_indicator,
            "mechanism": dict(self.mechanism) if isinstance(self.mechanism, Mapping) else self.mechanism,
            "seed": self._seed,
            "weights": self.weights,
            "groups": self.groups,
            "order": self.order,
            "context": self.context_ and self.context_.to_json(),
        }
        content["fitted_on"] = self.fitted_on_
        content["notations"] = {name: notation_to_json(n) for name, n in getattr(self, "notations_", {}).items()}
        content["features"] = [str(name) for name in getattr(self, "feature_names_in_", [])]
        checkpoint.write(path, "imputer", tensors, content)

    # --- what the methods above share

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
        return view, self._with_context(view, encoded) if context else encoded

    def _with_context(self, X: Any, encoded: Encoded) -> Encoded:
        if self.context_ is None or not encoded.n_rows:
            return encoded
        groups = groups_of(X, self.groups, self.order)
        return Encoded(*self.context_.beside(encoded.columns, encoded.mask, groups), encoded.n_rows)

    def _check_settings(self) -> None:
        """Before a table is read."""
        if not isinstance(self.config, VSAEConfig | Mapping | None):
            raise TypeError(f'config must be a VSAEConfig, or changes such as {{"steps": 500}}, not {self.config!r}')
        self._check_strategy()
        check_mechanism(self.mechanism)
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be a function of one step's progress, not {self.callback!r}")

    def _schema_with_roles(self, X: Any) -> Any:
        """The schema as given, in which columns that say something of rows are kept, unless it says otherwise."""
        roles = {"weights": self.weights, "groups": self.groups, "order": self.order}
        if self.order is not None and self.groups is None:
            raise TableError(f"order={self.order!r} is the order of rows in a group; name the groups, too: groups=…")
        for what, label in roles.items():
            if label is not None:
                column_of(view_of(X), label, what)
        kept = {label: "keep" for label in (self.weights, self.groups) if label is not None}
        if not kept or not isinstance(self.schema, Mapping | None):
            return self.schema
        return {**kept, **(self.schema or {})}

    def _rows_to_learn(
        self,
        X: Any,
        table: Table,
        encoded: Encoded,
        sample_weight: ArrayLike | None = None,
        context: GroupContext | None = None,
    ) -> _Rows:
        """Those whose weight is not 0, with what groups say of them: as it is known to be said, if it is."""
        groups = None if self.groups is None else groups_of(X, self.groups, self.order)
        columns, mask, weight = encoded.columns, encoded.mask, None
        if sample_weight is not None and self.weights is not None:
            raise TableError(f"weights={self.weights!r} and sample_weight are both given; give one of them")
        if sample_weight is not None:
            weight = checked_weights(sample_weight, encoded.n_rows, "sample_weight")
        elif self.weights is not None:
            weight = weights_of(X, self.weights)
        if weight is not None:
            rows = np.flatnonzero(weight)
            columns, mask, weight = {name: x[rows] for name, x in columns.items()}, mask[rows], weight[rows]
            groups = groups and groups.take(rows)
            weight = None if (weight == weight[0]).all() else weight
        if groups is None:
            return _Rows(table.schema, columns, mask, weight, None, None)
        if context is None:
            order = next((plan.name for plan in table.modelled if plan.label == self.order), None)
            context = GroupContext.fit(table.schema, columns, mask, groups, weight, order)
        beside = partial(context.beside, groups=groups)
        return _Rows(context.schema, *beside(columns, mask), weight, context, beside)

    def _check_strategy(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise ValueError(f"strategy must be one of {', '.join(get_args(Strategy))}, not {self.strategy!r}")

    def _mechanism_of(self, table: Table) -> Mechanism:
        """By the model's names of the columns; one that does not always apply does not hide by its value."""
        inapplicable: dict[str, Any] = dict.fromkeys(table.structural, "ignorable")
        if not isinstance(self.mechanism, Mapping):
            return inapplicable if inapplicable and self.mechanism == "auto" else self.mechanism
        names = {plan.label: plan.name for plan in table.modelled}
        for label in self.mechanism:
            if label not in names:
                known = ", ".join(map(repr, names))
                raise TableError(f"column {label!r} in mechanism is not a modelled column; these are {known}")
        own = {names[label]: said for label, said in self.mechanism.items()}
        return {**inapplicable, **own}

    def _changed(self, columns: Any) -> dict[str, int | None]:
        """Name → code of a level, or None."""
        if not isinstance(columns, Mapping):
            columns = dict.fromkeys(columns if isinstance(columns, list | tuple) else [columns])
        names = {plan.label: plan.name for plan in self.schema_.modelled}
        for label in columns:
            if label not in names:
                known = ", ".join(map(repr, names))
                raise TableError(f"column {label!r} in columns is not a modelled column; these are {known}")
        codes = self.schema_.values({label: level for label, level in columns.items() if level is not None})
        return {names[label]: int(codes[names[label]]) if names[label] in codes else None for label in columns}

    def _seeded(self, random_state: int | None) -> int:
        if random_state is not None and not isinstance(random_state, Integral):
            raise TypeError(f"random_state must be a whole number, or None for that of the fit; not {random_state!r}")
        return self._seed if random_state is None else int(random_state)

    def _conditions(self, given: Mapping[Any, Any]) -> tuple[dict[str, float], list[str]]:
        """Values in the model's units, and names of the columns that must be missing."""
        plans = {plan.label: plan for plan in self.schema_.modelled}
        for label in given:
            if label not in plans:
                known = ", ".join(map(repr, plans))
                raise TableError(f"column {label!r} in given is not a modelled column; these are {known}")
        missing = [plans[label].name for label, value in given.items() if value is MISSING]
        values = self.schema_.values({label: value for label, value in given.items() if value is not MISSING})
        for plan in plans.values():
            if plan.constant is not None and values.get(plan.name, plan.constant) != plan.constant:
                raise TableError(f"column {plan.label!r} in given has the same value in every fitted row; leave it out")
        return values, missing

    # --- what a notebook shows: the parameters, as of all estimators, and what the columns were taken for

    def _repr_html_inner(self) -> str:
        schema = self.schema_._repr_html_() if hasattr(self, "schema_") else ""
        return str(estimator_html_repr(self)) + schema

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _single(value: Any) -> Any:
    """Several values that are but one are this one."""
    value = list(value) if isinstance(value, set | frozenset) else value
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _number(name: str, value: Any) -> int:
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def load(path: str | os.PathLike[str], device: str = "cpu") -> VSAEImputer:
    """An imputer from a file that `VSAEImputer.save` wrote."""
    tensors, content = checkpoint.read(path, "imputer")
    there = resolve_device(device)
    with checkpoint.parts_of(path):
        fitted = FittedVSAE.from_parts(tensors, content["model"], there)
        kept = {name: content[name] for name in ("handle_unknown", "strategy", "mechanism")}
        kept["add_indicator"] = content.get("add_indicator", False)
        kept |= {name: content.get(name) for name in ("weights", "groups", "order")}
        imputer = VSAEImputer(**kept, config=fitted.model.config, device=device)
        imputer.schema_, imputer.fitted_ = Table.from_json(content["table"]), fitted
        context, imputer._seed = content.get("context"), content["seed"]
        imputer.context_ = None if context is None else GroupContext.from_json(imputer.schema_.schema, context)
        imputer.fitted_on_ = dict(content["fitted_on"])
        imputer.notations_ = {name: notation_from_json(n) for name, n in content.get("notations", {}).items()}
        imputer.n_features_in_ = len(imputer.schema_.plans)
        if content["features"]:
            imputer.feature_names_in_ = np.array(content["features"], dtype=object)
        _try_out(imputer)
    return imputer


def _try_out(imputer: VSAEImputer) -> None:
    """Refuse a file with parts that no method could use; see `FittedVSAE.try_out`."""
    fitted, table = imputer.fitted_, imputer.schema_
    facts = tuple(imputer.fitted_on_[name] for name in ("rows", "missing", "vsae"))
    if not follows((*facts, imputer._seed, imputer.add_indicator), tuple[int, float, str, int, bool]):
        raise TypeError(f"fitted on {facts}, with the seed {imputer._seed!r}")
    if not 0 <= imputer._seed < 2**62:
        raise ValueError(f"its seed is {imputer._seed}")
    if (
        len(getattr(imputer, "feature_names_in_", table.plans)) != len(table.plans)
        or (table.schema if imputer.context_ is None else imputer.context_.schema) != fitted.schema
    ):
        raise ValueError("its table has other columns than its model")
    if imputer.handle_unknown not in ("keep", "error"):
        raise ValueError(f"handle_unknown is {imputer.handle_unknown!r}")
    imputer._check_strategy()
    check_mechanism(imputer.mechanism)
    table.try_out(fitted.try_out())
