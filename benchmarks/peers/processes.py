"""A method's run as a process of its own: in its environment, under a time limit, with a fixed number of threads."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ADAPTERS = Path(__file__).parent / "adapters"
LIMITED = Path(__file__).parent / "limited.py"
ENVIRONMENTS = Path(os.environ.get("VSAE_PEERS", ".peers"))
THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT",
)  # fmt: skip


class Method(NamedTuple):
    environment: str | None  # None: the one this runs in
    script: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Processes:
    """The conditions that all methods' processes run under."""

    limit: float = 300.0  # seconds
    threads: int = 1
    environments: Path = ENVIRONMENTS

    def python(self, environment: str | None) -> Path:
        return Path(sys.executable) if environment is None else self.environments / environment / "bin" / "python"

    def call(self, method: Method, *folders: str | Path) -> dict[str, Any]:
        """Run the adapter on the folders of its tasks: `status`, `error` and `memory_mb` of a row."""
        # a link to the interpreter is how an environment is known: made absolute, but not resolved
        python = self.python(method.environment).absolute()
        command = [str(python), str(ADAPTERS / method.script), *method.arguments, *map(str, folders)]
        variables = os.environ | dict.fromkeys(THREADS, str(self.threads)) | {"PYTHONHASHSEED": "0"}
        if method.environment is not None:
            variables.pop("PYTHONPATH", None)  # ours would shadow theirs
        said = Path(folders[0], "stderr.txt")  # not a pipe: what outlives the group would keep one open, and us waiting
        with said.open("w") as file:
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(LIMITED), str(self.limit), *command],
                env=variables, cwd=folders[0], stdout=subprocess.PIPE, stderr=file, text=True, check=True,
            )  # fmt: skip
        used = json.loads(done.stdout)
        row = {"status": "ok", "error": None, "memory_mb": used["memory_mb"]}
        if used["timed_out"]:
            return row | {"status": "timed out"}
        if used["code"]:
            complaint = last_error(said.read_text(errors="replace"))
            return row | {"status": "failed", "error": complaint or f"ended with code {used['code']}"}
        return row


def last_error(stderr: str) -> str:
    """The line an exception ends a traceback with, or else the last one.

    >>> last_error("Traceback (most recent call last):\\nValueError: bad /home/me/x.py\\nsome thread goes on\\n")
    'ValueError: bad x.py'
    """
    lines = [text for text in stderr.splitlines() if text.strip()]
    named = [text for text in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b", text)]
    return one_line((named or lines or [""])[-1])


def one_line(text: str) -> str:
    """Short, and without the folders of the machine it was said on."""
    return re.sub(r"(?<![\w:/.])(/[\w.+@-]+)+/", "", " ".join(text.split()))[:300]


@cache
def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, python {platform.python_version()}"
