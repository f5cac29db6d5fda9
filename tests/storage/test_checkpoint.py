"""Files: what is not ours, is damaged, or has another version of the format is refused in one line."""

from __future__ import annotations

import pytest
import torch

from vsae.storage import checkpoint
from vsae.storage.checkpoint import FORMAT_VERSION, FileFormatError, read, write

TENSORS = {"a": torch.arange(3.0)}


def test_what_is_written_is_read(tmp_path):
    write(tmp_path / "file", "model", TENSORS, {"b": [1, None]})
    tensors, content = read(tmp_path / "file", "model")
    assert torch.equal(tensors["a"], TENSORS["a"])
    assert content == {"b": [1, None]}


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (FORMAT_VERSION - 1, "is older than this vsae reads .*; fit the model again"),
        (FORMAT_VERSION + 1, "is newer than this vsae reads .*; upgrade vsae"),
    ],
)
def test_another_version_is_refused_in_one_line(tmp_path, monkeypatch, version, message):
    monkeypatch.setattr(checkpoint, "FORMAT_VERSION", version)
    write(tmp_path / "file", "model", TENSORS, {})
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match=f"format version {version} {message}") as caught:
        read(tmp_path / "file", "model")
    assert "\n" not in str(caught.value)


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "file"
    write(path, "model", TENSORS, {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FileFormatError, match="its checksum is wrong"):
        read(path, "model")
    path.write_bytes(whole[:20])
    with pytest.raises(FileFormatError, match="not a vsae file, or a damaged one"):
        read(path, "model")
