"""The report on a table and its imputation: `VSAEImputer.report`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from numpy.random import RandomState

from vsae.estimator.evaluation import EvaluationMixin
from vsae.estimator.missingness import MissingnessMixin
from vsae.estimator.values import whole_number
from vsae.evaluation.report import Evaluation
from vsae.model.config import VSAEConfig
from vsae.report import Report
from vsae.storage.atomic import AnyPath, check_place
from vsae.table import TableError

_QUIET = ("verbose", "checkpoint_path", "callback", "device", "warm_start")  # change nothing that is shown


class ReportMixin(EvaluationMixin, MissingnessMixin):
    """One page on what was missing, what was put there, and how sure that is."""

    def report(
        self,
        X: Any,
        path: AnyPath | None = None,
        *,
        by: Any = None,
        evaluation: Evaluation | bool = True,
        draws: int = 5,
        title: str | None = None,
        again: str | None = None,
    ) -> Report:
        """One HTML file on the table X: what is missing and what goes with it, what is filled in, and how sure that is.

        The file needs no other and opens offline. In a notebook, what comes back shows itself; `save` writes it.

        Parameters
        ----------
        path : path, optional
            Where to write it.
        by : column, optional
            Whose values say the groups in which shares of missing cells are compared first. Default: the column whose
            levels differ most.
        evaluation : bool or Evaluation
            Whether known cells are hidden and asked for again, which takes one more fit; or what `evaluate` has said.
        draws : int
            How many draws of the missing cells are shown. Of a large table, some of the rows are drawn.
        title : str, optional
            What the report is of, such as the name of a file.
        again : str, optional
            How to repeat all this, where it was not done in Python.
        """
        from vsae.report.findings import Source, find  # what few need is imported when they do
        from vsae.report.page import page
        from vsae.report.story import story

        draws = whole_number("draws", draws)
        if path is not None:
            check_place(path)
        view, encoded = self._encoded(X)
        if not encoded.n_rows:
            raise TableError("the table has 0 rows; a report needs at least one")
        found, why = self._evaluated(X, evaluation)
        rows = list(X.index) if view.container == "pandas" and hasattr(X, "index") else None
        source = Source(
            view, self.schema_, encoded, self.fitted_, lambda some: self._imputed(some, warn=False), self._seed, rows
        )
        findings = find(
            source,
            title=title or "Table",
            mechanism=self._mechanism_of(encoded),
            evaluation=found,
            unmeasured=why,
            by=by,
            draws=draws,
            asked=frozenset([*(self.schema or ()), self.weights, self.groups]),
            story=story(
                self.fitted_,
                **self.fitted_on_,
                seed=self.random_state if isinstance(self.random_state, int) else None,
                settings=self._changed_settings(),
                strategy=self.strategy,
                method=self.method,
                again=again or self._lines(path),
            ),
        )
        report = Report(findings.title, page(findings))
        if path is not None:
            report.save(path)
        return report

    def _evaluated(self, X: Any, asked: Evaluation | bool) -> tuple[Evaluation | None, str]:
        """What hidden cells say, or why they were not asked."""
        if isinstance(asked, Evaluation):
            return asked, ""
        if not asked:
            return None, "it takes one more fit, which was not asked for"
        try:
            return self.evaluate(X, repeats=1, compare=()), ""
        except TableError:
            raise
        except ValueError as reason:  # too few rows or cells: the rest of the report is worth having
            return None, str(reason)

    def _changed_settings(self) -> dict[str, str]:
        """Those that are not the default, in short."""
        defaults = inspect.signature(type(self).__init__).parameters
        shown = {}
        for name, value in self.get_params(deep=False).items():
            if name not in _QUIET and value is not defaults[name].default and value != defaults[name].default:
                text = "as in the file of the model" if isinstance(value, VSAEConfig) else repr(value)
                shown[name] = text if not isinstance(value, RandomState) else "a generator of random numbers"
        return shown

    def _lines(self, path: AnyPath | None) -> str:
        """In Python."""
        call = f'imputer.report(df, "{Path("report.html" if path is None else path).name}")'
        if isinstance(self.config, VSAEConfig) and self.random_state is None:
            return f'imputer = vsae.load("model.vsae")\nfilled = imputer.transform(df)\n{call}'
        said = ", ".join(f"{name}={text}" for name, text in self._changed_settings().items())
        return f"imputer = vsae.VSAEImputer({said})\nfilled = imputer.fit_transform(df)\n{call}"
