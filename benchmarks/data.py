"""The tables that benchmarks run on, all in one form: schema, complete columns, and what was never known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae import Schema
from vsae.data.missingness import Mechanism
from vsae.data.schema import DISCRETE, categorical, real
from vsae.datasets import TABLES, load_table, make_clinic
from vsae.evaluation.metrics import mean_mode, nrmse, pfc

SKLEARN = ("breast_cancer", "diabetes", "wine", "digits")
LONG = "adult_5000"  # 15 columns; 5,000 rows to fit, where a fifth is kept as new
NAMES = (*TABLES, *SKLEARN, "clinic")
MOST_ROWS = 3000  # the others are cut, so that slow peers can finish


@dataclass(frozen=True)
class Rows:
    """`columns` in natural units (codes for levels); `known` (n, M) is False where the source itself lacks the cell."""

    name: str
    schema: Schema
    columns: dict[str, NDArray[Any]]
    known: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.known)

    def take(self, index: NDArray[Any]) -> Rows:
        columns = {name: x[index] for name, x in self.columns.items()}
        return Rows(self.name, self.schema, columns, self.known[index])

    def matrix(self, columns: dict[str, NDArray[Any]] | None = None) -> NDArray[np.float64]:
        """(n, variables) floats; 0 where nothing is known."""
        columns = self.columns if columns is None else columns
        x = np.stack([np.asarray(columns[v.name], dtype=np.float64) for v in self.schema.variables], axis=1)
        return np.where(self.variables_known(), np.nan_to_num(x), 0.0)

    def variables_known(self) -> NDArray[np.bool_]:
        return self.known[:, [self.schema.attribute_of[v.name] for v in self.schema.variables]]

    def hide(self, mechanism: Mechanism, rng: np.random.Generator) -> NDArray[np.bool_]:
        """A mask (n, M) over attributes by a mechanism on the values; what was never known stays hidden."""
        x = self.matrix()
        first = {self.schema.attribute_of[v.name]: j for j, v in reversed(list(enumerate(self.schema.variables)))}
        return mechanism.sample(x, rng)[:, [first[i] for i in range(len(self.schema))]] & self.known


def load(name: str, most_rows: int | None = MOST_ROWS, *, label: bool = False) -> Rows:
    """A table by name, cut to `most_rows` rows chosen at random (the same ones each time).

    Tables that come with a label apart from their columns have it among them only with `label`.
    """
    if name == LONG:
        rows = load("adult", 6250)
        return Rows(name, rows.schema, rows.columns, rows.known)
    if name in TABLES:
        table = load_table(name, label=label)
        rows = Rows(name, table.schema, dict(table.columns), table.mask)
    elif name == "clinic":
        clinic = make_clinic(2000)
        rows = Rows(name, clinic.schema, dict(clinic.truth), np.ones_like(clinic.mask))
    elif name in SKLEARN:
        rows = _from_sklearn(name, label)
    else:
        raise ValueError(f"there is no table {name!r}; there are {', '.join(NAMES)}")
    if most_rows is not None and len(rows) > most_rows:
        rows = rows.take(np.sort(np.random.default_rng(0).choice(len(rows), most_rows, replace=False)))
    return rows


def _from_sklearn(name: str, label: bool) -> Rows:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    x = bunch.data[:, bunch.data.std(axis=0) > 0]  # digits has pixels that are always black
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    attributes = [real(column) for column in columns]
    if label:
        columns["target"] = bunch.target
        few = name != "diabetes"
        attributes.append(categorical("target", len(bunch.target_names)) if few else real("target"))
    return Rows(name, Schema(attributes), columns, np.ones((len(x), len(columns)), dtype=bool))


def errors(
    rows: Rows, mask: NDArray[np.bool_], filled: dict[str, NDArray[Any]], centre: NDArray[np.float64] | None = None
) -> dict[str, float]:
    """NRMSE of the numbers, PFC of the levels, on hidden cells whose value is known; and the mean's and mode's.

    `centre` holds the mean or mode of each variable where these come from other rows than the scored ones.
    """
    x, ours, known = rows.matrix(), rows.matrix(filled), rows.variables_known()
    seen = mask[:, [rows.schema.attribute_of[v.name] for v in rows.schema.variables]]
    discrete = np.array([v.family in DISCRETE for v in rows.schema.variables])
    if centre is None:
        centre = mean_mode(x, seen, discrete)
    scored = seen | ~known  # metrics score where this is False
    out: dict[str, float] = {}
    for measure, at, score in (("nrmse", ~discrete, nrmse), ("pfc", discrete, pfc)):
        if at.any():
            out[measure] = float(score(x[:, at], ours[:, at], scored[:, at]))
            trivial = np.where(scored, x, centre)
            out[f"{measure}_trivial"] = float(score(x[:, at], trivial[:, at], scored[:, at]))
    return out
