"""A fit goes on from another: with more rows, or for longer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from vsae import VSAEImputer, load
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, real
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE
from vsae.table import TableError

FEW = {"steps": 12, "trees": 5, "members": 2}


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    table = pd.DataFrame({"a": a, "b": a + 0.3 * b, "c": np.where(a > 0, "up", "down")}).astype({"c": object})
    return table.mask(rng.random(table.shape) < 0.2)


def imputer(**settings) -> VSAEImputer:
    return VSAEImputer(**{"config": FEW, "random_state": 0, "mechanism": "ignorable", **settings})


def weights(fitted: VSAEImputer) -> torch.Tensor:
    return torch.cat([x.detach().flatten() for x in fitted.fitted_.model.parameters()])


@pytest.fixture(scope="module")
def first() -> VSAEImputer:
    return imputer(config={**FEW, "steps": 80}).fit(rows(80, 1))


def again(first: VSAEImputer, tmp_path, **settings) -> VSAEImputer:
    first.save(tmp_path / "model")
    return load(tmp_path / "model").set_params(**{"config": FEW, "random_state": 0, **settings})


def test_more_rows_after_loading(first, tmp_path):
    more = rows(60, 2)
    more.loc[3, "a"] = 9.0  # farther out than any before
    going_on = again(first, tmp_path).partial_fit(more)
    assert going_on.fitted_on_["rows"] == 140
    assert repr(going_on.schema_) == repr(first.schema_)
    before, after = first.fitted_.encoding, going_on.fitted_.encoding
    assert np.array_equal(before.loc["gaussian"], after.loc["gaussian"])
    assert after.high["gaussian"][0] > before.high["gaussian"][0] + 3
    assert not torch.equal(weights(first), weights(going_on))
    filled = going_on.transform(more)
    assert not filled.isna().any().any()
    assert filled.where(more.notna()).equals(more)


def test_the_first_weights_stay_where_none_become_better(first, tmp_path):
    wild = {**FEW, "learning_rate": 30.0, "refit": 0.0}
    assert torch.equal(weights(again(first, tmp_path, config=wild).partial_fit(rows(60, 2))), weights(first))


def test_warm_start_goes_on_and_a_cold_one_begins_anew(first, tmp_path):
    table, little = rows(80, 1), {**FEW, "steps": 1, "learning_rate": 1e-9, "refit": 0.0}
    warm = again(first, tmp_path, warm_start=True, config=little).fit(table)
    assert torch.allclose(weights(warm), weights(first), atol=1e-6)
    assert warm.fitted_on_["rows"] == 80
    cold = again(first, tmp_path, config=little).fit(table)
    assert not torch.allclose(weights(cold), weights(first), atol=1e-2)


def test_networks_keep_their_sizes_whatever_is_asked(first, tmp_path):
    going_on = again(first, tmp_path, config={"steps": 3, "members": 5, "latent_dim": 9}).partial_fit(rows(60, 2))
    config = going_on.fitted_.model.config
    assert (config.members, config.latent_dim, config.steps) == (2, first.fitted_.model.config.latent_dim, 3)


def test_without_a_fit_it_is_one():
    table = rows(60, 1)
    assert torch.equal(weights(imputer().partial_fit(table)), weights(imputer().fit(table)))


def changed(table: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    table.loc[0, column] = value
    return table


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (rows(40, 2).assign(d=1.0), "column 'd' was not in fit; drop it"),
        (rows(40, 2).drop(columns="b"), "column 'b' is not in this table; add it"),
        (changed(rows(40, 2), "c", "sideways"), "column 'c': 'sideways' was not seen in fit; make such cells missing"),
        (changed(rows(40, 2), "a", np.inf), "column 'a': inf is not finite; make such cells missing"),
        (rows(40, 2)[:0], "0 rows"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_line(first, more, said):
    before = weights(first)
    with pytest.raises(TableError, match=said) as error:
        first.partial_fit(more)
    assert "\n" not in str(error.value)
    assert torch.equal(before, weights(first))


def test_moments_of_two_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3)) @ rng.normal(size=(3, 3)) + [1.0, 2.0, 3.0]
    x[:1000] += [1.0, 0.0, -1.0]  # the first rows are others
    schema, mask = Schema([real("a"), real("b"), real("c")]), np.ones((3000, 3), dtype=bool)
    columns = dict(zip("abc", x.T, strict=True))
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    whole, pooled = (VSAE(schema, VSAEConfig(members=1)) for _ in range(2))
    whole.fit_statistics(data)
    pooled.fit_statistics(data)  # the same features of numbers
    pooled.gaussian.fit(data.take(slice(0, 1000)), pooled.number_features(data.take(slice(0, 1000))))
    pooled.update_statistics(data.take(slice(1000, 3000)), share=2 / 3)
    scale = whole.gaussian.scale
    unit = torch.outer(pooled.gaussian.scale / scale, pooled.gaussian.scale / scale)
    assert torch.allclose(pooled.gaussian.centre, whole.gaussian.centre, atol=0.02)
    assert torch.allclose(pooled.gaussian.covariance * unit, whole.gaussian.covariance, atol=0.05)
