"""`Draws`: the completed tables of a multiple imputation, and what is done with all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar, final, get_args, overload

from vsae.analysis.formulas import regression
from vsae.analysis.long import long_table
from vsae.analysis.stata import stata_table
from vsae.evaluation.pooling import Pooled, pool
from vsae.notebook import html_table
from vsae.table.containers import view_of
from vsae.table.errors import counted

Style = Literal["mice", "stata"]
Result = TypeVar("Result")


@final
class Draws(Sequence[Any]):
    """Completed tables, a sequence, beside the `original` that they complete. `VSAEImputer.draw` returns them.

    >>> import numpy as np
    >>> draws = Draws([{"x": np.array([1.0, x])} for x in (2.0, 3.0, 2.5)], {"x": np.array([1.0, np.nan])})
    >>> draws
    3 completed tables of 2 rows and 1 column; 1 cell drawn in each
    >>> [float(x) for x in draws.apply(lambda table: table["x"].mean())]
    [1.5, 2.0, 1.75]
    >>> draws.long(original=True)[".imp"]
    array([0, 0, 1, 1, 2, 2, 3, 3])
    """

    def __init__(self, tables: Iterable[Any], original: Any) -> None:
        self._tables = tuple(tables)
        self.original = original  # with its missing cells

    def __len__(self) -> int:
        return len(self._tables)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Draws: ...
    def __getitem__(self, index: int | slice) -> Any:
        return Draws(self._tables[index], self.original) if isinstance(index, slice) else self._tables[index]

    def long(self, *, original: bool = False, style: Style = "mice") -> Any:
        """One table like these, with all of their rows, those of the first table first.

        Two columns say where a row belongs: `.imp`, the number of the table, from 1 on, and `.id`, that of the row.
        With `original`, the rows of the original stand before them as `.imp` 0: then R's `mice::as.mids` reads it.
        For Stata's `mi import flong`, `style="stata"`: these columns are `mi_m` and `mi_id`, the original is there,
        names are such as Stata takes, and imputed columns are numbers or categories.
        """
        if style not in get_args(Style):
            raise ValueError(f"style must be one of {', '.join(get_args(Style))}, not {style!r}")
        if not self._tables:
            raise ValueError("there are no draws here; take others of them")
        if style == "stata":
            return stata_table(self._tables, self.original)
        return long_table(self._tables, self.original if original else None)

    def apply(self, analysis: Callable[[Any], Result]) -> list[Result]:
        """What the analysis says of each table; `vsae.pool` makes one answer of it."""
        return [analysis(table) for table in self._tables]

    def fit(self, formula: str, family: Any = None, *, level: float = 0.95, **options: Any) -> Pooled:
        """A regression of each table, `"y ~ x + z"`, by Rubin's rules one; needs `pip install 'vsae[stats]'`.

        Least squares or, with a `family` ("binomial", "poisson", … or one of statsmodels'), a generalised linear model.
        The options are those of statsmodels' `fit`, such as `cov_type="HC3"`. `level` is that of the intervals.
        """
        return pool(self.apply(lambda table: regression(table, formula, family, **options)), level=level)

    @cached_property
    def drawn(self) -> dict[Hashable, int]:
        """How many cells of each column were missing and are drawn."""
        before, found = view_of(self.original), {}
        after = view_of(self._tables[0]) if self._tables else before
        for label, column in before.columns.items():
            filled = before.backend.nulls(column) & ~after.backend.nulls(after.columns[label])
            found[label] = int(filled.sum())
        return found

    def __repr__(self) -> str:
        view = view_of(self.original)
        size = f"{counted(view.n, 'row')} and {counted(len(view.columns), 'column')}"
        tables, cells = counted(len(self), "completed table"), counted(sum(self.drawn.values()), "cell")
        return f"{tables} of {size}; {cells} drawn in each"

    def _repr_html_(self) -> str:
        rows = view_of(self.original).n
        share = ((label, cells, f"{cells / max(rows, 1):.0%}") for label, cells in self.drawn.items())
        return html_table(["column", "cells drawn", "share"], share, caption=repr(self))
