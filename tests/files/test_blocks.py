"""Blocks hold what the whole file holds, however they are cut; files that do not fit are named in one line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from vsae.files import DEFAULT_NA, FileError, read_table, write_table
from vsae.files.arrow_blocks import ArrowBlocks
from vsae.files.delimited import Asked
from vsae.files.sources import input_files, is_many
from vsae.files.text_blocks import TextBlocks
from vsae.table.cells import is_null

ROWS = 500
NA = Asked(na=frozenset(DEFAULT_NA) | {""})


def table(rows: int = ROWS, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    towns = pa.array(rng.choice(["x", "y"], rows).astype(object)).dictionary_encode()
    return pa.table({"a": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.2), "b": towns})


@pytest.mark.parametrize("groups", [7, 90, 200, ROWS])
@pytest.mark.parametrize("cells", [2, 60, 400, 10_000])
@pytest.mark.parametrize("extension", ["parquet", "feather"])
def test_blocks_of_any_size_are_the_table(tmp_path, groups, cells, extension):
    whole, path = table(), tmp_path / f"t.{extension}"
    if extension == "parquet":
        pq.write_table(whole, path, row_group_size=groups)
    else:
        pyarrow.feather.write_feather(whole, path, chunksize=groups, compression="uncompressed")
    blocks = ArrowBlocks(*input_files(path), cells)
    assert blocks.rows == ROWS
    assert [b.first_row for b in blocks.blocks] == np.cumsum([0, *(b.rows for b in blocks.blocks)])[:-1].tolist()
    assert max(b.rows for b in blocks.blocks) <= max(1, cells // 2)
    assert pa.concat_tables(list(blocks.batches()), promote_options="default").to_pylist() == whole.to_pylist()
    some = blocks.blocks[1::3]
    for block, found in blocks.read(some):
        assert found.data.to_pylist() == whole.slice(block.first_row, block.rows).to_pylist()


AWKWARD = {
    "semicolons.csv": ["id;x;day;word"] + [f"{i};{i // 4},25;{i % 28 + 1}/7/2024;w{i % 3}" for i in range(300)],
    "quotes.csv": ["a,b"] + [f'"line\n{i}","say ""{i}"""' if i % 3 else f"plain {i}," for i in range(300)],
    "late.csv": ["n,late,word"] + [f"{i},{'' if i < 200 else i},{'-' if i == 250 else i / 2}" for i in range(300)],
    "grows.csv": ["n,m"] + [f"{i},{i if i < 150 else f'{i}.125'}" for i in range(300)],
    "becomes text.csv": ["n"] + [str(i) if i < 290 else "many words" for i in range(300)],
    "order.csv": ["sure,may be"] + [f"{i % 28 + 1}/02/2024,0{i % 9 + 1}/02/2024" for i in range(300)],
    "no header.csv": [f"{i}.5,{i}.25" for i in range(300)],
    "bars.txt": ["a|b"] + [f"{i}|x" for i in range(300)],
    "western.csv": ["town,n"] + [f"{'Zürich' if i > 250 else 'Bonn'},{i}" for i in range(300)],
}  # fmt: skip


@pytest.mark.parametrize("piece", [60, 700, 2**22])
@pytest.mark.parametrize("name", AWKWARD)
def test_text_in_pieces_is_read_as_the_whole_file(tmp_path, name, piece):
    path = tmp_path / name
    encoding = "cp1252" if name == "western.csv" else "utf-8"
    path.write_bytes("\r\n".join([*AWKWARD[name], ""]).encode(encoding))
    whole, blocks = read_table(path), TextBlocks(*input_files(path), NA, piece=piece)
    assert blocks.notations == whole.notations
    assert blocks.quoted == whole.layout.quoted
    assert blocks.notes == whole.notes
    parts = list(blocks.batches())
    for column, values in whole.data.items():
        found = np.concatenate([part[column] for part in parts])
        assert found.dtype == values.dtype
        assert all(a == b or (is_null(a) and is_null(b)) for a, b in zip(found.tolist(), values.tolist(), strict=True))
    again = b"".join(blocks.part(found, found.data) for _, found in blocks.read(blocks.blocks))
    assert again == path.read_bytes()


def test_many_files_are_one_table_in_the_order_of_their_names(tmp_path):
    for i, town in enumerate(["rome", "bonn"]):
        folder = tmp_path / f"town={town}" / f"year={2020 + i}"
        folder.mkdir(parents=True)
        pq.write_table(table(100, i), folder / "x.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    blocks = ArrowBlocks(*input_files(tmp_path), 100)
    first = next(blocks.batches())
    assert [file.name for file in blocks.files] == ["town=bonn/year=2021/x.parquet", "town=rome/year=2020/x.parquet"]
    assert blocks.columns == ["a", "b", "town", "year"]
    assert (first["town"][0].as_py(), first["year"][0].as_py()) == ("bonn", 2021)
    assert blocks.blocks[-1].first_row + blocks.blocks[-1].rows == 200
    assert is_many(tmp_path / "*" / "*" / "x.parquet")
    assert [f.name for f in input_files(str(tmp_path / "*" / "*" / "x.parquet"))[0]] == [f.name for f in blocks.files]


def test_files_that_do_not_fit_together_are_named(tmp_path):
    whole = table(50)
    pq.write_table(whole, tmp_path / "a.parquet")
    for bad, why in {
        "missing": whole.drop_columns(["b"]),
        "is double": whole.set_column(0, "a", pa.array(range(50))),
        "is not in": whole.append_column("c", whole["a"]),
    }.items():
        pq.write_table(why, tmp_path / "z.parquet")
        with pytest.raises(FileError, match=f"z.parquet: column '[abc]' .*{bad.replace('is double', 'double')}"):
            ArrowBlocks(*input_files(tmp_path))
    (tmp_path / "z.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FileError, match=r"z.parquet: this is not a Parquet file"):
        ArrowBlocks(*input_files(tmp_path))
    write_table(tmp_path / "t.csv", {"a": np.arange(3)})
    with pytest.raises(FileError, match="keep them apart"):
        input_files(tmp_path)
    with pytest.raises(FileError, match="no file of a known format"):
        input_files(str(tmp_path / "*.nothing"))


def test_text_files_with_other_columns_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for text, why in {
        "x,z\n1,2\n": "'y' is missing",
        "y,x\n1,2\n": "another order",
        "x,y,z\n1,2,3\n": "'z' is not in",
    }.items():
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(FileError, match=f"b.csv: .*{why}"):
            TextBlocks(*input_files(tmp_path), NA)
    (tmp_path / "b.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(FileError, match=r"b.csv: line 3: 1 field instead of 2"):
        TextBlocks(*input_files(tmp_path), NA)


def test_what_cannot_be_read_in_blocks_says_so(tmp_path):
    (tmp_path / "a.csv").write_bytes("x,y\n1,2\n".encode("utf-16"))
    with pytest.raises(FileError, match=r"utf-16.* cannot be read in blocks"):
        TextBlocks(*input_files(tmp_path / "a.csv"), NA)
    (tmp_path / "a.csv.gz").write_bytes(b"")
    with pytest.raises(FileError, match="gzip around it cannot be read in blocks"):
        TextBlocks(*input_files(tmp_path / "a.csv.gz"), NA)
