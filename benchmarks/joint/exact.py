"""Relations that hold exactly: a total of three parts, an end that never comes before its start.

1,500 rows of 18 columns, of which 15 % of the cells are missing at random. Asked are cells whose relation is known but
for them; beside the library's imputations and draws what scikit-learn's IterativeImputer and the mean make of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.markup import all_values, listed, markdown, paragraph
from benchmarks.peers.readings import Verdict
from benchmarks.runs import Benchmark, in_process
from benchmarks.store import Row

ROWS, HIDDEN = 1500, 0.15
SEEDS = (1, 2, 3, 4, 5)
METHODS = ("mean", "iterative", "vsae-fast", "vsae")
NAMES = ("a", "b", "c", "total", "start", "end", *(f"n{i}" for i in range(9)), "sex", "group", "visits")
CODES = ("sex", "group")  # the columns that are no numbers
A, B, C, TOTAL, START, END = range(6)
MOST_ERROR, MOST_VIOLATIONS = 2.0, 0.01  # asked: of IterativeImputer's error, and of the rows


def simulated(seed: int) -> NDArray[np.float64]:
    """(rows, columns), levels as codes."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.gamma(4, 10, ROWS), rng.gamma(3, 8, ROWS), rng.normal(60, 12, ROWS).clip(5)
    start = rng.uniform(0, 1000, ROWS)
    factors = rng.normal(size=(ROWS, 3))
    others = factors @ rng.normal(size=(3, 9)) + rng.normal(size=(ROWS, 9))
    parts = np.stack([a, b, c], axis=1).round(1)
    dates = np.stack([start, start + rng.gamma(2, 4, ROWS)], axis=1).round(1)
    codes = np.stack([rng.integers(2, size=ROWS), rng.integers(4, size=ROWS)], axis=1)
    visits = rng.poisson(np.exp(0.3 * factors[:, :1] + 1))
    return np.concatenate([parts, parts.sum(axis=1, keepdims=True).round(1), dates, others.round(3), codes, visits], 1)


def measured(method: str, seed: int) -> Row:
    true = simulated(seed)
    missing = np.random.default_rng([seed, 1]).random(true.shape) < HIDDEN
    given = np.where(missing, np.nan, true)
    tables = {"imputed": _imputed_by_others(method, given)} if method in METHODS[:2] else _ours(method, given, seed)
    return {
        "method": method,
        "seed": seed,
        **{name: scores(true, missing, filled) for name, filled in tables.items()},
    }


def scores(true: NDArray[np.float64], missing: NDArray[np.bool_], filled: NDArray[np.float64]) -> dict[str, float]:
    """Mean absolute errors of a total and of a part; share of rows in which the end comes first."""
    known = ~missing
    total = missing[:, TOTAL] & known[:, [A, B, C]].all(axis=1)
    part = missing[:, C] & known[:, [A, B, TOTAL]].all(axis=1)
    late = missing[:, END] & known[:, START]
    off = np.abs(filled - true)
    return {
        "total": float(off[total, TOTAL].mean()),
        "part": float(off[part, C].mean()),
        "end": float(off[late, END].mean()),
        "end_before_start": float((filled[late, END] < filled[late, START]).mean()),
    }


def _imputed_by_others(method: str, given: NDArray[np.float64]) -> NDArray[np.float64]:
    if method == "mean":
        return np.where(np.isnan(given), np.nanmean(given, axis=0), given)
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return np.asarray(IterativeImputer(max_iter=20, random_state=0).fit_transform(given))


def _ours(method: str, given: NDArray[np.float64], seed: int) -> dict[str, NDArray[np.float64]]:
    import pandas as pd

    from vsae import VSAEImputer

    frame = pd.DataFrame(given, columns=list(NAMES))
    for name in CODES:
        frame[name] = frame[name].map({float(k): f"level {k}" for k in range(4)})
    imputer = VSAEImputer(effort="fast" if method == "vsae-fast" else "default", random_state=seed).fit(frame)
    tables = {"imputed": imputer.transform(frame), "drawn": imputer.draw(frame, 1)[0]}
    numbers = [name for name in NAMES if name not in CODES]
    out = {}
    for name, table in tables.items():
        out[name] = given.copy()
        out[name][:, [NAMES.index(n) for n in numbers]] = table[numbers].to_numpy(dtype=np.float64)
    return out


def in_words(row: Row) -> str:
    found = row["imputed"]
    return f"total off by {found['total']:.3f}, end before start in {found['end_before_start']:.1%}"


BENCHMARK = Benchmark("exact", ("method", "seed"), in_process(__name__), in_words)


def main(arguments: Sequence[str]) -> None:
    options.run_methods(arguments, BENCHMARK, __doc__, METHODS, SEEDS)


# --- its part of docs/joint.md


def section(results: Path) -> str:
    rows = BENCHMARK.rows(results)
    if not rows:
        return "## Relations that hold exactly\n\nNot run."
    lines = []
    for method in METHODS:
        for kind in ("imputed", "drawn"):
            runs = [row[kind] for row in rows if row["method"] == method and kind in row]
            if runs:
                mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
                lines.append(
                    [f"{method}, {kind}", *(f"{mean[name]:.3f}" for name in ("total", "part", "end")),
                     f"{mean['end_before_start']:.1%}"]
                )  # fmt: skip
    words = paragraph(
        f"{ROWS:,} rows of {len(NAMES)} columns, {HIDDEN:.0%} of the cells missing at random; seeds",
        f"{listed(all_values(rows, 'seed'))}. Mean absolute error of a total whose three parts are known,",
        "of a part whose total and other parts are, and of an end whose start is; and how often such an end comes",
        "before its start.",
    )
    head = ["method", "total", "part", "end", "end before start"]
    return f"## Relations that hold exactly\n\n{words}\n\n{markdown(head, lines)}"


def verdicts(results: Path) -> list[Verdict]:
    rows = BENCHMARK.rows(results)

    def mean(method: str, name: str) -> float:
        found = [row["imputed"][name] for row in rows if row["method"] == method]
        return float(np.mean(found)) if found else np.nan

    asked = f"error of a total and of a part ≤ {MOST_ERROR:.0f} × IterativeImputer's"
    broken = f"an end before its start in ≤ {MOST_VIOLATIONS:.0%} of the rows"
    if not {"vsae", "iterative"} <= {row["method"] for row in rows}:
        return []
    ratios = {name: mean("vsae", name) / mean("iterative", name) for name in ("total", "part")}
    share = mean("vsae", "end_before_start")
    return [
        Verdict(
            asked,
            ", ".join(f"{name} {mean('vsae', name):.4f} (× {ratio:.2f})" for name, ratio in ratios.items()),
            max(ratios.values()) <= MOST_ERROR,
        ),
        Verdict(broken, f"{share:.2%}", share <= MOST_VIOLATIONS),
    ]
