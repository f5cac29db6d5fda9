"""`python limited.py SECONDS COMMAND…`: run a command under a time limit, and say on stdout what it took, as JSON.

A process of its own, and a small one, because Linux counts what a process inherits from its parent as its own peak
memory: started by the benchmark itself, every method would seem to need as much as the benchmark. Imports nothing of
ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time


def run(limit: float, command: list[str]) -> dict[str, float | bool]:
    """The exit code, the peak memory of the command and what it waited for, and whether it ran over the limit."""
    began, late = time.monotonic(), threading.Event()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)

    def stop() -> None:  # the new session made the process the head of a group
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def end() -> None:
        late.set()
        stop()

    timer = threading.Timer(limit, end)
    timer.daemon = True
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
        stop()  # what it left running, or itself if we were interrupted
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "code": os.waitstatus_to_exitcode(status),
        "timed_out": late.is_set(),
        "memory_mb": round(usage.ru_maxrss * unit / 2**20, 1),
        "wall": round(time.monotonic() - began, 3),
        "cpu": round(usage.ru_utime + usage.ru_stime, 3),
    }


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that `finally` runs
    print(json.dumps(run(float(sys.argv[1]), sys.argv[2:])))
