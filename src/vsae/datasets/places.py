"""Where data sets are: in a given folder, in $VSAE_DATA, or in the user's cache; and how they are fetched into it."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from vsae.storage.atomic import written_beside

_SECONDS = 60  # without an answer


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


def fetch(what: str, url: str, file: str) -> bytes:
    """The content of `url`, which is to be kept in `file`."""
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as reply:
            content: bytes = reply.read()
        return content
    except (OSError, HTTPException) as error:  # a chain of socket tracebacks would bury the cause
        raise DownloadError(
            f"{what}: cannot fetch {url} ({error}); put {file} into a folder and set VSAE_DATA to it"
        ) from None


@contextmanager
def kept(what: str, path: Path) -> Iterator[Path]:
    """A file to write to and to check, which then takes the place of `path`; a broken one leaves nothing behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_beside(path) as beside:
            yield beside
    except OSError as error:
        raise DownloadError(f"{what}: cannot write into {path.parent} ({error})") from None
