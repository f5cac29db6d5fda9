"""The read-out benchmark: its table, its attacks, and what its page says of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import readout


def row(rows: int, copied: int, distance: float) -> dict:
    found = {words: {"exact": copied, "near": copied} for words in readout.CONDITIONS} | {"job": None}
    none = {words: {"exact": 0, "near": 0} for words in readout.CONDITIONS} | {"job": None}
    return {
        "method": "vsae", "rows": rows, "seed": 1, "copies": {"with": found, "without": none},
        "areas": {"distance": distance, "density": 0.5}, "machine": "here",
    }  # fmt: skip


def test_the_unique_row_is_there_once_and_is_the_only_difference():
    ours, others = (readout.simulated(40, 1, unique=unique) for unique in (True, False))
    for name, value in readout.UNIQUE.items():
        different = [i for i, (a, b) in enumerate(zip(ours[name], others[name], strict=True)) if a != b]
        assert set(different) <= {20}
        assert ours[name][20] == value
    assert ours["job"].count("astronaut") == 1


def test_copies_are_counted_in_all_that_was_not_given():
    pd = pytest.importorskip("pandas")
    frame = readout.frame_of(readout.simulated(40, 1, unique=True))

    class Copier:
        def sample(self, n, given, random_state):
            made = pd.DataFrame({name: [value] * n for name, value in readout.UNIQUE.items()})
            made.loc[: n // 2 - 1, "income"] = 1.0
            made.loc[: n // 4 - 1, "weight"] += 0.1
            return made.assign(job="clerk")

    n = readout.UNDER_A_CONDITION
    assert readout.copies(Copier(), ("age",), frame, 0) == {"exact": n // 2, "near": n // 2}
    assert readout.copies(Copier(), ("income",), frame, 0) == {"exact": n - n // 4, "near": n}


def test_an_attack_that_knows_has_the_whole_area():
    rng = np.random.default_rng(0)
    assert readout.area(rng.random(50) + 1, rng.random(50)) == 1.0
    assert readout.area(np.zeros(5), np.zeros(7)) == 0.5


def test_the_page_says_whether_it_is_enough():
    good, bad = readout.verdicts([row(3000, 0, 0.54)]), readout.verdicts([row(3000, 3, 0.56)])
    assert [verdict.met for verdict in good] == [True, True]
    assert [verdict.met for verdict in bad] == [False, False]
    assert readout.verdicts([row(40, 0, 0.9)])[1].met is None
