"""Files: tensors as safetensors, everything else as JSON in its header. Never pickle: loading runs no code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vsae.storage.atomic import written_beside

FORMAT_VERSION = 3  # 1: other names for what a model is made of; 2: a calibration that lay in several places


class _OtherFormat(Exception):
    """Raised and caught inside `read`."""


class FileFormatError(ValueError):
    """The file is not one of ours, is damaged, or is of a version that this vsae does not read."""


def write(
    path: str | os.PathLike[str], purpose: str, tensors: Mapping[str, Tensor], content: Mapping[str, Any]
) -> None:
    """Tensors and JSON into one file."""
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    text = json.dumps(content)
    kind = {"name": "vsae", "purpose": purpose, "version": FORMAT_VERSION}
    header = {"format": json.dumps(kind), "content": text, "sha256": _digest(text, tensors)}
    try:
        with written_beside(path) as beside:
            save_file(tensors, beside, header)
    except SafetensorError as error:
        raise OSError(f"{path}: could not be written: {error}") from None


def read(path: str | os.PathLike[str], purpose: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write` wrote, or a `FileFormatError` that says what is wrong with the file."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path}: this is a folder; name a file in it")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file; check the path")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            kind = json.loads(header["format"])
            name, found, version = kind["name"], kind["purpose"], int(kind["version"])
            if name == "vsae" and version != FORMAT_VERSION:  # its other parts are laid out in ways unknown here
                raise _OtherFormat
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            intact = header["sha256"] == _digest(header["content"], tensors)
            content = json.loads(header["content"])
    except _OtherFormat:
        newer = version > FORMAT_VERSION
        raise FileFormatError(
            f"{path}: format version {version} is {'newer' if newer else 'older'} than this vsae reads "
            f"({FORMAT_VERSION}); {'upgrade vsae' if newer else 'fit the model again'}"
        ) from None
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path}: not a vsae file, or a damaged one ({error})") from None
    if name != "vsae" or found != purpose:
        raise FileFormatError(f"{path}: holds a {name} {found}, not a vsae {purpose}")
    if not intact:
        raise FileFormatError(f"{path}: its checksum is wrong: the file was damaged or changed after it was written")
    return tensors, content


@contextmanager
def parts_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong in putting a file's parts together is the file's fault, and is said in one line."""
    try:
        yield
    except FileFormatError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileFormatError(f"{path}: the parts of this file do not fit together ({reason})") from None


def joined(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Several groups of tensors as one, each name behind that of its group.

    >>> joined({"a": {"x": torch.zeros(1)}, "b": {"x": torch.ones(1)}})
    {'a.x': tensor([0.]), 'b.x': tensor([1.])}
    """
    return {f"{group}.{name}": tensor for group, tensors in parts.items() for name, tensor in tensors.items()}


def part(tensors: Mapping[str, Tensor], group: str) -> dict[str, Tensor]:
    """One of the groups that `joined` put together."""
    prefix = f"{group}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _digest(content: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
