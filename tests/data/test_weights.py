"""Rows with weights are what rows are that are there as often."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import every_kind, rows_of
from vsae.data.batch import Batch
from vsae.data.encoding import Encoding
from vsae.data.schema import Schema, categorical, real
from vsae.data.weights import effective_rows, systematic
from vsae.fitting.growth import grow
from vsae.model.config import VSAEConfig
from vsae.model.forest import Fill
from vsae.model.vsae import VSAE
from vsae.training.validation import HeldOut


def weighted_and_repeated(rows=300, seed=0):
    """The same table twice, as batches in the same units."""
    rng = np.random.default_rng(seed)
    schema = Schema([real("a"), real("b"), categorical("c", 3)])
    a = rng.normal(size=rows)
    columns = {"a": a, "b": a + rng.normal(size=rows), "c": rng.integers(0, 3, rows)}
    mask, weight = rng.random((rows, 3)) < 0.8, rng.integers(1, 5, rows)
    often = np.repeat(np.arange(rows), weight)
    repeated = {name: x[often] for name, x in columns.items()}
    encoding = Encoding.fit(schema, columns, mask, weight=weight.astype(float))
    one = encoding.encode(columns, mask)
    one = Batch(one.values, one.mask, weight=torch.tensor(weight / weight.mean()).float())
    return schema, one, encoding.encode(repeated, mask[often]), encoding, (repeated, mask[often])


def test_a_systematic_sample_has_every_row_as_often_as_it_weighs():
    weight = torch.tensor([0.5, 3.0, 1.25, 0.0, 2.25])
    for start in (0.01, 0.5, 0.99):
        count = torch.bincount(systematic(weight, 14, start), minlength=5)
        assert ((count - 2 * weight).abs() < 1).all()
        assert count[3] == 0
    assert effective_rows(weight[weight > 0]) < 4


def test_statistics_of_weighted_rows_are_those_of_repeated_ones():
    schema, one, many, encoding, repeated = weighted_and_repeated()
    again = Encoding.fit(schema, *repeated)
    for name in encoding.loc:
        np.testing.assert_allclose(encoding.loc[name], again.loc[name])
        np.testing.assert_allclose(encoding.scale[name], again.scale[name])
    models = []
    for data in (one, many):
        torch.manual_seed(0)
        model = VSAE(schema, VSAEConfig(members=1))
        model.fit_statistics(data)
        models.append(model)
    torch.testing.assert_close(models[0].features.knots[:, 6:-6], models[1].features.knots[:, 6:-6], atol=0.1, rtol=0)
    torch.testing.assert_close(models[0].gaussian.centre, models[1].gaussian.centre, atol=0.05, rtol=0)
    torch.testing.assert_close(models[0].gaussian.covariance, models[1].gaussian.covariance, atol=0.05, rtol=0)
    torch.testing.assert_close(models[0].remask_weights, models[1].remask_weights)
    # … but they are worth fewer rows
    assert 100 < models[0].gaussian.moments[0, 0, 0] < 300 < models[1].gaussian.moments[0, 0, 0]


def test_trees_and_scores_of_weighted_rows_are_those_of_repeated_ones():
    schema, one, many, *_ = weighted_and_repeated()
    means = []
    for data in (one, many):
        numbers, levels = torch.zeros(data.rows, 2), {"c": torch.full((data.rows, 3), 1 / 3)}
        grown = grow(schema, data, lambda _, n=numbers, x=levels: Fill(n, x), 50, 0)  # type: ignore[misc]
        a = Fill(torch.linspace(-1.5, 1.5, 20)[:, None].repeat(1, 2), {"c": torch.full((20, 3), 1 / 3)})
        nothing = Batch(data.take(slice(0, 20)).values, torch.zeros(20, 3, dtype=torch.bool))
        means.append(grown.forest.predict(grown.forest.inputs(nothing, a), {"b": torch.arange(20)})["b"])
    assert (means[0] - means[1]).abs().mean() < 0.15
    scores = []
    torch.manual_seed(0)
    model = VSAE(schema, VSAEConfig(members=1)).eval()
    for data in (one, many):
        withheld = torch.zeros_like(data.mask)
        withheld[:, 1] = data.mask[:, 1]
        rows = Batch(data.values, data.mask, withheld, weight=data.weight)
        scores.append(float(HeldOut.of(schema, rows).score(model)))
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)


def test_rows_in_proportion_are_as_many_as_they_are_worth():
    _, one, many, *_ = weighted_and_repeated()
    rows = one.in_proportion(torch.arange(one.rows))
    assert len(rows) == round(effective_rows(one.weight)) < one.rows
    assert float(one.weight[rows].mean()) > float(one.weight.mean())
    assert many.in_proportion(torch.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_a_batch_keeps_its_weights():
    schema = every_kind()
    columns, mask = rows_of(schema, 20)
    data = Encoding.fit(schema, columns, mask).encode(columns, mask)
    data = Batch(data.values, data.mask, weight=torch.arange(20.0))
    assert data.take(torch.tensor([[3, 4]])).weight.tolist() == [[3.0, 4.0]]
    assert data.with_mask(data.mask).for_members().weight.shape == (1, 20)
