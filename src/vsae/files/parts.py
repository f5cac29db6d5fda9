"""`Parts`: what is done of a long job, block by block, in a folder beside its output; a killed job goes on from there.

A part is the filled rows of one block. Its name has a key of all that it depends on: the input file as it was, the
block, the model and the options. So a part of another job, or of a file that has changed, is never taken for one of
this. A file is put together when all of its parts are there, then noted as done, then its parts go.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vsae.files.blocks import Block, Blocks
from vsae.files.sources import InputFile
from vsae.files.storage import FileError, format_of
from vsae.storage.atomic import check_place, write_text, written_beside

_MANIFEST = "manifest.json"
_IN_A_FOLDER = 1000  # parts
_GOES_ON = "what is done stays done, and the same command goes on from there"


class Target:
    """Where the filled table goes: one file, or a folder with a file for each of the input."""

    def __init__(self, out: str, blocks: Blocks, format: str | None = None) -> None:
        self.out, self.blocks = out, blocks
        place = Path(out)
        self.is_folder = out.endswith("/") or place.is_dir()
        if self.is_folder:
            self.format = blocks.format
            self.files = [(place / file.name, [i]) for i, file in enumerate(blocks.files)]
            self.work = place / f".parts-{_key_of(blocks.files)}"  # other jobs may write to the same folder
        else:
            self.format = format_of(out, format, default=blocks.format.name)
            self.files = [(place, list(range(len(blocks.files))))]
            self.work = place.with_name(f".{place.name}.parts")
            _checked_place(place)
        blocks.check_format(out, self.format, whole=not self.is_folder)
        inputs = {file.path.resolve() for file in blocks.files}
        for path, _ in self.files:
            if path.resolve() in inputs:
                raise FileError(f"{path}: this is the table itself; name another file or folder")

    def make_folders(self) -> None:
        try:
            for path, _ in self.files:
                if self.is_folder:
                    path.parent.mkdir(parents=True, exist_ok=True)
            self.work.mkdir(parents=self.is_folder, exist_ok=True)
        except OSError as error:
            raise FileError(f"{self.out}: {(error.strerror or str(error)).lower()}; choose another place") from None


def _key_of(files: Sequence[InputFile]) -> str:
    """Of where files are, whatever they hold."""
    return hashlib.sha256("\n".join(str(file.path.resolve()) for file in files).encode()).hexdigest()[:16]


def _checked_place(path: Path) -> None:
    try:
        check_place(path)
    except OSError as error:
        raise FileError(str(error)) from None


class Parts:
    """The parts of a job; `what` is all that they depend on beside the input, as JSON."""

    def __init__(self, target: Target, what: Mapping[str, Any]) -> None:
        self.target, self.what = target, dict(what)
        self.blocks, self.folder = target.blocks, target.work
        self._style = [hashlib.sha256(self.blocks.style.encode()).hexdigest(), target.is_folder]
        self._done: dict[str, Any] = {}  # name of a file that is put together → what it was made of, and its size

    def open(self) -> bool:
        """Make the folder; whether it holds parts of this job. Those of others go."""
        self.target.make_folders()
        self._done = self._read_done()
        kept = {self.path(block) for block in self.blocks.blocks}
        there = list(self.folder.glob("*/*.part"))
        for path in (*there, *self.folder.glob("*/*.json")):
            if path.with_suffix(".part") not in kept:
                path.unlink(missing_ok=True)
        self._write_manifest()
        return bool(self._done) or any(path in kept for path in there)

    def path(self, block: Block) -> Path:
        folder = self.folder / f"{block.number // _IN_A_FOLDER:04d}"
        return folder / f"{block.number:08d}-{self._key(block)}.part"

    def _key(self, block: Block) -> str:
        parts = [self.what, self._style, self.blocks.files[block.file].identity, list(block)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def pending(self) -> list[Block]:
        """The blocks that are still to be done."""
        finished = {number for path, files in self.target.files if self._is_done(path, files) for number in files}
        return [b for b in self.blocks.blocks if b.file not in finished and not self.path(b).exists()]

    def report(self, block: Block) -> Any:
        """What `write` was told of a block that is done, which outlives the part; None where it is lost."""
        try:
            return json.loads(self.path(block).with_suffix(".json").read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def write(self, block: Block, content: bytes, report: Any) -> None:
        """A part, and as JSON a report on it; where the part is there, so is the report."""
        path = self.path(block)
        try:
            path.parent.mkdir(exist_ok=True)
            write_text(path.with_suffix(".json"), json.dumps(report))
            with written_beside(path) as beside:
                beside.write_bytes(content)
        except OSError as error:
            at = f"could not write rows {block.first_row:,} to {block.first_row + block.rows:,}"
            raise FileError(f"{self.target.out}: {at}: {_reason(error)}; {_GOES_ON}") from None

    def finish(self, number: int) -> None:
        """Put together the file of the target with that number, all of whose parts are there."""
        path, files = self.target.files[number]
        if self._is_done(path, files):
            return
        parts = [self.path(block) for block in self.blocks.blocks if block.file in files]
        try:
            with written_beside(path) as beside:
                self.blocks.join(parts, beside, self.target.format, whole=not self.target.is_folder)
        except OSError as error:
            raise FileError(f"{path}: could not be put together: {_reason(error)}; {_GOES_ON}") from None
        self._done[self._name(path)] = self._file_key(path, files)
        self._write_manifest()
        for part in parts:
            part.unlink(missing_ok=True)

    def remove(self) -> None:
        """When all is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_done(self, path: Path, files: Sequence[int]) -> bool:
        return path.exists() and self._done.get(self._name(path)) == self._file_key(path, files)

    def _file_key(self, path: Path, files: Sequence[int]) -> list[Any]:
        keys = [self._key(block) for block in self.blocks.blocks if block.file in files]
        return [hashlib.sha256("".join(keys).encode()).hexdigest()[:16], path.stat().st_size]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder.parent).as_posix()

    def _read_done(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / _MANIFEST).read_text("utf-8"))["done"])
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or not ours: then nothing is done
            return {}

    def _write_manifest(self) -> None:
        content = {
            "input": [file.identity for file in self.blocks.files],
            "blocks": len(self.blocks.blocks),
            "job": self.what,
            "done": self._done,
        }
        path = self.folder / _MANIFEST
        try:
            write_text(path, json.dumps(content, indent=1))
        except OSError as error:
            raise FileError(f"{path}: could not be written: {_reason(error)}; {_GOES_ON}") from None


def _reason(error: OSError) -> str:
    """Without the number that pyarrow puts before it."""
    return re.sub(r"^\[errno \d+\] ", "", (error.strerror or str(error).rpartition(": ")[2]).lower())
