"""Sharp tables that are made: regions, boards, thresholds, rules, levels, small integers, experiments, panels.

A maker takes the number of rows and a generator of random numbers, and gives columns: floats are numbers, whole numbers
are the codes of levels. A little noise is in all of them, so that nothing can be learned to the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from vsae import Schema
from vsae.data.schema import categorical, real

Columns = dict[str, NDArray[Any]]
Maker = Callable[[int, np.random.Generator], Columns]


def made(name: str, rows: int, seed: int = 0) -> data.Rows:
    """The table of that name; sizes of one seed are of one kind, but no part of each other."""
    columns = MAKERS[name](rows, np.random.default_rng(seed))
    kinds = [real(c) if x.dtype.kind == "f" else categorical(c, int(x.max()) + 1) for c, x in columns.items()]
    return data.Rows(f"{name}-{rows}", Schema(kinds), columns, np.ones((rows, len(columns)), dtype=bool))


def regions(n: int, rng: np.random.Generator) -> Columns:
    """Four quarters of a plane around (.4, .6), with a label, and with levels of three numbers each."""
    x, y = rng.random((2, n))
    quarter = 2 * (x > 0.4) + (y > 0.6)
    height = rng.permutation([0.0, 1.0, 2.0, 3.0])[quarter] + 0.15 * rng.normal(size=n)
    slope = np.where(quarter == 3, 1.0, -1.0) * x + 0.05 * rng.normal(size=n)
    other = np.where((quarter == 0) | (quarter == 3), 1.0, 0.0) * y + 0.05 * rng.normal(size=n)
    return {
        "x": x, "y": y, "height": height, "slope": slope, "other": other,
        "quarter": _mistaken(quarter, 4, 0.02, rng), "free": rng.normal(size=n),
    }  # fmt: skip


def checkerboard(n: int, rng: np.random.Generator) -> Columns:
    """Sixteen fields in two colours; a number says the colour too, and two more say less exactly where the row lies."""
    x, y = 4 * rng.random((2, n))
    colour = (np.floor(x) + np.floor(y)).astype(int) % 2
    return {
        "x": x, "y": y, "colour": _mistaken(colour, 2, 0.02, rng),
        "charge": (2 * colour - 1) + 0.3 * rng.normal(size=n),
        "near_x": x + 0.4 * rng.normal(size=n), "near_y": y + 0.4 * rng.normal(size=n),
    }  # fmt: skip


def thresholds(n: int, rng: np.random.Generator) -> Columns:
    """Correlated numbers; others jump where one of them passes a threshold, and flags say that it has."""
    common = rng.normal(size=n)
    a, b, c = (0.7 * common + 0.7 * rng.normal(size=n) for _ in range(3))
    step = np.select([a < -0.5, a < 0.6], [0.0, 2.0], 1.0) + 0.1 * rng.normal(size=n)
    hinge = np.maximum(b, 0.3) + 0.05 * rng.normal(size=n)
    band = np.where(np.abs(c) < 0.5, 1.0, -1.0) * (1 + 0.1 * rng.normal(size=n))
    return {
        "a": a, "b": b, "c": c, "step": step, "hinge": hinge, "band": band,
        "high": _mistaken((a > 0.6).astype(int), 2, 0.01, rng), "grade": np.digitize(b, [-1.0, -0.3, 0.3, 1.0]),
        "both": _mistaken(((a > 0) & (c > 0)).astype(int), 2, 0.01, rng),
    }  # fmt: skip


def rules(n: int, rng: np.random.Generator) -> Columns:
    """A list of rules on two numbers and a level decides a category; the category and another level decide a price."""
    age, income = rng.uniform(18, 80, n), rng.lognormal(3.0, 0.6, n)
    job, member = rng.integers(0, 5, n), rng.integers(0, 2, n)
    conditions = [
        (age < 26) & (income < 18), (age > 64) & (member == 1), (job == 2) & (income > 25), (age < 40) & (income > 30),
        (job == 4) | ((age > 50) & (income < 15)),
    ]  # fmt: skip
    tariff = _mistaken(np.select(conditions, [0, 1, 2, 3, 4], 5), 6, 0.02, rng)
    price = np.array([9.0, 12.0, 30.0, 24.0, 15.0, 20.0])[tariff] * np.where(member == 1, 0.8, 1.0)
    return {
        "age": age, "income": income, "job": job, "member": member, "tariff": tariff,
        "price": price + 0.4 * rng.normal(size=n), "uses": income * (tariff > 1) / 10 + 0.3 * rng.normal(size=n),
    }  # fmt: skip


def labels(n: int, rng: np.random.Generator) -> Columns:
    """Thirty towns, not equally large: their place, their county and their typical numbers follow from the name."""
    towns = 30
    shares = rng.dirichlet(np.full(towns, 2.0))
    town = np.concatenate([np.arange(towns), rng.choice(towns, n - towns, p=shares)])
    rng.shuffle(town)
    places, rates = rng.random((towns, 2)), rng.normal(size=(towns, 2))
    county = (3 * places[:, 0]).astype(int) * 2 + (places[:, 1] > 0.5)
    at = places[town] + 0.03 * rng.normal(size=(n, 2))
    return {
        "town": town, "county": _mistaken(county[town], 6, 0.01, rng), "east": at[:, 0], "north": at[:, 1],
        "rate": rates[town, 0] + 0.3 * rng.normal(size=n), "tax": rates[town, 1] + 0.1 * rng.normal(size=n),
        "free": rng.normal(size=n), "street": rng.integers(0, 25, n),
    }  # fmt: skip


def integers(n: int, rng: np.random.Generator) -> Columns:
    """Small whole numbers that sums, differences, minima and remainders of others give, and one category of them."""
    a, b, c = rng.binomial(6, 0.4, n), rng.poisson(1.5, n).clip(0, 6), rng.integers(1, 6, n)
    columns = {
        "a": a, "b": b, "c": c, "a_and_b": a + b, "apart": np.abs(a - c), "lesser": np.minimum(b, c),
        "remainder": (a + c) % 3, "score": np.where(a > 2, 2 * c, b) + rng.binomial(1, 0.1, n),
    }  # fmt: skip
    kind = {"kind": _mistaken(np.select([a == b, a > c], [0, 1], 2), 3, 0.02, rng)}
    return {name: x.astype(float) for name, x in columns.items()} | kind


def factorial(n: int, rng: np.random.Generator) -> Columns:
    """An experiment: three factors of three or four exact settings and a method, all combinations, two responses."""
    settings = [np.array(s) for s in ([20.0, 40.0, 60.0, 80.0], [0.5, 1.0, 2.0], [5.0, 10.0, 30.0])]
    index = [rng.integers(0, len(s), n) for s in settings]
    method = rng.integers(0, 2, n)
    shape = (*map(len, settings), 2)
    effects = [rng.normal(size=shape) + _additive(shape, rng) for _ in range(2)]
    noise, at = rng.normal(size=(2, n)), (*index, method)
    return {
        "temperature": settings[0][index[0]], "dose": settings[1][index[1]], "minutes": settings[2][index[2]],
        "method": method, "yield": 50 + 10 * effects[0][at] + noise[0],
        "purity": 90 + 3 * effects[1][at] + 0.5 * noise[1],
    }  # fmt: skip


def recipes(n: int, rng: np.random.Generator) -> Columns:
    """Mixtures: each recipe has six exact amounts, and was tried at several ages; strength grows with the age."""
    number = max(n // 8, 4)
    amounts = np.round(rng.gamma(4.0, [60.0, 20.0, 15.0, 45.0, 2.0, 200.0], (number, 6)), 1)
    amounts[:, 1] *= rng.random(number) < 0.5
    amounts[:, 4] *= rng.random(number) < 0.6
    recipe = rng.integers(0, number, n)
    age = rng.choice([3.0, 7.0, 14.0, 28.0, 90.0], n)
    ratio = amounts[:, 0] / (amounts[:, 3] + 60)
    final = 10 + 18 * np.sqrt(ratio) + 6 * (amounts[:, 4] > 8) + 3 * rng.normal(size=number)
    strength = final[recipe] * np.log1p(age) / np.log1p(28.0) * (1 + 0.03 * rng.normal(size=n))
    names = ("cement", "slag", "ash", "water", "additive", "stone")
    return {name: amounts[recipe, j] for j, name in enumerate(names)} | {"age": age, "strength": strength}


def panels(n: int, rng: np.random.Generator) -> Columns:
    """Patients, each seen about twelve times: a patient's number tells what is the same in all of the visits."""
    number = max(n // 12, 4)
    patient = rng.integers(0, number, n)
    age, height = rng.integers(40, 90, number).astype(float), np.round(rng.normal(170, 9, number))
    sex, race, site = (rng.integers(0, levels, number) for levels in (2, 3, 5))
    level = 0.6 * (age - 65) / 14 + 0.8 * sex + rng.normal(size=number)
    visit = rng.integers(1, 13, n).astype(float)
    dose = rng.choice([100.0, 200.0, 300.0], n)
    answer = level[patient] + 0.04 * visit + 0.004 * dose + 0.4 * rng.normal(size=n)
    return {
        "patient": 1000.0 + patient, "visit": visit, "age": age[patient], "height": height[patient], "dose": dose,
        "answer": answer, "sex": _mistaken(sex[patient], 2, 0.01, rng), "race": race[patient], "site": site[patient],
    }  # fmt: skip


def independent(n: int, rng: np.random.Generator) -> Columns:
    """Nothing to learn: each column is on its own; half of the cells have the first level, so that it is the answer."""
    numbers = {f"x{j}": rng.normal(size=n) for j in range(5)}
    return numbers | {f"c{j}": (rng.geometric(0.5, n) - 1).clip(max=1 + j) for j in range(3)}


def _mistaken(codes: NDArray[Any], levels: int, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The codes, some of them replaced by any level."""
    return np.where(rng.random(len(codes)) < share, rng.integers(0, levels, len(codes)), codes)


def _additive(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Main effects of a factorial experiment, of all its combinations."""
    parts = [rng.normal(size=length) for length in shape]
    return np.sum(np.meshgrid(*parts, indexing="ij"), axis=0)


MAKERS: dict[str, Maker] = {
    "regions": regions,
    "checkerboard": checkerboard,
    "thresholds": thresholds,
    "rules": rules,
    "labels": labels,
    "integers": integers,
    "factorial": factorial,
    "recipes": recipes,
    "panels": panels,
    "independent": independent,
}
