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
    again = b"".join(blocks.part(block, found, found.data) for block, found in blocks.read(blocks.blocks))
    assert again == path.read_bytes()


def test_many_files_are_one_table_in_the_order_of_their_names(tmp_path):
    for i, town in enumerate(["rome", "bad%20ems"]):
        folder = tmp_path / f"town={town}" / f"year={2020 + i}"
        folder.mkdir(parents=True)
        pq.write_table(table(100, i), folder / "x.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    blocks = ArrowBlocks(*input_files(tmp_path), 100)
    first = next(blocks.batches())
    assert [file.name for file in blocks.files] == [
        "town=bad%20ems/year=2021/x.parquet",
        "town=rome/year=2020/x.parquet",
    ]
    assert blocks.columns == ["a", "b", "town", "year"]
    assert (first["town"][0].as_py(), first["year"][0].as_py()) == ("bad ems", 2021)
    assert blocks.blocks[-1].first_row + blocks.blocks[-1].rows == 200
    assert is_many(tmp_path / "*" / "*" / "x.parquet")
    assert [f.name for f in input_files(str(tmp_path / "*" / "*" / "x.parquet"))[0]] == [f.name for f in blocks.files]


def test_files_that_do_not_fit_together_are_named(tmp_path):
    whole = table(50)
    pq.write_table(whole, tmp_path / "a.parquet")
    for bad, why in {
        "missing": whole.drop_columns(["b"]),
        "is double": whole.set_column(0, "a", pa.array(map(str, range(50)))),
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


def in_one(folder, filled=None) -> bytes:
    """The files of a folder in one, as a job writes it."""
    blocks = TextBlocks(*input_files(folder), NA, piece=20)
    blocks.check_format("one.csv", blocks.format, whole=True)
    return b"".join(blocks.part(b, t, filled or t.data, whole=True) for b, t in blocks.read(blocks.blocks))


OTHER_FILES = {
    "header": b"x,y\n3,b\n",
    "no newline": b"x,y\n3,b",
    "line ends": b"x,y\r\n3,b\r\n",
    "old Mac": b"x,y\r3,b\r",
    "mark": b"\xef\xbb\xbfx,y\n3,b\n",
    "separator": b"sep=,\r\n\r\nx,y\r\n3,b\r\n",
    "quoted header": b'"x","y"\n3,b\n',
}


@pytest.mark.parametrize("first", [b"x,y\n1,a\n2,a\n", b"x,y\n1,a\n2,a", b"\xef\xbb\xbfx,y\r\n1,a\r\n2,a\r\n"])
@pytest.mark.parametrize("name", OTHER_FILES)
def test_many_text_files_become_one_with_one_header_and_one_line_end(tmp_path, first, name):
    (tmp_path / "a.csv").write_bytes(first)
    (tmp_path / "b.csv").write_bytes(OTHER_FILES[name])
    (tmp_path / "c.csv").write_bytes(b"x,y\n4,c")
    end = b"\r\n" if b"\r\n" in first else b"\n"
    assert in_one(tmp_path) == first.rstrip() + end + b"3,b" + end + b"4,c"


def test_letters_of_other_files_are_written_as_those_of_the_first_or_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("town,n\nKöln,1\n".encode())
    (tmp_path / "b.csv").write_bytes("town,n\nZürich,2\n".encode("cp1252"))
    assert in_one(tmp_path).decode("utf-8") == "town,n\nKöln,1\nZürich,2\n"
    (tmp_path / "a.csv").write_bytes("town,n\nKöln,1\n".encode("cp1252"))
    (tmp_path / "b.csv").write_bytes("town,n\nZürich,2\n".encode())
    assert in_one(tmp_path).decode("cp1252") == "town,n\nKöln,1\nZürich,2\n"
    (tmp_path / "b.csv").write_bytes("town,n\nŁódź,2\n".encode())
    with pytest.raises(FileError, match=r"b.csv: 'Ł' cannot be written in cp1252, as .*a.csv is; convert"):
        in_one(tmp_path)


@pytest.mark.parametrize("delimiter", [",", " "])
def test_what_folders_say_is_in_the_one_text_file(tmp_path, delimiter):
    for town, text in {
        "town=Bad Ems, Lahn": "x,y\n1,a\n2,",
        "town=__HIVE_DEFAULT_PARTITION__": "x,y\r\n3,b\r\n",
    }.items():
        (tmp_path / town).mkdir()
        (tmp_path / town / "t.txt").write_bytes(text.replace("2,", "2,NA").replace(",", delimiter).encode())
    (tmp_path / "one.txt").write_bytes(in_one(tmp_path))
    found = read_table(tmp_path / "one.txt").data
    assert list(found) == ["x", "y", "town"]
    assert found["x"].tolist() == [1, 2, 3]
    assert found["y"].tolist() == ["a", None, "b"]
    assert sorted(map(str, found["town"].tolist())) == ["Bad Ems, Lahn", "Bad Ems, Lahn", "None"]
    (tmp_path / "one.txt").unlink()
    (tmp_path / "town=Bad Ems, Lahn" / "t.txt").write_text("x,town\n1,a\n")
    (tmp_path / "town=__HIVE_DEFAULT_PARTITION__" / "t.txt").write_text("x,town\n1,a\n")
    with pytest.raises(FileError, match=r"t.txt: column 'town' is in the file and in the name of its folder"):
        in_one(tmp_path)


ALIKE = {  # values of two files, and the type of both
    "null first": (pa.nulls(3), pa.array([1.5, None, 2.0]), pa.float64()),
    "null last": (pa.array(["x", None, "y"]).dictionary_encode(), pa.nulls(3), pa.dictionary(pa.int32(), pa.string())),
    "large": (pa.array(["x", None, "y"]), pa.array(["z"] * 3, pa.large_string()), pa.large_string()),
    "dictionary": (pa.array(["x", None, "y"]).dictionary_encode(), pa.array(["z", "x", None]), pa.string()),
    "both": (pa.array(["x"] * 3).dictionary_encode(), pa.array(["z"] * 3, pa.large_string()), pa.large_string()),
    "whole": (pa.array([1, None, 3]), pa.array([1.5, 2.0, None]), pa.float64()),
    "bytes": (pa.array([1, 2, None], pa.int8()), pa.array([300, 2, 1], pa.int64()), pa.int64()),
    "units": (pa.array([1, 2, 3], pa.timestamp("s")), pa.array([1, 2, 3], pa.timestamp("ns")), pa.timestamp("ns")),
}


@pytest.mark.parametrize("extension", ["parquet", "feather"])
@pytest.mark.parametrize("name", ALIKE)
def test_types_that_hold_the_same_values_are_one(tmp_path, name, extension):
    *columns, kind = ALIKE[name]
    for file, column in zip("ab", columns, strict=True):
        write_table(tmp_path / f"{file}.{extension}", pa.table({"c": column, "i": [1, 2, 3]}))
    blocks = ArrowBlocks(*input_files(tmp_path))
    parts = []
    for block, found in blocks.read(blocks.blocks):
        parts.append(tmp_path / f"{block.number}.part")
        parts[-1].write_bytes(blocks.part(block, found, found.data, whole=True))
    one = tmp_path / f"one.{extension}"
    blocks.join(parts, one, blocks.format, whole=True)
    found = read_table(one).data["c"]
    assert found.type == kind
    assert found.to_pylist() == [value for column in columns for value in column.cast(kind).to_pylist()]


def test_types_that_hold_other_values_are_refused(tmp_path):
    ordered = pa.array(["x"]).dictionary_encode().cast(pa.dictionary(pa.int32(), pa.string(), ordered=True))
    first = {"c": pa.array([1]), "d": pa.array(["x"]), "e": pa.array([1.5])}
    pq.write_table(pa.table(first), tmp_path / "a.parquet")
    for name, column in {"c": pa.array(["1"]), "d": ordered, "e": pa.array([1]).cast(pa.decimal128(21, 2))}.items():
        pq.write_table(pa.table({**first, name: column}), tmp_path / "b.parquet")
        with pytest.raises(
            FileError, match=rf"b.parquet: column '{name}' is .*, and .* in files before it; convert it"
        ):
            ArrowBlocks(*input_files(tmp_path))
    pq.write_table(pa.table({**first, "e": pa.array([2**53 + 1])}), tmp_path / "b.parquet")
    with pytest.raises(FileError, match=r"b.parquet: column 'e' cannot be double, as in other files \(.*; convert it"):
        list(ArrowBlocks(*input_files(tmp_path)).batches())


def test_a_feather_file_has_the_levels_of_all_parts(tmp_path):
    levels = [[f"{i}-{j}" for j in range(100)] for i in range(2)]
    small = pa.dictionary(pa.int8(), pa.string())
    for name, some in zip("ab", levels, strict=True):
        pq.write_table(pa.table({"c": pa.array([*some, None]).cast(small)}), tmp_path / f"{name}.parquet")
    blocks = ArrowBlocks(*input_files(tmp_path))
    parts = [tmp_path / f"{b.number}.part" for b in blocks.blocks]
    for part, (block, found) in zip(parts, blocks.read(blocks.blocks), strict=True):
        part.write_bytes(blocks.part(block, found, found.data, whole=True))
    blocks.join(parts, tmp_path / "one.feather", blocks.format._replace(name="feather"), whole=True)
    assert read_table(tmp_path / "one.feather").data["c"].to_pylist() == [*levels[0], None, *levels[1], None]
