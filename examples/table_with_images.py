"""A table whose rows have numbers, a category and an image, each sometimes missing; imputed in both directions.

A row is a plant: its height, its age, its species, and a photo, 24 × 24 grey pixels, drawn here. The crown has the form
of the species, grows with the height, and lightens with age. So a photo tells the numbers and the species, and these
tell what the photo looks like.

Run it with `python examples/table_with_images.py`; it takes about a minute and a half on one core.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from vsae import VSAEImputer

SIDE = 24
SPECIES = ("round", "square", "cross")


def photo(height: float, age: float, species: str, rng: np.random.Generator) -> np.ndarray:
    """A crown on a dark ground, (24, 24) bytes, somewhere near the middle."""
    down, right = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2 - rng.normal(0.0, 0.5, size=(2, 1, 1))
    down, right, reach = np.abs(down), np.abs(right), 2.5 + 0.7 * height
    crown = {
        "round": np.hypot(down, right) < reach,
        "square": np.maximum(down, right) < 0.9 * reach,
        "cross": (np.minimum(down, right) < 0.35 * reach) & (np.maximum(down, right) < 1.1 * reach),
    }[species]
    light = 0.25 + 0.07 * age
    return np.clip(255 * (light * crown + rng.normal(0.0, 0.03, crown.shape)), 0, 255).astype(np.uint8)


def plants(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Nothing missing."""
    height, age = rng.uniform(1.0, 10.0, n), rng.uniform(0.0, 9.0, n)
    species = rng.choice(SPECIES, n)
    photos = [photo(*row, rng) for row in zip(height, age, species, strict=True)]
    return pd.DataFrame({"height": height, "age": age, "species": species, "photo": pd.Series(photos, dtype=object)})


def with_missing(complete: pd.DataFrame, rate: float, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """The table with missing cells, and which these are."""
    missing = rng.random(complete.shape) < rate
    table = complete.copy()
    for j, name in enumerate(table.columns):
        table[name] = table[name].where(~missing[:, j], None if table[name].dtype == object else np.nan)
    return table, missing


def stacked(photos: pd.Series) -> np.ndarray:
    return np.stack([np.asarray(each, dtype=np.float64) for each in photos]) / 255


def errors(truth: pd.DataFrame, filled: pd.DataFrame, missing: np.ndarray) -> dict[str, float]:
    """Root mean squared errors of numbers and pixels, and the share of species that are wrong; of missing cells."""
    out = {}
    for j, name in enumerate(truth.columns):
        x, y = truth[name][missing[:, j]], filled[name][missing[:, j]]
        if name == "species":
            out[name] = float((x != y).mean())
        elif name == "photo":
            out[name] = float(np.sqrt(((stacked(x) - stacked(y)) ** 2).mean()))
        else:
            out[name] = float(np.sqrt(((x - y) ** 2).mean()))
    return out


def trivial(table: pd.DataFrame) -> pd.DataFrame:
    """Means, the commonest species, the mean photo, in every row."""
    mean_photo = stacked(table["photo"].dropna()).mean(axis=0) * 255
    return pd.DataFrame(
        {
            "height": table["height"].mean(),
            "age": table["age"].mean(),
            "species": table["species"].mode()[0],
            "photo": pd.Series([mean_photo] * len(table), dtype=object),
        }
    )


def main(rows: int = 1500, **options: object) -> dict[str, tuple[float, float]]:
    """Fit, fill, print; per column the error and that of the trivial estimate."""
    rng = np.random.default_rng(0)
    complete = plants(rows, rng)
    table, missing = with_missing(complete, 0.3, rng)
    imputer = VSAEImputer(random_state=0, **options).fit(table)  # photos are recognised; paths of files need "image"
    print(imputer.schema_)
    ours = errors(complete, imputer.transform(table), missing)
    theirs = errors(complete, trivial(table), missing)
    print(f"\n{'error of missing cells':<24}{'vsae':>8}{'mean / mode':>14}")
    for name, error in ours.items():
        print(f"{name:<24}{error:>8.3f}{theirs[name]:>14.3f}")

    print("\nfrom a photo alone, and what it shows:")
    seen = plants(3, rng)
    only_photo = seen.assign(height=np.nan, age=np.nan, species=None)
    print(pd.concat({"imputed": imputer.transform(only_photo), "true": seen}, axis=1).drop(columns="photo", level=1))
    print("\nfrom numbers and species alone, a photo (· dark, # light):")
    painted = imputer.transform(pd.DataFrame({"height": [3.0, 9.0], "age": [8.0, 4.0], "species": ["square", "round"]}))
    for line in np.concatenate([each[::2] for each in painted["photo"]], axis=1):
        print("".join("·▒#"[min(int(pixel) // 64, 2)] for pixel in line))
    return {name: (ours[name], theirs[name]) for name in ours}


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
