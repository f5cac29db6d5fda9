"""What generators are given and judged by: a table with its label among the columns, split, with holes."""

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
    """Real rows, (n, p) with NaN where nothing is known: as they are, and with the holes that methods see."""

    seed: int
    target: int
    given: exchange.Task
    train: Rows
    test: Rows
    test_with_holes: Rows

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

    def scores(self, with_holes: Rows, complete: Rows | None) -> dict[str, Any]:
        """All that a row says of generated rows. Rows without holes are judged where the method makes them.

        A method may make more rows than there are real ones. All of them tell its shares of holes; the rest is judged
        by as many as were given, and not so few that chance hides what it learned. `by_chance` is what real rows,
        as many drawn with replacement, are found to be off.
        """
        nulls = fidelity.null_rate_error(self.given.train, with_holes, self.given.names)
        number = max(FEWEST_ROWS, len(self.train))
        with_holes, complete = with_holes[:number], None if complete is None else complete[:number]
        best, fresh = (with_holes, self.test_with_holes) if complete is None else (complete, self.test)
        again = self.train[np.random.default_rng(self.seed).integers(len(self.train), size=number)]
        found, chance = self._differences(best), self._differences(again)
        return {
            **{name: error | {"by_chance": chance[name]["mean"]} for name, error in found.items()},
            "auc": self._told_apart(with_holes, complete),
            "utility": self._utility(with_holes, complete),
            "nulls": nulls,
            "nearness": fidelity.nearness(self.train, fresh, best, self.given.levels),
        }

    def _differences(self, rows: Rows) -> dict[str, dict[str, Any]]:
        levels, names = self.given.levels, self.given.names
        return {
            "association": fidelity.association_error(self.train, rows, levels, names),
            "marginal": fidelity.marginal_distance(self.train, rows, levels, names),
        }

    def _told_apart(self, with_holes: Rows, complete: Rows | None) -> dict[str, float]:
        out = {"holes": judges.real_or_synthetic(self.test_with_holes, with_holes, self.given.discrete, self.seed)}
        if complete is not None:
            whole = self.test[~np.isnan(self.test).any(axis=1)]  # adult has holes of its own, which would give it away
            out["complete"] = judges.real_or_synthetic(whole, complete, self.given.discrete, self.seed)
        return out

    def _utility(self, with_holes: Rows, complete: Rows | None) -> dict[str, Any]:
        """Of what was learned from generated rows, and from the real ones, with holes and without."""
        lessons = {"holes": with_holes, "complete": complete, "real_holes": self.given.train, "real": self.train}
        scores = {
            name: self.lesson.score(rows, self.test, self.seed) for name, rows in lessons.items() if rows is not None
        }
        return {"measure": self.lesson.measure, **scores}


def checked(task: exchange.Task, rows: Any, *, holes: bool) -> Rows:
    """Generated rows as floats, every code a level of its column; one of another shape or kind raises."""
    rows = np.asarray(rows, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != len(task.names) or not len(rows):
        raise ValueError(f"the generated rows have shape {rows.shape}, not (rows, {len(task.names)})")
    if np.isinf(rows).any() or (np.isnan(rows).any() and not holes):
        raise ValueError("the generated rows hold what is no number" if holes else "complete rows have holes")
    strange = task.discrete & ((rows < 0) | (rows >= task.levels) | (rows != np.rint(rows))) & ~np.isnan(rows)
    if strange.any():
        raise ValueError(f"column {str(task.names[strange.any(axis=0)][0])!r}: codes that are no level of it")
    return rows
