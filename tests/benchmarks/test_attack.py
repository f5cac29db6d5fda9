"""A short version of the attacks, and that harm would be seen."""

from __future__ import annotations

import time

import pytest

from benchmarks.attack import outcomes
from benchmarks.attack.commands import Ended
from benchmarks.attack.jobs import BENCHMARK, PARTS, failed
from benchmarks.attack.outcomes import Outcomes
from benchmarks.attack.page import page
from benchmarks.attack.whole import COMMANDS, OLD, _judged

SHORT = {"models": 30, "files": 400, "pictures": 60, "tables": 8, "options": 10, "kills": 1, "disks": 1}


@pytest.mark.parametrize("part", SHORT)
def test_attacks_do_no_harm(part, tmp_path):
    row = PARTS[part].attack(SHORT[part], 7, tmp_path).row()
    assert row["failures"] == []
    assert sum(row["counts"].values()) == SHORT[part] * (len(COMMANDS) if part in ("kills", "disks") else 1)


def test_an_error_that_is_not_ours_and_a_hang_are_harm(monkeypatch):
    out = Outcomes(worst_seconds=0.005)

    def fails() -> str:
        raise KeyError("x")

    out.run("first", fails)
    out.run("second", lambda: time.sleep(5) or "late")
    out.run("third", lambda: "fine")
    out.add("fourth", "new", "exit code 0, and nothing was written")
    row = out.row()
    assert row["counts"] == {"failed": 2, "fine": 1, "hung": 1}
    assert row["failures"][:2] == ["first: KeyError: 'x'", "second: hung"]
    assert failed(row) == 3


@pytest.mark.parametrize(
    ("ended", "fault"),
    [
        (Ended(0, b"", ""), ""),
        (Ended(1, b"", "vsae: t.csv: no such file\n"), ""),
        (Ended(1, b"", ""), "failed without a line"),
        (Ended(1, b"", "Traceback (most recent call last):\nKeyError: 'x'\n"), "traceback: KeyError"),
        (Ended(-11, b"", ""), "exit code -11"),
    ],
)
def test_how_a_command_may_end(ended, fault):
    assert ended.fault.startswith(fault)
    assert bool(ended.fault) == bool(fault)


def test_a_file_that_is_cut_or_a_set_that_is_mixed_is_lost():
    command, kept = COMMANDS["draws"], {"t.csv": b"t", "m.vsae": b"m"}
    old = kept | dict.fromkeys(command.files, OLD)
    new = kept | dict.fromkeys(command.files, b"new")
    judge = lambda now: _judged(command, old, new, now, timed=False)  # noqa: E731
    assert (judge(old), judge(new)) == (("old", ""), ("new", ""))
    assert judge(new | {"new.3.csv": OLD})[1] == "some files are old, some new"
    assert judge(new | {"new.3.csv": b"ne"})[0] == "lost"
    assert judge(new | {"t.csv": b""})[1] == "t.csv was changed"


def test_the_page_has_the_counts_of_the_rows(tmp_path):
    assert page(tmp_path) is None
    row = {
        "part": "files", "seed": 0, "counts": {"failed": 1, "read": 1999, "refused": 18_000},
        "failures": ["file 3: KeyError"], "longest": 0.3, "memory_mb": 400, "seconds": 60, "machine": "a machine",
    }  # fmt: skip
    BENCHMARK.store(tmp_path).add(row)
    text = page(tmp_path)
    assert "| 20,000 | read, or refused in one line | read 1,999, refused 18,000 | 1 | 0.3 | 400 |" in text
    assert "- files: file 3: KeyError" in text


def test_the_table_that_is_attacked_has_missing_cells():
    assert sum(value is None for value in outcomes.table(50, 0)["sex"]) > 0
