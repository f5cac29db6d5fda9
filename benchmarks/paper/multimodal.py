"""The paper's multi-modal experiments: sets with whole modalities missing, scored on the hidden cells of the test part.

Errors are squared errors of pixels in [0, 1] or of vectors in standard units of the training rows, or shares of wrong
labels; over all hidden cells, and over those that have another modality given (without one, nothing beats a constant).
Pairs of digits are also classified: does a single draw of the hidden digit show the right one, and do generated pairs
add up to 9?
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.paper import tuned_ridge
from benchmarks.paper.digits import digit_classifier
from benchmarks.paper.methods import DEFAULT, PAPER, PAPERS, fitted_by, training_record
from benchmarks.paper.png import as_bytes
from benchmarks.store import Row
from vsae import FittedVSAE, Kind, VSAEConfig
from vsae.baselines import BASELINES
from vsae.data.missingness import MCAR
from vsae.data.randomness import private_rng
from vsae.data.schema import DISCRETE
from vsae.datasets import Modalities, load_modalities
from vsae.datasets.modalities import DIGITS
from vsae.fitting.baseline import baseline_config, parameters
from vsae.fitting.fitted import FittedModel
from vsae.fitting.presets import config_for
from vsae.model.config import NetShape

TRIVIAL, ORACLE = "mean / mode", "class mean"
TUNED = "ridge, tuned on the test part"  # of vectors; see tuned_ridge.py
RIVALS = tuple(name for name in PAPERS if name != "MIWAE")
FLAT = f"{DEFAULT}, flat networks"  # as the paper's and the baselines' are: is it the recipe, or are it convolutions?
METHODS = (TRIVIAL, ORACLE, TUNED, *RIVALS, PAPER, FLAT, DEFAULT)
ONLY_IMAGES, ONLY_VECTORS = (ORACLE, FLAT), (TUNED,)  # methods that mean something for them alone
SHOWN_METHODS = (PAPER, DEFAULT)  # whose images the page shows, of the first seed at this rate
SHOWN_RATE, SHOWN_SEED = 0.5, 0
SETS = ("mnist+mnist", "fashion", "mosi")
OF_VECTORS = ("mosi",)
GENERATED = 5000  # rows
SHOWN, SHOWN_DRAWS = 10, 6  # rows and draws on the page
_STREAM = 77  # of the masks' random numbers

#: The `paper` preset for images: wider latents, a slower Adam; the rest is ours, as the paper says nothing of it.
_WIDE = NetShape(width=128, depth=3)
PAPER_IMAGES: dict[str, Any] = {
    "latent_dim": 256, "attributive": _WIDE, "collective": _WIDE, "mask_net": _WIDE, "data_net": _WIDE,
    "learning_rate": 1e-4, "batch_size": 128, "epochs": 60, "patience": 10, "validation_share": 0.1, "e_step_warmup": 5,
}  # fmt: skip
#: No numbers here: what is learned of numbers from all rows at once is left out.
_WITHOUT_NUMBERS: dict[str, Any] = {"features": "plain", "gaussian": False}


@dataclass(frozen=True, eq=False)
class Task:
    """One set with missing cells: fitted on the first part, scored on the second."""

    train: Modalities
    test: Modalities
    train_mask: NDArray[np.bool_]
    test_mask: NDArray[np.bool_]
    rate: float
    seed: int

    @classmethod
    def of(cls, name: str, rate: float, seed: int) -> Task:
        train, test = load_modalities(name, "train", seed=seed), load_modalities(name, "test", seed=seed)
        rng = np.random.default_rng([_STREAM, seed])
        seen, seen_test = (MCAR(rate).sample(np.zeros((len(p), len(p.schema))), rng) for p in (train, test))
        return cls(train, test, seen, seen_test, rate, seed)

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """(n, M): hidden cells of test rows that have nothing given."""
        return ~self.test_mask & ~self.test_mask.any(axis=1, keepdims=True)

    def errors(self, filled: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
        """Per attribute, over all hidden cells and over those with something given."""
        out: dict[str, dict[str, Any]] = {}
        for i, variable in enumerate(self.test.schema.variables):
            cells = self._cell_errors(variable.name, filled[variable.name])
            hidden = ~self.test_mask[:, i]
            out[variable.name] = {
                "measure": "pfc" if variable.family in DISCRETE else "mse",
                "all": float(cells[hidden].mean()),
                "given": float(cells[hidden & ~self.alone[:, i]].mean()),
            }
        return out

    def _cell_errors(self, name: str, filled: NDArray[Any]) -> NDArray[np.float64]:
        truth, variable = self.test.columns[name], {v.name: v for v in self.test.schema.variables}[name]
        if variable.family in DISCRETE:
            return (filled != truth).astype(np.float64)
        if variable.kind is Kind.IMAGE:
            difference = (filled.astype(np.float32) - truth.astype(np.float32)) / 255
        else:
            difference = (filled - truth) / self.train.columns[name].std(axis=0)
        return np.square(difference).reshape(len(truth), -1).mean(axis=1).astype(np.float64)


def means_something(method: str, name: str) -> bool:
    """
    >>> means_something(TUNED, "mosi"), means_something(TUNED, "fashion"), means_something(ORACLE, "mosi")
    (True, False, False)
    """
    return method not in (ONLY_IMAGES if name in OF_VECTORS else ONLY_VECTORS)


def run_method(method: str, task: Task, device: str | None = None, changes: Mapping[str, Any] | None = None) -> Row:
    """Fit and score a method on a task; `changes` to its settings are for quick tests."""
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    if method in (TRIVIAL, ORACLE):
        return {"errors": _constant_errors(task, by_class=method == ORACLE), "seconds": 0.0}
    if method == TUNED:
        parts = task.train.columns, task.test.columns, task.train_mask, task.test_mask
        return {"errors": task.errors(tuned_ridge.filled(*parts)), "seconds": 0.0}
    schema = task.train.schema
    with_images = any(v.kind is Kind.IMAGE for v in schema.variables)
    config = _config(method, task, with_images).replace(**(changes or {}))
    began = time.perf_counter()
    fitted = fitted_by(method, schema, task.train.columns, task.train_mask, config, task.seed, device)
    row: Row = {
        "seconds": time.perf_counter() - began,
        "errors": task.errors(fitted.impute(task.test.columns, task.test_mask)),
        "settings": config.to_json(), "parameters": parameters(fitted.model), **training_record(fitted),
    }  # fmt: skip
    if task.train.name == "mnist+mnist":
        row["coherence"] = coherence(fitted, task)
    if with_images and method in SHOWN_METHODS and (task.rate, task.seed) == (SHOWN_RATE, SHOWN_SEED):
        row |= gallery(fitted, task)
    return row


def _config(method: str, task: Task, with_images: bool) -> VSAEConfig:
    schema = task.train.schema
    if method in (DEFAULT, FLAT):
        network = "flat" if method == FLAT else "conv"
        return config_for(schema, len(task.train), **_WITHOUT_NUMBERS, image_net=network)
    config = VSAEConfig.paper(**PAPER_IMAGES if with_images else {})
    return config if method == PAPER else baseline_config(BASELINES[method], schema, config)


def generated(fitted: FittedModel[Any], rows: int, seed: int) -> dict[str, NDArray[Any]] | None:
    """New rows from any model that has a prior to draw them from."""
    if isinstance(fitted, FittedVSAE):
        return fitted.generate(rows, seed=seed)[0]
    with private_rng(seed, fitted.device), torch.no_grad():
        data = fitted.model.generate(rows)
        if data is None:
            return None
        return fitted.encoding.decode({name: x.sample()[0].cpu().numpy() for name, x in data.items()})


def coherence(fitted: FittedModel[Any], task: Task) -> dict[str, float | None]:
    """By the digit classifier: single draws of the hidden digit, given the other; and generated pairs."""
    classifier, accuracy = digit_classifier(fitted.device)
    found: dict[str, float | None] = {"accuracy": accuracy}
    drawn = fitted.draw(task.test.columns, task.test_mask, 1, seed=task.seed)[0]
    assert task.test.classes is not None
    right = []
    for i, (name, digit) in enumerate(zip(DIGITS, (task.test.classes, 9 - task.test.classes), strict=True)):
        asked = ~task.test_mask[:, i] & ~task.alone[:, i]
        right.append(classifier.predict(drawn[name][asked]) == digit[asked])
        found[f"draws_{name}"] = float(right[-1].mean())
    found["draws"] = float(np.concatenate(right).mean())
    rows = generated(fitted, GENERATED, task.seed)
    if rows is None:
        return found | {"pairs": None, "digits": None}
    read = [classifier.predict(rows[name]) for name in DIGITS]
    found["pairs"] = float((read[0] + read[1] == 9).mean())
    share = np.bincount(np.concatenate(read), minlength=10) / (2 * len(read[0]))
    found["digits"] = float(np.exp(-(share[share > 0] * np.log(share[share > 0])).sum()))  # how many, in effect; of 10
    return found


def gallery(fitted: FittedModel[Any], task: Task) -> Row:
    """For the page: the first rows with one modality hidden and the other given, and generated rows.

    `images` are (rows, columns, H, W) under names such as digit1/given/digit2, digit1/truth and generated/digit1;
    `labels` are the codes that were given with an image, or generated with them.
    """
    shown: dict[str, NDArray[np.uint8]] = {}
    labels: dict[str, list[int]] = {}
    columns = {n: x[:SHOWN] for n, x in task.test.columns.items()}
    for name in (v.name for v in task.test.schema.variables if v.kind is Kind.IMAGE):
        mask = np.ones((SHOWN, len(task.test.schema)), dtype=bool)
        mask[:, task.test.schema.attribute_of[name]] = False
        draws = [table[name][:, 0] for table in fitted.draw(columns, mask, SHOWN_DRAWS, seed=0)]
        mean = fitted.impute(columns, mask)[name][:, 0]
        for other, x in columns.items():
            if x.ndim == 1:
                labels[name] = x.tolist()
            elif other != name:
                shown[f"{name}/given/{other}"] = as_bytes(x)
        shown[f"{name}/truth"] = as_bytes(columns[name])
        shown[f"{name}/mean"] = as_bytes(mean[:, None])
        shown[f"{name}/draws"] = as_bytes(np.stack(draws, axis=1))
    for name, x in (generated(fitted, 2 * SHOWN, seed=0) or {}).items():
        if x.ndim == 1:
            labels["generated"] = x.tolist()
        else:
            shown[f"generated/{name}"] = as_bytes(x)
    return {"images": shown, "labels": labels}


def _constant_errors(task: Task, by_class: bool) -> dict[str, dict[str, Any]]:
    """Means and modes of what the training rows show; by class, where something tells a test row's class.

    The class is the digit pair or the label: with it in hand, no image of the other modality has a lower error than
    the mean of its class, as style is drawn independently. For labels and vectors there is no such thing.
    """
    filled: dict[str, NDArray[Any]] = {}
    for i, variable in enumerate(task.train.schema.variables):
        x, seen = task.train.columns[variable.name], task.train_mask[:, i]
        if variable.family in DISCRETE:
            filled[variable.name] = np.full(len(task.test), np.bincount(x[seen]).argmax())
            continue
        rows = np.broadcast_to(x[seen].mean(axis=0), task.test.columns[variable.name].shape).copy()
        if (
            by_class
            and variable.kind is Kind.IMAGE
            and task.train.classes is not None
            and task.test.classes is not None
        ):
            for k in np.unique(task.train.classes):
                told = (task.test.classes == k) & task.test_mask.any(axis=1)
                rows[told] = x[seen & (task.train.classes == k)].mean(axis=0)
        filled[variable.name] = rows
    errors = task.errors(filled)
    if by_class:
        images = {v.name for v in task.train.schema.variables if v.kind is Kind.IMAGE}
        errors = {name: error for name, error in errors.items() if name in images}
    return errors


def in_words(row: Row) -> str:
    errors = ", ".join(
        f"{name} {e['measure'].upper()} {e['given']:.4f} given others, {e['all']:.4f} in all"
        for name, e in row["errors"].items()
    )
    read = row.get("coherence") or {}
    pairs = "–" if read.get("pairs") is None else f"{read['pairs']:.1%}"
    said = f"; draws right {read['draws']:.1%}, pairs {pairs}" if read else ""
    return f"{errors}{said}; {row['seconds']:.0f} s"
