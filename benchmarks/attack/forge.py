"""Models that nobody fitted: damaged bytes, and files with a right checksum whose parts were changed at random."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from vsae.storage import checkpoint

#: What a value of a file is replaced by.
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 255, 30_000, 100_000, 10**9, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e-300, 1e300,
    float("nan"), float("inf"), float("-inf"), "", "x", "nan", "0", "\x1b[31m", "x" * 10_000, [], {}, [None], [[]],
    {"": None}, {"tuple": []}, {"decimal": "1e999999"}, {"datetime": "9999-99-99"}, [0] * 1000, ["a", 1, None],
)  # fmt: skip


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, filled with zeros, doubled, or with some bits turned."""
    start, stop = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    kind = rng.integers(6)
    if kind == 0:
        return content[:start]
    if kind == 1:
        return content[:start] + content[stop:]
    if kind == 2:
        return content[:start] + bytes(stop - start) + content[stop:]
    if kind == 3:
        return content[:stop] + content[start:]
    changed = bytearray(content)
    within = len(content) if kind == 4 else min(len(content), 4096)  # the header
    for at in rng.integers(0, within, rng.integers(1, 9)):
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def forge(model: Path, out: Path, rng: np.random.Generator) -> str:
    """A file with a right checksum, and what was changed in it."""
    tensors, content = checkpoint.read(model, "imputer")
    content = copy.deepcopy(content)
    said = [
        _change_tensor(tensors, rng) if rng.random() < 0.3 else _change_value(content, rng)
        for _ in range(1 if rng.random() < 0.8 else 3)
    ]
    if rng.random() < 0.02:
        said.append(_write_deep(out, tensors, content, rng))
    else:
        checkpoint.write(out, "imputer", tensors, content)
    return ", ".join(said)


def _change_value(content: dict[str, Any], rng: np.random.Generator) -> str:
    """One value anywhere in the JSON: another, none, doubled, or many times as large. Each place alike by its depth."""
    places = list(_places(content))
    names = sorted({path[:2] for *_, path in places})  # parts first, or lists of numbers would be all there is
    part = names[rng.integers(len(names))]
    some = [place for place in places if place[2][: len(part)] == part]
    holder, key, path = some[rng.integers(len(some))]
    old, kind = holder[key], rng.integers(5)
    if kind == 0:
        del holder[key]
        return f"{'/'.join(map(str, path))} gone"
    if kind == 1 and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = old * int(rng.integers(-1000, 1000))
    elif kind == 2 and isinstance(old, list):
        holder[key] = old + old if rng.random() < 0.5 else old[: len(old) // 2]
    else:
        holder[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])
    return f"{'/'.join(map(str, path))} = {repr(holder[key])[:40]}"


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key, (*path, str(key))
        yield from _places(value, (*path, str(key)))


def _change_tensor(tensors: dict[str, Tensor], rng: np.random.Generator) -> str:
    name = sorted(tensors)[rng.integers(len(tensors))]
    x, kind = tensors[name], rng.integers(8)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[name] = x.flatten()
    elif kind == 2:
        tensors[name] = torch.cat([x, x]) if x.dim() else x
    elif kind == 3:
        tensors[name] = x[:0] if x.dim() else x
    elif kind == 4:
        tensors[name] = x.to([torch.float64, torch.int64, torch.bool, torch.float16][rng.integers(4)])
    elif kind == 5:
        tensors["strange"] = x.clone()
    else:
        values = [0, 1, -1, 127, 30_000] if not x.is_floating_point() else [torch.nan, torch.inf, 1e30, -1e30, 0.0]
        flat = x.clone().flatten()
        if len(flat):
            flat[rng.integers(len(flat), size=1 if kind == 6 else len(flat))] = values[rng.integers(5)]
        tensors[name] = flat.view(x.shape)
    return f"tensor {name}, change {kind}"


def _write_deep(out: Path, tensors: dict[str, Tensor], content: dict[str, Any], rng: np.random.Generator) -> str:
    """JSON that is deep, or a version that is no number."""
    text, kind = json.dumps(content), {"name": "vsae", "purpose": "imputer", "version": checkpoint.FORMAT_VERSION}
    if rng.random() < 0.5:
        text = "[" * 200_000 + "]" * 200_000
    else:
        kind["version"] = [float("inf"), float("nan"), 1e300, "3", None, [3]][rng.integers(6)]
    tensors = {name: x.contiguous() for name, x in tensors.items()}
    header = {"format": json.dumps(kind), "content": text, "sha256": checkpoint.digest(text, tensors)}
    save_file(tensors, out, header)
    return f"version {kind['version']}, {len(text)} characters"
