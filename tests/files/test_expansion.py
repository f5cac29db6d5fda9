"""Files that expand to gigabytes, and names that would colour the screen."""

from __future__ import annotations

import gzip
import io
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from vsae.cli.app import app
from vsae.files import FileError, read_table, storage, write_table

TOLD = "it expands to more than 1 MB; if it is not made to fill the memory, raise --max-expanded"


@pytest.mark.parametrize("ending", [".csv.gz", ".csv.zst", ".parquet", ".feather", ".xlsx"])
def test_what_expands_too_far_is_refused_and_the_bound_can_be_raised(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(storage, "ANY_FILE", 2**20)
    monkeypatch.setattr(storage, "RATIO", 2)
    path, rows = tmp_path / f"t{ending}", 300_000 if ending == ".parquet" else 100_000
    if ending == ".xlsx":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
            book.writestr("xl/worksheets/sheet1.xml", bytes(2**22))
        with pytest.raises(FileError, match=TOLD):
            read_table(path)
        return
    write_table(path, {"a": np.zeros(rows), "b": np.full(rows, "same text")})
    with pytest.raises(FileError, match=TOLD):
        read_table(path)
    assert len(read_table(path, max_expanded=100).data["a"]) == rows


def test_a_bomb_is_not_expanded(tmp_path):
    """32 KB, which would be gigabytes: no more than the bound is ever made of it."""
    pressed = pa.compress(bytes(2**26), codec="zstd", asbytes=True) * 40
    path = tmp_path / "bomb.csv.zst"
    path.write_bytes(pressed)
    made = storage.codec_of("bomb", "zstd").decompress(pressed, 2**20)
    assert 2**20 < len(made) < 2**25
    with pytest.raises(FileError, match="it expands to more than 256 MB"):
        read_table(path)
    twice = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert storage.codec_of("members", "gzip").decompress(twice, 100) == b"a,b\n1,2\n3,4\n"


def test_a_parquet_file_of_very_many_equal_rows_is_refused_by_its_header(tmp_path):
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0] * 10**6, pa.int8()), ["x"])] * 3)
    out = io.BytesIO()
    parquet.write_table(pa.table({"a": column}), out)
    (tmp_path / "t.parquet").write_bytes(out.getvalue())
    with pytest.raises(FileError, match=TOLD):
        read_table(tmp_path / "t.parquet", max_expanded=1)


def test_equal_numbers_of_a_parquet_file_have_the_width_of_their_type(tmp_path):
    parquet.write_table(pa.table({"a": np.zeros(2 * 10**5), "b": [True] * 2 * 10**5}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10**4
    with pytest.raises(FileError, match=TOLD):
        read_table(tmp_path / "t.parquet", max_expanded=1)
    assert len(read_table(tmp_path / "t.parquet", max_expanded=2).data["a"]) == 2 * 10**5


def test_names_cannot_colour_the_screen(tmp_path):
    names, rng = "age\x1b[31m,b\x9b2J\n", np.random.default_rng(0)
    (tmp_path / "t.csv").write_text(f"{names}1,2\n3,\n4,1\n")
    (tmp_path / "long.csv").write_text(names + "".join(f"{a:.2f},{b:.2f}\n" for a, b in rng.normal(size=(40, 2))))
    for arguments in (
        ["inspect", "t.csv"],
        ["inspect", "t.csv", "--exclude", "no\x1b]0;title\x07"],
        ["mechanism", "t.csv"],
        ["evaluate", "long.csv", "--effort", "fast", "--steps", "2", "--repeats", "1", "--compare", "mean/mode", "-q"],
    ):
        done = CliRunner().invoke(app, [arguments[0], str(tmp_path / arguments[1]), *arguments[2:]])
        assert not set("\x1b\x9b\x07") & set(done.output), done.output
    assert "\\x1b[31m" in CliRunner().invoke(app, ["inspect", str(tmp_path / "t.csv")]).output


def test_archives_and_names_that_nobody_can_read_are_one_line(tmp_path):
    write_table(tmp_path / "t.xlsx", {"a": np.arange(3.0), "b": np.arange(3.0)})
    content = bytearray((tmp_path / "t.xlsx").read_bytes())
    content[content.rindex(b"PK\x01\x02") + 6] = 84  # the version that is needed to read a part of it
    (tmp_path / "t.xlsx").write_bytes(content)
    with pytest.raises(FileError, match="not an Excel workbook, or it is damaged"):
        read_table(tmp_path / "t.xlsx")
    write_table(tmp_path / "t.feather", {"name": np.arange(3.0)})
    content = (tmp_path / "t.feather").read_bytes().replace(b"name", b"\xe8ame")
    (tmp_path / "t.feather").write_bytes(content)
    with pytest.raises(FileError, match="not a Feather file, or it is damaged"):
        read_table(tmp_path / "t.feather")
