"""The main job on the built-in example: fit the clinic table, fill its holes, generate rows and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.config import VSAEConfig
from vsae.datasets import Clinic, make_clinic
from vsae.fitting import fit
from vsae.imputation import FittedVSAE
from vsae.metrics import mean_mode_fill, nrmse, pfc
from vsae.schema import DISCRETE
from vsae.training import Callback


@dataclass(frozen=True)
class ColumnError:
    """Error on the hidden cells of one column, beside that of mean or mode imputation."""

    name: str
    kind: str
    missing: float
    measure: str  # NRMSE for numbers, share wrong (PFC) for levels
    ours: float
    trivial: float


@dataclass(frozen=True)
class Demo:
    clinic: Clinic
    fitted: FittedVSAE
    errors: list[ColumnError]
    rows: dict[str, NDArray[Any]]
    masks: NDArray[np.bool_]


def run(n: int = 2000, seed: int = 0, config: VSAEConfig | None = None, callback: Callback | None = None) -> Demo:
    clinic = make_clinic(n, seed)
    fitted = fit(clinic.schema, clinic.holes, clinic.mask, config, seed=seed, callback=callback)
    filled = fitted.impute(clinic.holes, clinic.mask)
    rows, masks = fitted.generate(n, seed=seed)
    return Demo(clinic, fitted, column_errors(clinic, filled), rows, masks)


def column_errors(clinic: Clinic, filled: dict[str, NDArray[Any]]) -> list[ColumnError]:
    errors = []
    for variable in clinic.schema.variables:
        mask = clinic.mask[:, [clinic.schema.attribute_of[variable.name]]]
        if mask.all():
            continue
        discrete = variable.family in DISCRETE
        truth, ours = (table[variable.name][:, None].astype(float) for table in (clinic.truth, filled))
        trivial = mean_mode_fill(truth, mask, np.array([discrete]))
        score = pfc if discrete else nrmse
        errors.append(
            ColumnError(
                variable.name,
                variable.kind.value,
                float(1 - mask.mean()),
                "share wrong" if discrete else "NRMSE",
                float(score(truth, ours, mask)),
                float(score(truth, trivial, mask)),
            )
        )
    return errors
