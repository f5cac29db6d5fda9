"""The main job on the built-in example: fit the clinic table, impute its missing cells, generate rows and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import DISCRETE, Kind
from vsae.datasets import Clinic, make_clinic
from vsae.estimator import VSAEImputer
from vsae.evaluation.metrics import mean_mode_fill, nrmse, pfc
from vsae.model.config import VSAEConfig
from vsae.table import Ordinal


@dataclass(frozen=True)
class ColumnError:
    """Error on the hidden cells of one column, beside that of mean or mode imputation."""

    name: str
    kind: str
    measure: str  # NRMSE for numbers, share wrong (PFC) for levels
    ours: float
    trivial: float


@dataclass(frozen=True)
class Demo:
    clinic: Clinic
    imputer: VSAEImputer
    errors: list[ColumnError]
    rows: dict[str, NDArray[Any]]  # generated, complete
    seen: dict[str, NDArray[np.bool_]]  # which of their cells the mechanism would show


def run(n: int = 2000, seed: int = 0, config: VSAEConfig | None = None, verbose: bool = False) -> Demo:
    clinic = make_clinic(n, seed)
    table = clinic.table()
    orders = {v.name: Ordinal(clinic.levels[v.name]) for v in clinic.schema.variables if v.kind is Kind.ORDINAL}
    imputer = VSAEImputer(schema=orders, config=config, random_state=seed, verbose=verbose)
    filled = imputer.fit_transform(table)
    rows, mask = imputer.fitted_.generate(n, seed=seed)
    named = imputer.schema_.frame(rows, n=n)
    seen = {str(plan.label): mask[:, i] for i, plan in enumerate(imputer.schema_.modelled)}
    return Demo(clinic, imputer, column_errors(clinic, imputer, filled), named, seen)


def column_errors(clinic: Clinic, imputer: VSAEImputer, filled: dict[str, NDArray[Any]]) -> list[ColumnError]:
    errors, truth = [], clinic.table(complete=True)
    kinds = {plan.label: plan.kind_name for plan in imputer.schema_.plans}
    for variable in clinic.schema.variables:
        mask = clinic.mask[:, [clinic.schema.attribute_of[variable.name]]]
        if mask.all():
            continue
        discrete = variable.family in DISCRETE
        x, ours = (_numbers(clinic, variable.name, column[variable.name]) for column in (truth, filled))
        trivial = mean_mode_fill(x, mask, np.array([discrete]))
        score = pfc if discrete else nrmse
        errors.append(
            ColumnError(
                variable.name,
                kinds[variable.name],
                "share wrong" if discrete else "NRMSE",
                float(score(x, ours, mask)),
                float(score(x, trivial, mask)),
            )
        )
    return errors


def _numbers(clinic: Clinic, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """(n, 1): level codes, days, or the numbers themselves."""
    if name in clinic.levels:
        codes = {level: code for code, level in enumerate(clinic.levels[name])}
        column = np.array([codes[level] for level in column])
    return column.astype(np.float64)[:, None]
