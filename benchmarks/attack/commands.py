"""The command line in a forked child, which need not import anything again: it can be killed, and its disk can fill."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import vsae.estimator  # noqa: F401 (once, not in every child)
from vsae.cli.app import main

_CRASH = 70  # the exit code of a traceback


class Ended(NamedTuple):
    code: int  # minus the signal that ended it
    out: bytes
    err: str

    @property
    def fault(self) -> str:
        """What is wrong with how it ended, beside its code: nothing, or a sentence."""
        lines = self.err.splitlines()
        if "Traceback" in self.err or self.code == _CRASH:
            return f"traceback: {lines[-1] if lines else ''}"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        if self.code == 1 and not (lines and lines[-1].startswith("vsae: ")):
            return f"failed without a line: {self.err[-200:]!r}"
        return ""


class Run:
    """One that goes on."""

    def __init__(self, arguments: Sequence[object], before: Callable[[], None] | None = None) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (`end` closes them)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(list(map(str, arguments)), before)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self, limit: float = 60.0) -> Ended:
        """Wait for it; one that takes longer is killed."""
        began = time.monotonic()
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > limit:
                self.kill()
            time.sleep(0.005)
        with self._out as out, self._err as err:
            for file in (out, err):
                file.seek(0)
            return Ended(os.waitstatus_to_exitcode(status), out.read(), err.read().decode(errors="replace"))

    def _be(self, arguments: list[str], before: Callable[[], None] | None) -> None:
        code = _CRASH
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, file in ((1, self._out), (2, self._err)):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
            sys.argv = ["vsae", *arguments]
            if before:
                before()
            main()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(code)


def run(*arguments: object, before: Callable[[], None] | None = None, limit: float = 60.0) -> Ended:
    return Run(arguments, before).end(limit)


def contents(folder: Path) -> dict[str, bytes]:
    """Of its files that have names."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
