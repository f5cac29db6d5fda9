"""The rows of a benchmark in files that read well in a diff: one JSON object a line, sorted by what names a row.

    results/peers.jsonl      rows; a large benchmark has several such files, one for each value of a field
    results/settings.json    settings that many rows share; a row holds the hash of its own
    results/multimodal.npz   images of rows

A file is read, merged, written beside its place and renamed into it, under a lock on the folder: rows of several runs
may come at once, and a file is whole or not there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.storage.atomic import write_text, written_beside

Row = dict[str, Any]
Key = tuple[Any, ...]
Images = dict[str, NDArray[np.uint8]]

RESULTS = Path("results")
_SETTINGS, _IMAGES = "settings", "images"  # the fields of a row that are kept apart


@dataclass(frozen=True)
class Store:
    """Rows named by the values of their fields `key`; with `split`, one file for each value of that field."""

    path: Path
    key: tuple[str, ...]
    split: str | None = None

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)

    def rows(self) -> list[Row]:
        """All rows, in the order of their keys, with their settings and images.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(Path(folder, "some.jsonl"), ("method", "seed"))
        ...     store.add({"method": "b", "seed": 0, "error": 0.5}, {"method": "a", "seed": 1, "error": 0.7})
        ...     store.add({"method": "b", "seed": 0, "error": 0.4})
        ...     [list(row.values()) for row in store.rows()]
        [['a', 1, 0.7], ['b', 0, 0.4]]
        """
        rows = [row for path in self._files() for row in _lines(path)]
        settings = _object(self._settings)
        images = _arrays(self._images) if any(_IMAGES in row for row in rows) else {}
        for row in rows:
            if _SETTINGS in row:
                row[_SETTINGS] = settings[row[_SETTINGS]]
            if _IMAGES in row:
                row[_IMAGES] = {name: images[self._image(row, name)] for name in row[_IMAGES]}
        return sorted(rows, key=self.key_of)

    def add(self, *rows: Row) -> None:
        """Keep these, in the place of any that have their keys."""
        files: dict[Path, list[Row]] = {}
        settings: dict[str, Any] = {}
        images: Images = {}
        for row in rows:
            kept = dict(row)
            if _SETTINGS in row:
                kept[_SETTINGS] = name = _hash(row[_SETTINGS])
                settings[name] = row[_SETTINGS]
            if _IMAGES in row:
                kept[_IMAGES] = list(row[_IMAGES])
                images |= {self._image(row, name): x for name, x in row[_IMAGES].items()}
            files.setdefault(self._file(row), []).append(kept)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.parent):
            if settings:
                _write_object(self._settings, _object(self._settings) | settings)
            if images:
                with written_beside(self._images) as beside, beside.open("wb") as file:
                    np.savez_compressed(file, **(_arrays(self._images) | images))  # type: ignore[arg-type]
            for path, some in files.items():
                merged = {self.key_of(row): row for row in (*_lines(path), *some)}
                write_text(path, "".join(_compact(merged[key]) + "\n" for key in sorted(merged)))

    @property
    def _settings(self) -> Path:
        return self.path.parent / "settings.json"

    @property
    def _images(self) -> Path:
        return self.path.with_suffix(".npz")

    def _image(self, row: Row, name: str) -> str:
        return f"{' '.join(map(str, self.key_of(row)))}/{name}"

    def _file(self, row: Row) -> Path:
        if self.split is None:
            return self.path
        return self.path.with_stem(f"{self.path.stem}-{re.sub(r'[^a-z0-9_.]+', '_', str(row[self.split]).lower())}")

    def _files(self) -> list[Path]:
        if self.split is not None:
            return sorted(self.path.parent.glob(f"{self.path.stem}-*{self.path.suffix}"))
        return [self.path] if self.path.exists() else []


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _object(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _write_object(path: Path, content: dict[str, Any]) -> None:
    lines = (f"{json.dumps(name)}:{_compact(content[name])}" for name in sorted(content))
    write_text(path, "{" + ",\n".join(lines) + "}\n")


def _arrays(path: Path) -> Images:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _hash(settings: Any) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
