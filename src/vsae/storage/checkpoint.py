"""Files: tensors as safetensors, everything else as JSON in its header. Never pickle: loading runs no code."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
    header = {"format": json.dumps(kind), "content": text, "sha256": digest(text, tensors)}
    with written_beside(path) as beside:
        beside.write_bytes(_in_order(save(tensors, header)))


def _in_order(content: bytes) -> bytes:
    """The same file with the keys of its header in order: safetensors writes them in any, and the same model is to give
    the same bytes."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a whole number of words
    return len(text).to_bytes(8, "little") + text + content[start:]


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
            name, found, version = kind["name"], kind["purpose"], kind["version"]
            if not isinstance(version, int):
                raise TypeError(f"its version is {version!r}")
            if name == "vsae" and version != FORMAT_VERSION:  # its other parts are laid out in ways unknown here
                raise _OtherFormat
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            intact = header["sha256"] == digest(header["content"], tensors)
            content = json.loads(header["content"])
    except _OtherFormat:
        newer = version > FORMAT_VERSION
        raise FileFormatError(
            f"{path}: format version {version} is {'newer' if newer else 'older'} than this vsae reads "
            f"({FORMAT_VERSION}); {'upgrade vsae' if newer else 'fit the model again'}"
        ) from None
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise FileFormatError(f"{path}: not a vsae file, or a damaged one ({reason})") from None
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
    except (FileFormatError, MemoryError):
        raise
    except Exception as error:  # whichever: what the parts are is not ours to say
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise FileFormatError(f"{path}: the parts of this file do not fit together ({reason})") from None


class NoLarger(TorchFunctionMode):
    """While a model is built, refuses to make more numbers than its file holds, before they take memory.

    >>> with NoLarger({"weight": torch.zeros(3, 4)}):
    ...     torch.zeros(10**5, 10**5)
    Traceback (most recent call last):
    ValueError: its settings are those of a larger model than its tensors make up
    """

    _MADE = (torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.arange, torch.rand, torch.randn)

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.left = 2 * sum(tensor.numel() for tensor in tensors.values()) + 2**20  # indices are not in the file

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._MADE:
            sizes = args[0] if args and isinstance(args[0], tuple | list) else args
            self.left -= math.prod(sizes) ** (2 if func is torch.eye and len(sizes) == 1 else 1)
        elif func is Tensor.repeat:
            self.left -= args[0].numel() * math.prod(args[1:])
        elif func is torch.repeat_interleave:
            self.left -= int(args[0].sum())
        if self.left < 0:
            raise ValueError("its settings are those of a larger model than its tensors make up")
        return func(*args, **(kwargs or {}))


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


def digest(content: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(content.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
