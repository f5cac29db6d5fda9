"""Many files as one table: names with wildcards, folders, and folders that are named after values (`year=2024/`)."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from vsae.files.storage import FORMATS, FileError, FileFormat, format_of
from vsae.storage.atomic import AnyPath

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Hive names the folder of rows without one


class InputFile(NamedTuple):
    """One of the files of a table."""

    path: Path
    name: str  # below the folder that all files are in, with / between its parts
    partitions: dict[str, str | None]  # what its folders say of all its rows
    size: int
    mtime_ns: int

    @classmethod
    def at(cls, path: Path, root: Path) -> InputFile:
        try:
            found = path.stat()
        except OSError as error:
            raise FileError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
        name = path.relative_to(root).as_posix()
        return cls(path, name, partitions_of(name), found.st_size, found.st_mtime_ns)

    @property
    def identity(self) -> list[object]:
        """What tells whether a file is still the one that it was."""
        return [self.name, self.size, self.mtime_ns]


def partitions_of(name: str) -> dict[str, str | None]:
    """As Hive names folders, whose values have a % and a code for letters that a path cannot have.

    >>> partitions_of("year=2024/town=__HIVE_DEFAULT_PARTITION__/land=Baden%2FElsass/part-0.parquet")
    {'year': '2024', 'town': None, 'land': 'Baden/Elsass'}
    """
    folders = [folder.partition("=") for folder in name.split("/")[:-1] if "=" in folder]
    return {unquote(key): None if value == _NO_VALUE else unquote(value) for key, _, value in folders}


def is_many(given: AnyPath) -> bool:
    """Whether it names several files: a folder, or a name with wildcards that is no file itself."""
    return os.path.isdir(given) or (not os.path.exists(given) and glob.has_magic(os.fspath(given)))


def input_files(given: AnyPath, format: str | None = None) -> tuple[list[InputFile], FileFormat]:
    """The files that `given` names, in the order of their names, and their one format."""
    text = os.fspath(given)
    if os.path.isdir(text):
        root = Path(text)
        paths = [path for path in sorted(root.rglob("*")) if path.is_file() and _is_visible(path.relative_to(root))]
        paths = [path for path in paths if format is not None or _extension(path) in FORMATS]
    elif is_many(text):
        paths = [Path(path) for path in sorted(glob.glob(text, recursive=True)) if os.path.isfile(path)]
        root = Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()
    else:
        paths, root = [Path(text)], Path(text).parent
    if not paths:
        raise FileError(f"{text}: no file of a known format is there; the extensions are {', '.join(FORMATS)}")
    formats = [format_of(path, format, default="csv") for path in paths]
    for path, found in zip(paths, formats, strict=True):
        if found != formats[0]:
            raise FileError(
                f"{path}: this is a {found.name} file, and {paths[0]} a {formats[0].name} file; keep them apart"
            )
    files = [InputFile.at(path, root) for path in paths]
    _check_partitions(files)
    return files, formats[0]


def _check_partitions(files: Sequence[InputFile]) -> None:
    for file in files:
        if file.partitions.keys() != files[0].partitions.keys():
            there, first = (", ".join(f.partitions) or "none" for f in (file, files[0]))
            raise FileError(f"{file.path}: its folders name {there}, those of {files[0].path} name {first}")


def _is_visible(path: Path) -> bool:
    """Names with a dot or a line in front are those of what other programs keep beside tables."""
    return not any(part.startswith((".", "_")) and "=" not in part for part in path.parts)


def _extension(path: Path) -> str:
    stem = path.name
    for compression in (".gz", ".zst"):
        stem = stem.removesuffix(compression)
    return os.path.splitext(stem)[1].lower()
