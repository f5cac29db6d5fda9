"""What came of attacks: how often which outcome, the failures by name, and the longest and largest of them."""

from __future__ import annotations

import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_MOST_KEPT = 20  # failures that are told one by one


class Hung(BaseException):
    """Nothing that catches exceptions may catch it."""


@dataclass
class Outcomes:
    worst_seconds: float  # more than that hangs
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0

    def run(self, name: str, attack: Callable[[], str]) -> None:
        """One attack: the outcome that it returns, or "failed" with what it raises, or "hung"."""
        began = time.process_time()  # a busy machine is not the attack's doing
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, 20 * self.worst_seconds)
        try:
            found = attack()
        except Hung:
            found = "hung"
            self._tell(f"{name}: hung")
        except (Exception, SystemExit) as error:
            found = "failed"
            self._tell(f"{name}: {type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.process_time() - began
        if took > self.worst_seconds and found != "hung":
            self._tell(f"{name}: took {took:.1f} s")
            self.counts["hung"] += 1
        self.longest = max(self.longest, took)
        self.counts[found] += 1

    def add(self, name: str, outcome: str, bad: str = "") -> None:
        """The outcome of an attack that was run elsewhere; `bad` says why it is a failure."""
        self.counts["failed" if bad else outcome] += 1
        if bad:
            self._tell(f"{name}: {bad}")

    def row(self) -> dict[str, Any]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "counts": dict(sorted(self.counts.items())),
            "failures": self.failures,
            "longest": round(self.longest, 2),
            "memory_mb": round(peak),
        }

    def _tell(self, line: str) -> None:
        if len(self.failures) < _MOST_KEPT:
            self.failures.append(" ".join(line.split())[:300])


def one_line(error: Exception, outcome: str) -> str:
    """The outcome, if the error is said in one line."""
    assert "\n" not in str(error), f"more than one line: {error}"
    return outcome


def _stop(*_: Any) -> None:
    raise Hung


def table(rows: int, seed: int, missing: float = 0.15) -> dict[str, Any]:
    """Numbers, whole numbers, dates and levels, some of them missing."""
    rng = np.random.default_rng([seed, 22])
    age = rng.integers(18, 90, rows).astype(float)
    columns: dict[str, Any] = {
        "age": age,
        "income": np.exp(rng.normal(10, 0.5, rows) + 0.01 * age),
        "height": rng.normal(170, 9, rows).round(1),
        "sex": rng.choice(["F", "M"], rows).astype(object),
        "town": rng.choice(list("abcd"), rows).astype(object),
        "when": np.datetime64("2020-01-01") + rng.integers(0, 900, rows),
    }
    nulls = {"f": np.nan, "O": None, "M": np.datetime64("NaT")}
    for column in columns.values():
        column[rng.random(rows) < missing] = nulls[column.dtype.kind]
    return columns
