"""Tables that come in batches: a fit on a sample of their rows, and an imputation of one batch after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from vsae.estimator.learning import LearningMixin
from vsae.estimator.methods import draws_by_row
from vsae.estimator.settings import check_strategy
from vsae.table import TableError, fills
from vsae.table.batches import as_table, batches_of, like, raw_batches_of
from vsae.table.containers import view_of
from vsae.table.errors import counted
from vsae.table.roles import weights_of
from vsae.table.survey import SAMPLE, Survey

E = TypeVar("E", bound="BatchesMixin")


class BatchesMixin(LearningMixin):
    """`fit` and `transform` in bounded memory."""

    def fit_batches(self: E, batches: Any, *, sample: int = SAMPLE, seed: int = 0) -> E:
        """Learn a table that comes in batches: every row is read once, and a uniform sample of rows is learned.

        What the columns are (kinds, levels, bounds, shares of missing cells) is told by all rows: see
        `vsae.table.survey`. Where there are no more rows than `sample`, this is `fit` of all of them. Batches come as
        `transform_batches` takes them; `seed` decides which rows are sampled.
        """
        return self.fit_survey(Survey.of(batches_of(batches), sample, seed))

    def fit_survey(self: E, survey: Survey) -> E:
        """Learn the sample of a pass over a table."""
        if not survey.rows:
            raise TableError("the table has no rows; fit needs at least one")
        if self.groups is not None and not survey.is_whole:
            few = f"a sample of {counted(survey.size, 'row')} has few rows of each group"
            raise TableError(f"groups={self.groups!r}: {few}; raise sample to all {survey.rows:,} rows, or fit a part")
        self._check_settings()
        if self.weights is not None:  # now, while it is known which rows of the table these are
            weights_of(survey.sample(), self.weights, survey.row_numbers())
        self._begin(survey.sample(), None, None if survey.is_whole else survey.beyond())
        return self

    def transform_batches(self, batches: Any, *, first_row: int = 0) -> Iterator[Any]:
        """The batches with their missing cells imputed, one after the other, each as it came.

        Takes a `RecordBatchReader` or a `Dataset` of pyarrow, a `LazyFrame` of polars, a relation of DuckDB, or any
        iterable of tables. A row's draws are keyed by its number over all batches, which begins with `first_row`: they
        are those of `transform` on the whole table, however it is cut.
        """
        check_is_fitted(self)
        self.refuse_parts()
        for batch in raw_batches_of(batches):
            table = as_table(batch)
            yield like(batch, self._transformed(table, first_row))
            first_row += view_of(table).n

    def _transformed(self, X: Any, first_row: int = 0) -> Any:
        """X with its missing cells imputed; its rows have numbers from `first_row` on."""
        check_strategy(self.strategy)
        X, encoded = self._encoded(X)
        fills.warn_of_unknown(self.schema_, X)
        columns = self._imputed(encoded, first_row=first_row) if encoded.n_rows else encoded.columns
        filled = self.schema_.decode(X, columns)
        return fills.with_indicators(self.schema_, X, filled) if self.add_indicator else filled

    def refuse_parts(self, draws: bool = False) -> None:
        """Where a row depends on others of the table, which may be in another part of it: on those of its group or, in
        draws of some methods, on those before it. Before a fit, its method says so."""
        if (draws or self.strategy == "draw") and not self._draws_by_row():
            raise TableError(
                f"method={self.method!r}: its draws depend on the rows before, so a table in parts will not do; "
                "give it whole (--engine memory)"
            )
        if self.groups is not None:
            raise TableError(
                f"groups={self.groups!r}: a row is predicted from all rows of its group, so a table in parts will not "
                "do; give it whole"
            )

    def _draws_by_row(self) -> bool:
        return self.fitted_.knows_every_subset if "fitted_" in vars(self) else draws_by_row(self.method)
