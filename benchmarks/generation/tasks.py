"""What generators are given and judged by: a table with its label among the columns, split, with missing cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.generation import fidelity, judges
from benchmarks.peers.adapters import task as exchange
from benchmarks.peers.grid import CORE, Grid, Task, TaskData

Rows = NDArray[np.float64]

#: The column that models trained on generated rows have to predict.
TARGETS = {
    "breast_cancer": "target", "whitewine": "quality", "yeast": "class", "concrete": "Concrete compressive strength",
    "mushroom": "class", "phishing": "Result", "german_credit": "class", "adult": "income",
}  # fmt: skip
FEWEST_ROWS = 1000
GRID = Grid(CORE.tables, (("mcar", 0.3), ("mar", 0.3)), (11,))


@dataclass(frozen=True)
class Reality:
    """Real rows, (n, p) with NaN where nothing is known: as they are, and with the missing cells that methods see."""

    seed: int
    target: int
    given: exchange.Task
    train: Rows
    test: Rows
    test_incomplete: Rows

    @classmethod
    def of(cls, task: Task) -> Reality:
        rows = data.load(task.table, label=True)
        made = TaskData.of(rows, mechanism=task.mechanism, rate=task.rate, seed=task.seed)
        given = made.given()
        train, test = (np.where(part.variables_known(), part.matrix(), np.nan) for part in (made.train, made.new))
        target = int(np.flatnonzero(given.names == TARGETS[task.table])[0])
        return cls(task.seed, target, replace(given, new=given.new[:0]), train, test, given.new)

    @property
    def lesson(self) -> judges.Lesson:
        return judges.Lesson(self.target, self.given.discrete)

    def scores(self, incomplete: Rows, complete: Rows | None) -> dict[str, Any]:
        """All that a row says of generated rows. Complete rows are judged where the method makes them.

        A method may make more rows than there are real ones. All of them tell its shares of missing cells; the rest is
        judged by as many as were given, and not so few that chance hides what it learned. `by_chance` is what real
        rows, as many drawn with replacement, are found to be off.
        """
        nulls = fidelity.null_rate_error(self.given.train, incomplete, self.given.names)
        number = max(FEWEST_ROWS, len(self.train))
        incomplete, complete = incomplete[:number], None if complete is None else complete[:number]
        best, fresh = (incomplete, self.test_incomplete) if complete is None else (complete, self.test)
        again = self.train[np.random.default_rng(self.seed).integers(len(self.train), size=number)]
        found, chance = self._differences(best), self._differences(again)
        return {
            **{name: error | {"by_chance": chance[name]["mean"]} for name, error in found.items()},
            "auc": self._told_apart(incomplete, complete),
            "utility": self._utility(incomplete, complete),
            "nulls": nulls,
            "nearness": fidelity.nearness(self.train, fresh, best, self.given.levels),
        }

    def _differences(self, rows: Rows) -> dict[str, dict[str, Any]]:
        levels, names = self.given.levels, self.given.names
        return {
            "association": fidelity.association_error(self.train, rows, levels, names),
            "marginal": fidelity.marginal_distance(self.train, rows, levels, names),
        }

    def _told_apart(self, incomplete: Rows, complete: Rows | None) -> dict[str, float]:
        discrete, seed = self.given.discrete, self.seed
        out = {"incomplete": judges.real_or_synthetic(self.test_incomplete, incomplete, discrete, seed)}
        if complete is not None:
            whole = self.test[~np.isnan(self.test).any(axis=1)]  # adult lacks cells itself, which would tell
            out["complete"] = judges.real_or_synthetic(whole, complete, discrete, seed)
        return out

    def _utility(self, incomplete: Rows, complete: Rows | None) -> dict[str, Any]:
        """Of what was learned from generated rows, and from the real ones, incomplete and complete."""
        lessons = {"incomplete": incomplete, "complete": complete}
        lessons |= {"real_incomplete": self.given.train, "real": self.train}
        scores = {
            name: self.lesson.score(rows, self.test, self.seed) for name, rows in lessons.items() if rows is not None
        }
        return {"measure": self.lesson.measure, **scores}


def checked(task: exchange.Task, rows: Any, *, missing: bool) -> Rows:
    """Generated rows as floats. Raises where a code is no level of its column, or a cell missing that may not be."""
    rows = np.asarray(rows, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != len(task.names) or not len(rows):
        raise ValueError(f"the generated rows have shape {rows.shape}, not (rows, {len(task.names)})")
    if np.isinf(rows).any() or (np.isnan(rows).any() and not missing):
        raise ValueError("the generated rows hold what is no number" if missing else "complete rows have missing cells")
    strange = task.discrete & ((rows < 0) | (rows >= task.levels) | (rows != np.rint(rows))) & ~np.isnan(rows)
    if strange.any():
        raise ValueError(f"column {str(task.names[strange.any(axis=0)][0])!r}: codes that are no level of it")
    return rows
