"""Print one hash for each output of a few small fits with fixed seeds: two checkouts that print the same agree.

Bit for bit, on one machine with one version of torch; another machine may round otherwise.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import vsae
from benchmarks import options
from vsae import Schema
from vsae.data.schema import categorical, image, vector
from vsae.datasets import make_clinic

Outputs = Iterator[tuple[str, NDArray[Any]]]


def numbers() -> Any:
    """Numbers that depend on each other, one of them skewed and one mostly zero, with missing cells."""
    import pandas as pd

    rng = np.random.default_rng(0)
    x = rng.normal(size=250)
    frame = pd.DataFrame(
        {
            "x": x,
            "y": x + 0.15 * rng.normal(size=250),
            "z": 0.3 * x + rng.normal(size=250),
            "w": np.exp(x + 0.3 * rng.normal(size=250)).round(2),
            "zero": np.where(rng.random(250) < 0.6, 0.0, np.round(10 * x * x, 1)),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.25)


def of_table(frame: Any, **settings: Any) -> Outputs:
    """Of a DataFrame, through the estimator."""
    imputer = vsae.VSAEImputer(random_state=0, **settings).fit(frame)
    yield "impute", _cells(imputer.transform(frame))
    yield "draw", np.concatenate([_cells(table) for table in imputer.draw(frame, 5)])
    yield "interval", np.concatenate([_cells(table) for table in imputer.predict_interval(frame)])
    yield "sample", _cells(imputer.sample(60, with_missing=True))
    yield "sample given", _cells(imputer.sample(40, given={frame.columns[2]: frame.iloc[0, 2]}))
    yield "embed", np.asarray(imputer.embed(frame))
    yield "missing probability", np.asarray(imputer.missing_probability(frame))


def _cells(frame: Any) -> NDArray[np.str_]:
    return np.array([frame[name].astype(str).to_list() for name in frame.columns])


def of_modalities(config: vsae.VSAEConfig) -> Outputs:
    """Of images, labels and vectors, through `vsae.fit`."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 120)
    columns = {
        "pic": np.clip(0.3 * rng.random((120, 1, 8, 8)) + labels[:, None, None, None] / 3, 0, 1),
        "label": labels,
        "v": labels[:, None] + rng.normal(size=(120, 4)),
    }
    mask = rng.random((120, 3)) < 0.7
    mask[~mask.any(axis=1), 0] = True
    schema = Schema([image("pic", (1, 8, 8)), categorical("label", 3), vector("v", 4)])
    fitted = vsae.fit(schema, columns, mask, config, seed=3)
    rows, drawn_mask = fitted.generate(30, seed=2)
    tables = {"impute": fitted.impute(columns, mask), "generate": rows}
    tables |= {f"draw {i}": table for i, table in enumerate(fitted.draw(columns, mask, 3, seed=1))}
    yield "mask", drawn_mask
    yield from ((f"{what} {name}", x) for what, table in tables.items() for name, x in table.items())


def outputs() -> Outputs:
    small = vsae.VSAEConfig(steps=40, members=2, latent_dim=3, channels=4, prior_covariance="own")
    paper = vsae.VSAEConfig.paper(epochs=3, e_step_warmup=1, e_step_samples=5, latent_dim=4)
    fits = {
        "clinic": of_table(make_clinic(300).frame(), effort="fast"),
        "numbers": of_table(numbers()),
        "modalities": of_modalities(small),
        "paper": of_modalities(paper),
    }
    for fit, found in fits.items():
        yield from ((f"{fit}/{name}", x) for name, x in found)


def sha256(x: NDArray[Any]) -> str:
    """
    >>> sha256(np.zeros(2)) == sha256(np.zeros((2, 1)))
    False
    """
    return hashlib.sha256(f"{x.dtype.str} {x.shape} ".encode() + np.ascontiguousarray(x).tobytes()).hexdigest()


def main(arguments: Sequence[str]) -> None:
    parser = options.parser_of("fingerprint", __doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="Keep the outputs themselves in this .npz file too.")
    o = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the fits say of their small tables
        for name, x in outputs():
            found[name] = x
            print(f"{sha256(x)}  {name}", flush=True)
    if o.out:
        np.savez(o.out, **found)  # type: ignore[arg-type]
