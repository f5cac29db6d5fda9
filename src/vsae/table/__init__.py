"""Tables ⇄ the columns and the mask that the core takes: what each column is, and how it comes back as it was.

`Table.fit` looks at every column once and writes down a `ColumnPlan`: its kind, its levels or bounds, its dtype.
`encode` follows the plans from a table to natural units and level codes; `decode` puts numbers and codes back into the
missing cells of the table it was given. No other cell is written to, so these come back bit-identical.

Three things can be the matter with a cell:

    missing   null, NaN, or one of the column's missing codes: unobserved, and filled by `decode`
    odd       a level or number the plan has no place for (unseen level, ±inf, out of bounds): unobserved, but kept
    observed  everything else

Cells travel as numpy arrays of the observed values only. Taking the nulls out *before* numpy sees a column is what
keeps nullable integers above 2^53 exact, and a null in an Arrow dictionary from turning into a level.

Each module builds on those before it:

    errors, specs         what may go wrong; what a user may say of a column
    cells, units          observed values as exact numpy arrays; their numbers, and back
    images                cells that are images
    missing_codes         texts and numbers that stand for no value
    notations, stamps     numbers, dates and times that are written as text
    expressions           a small language of conditions and relations
    conditions            where a condition on a row holds
    relations             between columns: their value in each row, and whether they hold
    constraints           relations that imputed cells are made to satisfy
    typed_json, plan      one column: read, written, shown, saved
    inference             from a column and what was asked of it to its plan
    backends, frames      cells in and out of numpy; of pandas, polars and pyarrow
    containers, labels    a user's table as labelled columns; what is said of them by label
    given, planning       values of single columns; the plan of one, and a new one like it
    table                 all columns together
    fills                 which missing cells are filled, which are left, and why
    roles                 columns that say something of rows: weights, groups, order
"""

from vsae.table.cells import Storage
from vsae.table.errors import DataWarning, TableError
from vsae.table.plan import ColumnPlan
from vsae.table.specs import (
    Binary,
    Categorical,
    Count,
    Date,
    Duration,
    Image,
    Integer,
    Keep,
    Ordinal,
    Positive,
    Real,
    Spec,
    Time,
    spec_from_json,
)
from vsae.table.table import Encoded, Table

__all__ = [
    "Binary",
    "Categorical",
    "ColumnPlan",
    "Count",
    "DataWarning",
    "Date",
    "Duration",
    "Encoded",
    "Image",
    "Integer",
    "Keep",
    "Ordinal",
    "Positive",
    "Real",
    "Spec",
    "Storage",
    "Table",
    "TableError",
    "Time",
    "spec_from_json",
]
