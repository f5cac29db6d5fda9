"""The environments of the peers, one each: their pins contradict one another, and ours.

`python -m benchmarks environments [NAME …]` makes those that are missing or whose list below has changed.
They lie under `.peers/` of the working directory, or under `VSAE_PEERS`.
"""

from __future__ import annotations

import shutil
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.options import parser_of
from benchmarks.processes import ENVIRONMENTS, Processes

TORCH = "torch==2.13.0"  # a plain `torch` would pull gigabytes of CUDA packages
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "miceforest": ("miceforest==6.0.5", "lightgbm==4.5.0", "pandas<3"),  # a newer LightGBM breaks it
    "hyperimpute": ("hyperimpute==0.1.17", TORCH, "numpy<2.4", "pandas<3", "scikit-learn<1.7"),
    "gcimpute": ("gcimpute==0.0.4", "numpy<2", "pandas<3"),
    "midas2": ("midasverse-midas==0.3.1", TORCH),
    "pylace": ("pylace==0.10.1", "pandas<3", "polars<2"),
    "mostlyai": ("mostlyai-engine==2.7.3", TORCH),
    "sdv": ("sdv==2.0.0", TORCH),  # its copula, CTGAN and TVAE generate rows
    "utrees": ("utrees==0.3.0", "scikit-learn<1.7"),
    "tabicl": ("tabicl==2.2.0", TORCH),
    "tabpfn": ("tabpfn==9.2.0", "tabpfn-extensions==0.6.3", TORCH),
    "forest-diffusion": ("ForestDiffusion==1.0.6", "numpy<2.4", "pandas<3"),
}
UNWANTED = {"mostlyai": ("torchvision", "torchaudio")}  # their builds do not fit a CPU torch, and importing them fails


def folder(name: str) -> Path:
    return ENVIRONMENTS / name


def is_ready(name: str) -> bool:
    """Whether the environment was installed to its end, from the list as it is now."""
    mark = _mark(name)
    return mark.is_file() and mark.read_text() == _listed(name)


def install(name: str) -> None:
    shutil.rmtree(folder(name), ignore_errors=True)
    venv.create(folder(name), with_pip=True)
    _pip(name, "install", *REQUIREMENTS[name])
    if name in UNWANTED:
        _pip(name, "uninstall", "--yes", *UNWANTED[name])
    _mark(name).write_text(_listed(name))


def _pip(name: str, *arguments: str) -> None:
    command = [str(Processes().python(name)), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise RuntimeError(lines[-1] if lines else f"pip ended with {done.returncode}")


def _mark(name: str) -> Path:
    return folder(name) / "installed.txt"


def _listed(name: str) -> str:
    return "\n".join((*REQUIREMENTS[name], *(f"without {package}" for package in UNWANTED.get(name, ())))) + "\n"


def main(arguments: Sequence[str]) -> None:
    parser = parser_of("environments", "Install the other methods, each in an environment of its own.")
    sentence = f"Any of {', '.join(REQUIREMENTS)}; all of them if none is given."
    parser.add_argument("names", nargs="*", metavar="NAME", help=sentence)
    names = parser.parse_args(arguments).names or list(REQUIREMENTS)
    if unknown := set(names) - set(REQUIREMENTS):
        parser.error(f"there is no peer {', '.join(sorted(unknown))}; there are {', '.join(REQUIREMENTS)}")
    failed = False
    for name in names:
        if is_ready(name):
            print(f"{name}: ready", flush=True)
            continue
        try:
            install(name)
            print(f"{name}: installed", flush=True)
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:  # the others go on
            failed = True
            print(f"{name}: failed: {error}", flush=True)
    if failed:
        raise ValueError("not every environment could be made, as said above")
