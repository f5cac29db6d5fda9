"""Ray hands out blocks: the output is that of one process, bit for bit, also where a worker dies; nothing listens to
other machines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from benchmarks.stream.cluster import LOOPBACK, descendants, listening
from vsae.engines import jobs
from vsae.engines.ray import RayEngine
from vsae.files import FileError
from vsae.table.survey import Survey

if find_spec("ray") is None:  # it must not be imported before vsae says how
    pytest.skip("Ray is not installed", allow_module_level=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_two_workers_one_of_which_dies_give_the_bytes_of_one_process(case, tmp_path):
    case.impute(tmp_path / "one.parquet")
    seen: dict[str, set] = {"addresses": set(), "killed": set(), "workers": set()}

    def look(*_: object) -> None:
        ours = descendants(os.getpid())
        workers = {pid for pid, command in ours.items() if command.startswith("ray::Worker")}
        seen["workers"] |= workers
        seen["addresses"] |= listening(set(ours))
        if workers and not seen["killed"]:
            seen["killed"] = {min(workers)}
            os.kill(min(workers), signal.SIGKILL)

    engine = RayEngine(workers=2)
    summary = case.impute(tmp_path / "many.parquet", engine=engine, on_block=look)
    assert (tmp_path / "many.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    assert summary.rows == len(case.table)
    assert seen["killed"]
    assert len(seen["workers"]) >= 2
    assert seen["addresses"]
    assert seen["addresses"] <= LOOPBACK
    assert not [command for command in descendants(os.getpid()).values() if "raylet" in command]  # it ends with the job


@pytest.mark.slow
def test_what_workers_see_of_all_rows_is_one_pass(case):
    found = RayEngine(workers=2).survey(case.blocks, 200, seed=4)
    whole = Survey.of(case.blocks.batches(), 200, seed=4)
    assert found.sample().equals(whole.sample())
    assert {label: b.missing for label, b in found.beyond().items()} == {
        label: b.missing for label, b in whole.beyond().items()
    }


@pytest.mark.slow
def test_what_is_wrong_with_a_file_is_said_in_one_line(case, tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(case.path.read_bytes())
    blocks = jobs.blocks_of(str(path))
    path.write_bytes(b"no longer a table")
    with pytest.raises(FileError, match=r"t.parquet: this is not a Parquet file") as error:
        case._replace(blocks=blocks).impute(tmp_path / "out.parquet", engine=RayEngine(workers=1))
    assert "\n" not in str(error.value)


def test_without_ray_one_line_names_the_extra(case, tmp_path):
    code = """
import sys
import time
sys.modules["ray"] = None
from vsae.cli.app import main
main()
"""
    arguments = ["impute", case.path, "--model", case.model, "-o", tmp_path / "o.parquet", "--engine", "ray"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "vsae: --engine ray needs Ray; pip install 'vsae[ray]'\n"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_where_no_cluster_is_one_line_says_so_at_once(address):
    began = time.monotonic()
    with pytest.raises(FileError, match=f"--address {address}: no cluster of Ray answers there") as error:
        RayEngine(address)
    assert time.monotonic() - began < 20
    assert "\n" not in str(error.value)
