"""Observed values ⇄ the numbers in natural units that a model sees; times count in whole units since 1970 or 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import UNITS, Cells, Storage

EXACT = 2.0**53  # below it, float64 has every whole number

#: Days that can be reached: by numpy in nanoseconds, and by Python's datetime and timedelta.
_NANOSECOND_DAYS = (-106_000, 106_000)
_PYTHON_DAYS = {"M": (-719_162, 2_932_896), "m": (-(10**8), 10**8)}


def coarsest_unit(cells: Cells) -> str:
    """The unit of time that all values are multiples of; '' for plain numbers."""
    values, kind = cells.values, cells.values.dtype.kind
    if kind not in "Mm":
        return ""
    units = list(UNITS)[cells.storage is Storage.TIME :]  # the time of day in days would always be 0
    return next(unit for unit in units if (values.astype(f"{kind}8[{unit}]") == values).all())


def day_of(unit: str) -> tuple[float, float]:
    """The first and the last time of day, in whole `unit`s.

    >>> day_of("h")
    (0.0, 23.0)
    """
    return 0.0, UNITS[unit] - 1.0


def to_numbers(values: NDArray[Any], unit: str) -> NDArray[np.float64]:
    """Values as float64; moments and durations in whole `unit`s of time, moments since 1970.

    >>> to_numbers(np.array(["1970-01-03"], dtype="M8[D]"), "h")
    array([48.])
    """
    if values.dtype.kind in "Mm":
        values = values.astype(f"{values.dtype.kind}8[{unit}]").astype(np.int64)
    return values.astype(np.float64)


def to_times(x: NDArray[np.float64], unit: str, kind: str, target: np.dtype[Any] | None) -> NDArray[Any]:
    """Whole units of time → datetime64 or timedelta64, within the reach of `target` and of Python's own classes."""
    fine = unit == "ns" or (target is not None and target.kind in "Mm" and np.datetime_data(target)[0] == "ns")
    first, last = _NANOSECOND_DAYS if fine else _PYTHON_DAYS[kind]
    return np.clip(x, first * UNITS[unit], last * UNITS[unit]).astype(np.int64).astype(f"{kind}8[{unit}]")


def cast(values: NDArray[Any], target: np.dtype[Any]) -> NDArray[Any]:
    """To a numpy dtype, rounded and clipped where it is narrower.

    >>> cast(np.array([1.6, 300.0]), np.dtype(np.int8))
    array([  2, 127], dtype=int8)
    """
    if values.dtype == target:
        return values
    if target.kind == "b":
        return np.rint(values.astype(np.float64)).astype(np.bool_)
    if target.kind == "f":
        most = float(np.finfo(target).max)
        return np.clip(values.astype(np.float64), -most, most).astype(target)
    if target.kind in "iu" and not (values.dtype.kind in "iu" and np.can_cast(values.dtype, target)):
        least, most = float(np.iinfo(target).min), float(np.iinfo(target).max)
        most = most if most < EXACT else float(np.nextafter(most, 0.0))  # 2^63 - 1 is no float64
        values = np.clip(np.rint(values.astype(np.float64)), least, most)
    return values.astype(target)
