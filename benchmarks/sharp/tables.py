"""The sharp tables by name: those that are made, at any size, and those that were collected."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.sharp.made import MAKERS, made
from vsae import Schema
from vsae.data.schema import Attribute, categorical, real
from vsae.datasets.places import find

FILES = {
    "phoneme": "phoneme.csv.gz",
    "banknote": "banknote_authentication.csv.gz",
    "cars": "auto_imports.csv.gz",
}
DIGITS = "digits"
NAMES = (*MAKERS, *FILES, DIGITS)
DESIGNED = ("factorial", "recipes")  # rows share exact settings: numbers are scored by absolute errors
CONTROL = "independent"  # not sharp: nothing can be learned
MOST_ROWS = 2000  # of those that were collected


def load(name: str) -> data.Rows:
    """A table that is made has its rows in its name, such as rules-500."""
    if match := re.fullmatch(rf"({'|'.join(MAKERS)})-(\d+)", name):
        return made(match[1], int(match[2]))
    if name == DIGITS:
        return data.load(name, MOST_ROWS, label=True)
    if name in FILES:
        rows = _read(name)
        kept = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
        return rows.take(np.sort(kept))
    raise ValueError(f"there is no table {name!r}; there are {', '.join(NAMES)}, those that are made as rules-500")


def of_sizes(name: str, sizes: Iterable[int]) -> list[str]:
    """
    >>> of_sizes("rules", [200, 500]), of_sizes("cars", [200, 500])
    (['rules-200', 'rules-500'], ['cars'])
    """
    return [f"{name}-{rows}" for rows in sizes] if name in MAKERS else [name]


def base(name: str) -> str:
    """
    >>> base("rules-500"), base("cars")
    ('rules', 'cars')
    """
    return name.partition("-")[0]


def _read(name: str) -> data.Rows:
    """A column is of numbers if all its cells are, but for `class`; an empty cell is missing."""
    path = find(f"the table {name}", FILES[name], None, "")
    with gzip.open(path, "rt", newline="") as file:
        header, *lines = csv.reader(file)
    columns, attributes, known = {}, [], []
    for column, cells in zip(header, np.array(lines).T, strict=True):
        columns[column], attribute = _column(column, cells)
        attributes.append(attribute)
        known.append(cells != "")
    return data.Rows(name, Schema(attributes), columns, np.stack(known, axis=1))


def _column(name: str, cells: NDArray[np.str_]) -> tuple[NDArray[Any], Attribute]:
    there = cells != ""
    try:
        if name == "class":
            raise ValueError
        return np.where(there, cells, "nan").astype(float), real(name)
    except ValueError:
        levels = np.unique(cells[there])
        return np.where(there, np.searchsorted(levels, cells), 0), categorical(name, len(levels))
