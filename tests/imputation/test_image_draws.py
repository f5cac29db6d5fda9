"""Drawn images look like images, not like their mean, and belong to the rest of their row."""

from __future__ import annotations

import numpy as np
import pytest

from vsae.data.schema import Schema, categorical, image
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedVSAE
from vsae.fitting.presets import config_for

SIDE = 8
SCHEMA = Schema([image("picture", (1, SIDE, SIDE)), categorical("place", 2), image("negative", (1, SIDE, SIDE))])


def stripes(n: int, seed: int):
    """A bar in the left or in the right half, at any of four columns of it; and the same picture in negative."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 2, n)
    column = 4 * place + rng.integers(0, 4, n)
    pixels = np.zeros((n, 1, SIDE, SIDE), dtype=np.float32)
    pixels[np.arange(n), 0, :, column] = 1.0
    return {"picture": pixels, "place": place, "negative": 1 - pixels}


@pytest.fixture(scope="module")
def fitted() -> FittedVSAE:
    columns = stripes(800, 0)
    mask = np.random.default_rng(1).random((800, 3)) < 0.8
    config = config_for(SCHEMA, 800, steps=400, channels=8, image_features=32, latent_dim=6)
    return fit(SCHEMA, columns, mask, config)


def brightest(pictures: np.ndarray) -> np.ndarray:
    return pictures.mean(axis=(1, 2)).argmax(axis=1)


def hide(*names: str, rows: int) -> np.ndarray:
    mask = np.ones((rows, 3), dtype=bool)
    mask[:, [SCHEMA.names.index(name) for name in names]] = False
    return mask


def test_draws_differ_as_images_do_and_stay_in_their_place(fitted):
    new = stripes(200, 2)
    mask = hide("picture", "negative", rows=200)
    drawn = np.stack([table["picture"] for table in fitted.draw(new, mask, 6)])
    right = np.stack([brightest(x) // 4 == new["place"] for x in drawn])
    assert right.mean() > 0.9
    assert drawn.std(axis=0).mean() > 0.15  # of pixels: four places are possible
    blurred = fitted.impute(new, mask)["picture"]
    assert drawn.max(axis=(2, 3, 4)).mean() > blurred.max(axis=(1, 2, 3)).mean() + 0.1  # a bar, not the mean of four


def test_images_missing_together_belong_together(fitted):
    table = fitted.draw(stripes(200, 3), hide("picture", "place", "negative", rows=200), 1)[0]
    same = brightest(table["picture"]) == brightest(1 - table["negative"])
    assert same.mean() > 0.6  # 1/8 by chance
    assert (brightest(table["picture"]) // 4 == table["place"]).mean() > 0.85
    assert len(np.unique(brightest(table["picture"]))) >= 6


def test_what_is_given_stays_and_bytes_stay_bytes(fitted):
    new = {name: np.rint(255 * x).astype(np.uint8) if x.ndim > 1 else x for name, x in stripes(30, 4).items()}
    mask = np.random.default_rng(0).random((30, 3)) < 0.5
    tables = fitted.draw(new, mask, 2, seed=5)
    for table in tables:
        assert table["picture"].dtype == np.uint8
        for j, name in enumerate(SCHEMA.names):
            np.testing.assert_array_equal(table[name][mask[:, j]], new[name][mask[:, j]])
    again = fitted.draw(new, mask, 2, seed=5)
    assert all(np.array_equal(a[name], b[name]) for a, b in zip(tables, again, strict=True) for name in SCHEMA.names)
