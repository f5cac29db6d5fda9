"""Where data sets are: in a folder that is named, in $VSAE_DATA, or in the user's cache; and what is said if not."""

from __future__ import annotations

import os
from pathlib import Path


class DataNotFound(FileNotFoundError):
    """A file is nowhere; the message says where it was looked for and how to get it."""


class DownloadError(RuntimeError):
    """A data set could not be fetched, or what came is not the data set."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vsae"


def find(what: str, file: str, root: str | Path | None, remedy: str) -> Path:
    """The path of `file`; `remedy` ends the line that says it is not there, `{call}` in it being the root to pass."""
    if root is not None:
        folders, put = [Path(root)], "leave root out and set VSAE_DATA"
        call = f", root={str(root)!r}"
    else:
        shared = os.environ.get("VSAE_DATA")
        folders, put, call = [*([Path(shared).expanduser()] if shared else []), cache()], "set VSAE_DATA", ""
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    looked = " or ".join(str(folder) for folder in folders)
    raise DataNotFound(
        f"{what}: there is no file {file} in {looked}; {put} to a folder that has it{remedy.format(call=call)}"
    )
