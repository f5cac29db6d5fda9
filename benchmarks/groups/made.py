"""A clinic that sees each patient many times: what belongs to the patient, what to the visit, and what drifts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PATIENTS, VISITS = 60, 20
NUMBERS = ("systolic", "diastolic", "weight", "glucose", "creatinine")
LEVELS = ("treated",)
RATE = 0.3  # of the cells of these are missing
KINDS = {"stable": 0.0, "drifting": 0.8}  # how much of a visit's deviation is left at the next one

# Rows: the numbers and what decides about treatment; columns: two factors, and what is the row's own.
_OF_PATIENT = np.array([[0.8, 0.0, 0.5], [0.7, 0.2, 0.6], [0.3, 0.7, 0.6], [0.2, 0.7, 0.6], [0.1, 0.4, 0.8],
                        [0.5, 0.5, 0.6]])  # fmt: skip
_OF_VISIT = np.array([[0.8, 0.0, 0.5], [0.7, 0.2, 0.6], [0.0, 0.4, 0.5], [0.2, 0.7, 0.6], [0.2, 0.3, 0.8],
                      [0.4, 0.4, 0.5]])  # fmt: skip


@dataclass(frozen=True)
class Clinic:
    """Complete columns, level codes for levels, and which cells are seen; patient and visit are always known."""

    columns: dict[str, NDArray[np.float64]]
    seen: dict[str, NDArray[np.bool_]]

    def incomplete(self) -> dict[str, NDArray[np.float64]]:
        return {name: np.where(self.seen[name], x, np.nan) for name, x in self.columns.items()}


def clinic(kind: str, seed: int, patients: int = PATIENTS, visits: int = VISITS) -> Clinic:
    """Deviations of patients and of visits have the same two factors each; those of visits last as `kind` says. The
    numbers also depend on age, and change with the visits at a rate of the patient's own where they drift."""
    rng, persistence = np.random.default_rng([seed, 21]), KINDS[kind]
    patient, visit = np.repeat(np.arange(patients), visits), np.tile(np.arange(visits), patients)
    age = np.repeat(rng.integers(30, 80, patients), visits).astype(float)
    lasting = (_factors(rng, _OF_PATIENT, patients))[patient]
    passing = _persistent(_factors(rng, _OF_VISIT, patients * visits), persistence, visits)
    trend = (
        0.5
        * bool(persistence)
        * rng.normal(size=(patients, len(_OF_PATIENT)))[patient]
        * (visit / visits - 0.5)[:, None]
    )
    y = lasting + passing + trend + 0.4 * ((age - 55) / 15)[:, None] * np.array([1, 0.2, 0, 0.5, 0.7, 0.8])
    columns = {
        "patient": patient.astype(float),
        "visit": visit.astype(float),
        "age": age,
        "systolic": np.round(130 + 12 * y[:, 0]),
        "diastolic": np.round(80 + 8 * y[:, 1]),
        "weight": np.round(75 + 10 * y[:, 2], 1),
        "glucose": np.round(np.exp(4.7 + 0.25 * y[:, 3]), 1),
        "creatinine": np.round(0.9 + 0.15 * y[:, 4], 2),
        "treated": (y[:, 5] > 0.3).astype(float),
    }
    chance = RATE * np.clip(1 + 0.6 * (age - 55) / 25, 0, 2)  # the old miss more
    seen = {name: rng.random(len(age)) >= chance * (name in NUMBERS + LEVELS) for name in columns}
    return Clinic(columns, seen)


def _factors(rng: np.random.Generator, loadings: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    return rng.normal(size=(n, 2)) @ loadings[:, :2].T + rng.normal(size=(n, len(loadings))) * loadings[:, 2]


def _persistent(noise: NDArray[np.float64], share: float, visits: int) -> NDArray[np.float64]:
    """Of independent rows, visit by visit, such as keep a share of the one before; with the same variance."""
    x = noise.reshape(-1, visits, noise.shape[1]).copy()
    for t in range(1, visits):
        x[:, t] = share * x[:, t - 1] + np.sqrt(1 - share**2) * x[:, t]
    return x.reshape(noise.shape)
