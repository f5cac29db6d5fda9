"""The exchange between the benchmark and an adapter: one folder a run, with task.npz in and answer.npz out.

Adapters run in the environments of the peers, so this file needs numpy only; pandas is imported where a frame is
asked for. An adapter is a script beside this file:

    from task import Answer, Task, run, timed

    def impute(task: Task) -> Answer:
        model, fit = timed(Peer(seed=task.seed).fit, task.frame("train"))
        train, fill = timed(model.transform, task.frame("train"))
        new, seconds_new = timed(model.transform, task.frame("new"))
        return Answer("peer 1.0", fit + fill, task.array(train), seconds_new, task.array(new))

    if __name__ == "__main__":
        run(impute)
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Task:
    """Rows to fit and fill, `train` (n, p), and rows to fill afterwards, `new` (m, p); NaN is a missing cell.

    Discrete columns hold codes 0 … levels - 1, of which some may not occur; other columns have 0 levels.
    """

    train: np.ndarray
    new: np.ndarray
    discrete: np.ndarray
    levels: np.ndarray
    names: np.ndarray
    seed: int

    def part(self, part: str) -> np.ndarray:
        return {"train": self.train, "new": self.new}[part]

    def frame(self, part: str, categories: str = "category") -> Any:
        """`train` or `new` as a pandas frame; numbers are float64.

        Discrete columns are of dtype `category` with all levels declared, observed or not ("category"), nullable
        integers ("codes"), or float64 with NaN ("float"). The levels are the codes themselves.
        """
        import pandas as pd

        if categories not in ("category", "codes", "float"):
            raise ValueError(f"categories must be 'category', 'codes' or 'float', not {categories!r}")
        columns = {}
        for name, x, levels in zip(self.names, self.part(part).T, self.levels, strict=True):
            if levels and categories == "category":
                codes = np.where(np.isnan(x), -1, x).astype(int)
                columns[str(name)] = pd.Categorical.from_codes(codes, categories=list(range(levels)))
            elif levels and categories == "codes":
                columns[str(name)] = pd.array(x, dtype="Int64")
            else:
                columns[str(name)] = x.copy()
        return pd.DataFrame(columns)

    def frames(self) -> tuple[Any, Any]:
        """`train` and `new` for peers that are hard to please: columns x0, x1, …, and no level `train` does not show.

        A level that only `new` has becomes a missing cell.
        """
        names = [f"x{j}" for j in range(len(self.names))]
        train, new = (self.frame(which).set_axis(names, axis=1) for which in ("train", "new"))
        for name in train.select_dtypes("category"):
            train[name] = train[name].cat.remove_unused_categories()
            new[name] = new[name].cat.set_categories(train[name].cat.categories)
        return train, new

    def array(self, frame: Any) -> np.ndarray:
        """(n, p) floats from a frame with these columns, in any order and of any dtype that reads as numbers."""
        import pandas as pd

        columns = [pd.to_numeric(frame[str(name)].astype(object), errors="coerce") for name in self.names]
        return np.stack([np.asarray(column, dtype=float) for column in columns], axis=1)

    def write(self, folder: str | Path) -> None:
        np.savez(Path(folder) / "task.npz", **vars(self))

    # --- columns with nothing to learn

    def varies(self) -> np.ndarray:
        """(p,) bool: is there more than one value among the observed cells of the training rows?"""
        return np.array([len(np.unique(x[~np.isnan(x)])) > 1 for x in self.train.T])

    def varying(self) -> Task:
        """The task without the columns that are constant where observed, for peers that cannot take these."""
        at = self.varies()
        columns = {name: getattr(self, name)[at] for name in ("discrete", "levels", "names")}
        return replace(self, train=self.train[:, at], new=self.new[:, at], **columns)

    def widened(self, part: str, filled: np.ndarray) -> np.ndarray:
        """Undo `varying`: its columns filled, (n, fewer), and the others filled with their constant, (n, p)."""
        out = self.part(part).copy()
        at = self.varies()
        for j in np.flatnonzero(~at):
            seen = self.train[~np.isnan(self.train[:, j]), j]
            out[np.isnan(out[:, j]), j] = seen[0] if len(seen) else 0.0
        out[:, at] = filled
        return out


@dataclass(frozen=True)
class Answer:
    """Filled rows and what they cost: CPU `seconds` to fit and fill `train`, `seconds_new` to fill `new`.

    `new` stays None where a method cannot fill other rows than those it was fitted on.
    """

    version: str
    seconds: float
    train: np.ndarray
    seconds_new: float | None = None
    new: np.ndarray | None = None


def widened_answer(
    task: Task, package: str, seconds: float, train: np.ndarray, seconds_new: float | None = None, new: Any = None
) -> Answer:
    """The answer of a package that was given `task.varying()`, under the version that is installed."""
    whole = None if new is None else task.widened("new", new)
    return Answer(f"{package} {version(package)}", seconds, task.widened("train", train), seconds_new, whole)


def read(folder: str | Path) -> Task:
    with np.load(Path(folder) / "task.npz") as file:
        return Task(**{name: int(file[name]) if name == "seed" else file[name] for name in file.files})


def answer(
    folder: str | Path,
    version: str,
    seconds: float,
    train: np.ndarray,
    seconds_new: float | None = None,
    new: np.ndarray | None = None,
) -> None:
    """Check the filled rows against the task, and write answer.npz and answer.json."""
    task = read(folder)
    arrays = {"train": checked(task, "train", train)}
    if new is not None:
        arrays["new"] = checked(task, "new", new)
    np.savez(Path(folder) / "answer.npz", **arrays)
    content = {"version": version, "seconds": seconds, "seconds_new": seconds_new if new is not None else None}
    (Path(folder) / "answer.json").write_text(json.dumps(content))


def checked(task: Task, part: str, filled: Any) -> np.ndarray:
    """Observed cells as they were given, missing ones as filled, and every code a level of its column."""
    given, filled = task.part(part), np.asarray(filled, dtype=float)
    if filled.shape != given.shape:
        raise ValueError(f"the answer for the {part} rows has shape {filled.shape}, not {given.shape}")
    out = np.where(np.isnan(given), filled, given)
    if not np.isfinite(out).all():
        bad = ~np.isfinite(out)
        names = ", ".join(map(str, task.names[bad.any(axis=0)][:5]))
        raise ValueError(f"the answer for the {part} rows leaves {bad.sum()} cells unfilled, in {names}")
    codes = np.clip(np.rint(out), 0, np.maximum(task.levels - 1, 0))
    return np.where(task.discrete, codes, out)


def run(impute: Any) -> None:
    """What an adapter does when called as a script: `impute(task) -> Answer`, for the folder named last."""
    folder = sys.argv[-1]
    done = impute(read(folder))
    answer(folder, done.version, done.seconds, done.train, done.seconds_new, done.new)


def timed(act: Any, *arguments: Any, **options: Any) -> tuple[Any, float]:
    """What `act` returns, and the seconds it took: CPU seconds, in which what else the machine does hardly counts.

    With several threads they are seconds of the clock, as those of the threads would add up.
    """
    clock = _cpu_seconds if int(os.environ.get("OMP_NUM_THREADS", "1")) == 1 else time.perf_counter
    began = clock()
    result = act(*arguments, **options)
    return result, clock() - began


def _cpu_seconds() -> float:
    """Of this process and the children it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
