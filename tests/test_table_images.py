"""Pictures in tables: arrays, Pillow's images and paths of files, in pandas and in dicts, read and given back."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from test_images import SMALL
from vsae import Image, VSAEImputer, load
from vsae.table import Table, TableError

QUICK = {**SMALL, "steps": 10}


def squares(n: int, layout: str = "HW", dtype: str = "uint8", seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A number, and a picture of 8 × 8 pixels that is as light as it; every third picture is missing."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    light = np.rint(200 * x).astype(np.uint8)[:, None, None] * np.ones((8, 8), dtype=np.uint8)
    light = light if dtype == "uint8" else (light / 255).astype(dtype)
    laid = {"HW": light, "HWC": np.repeat(light[..., None], 3, -1), "CHW": np.repeat(light[:, None], 3, 1)}[layout]
    pictures = [None if i % 3 == 0 else picture for i, picture in enumerate(laid)]
    return pd.DataFrame({"x": x, "picture": pd.Series(pictures, dtype=object)}), laid


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_pictures_are_recognised_and_come_back_in_their_layout(layout, dtype):
    frame, laid = squares(30, layout, dtype)
    table = Table.fit(frame)
    assert "image" in str(table)
    encoded = table.encode(frame)
    assert encoded.columns["picture"].shape == (30, 1 if layout == "HW" else 3, 8, 8)
    assert np.array_equal(encoded.mask[:, 1], np.arange(30) % 3 > 0)
    back = table.decode(frame, encoded.columns)
    assert back["picture"][0].shape == laid[0].shape
    assert back["picture"][0].dtype == laid.dtype
    assert back["picture"][1] is frame["picture"][1]
    again = Table.from_json(table.to_json())
    assert again.schema == table.schema
    assert np.array_equal(again.encode(frame).columns["picture"], encoded.columns["picture"])


def test_an_imputer_fills_pictures_and_what_they_tell(tmp_path):
    frame, _ = squares(200)
    frame.loc[1::4, "x"] = np.nan
    imputer = VSAEImputer(config={**SMALL, "steps": 150}, random_state=0).fit(frame)
    filled = imputer.transform(frame)
    assert filled["picture"].map(lambda x: x.shape == (8, 8)).all()
    truth, laid = squares(200)
    holes = [i for i in range(0, 200, 3) if i % 4 != 1]
    error = np.mean([(filled["picture"][i] / 255 - laid[i] / 255) ** 2 for i in holes])
    assert error < 0.3 * np.var(laid / 255)
    known = frame["x"].isna() & frame["picture"].notna()
    assert ((filled["x"] - truth["x"])[known] ** 2).mean() < 0.3 * truth["x"].var()
    imputer.save(tmp_path / "model")
    same = load(tmp_path / "model").transform(frame)
    assert all(np.array_equal(a, b) for a, b in zip(filled["picture"], same["picture"], strict=True))
    assert imputer.sample(4)["picture"].map(lambda x: x.shape == (8, 8)).all()
    assert len(imputer.draw(frame, 2)) == 2
    with pytest.raises(TableError, match="column 'picture' holds pictures, which can not be given"):
        imputer.sample(2, given={"picture": np.zeros((8, 8))})


def test_a_dict_may_hold_a_stack_or_a_list_of_pictures():
    frame, laid = squares(30)
    for pictures in (laid, list(frame["picture"])):
        columns = {"x": frame["x"].to_numpy(), "picture": pictures}
        filled = VSAEImputer(config=QUICK, random_state=0).fit_transform(columns)
        assert filled["picture"].shape == (30,)
        assert filled["picture"][0].shape == (8, 8)


def test_paths_are_opened_and_resized(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    frame, laid = squares(24)
    paths = [str(tmp_path / f"{i}.png") for i in range(len(frame))]
    for path, picture in zip(paths, laid, strict=True):
        pillow.fromarray(picture).resize((20, 12)).save(path)
    frame["picture"] = [None if i % 3 == 0 else path for i, path in enumerate(paths)]
    imputer = VSAEImputer(schema={"picture": Image(shape=(1, 8, 8))}, config=QUICK, random_state=0)
    filled = imputer.fit_transform(frame)
    assert filled["picture"][1] == paths[1]
    assert filled["picture"][0].shape == (8, 8)
    assert filled["picture"][0].dtype == np.uint8
    whole = VSAEImputer(schema={"picture": "image"}, config=QUICK, random_state=0).fit(frame)
    assert whole.schema_.schema.variables[1].shape == (1, 12, 20)
    frame.loc[1, "picture"] = str(tmp_path / "gone.png")
    with pytest.raises(TableError, match=r"column 'picture' holds the path '.*gone.png', where there is no file"):
        imputer.transform(frame)


def test_pillows_images_are_pictures():
    pillow = pytest.importorskip("PIL.Image")
    frame, _ = squares(12)
    frame["picture"] = pd.Series([None if x is None else pillow.fromarray(x) for x in frame["picture"]], dtype=object)
    filled = VSAEImputer(config=QUICK, random_state=0).fit_transform(frame)
    assert filled["picture"][0].shape == (8, 8)


def test_what_is_no_picture_is_told_by_column():
    frame, _ = squares(12)
    frame.at[2, "picture"] = np.zeros((5, 5), dtype=np.uint8)
    with pytest.raises(TableError, match=r"column 'picture' holds a picture of 1×5×5 among those of 1×8×8"):
        Table.fit(frame)
    with pytest.raises(TableError, match="column 'x' as image holds"):
        Table.fit(frame[["x"]], schema={"x": "image"})


def test_a_container_without_room_for_pictures_says_so():
    frame, laid = squares(12)
    table = Table.fit({"x": frame["x"].to_numpy(), "picture": laid})
    polars = pl.DataFrame({"x": frame["x"].to_numpy(), "picture": [None] * 12})
    with pytest.raises(TableError, match="use pandas or a dict of columns"):
        table.decode(polars, table.encode(polars).columns)


def test_the_example_imputes_in_both_directions(capsys):
    path = Path(__file__).parents[1] / "examples" / "table_with_images.py"
    errors = runpy.run_path(str(path))["main"](rows=200, config={**SMALL, "steps": 150, "trust": False})
    assert "error in the holes" in capsys.readouterr().out
    for name, (ours, trivial) in errors.items():
        assert ours < trivial, name
