"""The paper's multi-modal sets: pairs of MNIST digits, FashionMNIST with its labels, CMU-MOSI.

    mnist+mnist   two images, whose digits add up to 9: (0, 9), (1, 8), … (4, 5), partners drawn at random
    fashion       an image and its label
    mosi          text, audio and vision features of one utterance, a vector each

Files are looked for as those of `uci.py` are: in `root`, else in $VSAE_DATA, then in the user's cache. The images are
the published idx archives, in folders `mnist` and `fashion_mnist`; `download_images` fetches them.

>>> load_modalities("cifar", "train")
Traceback (most recent call last):
ValueError: unknown set 'cifar'; choose one of mnist+mnist, fashion, mosi
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vsae.data.schema import Schema, categorical, image, vector
from vsae.datasets.places import DownloadError, cache, fetch, find, kept

Part = Literal["train", "test"]

_FILES = {"train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
          "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")}  # fmt: skip
_HOMES = {
    "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "fashion_mnist": "https://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
}
_MD5 = {
    "mnist/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "mnist/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "mnist/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "mnist/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "fashion_mnist/train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "fashion_mnist/train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "fashion_mnist/t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "fashion_mnist/t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
_MOSI = "cmu_mosi_features_cmu_split.npz"
_MOSI_MODALITIES = ("text", "audio", "vision")
DIGITS = ("digit1", "digit2")


@dataclass(frozen=True, eq=False)
class Modalities:
    """Complete rows: images as bytes (n, 1, 28, 28), vectors (n, d), labels as codes; and each row's class, if any."""

    name: str
    schema: Schema
    columns: dict[str, NDArray[Any]]
    classes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def take(self, index: Any) -> Modalities:
        columns = {name: x[index] for name, x in self.columns.items()}
        return Modalities(self.name, self.schema, columns, None if self.classes is None else self.classes[index])


def load_modalities(name: str, part: Part, *, seed: int = 0, root: str | Path | None = None) -> Modalities:
    """A set's rows for training or testing; `seed` pairs the digits."""
    if name not in MULTIMODAL:
        raise ValueError(f"unknown set {name!r}; choose one of {', '.join(MULTIMODAL)}")
    if part not in _FILES:
        raise ValueError(f"unknown part {part!r}; choose train or test")
    return MULTIMODAL[name](part, seed, root)


def load_images(name: str, part: Part, root: str | Path | None = None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 28, 28) and labels (n,) of "mnist" or "fashion_mnist"."""
    if name not in _HOMES:
        raise ValueError(f"unknown images {name!r}; choose one of {', '.join(_HOMES)}")
    remedy = f", or call vsae.datasets.download_images({name!r}{{call}})"
    images, labels = (_read_idx(find(f"images {name!r}", f"{name}/{file}", root, remedy)) for file in _FILES[part])
    if len(images) != len(labels):
        raise ValueError(f"{name}: {len(images)} images but {len(labels)} labels; fetch the files again")
    return images, labels.astype(np.int64)


def download_images(name: str, root: str | Path | None = None) -> Path:
    """Fetch the four archives of "mnist" or "fashion_mnist" into a folder of `root` (else of the user's cache).

    Each is checked by its published MD5 sum before it takes its place.
    """
    if name not in _HOMES:
        raise ValueError(f"unknown images {name!r}; choose one of {', '.join(_HOMES)}")
    folder = (cache() if root is None else Path(root)) / name
    for file in (file for files in _FILES.values() for file in files):
        content = fetch(f"images {name!r}", _HOMES[name] + file, f"{name}/{file}")
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != _MD5[f"{name}/{file}"]:
            raise DownloadError(f"images {name!r}: {_HOMES[name]}{file} is not the published file; nothing was kept")
        with kept(f"images {name!r}", folder / file) as beside:
            beside.write_bytes(content)
    return folder


def pairs(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of two images whose digits add up to 9, the smaller one first; (n, 2), no image twice.

    >>> found = pairs(np.array([0, 9, 9, 4, 5, 7]), np.random.default_rng(0))
    >>> sorted(np.array([0, 9, 9, 4, 5, 7])[found].tolist())
    [[0, 9], [4, 5]]
    """
    found = []
    for digit in range(5):
        both = [rng.permutation(np.flatnonzero(labels == d)) for d in (digit, 9 - digit)]
        found.append(np.stack([side[: min(map(len, both))] for side in both], axis=1))
    return rng.permutation(np.concatenate(found))


def _digit_pairs(part: Part, seed: int, root: str | Path | None) -> Modalities:
    images, labels = load_images("mnist", part, root)
    rows = pairs(labels, np.random.default_rng(seed))
    schema = Schema(image(name, (1, *images.shape[1:])) for name in DIGITS)
    columns = {name: images[rows[:, j], None] for j, name in enumerate(DIGITS)}
    return Modalities("mnist+mnist", schema, columns, labels[rows[:, 0]])


def _fashion(part: Part, seed: int, root: str | Path | None) -> Modalities:
    images, labels = load_images("fashion_mnist", part, root)
    schema = Schema([image("image", (1, *images.shape[1:])), categorical("label", 10)])
    return Modalities("fashion", schema, {"image": images[:, None], "label": labels}, labels)


def _mosi(part: Part, seed: int, root: str | Path | None) -> Modalities:
    """The standard folds; their small validation part is taken to the training rows.

    Features that never vary in the training rows are left out. The extractors of text and vision have seen the labels
    of most utterances, of both parts: what ties these two together is the label, more than it would be elsewhere.
    """
    path = find("set 'mosi'", _MOSI, root, "; it has no public home to fetch it from")
    with np.load(path, allow_pickle=False) as file:
        columns, attributes = {}, []
        for name in _MOSI_MODALITIES:
            train = np.concatenate([file[f"{name}_train"], file[f"{name}_valid"]])
            varies = np.ptp(train, axis=0) > 0
            columns[name] = (train if part == "train" else file[f"{name}_test"])[:, varies].astype(np.float64)
            attributes.append(vector(name, int(varies.sum())))
    return Modalities("mosi", Schema(attributes), columns)


#: Name → its loader.
MULTIMODAL: dict[str, Callable[[Part, int, str | Path | None], Modalities]] = {
    "mnist+mnist": _digit_pairs,
    "fashion": _fashion,
    "mosi": _mosi,
}


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of an idx file: two zeros, 8 for bytes, the number of dimensions, then each of them in four bytes."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: this is not a gzipped idx file ({error}); fetch it again") from None
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise ValueError(f"{path}: this is not an idx file of bytes; fetch it again")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4").astype(int)
    if len(content) - start != shape.prod():
        raise ValueError(f"{path}: {len(content) - start} bytes where {shape.prod()} are announced; fetch it again")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
