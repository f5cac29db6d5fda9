"""The UCI tables: the parser on made files, the download from this machine, the real tables where present."""

from __future__ import annotations

import dataclasses
import gzip
import http.server
import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from vsae.data.schema import Kind
from vsae.datasets import TABLES, DataNotFound, DownloadError, UCITable, download, load_table, uci

HEART = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"
YEAST = "sequence_name,mcg,gvh,alm,mit,erl,pox,vac,nuc,class"


def write(folder: Path, file: str, *lines: str) -> Path:
    path = folder / file
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No $VSAE_DATA and an empty cache; returns the cache."""
    monkeypatch.delenv("VSAE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vsae"


class TestParser:
    def test_numbers_codes_and_missing_cells(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            "heart_cleveland.csv.gz",
            HEART,
            "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0",
            "67.0,1.0,4.0,160.0,,0.0,2.0,108.0,1.0,1.5,2.0,,3.0,2",
        )
        table = load_table("heart", tmp_path)
        assert table.name == "heart"
        assert table.schema.names == HEART.split(",")[:-1]  # the label is no attribute
        assert [v.name for v in table.schema.variables if v.kind is Kind.REAL] == [
            "age",
            "trestbps",
            "chol",
            "thalach",
            "oldpeak",
        ]
        assert {v.kind for v in table.schema.variables} == {Kind.REAL, Kind.CATEGORICAL}
        np.testing.assert_array_equal(table.columns["chol"], [233.0, np.nan])
        assert table.levels["thal"] == ("3.0", "6.0")
        assert table.columns["thal"].tolist() == [1, 0]
        assert table.columns["ca"].tolist() == [0, -1]
        assert table.columns["ca"].dtype == np.int64
        hidden = [(i, table.schema.names[j]) for i, j in zip(*np.nonzero(~table.mask), strict=True)]
        assert hidden == [(1, "chol"), (1, "ca")]

    def test_identifier_and_label_do_not_count_for_duplicates(self, tmp_path: Path) -> None:
        row = "0.58,0.61,0.47,0.13,0.50,0.00,0.48,0.22"
        write(
            tmp_path,
            "yeast.csv.gz",
            YEAST,
            f"A_YEAST,{row},MIT",
            f"B_YEAST,{row},NUC",
            f"C,1{row},MIT",
            f"D,{row},X",
        )
        table = load_table("yeast", tmp_path)
        assert table.duplicates.tolist() == [False, True, False, True]
        assert table.mask.shape == (4, 8)
        assert table.levels == {}

    def test_mushroom_reads_a_blank_as_a_category(self, tmp_path: Path) -> None:
        header = ",".join(uci._SOURCES["mushroom"].header)
        row = "p,x,s,n,t,p,f,c,n,k,e,{},s,s,w,w,p,w,o,p,k,s,u"
        write(tmp_path, "mushroom.csv.gz", header, row.format("e"), row.format(""), row.format(""))
        table = load_table("mushroom", tmp_path)
        assert table.mask.all()
        assert table.levels["stalk-root"] == ("?", "e")
        assert table.columns["stalk-root"].tolist() == [1, 0, 0]
        assert table.duplicates.tolist() == [False, False, True]

    def test_levels_that_are_numbers_are_ordered_as_numbers(self, tmp_path: Path) -> None:
        header = ",".join(uci._SOURCES["adult"].header)
        row = "39,{},77516,Bachelors,{},Single,Sales,Own-child,White,Male,0,0,40,,<=50K"
        write(tmp_path, "adult.csv.gz", header, *(row.format("", n) for n in (10, 9, 2)))
        table = load_table("adult", tmp_path)
        assert len(table.schema) == 15
        assert table.levels["education-num"] == ("2", "9", "10")
        assert table.schema.attributes[4].variables[0].kind is Kind.ORDINAL
        assert table.columns["education-num"].tolist() == [2, 1, 0]
        assert not table.mask[:, table.schema.names.index("workclass")].any()  # a column of missing cells is still read

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ((YEAST, "A,0.1,0.2"), "row 1 has 3 cells, the header 10"),
            ((YEAST, "A,x,1,1,1,1,1,1,1,MIT"), "row 1, column 'mcg': 'x' is not a number"),
            (("sequence_name,gvh", "A,1"), "no column 'mcg'"),
            ((YEAST,), "no rows"),
            ((), "no column 'mcg'"),
        ],
    )
    def test_a_bad_file_is_refused_by_name(self, tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
        path = write(tmp_path, "yeast.csv.gz", *lines)
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            load_table("yeast", tmp_path)
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize("damage", ["truncated", "plain", "corrupt"])
    def test_a_damaged_file_is_refused_by_name(self, tmp_path: Path, damage: str) -> None:
        path = write(tmp_path, "yeast.csv.gz", YEAST, *(f"A{i},1,1,1,1,1,1,1,{i},MIT" for i in range(500)))
        content = path.read_bytes()
        middle = len(content) // 2
        broken = {
            "truncated": content[:middle],
            "plain": b"a,b\n",
            "corrupt": content[:middle] + bytes(20) + content[middle + 20 :],
        }
        path.write_bytes(broken[damage])
        with pytest.raises(ValueError, match="not a gzipped CSV file") as caught:
            load_table("yeast", tmp_path)
        assert str(path) in str(caught.value)


class TestFinding:
    ROW = "A,1,1,1,1,1,1,1,{},MIT"

    def test_root_then_environment_then_cache(
        self, tmp_path: Path, no_data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root, shared = tmp_path / "root", tmp_path / "shared"
        for value, folder in enumerate((root, shared, no_data)):
            folder.mkdir(parents=True)
            write(folder, "yeast.csv.gz", YEAST, self.ROW.format(value))
        monkeypatch.setenv("VSAE_DATA", str(shared))
        assert load_table("yeast", root).columns["nuc"] == [0]
        assert load_table("yeast", str(root)).columns["nuc"] == [0]
        assert load_table("yeast").columns["nuc"] == [1]
        (shared / "yeast.csv.gz").unlink()  # what VSAE_DATA lacks, a download may have put into the cache
        assert load_table("yeast").columns["nuc"] == [2]

    def test_cache_is_under_home_without_xdg(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("VSAE_DATA", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        folder = tmp_path / ".cache" / "vsae"
        folder.mkdir(parents=True)
        write(folder, "yeast.csv.gz", YEAST, self.ROW.format(7))
        assert load_table("yeast").columns["nuc"] == [7]

    def test_absent_data_says_what_to_do_in_one_line(
        self, tmp_path: Path, no_data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VSAE_DATA", str(tmp_path / "shared"))
        with pytest.raises(DataNotFound) as caught:
            load_table("heart")
        message = str(caught.value)
        assert isinstance(caught.value, FileNotFoundError)
        assert "\n" not in message
        for part in ("heart_cleveland.csv.gz", str(tmp_path / "shared"), str(no_data), "set VSAE_DATA"):
            assert part in message
        assert "vsae.datasets.download('heart')" in message

    @pytest.mark.parametrize("call", [load_table, download])
    def test_unknown_name(self, call: object) -> None:
        assert callable(call)
        with pytest.raises(ValueError, match="unknown table 'iris'; choose one of phishing"):
            call("iris")


# one row of each public copy as UCI writes it, and the same row in our layout
PUBLIC = {
    "phishing": (
        ["@relation phishing\n@attribute a { -1,1 }\n\n@data\n" + ",".join(["-1"] * 31) + "\n\n"],
        [",".join(["-1"] * 31)],
    ),
    "mushroom": (
        ["p,x,s,n,t,p,f,c,n,k,e,?,s,s,w,w,p,w,o,p,k,s,u\n"],
        ["p,x,s,n,t,p,f,c,n,k,e,,s,s,w,w,p,w,o,p,k,s,u"],
    ),
    "yeast": (
        ["ADT1_YEAST  0.58  0.61  0.47  0.13  0.50  0.00  0.48  0.22  MIT\n"],
        ["ADT1_YEAST,0.58,0.61,0.47,0.13,0.50,0.00,0.48,0.22,MIT"],
    ),
    "whitewine": (
        ['"fixed acidity";"volatile acidity"\n7;0.27;0.36;20.7;0.045;45;170;1.001;3;0.45;8.8;6\n'],
        ["7,0.27,0.36,20.7,0.045,45,170,1.001,3,0.45,8.8,6"],
    ),
    "heart": (
        ["52.0,1.0,3.0,138.0,223.0,0.0,0.0,169.0,0.0,0.0,1.0,?,3.0,0\n"],
        ["52.0,1.0,3.0,138.0,223.0,0.0,0.0,169.0,0.0,0.0,1.0,,3.0,0"],
    ),
    "adult": (
        [
            "39, ?, 77516, Bachelors, 13, Single, Sales, Own-child, White, Male, 0, 0, 40, Cuba, <=50K\n\n",
            "|1x3 Cross validator\n25, State, 1, 11th, 7, Single, ?, Wife, Black, Male, 0, 0, 4, ?, >50K.\n",
        ],
        [
            "39,,77516,Bachelors,13,Single,Sales,Own-child,White,Male,0,0,40,Cuba,<=50K",
            "25,State,1,11th,7,Single,,Wife,Black,Male,0,0,4,,>50K",
        ],
    ),
    "german_credit": (
        ["A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1 \n"],
        ["A11,6,A34,A43,1169,A65,A75,4,A93,A101,4,A121,67,A143,A152,2,A173,1,A192,A201,1"],
    ),
    "concrete": (
        ["Cement,Blast Furnace Slag\n540.0,0.0,0.0,162.0,2.5,1040.0,676.0,28,79.99\n"],
        ["540.0,0.0,0.0,162.0,2.5,1040.0,676.0,28,79.99"],
    ),
}


def point_at(monkeypatch: pytest.MonkeyPatch, name: str, urls: list[str], rows: int) -> None:
    source = dataclasses.replace(uci._SOURCES[name], urls=tuple(urls), rows=rows)
    monkeypatch.setitem(uci._SOURCES, name, source)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address that serves it on this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


class TestDownload:
    @pytest.fixture(autouse=True)
    def _direct(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("no_proxy", "127.0.0.1")

    @pytest.mark.parametrize("name", TABLES)
    def test_public_copy_becomes_our_layout(
        self, name: str, tmp_path: Path, no_data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts, expected = PUBLIC[name]
        copies = [tmp_path / f"copy{i}" for i in range(len(texts))]
        for copy, text in zip(copies, texts, strict=True):
            copy.write_text(text)
        point_at(monkeypatch, name, [copy.as_uri() for copy in copies], rows=len(expected))
        path = download(name)
        assert path.parent == no_data
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        assert lines == [",".join(uci._SOURCES[name].header), *expected]
        assert len(load_table(name).mask) == len(expected)
        assert [p.name for p in no_data.iterdir()] == [path.name]  # nothing half-written beside it

    def test_over_http_into_a_chosen_folder(
        self, server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, address = server
        (folder / "yeast.data").write_text(PUBLIC["yeast"][0][0])
        point_at(monkeypatch, "yeast", [f"{address}/yeast.data"], rows=1)
        path = download("yeast", root=tmp_path / "mine")
        assert path == tmp_path / "mine" / "yeast.csv.gz"
        assert load_table("yeast", tmp_path / "mine").columns["mcg"] == [0.58]

    def test_missing_page(self, server: tuple[Path, str], no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        point_at(monkeypatch, "yeast", [f"{server[1]}/gone"], rows=1)
        with pytest.raises(DownloadError, match=r"cannot fetch .*/gone .*404"):
            download("yeast")

    def test_offline_is_one_clear_line(self, no_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as closed:
            port = closed.server_port  # nobody listens there once it is closed
        point_at(monkeypatch, "yeast", [f"http://127.0.0.1:{port}/yeast.data"], rows=1)
        with pytest.raises(DownloadError, match=f"cannot fetch http://127.0.0.1:{port}") as caught:
            download("yeast")
        assert "\n" not in str(caught.value)
        assert "yeast.csv.gz" in str(caught.value)
        assert caught.value.__suppress_context__
        assert not no_data.exists()

    def test_what_is_not_text_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "copy").write_bytes(b"\xff\xfe\x00")
        point_at(monkeypatch, "yeast", [(tmp_path / "copy").as_uri()], rows=2)
        with pytest.raises(DownloadError, match=r"is not UTF-8 text .*; nothing was kept"):
            download("yeast", root=tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["copy"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("A 1 1 1 1 1 1 1 1 MIT\n", "gave 1 rows, not 2"),
            ("<html>\nbusy\n", "row 1 of the public copy has 1 cells, not 10"),
            ("A 1 1 1 1 1 1 1 1 MIT\nB 1 1 1 x 1 1 1 1 MIT\n", "row 2, column 'mit': 'x' is not a number"),
        ],
    )
    def test_what_is_not_the_table_leaves_the_old_file_alone(
        self, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "copy").write_text(text)
        old = write(tmp_path, "yeast.csv.gz", YEAST)
        before = old.read_bytes()
        point_at(monkeypatch, "yeast", [(tmp_path / "copy").as_uri()], rows=2)
        with pytest.raises(DownloadError, match=re.escape(message)):
            download("yeast", root=tmp_path)
        assert old.read_bytes() == before
        assert sorted(p.name for p in tmp_path.iterdir()) == ["copy", "yeast.csv.gz"]

    def test_folder_that_cannot_be_made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "copy").write_text(PUBLIC["yeast"][0][0])
        point_at(monkeypatch, "yeast", [(tmp_path / "copy").as_uri()], rows=1)
        with pytest.raises(DownloadError, match="cannot write into"):
            download("yeast", root=tmp_path / "copy")


@pytest.fixture(scope="module")
def real_tables() -> dict[str, UCITable]:
    if not os.environ.get("VSAE_DATA"):
        pytest.skip("VSAE_DATA is not set: the UCI tables are not here")
    try:
        return {name: load_table(name) for name in TABLES}
    except DataNotFound as error:
        pytest.skip(str(error))


class TestRealTables:
    SHAPES = {  # noqa: RUF012
        "phishing": (11055, 30),
        "mushroom": (8124, 22),
        "yeast": (1484, 8),
        "whitewine": (4898, 11),
        "heart": (303, 13),
        "adult": (48842, 15),
        "german_credit": (1000, 21),
        "concrete": (1030, 9),
    }
    KINDS = {  # noqa: RUF012  numeric, categorical, ordinal
        "phishing": (0, 30, 0),
        "mushroom": (0, 22, 0),
        "yeast": (8, 0, 0),
        "whitewine": (11, 0, 0),
        "heart": (5, 8, 0),
        "adult": (5, 9, 1),
        "german_credit": (3, 14, 4),
        "concrete": (9, 0, 0),
    }
    MISSING_CELLS = {"heart": 6, "adult": 6465}  # noqa: RUF012

    @pytest.mark.parametrize("name", TABLES)
    def test_shape_kinds_and_missing_cells(self, name: str, real_tables: dict[str, UCITable]) -> None:
        table = real_tables[name]
        assert table.mask.shape == self.SHAPES[name]
        assert len(table.schema) == self.SHAPES[name][1]
        kinds = [variable.kind for variable in table.schema.variables]
        assert tuple(kinds.count(k) for k in (Kind.REAL, Kind.CATEGORICAL, Kind.ORDINAL)) == self.KINDS[name]
        assert (~table.mask).sum() == self.MISSING_CELLS.get(name, 0)
        for j, variable in enumerate(table.schema.variables):
            values = table.columns[variable.name]
            if variable.kind is Kind.REAL:
                assert (np.isnan(values) == ~table.mask[:, j]).all()
            else:
                assert len(table.levels[variable.name]) == variable.size
                assert values.max() == variable.size - 1
                assert ((values == -1) == ~table.mask[:, j]).all()

    def test_known_facts(self, real_tables: dict[str, UCITable]) -> None:
        assert (real_tables["mushroom"].columns["stalk-root"] == 0).sum() == 2480
        assert real_tables["mushroom"].levels["stalk-root"][0] == "?"
        assert real_tables["mushroom"].levels["veil-type"] == ("p",)
        assert real_tables["whitewine"].columns["alcohol"].mean() == pytest.approx(10.514, abs=1e-3)
        assert real_tables["concrete"].columns["Concrete compressive strength"].mean() == pytest.approx(
            35.818, abs=1e-3
        )
        assert real_tables["adult"].levels["education-num"] == tuple(str(n) for n in range(1, 17))

    def test_duplicates(self, real_tables: dict[str, UCITable]) -> None:
        assert real_tables["concrete"].duplicates.sum() == 25
        assert real_tables["whitewine"].duplicates.sum() == 937
        # more rows agree in the attributes than agree in every column (5206 and 22)
        assert real_tables["phishing"].duplicates.sum() == 5270
        assert real_tables["yeast"].duplicates.sum() == 31
        for table in real_tables.values():
            rows = np.column_stack([np.nan_to_num(values, nan=-1.0) for values in table.columns.values()])
            assert (~table.duplicates).sum() == len(np.unique(rows, axis=0))
