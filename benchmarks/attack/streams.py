"""Part `pipes`: closed, full and slow streams, buffered and not. Processes of their own: they start without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.attack.commands import Ended, run
from benchmarks.attack.outcomes import Outcomes, table
from vsae.files import write_table

_ROWS = 4000

#: Name → a line of the shell, its exit code, and whether all of the table arrives on stdout.
CASES = {
    "slow": ("vsae impute t.csv --model m.vsae -q | (sleep 2; cat)", 0, True),
    "read in small pieces": ("vsae impute t.csv --model m.vsae -q | dd bs=100 status=none", 0, True),
    "stdin in pieces": ("(head -c 999 t.csv; sleep 1; tail -c +1000 t.csv) | vsae impute - --model m.vsae -q", 0, True),
    "stderr closed": ("vsae impute t.csv --model m.vsae 2>&-", 0, True),
    "stderr full": ("vsae impute t.csv --model m.vsae 2>/dev/full", 0, True),
    "a failure that cannot be told": ("vsae impute no.csv --model m.vsae 2>/dev/full", 1, False),
    "stdin closed": ("vsae impute - --model m.vsae -q <&-", 1, False),
    "stdin empty": ("vsae impute - --model m.vsae -q </dev/null", 1, False),
    "stdout closed": ("vsae impute t.csv --model m.vsae -q >&-", 1, False),
    "stdout full": ("vsae impute t.csv --model m.vsae -q >/dev/full", 1, False),
    "stdout of inspect full": ("vsae inspect t.csv >/dev/full", 1, False),
    "reader gone": ("vsae impute t.csv --model m.vsae -q | true; exit ${PIPESTATUS[0]}", 1, False),
    "all closed": ("vsae impute - --model m.vsae <&- >&- 2>&-", 1, False),
    "a model to a device": ("vsae fit t.csv -o /dev/full --steps 5 -q; test -c /dev/full || exit 9", 0, False),
}  # fmt: skip


def attack(count: int, seed: int, folder: Path) -> Outcomes:
    out = Outcomes(worst_seconds=60.0)
    write_table(folder / "t.csv", table(_ROWS, seed))
    write_table(folder / "small.csv", table(100, seed))
    made = run("fit", folder / "small.csv", "-o", folder / "m.vsae", "--steps", 15, "--effort", "fast", "-q")
    if made.code:
        raise RuntimeError(f"there is no model to attack: {made.err}")
    whole = run("impute", folder / "t.csv", "--model", folder / "m.vsae", "-q").out
    cases = [(name, *case, unbuffered) for name, case in CASES.items() for unbuffered in ("", "1")]
    for name, line, code, arrives, unbuffered in cases[:count]:
        done = subprocess.run(
            ["bash", "-c", line.replace("vsae ", f"{sys.executable} -m vsae ", 1)],
            cwd=folder, capture_output=True, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
        ended = Ended(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
        bad = "" if name in ("all closed", "a failure that cannot be told") else ended.fault
        if ended.code != code:
            bad = bad or f"exit code {ended.code}"
        if arrives and ended.out != whole:
            bad = bad or f"{len(ended.out)} of {len(whole)} bytes, exit code {ended.code}"
        if not arrives and b"vsae:" in ended.out:
            bad = bad or "a remark on stdout"
        out.add(f"{name}{', unbuffered' if unbuffered else ''}", "whole" if ended.code == 0 else "refused", bad)
    return out
