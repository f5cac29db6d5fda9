"""Tables in which whole groups of columns are missing together, and the relations that are known of some columns."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from scipy.stats import rankdata

from benchmarks import data
from benchmarks.peers.adapters import task as exchange
from benchmarks.runs import Job
from vsae import Schema
from vsae.data.schema import DISCRETE, categorical, real

ROWS = 1500  # of a synthetic table
PAIR_CORRELATION = 0.99
CUTS = (-1.0, 0.0, 1.0)  # of the number that decides the band in "mixed"
GROUP = 3  # columns
MAR_SLOPE = 1.5  # of the log odds of being missing, for one standard deviation of the score of what is seen


@dataclass(frozen=True)
class Relation:
    """Two columns that go together: by correlation, by cuts of a number, or, without either, as pairs of levels do."""

    first: str
    second: str
    cuts: tuple[float, ...] | None = None
    correlated: bool = False


RELATIONS: dict[str, tuple[Relation, ...]] = {
    "gaussian": (Relation("a", "b", correlated=True),),
    "mixed": (Relation("grade", "code"), Relation("x", "band", cuts=CUTS)),
    "adult": (Relation("education", "education-num"),),
}


# --- tables


def load(table: str) -> data.Rows:
    made = {"gaussian": gaussian, "mixed": mixed}
    return made[table]() if table in made else data.load(table)


def loadings() -> NDArray[np.float64]:
    """(6, 6): the columns of "gaussian" as sums of independent standard normals; a and b have a correlation of .99."""
    noise = np.eye(6)
    a = noise[0]
    b = PAIR_CORRELATION * a + np.sqrt(1 - PAIR_CORRELATION**2) * noise[1]
    c = 0.6 * a + 0.8 * noise[2]
    d = 0.5 * a - 0.4 * c + 0.8 * noise[3]
    e = 0.7 * d + 0.7 * noise[4]
    return np.stack([a, b, c, d, e, 0.3 * c + 0.5 * e + 0.8 * noise[5]])


def gaussian() -> data.Rows:
    """Six correlated normals."""
    columns = dict(zip("abcdef", loadings() @ np.random.default_rng(0).normal(size=(6, ROWS)), strict=True))
    return data.Rows("gaussian", Schema([real(name) for name in columns]), columns, np.ones((ROWS, 6), dtype=bool))


def mixed() -> data.Rows:
    """Numbers and levels: each grade has a code of its own, and the number x decides the band."""
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=ROWS), rng.normal(size=(4, ROWS))
    grade = np.digitize(0.6 * x + 0.8 * noise[0], [-1.2, -0.5, 0.2, 1.0])
    y = 0.7 * x + 0.4 * (grade - 2) + 0.6 * noise[1]
    columns = {
        "x": x,
        "band": np.digitize(x, CUTS),
        "grade": grade,
        "code": np.array([3, 0, 4, 1, 2])[grade],
        "y": y,
        "flag": (rng.random(ROWS) < expit(1.5 * y)).astype(int),
        "w": np.exp(0.5 * y + 0.5 * noise[2]),
        "kind": np.where(rng.random(ROWS) < 0.3, 2, (noise[3] + x > 0).astype(int)),
        "z": 0.4 * x - 0.3 * y + noise[3],
    }
    levels = {"band": len(CUTS) + 1, "grade": 5, "code": 5, "flag": 2, "kind": 3}
    schema = Schema([categorical(name, levels[name]) if name in levels else real(name) for name in columns])
    return data.Rows("mixed", schema, columns, np.ones((ROWS, len(columns)), dtype=bool))


# --- tasks


@dataclass(frozen=True)
class Blocks:
    """The rows of a table and what is hidden of them: `hidden` (n, p) is True in the cells that were taken away."""

    rows: data.Rows
    groups: tuple[tuple[int, ...], ...]  # of columns that are missing together; the columns of none are never missing
    hidden: NDArray[np.bool_]
    seed: int

    @classmethod
    def of(cls, job: Job) -> Blocks:
        """All from the seed and the name of the table."""
        rows = load(job["table"])
        rng = np.random.default_rng([job["seed"], zlib.crc32(rows.name.encode())])
        names = [v.name for v in rows.schema.variables]
        linked = [(names.index(r.first), names.index(r.second)) for r in RELATIONS.get(job["table"], ())]
        *groups, seen = grouped(len(names), linked, rng)
        missing = missing_groups(job["mechanism"], job["rate"], rows.matrix()[:, seen], len(groups), rng)
        hidden = np.zeros((len(rows), len(names)), dtype=bool)
        for group, at in zip(groups, missing.T, strict=True):
            hidden[:, group] = at[:, None]
        return cls(rows, tuple(groups), hidden & rows.variables_known(), job["seed"])

    def given(self) -> exchange.Task:
        """What a method is told; there are no rows to fill afterwards."""
        variables = self.rows.schema.variables
        discrete = np.array([v.family in DISCRETE for v in variables])
        train = np.where(self.hidden | ~self.rows.variables_known(), np.nan, self.rows.matrix())
        return exchange.Task(
            train=train,
            new=train[:0],
            discrete=discrete,
            levels=np.where(discrete, [v.size for v in variables], 0),
            names=np.array([v.name for v in variables]),
            seed=self.seed,
        )


def grouped(columns: int, linked: list[tuple[int, int]], rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Columns in groups of about three by chance, those that are linked in one group; the last has none of these.

    >>> grouped(8, [(0, 5)], np.random.default_rng(0))
    [(0, 5, 7), (2, 4, 3), (6, 1)]
    """
    rest = [int(j) for j in rng.permutation(columns) if not any(j in pair for pair in linked)]
    groups = [(*pair, rest.pop()) if len(rest) > GROUP else pair for pair in linked]
    free = [tuple(rest[i : i + GROUP]) for i in range(0, len(rest), GROUP)]
    if len(free) > 1 and len(free[-1]) == 1:
        *free, last, lonely = free
        free.append(last + lonely)
    return groups + free


def missing_groups(
    mechanism: str, rate: float, seen: NDArray[np.float64], groups: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """(n, groups): by chance alone (mcar), or more likely for high values of a score of the seen columns (mar)."""
    shape = (len(seen), groups)
    if mechanism == "mcar":
        return rng.random(shape) < rate
    if mechanism != "mar":
        raise ValueError(f"columns go missing together by mcar or mar, not {mechanism}")
    scores = normal_scores(seen) @ rng.normal(size=(seen.shape[1], groups))  # each group its own mixture
    spread = scores.std(axis=0)
    scores = MAR_SLOPE * scores / np.where(spread > 0, spread, 1.0)
    low, high = np.full(groups, -20.0), np.full(groups, 20.0)
    for _ in range(50):  # the intercept that makes as many missing as asked for
        middle = (low + high) / 2
        many = expit(scores + middle).mean(axis=0) > rate
        low, high = np.where(many, low, middle), np.where(many, middle, high)
    return rng.random(shape) < expit(scores + low)


def normal_scores(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, p): the normal quantiles of the ranks in each column; ties share their mean rank.

    >>> normal_scores(np.array([[3.0], [9.0], [5.0]])).round(2).ravel()
    array([-0.67,  0.67,  0.  ])
    """
    return ndtri(rankdata(x, axis=0) / (len(x) + 1))


def exact_draws(given: exchange.Task, covariance: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """(draws, n, p) of normal rows with mean 0 from their true distribution given what is observed."""
    rng = np.random.default_rng(given.seed)
    draws = np.stack([given.train] * number)
    missing = np.isnan(given.train)
    for pattern in np.unique(missing, axis=0):
        rows, u, o = np.flatnonzero((missing == pattern).all(axis=1)), np.flatnonzero(pattern), np.flatnonzero(~pattern)
        if not len(u):
            continue
        slopes = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, u)])
        left = covariance[np.ix_(u, u)] - covariance[np.ix_(u, o)] @ slopes
        noise = rng.multivariate_normal(np.zeros(len(u)), left, size=(number, len(rows)))
        draws[:, rows[:, None], u] = given.train[rows][:, o] @ slopes + noise
    return draws
