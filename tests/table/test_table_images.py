"""Images in tables: arrays, Pillow's images and paths of files, in pandas and in dicts, read and given back."""

from __future__ import annotations

import json
import runpy
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from conftest import SMALL
from vsae import Image, VSAEImputer, load
from vsae.cli.app import app
from vsae.files import FileError, read_table, write_table
from vsae.table import DataWarning, Table, TableError

QUICK = {**SMALL, "steps": 10}
AS_IMAGE = {"photo": "image"}


def squares(n: int, layout: str = "HW", dtype: str = "uint8", seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A number, and an image of 8 × 8 pixels that is as light as it; every third image is missing."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    light = np.rint(200 * x).astype(np.uint8)[:, None, None] * np.ones((8, 8), dtype=np.uint8)
    light = light if dtype == "uint8" else (light / 255).astype(dtype)
    laid = {"HW": light, "HWC": np.repeat(light[..., None], 3, -1), "CHW": np.repeat(light[:, None], 3, 1)}[layout]
    images = [None if i % 3 == 0 else image for i, image in enumerate(laid)]
    return pd.DataFrame({"x": x, "photo": pd.Series(images, dtype=object)}), laid


def filed(n: int, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """The same, as paths of PNG files."""
    pillow = pytest.importorskip("PIL.Image")
    frame, laid = squares(n)
    for i, image in enumerate(laid):
        pillow.fromarray(image).save(folder / f"{i}.png")
    paths = [None if i % 3 == 0 else str(folder / f"{i}.png") for i in range(n)]
    frame["photo"] = pd.Series(paths, dtype=object)
    return frame, laid


def images_of(frame: pd.DataFrame, kind: Any) -> np.ndarray:
    """The first image as the model sees it."""
    return Table.fit(frame, schema={"photo": kind}).encode(frame).columns["photo"][0]


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_are_recognised_and_come_back_in_their_layout(layout, dtype):
    frame, laid = squares(30, layout, dtype)
    table = Table.fit(frame)
    assert "image" in str(table)
    encoded = table.encode(frame)
    assert encoded.columns["photo"].shape == (30, 1 if layout == "HW" else 3, 8, 8)
    assert np.array_equal(encoded.mask[:, 1], np.arange(30) % 3 > 0)
    back = table.decode(frame, encoded.columns)
    assert back["photo"][0].shape == laid[0].shape
    assert back["photo"][0].dtype == laid.dtype
    assert back["photo"][1] is frame["photo"][1]
    again = Table.from_json(table.to_json())
    assert again.schema == table.schema
    assert np.array_equal(again.encode(frame).columns["photo"], encoded.columns["photo"])


def test_an_imputer_fills_images_and_what_they_tell(tmp_path):
    frame, _ = squares(200)
    frame.loc[1::4, "x"] = np.nan
    imputer = VSAEImputer(config={**SMALL, "steps": 250}, random_state=0).fit(frame)
    filled = imputer.transform(frame)
    assert filled["photo"].map(lambda x: x.shape == (8, 8)).all()
    truth, laid = squares(200)
    missing = [i for i in range(0, 200, 3) if i % 4 != 1]
    error = np.mean([(filled["photo"][i] / 255 - laid[i] / 255) ** 2 for i in missing])
    assert error < 0.3 * np.var(laid / 255)
    known = frame["x"].isna() & frame["photo"].notna()
    assert ((filled["x"] - truth["x"])[known] ** 2).mean() < 0.3 * truth["x"].var()
    imputer.save(tmp_path / "model")
    same = load(tmp_path / "model").transform(frame)
    assert all(np.array_equal(a, b) for a, b in zip(filled["photo"], same["photo"], strict=True))
    assert imputer.sample(4)["photo"].map(lambda x: x.shape == (8, 8)).all()
    assert len(imputer.draw(frame, 2)) == 2
    with pytest.raises(TableError, match="column 'photo' holds images, which cannot be given"):
        imputer.sample(2, given={"photo": np.zeros((8, 8))})


def test_a_dict_may_hold_a_stack_or_a_list_of_images():
    frame, laid = squares(30)
    for images in (laid, list(frame["photo"])):
        columns = {"x": frame["x"].to_numpy(), "photo": images}
        filled = VSAEImputer(config=QUICK, random_state=0).fit_transform(columns)
        assert filled["photo"].shape == (30,)
        assert filled["photo"][0].shape == (8, 8)


def test_paths_are_opened_and_resized(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    frame, laid = squares(24)
    paths = [str(tmp_path / f"{i}.png") for i in range(len(frame))]
    for path, image in zip(paths, laid, strict=True):
        pillow.fromarray(image).resize((20, 12)).save(path)
    frame["photo"] = [None if i % 3 == 0 else path for i, path in enumerate(paths)]
    imputer = VSAEImputer(schema={"photo": Image(shape=(1, 8, 8))}, config=QUICK, random_state=0)
    filled = imputer.fit_transform(frame)
    assert filled["photo"][1] == paths[1]
    assert filled["photo"][0].shape == (8, 8)
    assert filled["photo"][0].dtype == np.uint8
    whole = VSAEImputer(schema={"photo": "image"}, config=QUICK, random_state=0).fit(frame)
    assert whole.schema_.schema.variables[1].shape == (1, 12, 20)
    frame.loc[1, "photo"] = str(tmp_path / "gone.png")
    with pytest.raises(TableError, match=r"column 'photo' holds the path '.*gone.png', where there is no file"):
        imputer.transform(frame)


def test_pillows_images_are_images():
    pillow = pytest.importorskip("PIL.Image")
    frame, _ = squares(12)
    frame["photo"] = pd.Series([None if x is None else pillow.fromarray(x) for x in frame["photo"]], dtype=object)
    filled = VSAEImputer(config=QUICK, random_state=0).fit_transform(frame)
    assert filled["photo"][0].shape == (8, 8)


def test_what_is_no_image_is_told_by_column():
    frame, _ = squares(12)
    frame.at[2, "photo"] = np.zeros((5, 5), dtype=np.uint8)
    with pytest.raises(TableError, match=r"column 'photo' holds an image of 1×5×5 among those of 1×8×8"):
        Table.fit(frame)
    with pytest.raises(TableError, match="column 'x' as image holds"):
        Table.fit(frame[["x"]], schema={"x": "image"})


NEW_PANDAS = pytest.mark.skipif(int(pd.__version__.split(".")[0]) < 3, reason="before pandas 3, str made None a text")


@pytest.mark.parametrize("dtype", [pytest.param("str", marks=NEW_PANDAS), "string", "category", "object"])
def test_paths_of_any_dtype_give_arrays_in_new_columns(tmp_path, dtype):
    frame, _ = filed(12, tmp_path)
    frame["photo"] = frame["photo"].astype(dtype)
    imputer = VSAEImputer(schema=AS_IMAGE, config={**SMALL, "steps": 3}, random_state=0).fit(frame)
    for rows in (imputer.sample(3), imputer.transform(frame[["x"]])):
        assert rows["photo"].dtype == object
        assert rows["photo"].map(lambda x: isinstance(x, np.ndarray) and x.shape == (8, 8)).all()
    incomplete = imputer.sample(30, with_missing=True, random_state=0)["photo"]
    assert incomplete.map(lambda x: x is None or isinstance(x, np.ndarray)).all()
    imputer.distance_to_closest(imputer.sample(12), frame)


def test_paths_as_fixed_width_text_give_arrays_in_samples(tmp_path):
    frame, _ = filed(12, tmp_path)
    paths = frame["photo"].dropna().to_numpy(dtype=str)
    columns = Table.fit({"photo": paths}, schema=AS_IMAGE)
    made = columns.frame({"photo": columns.modelled[0].blank(2)}, n=2)
    assert made["photo"][0].shape == (8, 8)
    array = Table.fit(np.stack([paths, paths], axis=1), schema={0: "categorical", 1: "image"})
    made = array.frame({plan.name: plan.blank(2) for plan in array.modelled}, n=2)
    assert made[0, 1].shape == (8, 8)


def test_a_text_too_long_for_a_path_is_told_by_column(tmp_path):
    frame, _ = filed(12, tmp_path)
    frame.loc[1, "photo"] = "long " * 2000
    for kind in ("image", Image(shape=(1, 8, 8))):
        with pytest.raises(TableError, match=r"column 'photo' .*long") as caught:
            Table.fit(frame, schema={"photo": kind})
        assert len(str(caught.value)) < 500


def test_a_container_without_room_for_images_says_so(tmp_path):
    frame, laid = squares(12)
    table = Table.fit({"x": frame["x"].to_numpy(), "photo": laid})
    told = "column 'photo' holds images, which a {} table cannot hold .* use pandas or a dict of columns"
    polars = pl.DataFrame({"x": frame["x"].to_numpy(), "photo": [None] * 12})
    for each in (polars, polars.drop("photo")):
        with pytest.raises(TableError, match=told.format("polars")):
            table.decode(each, table.encode(each).columns)
    for container in ("polars", "pyarrow"):
        with pytest.raises(TableError, match=told.format(container)):
            table.frame(table.encode(frame).columns, n=12, container=container)
    frame, _ = filed(12, tmp_path)
    columns = {"x": frame["x"].to_numpy(), "photo": frame["photo"].tolist()}
    for name, unfit in {"polars": pl.DataFrame(columns), "pyarrow": pa.table(columns)}.items():
        with pytest.raises(TableError, match=told.format(name)):
            Table.fit(unfit, schema=AS_IMAGE)


@pytest.mark.parametrize("file", ["deep.png", "deep.tiff", "whole.tiff"])  # of modes I;16 and I
def test_sixteen_bits_of_grey_are_read_as_such(tmp_path, file):
    pillow = pytest.importorskip("PIL.Image")
    deep = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    image = pillow.fromarray(deep.astype(np.int32) if file.startswith("whole") else deep)
    image.save(tmp_path / file)
    frame = pd.DataFrame({"photo": [str(tmp_path / file)] * 2})
    assert images_of(frame, "image") == pytest.approx(deep[None] / 65535, abs=1e-6)
    coloured = images_of(frame, Image(shape=(3, 8, 8)))
    assert coloured == pytest.approx(np.stack([deep / 65535] * 3), abs=1e-6)
    small = images_of(frame, Image(shape=(1, 4, 4)))
    assert small.mean() == pytest.approx(0.5, abs=0.02)
    assert small.std() > 0.2
    frame["photo"] = pd.Series([image] * 2, dtype=object)  # the same as images of Pillow
    assert images_of(frame, "image") == pytest.approx(deep[None] / 65535, abs=1e-6)


@pytest.mark.parametrize("kind", ["image", Image(shape=(1, 8, 8))])
def test_files_of_floats_or_more_than_16_bits_are_refused_by_column(tmp_path, kind):
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(np.full((8, 8), 0.5, dtype=np.float32)).save(tmp_path / "floats.tiff")
    pillow.fromarray(np.full((8, 8), 70000, dtype=np.int32)).save(tmp_path / "wide.tiff")
    for name, told in {"floats": "floats of no known range", "wide": "outside 0 … 65535"}.items():
        frame = pd.DataFrame({"photo": [str(tmp_path / f"{name}.tiff")] * 2})
        with pytest.raises(TableError, match=f"column 'photo' .*{told}.*save it with 8 or 16 bits"):
            Table.fit(frame, schema={"photo": kind})


def test_the_command_line_refuses_images_before_it_fits(tmp_path, monkeypatch):
    frame, _ = filed(12, tmp_path)
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr(VSAEImputer, "fit", None)
    for asked in ("image", {"kind": "image", "shape": [1, 8, 8]}):
        (tmp_path / "s.json").write_text(json.dumps({"photo": asked}))
        for command, extra in {"impute": "out.csv", "fit": "out"}.items():
            out = tmp_path / extra
            arguments = [command, tmp_path / "t.csv", "--schema", tmp_path / "s.json", "-o", out]
            result = CliRunner().invoke(app, [str(each) for each in arguments])
            assert result.exit_code == 1
            assert result.stderr.strip().splitlines() == [
                "vsae: column 'photo': images cannot be written back to a file; use VSAEImputer in Python"
            ]
            assert not out.exists()


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_files_take_no_images(tmp_path, name):
    frame, laid = filed(12, tmp_path)
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = read_table(tmp_path / "t.csv")
    filled = {**source.data, "photo": pd.Series(list(laid), dtype=object).to_numpy()}
    with pytest.raises(FileError, match="column 'photo' holds images"):
        source.write(tmp_path / name, filled)
    with pytest.raises(FileError, match="column 'photo' holds images"):
        write_table(tmp_path / name, filled)
    assert not (tmp_path / name).exists()


def test_the_example_imputes_in_both_directions(capsys):
    path = Path(__file__).parents[2] / "examples" / "table_with_images.py"
    errors = runpy.run_path(str(path))["main"](rows=200, config={**SMALL, "steps": 250, "shrinkage": False})
    assert "error of missing cells" in capsys.readouterr().out
    for name, (ours, trivial) in errors.items():
        assert ours < trivial, name


def test_a_shape_may_be_a_list_and_has_three_sizes():
    assert Image(shape=[1, 8, 8]).shape == (1, 8, 8)  # type: ignore[arg-type]
    for shape in ((8, 8), (1, 0, 8)):
        with pytest.raises(TableError, match="channels, height, width"):
            Image(shape=shape)  # type: ignore[arg-type]


def test_a_filled_column_of_paths_can_be_read_again(tmp_path):
    frame, _ = filed(30, tmp_path)
    imputer = VSAEImputer(schema=AS_IMAGE, config=QUICK).fit(frame)
    filled = imputer.transform(frame)
    assert {type(cell) for cell in filled["photo"]} == {str, np.ndarray}
    pd.testing.assert_frame_equal(imputer.transform(filled), filled)
    assert "image" in str(Table.fit(filled))
    filled.loc[1, "photo"] = "no image at all"
    with pytest.warns(DataWarning, match="images, and text that is not the path of one"):
        assert Table.fit(filled).plans[1].kind is None  # nobody said that these are images
    with pytest.raises(TableError, match="'photo' holds the path 'no image at all', where there is no file"):
        imputer.transform(filled)


def test_colours_of_a_palette_are_looked_up():
    pillow = pytest.importorskip("PIL.Image")
    red = pillow.new("RGB", (8, 8), (200, 0, 0))
    frame = pd.DataFrame({"photo": pd.Series([red.quantize(4), red], dtype=object)})
    encoded = Table.fit(frame).encode(frame).columns["photo"]
    np.testing.assert_array_equal(encoded[0], encoded[1])


@pytest.mark.parametrize("kind", ["categorical", "real", "ordinal"])
def test_images_are_no_levels_and_no_numbers(kind):
    frame, _ = squares(30)
    with pytest.raises(TableError, match="column 'photo' holds images; use image or keep"):
        Table.fit(frame, schema={"photo": kind})


# --- files that come from anyone


@pytest.mark.parametrize(
    "content",
    [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(x) print\n", b"P5 8 8 255\n" + bytes(64), b"GIF89a", b""],
)
def test_only_formats_of_pixels_are_read_whatever_the_name(tmp_path, monkeypatch, content):
    pytest.importorskip("PIL.Image")
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("a program was run"))
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(TableError, match=r"column 'photo' .*which Pillow cannot open"):
        Table.fit({"photo": np.array([str(tmp_path / "x.png")] * 3, dtype=object)}, schema=AS_IMAGE)


def png_of(width: int, height: int) -> bytes:
    """The header of a picture that says how large it is, and no more."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = (header, b"IDAT" + zlib.compress(b""), b"IEND")
    chunks = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_a_picture_that_says_it_is_huge_is_refused_before_it_is_decoded(tmp_path):
    pytest.importorskip("PIL.Image")
    (tmp_path / "bomb.png").write_bytes(png_of(13_000, 13_000))
    with pytest.raises(TableError, match=r"bomb.png', of 13000×13000 pixels \(make it smaller\)"):
        Table.fit({"photo": np.array([str(tmp_path / "bomb.png")], dtype=object)}, schema={"photo": Image((1, 8, 8))})


def test_a_column_of_files_has_the_median_size_of_the_first(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    paths = []
    for i, side in enumerate((300, 8, 8, 9, 8)):
        paths.append(str(tmp_path / f"{i}.png"))
        pillow.fromarray(np.zeros((side, side + 2), dtype=np.uint8)).save(paths[-1])
    table = Table.fit({"photo": np.array(paths, dtype=object)}, schema=AS_IMAGE)
    assert table.plans[0].shape == (1, 8, 10)
    pillow.fromarray(np.zeros((2000, 2000), dtype=np.uint8)).save(paths[0])
    with pytest.raises(TableError, match=r"1×2000×2000 pixels, too many to model \(say Image"):
        Table.fit({"photo": np.array(paths[:1], dtype=object)}, schema=AS_IMAGE)


@pytest.mark.parametrize("shape", [5, "abc", (1, 2), (1, 2, float("inf")), (1, 10**6, 10**6), (1, 0, 1)])
def test_a_shape_that_is_none_is_one_line(shape):
    with pytest.raises(TableError, match="give \\(channels, height, width\\)"):
        Image(shape=shape)
