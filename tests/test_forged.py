"""Models with a right checksum that nobody fitted: refused in one line, at once, taking no memory; or they work."""

from __future__ import annotations

import copy
import json
import resource
import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from vsae import VSAEConfig, VSAEImputer, load
from vsae.cli.app import app
from vsae.model.config import NetShape
from vsae.storage import checkpoint
from vsae.storage.checkpoint import FileFormatError


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("model") / "m.vsae"
    a = rng.normal(size=200)
    edges = np.where(np.abs(a) < 0.5, "x", np.where(a > 0, "y", "z"))  # which trees see
    table = {"a": a, "b": np.where(np.abs(a) < 0.7, 3.0, 40.0) + rng.integers(3, size=200), "c": edges}
    VSAEImputer(config={"steps": 5}, random_state=0).fit(table).save(path)
    return checkpoint.read(path, "imputer")


def refused(tmp_path, tensors, content) -> str:
    path, began = tmp_path / "forged.vsae", time.monotonic()
    checkpoint.write(path, "imputer", tensors, content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileFormatError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # KB: half a GB
    return str(caught.value)


def test_the_model_that_is_forged_below_is_one(parts, tmp_path):
    checkpoint.write(tmp_path / "m.vsae", "imputer", *parts)
    assert len(load(tmp_path / "m.vsae").sample(3)["a"]) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"collective": {"width": 30_000, "depth": 1, "residual": True}},
        {"collective": {"width": 96, "depth": 10**9, "residual": True}},
        {"collective": {"width": 1, "depth": 90, "residual": True}},
        {"data_net": {"width": 96.5, "depth": 1, "residual": True}},
        {"members": 100_000},
        {"members": 900},
        {"latent_dim": 10**9},
        {"latent_dim": 1000, "prior_covariance": "own"},
        {"latent_draws": 10**9},
        {"latent_draws": "4"},
        {"start_scale": [1.0]},
        {"remask": [0.2]},
        {"mask_modelling": "no"},
    ],
    ids=str,
)
def test_settings_of_another_model_take_no_memory(parts, tmp_path, change):
    tensors, content = copy.deepcopy(parts)
    content["model"]["config"] |= change
    refused(tmp_path, tensors, content)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seed", float("inf")),
        ("seed", None),
        ("strategy", "mode"),
        ("handle_unknown", []),
        ("fitted_on/rows", "many"),
        ("features", ["a"]),
        ("table/plans/0/low", "low"),
        ("table/plans/0/dtype", {"strange": 1}),
        ("table/plans/2/levels", {"tuple": ["x"]}),
        ("table/plans/2/name", "d"),
        ("table/container", "excel"),
        ("table/structural", {"a": "c == 'x' and"}),
        ("model/schema/0/variables/0/size", 10**12),
        ("model/schema/2/variables/0/size", 10**12),
        ("model/turns", [0, 0]),
        ("model/history", {"records": 5}),
        ("model/blend/weight", {"a": "much"}),
        ("model/blend/medians", [1.0]),
        ("model/calibration/trivial", {}),
        ("model/levels_of_masks", {"c": [0]}),
    ],
    ids=str,
)
def test_a_part_that_does_not_fit_is_found_by_loading(parts, tmp_path, path, value):
    tensors, content = copy.deepcopy(parts)
    *names, last = path.split("/")
    holder = content
    for name in names:
        holder = holder[int(name) if isinstance(holder, list) else name]
    holder[int(last) if isinstance(holder, list) else last] = value
    refused(tmp_path, tensors, content)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model.collective", torch.nan), ("calibration.residuals.", torch.nan), ("marginals.data/quantiles", torch.inf),
        ("mask_regressions.", torch.nan), ("encoding.point_mass", torch.inf),
    ],
)  # fmt: skip
def test_a_number_that_is_not_finite_is_found_by_loading(parts, tmp_path, part, value):
    tensors, content = copy.deepcopy(parts)
    name = next(name for name, x in tensors.items() if name.startswith(part) and x.is_floating_point() and x.numel())
    tensors[name].view(-1)[0] = value  # one of many, which a trial of the model may not meet
    assert f"not all of {name} is finite" in refused(tmp_path, tensors, content)


def test_weights_of_other_shapes_are_said_in_words(parts, tmp_path):
    tensors, content = copy.deepcopy(parts)
    content["model"]["config"]["collective"]["width"] //= 2
    assert "its weights are not those of its settings" in refused(tmp_path, tensors, content)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("column", lambda x: x.fill_(30_000)),  # of which there are fewer
        ("next", lambda x: x.fill_(0)),  # a walk without end
        ("next", lambda x: x.sub_(100_000)),  # leaves that are not there
        ("roots", lambda x: x.add_(10**6)),
        ("starts", lambda x: x.mul_(2)),
        ("values", lambda x: x.fill_(torch.nan)),
        ("variables", lambda x: x.add_(1000)),
    ],
)
def test_trees_that_lead_nowhere_are_found_by_loading(parts, tmp_path, part, change):
    tensors, content = copy.deepcopy(parts)
    change(tensors[f"forest.{part}"])
    assert "its trees" in refused(tmp_path, tensors, content)


@pytest.fixture(scope="module")
def of_groups(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("groups") / "m.vsae"
    table = {"g": np.repeat(np.arange(10.0), 6), "t": np.tile(np.arange(6.0), 10), "a": rng.normal(size=60)}
    table |= {"b": np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60))}
    imputer = VSAEImputer(config={"steps": 3, "trees": 0}, groups="g", order="t", random_state=0)
    imputer.fit(table).save(path)
    return checkpoint.read(path, "imputer")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("context/means", ["a", "a", "b"]), ("context/near", []), ("context/intercepts/centre", [0.0]), ("order", None),
        ("context/intercepts/within", [[1.0, float("nan")], [0.0, 1.0]]), ("groups", None), ("context", None),
        ("context/intercepts/between", [[0.0, 0.0], [0.0, 0.0]]), ("context/means", 5),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_file_says_of_groups_fits_its_model(of_groups, tmp_path, path, value):
    tensors, content = copy.deepcopy(of_groups)
    *names, last = path.split("/")
    holder = content
    for name in names:
        holder = holder[name]
    assert last in holder
    holder[last] = value
    refused(tmp_path, tensors, content)


@pytest.mark.parametrize("version", [float("inf"), "3", None, 1e300])
def test_a_version_that_is_no_number_is_one_line(tmp_path, version):
    header = {"format": json.dumps({"name": "vsae", "purpose": "imputer", "version": version}), "content": "{}"}
    save_file({"a": torch.zeros(1)}, tmp_path / "m.vsae", header)
    with pytest.raises(FileFormatError, match="its version is"):
        load(tmp_path / "m.vsae")


def test_deep_json_is_one_line_in_models_and_schemas(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    tensors = {"a": torch.zeros(1)}
    kind = {"name": "vsae", "purpose": "imputer", "version": checkpoint.FORMAT_VERSION}
    header = {"format": json.dumps(kind), "content": deep, "sha256": checkpoint.digest(deep, tensors)}
    save_file(tensors, tmp_path / "m.vsae", header)
    with pytest.raises(FileFormatError, match="damaged"):
        load(tmp_path / "m.vsae")
    (tmp_path / "schema.json").write_text(deep)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "schema.json")])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "nested too deeply" in done.output


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "image", "shape": 5}, {"kind": "image", "shape": [1, float("inf"), 2]}, {"kind": "keep", "why": 5},
        {"kind": "date", "format": 5}, {"kind": "date", "format": "%Q"}, {"kind": "date", "format": "%d%d"},
        {"kind": "count", "min": [1]}, {"kind": "real", "max": {}}, {"kind": "real", "min": float("inf")},
        {"kind": "count", "max": float("-inf")}, {"kind": "real", "min": float("nan")},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_of_wrong_types_is_one_line(tmp_path, asked):
    (tmp_path / "schema.json").write_text(json.dumps({"a": asked}))
    (tmp_path / "t.csv").write_text("a,b\n2020-01-02,2\n2020-01-03,\n" if asked["kind"] == "date" else "a,b\n1,2\n3,\n")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "t.csv"), "--schema", str(tmp_path / "schema.json")])
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert "column 'a'" in done.output


@pytest.mark.parametrize("encoding", ["rot13", "zlib", "hex", "base64", "undefined"])
def test_an_encoding_of_bytes_is_one_line(tmp_path, encoding):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "t.csv"), "--encoding", encoding])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert f"unknown encoding {encoding!r}" in done.output


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 GB")])
def test_out_of_memory_is_one_line(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    monkeypatch.setattr("vsae.estimator.VSAEImputer.fit", fail)
    done = CliRunner().invoke(app, ["impute", str(tmp_path / "t.csv")])
    assert done.exit_code == 1
    assert done.output.startswith("vsae: out of memory; use fewer rows")


def test_a_setting_of_another_type_is_refused_by_name():
    with pytest.raises(TypeError, match="members of VSAEConfig must be int, not '4'"):
        VSAEConfig(members="4")
    with pytest.raises(ValueError, match="depth must lie between 0 and 100, not 101"):
        NetShape(8, 101)
