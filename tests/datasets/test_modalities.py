"""Loading code of the multi-modal sets, on small files made here."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from vsae.datasets import DataNotFound, DownloadError, download_images, load_images, load_modalities, modalities


def write_idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("mnist", "fashion_mnist"):
        for part, n in (("train", 60), ("t10k", 30)):
            labels = np.arange(n, dtype=np.uint8) % 10
            images = rng.integers(256, size=(n, 6, 5)).astype(np.uint8)
            images[:, 0, 0] = labels
            write_idx(tmp_path / name / f"{part}-images-idx3-ubyte.gz", images)
            write_idx(tmp_path / name / f"{part}-labels-idx1-ubyte.gz", labels)
    arrays = {}
    for part, n in (("train", 20), ("valid", 5), ("test", 8)):
        for name, width in (("text", 4), ("audio", 3), ("vision", 5)):
            arrays[f"{name}_{part}"] = rng.normal(size=(n, width)).astype(np.float32)
        arrays[f"vision_{part}"][:, 2] = 0.0
    np.savez(tmp_path / "cmu_mosi_features_cmu_split.npz", **arrays)
    return tmp_path


@pytest.mark.parametrize(("part", "n"), [("train", 30), ("test", 15)])
def test_digits_of_a_pair_add_up_to_nine(root, part, n):
    rows = load_modalities("mnist+mnist", part, root=root)
    first, second = (rows.columns[name][:, 0, 0, 0].astype(int) for name in ("digit1", "digit2"))
    assert len(rows) == n
    assert (first + second == 9).all()
    assert (first <= 4).all()
    assert np.array_equal(rows.classes, first)
    assert rows.schema.names == ["digit1", "digit2"]
    other = load_modalities("mnist+mnist", part, root=root, seed=1)
    assert not np.array_equal(other.columns["digit1"], rows.columns["digit1"])
    again = load_modalities("mnist+mnist", part, root=root)
    assert np.array_equal(again.columns["digit1"], rows.columns["digit1"])


def test_no_image_is_in_two_pairs(root):
    rows = load_modalities("mnist+mnist", "train", root=root)
    assert len(np.unique(rows.columns["digit1"], axis=0)) == len(rows)


def test_fashion_has_an_image_and_its_label(root):
    rows = load_modalities("fashion", "test", root=root)
    assert rows.columns["image"].shape == (30, 1, 6, 5)
    assert np.array_equal(rows.columns["image"][:, 0, 0, 0], rows.columns["label"])
    assert len(rows.take(slice(3))) == 3


def test_mosi_leaves_out_what_never_varies(root):
    train, test = (load_modalities("mosi", part, root=root) for part in ("train", "test"))
    assert (len(train), len(test)) == (25, 8)
    assert [train.columns[name].shape[1] for name in ("text", "audio", "vision")] == [4, 3, 4]
    assert train.schema == test.schema


@pytest.mark.parametrize("name", ["mnist+mnist", "fashion", "mosi"])
def test_a_missing_set_is_one_line_that_says_where_to_put_it(name, tmp_path, monkeypatch):
    monkeypatch.setenv("VSAE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DataNotFound, match="set VSAE_DATA to a folder that has it") as caught:
        load_modalities(name, "train")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "data") in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"\0\0\x08\x01\0\0\0\x09short", mtime=0), gzip.compress(b"x", mtime=0)]
)
def test_a_damaged_file_is_named(root, content):
    path = root / "mnist" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"train-labels.*fetch it again"):
        load_images("mnist", "train", root)


def test_download_checks_what_comes(root, tmp_path, monkeypatch):
    source = root / "mnist"
    monkeypatch.setitem(modalities._HOMES, "mnist", source.as_uri() + "/")
    with pytest.raises(DownloadError, match="is not the published file; nothing was kept"):
        download_images("mnist", tmp_path / "new")
    assert not list((tmp_path / "new").glob("**/*.gz"))
    for path in source.iterdir():
        monkeypatch.setitem(modalities._MD5, f"mnist/{path.name}", hashlib.md5(path.read_bytes()).hexdigest())
    download_images("mnist", tmp_path / "new")
    there = load_images("mnist", "test", tmp_path / "new")
    assert np.array_equal(there[0], load_images("mnist", "test", root)[0])


def test_a_download_that_fails_says_where_to_put_the_files(tmp_path, monkeypatch):
    monkeypatch.setitem(modalities._HOMES, "mnist", (tmp_path / "nowhere").as_uri() + "/")
    with pytest.raises(DownloadError, match=r"put mnist/train-images.* into a folder and set VSAE_DATA to it"):
        download_images("mnist", tmp_path)


def test_unknown_names_are_told_what_there_is(root):
    with pytest.raises(ValueError, match="choose one of mnist, fashion_mnist"):
        load_images("cifar", "train", root)
    with pytest.raises(ValueError, match="choose train or test"):
        load_modalities("fashion", "valid", root=root)
