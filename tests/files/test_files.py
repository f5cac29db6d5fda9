"""Files come back as they were but for the filled cells, a bad one is named in one line, none is left half-written."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsae import files
from vsae.files import FileError, check_target, read_table, write_table
from vsae.files.dialect import Dialect
from vsae.files.notations import IsoDate, IsoMoment, Text
from vsae.files.storage import codec_of
from vsae.table.cells import is_null, objects

WHOLE_FILES = {
    "plain.csv": b"a,b\n1,x\n2,y\n",
    "tabs.tsv": b"a\tb\n1\tx\n2\ty\n",
    "bars.txt": b"a|b\n1|x\n2|y\n",
    "quotes.csv": b'"a","b, c"\n"1","x, ""y""\nz"\n2,plain "quote\n',
    "after_quotes.csv": b'a,b\r\n"1" ,"x"\r\n2,"y" ',
    "old_mac_quotes.csv": b'a,b\r"1","x"\r\r2,"y\r"\r',
    "crlf.csv": b"a,b\r\n1,x\r\n2,y\r\n",
    "mixed_ends.csv": b"a,b\r\n1,x\n2,y\r\n",
    "old_mac.csv": b"a,b\r1,x\r2,y",
    "bom.csv": "\ufeffname,b\n1,é\n".encode(),
    "no_last_newline.csv": b"a,b\n1,x\n2,y",
    "decimal_comma.csv": b"a;b\n1,50;x\n-2,25;y\n",
    "latin.csv": "a,b\n1,Zürich\n".encode("latin-1"),
    "undefined_in_cp1252.csv": b"a,b\n1,\x81\n",
    "utf16.csv": "\ufeffa\tb\n1\tü\n".encode("utf-16-le"),
    "blank_lines.csv": b"\n\na,b\n1,x\n\n2,y\n  \n",
    "one_column.csv": b"a\n1\n\n3\n",
    "spaces.csv": b"a, b\n1, x\n 2,y \n",
    "odd_numbers.csv": b"a,b,c\n1.50,+3,1e5\n-0.0,-0,2E-3\n",
    "header_only.csv": b"a,b\n",
    "rows.jsonl": b'{"a": 1.50, "b": "x\\u00e9"}\n\n{"b":null , "a":2}',
    "crlf.ndjson": b'{"a": 1}\r\n{"a": null}\r\n',
}


def put(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_text(folder: Path, text: str, name: str = "t.csv", **options) -> files.FileTable:
    return read_table(put(folder, name, text), **options)


def only_column(folder: Path, *cells: str, name: str = "t.csv", **options) -> np.ndarray:
    return read_text(folder, "\n".join(["x", *cells]) + "\n", name, **options).data["x"]


def fill(table: files.FileTable, **columns) -> dict[str, np.ndarray]:
    """The table's data with the missing cells of the named columns filled, in order."""
    filled = dict(table.data)
    for name, values in columns.items():
        column = filled[name].copy()
        column[[is_null(value) for value in column]] = values
        filled[name] = column
    return filled


# ---- what is whole comes back byte by byte -------------------------------------------------------


@pytest.mark.parametrize("name", WHOLE_FILES)
@pytest.mark.filterwarnings("error")
def test_an_unchanged_table_is_written_back_byte_by_byte(tmp_path, name):
    path = put(tmp_path, name, WHOLE_FILES[name])
    table = read_table(path)
    table.write(tmp_path / f"copy_{name}", table.data)
    assert (tmp_path / f"copy_{name}").read_bytes() == WHOLE_FILES[name]


@pytest.mark.parametrize("ending", ["csv.gz", "tsv.gz", "jsonl.gz", "csv.zst", "CSV.GZ"])
def test_compressed_files_keep_their_content(tmp_path, ending):
    if "zst" in ending:
        pytest.importorskip("pyarrow")
    content = b'{"a": 1}\n' if "json" in ending else b'a\tb\n1\t"x"\n'
    compression = "zstd" if "zst" in ending else "gzip"
    path = put(tmp_path, f"t.{ending}", codec_of("", compression).compress(content))
    table = read_table(path)
    table.write(path, table.data)
    assert codec_of("", compression).decompress(path.read_bytes(), 1000) == content
    if compression == "gzip":
        assert gzip.decompress(path.read_bytes()) == content


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=6)
cells = st.one_of(texts, st.sampled_from(["", "NA", "1", "2.50", "a,b", 'q"q', "x\ny", "\r\n", "; ", "007"]))


@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[cells] * width), max_size=6)),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    newline=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    last=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_what_csv_writes_is_read_alike_and_comes_back_byte_by_byte(
    tmp_path_factory, rows, quoting, newline, delimiter, last
):
    folder = tmp_path_factory.getbasetemp()
    width = len(rows[0]) if rows else 2
    if newline == "\n":  # csv before Python 3.13 leaves a lone \r bare, which then ends a line
        rows = [tuple(cell.replace("\r", "") for cell in row) for row in rows]
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator=newline, delimiter=delimiter)
    writer.writerow([f"column {number}" for number in range(width)])
    writer.writerows(rows)
    text = out.getvalue() if last else out.getvalue().removesuffix(newline)
    path = put(folder, "generated.csv", text)

    table = read_table(path, delimiter=delimiter, encoding="utf-8", na=[""])
    table.write(path, table.data)

    assert path.read_bytes() == text.encode()
    for number, column in enumerate(table.data.values()):
        assert len(column) == len(rows)
        if column.dtype == object and not set(map(type, column)) - {str, type(None)}:
            expected = [row[number] if row[number].strip() else None for row in rows]
            assert column.tolist() == expected


def test_long_and_wide_tables_are_read(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{a:.4f},{b},{c}" for a, b, c in zip(rng.normal(size=30_000), range(30_000), "xyz" * 10_000, strict=True)]
    table = read_text(tmp_path, "a,b,c\n" + "\n".join(lines) + "\n")
    assert table.data["a"].dtype == float
    assert table.data["b"].tolist() == list(range(30_000))
    assert table.data["c"][:4].tolist() == ["x", "y", "z", "x"]
    wide = read_text(tmp_path, ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join(["1"] * 5000) + "\n")
    assert len(wide.data) == 5000


# ---- what a column is taken for ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "-2", "+3"], np.array([1, -2, 3])),
        (["1", "", "3"], np.array([1.0, np.nan, 3.0])),
        (["9007199254740993", "2"], np.array([9007199254740993, 2])),
        (["9007199254740993", "NA"], ["9007199254740993", None]),
        (["99999999999999999999", "2"], ["99999999999999999999", "2"]),
        (["9" * 5000, "2"], ["9" * 5000, "2"]),
        (["0012", "3400"], ["0012", "3400"]),
        (["01.5", "2"], ["01.5", "2"]),
        (["1", "2.5", ".5", "3.", "1e-3", "-inf"], np.array([1, 2.5, 0.5, 3, 1e-3, -np.inf])),
        (["1_000", "2"], ["1_000", "2"]),
        (["١", "٢"], ["١", "٢"]),
        ([" 1", "2 "], np.array([1, 2])),
        (["TRUE", "false", "?"], [True, False, None]),
        (["2020-02-29", "NA"], np.array(["2020-02-29", "NaT"], dtype="datetime64[D]")),
        (["2021-02-29", "2020-01-01"], ["2021-02-29", "2020-01-01"]),
        (["1850-01-01 10:00", "NA"], np.array(["1850-01-01T10:00", "NaT"], dtype="datetime64[s]")),
        (
            ["2020-01-01T10:00:00.25Z", "2020-01-01T10:00:01Z"],
            np.array(["2020-01-01T10:00:00.25", "2020-01-01T10:00:01"], dtype="datetime64[us]"),
        ),
        (
            ["2020-01-01T10:00Z", "2020-01-01T10:00+02:00"],
            np.array(["2020-01-01T10:00", "2020-01-01T08:00"], dtype="datetime64[s]"),
        ),
        (["2020-01-01T10:00Z", "2020-01-01T10:00"], ["2020-01-01T10:00Z", "2020-01-01T10:00"]),
        (["2020-01-01", "2020-01-01 10:00"], ["2020-01-01", "2020-01-01 10:00"]),
        (["a", " b", "null", '"c, d"', '5" pipe'], ["a", " b", None, "c, d", '5" pipe']),
        (["yes", "no"], ["yes", "no"]),
        (["NA", "?"], np.array([np.nan, np.nan])),
        (['"1"', '"2.5"', '""'], np.array([1, 2.5, np.nan])),
        (["nan", "NaN", "1.5"], np.array([np.nan, np.nan, 1.5])),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_column_is_taken_for_the_first_kind_that_fits_all_its_cells(tmp_path, cells, expected):
    column = only_column(tmp_path, *cells)
    expected = expected if isinstance(expected, np.ndarray) else np.array(expected, dtype=object)
    assert column.dtype == expected.dtype
    np.testing.assert_array_equal(column, expected)


def test_repeated_cells_are_read_like_different_ones(tmp_path):
    cells = ["2", "", "5", "2"] * 3000
    np.testing.assert_array_equal(only_column(tmp_path, *cells), np.array([2, np.nan, 5, 2] * 3000))


def test_missing_codes_are_the_users_choice_and_the_empty_cell_is_always_one(tmp_path):
    assert only_column(tmp_path, "None", ".", "-99", "", na=["-99"]).tolist() == ["None", ".", None, None]


def test_decimal_commas_are_numbers_beside_semicolons_and_tabs_only(tmp_path):
    assert read_text(tmp_path, "a;b\n1,5;x\n2;y\n").data["a"].tolist() == [1.5, 2.0]
    assert read_text(tmp_path, "a\tb\n1,5\tx\n", "t.tsv").data["a"].tolist() == [1.5]
    thousands = read_text(tmp_path, "a\tb\n1,500\tx\n", "t.tsv")
    assert thousands.data["a"].tolist() == [1500.0]
    assert "'1,500' was read as 1500" in thousands.notes[0]
    assert read_text(tmp_path, 'a,b\n"1,5",x\n').data["a"].tolist() == ["1,5"]
    assert read_text(tmp_path, "a;b\n1,5;x\n2.5;y\n").data["a"].tolist() == ["1,5", "2.5"]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1,5\t2;5\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ('a;b\n"1,2,3";"4,5"\n', ";"),
        ("a,b\n1;2,3\n4,5\n6,7;8\n", ","),
        ("only\n1\n", ","),
        ('"a;b","c;d"\n1,2\n', ","),
        ("a,b,c;d\n1,2,3;4\n1,2,3\n", ","),
    ],
)
def test_the_delimiter_is_found_out(text, delimiter):
    assert Dialect.of("t.csv", text, "csv", None).delimiter == delimiter


def test_the_delimiter_can_be_given(tmp_path):
    assert list(read_text(tmp_path, "a b\n1 2\n", delimiter=" ").data) == ["a", "b"]
    assert list(read_text(tmp_path, "a,b\tc\n1,2\t3\n", delimiter="\\t").data) == ["a,b", "c"]
    with pytest.raises(FileError, match="one character"):
        read_text(tmp_path, "a\n", delimiter="::")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("5.1,3.5,setosa\n4.9,3.0,virginica\n", ["c1", "c2", "c3"]),
        ("39,State,77516\n50,Self,83311\n", ["c1", "c2", "c3"]),
        ("2024-01-01,a\n2024-01-02,b\n", ["c1", "c2"]),
        ("country,2019,2020\nAT,1.5,2.5\n", ["country", "2019", "2020"]),
        ("0,1,2\n1.5,2.5,x\n", ["0", "1", "2"]),
        (",count,mean,25%\na,3,1.5,1.1\n", ["Unnamed: 0", "count", "mean", "25%"]),
        ("name,town\nAda,London\n", ["name", "town"]),
    ],
)
def test_whether_there_is_a_header_is_found_out_and_can_be_said(tmp_path, text, names):
    table = read_text(tmp_path, text)
    assert list(table.data) == names
    assert ("taken for a row" in " ".join(table.notes)) == (names[0] == "c1")
    assert next(iter(read_text(tmp_path, text, header=False).data)) == "c1"
    if names[0] == "c1":
        assert list(read_text(tmp_path, text, header=True).data) == text.splitlines()[0].split(",")


def test_encodings_are_found_out_reported_and_given(tmp_path):
    assert read_text(tmp_path, "é,b\n1,2\n").encoding == "utf-8"
    old = read_table(put(tmp_path, "old.csv", "é\n€\n".encode("cp1252")))
    assert (old.encoding, old.data["é"].tolist()) == ("cp1252", ["€"])
    assert "cp1252" in old.notes[0]
    assert read_table(put(tmp_path, "u.csv", "\ufeffé,b\n1,2\n".encode())).notes == ()
    koi = read_table(put(tmp_path, "koi.csv", "ж\nд\n".encode("koi8-r")), encoding="koi8-r")
    assert koi.data["ж"].tolist() == ["д"]
    wide = read_table(put(tmp_path, "utf16.csv", "é,b\n1,2\n".encode("utf-16")), encoding="utf-16")
    assert list(wide.data) == ["é", "b"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", None])
def test_a_byte_order_mark_is_kept_and_none_is_added(tmp_path, mark, encoding):
    path = put(tmp_path, "t.csv", f"{mark}a,b\n1,2\n")
    table = read_table(path, encoding=encoding)
    assert list(table.data) == ["a", "b"]
    table.write(tmp_path / "out.csv", table.data)
    assert (tmp_path / "out.csv").read_bytes() == path.read_bytes()


# ---- only the filled cells change ----------------------------------------------------------------


def test_only_the_missing_cells_of_a_file_change(tmp_path):
    path = put(
        tmp_path, "t.csv", '\ufeffn,x,"when",ok,who\r\n1,2.50,2020-01-01,TRUE,"A, B"\r\nNA,?, ,,\r\n3,+.5,,FALSE,C\r\n'
    )
    table = read_table(path)
    filled = fill(table, n=2.0, x=-7.12345, when=np.datetime64("2021-05-06"), ok=True, who='say "hi"')
    table.write(path, filled)
    assert path.read_bytes().decode() == (
        '\ufeffn,x,"when",ok,who\r\n1,2.50,2020-01-01,TRUE,"A, B"\r\n'
        '2,-7.12, 2021-05-06,TRUE,"say ""hi"""\r\n3,+.5,2021-05-06,FALSE,C\r\n'
    )


@pytest.mark.parametrize(
    ("cells", "value", "text"),
    [
        (["1", "20"], 3.7, "4"),
        (["1.25", "20.5"], 3.0, "3.00"),
        (["1e5", "2"], 123456789.0, "1.23457e+08"),
        (["0.5"], -0.01, "0.0"),
        (["true"], False, "false"),
        (["True"], False, "False"),
        (["FALSE"], True, "TRUE"),
        (["2020-01-01"], np.datetime64("1999-12-31"), "1999-12-31"),
        (["2020-01-01 10:00"], np.datetime64("1999-12-31T23:59:58"), "1999-12-31 23:59"),
        (["2020-01-01T10:00:00Z"], np.datetime64("1999-12-31T23:59:58"), "1999-12-31T23:59:58Z"),
        (["2020-01-01T10:00:00.125"], np.datetime64("1999-12-31T23:59:58.5"), "1999-12-31T23:59:58.500"),
        (["2020-01-01T10:00:00.123456789"], np.datetime64("2020-01-01T10:00:00.5"), "2020-01-01T10:00:00.500000000"),
        (["007"], "008", "008"),
        (['"a"', '"b"'], "a", '"a"'),
        (['"1"', '"2"'], 2.0, '"2"'),
        (['"a"', "b"], "b", "b"),
        (["a"], "line\nbreak", '"line\nbreak"'),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.parametrize("missing", ["", "NA"])
def test_a_filled_cell_is_written_as_its_column_writes(tmp_path, cells, value, text, missing):
    before = [f"{cell},." for cell in ["x", *cells]]
    table = read_text(tmp_path, "\n".join([*before, f"{missing},."]))
    table.write(tmp_path / "out.csv", fill(table, x=value))
    assert (tmp_path / "out.csv").read_bytes().decode() == "\n".join([*before, f"{text},."])


def test_a_quoted_missing_cell_is_filled_in_quotes_and_a_comma_mark_is_kept(tmp_path):
    table = read_text(tmp_path, 'a;b;c\n1,25;x;1\n;"";2\n')
    table.write(tmp_path / "out.csv", fill(table, a=2.5, b="x"))
    assert (tmp_path / "out.csv").read_text() == 'a;b;c\n1,25;x;1\n2,50;"x";2\n'


def test_a_missing_cell_that_stays_and_a_blank_row_of_one_column(tmp_path):
    table = read_text(tmp_path, "x\n1\n\nNA\n")
    filled = {"x": np.array([1.0, 5.0, np.nan])}
    table.write(tmp_path / "out.csv", filled)
    assert (tmp_path / "out.csv").read_text() == "x\n1\n5\nNA\n"


def test_values_that_were_replaced_are_written_too(tmp_path):
    """`missing_values={"age": [999]}` lets the imputer fill cells that the file did not mark as missing."""
    table = read_text(tmp_path, "age,b\n31,x\n999,y\n")
    table.write(tmp_path / "out.csv", table.data | {"age": np.array([31, 40])})
    assert (tmp_path / "out.csv").read_text() == "age,b\n31,x\n40,y\n"


def test_an_all_missing_column_may_be_filled_with_anything(tmp_path):
    for values, text in [
        ([1.0, 2.5], "1.0,2.5"),
        (["u", "v"], "u,v"),
        (np.array(["2020-01-01", "2021-01-01"], "M8[D]"), "2020-01-01,2021-01-01"),
    ]:
        table = read_text(tmp_path, "a,b\n,1\n,2\n")
        table.write(tmp_path / "out.csv", table.data | {"a": np.array(values)})
        first, second = text.split(",")
        assert (tmp_path / "out.csv").read_text() == f"a,b\n{first},1\n{second},2\n"


def test_draws_of_one_table_are_written_one_after_the_other(tmp_path):
    table = read_text(tmp_path, "a,b\n1,x\n,y\n")
    for value in (3.0, 4.0):
        table.write(tmp_path / "out.csv", fill(table, a=value))
        assert (tmp_path / "out.csv").read_text() == f"a,b\n1,x\n{value:.0f},y\n"


def test_a_filled_table_must_have_the_columns_and_rows_that_were_read(tmp_path):
    table = read_text(tmp_path, "a,b\n1,x\n,y\n")
    with pytest.raises(FileError, match="column 'b' is not in the filled table"):
        table.write(tmp_path / "out.csv", {"a": np.ones(2)})
    with pytest.raises(FileError, match="column 'a' has 3 rows in the filled table, not 2"):
        table.write(tmp_path / "out.csv", {"a": np.ones(3), "b": np.ones(2)})


@pytest.mark.parametrize(("name", "column"), [("mushroom", "stalk-root"), ("heart_cleveland", "ca")])
def test_real_tables_change_in_their_missing_cells_only(tmp_path, name, column):
    if not os.environ.get("VSAE_DATA"):
        pytest.skip("VSAE_DATA is not set: the UCI tables are not here")
    path = Path(os.environ["VSAE_DATA"]) / f"{name}.csv.gz"
    table = read_table(path)
    before = gzip.decompress(path.read_bytes()).decode().splitlines()
    table.write(tmp_path / "same.csv", table.data)
    assert (tmp_path / "same.csv").read_text().splitlines() == before
    value = table.data[column][0]
    table.write(tmp_path / "out.csv", fill(table, **{column: value}))
    after = (tmp_path / "out.csv").read_text().splitlines()
    place = before[0].split(",").index(column)
    changed = 0
    for old, new in zip(before, after, strict=True):
        if old != new:
            cells = old.split(",")
            assert cells[place] == ""
            cells[place] = str(value)
            assert new == ",".join(cells)
            changed += 1
    assert changed == sum(is_null(cell) for cell in table.data[column]) > 0


# ---- JSON-lines ----------------------------------------------------------------------------------


def test_json_lines_are_typed_columns(tmp_path):
    rows = [
        {
            "n": 1,
            "x": 1.5,
            "ok": True,
            "s": "é",
            "d": "2020-01-01",
            "t": "2020-01-01T10:00:00Z",
            "l": [1],
            "big": 2**60,
        },
        {"n": None, "x": 2, "ok": None, "s": None, "d": None, "t": None, "l": [2], "late": "NA", "mix": 1},
        {"n": 3, "x": float("nan"), "ok": False, "s": "12", "mix": "one"},
    ]
    data = read_text(tmp_path, "\n".join(map(json.dumps, rows)), "t.jsonl").data
    assert list(data) == ["n", "x", "ok", "s", "d", "t", "l", "big", "late", "mix"]
    np.testing.assert_array_equal(data["n"], [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(data["x"], [1.5, 2.0, np.nan])
    assert data["ok"].tolist() == [True, None, False]
    assert data["s"].tolist() == ["é", None, "12"]
    assert data["d"].dtype == "datetime64[D]"
    assert data["t"].dtype == "datetime64[s]"
    assert data["l"].tolist() == [[1], [2], None]
    assert data["big"].tolist() == [2**60, None, None]
    assert data["late"].tolist() == [None, "NA", None]  # a string of JSON is one, not a code for missing
    assert data["mix"].tolist() == [None, 1, "one"]
    assert read_text(tmp_path, '{"a": "-"}\n{"a": "x"}', "t.jsonl", na=["-"]).data["a"].tolist() == [None, "x"]
    assert read_text(tmp_path, '{"a": 5}\n{"a": 7}', "t.jsonl").data["a"].dtype == np.int64


def test_only_the_missing_cells_of_json_lines_change(tmp_path):
    text = (
        '{"n":1,"x":1.50,"s":"a\\u00e9","d":"2020-01-01","l":[ 1 ]}\n'
        '{"n":null,"x": null,"s":null , "l":[1, {"n": null}]}\n'
        "\n"
        '{ "d": "2021-01-01" }\n'
        "{}\n"
    )
    table = read_text(tmp_path, text, "t.jsonl")
    filled = fill(table, n=2.0, x=3.14159, s="ü", d=np.datetime64("2022-03-04"))
    table.write(tmp_path / "out.jsonl", filled)
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"n":1,"x":1.50,"s":"a\\u00e9","d":"2020-01-01","l":[ 1 ]}\n'
        '{"n":2,"x": 3.1,"s":"\\u00fc" , "l":[1, {"n": null}],"d":"2022-03-04"}\n'
        "\n"
        '{ "d": "2021-01-01", "n": 2, "x": 3.1, "s": "\\u00fc" }\n'
        '{"n": 2, "x": 3.1, "s": "\\u00fc", "d": "2022-03-04"}\n'
    )


def test_letters_stay_letters_in_json_lines_that_have_some(tmp_path):
    table = read_text(tmp_path, '{"s": "é", "b": true}\n{"s": null, "b": null}\n', "t.jsonl")
    table.write(tmp_path / "out.jsonl", fill(table, s="ü", b=False))
    assert (tmp_path / "out.jsonl").read_text("utf-8") == '{"s": "é", "b": true}\n{"s": "ü", "b": false}\n'


@given(
    rows=st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", 'q"', "é"]),
            st.none() | st.booleans() | st.integers() | st.floats() | texts | st.lists(st.integers(), max_size=2),
        ),
        min_size=1,
    ),
    compact=st.booleans(),
    escape=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_any_json_lines_come_back_byte_by_byte_and_take_values(tmp_path_factory, rows, compact, escape):
    separators = (",", ":") if compact else None
    rows = [{"a": None}, *rows]
    lines = [json.dumps(row, separators=separators, ensure_ascii=escape) for row in rows]
    path = put(tmp_path_factory.getbasetemp(), "generated.jsonl", "\n".join(lines) + "\n")
    before = path.read_bytes()
    table = read_table(path, encoding="utf-8")
    table.write(path, table.data)
    assert path.read_bytes() == before

    filled = {name: column.astype(object) for name, column in table.data.items()}
    filled["a"][0] = 7
    table.write(path, filled)
    lines[0] = lines[0].replace("null", str(table.layout.notations["a"].write(np.array([7], dtype=object))[0]), 1)
    if not isinstance(table.layout.notations["a"], Text | IsoDate | IsoMoment):
        assert path.read_text("utf-8").split("\n") == [*lines, ""]


# ---- Parquet and Feather -------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "pq", "feather", "arrow", "parquet.gz", "feather.zst"])
def test_arrow_formats_keep_schema_and_metadata(tmp_path, ending):
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema(
        [
            pa.field("i", pa.int8(), metadata={"unit": "years"}),
            pa.field("c", pa.dictionary(pa.int8(), pa.string())),
            pa.field("t", pa.timestamp("ns", "Europe/Vienna")),
            pa.field("full", pa.float32(), nullable=False),
        ],
        metadata={"origin": "clinic"},
    )
    columns = [[1, None], ["a", None], [10**9, None], [0.5, 1.5]]
    arrow = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    write_table(tmp_path / f"t.{ending}", arrow)
    table = read_table(tmp_path / f"t.{ending}")
    assert table.data.schema.equals(arrow.schema, check_metadata="feather" in ending or "arrow" in ending)
    assert table.data.equals(arrow)
    filled = table.data.set_column(0, "i", pa.array([1, 2], pa.int8())).replace_schema_metadata(None)
    table.write(tmp_path / f"out.{ending}", filled)
    again = read_table(tmp_path / f"out.{ending}").data
    assert again["i"].to_pylist() == [1, 2]
    assert again.schema.metadata[b"origin"] == b"clinic"
    assert again.schema.field("i").metadata[b"unit"] == b"years"


def test_an_arrow_stream_is_read_too(tmp_path):
    pa = pytest.importorskip("pyarrow")
    arrow = pa.table({"a": [1, None]})
    with pa.ipc.new_stream(tmp_path / "t.arrow", arrow.schema) as stream:
        stream.write_table(arrow)
    assert read_table(tmp_path / "t.arrow").data.equals(arrow)


def test_damaged_arrow_files_and_twin_columns_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    for name in ("t.parquet", "t.feather"):
        with pytest.raises(FileError, match="damaged") as caught:
            read_table(put(tmp_path, name, b"PAR1 nonsense"))
        assert "\n" not in str(caught.value)
    write_table(tmp_path / "twins.feather", pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(FileError, match="more than one column is called 'a'; rename them"):
        read_table(tmp_path / "twins.feather")


BASE_INSTALL = """
import sys
for name in ("pandas", "polars", "pyarrow", "zstandard", "torch"):
    sys.modules[name] = None                       # as if it were not installed
import numpy as np
from vsae.files import FileError, read_table, write_table
folder = sys.argv[1]
write_table(f"{folder}/t.csv.gz", {"a": np.array([1.5, np.nan])})
table = read_table(f"{folder}/t.csv.gz")
table.write(f"{folder}/t.jsonl", {"a": np.array([1.5, 2.5])})
assert read_table(f"{folder}/t.jsonl").data["a"].tolist() == [1.5, 2.5]
for name in ("t.parquet", "t.csv.zst") if sys.version_info < (3, 14) else ("t.parquet",):
    try:
        write_table(f"{folder}/{name}", {"a": np.array([1.5])})
    except FileError as error:
        print(error)
"""


def test_a_base_install_reads_text_and_says_what_the_others_need(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", BASE_INSTALL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "t.parquet: Parquet and Feather files need pyarrow; pip install pyarrow" in run.stdout
    if sys.version_info < (3, 14):
        assert "t.csv.zst: zstd needs Python 3.14, zstandard or pyarrow; pip install zstandard" in run.stdout


# ---- from one format to another ------------------------------------------------------------------


def test_other_delimiters_keep_the_text_of_the_cells(tmp_path):
    table = read_text(tmp_path, 'a;b;"c"\r\n1,50;x\ty;"q"\r\n;"";007\r\n')
    filled = fill(table, a=2.0, b="z")
    table.write(tmp_path / "out.tsv", filled)
    assert (tmp_path / "out.tsv").read_bytes() == b'a\tb\t"c"\r\n1,50\t"x\ty"\t"q"\r\n2,00\t"z"\t007\r\n'
    table.write(tmp_path / "out.txt", filled)
    assert (tmp_path / "out.txt").read_bytes() == b'a;b;"c"\r\n1,50;x\ty;"q"\r\n2,00;"z";007\r\n'
    tabs = read_table(tmp_path / "out.tsv")
    tabs.write(tmp_path / "out.csv", tabs.data)
    assert (tmp_path / "out.csv").read_bytes() == b'a,b,"c"\r\n"1,50","x\ty","q"\r\n"2,00","z",007\r\n'


def test_tables_convert_between_all_formats(tmp_path):
    pytest.importorskip("pyarrow")
    content = "i,x,ok,s,d\n1,2.5,true,a,2020-01-01\n2,,false,,2021-01-01\n"
    first = read_text(tmp_path, content)
    first.write(tmp_path / "t.jsonl", first.data)
    source = first
    for name in ("t.parquet", "t.feather", "u.jsonl", "u.pq", "u.csv"):
        source.write(tmp_path / name, source.data)
        source = read_table(tmp_path / name)
    assert (tmp_path / "u.csv").read_text() == content
    assert (tmp_path / "u.jsonl").read_text() == (tmp_path / "t.jsonl").read_text()


def test_generated_tables_are_written_in_full(tmp_path):
    data = {
        "age": np.array([31.0, np.nan]),
        "x": np.array([0.1, 1 / 3], dtype=np.float32),
        "y": np.array([1e-300, 2.5]),
        "ok": np.array([True, None], dtype=object),
        "b": np.array([True, False]),
        "s": np.array(["a,b", ""], dtype=object),
        "t": np.array(["2020-01-01T10:00", "NaT"], dtype="datetime64[s]"),
        "n": objects([[1, "é"], None]),
        "u": np.array([2**64 - 1, 0], dtype=np.uint64),
    }
    write_table(tmp_path / "t.csv", data)
    assert (tmp_path / "t.csv").read_text("utf-8") == (
        'age,x,y,ok,b,s,t,n,u\n31,0.1,1e-300,true,true,"a,b",2020-01-01T10:00:00,"[1, ""é""]",18446744073709551615\n'
        ",0.33333334,2.5,,false,,,,0\n"
    )
    write_table(tmp_path / "t.jsonl", data)
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    assert rows[0]["n"] == [1, "é"]
    assert rows[1] == dict.fromkeys(data) | {"x": 0.33333334, "y": 2.5, "b": False, "s": "", "u": 0}
    write_table(tmp_path / "t.tsv", {"a": np.array([1, 2])}, delimiter=";", encoding="utf-16")
    assert (tmp_path / "t.tsv").read_bytes().decode("utf-16") == "a\n1\n2\n"
    write_table(tmp_path / "one.csv", {"a": np.array([1, np.nan])})
    assert len(read_table(tmp_path / "one.csv").data["a"]) == 2


def test_mixed_columns_do_not_fit_arrow(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(FileError, match="column 'm' does not fit Arrow"):
        write_table(tmp_path / "t.parquet", {"m": np.array([1, "a"], dtype=object)})


# ---- bad input stops in one line -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "the file is empty; it needs a header line and rows"),
        ("t.csv", b"\n \n", "the file is empty"),
        ("t.jsonl", b"\n", "the file is empty"),
        ("t.csv", b"a,b\n1,2\n3\n", "line 3: 1 field instead of 2"),
        ("t.csv", b'a,b\n"1\n1",2\n\n3,4,5\n', "line 5: 3 fields instead of 2"),
        ("t.csv", b"a,b,a\n1,2,3\n", "line 1: the header has 'a' more than once"),
        ("t.csv", b"\n,b,\n1,2,3\n", "no name in the header for column 3"),
        ("t.csv", b"a,,b\n1,2,3\n", "line 1: no name in the header for column 2"),
        ("t.csv", b'a,b\n1,2\n3,"4\n5,6\n', "line 3: the quote that opens a cell does not close at its end"),
        ("t.csv", b'a,b\n"1\n",2\n3,"4\n5,6\n', "line 4: the quote that opens a cell does not close at its end"),
        ("t.csv", b'a,b\n1,"2""\n5,6\n', "line 2: the quote that opens a cell does not close at its end"),
        ("t.csv", b'a,b\n1,"2\n3,"4"\n', "line 2: the quote that opens a cell does not close at its end"),
        ("t.csv", b"PAR1\x00\x01", "it is a Parquet file; pass --format parquet"),
        ("t.csv", b"PK\x03\x04..", "it is a spreadsheet or a zip archive; pass --format xlsx"),
        ("t.csv", gzip.compress(b"a\n1\n", mtime=0), "compressed with gzip; let its name end in .gz"),
        ("t.csv", b"a,b\n1,\x002\n", "this is not a text file, or one in utf-16"),
        ("t.csv.gz", b"a,b\n1,2\n", "not a gzip file, or it is damaged"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], "not a gzip file, or it is damaged"),
        ("t.jsonl", b'{"a": 1}\n{"a": \n', "line 2: this is not JSON"),
        ("t.jsonl", b'{"a": 1}\n[1]\n', "line 2: this is a list, not an object; write one object per line"),
        ("t.jsonl", b"{}\n", "the objects have no keys"),
        ("t.xls", b"", "unknown extension '.xls'; use .csv, .tsv, .txt"),
        ("t", b"", "the name has no extension; use .csv"),
        ("t.gz", b"", "the name has no extension; use .csv"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_that_names_it(tmp_path, name, content, message):
    path = put(tmp_path, name, content)
    with pytest.raises(FileError) as caught:
        read_table(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [3, 12, -1])
def test_a_damaged_zstd_file_is_refused(tmp_path, cut):
    pytest.importorskip("pyarrow")
    whole = codec_of("", "zstd").compress(b"a,b\n" + os.urandom(400).hex().encode() + b",2\n")
    with pytest.raises(FileError, match="damaged"):
        read_table(put(tmp_path, "t.csv.zst", whole[:cut]))


def test_the_other_errors_of_reading(tmp_path):
    with pytest.raises(FileError, match=r"none\.csv: no such file; check the path"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(FileError, match="none: no such file"):  # not that it has no extension
        read_table(tmp_path / "none")
    with pytest.raises(FileError, match="this is a folder"):
        read_table(tmp_path)
    path = put(tmp_path, "t.csv", b"a\n\xff\n")
    with pytest.raises(FileError, match="line 2: this is not utf-8; pass the right --encoding"):
        read_table(path, encoding="utf-8")
    with pytest.raises(FileError, match="unknown encoding 'klingon'"):
        read_table(path, encoding="klingon")
    with pytest.raises(FileError, match="unknown format 'xls'; use csv, tsv, txt, jsonl, parquet, feather, xlsx"):
        read_table(path, format="xls")


def test_a_format_may_be_given_instead_of_an_extension(tmp_path):
    path = put(tmp_path, "data.bin", gzip.compress(b'{"a": 1}\n'))
    assert read_table(path, format=".jsonl.gz").data["a"].tolist() == [1]


def test_a_letter_that_the_encoding_lacks_is_named(tmp_path):
    table = read_table(put(tmp_path, "t.csv", "a,b\né,1\n,2\n".encode("latin-1")))
    with pytest.raises(FileError, match="'ж' cannot be written in cp1252"):
        table.write(tmp_path / "out.csv", fill(table, a="ж"))


@pytest.mark.parametrize(
    ("name", "message"),
    [("out.xls", "unknown extension"), ("none/out.csv", "there is no folder"), ("", "is a folder")],
)
def test_a_target_that_cannot_be_written_is_known_beforehand(tmp_path, name, message):
    with pytest.raises(FileError, match=message):
        check_target(tmp_path / name, format=None if name else "csv")
    check_target(tmp_path / "out.csv")
    check_target("-")
    assert not any(tmp_path.iterdir())


# ---- pipes, and targets that stay whole ----------------------------------------------------------


def test_a_pipe_goes_in_and_out(monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\r\n1\tx\r\n\ty\r\n")))
    table = read_table("-")
    table.write("-", fill(table, a=5.0))
    assert capsysbinary.readouterr().out == b"a\tb\r\n1\tx\r\n5\ty\r\n"
    table.write("-", table.data, format="jsonl")
    assert capsysbinary.readouterr().out == b'{"a": 1, "b": "x"}\n{"a": null, "b": "y"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1\n")))
    with pytest.raises(FileError, match="stdin: line 2: 1 field instead of 2"):
        read_table("-")


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, failing, error):
    path = put(tmp_path, "t.csv", "a,b\n1,x\n,y\n")
    table = read_table(path)

    def fail(*_):
        raise error

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises((FileError, KeyboardInterrupt)) as caught:
        table.write(path, fill(table, a=5.0))
    assert path.read_text() == "a,b\n1,x\n,y\n"
    assert list(tmp_path.iterdir()) == [path]
    if isinstance(error, OSError):
        assert "could not be written: no space left on device" in str(caught.value)


def test_a_value_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = put(tmp_path, "t.csv", "a,b\n1,x\n,y\n")
    table = read_table(path)
    with pytest.raises(TypeError):
        table.write(path, table.data | {"a": np.array([1.0, object()], dtype=object)})
    assert path.read_text() == "a,b\n1,x\n,y\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_killed_write_leaves_the_old_file_whole(tmp_path):
    path = put(tmp_path, "t.csv", "old\n1\n")
    code = (
        "import os, signal, sys; from vsae import files\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_table(sys.argv[1], {'new': [2]})"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert run.returncode == -9
    assert path.read_text() == "old\n1\n"
    write_table(path, {"new": np.array([2])})
    assert path.read_text() == "new\n2\n"


def test_a_link_is_written_through_and_permissions_are_the_usual_ones(tmp_path):
    (tmp_path / "folder").mkdir()
    path = put(tmp_path / "folder", "real.csv", "a\n1\n")
    path.chmod(0o600)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    write_table(link, {"a": np.array([2])})
    assert link.is_symlink()
    assert path.read_text() == "a\n2\n"
    assert path.stat().st_mode & 0o777 == 0o600  # what was private stays so
    old = os.umask(0o022)
    try:
        write_table(tmp_path / "new.csv", {"a": np.array([2])})
    finally:
        os.umask(old)
    assert (tmp_path / "new.csv").stat().st_mode & 0o777 == 0o644


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_table(pipe, {"a": np.array([2])})
        assert os.read(end, 100) == b"a\n2\n"
    finally:
        os.close(end)
    assert pipe.is_fifo()


def test_a_device_needs_no_folder_that_may_be_written_to(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.csv")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(FileError, match="is not writable"):
        check_target(tmp_path / "file.csv")
    check_target(tmp_path / "pipe.csv")
