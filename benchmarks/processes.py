"""A run as a process of its own: in its environment, under a time limit, with a fixed number of threads."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.one import left_in

HERE = Path(__file__).parent
ADAPTERS = HERE / "peers" / "adapters"
ENVIRONMENTS = Path(os.environ.get("VSAE_PEERS", ".peers"))
THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT",
)  # fmt: skip


class NoEnvironment(Exception):
    """The packages that a method needs are not installed."""


class RunFailed(Exception):
    """A run of ours came to no row."""


Need = Callable[[], str | None]  # → a line about what is lacking, if anything is


class Method(NamedTuple):
    """An adapter in benchmarks/peers/adapters, and the environment that it runs in."""

    environment: str | None  # None: the one this runs in
    script: str
    arguments: tuple[str, ...] = ()
    need: Need | None = None


def r_with_mice() -> str | None:
    return None if shutil.which("Rscript") else "no Rscript; install R with its packages mice and ranger"


def weights(variable: str) -> Need:
    """Pretrained weights, in the folder that an environment variable names."""
    lacking = f"no weights; set {variable} to a folder with the files of its classifier and its regressor"
    return lambda: None if Path(os.environ.get(variable) or os.devnull).is_dir() else lacking


class Writable(Protocol):
    def write(self, folder: str | Path) -> None: ...


@dataclass(frozen=True)
class Processes:
    """The conditions that all runs of a benchmark have in common."""

    limit: float = 300.0  # seconds
    threads: int = 1
    environments: Path = ENVIRONMENTS

    def python(self, environment: str | None) -> Path:
        return Path(sys.executable) if environment is None else self.environments / environment / "bin" / "python"

    def ours(self, module: str, job: Mapping[str, Any]) -> dict[str, Any]:
        """The row that `module.measured` makes of the job."""
        root = str(HERE.parent)
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.one", module, folder, json.dumps(job)]
            ended = self._limited(command, Path(folder), variables, cwd=None)
            if ended["status"] != "ok":
                raise RunFailed(ended["error"] or f"timed out at {self.limit:.0f} s")
            return left_in(Path(folder))

    def answered(
        self, method: Method, row: dict[str, Any], tasks: Sequence[Writable], scored: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        """The row with the score of what an adapter makes of the tasks, or with how it failed.

        `scored` is given the folders of the tasks; an answer that is none makes it raise.
        """
        if method.need and (lacking := method.need()):
            raise NoEnvironment(lacking)
        # a link to the interpreter is how an environment is known: made absolute, but not resolved
        python = self.python(method.environment).absolute()
        if not python.exists():
            raise NoEnvironment("no environment; run `make peers`")
        with tempfile.TemporaryDirectory() as parent:
            folders = [Path(parent, str(i)) for i in range(len(tasks))]
            for folder, task in zip(folders, tasks, strict=True):
                folder.mkdir()
                task.write(folder)
            command = [str(python), str(ADAPTERS / method.script), *method.arguments, *map(str, folders)]
            # our PYTHONPATH would shadow the packages of another environment
            variables = {} if method.environment is None else {"PYTHONPATH": None}
            row = row | self._limited(command, Path(parent), variables, cwd=folders[0])
            if row["status"] != "ok":
                return row
            try:
                return row | scored(*folders)
            except (OSError, KeyError, ValueError) as error:
                return row | {"status": "failed", "error": one_line(f"{type(error).__name__}: {error}")}

    def _limited(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str | None], cwd: Path | None
    ) -> dict[str, Any]:
        """`status`, `error` and `memory_mb` of a command; variables that are None are taken away."""
        threads = dict.fromkeys(THREADS, str(self.threads))
        environment = {**os.environ, **threads, "PYTHONHASHSEED": "0", **variables}
        said = folder / "stderr.txt"  # not a pipe: what outlives the group would keep one open, and us waiting
        with said.open("w") as file:
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(HERE / "limited.py"), str(self.limit), *command],
                env={name: value for name, value in environment.items() if value is not None},
                cwd=cwd, stdout=subprocess.PIPE, stderr=file, text=True, check=True,
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
    """With its GPU, which ours use where there is one."""
    import torch  # takes a second, and few need to know

    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{platform.machine()}{gpu}, {os.cpu_count()} cores, python {platform.python_version()}"
