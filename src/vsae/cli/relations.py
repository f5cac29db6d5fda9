"""Relations that hold among the known cells of a table: sums, differences, products, and which column is the less."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsae.data.encoding import Encoding
from vsae.data.schema import NUMBERS, Schema, real
from vsae.imputation.linear_relations import LinearRelations
from vsae.table import ColumnPlan, Encoded, Table
from vsae.table.cells import Bools
from vsae.table.constraints import Constraints
from vsae.table.expressions import columns_of, parse_relation

_FEWEST_ROWS = 30  # that know all columns of a relation
_MOST_TERMS, _MOST_FACTORS = 8, 3  # of a sum, of a product
_MOST_DATES = 6  # whose differences are compared with all numbers
_MOST_COLUMNS = 60  # whose pairs are compared
_MOST_ROWS = 20_000  # that are looked at
_NEAR = 0.05  # of a whole number is a coefficient that stands for it
_FEWEST_ABOVE = 7  # rows in which one column would lie above the other by chance: none would in one of a thousand

Floats = NDArray[np.float64]


class Cells(NamedTuple):
    """Of numbers and dates."""

    plans: list[ColumnPlan]
    columns: Mapping[str, Floats]
    known: Mapping[str, Bools]


def relations_of(table: Table, encoded: Encoded) -> list[str]:
    """As `constraints` has them; each holds in all rows that know its columns."""
    plans = [plan for plan in table.modelled if plan.kind in NUMBERS and plan.constant is None]
    some = np.linspace(0, encoded.n_rows - 1, min(encoded.n_rows, _MOST_ROWS)).astype(int)
    place = {plan.name: j for j, plan in enumerate(table.modelled)}
    columns = {p.name: np.asarray(encoded.columns[p.name], dtype=np.float64)[some] for p in plans}
    cells = Cells(plans, columns, {p.name: encoded.mask[some, place[p.name]] for p in plans})
    candidates = [*_sums(cells), *_products(cells), *_orders(cells)]
    return [text for text in dict.fromkeys(candidates) if _holds(text, cells)]


def _sums(cells: Cells) -> list[str]:
    """Columns that are others added up, from the Gaussian that finds what others determine; and days between dates."""
    numbers, dates = ([plan for plan in cells.plans if bool(plan.unit) == timed] for timed in (False, True))
    found = []
    for target, others in _determined(cells._replace(plans=numbers)):
        plus, minus = ([name for name, c in others.items() if c == sign] for sign in (1, -1))
        if 2 <= len(others) <= _MOST_TERMS and plus:
            found.append(f"{' + '.join([target, *minus])} == {' + '.join(plus)}")
    for start, end in permutations(dates[:_MOST_DATES], 2):
        found += [f"{_quoted(plan)} == {_quoted(end)} - {_quoted(start)}" for plan in numbers]
    return _shortest(found)


def _products(cells: Cells) -> list[str]:
    """The same of logarithms."""
    plans = [p for p in cells.plans if not p.unit and np.min(cells.columns[p.name][cells.known[p.name]], initial=1) > 0]
    logs = {p.name: np.log(np.where(cells.known[p.name], cells.columns[p.name], 1.0)) for p in plans}
    found = []
    for target, others in _determined(Cells(plans, logs, cells.known)):
        above, below = ([name for name, c in others.items() if c == sign] for sign in (1, -1))
        if 2 <= len(above) <= _MOST_FACTORS and not below:  # a quotient is a product, too
            found.append(f"{target} == {' * '.join(above)}")
    return found


def _determined(cells: Cells) -> list[tuple[str, dict[str, int]]]:
    """Columns that others determine with coefficients 1 and -1, and these."""
    if len(cells.plans) < 2:
        return []
    schema = Schema(real(plan.name) for plan in cells.plans)
    mask = np.stack([cells.known[plan.name] for plan in cells.plans], axis=1)
    relations = LinearRelations.fit(Encoding.fit(schema, cells.columns, mask), cells.columns, mask)
    if relations is None:
        return []
    quoted = {plan.name: _quoted(plan) for plan in cells.plans}
    precision, scale = np.linalg.inv(relations.covariance.numpy()), relations.scale.numpy()
    names, found = [quoted[name] for name in relations.names], []
    for k, name in enumerate(names):
        slopes = dict(zip(names, -precision[k] / precision[k, k] * scale[k] / scale, strict=True))
        others = {other: slope for other, slope in slopes.items() if other != name and abs(slope) > _NEAR}
        if all(abs(abs(slope) - 1) < _NEAR for slope in others.values()):
            found.append((name, {other: round(slope) for other, slope in others.items()}))
    return found


def _orders(cells: Cells) -> list[str]:
    """Columns of which one is never above the other, though it would be in many rows if they were independent."""
    found = []
    for a, b in combinations(cells.plans[:_MOST_COLUMNS], 2):
        both = cells.known[a.name] & cells.known[b.name]
        if a.storage != b.storage or a.unit != b.unit or both.sum() < _FEWEST_ROWS:
            continue
        x, y = cells.columns[a.name][both], cells.columns[b.name][both]
        for low, high, first, second in ((x, y, a, b), (y, x, b, a)):
            above = np.searchsorted(np.sort(high), low, side="left").mean()  # rows expected above, if independent
            if above > _FEWEST_ABOVE and (low <= high).all():
                found.append(f"{_quoted(first)} {'<' if (low < high).all() else '<='} {_quoted(second)}")
    return found


def _holds(text: str, cells: Cells) -> bool:
    """In all rows that know the columns of the relation, and these are enough."""
    relation = Constraints.fit([text], *cells)
    rows = np.logical_and.reduce([cells.known[plan.name] for plan in relation.plans])
    return int(rows.sum()) >= _FEWEST_ROWS and relation.hold({name: x[rows] for name, x in cells.columns.items()})


def _shortest(texts: list[str]) -> list[str]:
    """One for each set of columns: a + b == c is c - a == b."""
    best: dict[frozenset[str], str] = {}
    for text in sorted(texts, key=lambda text: ("+" in text.partition("==")[0], len(text))):
        best.setdefault(frozenset(columns_of(parse_relation(text))), text)
    return list(best.values())


def _quoted(plan: ColumnPlan) -> str:
    name = str(plan.label)
    return name if name.isidentifier() and name not in ("and", "or", "not", "in") else f"`{name}`"
