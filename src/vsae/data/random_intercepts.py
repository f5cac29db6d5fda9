"""Random intercepts of several variables at once, where any cell may be missing.

    x_r = centre + u_g + e_r,   u_g ~ N(0, between),   e_r ~ N(0, within)       rows r of group g, S variables

A group's mean of one variable tells of its intercept. So do the means of others, as intercepts go together, and a row
that is unusual in one variable explains what is unusual of it in another. All of this is in the posterior of u_g, the
precision of which is a sum: between⁻¹, and within_oo⁻¹ of each row, o what is observed in it. So leaving out one row is
a subtraction. The parameters are fitted by EM (Laird and Ware 1982). Of many variables, each has intercepts by itself,
with the variances of an analysis of variance with one factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Seen = NDArray[np.bool_]
Codes = NDArray[np.int64]

_MOST = 24  # variables that have intercepts together: time and memory grow with their square
_MOST_ROWS = 20_000  # that the parameters are fitted to
_IN_CHUNK = 2**21  # numbers
_ROUNDS = 25  # of EM
_RIDGE = 1e-3  # of a variable's variance: shares of levels add up to 1
_LEAST_BETWEEN = 1e-3  # of the variance within groups: where groups are alike, their means are all but the overall one


class RandomIntercepts(NamedTuple):
    """In units of the variables; covariances are (S, S), or variances (S,) of many variables."""

    centre: Numbers  # (S,)
    within: Numbers  # of rows of a group
    between: Numbers  # of intercepts

    @classmethod
    def fit(cls, x: Numbers, seen: Seen, code: Codes, weight: Numbers | None = None) -> RandomIntercepts:
        """Of rows (n, S) in groups 0, 1, …, each with its weight, (n,)."""
        weight = np.ones(len(x)) if weight is None else weight
        start = _each_by_itself(x, seen, code, weight)
        if not 1 < x.shape[1] <= _MOST:
            return start
        some = _whole_groups(code)
        code = np.unique(code[some], return_inverse=True)[1]
        return start._improved(x[some], seen[some], code, weight[some])

    @classmethod
    def from_json(cls, data: Mapping[str, Any], size: int) -> RandomIntercepts:
        """Of `size` variables, or a ValueError: a file may say anything."""
        found = cls(*(np.array(data[part], dtype=np.float64) for part in cls._fields))
        square = found.within.ndim == 2
        if (found.centre.shape, found.within.shape) != ((size,), (size, size) if square else (size,)) or (
            found.within.shape != found.between.shape
        ):
            raise ValueError("its groups have other variables than its table")
        if not all(np.isfinite(part).all() for part in found):
            raise ValueError("what it says of groups is not finite")
        for part in (found.within, found.between):
            variances = np.linalg.eigvalsh((part + part.T) / 2) if square else part
            if variances.min(initial=1.0) <= 0 or (part != part.T).any():
                raise ValueError("variances of its groups are none")
        return found

    def to_json(self) -> dict[str, Any]:
        return {part: x.tolist() for part, x in self._asdict().items()}

    def without_own_row(self, x: Numbers, seen: Seen, code: Codes) -> Numbers:
        """centre + E[u_g | the group's other rows], (n, S)."""
        if self.within.ndim == 1:
            precision, told = seen / self.within, seen * (x - self.centre) / self.within
            others = _sums(precision, code)[code] - precision + 1 / self.between
            return np.asarray(self.centre + (_sums(told, code)[code] - told) / others)
        size = int(code.max(initial=-1)) + 1
        precisions, tolds = np.zeros((size, *self.within.shape)), np.zeros((size, len(self.centre)))
        precisions += np.linalg.inv(self.between)
        for rows in self._chunks(len(x)):
            precision, told = self._told(x[rows], seen[rows])
            np.add.at(precisions, code[rows], precision)
            np.add.at(tolds, code[rows], told)
        out = np.empty_like(x)
        for rows in self._chunks(len(x)):
            precision, told = self._told(x[rows], seen[rows])
            others, left = precisions[code[rows]] - precision, tolds[code[rows]] - told
            out[rows] = self.centre + np.linalg.solve(others, left[..., None])[..., 0]
        return out

    def _told(self, x: Numbers, seen: Seen) -> tuple[Numbers, Numbers]:
        """What each row says of its group: precisions (n, S, S), and these times what it deviates by, (n, S)."""
        both = seen[:, :, None] & seen[:, None, :]
        precision = np.where(both, np.linalg.inv(np.where(both, self.within, np.eye(x.shape[1]))), 0.0)
        return precision, np.einsum("nij,nj->ni", precision, np.where(seen, x - self.centre, 0.0))

    def _chunks(self, n: int) -> list[slice]:
        step = max(1, _IN_CHUNK // self.within.size)
        return [slice(start, start + step) for start in range(0, n, step)]

    def _improved(self, x: Numbers, seen: Seen, code: Codes, weight: Numbers) -> RandomIntercepts:
        """By EM, from intercepts of each variable by itself."""
        scale = np.sqrt(self.within + self.between)
        scale = np.where(scale > 0, scale, 1.0)
        z, eye = np.where(seen, (x - self.centre) / scale, 0.0), np.eye(x.shape[1])
        now = RandomIntercepts(np.zeros(x.shape[1]), *(np.diag(part / scale**2) + _RIDGE * eye for part in self[1:]))
        rows = weight / weight.sum()
        groups = _sums(rows, code)
        for _ in range(_ROUNDS):
            precision, told = now._told(z, seen)
            spread = np.linalg.inv(np.linalg.inv(now.between) + _sums(precision, code))  # covariance of u_g
            u = np.einsum("gij,gj->gi", spread, _sums(told, code))
            gain = now.within @ precision  # (n, S, S): from what is observed of e_r to all of it
            e = np.einsum("nij,nj->ni", gain, np.where(seen, z - now.centre - u[code], 0.0))
            unknown = now.within - gain @ now.within + gain @ spread[code] @ gain.swapaxes(1, 2)
            within = (e * rows[:, None]).T @ e + np.einsum("n,nij->ij", rows, unknown)
            between = (u * groups[:, None]).T @ u + np.einsum("g,gij->ij", groups, spread)
            within, between = ((part + part.T) / 2 + _RIDGE * eye for part in (within, between))
            now = RandomIntercepts(now.centre + rows @ e, within, between)
        units = np.outer(scale, scale)
        return RandomIntercepts(self.centre + scale * now.centre, now.within * units, now.between * units)


def _each_by_itself(x: Numbers, seen: Seen, code: Codes, weight: Numbers) -> RandomIntercepts:
    """Analysis of variance with one factor."""
    share = seen * weight[:, None]
    total = share.sum(axis=0)
    centre = (x * share).sum(axis=0) / np.maximum(total, 1e-300)
    sums, size, squares = (_sums(part, code) for part in (x * share, share, x**2 * share))
    within = np.maximum(squares - sums**2 / np.maximum(size, 1e-300), 0.0).sum(axis=0)
    number = (size > 0).sum(axis=0)
    within /= np.maximum(total - number, 1)
    between = ((sums - size * centre) ** 2 / np.maximum(size, 1e-300)).sum(axis=0) / np.maximum(number - 1, 1)
    usual = (total - (size**2).sum(axis=0) / np.maximum(total, 1e-300)) / np.maximum(number - 1, 1)  # size of a group
    between = np.maximum((between - within) / np.maximum(usual, 1e-300), _LEAST_BETWEEN * within)
    constant = within + between <= 0
    return RandomIntercepts(centre, np.where(constant, 1.0, np.maximum(within, 1e-6 * between)), between + constant)


def _whole_groups(code: Codes) -> NDArray[np.int64]:
    """Rows of as many groups, some of all, as `_MOST_ROWS` rows are."""
    if len(code) <= _MOST_ROWS:
        return np.arange(len(code))
    order = np.random.default_rng(0).permutation(int(code.max()) + 1)
    rows = np.argsort(order[code], kind="stable")
    last = order[code[rows[_MOST_ROWS - 1]]]
    kept = order[code] < last
    return np.flatnonzero(kept) if kept.any() else rows[:_MOST_ROWS]


def _sums(x: Numbers, code: Codes) -> Numbers:
    """Of rows (n, …) by group, (groups, …)."""
    out = np.zeros((int(code.max(initial=-1)) + 1, *x.shape[1:]))
    np.add.at(out, code, x)
    return out
