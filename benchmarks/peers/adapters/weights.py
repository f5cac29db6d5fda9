"""Pretrained weights, which are not part of a package: files in the folder that an environment variable names."""

from __future__ import annotations

import os
from pathlib import Path


def weights(variable: str, kind: str) -> Path:
    """The file whose name says that it is of the "classifier" or of the "regressor"."""
    folder = Path(os.environ[variable])
    found = sorted(path for path in folder.iterdir() if kind in path.name)
    if len(found) != 1:
        raise FileNotFoundError(f"{variable} names a folder with {len(found)} files of a {kind}, not with one")
    return found[0]
