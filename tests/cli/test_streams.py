"""Output is whole or the command fails: short writes, full disks, closed streams, sets of files, devices and pipes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from vsae import VSAEImputer, load
from vsae.files import FileError, write_files, write_table
from vsae.storage import atomic

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
ROWS = 3000


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("model") / "m.vsae"
    table = {"a": rng.normal(size=40), "b": rng.normal(size=40), "c": rng.choice(["x", "y"], 40)}
    VSAEImputer(config={"steps": 5, "trees": 0}, random_state=0).fit(table).save(path)
    return path


@pytest.fixture
def table(tmp_path) -> Path:
    """Of 60 KB and more, so that a pipe does not hold what is written."""
    rng, path = np.random.default_rng(1), tmp_path / "t.csv"
    a = rng.normal(size=ROWS)
    a[::7] = np.nan
    write_table(path, {"a": a, "b": rng.normal(size=ROWS), "c": rng.choice(["x", "y"], ROWS)})
    return path


def shell(line: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", "-c", line.replace("vsae", f"{sys.executable} -m vsae", 1)],
        capture_output=True, text=True, env={**os.environ, **variables},
    )  # fmt: skip


def test_a_slow_pipe_gets_all_of_it_from_a_raw_stdout(model, table):
    done = shell(f"vsae impute {table} --model {model} -q | (sleep 1; cat)", PYTHONUNBUFFERED="1")
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == ROWS + 1


def test_what_a_raw_stream_did_not_take_is_written_again():
    class Raw:
        taken = b""

        def write(self, content) -> int:
            self.taken += bytes(content[:10])
            return min(10, len(content))

        def flush(self) -> None: ...

    stream = Raw()
    atomic.write_stream(stream, bytes(range(95)))
    assert stream.taken == bytes(range(95))


@FULL
def test_a_full_disk_behind_stdout_is_one_line_and_a_failure(model, table):
    done = shell(f"vsae impute {table} --model {model} -q > /dev/full", PYTHONUNBUFFERED="1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no space left" in done.stderr.lower()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("vsae impute - --model {model} -q <&-", "stdin is closed; name a file\n"),
        ("vsae inspect {table} >&-", "stdout is closed; redirect it, or name a file with -o\n"),
        ("vsae --version >&-", "stdout is closed; redirect it, or name a file with -o\n"),
    ],
)
def test_a_closed_stream_is_one_line(model, table, line, said):
    done = shell(line.format(table=table, model=model))
    assert done.returncode == 1
    assert done.stderr.startswith("vsae: ")
    assert done.stderr.endswith(said)
    assert done.stderr.count("\n") == 1


@FULL
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_remarks_that_have_no_room_do_not_stop_the_table(model, table, unbuffered):
    done = shell(f"vsae impute {table} --model {model} 2>/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, ROWS + 1)


def test_without_stderr_no_remark_goes_to_stdout(model, table):
    done = shell(f"vsae impute {table} --model {model} 2>&-")
    assert done.returncode == 0
    assert "vsae" not in done.stdout
    assert len(done.stdout.splitlines()) == ROWS + 1


# --- the one place that opens files


@FULL
def test_a_device_is_never_replaced(model, tmp_path):
    link = tmp_path / "device"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="device: could not be written: no space left"):
        load(model).save(link)
    assert link.is_symlink()
    assert link.is_char_device()


def test_a_named_pipe_gets_the_model(model, tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    load(model).save(pipe)
    reader.join()
    assert pipe.is_fifo()
    (tmp_path / "copy").write_bytes(got[0])
    assert load(tmp_path / "copy").schema_.schema.names == ["a", "b", "c"]


def test_files_of_a_set_are_all_new_or_all_old(tmp_path):
    paths = [tmp_path / f"{i}.csv" for i in range(3)]
    for path in paths:
        path.write_text("old")

    def contents():
        yield paths[0], b"new", None
        yield paths[1], b"new", None
        raise FileError("the third cannot be written")

    with pytest.raises(FileError, match="the third"):
        write_files(contents(), paths)
    assert [path.read_text() for path in paths] == ["old"] * 3
    write_files([(path, b"new", None) for path in paths], paths)
    assert [path.read_text() for path in paths] == ["new"] * 3
    assert len(list(tmp_path.iterdir())) == 3


def test_what_killed_processes_left_goes_after_a_while(tmp_path):
    old, young, other = (tmp_path / name for name in (".t.csv.abc.part", ".t.csv.def.part", ".u.csv.abc.part"))
    for path in (old, young, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (time.time() - 7200,) * 2)
    atomic.write_text(tmp_path / "t.csv", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".t.csv.def.part", ".u.csv.abc.part", "t.csv"]
