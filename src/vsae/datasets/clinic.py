"""A synthetic table of clinic visits, whose missingness mechanism is known.

Made for demos and tests: nothing is fetched, the truth is there, and so is the true P(missing | row).

**The rows.** Columns are drawn one after the other, each from those before it: the person (age, sex,
education, income, smoking), the body (BMI, blood pressure), the visit (date, reason, pain), and what follows
from them (insurance, visits, fee). The links are nonlinear (income and diastolic pressure rise, then fall
with age; the season is a cosine of the date) and cross kinds (the reason moves pain, visits and the fee;
pressure moves the reason). `_draw_person` to `_draw_costs` are the formulas.

**The missing cells.** Given the complete row, each attribute is hidden independently of the others, with the
probability of `mechanism`; σ is the logistic function.

| attribute | P(missing given the complete row) | class |
|---|---|---|
| `visit_date` | 0.10 | MCAR |
| `age`, `sex` | 0 | always seen |
| `education` | σ(-0.9 + 0.04 (age - 50)) | MAR: age is always seen |
| `income` | σ(-0.4 + 3 (log income - 10.5)) | self-masking: high incomes are hidden |
| `smoker` | 0.20 if no, 0.70 if yes | self-masking |
| `bmi` | σ(-1.2 + 1.4 [sex is female] - 0.02 (age - 50)) | MAR |
| `pressure` | σ(-0.4 - 0.06 (age - 50)) | MAR: the young are not measured; both numbers go together |
| `reason` | 0.20 | MCAR |
| `pain` | 0.15, 0.25, 0.50, 0.80 by level | self-masking: strong pain is hidden |
| `insurance` | 0.25 | MCAR |
| `visits` | 0.20 public, 0.45 private, 0.75 none | NMAR through `insurance`, which may be hidden itself |
| `fee` | 0.65 before 2022-01-01, else 0.15 | NMAR through `visit_date`, which may be hidden itself |

>>> clinic = make_clinic(n=500, seed=1)
>>> len(clinic.schema), clinic.mask.shape
(13, (500, 13))
>>> income, seen = clinic.truth["income"], clinic.mask[:, clinic.schema.attribute_of["income"]]
>>> bool(income[~seen].mean() > income[seen].mean())
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vsae.data.schema import (
    DISCRETE,
    Kind,
    Schema,
    Variable,
    binary,
    categorical,
    count,
    group,
    ordinal,
    positive,
    real,
)

if TYPE_CHECKING:
    import pandas as pd

LEVELS: dict[str, tuple[str, ...]] = {
    "sex": ("female", "male"),
    "education": ("primary", "secondary", "college", "degree"),
    "smoker": ("no", "yes"),
    "reason": ("checkup", "infection", "injury", "heart", "back"),
    "pain": ("none", "mild", "moderate", "severe"),
    "insurance": ("public", "private", "none"),
}

SCHEMA = Schema(
    [
        count("visit_date", min=None),  # whole days since 1970-01-01
        count("age"),  # years
        binary("sex"),
        ordinal("education", 4),
        positive("income"),  # EUR a year
        binary("smoker"),
        real("bmi"),  # kg/m²
        group("pressure", real("systolic"), real("diastolic")),  # mmHg: one cuff reads both, or neither
        categorical("reason", 5),
        ordinal("pain", 4),
        categorical("insurance", 3),
        count("visits"),  # in the past year
        positive("fee"),  # EUR for this visit
    ]
)

#: Shown as dates and as booleans by `frame`; every other column follows from its kind.
DATE, FLAG = "visit_date", "smoker"

FIRST_DAY = 18628  # 2021-01-01
BILLING_DAY = 18993  # 2022-01-01: the clinic's billing goes electronic
DAYS = 1095  # three years of visits

Columns = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Clinic:
    """The table: its true values, its mask, and the mechanism that made it.

    `truth` is keyed by variable, in natural units: float64 for numbers (whole ones for counts), int64 codes
    into `levels` for discrete variables. `mask` and `missing_probability` have one column an attribute.
    """

    schema: Schema
    levels: dict[str, tuple[str, ...]]
    truth: Columns  # variable → (n,)
    mask: np.ndarray  # (n, M) bool, True = observed
    missing_probability: np.ndarray  # (n, M), the true P(missing | complete row)

    @property
    def incomplete(self) -> Columns:
        """`truth` as a user has it: NaN in hidden numbers, -1 in hidden codes."""
        columns = {}
        for variable in self.schema.variables:
            seen = self.mask[:, self.schema.attribute_of[variable.name]]
            blank = -1 if variable.family in DISCRETE else np.nan
            columns[variable.name] = np.where(seen, self.truth[variable.name], blank)
        return columns

    def table(self, complete: bool = False) -> dict[str, np.ndarray]:
        """The table as a user would have it in plain arrays: level names, dates, NaN / None / NaT where missing.

        >>> row = make_clinic(n=1).table(complete=True)
        >>> str(row["visit_date"][0]), str(row["sex"][0])
        ('2023-06-10', 'female')
        """
        columns = self.truth if complete else self.incomplete
        return {variable.name: self._plain(variable, columns[variable.name]) for variable in self.schema.variables}

    def _plain(self, variable: Variable, values: np.ndarray) -> np.ndarray:
        if variable.name == DATE:
            days = np.where(np.isnan(values), 0, values).astype("datetime64[D]")
            return np.where(np.isnan(values), np.datetime64("NaT"), days)
        if variable.family in DISCRETE:
            names = np.array([*self.levels[variable.name], None], dtype=object)  # code -1 is the last
            return names[values]
        return values

    def frame(self, complete: bool = False) -> pd.DataFrame:
        """The table as a pandas DataFrame, with missing cells, or without them if `complete`. Needs pandas.

        Levels are categoricals (ordered for ordinal columns), `smoker` is a nullable boolean, counts are
        nullable integers, and `visit_date` is a datetime.
        """
        import pandas as pd

        columns = self.truth if complete else self.incomplete
        return pd.DataFrame({v.name: self._series(v, columns[v.name]) for v in self.schema.variables})

    def _series(self, variable: Variable, values: np.ndarray) -> pd.Series:
        import pandas as pd

        if variable.name == DATE:
            return pd.Series(pd.to_datetime(values, unit="D"))
        if variable.name == FLAG:
            return pd.Series(pd.arrays.BooleanArray(values == 1, values == -1))
        if variable.kind is Kind.COUNT:
            return pd.Series(values).astype("Int64")
        if variable.family in DISCRETE:
            ordered = variable.kind is Kind.ORDINAL
            return pd.Series(pd.Categorical.from_codes(values, list(self.levels[variable.name]), ordered))
        return pd.Series(values)


def make_clinic(n: int = 2000, seed: int = 0) -> Clinic:
    """Draw `n` visits and hide cells by `mechanism`. The same seed gives the same table.

    >>> make_clinic(n=3).incomplete["pain"].shape
    (3,)
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    rng = np.random.default_rng(seed)
    truth = _draw_rows(n, rng)
    missing = mechanism(truth)
    mask = rng.random(missing.shape) >= missing
    return Clinic(SCHEMA, dict(LEVELS), truth, mask, missing)


def mechanism(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """P(missing | complete row), (n, M), for any complete rows in the units of `Clinic.truth`: the oracle.

    The formulas are in the module's docstring.

    >>> clinic = make_clinic(n=10)
    >>> bool((mechanism(clinic.truth) == clinic.missing_probability).all())
    True
    """
    age = truth["age"] - 50
    female = truth["sex"] == 0
    probability = {
        "visit_date": 0.10,
        "age": 0.0,
        "sex": 0.0,
        "education": _sigmoid(-0.9 + 0.04 * age),
        "income": _sigmoid(-0.4 + 3.0 * (np.log(truth["income"]) - 10.5)),
        "smoker": np.array([0.20, 0.70])[truth["smoker"]],
        "bmi": _sigmoid(-1.2 + 1.4 * female - 0.02 * age),
        "pressure": _sigmoid(-0.4 - 0.06 * age),
        "reason": 0.20,
        "pain": np.array([0.15, 0.25, 0.50, 0.80])[truth["pain"]],
        "insurance": 0.25,
        "visits": np.array([0.20, 0.45, 0.75])[truth["insurance"]],
        "fee": np.where(truth["visit_date"] < BILLING_DAY, 0.65, 0.15),
    }
    return np.stack([np.broadcast_to(probability[name], age.shape) for name in SCHEMA.names], axis=1)


def _draw_rows(n: int, rng: np.random.Generator) -> Columns:
    """Complete rows, column by column, each from those before it."""
    drawn: Columns = {}
    _draw_person(drawn, n, rng)
    _draw_body(drawn, n, rng)
    _draw_visit(drawn, n, rng)
    _draw_costs(drawn, n, rng)
    return {variable.name: drawn[variable.name] for variable in SCHEMA.variables}


def _draw_person(row: Columns, n: int, rng: np.random.Generator) -> None:
    age = row["age"] = 18 + np.floor(73 * rng.beta(1.7, 1.9, n))
    sex = row["sex"] = rng.integers(0, 2, n)
    # schooling grew over the generations
    education = row["education"] = _cut(-0.04 * (age - 50) + rng.normal(0, 0.8, n), (-0.9, 0.1, 0.9))
    career = 1 - ((age - 50) / 32) ** 2  # earnings peak at fifty
    log_income = 9.7 + 0.30 * education + 0.6 * career + 0.12 * sex + rng.normal(0, 0.22, n)
    row["income"] = np.round(np.exp(log_income), -1)
    smoking = 1.4 - 1.1 * education + 0.5 * sex - 1.5 * ((age - 42) / 25) ** 2
    row["smoker"] = (rng.random(n) < _sigmoid(smoking)).astype(np.int64)


def _draw_body(row: Columns, n: int, rng: np.random.Generator) -> None:
    age, sex, smoker = row["age"], row["sex"], row["smoker"]
    heavy = 4.5 * (1 - ((age - 58) / 35) ** 2)  # weight peaks before old age
    build = 24.5 + heavy + 0.8 * sex - 1.8 * smoker - 0.6 * row["education"] + rng.normal(0, 1.9, n)
    bmi = row["bmi"] = np.round(np.maximum(build, 15), 1)
    # weight costs the old more than the young: a product of two columns
    load = (bmi - 25) * (0.6 + 0.02 * (age - 18))
    upper = 100 + 0.55 * (age - 18) + load + 4 * sex + 5 * smoker + rng.normal(0, 5, n)
    systolic = row["systolic"] = np.round(np.maximum(upper, 85))
    # diastolic pressure falls again in old age, while systolic does not
    lower = 18 + 0.52 * systolic - 0.008 * (age - 45) ** 2 + rng.normal(0, 3, n)
    row["diastolic"] = np.round(np.clip(lower, 40, systolic - 15))


def _draw_visit(row: Columns, n: int, rng: np.random.Generator) -> None:
    age, sex = row["age"], row["sex"]
    day = rng.integers(0, DAYS, n)
    row["visit_date"] = (FIRST_DAY + day).astype(float)
    winter = np.cos(2 * np.pi * day / 365.25)  # 1 at New Year, -1 in July
    reason = row["reason"] = _choose(
        [
            np.full(n, 0.8),  # checkup
            0.3 + 2.2 * winter,  # infection
            -0.2 - 0.06 * (age - 40) + 0.8 * sex - 1.0 * winter,  # injury
            -0.6 + 0.12 * (row["systolic"] - 130),  # heart
            -0.6 + 0.30 * (row["bmi"] - 26),  # back
        ],
        rng,
    )
    hurt = np.array([-1.8, -0.3, 1.2, 0.3, 1.0])[reason]
    row["pain"] = _cut(hurt + 0.4 * row["smoker"] + rng.normal(0, 0.6, n), (-1.0, 0.0, 1.0))


def _draw_costs(row: Columns, n: int, rng: np.random.Generator) -> None:
    wealth = np.log(row["income"]) - 10.6
    insurance = row["insurance"] = _choose(
        [
            np.zeros(n),  # public
            -0.8 + 3.5 * wealth,  # private
            -1.8 - 3.0 * wealth - 0.03 * (row["age"] - 50),  # none
        ],
        rng,
    )
    often = np.array([0.0, 0.1, 0.0, 0.9, 0.4])[row["reason"]]
    # the uninsured stay away
    rate = 0.4 + 0.015 * (row["age"] - 50) + 0.2 * row["pain"] + often - 0.8 * (insurance == 2)
    row["visits"] = rng.poisson(np.exp(rate)).astype(float)
    work = np.array([0.0, 0.3, 0.9, 1.4, 0.6])[row["reason"]]
    years = (row["visit_date"] - FIRST_DAY) / 365.25  # prices rise
    log_fee = 3.5 + work + 0.1 * row["pain"] + 0.5 * (insurance == 1) + 0.12 * years + rng.normal(0, 0.15, n)
    row["fee"] = np.round(np.exp(log_fee), 2)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _cut(latent: np.ndarray, thresholds: tuple[float, ...]) -> np.ndarray:
    """Level codes of an ordinal column: the number of thresholds below the latent value."""
    return np.asarray(np.digitize(latent, thresholds), dtype=np.int64)


def _choose(logits: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """One code a row from the softmax of `logits`, by the Gumbel trick."""
    scores = np.stack(logits, axis=1)
    return np.asarray(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1), dtype=np.int64)
