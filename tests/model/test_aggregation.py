"""F(z): every choice keeps members and rows apart, tells attributes apart, and trains."""

from __future__ import annotations

import pytest
import torch

from conftest import PLAIN
from vsae.fitting.fit import fit
from vsae.model.aggregation import Attention, aggregation
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE
from vsae.training.objective import elbo

KINDS = ["concat", "pooled", "attention"]


@pytest.mark.parametrize("kind", KINDS)
def test_members_rows_and_attributes_are_told_apart(kind):
    aggregate = aggregation(kind, members=2, attributes=3, latent_dim=4, width=16)
    z = torch.randn(2, 5, 3, 4)
    before = aggregate(z)
    assert before.shape == (2, 5, aggregate.width)
    changed = z.clone()
    changed[1, 2, 0] += 1.0
    moved = (aggregate(changed) != before).any(-1)
    assert moved.sum() == 1
    assert moved[1, 2]
    assert not torch.allclose(aggregate(z.flip(2)), before)


@pytest.mark.parametrize("kind", ["pooled", "attention"])
def test_the_context_does_not_grow_with_the_attributes(kind):
    few, many = (aggregation(kind, 1, m, latent_dim=4, width=16) for m in (3, 30))
    assert few.width == many.width == 16
    sizes = [sum(p.numel() for p in each.parameters()) for each in (few, many)]
    assert sizes[1] == 10 * sizes[0]


def test_a_width_that_queries_can_not_share_is_refused():
    with pytest.raises(ValueError, match="a width of 20 can not be shared by 8 queries"):
        Attention(1, 3, 4, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_trains_with_each(schema, table, batch, kind):
    model = VSAE(schema, VSAEConfig(**PLAIN, aggregation=kind))
    elbo(model, batch).total.sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.aggregate.parameters())
    columns, mask = table
    fitted = fit(schema, columns, mask, VSAEConfig(**PLAIN, aggregation=kind, steps=3))
    assert fitted.generate(4)[1].shape == (4, len(schema))
