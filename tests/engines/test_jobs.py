"""Blocks that are filled one by one make up the filled table; a job that stops goes on, to the same bytes."""

from __future__ import annotations

import json
import resource
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks.attack import blocks as attacks
from vsae import VSAEImputer, load, progress
from vsae.cli.app import app
from vsae.engines import jobs
from vsae.engines.filling import How
from vsae.files import FileError, parts, read_table, write_table
from vsae.files import blocks as files_blocks
from vsae.progress import RowProgress
from vsae.storage.atomic import NotWritten
from vsae.table import TableError

ROWS = 900


class Stopped(Exception):
    pass


def same(one: pa.Table, other: pa.Table) -> bool:
    """But for the last bits of numbers (docs/decisions/0016)."""
    numbers = ("x", "y")
    close = all(np.allclose(one[n].to_numpy(), other[n].to_numpy(), rtol=1e-4, atol=1e-4) for n in numbers)
    return close and one["sex"].equals(other["sex"]) and one.schema.equals(other.schema)


def stop_after(blocks: int):
    left = [blocks]

    def on_block(*_: object) -> None:
        left[0] -= 1
        if not left[0]:
            raise Stopped

    return on_block


def test_blocks_together_are_the_filled_table_and_draws_are_keyed_by_the_row(case, tmp_path):
    summary = case.impute(tmp_path / "out.parquet")
    found, whole = pq.read_table(tmp_path / "out.parquet"), case.imputer.transform(case.table)
    assert len(case.blocks.blocks) == 9
    assert same(found, whole)
    observed = ~np.isnan(case.table["x"].to_numpy())
    np.testing.assert_array_equal(found["x"].to_numpy()[observed], case.table["x"].to_numpy()[observed])
    missing = {name: case.table[name].null_count for name in case.table.column_names}
    assert (dict(summary.filled), summary.rows, dict(summary.left)) == (missing, ROWS, {})
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_drawn_tables_and_single_columns(case, tmp_path):
    how = How(draws=2, seed=5, only=("y",))
    case.impute(tmp_path / "1.parquet", tmp_path / "2.parquet", how=how)
    drawn = case.imputer.draw(case.table, 2, random_state=5)
    for i, whole in enumerate(drawn):
        found = pq.read_table(tmp_path / f"{i + 1}.parquet")
        np.testing.assert_allclose(found["y"].to_numpy(), whole["y"].to_numpy(), rtol=1e-4, atol=1e-4)
        assert found["x"].equals(case.table["x"])


@pytest.mark.parametrize("blocks", [1, 5, 9])
def test_a_job_that_stops_goes_on_and_gives_the_same_bytes(case, tmp_path, blocks):
    case.impute(tmp_path / "whole.parquet")
    with pytest.raises(Stopped):
        case.impute(tmp_path / "out.parquet", on_block=stop_after(blocks))
    assert (tmp_path / "out.parquet").exists() is (blocks == 9)
    manifest = json.loads((tmp_path / ".out.parquet.parts" / "manifest.json").read_text())
    assert manifest["job"]["model"] == jobs.checksum(case.model)
    begun = []
    summary = case.impute(tmp_path / "out.parquet", on_begin=lambda done, of: begun.append((done, of)))
    assert begun == [(blocks, 9)]
    missing = {name: case.table[name].null_count for name in case.table.column_names}
    assert (summary.rows, dict(summary.filled)) == (ROWS, missing)  # of all blocks, whoever filled them
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not (tmp_path / ".out.parquet.parts").exists()


def test_parts_of_another_job_are_not_taken(case, tmp_path):
    with pytest.raises(Stopped):
        case.impute(tmp_path / "out.parquet", on_block=stop_after(4))
    other = VSAEImputer(config={"steps": 5, "members": 1, "trees": 0}, random_state=1).fit(case.table)
    other.save(tmp_path / "other.vsae")
    begun = []
    changed = case._replace(imputer=other, model=tmp_path / "other.vsae")
    changed.impute(tmp_path / "out.parquet", on_begin=lambda done, of: begun.append(done))
    assert begun == [0]
    assert pq.read_table(tmp_path / "out.parquet")["y"].null_count == 0


def test_a_folder_gets_a_file_for_each_and_files_that_are_done_stay(case, tmp_path):
    source = tmp_path / "in"
    for i in range(3):
        (source / f"g={i}").mkdir(parents=True)
        pq.write_table(case.made(200, i), source / f"g={i}" / "t.parquet")
    many = case._replace(blocks=jobs.blocks_of(str(source)))
    many.impute(f"{tmp_path}/whole/")
    with pytest.raises(Stopped):
        many.impute(f"{tmp_path}/out/", on_block=stop_after(7))
    done = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").glob("g=*/*"))
    assert 0 < len(done) < 3
    stamp = (tmp_path / "out" / done[0]).stat().st_mtime_ns
    many.impute(f"{tmp_path}/out/")
    assert (tmp_path / "out" / done[0]).stat().st_mtime_ns == stamp
    for i in range(3):
        found, whole = ((tmp_path / out / f"g={i}" / "t.parquet") for out in ("out", "whole"))
        assert found.read_bytes() == whole.read_bytes()
        assert pq.ParquetFile(found).schema_arrow.names == ["x", "y", "sex"]
    many.impute(tmp_path / "one.parquet")
    assert pq.read_table(tmp_path / "one.parquet").column_names == ["x", "y", "sex", "g"]


def test_batches_of_polars_and_duckdb_in_python(case):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    whole = case.imputer.transform(case.table)
    lazy = polars.concat(case.imputer.transform_batches(polars.scan_parquet(case.path)))
    assert isinstance(lazy, polars.DataFrame)
    np.testing.assert_allclose(lazy["y"].to_numpy(), whole["y"].to_numpy(), rtol=1e-4, atol=1e-4)
    relation = duckdb.sql(f"select * from '{case.path}'")
    batches = list(case.imputer.transform_batches(relation))
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert same(pa.Table.from_batches(batches).select(whole.column_names), whole)
    reader = case.table.to_reader(max_chunksize=130)
    assert same(pa.Table.from_batches(case.imputer.transform_batches(reader)), whole)
    dataset = pytest.importorskip("pyarrow.dataset").dataset(case.path)
    for batches in (dataset, dataset.scanner(batch_size=130)):
        assert same(pa.Table.from_batches(case.imputer.transform_batches(batches)), whole)


def test_a_fit_to_batches_of_all_rows_is_the_fit_to_the_table(case):
    settings = {"config": {"steps": 5, "members": 1, "trees": 0}, "random_state": 3}
    whole = VSAEImputer(**settings).fit(case.table)
    batches = VSAEImputer(**settings).fit_batches(case.table.to_batches(max_chunksize=99))
    sampled = VSAEImputer(**settings).fit_batches(case.table.to_batches(max_chunksize=99), sample=100)
    assert whole.transform(case.table).equals(batches.transform(case.table))
    assert sampled.fitted_on_["rows"] == 100
    assert [plan.kind for plan in sampled.schema_.plans] == [plan.kind for plan in whole.schema_.plans]


def test_groups_need_all_rows(case):
    grouped = VSAEImputer(config={"steps": 2, "members": 1, "trees": 0}, groups="g")
    table = {"g": np.arange(60) // 6, "x": np.where(np.arange(60) % 4 == 0, np.nan, np.arange(60.0))}
    with pytest.raises(TableError, match="groups='g'"):
        grouped.fit_batches([table], sample=30)
    with pytest.raises(TableError, match="groups='g'"):
        next(grouped.fit_batches([table]).transform_batches([table]))


# --- the command line


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_line_streams_text_and_changes_filled_cells_only(case, tmp_path, few_steps, monkeypatch):
    monkeypatch.setattr("vsae.files.text_blocks.PIECE", 4000)
    write_table(
        tmp_path / "t.csv", {n: np.array(case.made(300, 4)[n].to_pylist(), dtype=object) for n in ("x", "y", "sex")}
    )
    done = invoke("impute", tmp_path / "t.csv", "-o", tmp_path / "o.csv", "--engine", "stream", "--sample", 150)
    assert done.exit_code == 0, done.output
    assert "a uniform random sample of 150 of 300 rows" in done.output
    before, after = read_table(tmp_path / "t.csv").data, read_table(tmp_path / "o.csv").data
    assert not any(np.isnan(after["x"]))
    known = ~np.isnan(before["x"])
    np.testing.assert_array_equal(after["x"][known], before["x"][known])
    lines = [(tmp_path / name).read_text().splitlines() for name in ("t.csv", "o.csv")]
    assert all(a == b for a, b in zip(*lines, strict=True) if ",," not in a and not a.endswith(",") and a[0] != ",")


def test_a_streamed_fit_has_the_same_bytes_again(case, tmp_path, few_steps):
    for name in ("a", "b"):
        options = ("--engine", "stream", "--sample", 200, "--steps", 8, "-q")
        done = invoke("fit", case.path, "-o", tmp_path / f"{name}.vsae", *options)
        assert done.exit_code == 0, done.output
    assert (tmp_path / "a.vsae").read_bytes() == (tmp_path / "b.vsae").read_bytes()
    assert load(tmp_path / "a.vsae").fitted_on_["rows"] == 200


def test_a_large_table_is_streamed_without_being_asked(case, tmp_path, monkeypatch):
    assert not jobs.is_large(str(case.path))
    monkeypatch.setattr(jobs, "LARGE", 1000)
    assert jobs.is_large(str(case.path))
    done = invoke("impute", case.path, "--model", case.model, "-o", tmp_path / "o.parquet")
    assert done.exit_code == 0, done.output
    assert pq.ParquetFile(tmp_path / "o.parquet").num_row_groups == 9
    done = invoke("impute", case.path, "--model", case.model, "-o", tmp_path / "p.parquet", "--engine", "memory")
    assert pq.ParquetFile(tmp_path / "p.parquet").num_row_groups == 1


def test_options_that_need_all_rows_are_refused(case, tmp_path):
    asked = ("impute", case.path, "--model", case.model, "--engine", "stream")
    for options in (("-o", "-"), ("-o", tmp_path / "o.parquet", "--flags", tmp_path / "f.csv"), ()):
        assert invoke(*asked, *options).exit_code == 2
    assert invoke("fit", case.path, "-o", tmp_path / "m", "--engine", "cluster").exit_code == 2
    done = invoke(*asked, "-o", tmp_path / "o.csv")
    assert done.exit_code == 1
    assert "is written as .parquet or .feather" in done.output
    assert "this is the table itself" in invoke(*asked, "-o", case.path).output


def test_a_damaged_row_group_is_named_and_what_is_done_stays(case, tmp_path, monkeypatch):
    shutil.copytree(case.path.parent, tmp_path / "in", dirs_exist_ok=True)
    path = tmp_path / "in" / "t.parquet"
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(bytes(content))
    damaged = case._replace(blocks=jobs.blocks_of(str(path)))
    with pytest.raises(FileError, match=r"t.parquet: row group 2 cannot be read") as error:
        damaged.impute(tmp_path / "out.parquet")
    assert "\n" not in str(error.value)
    assert len(list((tmp_path / ".out.parquet.parts").glob("*/*.part"))) == 4
    assert files_blocks.CELLS == 300


def test_kills_and_a_full_disk_do_no_harm(tmp_path):
    row = attacks.attack(1, 3, tmp_path, commands=["impute"], harms=["no room for files"]).row()
    assert row["failures"] == []
    assert sum(row["counts"].values()) == 2


def test_many_files_of_text_become_one_through_the_command_line(case, tmp_path):
    for i in range(3):
        folder = tmp_path / "in" / f"g={i}"
        folder.mkdir(parents=True)
        columns = case.made(50, i)
        write_table(folder / "t.csv", {n: np.array(columns[n].to_pylist(), dtype=object) for n in columns.column_names})
        (folder / "t.csv").write_bytes((folder / "t.csv").read_bytes().removesuffix(b"\n"))
    done = invoke("impute", tmp_path / "in", "--model", case.model, "-o", tmp_path / "one.csv")
    assert done.exit_code == 0, done.output
    found = read_table(tmp_path / "one.csv").data
    assert list(found) == ["x", "y", "sex", "g"]
    assert found["g"].tolist() == [0] * 50 + [1] * 50 + [2] * 50
    assert not np.isnan(found["x"]).any()


@pytest.mark.parametrize("extension", ["parquet", "feather"])
def test_files_without_rows_are_filled_with_nothing_and_not_learned(case, tmp_path, extension):
    for name, rows in (("a", 120), ("b", 0), ("c", 30)):
        write_table(tmp_path / f"{name}.{extension}", case.made(120, 0).slice(0, rows))
    empty, out = tmp_path / f"b.{extension}", tmp_path / f"out.{extension}"
    for source, target in ((empty, out), (tmp_path, f"{tmp_path}/outs/")):
        done = invoke("impute", source, "--model", case.model, "-o", target, "--engine", "stream")
        assert done.exit_code == 0, done.output
    assert read_table(out).data.schema.equals(read_table(empty).data.schema)
    rows = {path.name[0]: len(read_table(path).data) for path in (tmp_path / "outs").iterdir()}
    assert rows == {"a": 120, "b": 0, "c": 30, "o": 0}
    assert not list(tmp_path.rglob(".*"))
    for command, target in (("fit", "m.vsae"), ("impute", f"p.{extension}")):
        done = invoke(command, empty, "-o", tmp_path / target, "--engine", "stream", "-q")
        assert (done.exit_code, done.output) == (1, "vsae: the table has no rows; fit needs at least one\n")
    assert not list(tmp_path.rglob(".*"))


def test_a_resumed_run_reports_on_the_files_of_a_folder_that_were_done_before(case, tmp_path):
    for i in range(3):
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(case.made(200, i), tmp_path / "in" / f"{i}.parquet")
    many = case._replace(blocks=jobs.blocks_of(str(tmp_path / "in")))
    whole = many.impute(f"{tmp_path}/whole/")
    for stop in (2, 3):
        with pytest.raises(Stopped):
            many.impute(f"{tmp_path}/out/", on_block=stop_after(stop))
    shown = []
    again = many.impute(f"{tmp_path}/out/", on_block=lambda done, rows, of: shown.append((rows, of)))
    assert again == whole
    assert shown == [(100, 100)]


def test_two_jobs_may_write_to_one_folder(case, tmp_path):
    jobs_of = {}
    for name in ("a", "b"):
        pq.write_table(case.made(300, 1), tmp_path / f"{name}.parquet")
        jobs_of[name] = case._replace(blocks=jobs.blocks_of(str(tmp_path / f"{name}.parquet")))
    with pytest.raises(Stopped):
        jobs_of["a"].impute(f"{tmp_path}/out/", on_block=stop_after(2))
    jobs_of["b"].impute(f"{tmp_path}/out/")
    begun = []
    jobs_of["a"].impute(f"{tmp_path}/out/", on_begin=lambda done, of: begun.append(done))
    assert begun == [2]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.parquet", "b.parquet"]


def test_where_nothing_could_be_filled_there_is_no_output(case, tmp_path):
    for i in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        table = pa.table({"x": [1.0, 2.0] * 100, "other": pa.array([None, 1.0] * 100)})
        pq.write_table(table, tmp_path / "in" / f"{i}.parquet")
    for engine, source in (("memory", "in/0.parquet"), ("stream", "in/0.parquet"), ("stream", "in")):
        target = tmp_path / f"{engine}.parquet"
        done = invoke("impute", tmp_path / source, "--model", case.model, "-o", target, "--engine", engine)
        assert done.exit_code == 1
        assert "no missing cell could be filled" in done.output
        assert not target.exists()
    done = invoke("impute", tmp_path / "in", "--model", case.model, "-o", f"{tmp_path}/out/")
    assert done.exit_code == 1
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_a_run_that_goes_on_is_judged_by_all_blocks(case, tmp_path):
    """Blocks in which nothing could be filled follow others that a stopped run has filled."""
    x = pa.array([None, 1.0] * 100 + [1.0] * 200)
    other = pa.array([1.0] * 200 + [None] * 200)
    pq.write_table(pa.table({"x": x, "y": x, "other": other}), tmp_path / "t.parquet")
    half = case._replace(blocks=jobs.blocks_of(str(tmp_path / "t.parquet")))
    with pytest.raises(Stopped):
        half.impute(tmp_path / "out.parquet", on_block=stop_after(2))
    summary = half.impute(tmp_path / "out.parquet")
    assert (dict(summary.filled), sum(summary.left.values())) == ({"x": 100, "y": 100}, 200)
    assert pq.read_table(tmp_path / "out.parquet")["x"].null_count == 0


@pytest.mark.parametrize("options", [("--draws", 2), ("--strategy", "draw")])
def test_draws_that_need_the_rows_before_are_refused_before_a_fit(case, tmp_path, options):
    done = invoke(
        "impute", case.path, "-o", tmp_path / "od.parquet", "--engine", "stream", "--method", "miwae", *options
    )
    assert done.exit_code == 1
    assert done.output.startswith("vsae: method='miwae': its draws depend on the rows before")
    assert done.output.endswith("(--engine memory)\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["vae", "remasker", "vaeac"])
def test_a_method_says_before_its_fit_whether_its_draws_depend_on_other_rows(case, method):
    imputer = VSAEImputer(method=method, config={"steps": 2, "members": 1}, strategy="draw")

    def refused() -> bool:
        try:
            imputer.refuse_parts()
        except TableError:
            return True
        return False

    before = refused()
    imputer.fit(case.table.slice(0, 200))
    assert refused() is before


def test_folders_that_cannot_be_one_table_are_named_for_what_they_are(case, tmp_path):
    mixed, packed, empty = (tmp_path / name for name in ("mixed", "packed", "empty"))
    for folder in (mixed, packed, empty):
        folder.mkdir()
    shutil.copy(case.path, mixed / "a.parquet")
    (mixed / "b.csv").write_text("x,y,sex\n1,2,F\n")
    (packed / "a.csv.gz").write_bytes(b"")
    for folder, said in {
        mixed: f"{mixed}/b.csv: this is a csv file, and {mixed}/a.parquet a parquet file; keep them apart",
        packed: f"{packed}/a.csv.gz: a file with gzip around it cannot be read in blocks; convert it to Parquet",
        empty: f"{empty}: no file of a known format is there",
    }.items():
        for out in (f"{folder}-out/", tmp_path / "one.csv"):
            done = invoke("impute", folder, "--model", case.model, "-o", out)
            assert (done.exit_code, done.output.count("\n")) == (1, 1)
            assert done.output.startswith(f"vsae: {said}")
        assert invoke("fit", folder, "-o", tmp_path / "m").output.startswith(f"vsae: {said}")
    done = invoke("impute", mixed, "--model", case.model, "-o", f"{mixed}-out/", "--engine", "memory")
    assert done.exit_code == 2
    assert "memory reads one file" in done.output


@pytest.mark.parametrize("options", [("--workers", 2), ("--address", "x:1"), ("--sample", 50)])
def test_options_of_another_engine_are_refused(case, tmp_path, options):
    for command in (("fit",), ("impute", "--model", case.model)):
        done = invoke(*command, case.path, "-o", tmp_path / "m.parquet", *options)
        assert done.exit_code == 2
        assert options[0] in done.output
    assert not list(tmp_path.iterdir())


def test_progress_counts_from_the_first_block_on(monkeypatch, capsys):
    clock = iter([1000.0, 1011.0])  # all that was before does not count
    lines = RowProgress("filling")
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines(100, 10_000)
    lines(1200, 10_000)
    assert capsys.readouterr().err == "filling: 1,200 of 10,000 rows, 100 a second, 88 s left\n"


def test_a_full_disk_is_one_line_also_while_files_are_put_together(case, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(5):
        pq.write_table(case.made(500, i), tmp_path / "in" / f"{i}.parquet")
    many = case._replace(blocks=jobs.blocks_of(str(tmp_path / "in")))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # more than a part has
    try:
        with pytest.raises(FileError) as error:
            many.impute(tmp_path / "o.feather")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = "could not be put together: file too large; what is done stays done, and the same command goes on from there"
    assert str(error.value) == f"{tmp_path}/o.feather: {said}"
    begun = []
    many.impute(tmp_path / "o.feather", on_begin=lambda done, of: begun.append(of - done))
    assert begun == [0]


def test_a_manifest_that_has_no_room_is_one_line_too(case, tmp_path, monkeypatch):
    def full(path, text):
        raise NotWritten(f"{path}: could not be written: no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(parts, "write_text", full)
        with pytest.raises(FileError, match=r"manifest.json: .*: no space left on device; what is done stays done"):
            case.impute(tmp_path / "out.parquet")


def test_the_help_names_the_extra():
    assert "vsae[ray]" in invoke("fit", "--help").output


@pytest.mark.parametrize("sample", [2.5, 0, "3"])
def test_a_sample_is_a_whole_number_of_rows(case, sample):
    with pytest.raises(ValueError, match="a sample has a whole number of rows, at least one, not "):
        VSAEImputer().fit_batches([case.table], sample=sample)
