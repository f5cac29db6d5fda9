"""The same row, the same value: alone, among others, in another order, on one or two threads (docs/decisions/0016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from conftest import every_kind, rows_of
from vsae.baselines import METHODS, method_named
from vsae.data.encoding import Encoding
from vsae.datasets import make_clinic
from vsae.fitting.baseline import fit_baseline
from vsae.fitting.fit import fit
from vsae.fitting.fitted import FittedModel, FittedVSAE
from vsae.fitting.presets import config_for
from vsae.imputation.predictive import predict
from vsae.model.config import NetShape, VSAEConfig
from vsae.model.vsae import VSAE

ROWS = 150
TOLERANCE = 1e-4  # of a column's standard deviation, and of probabilities
CLINIC = make_clinic(ROWS)
ORDERS = {
    "reversed": np.arange(ROWS)[::-1].copy(),
    "shuffled": np.random.default_rng(0).permutation(ROWS),
    "a part": np.arange(37, 91),
    "few": np.arange(3),
    "alone": np.array([11]),
}


@pytest.fixture(scope="module")
def fitted() -> FittedVSAE:
    config = config_for(CLINIC.schema, ROWS, "fast", steps=60)
    return fit(CLINIC.schema, CLINIC.truth, CLINIC.mask, config, seed=0)


def rows_at(at: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    return {name: np.asarray(x)[at] for name, x in CLINIC.truth.items()}, CLINIC.mask[at]


def farthest(found: dict[str, Any], whole: dict[str, Any], at: np.ndarray) -> float:
    """The largest difference of any variable, numbers in standard deviations."""
    off = {}
    for name, x in whole.items():
        unit = 1.0 if x.ndim > 1 else max(float(np.asarray(CLINIC.truth[name], dtype=float).std()), 1e-12)
        off[name] = float(np.abs(found[name] - x[at]).max()) / unit
    return max(off.values())


def test_the_same_table_is_imputed_bit_for_bit(fitted):
    every = np.arange(ROWS)
    first, again = (fitted.estimates(*rows_at(every)) for _ in range(2))
    assert farthest(again, first, every) == 0.0


@pytest.mark.parametrize("order", ORDERS)
def test_a_row_has_the_same_estimates_beside_any_others(fitted, order):
    whole, at = fitted.estimates(*rows_at(np.arange(ROWS))), ORDERS[order]
    found = fitted.estimates(*rows_at(at))
    assert farthest(found, whole, at) < TOLERANCE
    imputed, of_all = fitted.impute(*rows_at(at)), fitted.impute(*rows_at(np.arange(ROWS)))
    for name, share in whole.items():
        if share.ndim > 1:  # levels, where two of them are not as likely
            first, second = np.sort(share[at], axis=1)[:, [-1, -2]].T
            clear = first - second > 2 * TOLERANCE
            np.testing.assert_array_equal(imputed[name][clear], of_all[name][at][clear])


SMALL = VSAEConfig.paper(
    latent_dim=2,
    attributive=NetShape(8, 2),
    collective=NetShape(16, 2),
    mask_net=NetShape(8, 2),
    data_net=NetShape(16, 2),
    epochs=1,
)


def fitted_by(method: str) -> FittedModel[Any]:
    schema = every_kind()
    if method == "paper":
        return fit(schema, *rows_of(schema, 40), SMALL.replace(members=2))
    kind = method_named(method).load()
    return fit_baseline(kind, schema, *rows_of(schema, 40), SMALL.replace(**kind.settings))


@pytest.mark.parametrize("method", ["paper", *METHODS])
def test_by_any_method_a_row_is_imputed_alike_alone_and_among_others(method, monkeypatch):
    monkeypatch.setattr("vsae.baselines.tabcsdi.STEPS", 2)
    model = fitted_by(method)
    columns, mask = rows_of(model.schema, 40)
    whole = model.estimates(columns, mask)
    for at in (slice(7, 8), slice(20, 40)):
        part = model.estimates({name: x[at] for name, x in columns.items()}, mask[at])
        for name, x in whole.items():
            np.testing.assert_allclose(part[name], x[at], rtol=1e-3, atol=1e-4 * max(1.0, float(np.std(x))))


def test_intervals_and_latents_of_a_row_of_the_paper_depend_on_nothing_but_the_row():
    model = fitted_by("paper")
    columns, mask = rows_of(model.schema, 40)
    batch = next(model.chunks(columns, mask, 1))[1]
    one = batch.as_data_set().take(slice(7, 8)).for_members()
    found, alone = (predict(model, rows).numbers["gaussian"] for rows in (batch, one))
    for x, y in zip(found, alone, strict=True):
        torch.testing.assert_close(x[7:8], y, rtol=1e-4, atol=1e-5)
    latents = model.embed({name: x[7:8] for name, x in columns.items()}, mask[7:8])
    np.testing.assert_allclose(model.embed(columns, mask)[7:8], latents, rtol=1e-4, atol=1e-5)


def test_noise_in_missing_cells_is_each_rows_own_in_training_and_its_validation_and_common_in_use():
    schema = every_kind()
    model = VSAE(schema, SMALL)
    columns, mask = rows_of(schema, 20)
    encoded = Encoding.fit(schema, columns, mask).encode(columns, np.zeros_like(mask))
    batch = encoded.take(slice(0, 2)).for_members()  # two rows that show nothing
    for mode, alike in ((model.train, False), (model.eval_in_training, False), (model.eval, True)):
        mode()
        loc = model.propose(batch).collective.loc[0]
        assert torch.allclose(loc[0], loc[1], atol=1e-5) == alike


def test_threads_make_no_difference(fitted):
    every, before = np.arange(ROWS), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        one = fitted.estimates(*rows_at(every))
        torch.set_num_threads(2)
        two = fitted.estimates(*rows_at(every))
    finally:
        torch.set_num_threads(before)
    assert farthest(two, one, every) < TOLERANCE


def differing(draws: Callable[..., Any], at: np.ndarray, ids: np.ndarray, whole: list[dict[str, Any]]) -> float:
    """Share of the missing cells that are not drawn alike; numbers to the tolerance."""
    tables, off, cells = draws(*rows_at(at), len(whole), seed=3, row_ids=ids), 0, 0
    for table, of_all in zip(tables, whole, strict=True):
        for variable in CLINIC.schema.variables:
            missing = ~CLINIC.mask[at, CLINIC.schema.attribute_of[variable.name]]
            both = table[variable.name], of_all[variable.name][at]
            x, y = (np.asarray(part, dtype=float)[missing] for part in both)
            off += int((np.abs(x - y) > TOLERANCE * max(1e-12, np.std(of_all[variable.name]))).sum())
            cells += len(x)
    return off / max(cells, 1)


@pytest.mark.parametrize("order", ORDERS)
def test_the_draws_of_a_row_go_by_its_id(fitted, order):
    whole = fitted.draw(*rows_at(np.arange(ROWS)), 2, seed=3)
    at = ORDERS[order]
    assert differing(fitted.draw, at, at, whole) <= 0.002  # a rank may lie on the edge between two levels
    assert differing(fitted.draw, at, at + ROWS, whole) > 0.3
